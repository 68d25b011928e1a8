"""May this tool be called so? The call taken apart into its effects, each held against the rules.

Says nothing about what a tool really does: it goes by its row in `tools.py`, what it names, and what it declares.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never
from urllib.parse import urlsplit

from gateway.policy.action import decide_request
from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import LABELS, Action
from gateway.policy.decision import Verdict
from gateway.policy.grounds import Grounds, Place
from gateway.policy.hosts import HostError, split_authority
from gateway.policy.judgement import STRICTNESS, Judgement, Verdicts, whole
from gateway.policy.lines import judge_line
from gateway.policy.modes import READ_ONLY
from gateway.policy.push import PushRequest, UpdateKind, decide_push
from gateway.policy.rules import DEFAULT, PRESET, RuleSet, Subject
from gateway.policy.tool_call import ToolCall
from gateway.policy.tools import Kind, Tool, find_tool
from gateway.policy.wording import printable

# Where the verdict on a call stands that no rule of an operator gave.
UNCLEAR: Final = "unclear"
FILE_RULES: Final = "file_rules"
NETWORK_OFF: Final = "network_off"
GATEWAY: Final = "gateway"
# Characters of a target in a line for people.
_SHOWN: Final = 200
_URL: Final = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_WEB: Final = frozenset({"http", "https"})
_NEW: Final = frozenset({"create_branch"})


def judge_call(
    rules: RuleSet, subject: Subject, call: ToolCall, grounds: Grounds, *, network: bool = True
) -> Verdicts:
    """The verdict on a call, that of its most restrictive part. `network` says whether the session has one."""
    bench = _Bench(rules, subject, call, grounds.at(call.cwd) if call.cwd else grounds, network)
    return whole(bench.parts())


@dataclass(frozen=True, slots=True)
class _Bench:
    """One call before the rules."""

    rules: RuleSet
    subject: Subject
    call: ToolCall
    grounds: Grounds
    network: bool

    def parts(self) -> Iterator[Judgement]:
        """Never none."""
        tool = find_tool(self.call.tool)
        yield from self._unknown() if tool is None else self._known(tool)
        known = tool.effects if tool is not None else ()
        for action in self.call.effects:
            if action not in known:
                yield self._declared(action)
        for name in self.call.unclear:
            yield self._unclear(f"it declares the effect {_shown(name)}, which is none that is known")

    def _unknown(self) -> Iterator[Judgement]:
        call = self.call
        if call.command:
            yield from judge_line(self.rules, self.subject, call.command, self.grounds).parts
        if not call.effects and not call.unclear:
            yield self._unclear("it is not known what this tool does")

    def _known(self, tool: Tool) -> Iterator[Judgement]:
        if not tool.is_offered and self.subject.mode in READ_ONLY:
            yield self._denied_by_mode(tool)
            return
        match tool.kind:
            case Kind.OWN:
                yield self._allow("this tool changes nothing that there are rules about")
            case Kind.READ:
                yield from self._reads()
            case Kind.WRITE | Kind.PATCH:
                yield from self._writes()
            case Kind.SHELL:
                yield from judge_line(self.rules, self.subject, self.call.command, self.grounds).parts
            case Kind.WEB:
                yield from self._fetches()
            case Kind.ACT:
                yield from (self._act(action) for action in tool.effects)
            case _:
                assert_never(tool.kind)

    # --- Files ------------------------------------------------------------------------------------

    def _reads(self) -> Iterator[Judgement]:
        for path in self._paths(self.call.targets or (".",)):
            if self.grounds.is_secret(path):
                yield self._decide(Action.ACCESS_SECRET, target=path, path=path)
            else:
                yield self._allow("reading this needs nobody's leave", path)

    def _writes(self) -> Iterator[Judgement]:
        for path in self._paths((*self.call.targets, *self.call.deleted)):
            yield self._write(path)
        for path in self._paths(self.call.deleted):
            yield self._decide(Action.DELETE_FILE, target=path, path=path)

    def _write(self, path: str) -> Judgement:
        """Also in a mode that only reads, where a tool that is not known to write declares that it does."""
        if not path:
            return self._unclear("it cannot be told which file it writes")
        place = self.grounds.place(path)
        if place is not Place.PRIVATE and self.grounds.is_protected(path):
            return Judgement(
                Verdict.DENY,
                FILE_RULES,
                _line(f"{path} may not be written in this session"),
                self._text(path),
            )
        if place is Place.OUTSIDE:
            return self._decide(Action.WRITE_OUTSIDE, target=path, path=path)
        return self._allow("it is written where this session may write", path)

    def _paths(self, targets: Iterable[str]) -> list[str]:
        """Each path once; an empty one for what cannot be told."""
        return list(dict.fromkeys(self.grounds.absolute(target) for target in targets))

    # --- The network ------------------------------------------------------------------------------

    def _fetches(self) -> Iterator[Judgement]:
        urls = [url for target in self.call.targets for url in _URL.findall(target)]
        if not urls:
            yield self._unclear("it names no address that begins with http:// or https://")
        for url in dict.fromkeys(urls):
            host = _host(url)
            if host:
                yield self._network(url, host)
            else:
                yield self._unclear(f"{_shown(url)} is no address with a host")

    def _network(self, target: str, host: str) -> Judgement:
        if not self.network:
            return Judgement(
                Verdict.DENY, NETWORK_OFF, "the network is off for this session", self._text(target)
            )
        return self._decide(Action.ACCESS_NETWORK, target=target, host=host)

    # --- Effects ----------------------------------------------------------------------------------

    def _act(self, action: Action) -> Judgement:
        if action is Action.PUSH:
            return self._push()
        if action is Action.ACCESS_NETWORK:
            return self._network(self.call.target, "")
        return self._decide(action, target=self.call.target)

    def _declared(self, action: Action) -> Judgement:
        """What an agent says of its call can tighten what its tool is known for, and no more than that."""
        call = self.call
        if action is Action.PUSH and self.subject.mode not in READ_ONLY:
            return self._allow("the gateway decides when the push happens", call.target, GATEWAY)
        if action is Action.ACCESS_NETWORK:
            return self._network(call.target, next(filter(None, map(_host, call.targets)), ""))
        path = self.grounds.absolute(call.target) if action in _OF_FILES else ""
        return self._decide(action, target=path or call.target, path=path)

    def _push(self) -> Judgement:
        """A push by the forge's API, past the push gateway: judged here as the push that it is."""
        call = self.call
        if call.repository is None or not call.branch:
            if self.subject.mode in READ_ONLY:
                return self._decide(Action.PUSH, target=call.target)
            return self._unclear("it cannot be told to which branch of which repository it pushes")
        new = any(call.tool.endswith(f"__{name}") for name in _NEW)
        kinds = (UpdateKind.CREATE,) if new else (UpdateKind.CREATE, UpdateKind.FAST_FORWARD)
        ref = f"refs/heads/{call.branch}"
        decisions = [
            decide_push(self.rules, self.subject, PushRequest(call.repository, ref, kind)) for kind in kinds
        ]
        worst = max(decisions, key=lambda decision: STRICTNESS.index(decision.verdict))
        text = self._text(f"{call.branch} of {call.repository}")
        return Judgement(worst.verdict, worst.rule, worst.reason, text, code=worst.code)

    def _decide(self, action: Action, *, target: str = "", host: str = "", path: str = "") -> Judgement:
        request = ActionRequest(
            action,
            target=target,
            host=host,
            path=path,
            repository=self.call.repository,
            tool=self.call.tool,
        )
        decision = decide_request(self.rules, self.subject, request)
        text = self._text(target)
        return Judgement(decision.verdict, decision.rule, decision.reason, text, (request,), decision.code)

    # --- What no rule decides ---------------------------------------------------------------------

    def _allow(self, reason: str, target: str = "", rule: str = DEFAULT) -> Judgement:
        return Judgement(Verdict.ALLOW, rule, reason, self._text(target or self.call.target))

    def _unclear(self, what: str) -> Judgement:
        mode = self.subject.mode
        if mode in READ_ONLY:
            reason = f"{what}, and this session is in mode {mode}, which changes nothing"
            return Judgement(Verdict.DENY, UNCLEAR, _line(reason), self._text(self.call.target))
        return Judgement(
            Verdict.ASK, UNCLEAR, _line(f"{what}: a person must approve it"), self._text(self.call.target)
        )

    def _denied_by_mode(self, tool: Tool) -> Judgement:
        mode = self.subject.mode
        effects = tuple(
            ActionRequest(action, target=self.call.target, tool=self.call.tool) for action in tool.effects
        )
        named = f" ({', '.join(LABELS[action] for action in tool.effects)})" if tool.effects else ""
        reason = _line(
            f"{self.call.tool}{named} is denied: this session is in mode {mode}, which changes nothing"
        )
        return Judgement(Verdict.DENY, f"{PRESET}:{mode}", reason, self._text(self.call.target), effects)

    def _text(self, target: str) -> str:
        return _line(f"{self.call.tool} {target}" if target else self.call.tool)


_OF_FILES: Final = frozenset({Action.WRITE_OUTSIDE, Action.DELETE_FILE, Action.ACCESS_SECRET})


def _host(url: str) -> str:
    """The host of an address in normal form; empty where there is none."""
    try:
        parts = urlsplit(url)
        if parts.scheme.lower() not in _WEB or not parts.netloc:
            return ""
        return split_authority(parts.netloc.rpartition("@")[2], 443)[0]
    except (HostError, ValueError):
        return ""


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _line(text: str) -> str:
    return printable(text)
