"""May this shell line run? Every command in it, and every one that those start, held against the modes and the rules.

The verdict on a line is that of its most restrictive part. It recognises the usual spelling of an action: scripts,
programs in other languages and raw calls of an API can hide one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.action import decide_request
from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.classification import Denial, Meaning, classify
from gateway.policy.constraints import Commands
from gateway.policy.decision import Decision, Verdict
from gateway.policy.effects import Effects, Places, effects_of, effects_of_redirects
from gateway.policy.grounds import Grounds
from gateway.policy.judgement import STRICTNESS, Judgement, Verdicts, whole
from gateway.policy.modes import READ_ONLY
from gateway.policy.reasons import MAX_REASON, cut
from gateway.policy.rules import DEFAULT, PRESET, RuleSet, Subject, decide_action
from gateway.policy.shell import read_line
from gateway.policy.shell_line import MAX_COMMANDS, MAX_SHOWN, UNREAD, Command, Problem, ShellLine
from gateway.policy.shell_words import Vague, shown
from gateway.policy.started import Started, Words, canonical_name, judge_variable, program_name
from gateway.policy.unwrapping import started
from gateway.policy.wording import printable

# Where the verdict on a part stands that no rule of an operator gave.
UNCLEAR: Final = "unclear"
GATEWAY: Final = "gateway"
FILE_RULES: Final = "file_rules"
LIMIT: Final = "limit"
DENY_LIST: Final = "deny-list"
# Shell lines inside of one another: `bash -c "bash -c …"`.
_MAX_NESTING: Final = 16
# Directories that a line may have gone to; with more of them relative paths are not known.
_MAX_DIRECTORIES: Final = 8
# Characters of a command's name in a reason.
_SHOWN: Final = 60
_EFFECTS_WITHOUT_A_SAY: Final = frozenset({Action.SPAWN_PROCESS, Action.ACCESS_NETWORK, Action.ACCESS_SECRET})


def judge_line(rules: RuleSet, subject: Subject, text: str, grounds: Grounds) -> Verdicts:
    """The verdict on a line, with one judgement for each command, and one for whatever keeps it from being known."""
    return whole(_Bench(rules, subject, grounds).judge(text))


@dataclass(frozen=True, slots=True)
class _Say:
    """What one authority says of a part."""

    verdict: Verdict
    rule: str
    reason: str
    code: str = ""


@dataclass(slots=True)
class _Part:
    """A command on its way to a judgement."""

    text: str
    says: list[_Say] = field(default_factory=list)
    requests: list[ActionRequest] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def judgement(self) -> Judgement:
        """The most restrictive of what is said; of equals the first, but what somebody allows before a default."""
        worst = max(self.says, key=_weight)
        reason = cut(printable(worst.reason), MAX_REASON)
        return Judgement(worst.verdict, worst.rule, reason, self.text, tuple(self.requests), worst.code)


def _weight(say: _Say) -> tuple[int, bool]:
    return STRICTNESS.index(say.verdict), say.verdict is Verdict.ALLOW and say.rule != DEFAULT


class _Bench:
    """One line before the rules. Remembers decisions while it lasts."""

    def __init__(self, rules: RuleSet, subject: Subject, grounds: Grounds) -> None:
        self._rules = rules
        self._subject = subject
        self._grounds = grounds
        self._reads_only = subject.mode in READ_ONLY
        self._decisions: dict[ActionRequest, Decision] = {}
        self._left = MAX_COMMANDS

    def judge(self, text: str) -> Iterator[Judgement]:
        """The judgements on a line, and on those inside of it."""
        line = read_line(text)
        pending = [(line, text, 0)]
        # Names that the line gives to something else: no inner text can take that back.
        renamed: set[str] = set()
        while pending:
            line, source, depth = pending.pop(0)
            yield from (self._trouble(problem, source) for problem in line.problems)
            renamed |= set(_renamed(line))
            places = Places(self._directories(line))
            for command in line.commands:
                self._left -= 1
                if self._left < 0 or depth > _MAX_NESTING:
                    yield self._limit(source)
                    return
                found = self._started(command)
                yield from self._parts(command, found, places, renamed)
                pending.extend((read_line(inner), inner, depth + 1) for inner in found.texts if inner.strip())

    # --- What is said of a part -------------------------------------------------------------------

    def _started(self, command: Command) -> Started:
        inputs = [one for one in command.redirects if one.operator in {"<", "<<", "<<<"}]
        document = inputs[-1].target if inputs and inputs[-1].operator != "<" else None
        found = started(command.words, document if isinstance(document, str) else None)
        for name, value in command.assignments:
            judge_variable(name, value, found)
        return found

    def _parts(
        self, command: Command, found: Started, places: Places, renamed: set[str]
    ) -> Iterator[Judgement]:
        parts = [self._simple(words, command.text, places, renamed) for words in found.simple]
        redirected = Effects()
        effects_of_redirects(redirected, command.redirects, _names(found), places)
        if (
            not parts
            or redirected.requests
            or redirected.denials
            or redirected.protected
            or redirected.changed
        ):
            part = parts[0] if parts else _Part(command.text)
            parts = parts or [part]
            self._say_effects(part, redirected)
        # A doubt is a part of its own, with nothing in it that a yes could be remembered by.
        doubts = [*found.doubts, *(doubt for part in parts for doubt in part.doubts)]
        parts.extend(_Part(command.text, [self._doubt(doubt)]) for doubt in dict.fromkeys(doubts))
        for part in parts:
            if not part.says:
                part.says.append(_Say(Verdict.ALLOW, DEFAULT, "it starts nothing that there are rules about"))
            yield part.judgement()

    def _simple(self, words: Words, text: str, places: Places, renamed: set[str]) -> _Part:
        meaning = classify(words)
        part = _Part(text)
        effects = effects_of(meaning, words, places)
        self._say_denials(part, [*meaning.denials, *effects.denials])
        effects.denials.clear()
        if self._reads_only and (meaning.changes or meaning.asks):
            reason = f"{_name(meaning)} changes something, and this session is in mode {self._subject.mode}"
            part.says.append(_Say(Verdict.DENY, f"{PRESET}:{self._subject.mode}", reason))
        if meaning.doubt:
            part.doubts.append(meaning.doubt)
        if meaning.name in renamed or meaning.words[0] in renamed:
            part.doubts.append(f"the line gives {cut(meaning.words[0], _SHOWN)} another meaning")
        self._say_effects(part, effects)
        if meaning.asks and not self._reads_only and not _has_a_say(meaning) and not self._is_settled(part):
            reason = f"{_name(meaning)} changes something outside of this session: a person must approve it"
            part.says.append(_Say(Verdict.ASK, f"{PRESET}:{self._subject.mode}", reason))
        return part

    def _say_effects(self, part: _Part, effects: Effects) -> None:
        self._say_denials(part, effects.denials)
        for path in effects.protected:
            part.says.append(_Say(Verdict.DENY, FILE_RULES, f"{path} may not be written in this session"))
        if effects.changed and self._reads_only:
            reason = (
                f"{effects.changed[0]} would be written, and this session is in mode {self._subject.mode}"
            )
            part.says.append(_Say(Verdict.DENY, f"{PRESET}:{self._subject.mode}", reason))
        for request in effects.requests:
            if request.action is Action.PUSH and not self._reads_only:
                reason = "the push gateway decides when the push happens"
                part.says.insert(0, _Say(Verdict.ALLOW, GATEWAY, reason))
            else:
                decision = self._decide(request)
                part.says.append(_Say(decision.verdict, decision.rule, decision.reason, decision.code))
            part.requests.append(request)

    def _say_denials(self, part: _Part, denials: Sequence[Denial]) -> None:
        for denial in denials:
            reason = f"{cut(denial.name, _SHOWN)} is never allowed here: {denial.why}"
            part.says.append(_Say(Verdict.DENY, f"{DENY_LIST}:{printable(denial.name)}", reason))

    def _decide(self, request: ActionRequest) -> Decision:
        found = self._decisions.get(request)
        if found is None:
            found = self._decisions[request] = decide_request(self._rules, self._subject, request)
        return found

    def _is_settled(self, part: _Part) -> bool:
        """Whether an operator's rule names this very command: then it speaks in the place of the mode."""
        for request in part.requests:
            if request.action is Action.SPAWN_PROCESS:
                rule = decide_action(self._rules, self._subject, request).rule
                if rule is not None and not rule.advises:
                    return any(isinstance(one, Commands) for one in rule.constraints)
        return False

    # --- What cannot be told ----------------------------------------------------------------------

    def _doubt(self, what: str) -> _Say:
        if self._reads_only:
            reason = f"{what}, and this session is in mode {self._subject.mode}, which changes nothing"
            return _Say(Verdict.DENY, UNCLEAR, reason)
        return _Say(Verdict.ASK, UNCLEAR, f"{what}: write it out, or have a person approve it")

    def _trouble(self, problem: Problem, source: str) -> Judgement:
        say = self._doubt(problem)
        if problem in UNREAD:
            rule = UNCLEAR if problem is Problem.NOTHING else LIMIT
            say = _Say(Verdict.DENY, rule, f"the line is not run: {problem}")
        return _Part(source[:MAX_SHOWN], [say]).judgement()

    def _limit(self, source: str) -> Judgement:
        reason = "the line is not run: it starts too many commands, or they start one another too often"
        return Judgement(Verdict.DENY, LIMIT, reason, source[:MAX_SHOWN])

    def _directories(self, line: ShellLine) -> list[Grounds]:
        """The session's grounds from every directory that a `cd` of the line may lead to; the first as they are."""
        found = [self._grounds]
        for command in line.commands:
            words = command.words
            if not words or words[0] not in {"cd", "pushd", "popd"}:
                continue
            operands = [
                word
                for word in words[1:]
                if not (isinstance(word, str) and word.startswith("-") and word != "-")
            ]
            target = operands[0] if operands else Vague("~", "~", home=True)
            known = (isinstance(target, str) and target not in ("", "-")) or (
                isinstance(target, Vague) and target.home and not target.pattern
            )
            if words[0] == "popd" or not known or len(found) > _MAX_DIRECTORIES:
                # Nobody knows where: relative paths are not known from here on.
                return [*found, self._grounds.at("")]
            text = target if isinstance(target, str) else target.text
            if isinstance(target, str) and target.startswith("~"):
                text = f"./{text}"
            found.extend(one for one in [other.at(text) for other in found] if one not in found)
        return found


def _names(found: Started) -> tuple[str, ...]:
    """The words of the command whose streams are redirected."""
    return tuple(map(shown, found.simple[0])) if found.simple else ()


def _name(meaning: Meaning) -> str:
    return cut(" ".join(meaning.words[:3]), _SHOWN)


def _has_a_say(meaning: Meaning) -> bool:
    """Whether an action of its own has been decided, so that the mode need not ask."""
    return any(action not in _EFFECTS_WITHOUT_A_SAY for action in meaning.effects)


def _renamed(line: ShellLine) -> Iterator[str]:
    """The names that a line makes mean something else: aliases, and what `hash -p` says."""
    for command in line.commands:
        words = command.words
        if not words or isinstance(words[0], Vague):
            continue
        name = canonical_name(program_name(words[0]))
        if name == "alias":
            yield from (word.partition("=")[0] for word in words[1:] if isinstance(word, str) and "=" in word)
        elif name == "hash" and "-p" in words:
            yield from (word for word in words[2:] if isinstance(word, str))
