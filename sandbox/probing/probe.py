"""What a look at a host tells: can this backend run here, and what to do where it cannot. A value only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """Can this backend run here? `note` says what the layer is, `hint` what to do when it is not available.

    `requires_install` names the missing packages; it is empty when something other than a package is in the way.
    `is_unsure`: it could not be found out, which is no answer of the host's.
    """

    available: bool
    note: str = ""
    requires_install: tuple[str, ...] = ()
    hint: str = ""
    is_unsure: bool = False
