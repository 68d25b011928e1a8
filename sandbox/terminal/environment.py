"""The environment of a person's own shell (`--profile terminal`): the host's, less what a wrap has to keep out. Pure.

Nothing is set that an agent gets: no proxies, no tokens, no word of ours. Without a wrap all of the host's passes. In
one, what is a login by name or value goes, and what leads to a service of the host; loader and interpreter variables
stay, since they are the person's own and the person's own files could say the same.
"""

from collections.abc import Collection, Mapping

from gateway.errors import UsageError
from sandbox import variables as lists
from sandbox.env import Environment, Names, is_credential, is_model_provider

_OWN_SESSION = Names(lists.OWN_SESSION)
_OWN = Names(lists.OWN)
_WITHHELD = Names(lists.SOCKETS, lists.GIT_SETTINGS)
# The wrap has temporary files of its own: the host's directory for them may not be there.
TMPDIR = "/tmp"
TEMPORARY = frozenset({"TMPDIR", "TMP", "TEMP", "TMPPREFIX"})


def terminal_environment(
    host: Mapping[str, str],
    *,
    is_wrapped: bool,
    pass_names: Collection[str] = (),
    set_values: Mapping[str, str] | None = None,
) -> Environment:
    """`host` is the launcher's own environment, `pass_names` and `set_values` are `--env` and the configuration, which
    win. UsageError for a name among these that nobody may set."""
    chosen = dict(set_values or {})
    for name in (*pass_names, *chosen):
        refuse_terminal_name(name)
    passed = {
        name: value
        for name, value in host.items()
        if name not in _OWN_SESSION
        and (name in pass_names or not is_wrapped or not _is_withheld(name, value))
    }
    values = passed | ({"TMPDIR": TMPDIR} if is_wrapped else {}) | chosen
    return Environment(
        values, tuple(sorted(passed)), tuple(sorted(set(host) - set(passed))), tuple(sorted(chosen))
    )


def refuse_terminal_name(name: str) -> None:
    """UsageError for a variable that neither `--env` nor the configuration may set for a person's own shell."""
    if not name or "=" in name or "\0" in name:
        raise UsageError(f"{name!r} is not the name of a variable")
    if name in _OWN:
        raise UsageError(f"{name} is this program's own word to the wrapped process")


def _is_withheld(name: str, value: str) -> bool:
    if name in TEMPORARY or name in _WITHHELD:
        return True
    return not is_model_provider(name) and is_credential(name, value)
