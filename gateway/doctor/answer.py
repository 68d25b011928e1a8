"""The answer of `agent-gateway doctor`: what was found, which backend is in force, and what holds under it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from shutil import get_terminal_size
from typing import Final

from gateway.doctor import boundaries, findings
from gateway.doctor.examination import examine
from gateway.doctor.place import find_place
from gateway.doctor.wrapping import backend_in_force

# Columns where there is no terminal to ask.
_NO_TERMINAL: Final = 100


class Form(StrEnum):
    """How it is told. Markdown is for the table of boundaries alone."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class Answer:
    """All findings, and the backend that `run` without options would take."""

    findings: tuple[findings.Finding, ...]
    backend: str

    @property
    def status(self) -> int:
        """The exit status: 1 where something failed; warnings are none."""
        return 1 if findings.worst(self.findings) is findings.Verdict.FAILED else 0

    def as_json(self) -> Mapping[str, object]:
        """For programs."""
        return {
            "verdict": findings.worst(self.findings).value,
            "findings": [one.as_json() for one in self.findings],
            "backend": self.backend,
            "boundaries": boundaries.as_json(),
        }

    def told(self, form: Form, *, is_coloured: bool) -> str:
        """All of it, as wide as the terminal is."""
        if form is Form.JSON:
            return json.dumps(self.as_json())
        found = findings.as_text(
            self.findings, width=get_terminal_size((_NO_TERMINAL, 0)).columns, is_coloured=is_coloured
        )
        return f"{found}\n\n{boundaries.as_text(self.backend)}"


def ask(config_file: str | None, environ: Mapping[str, str]) -> Answer:
    """Looks at everything. GatewayError where there is no home to keep state in."""
    place = find_place(config_file, environ)
    return Answer(examine(place), backend_in_force(place))


def boundaries_told(form: Form) -> str:
    """The table of boundaries alone; nothing is looked at for it."""
    if form is Form.JSON:
        return json.dumps(boundaries.as_json())
    return boundaries.as_markdown() if form is Form.MARKDOWN else boundaries.as_text()
