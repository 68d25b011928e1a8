"""Which replacements of a repository's git configuration are harmless. Pure.

Git on the host obeys `.git/config`: much of it runs programs, says where programs are, or where pushes go. So only
settings of the table below may be added, changed or taken away, each with values that do nothing but what the table
says; all others have to be the same afterwards, in the same order. How the file is laid out does not matter.

Not in the table, though they run nothing: remotes' addresses and `push.default` (where pushes go), `user.name` and
`user.email` (the user's own commits would bear them afterwards), `core.*`, and `gc.*` (which has a hook by now).

Imported by a process that has to start fast: no `re` or `dataclasses`.
"""

from collections.abc import Callable, Mapping

from sandbox.git.config_syntax import Entry, SyntaxRefused, parse

# How much of a setting's name is shown.
SHOWN = 100


class _Known:
    """What the configuration held before: its remotes with an address, and all settings with their values."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        parts = [(split(name), value) for name, value in entries]
        self.remotes = frozenset(
            sub for (section, sub, key), value in parts if (section, key) == (b"remote", b"url") and value
        )
        self.settings = frozenset(entries)
        # A renamed branch takes its settings along.
        self.branch_settings = frozenset(
            (key, value) for (section, _, key), value in parts if section == b"branch"
        )


# What a value has to be; an empty text, or what is wrong with it.
_Check = Callable[[_Known, bytes, bytes], str]


def judge(old: bytes, new: bytes) -> str:
    """Why a configuration may not be replaced by another; empty when it may.

    The reason is a clause that begins with the setting, fit for a message: printable and short.
    """
    if old == new:
        return ""
    try:
        before = parse(old)
    except SyntaxRefused as error:
        return f"the present configuration is not understood: {error}"
    try:
        after = parse(new)
    except SyntaxRefused as error:
        return f"the new configuration is not understood: {error}"
    known = _Known(before)
    return _changed(before, after) or next(filter(None, (_wrong(known, entry) for entry in after)), "")


def split(name: bytes) -> tuple[bytes, bytes | None, bytes]:
    """Section, subsection (None for none) and key of a setting's whole name."""
    section, _, rest = name.partition(b".")
    subsection, dot, key = rest.rpartition(b".")
    return section, subsection if dot else None, key


def _changed(before: tuple[Entry, ...], after: tuple[Entry, ...]) -> str:
    """Whether settings that are not in the table are the same."""
    old = [entry for entry in before if _check_of(entry[0]) is None]
    new = [entry for entry in after if _check_of(entry[0]) is None]
    if old == new:
        return ""
    for one, other in zip(old, new, strict=False):
        if one != other:
            entry = other if other not in old else one
            break
    else:
        entry = (old if len(old) > len(new) else new)[min(len(old), len(new))]
    verb = "added or changed" if entry not in old else "removed" if entry not in new else "moved or repeated"
    return f"{_shown(entry[0])} may not be {verb} from inside"


def _wrong(known: _Known, entry: Entry) -> str:
    """What is wrong with the new value of a setting in the table."""
    name, value = entry
    section, subsection, key = split(name)
    check = _check_of(name)
    if check is None or entry in known.settings:
        return ""
    if section == b"branch" and (key, value) in known.branch_settings:
        return ""
    if value is None and check is not _truth:
        return f"{_shown(name)} has no value"
    wrong = check(known, subsection or b"", b"true" if value is None else value)
    return f"{_shown(name)} {wrong}" if wrong else ""


def _shown(name: bytes) -> str:
    text = name.decode("utf-8", "replace")
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


# --- Values ---------------------------------------------------------------------------------------


def _known_remote(known: _Known, _: bytes, value: bytes) -> str:
    """What is no remote's name is taken for an address, and `ext::` runs a command."""
    return "" if value == b"." or value in known.remotes else "does not name a remote that was there before"


def _of(*values: bytes) -> _Check:
    def check(_: _Known, __: bytes, value: bytes) -> str:
        return "" if value.lower() in values else f"is none of {', '.join(one.decode() for one in values)}"

    return check


_TRUTH = (b"true", b"false", b"yes", b"no", b"on", b"off", b"1", b"0")
_truth = _of(*_TRUTH)
_truth_or_rebase = _of(*_TRUTH, b"merges", b"m", b"interactive", b"i")
_NOT_IN_REF = frozenset(b" ~^:?*[\\\x7f") | frozenset(range(32))


