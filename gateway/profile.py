"""`profile`: what `run` would use as its wrap, on either platform, for people and scripts to look at.

Nothing is run, made or recorded. No value of a variable and no token is in it: those travel by other ways.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from gateway.as_written import named_as_written
from gateway.errors import GatewayError
from gateway.options import RunOptions
from gateway.plan import Plan, make_plan
from gateway.session import Bridge, Profile
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend, Command, Execution, OnEvent, Running
from sandbox.backends.bubblewrap import PORTS, PYTHON_FLAGS, wrap_arguments
from sandbox.backends.seatbelt import NOTE as SEATBELT_NOTE
from sandbox.launch import NATIVE
from sandbox.layout import STUB
from sandbox.mounts import plan_wrap
from sandbox.probing.probe import Probe
from sandbox.probing.trial import NOTE, find_bubblewrap
from sandbox.seatbelt.plan import preview
from sandbox.spec import SandboxSpec
from sandbox.terminal.wrap import plan_terminal

# Nothing runs here, so its line says what would be.
WOULD = "run would say: "
SOCAT_NOTE = "bridge: socat: run also binds the bridge's sockets, and starts socat inside"


class Platform(StrEnum):
    """Whose wrap is shown."""

    LINUX = "linux"
    MACOS = "macos"

    @property
    def system(self) -> str:
        """What `sys.platform` calls it."""
        return "darwin" if self is Platform.MACOS else "linux"


@dataclass(frozen=True, slots=True)
class Answer:
    """What would be run. `argv` starts the wrap (empty: there would be none) and `text` is its Seatbelt profile (empty
    on Linux); `descriptors` say what would be passed along, by number, and `rules` what the supervisor of the file
    rules would be told (None: it is not used). `notes` are for the user, a line each."""

    platform: Platform
    backend: str
    line: str
    argv: tuple[str, ...] = ()
    text: str = ""
    descriptors: Mapping[int, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    rules: Mapping[str, Sequence[str]] | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_wrapped(self) -> bool:
        """Whether there would be a wrap at all."""
        return bool(self.argv)

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {
            "platform": self.platform.value,
            "backend": self.backend,
            "line": self.line,
            "argv": list(self.argv),
            "profile": self.text or None,
            "descriptors": {str(number): what for number, what in self.descriptors.items()},
            "command": list(self.command),
            "file_rules": None if self.rules is None else {name: list(of) for name, of in self.rules.items()},
        }

    def as_text(self) -> str:
        """For people: the Seatbelt profile itself, or a command line that a shell would read, an option a line."""
        if self.text:
            return self.text.rstrip("\n")
        lines: list[list[str]] = [[]]
        for word in self.argv:
            if word.startswith("--") and lines[-1][:1] != ["--"]:
                lines.append([])
            lines[-1].append(word)
        shown = " \\\n  ".join(_quoted(words) for words in lines)
        passed = "".join(f"\n# descriptor {number}: {what}" for number, what in self.descriptors.items())
        told = f"\n# the channel then says: {_quoted(self.command)}" if self.command else ""
        return shown + passed + told


class _Shown:
    """A native backend that is only looked at: whether it works here is not asked, since nothing is to be run."""

    name = NATIVE

    def __init__(self, note: str) -> None:
        self._note = note

    def probe(self) -> Probe:
        return Probe(True, self._note)

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Running:
        raise GatewayError("this is only a description")

    def exec(self, running: Running, command: Command) -> Execution:
        raise GatewayError("this is only a description")

    def suspend(self, running: Running) -> None:
        raise GatewayError("this is only a description")

    def resume(self, running: Running) -> None:
        raise GatewayError("this is only a description")

    def destroy(self, running: Running) -> None:
        """There is nothing."""


def plan_unasked(options: RunOptions, environ: Mapping[str, str], platform: Platform) -> Plan:
    """What `run` would do; whether its wrap works here is not asked. The same errors as of `run`, except for those that
    only a run could find."""
    note = NOTE if platform is Platform.LINUX else SEATBELT_NOTE
    backends: Sequence[Backend] = (_Shown(note), *(one for one in BACKENDS if one.name != NATIVE))
    return make_plan(options, environ, platform.system, backends)


def describe(options: RunOptions, environ: Mapping[str, str], platform: Platform) -> Answer:
    """What `run` would use. The errors are those of `plan_unasked`."""
    plan = plan_unasked(options, environ, platform)
    answer = Answer(
        platform,
        plan.choice.backend.name,
        plan.choice.line,
        notes=(f"{WOULD}{plan.choice.line}", *plan.notes),
    )
    if plan.choice.backend.name != NATIVE:
        return answer
    with named_as_written(plan.options, plan.spec):
        return _on_linux(plan, answer) if platform is Platform.LINUX else _on_macos(plan, answer)


def _on_linux(plan: Plan, answer: Answer) -> Answer:
    """bubblewrap's command line with its arguments in place of the descriptor that it reads them from."""
    spec = plan.spec
    is_agent = spec.profile is Profile.AGENT
    wrap = plan_wrap(spec, make_home=False) if is_agent else plan_terminal(spec)
    passed = {3: "the launcher's channel", 4: "bubblewrap's word to the launcher", 5: "stderr of the command"}

    def pass_on(what: str) -> str:
        passed[len(passed) + 3] = what
        return str(len(passed) + 2)

    names = [
        *(["the system-call filter"] if wrap.governed is None else []),
        *(file.path for file in wrap.files),
    ]
    contents = iter(names)
    arguments = wrap_arguments(
        wrap, spec.group, "4", lambda content: pass_on(f"{next(contents)} ({len(content)} bytes)")
    )
    stub = [wrap.python, *PYTHON_FLAGS, STUB, "3", "5", *(map(str, PORTS) if is_agent else ())]
    if wrap.governed is not None:
        stub.append(f"{pass_on('the supervisor of the file rules')},{pass_on('its orders to the stub')}")
    return replace(
        answer,
        argv=(find_bubblewrap() or "bwrap", *arguments, "--", *stub),
        descriptors=passed,
        command=plan.options.command,
        rules=asdict(wrap.governed) if wrap.governed is not None else None,
        notes=(*answer.notes, *wrap.notes, *((SOCAT_NOTE,) if spec.bridge is Bridge.SOCAT else ())),
    )


def _on_macos(plan: Plan, answer: Answer) -> Answer:
    """The Seatbelt profile; what only a launch knows is a placeholder."""
    shown = preview(plan.spec)
    return replace(
        answer,
        argv=shown.argv,
        text=shown.profile,
        command=plan.options.command,
        notes=(*answer.notes, *shown.notes),
    )


def _quoted(words: Sequence[str]) -> str:
    """The words as a shell reads them; what a terminal would obey stands in $'...'."""
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    octal = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\{byte:03o}"
        for byte in os.fsencode(word)
    )
    return f"$'{octal}'"
