"""A fault in a list or config file: where it is, what is wrong, and what to write instead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `line` counts from 1; 0 means the file as a whole. A warning does not stop a start."""

    file: str
    line: int
    message: str
    warning: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {'warning: ' if self.warning else ''}{self.message}"