def _is_ref(text: bytes, stars: int = 0) -> bool:
    """A whole name of a ref after git-check-ref-format(1), or a pattern with so many stars."""
    parts = text.split(b"/")
    return (
        len(parts) > 2
        and parts[0] == b"refs"
        and text.count(b"*") == stars
        and _NOT_IN_REF.isdisjoint(text.replace(b"*", b""))
        and b".." not in text
        and b"@{" not in text
        and not any(part == b"" or part[:1] in b".-" or part.endswith((b".", b".lock")) for part in parts)
    )


def _ref(_: _Known, __: bytes, value: bytes) -> str:
    return "" if _is_ref(value) else "is not the whole name of a ref"


def _branch(_: _Known, __: bytes, value: bytes) -> str:
    return "" if _is_ref(b"refs/heads/" + value) else "is not the name of a branch"


def _refspec(known: _Known, remote: bytes, value: bytes) -> str:
    """Fetches of known remotes into where fetches go. A local branch would be overwritten by the next `git fetch`."""
    if remote not in known.remotes:
        return "belongs to a remote that was not there before"
    source, colon, target = value.removeprefix(b"+").partition(b":")
    if value.startswith(b"^"):
        source, colon = value[1:], b""
    stars = source.count(b"*")
    if stars > 1 or not _is_ref(source, stars):
        return "is not a refspec of whole names"
    into = target == source if target.startswith(b"refs/tags/") else target.startswith(b"refs/remotes/")
    return "" if not colon or (into and _is_ref(target, stars)) else "fetches to elsewhere than refs/remotes/"


def _text(_: _Known, __: bytes, value: bytes) -> str:
    """Shown on terminals and in editors."""
    return (
        ""
        if not any((one < 32 and one not in b"\n\t") or one == 127 for one in value)
        else "holds control codes"
    )


_ALNUM = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_USER = _ALNUM | frozenset(b"._-")
_HOST = _ALNUM | frozenset(b".-:[]")
# What a path may hold: no blanks, no controls, nothing that a shell or a URL's reader takes for more. No percent sign:
# it hides all of these.
_PATH = _ALNUM | frozenset(b"/._-+~@,=")
_SCHEMES = (b"https", b"ssh", b"git")


def _address(_: _Known, submodule: bytes, value: bytes) -> str:
    """Where a submodule is cloned from: https, ssh or git. A path of this host is none (one could be planted), and a
    beginning like an option's is not taken anywhere (git hands host and path to ssh)."""
    if b".." in submodule.replace(b"\\", b"/").split(b"/") or submodule.startswith(b"-"):
        return "belongs to a submodule whose name git refuses"
    scheme, mark, rest = value.partition(b"://")
    if mark:
        authority, slash, path = rest.partition(b"/")
        fits = bool(slash) and scheme.lower() in _SCHEMES
    else:
        authority, colon, path = value.partition(b":")
        fits = bool(colon)
    user, at, host = authority.rpartition(b"@")
    return (
        ""
        if fits
        and (not at or (_USER.issuperset(user) and user[:1] not in b"-"))
        and (_HOST.issuperset(host) if mark else _USER.issuperset(host))
        and host[:1] not in b"-:."
        and _PATH.issuperset(path)
        and path[:1] not in b"-"
        else "is no plain https, ssh or git address"
    )


# Section, whether it has a subsection, and key; what the value must be.
HARMLESS: Mapping[tuple[bytes, bool, bytes], _Check] = {
    # Which remote and branch a branch belongs to. Not `mergeoptions`: it names programs (`--strategy`).
    (b"branch", True, b"remote"): _known_remote,
    (b"branch", True, b"pushremote"): _known_remote,
    (b"branch", True, b"merge"): _ref,
    (b"branch", True, b"rebase"): _truth_or_rebase,
    (b"branch", True, b"description"): _text,
    (b"branch", True, b"gh-merge-base"): _branch,
    # What is fetched. Not `url`, `pushurl`, `uploadpack`, `receivepack`, `vcs`, `proxy`, `promisor`.
    (b"remote", True, b"fetch"): _refspec,
    (b"remote", True, b"tagopt"): _of(b"--tags", b"--no-tags"),
    (b"remote", True, b"gh-resolved"): _of(b"base"),
    # `git submodule init`. Not `update`: `!command` runs.
    (b"submodule", True, b"url"): _address,
    (b"submodule", True, b"active"): _truth,
    # How a pull goes on, what is said.
    (b"pull", False, b"rebase"): _truth_or_rebase,
    (b"pull", False, b"ff"): _of(*_TRUTH, b"only"),
    (b"fetch", False, b"prune"): _truth,
    (b"lfs", False, b"repositoryformatversion"): _of(b"0"),
}


def _check_of(name: bytes) -> _Check | None:
    section, subsection, key = split(name)
    if section == b"advice" and subsection is None:
        return _truth
    return HARMLESS.get((section, subsection is not None, key))
