"""One launch's policy as a Seatbelt profile: text in the language of `sandbox-exec` (SBPL). Pure.

Order is meaning: of all rules that match, the last one wins. So: everything is allowed, then reads are taken away,
writes are taken away and given back below the roots, and what may not be written there is taken away again; then what
holds the rest in place, programs, the network, other processes and services. Each denial carries the tag by which the
system's log is asked for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sandbox.seatbelt import patterns, services
from sandbox.seatbelt.policy import FilePolicy, Names
from sandbox.seatbelt.spelling import below

READ = "file-read*"
# The system asks for links and clones apart from writes. Which of their two ends it asks about is not documented, so
# both have to be writable.
WRITE = "file-write* file-link file-clone"
EXECUTE = "process-exec*"
# A terminal that was opened inside the wrap (by `script`, tmux, an editor) bears this mark of the kernel.
OWN_TERMINAL = '(extension "com.apple.sandbox.pty")'
# Bytes of one string in the text. The reader of the language this one comes from had a buffer of 256 for a string.
STRING_BYTES = 200
# Filters of one rule; more are divided among several, which together say the same.
FILTERS_A_RULE = 500


@dataclass(frozen=True, slots=True)
class Network:
    """Ports of the host's loopback that may be connected to; `is_open` is a person's own network."""

    ports: tuple[int, ...] = ()
    is_open: bool = False


def seatbelt_profile(policy: FilePolicy, network: Network, tag: str) -> str:
    """The whole profile. `tag` is a word of ASCII letters, digits and dashes that no other launch has."""
    parts = (
        ("Secrets and other sessions are not read.", _reads(policy)),
        ("Nothing is written but below the roots.", _writes(policy)),
        ("Names that nobody writes, wherever they stand.", _names(policy)),
        ("What is protected by its path, and what has to stay in place for that.", _kept(policy)),
        ("Programs.", _programs(policy)),
        ("Network.", _network(network)),
        ("Other processes, and services that act for others.", _processes()),
    )
    lines = ["(version 1)", "(allow default)"]
    for title, rules in parts:
        lines += ["", f"; {title}"]
        lines += [rule.replace(TAGGED, f'(with message "{tag}")') for rule in rules]
    return "\n".join(lines) + "\n"


# Stands for the tag until the end; no path can hold it, since NUL ends a path.
TAGGED = "\0"


def quote(text: str) -> str:
    """A string of the language, whatever it holds: what is not shown as it is stands in hexadecimal, byte by byte. A
    long one is put together from parts."""
    parts, room = [""], STRING_BYTES
    for shown in map(_shown, text):
        size = len(shown.encode())
        if size > room:
            parts, room = [*parts, ""], STRING_BYTES
        parts[-1] += shown
        room -= size
    strings = " ".join(f'"{part}"' for part in parts)
    return strings if len(parts) == 1 else f"(string-append {strings})"


def _shown(one: str) -> str:
    """One character in a string of the language."""
    if one in '"\\':
        return "\\" + one
    if one.isprintable():
        return one
    return "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "surrogateescape"))


def literal(path: str) -> str:
    """The path alone."""
    return f"(literal {quote(path)})"


def subpath(path: str) -> str:
    """The path and everything below it."""
    return f"(subpath {quote(path)})"


def regex(pattern: str) -> str:
    """Paths that an expression describes."""
    return f"(regex {quote(pattern)})"


def inside(paths: Sequence[str]) -> list[str]:
    """Paths with everything below them, in every spelling."""
    return [*map(subpath, paths), *map(regex, patterns.among(paths))]


def inside_or_made(paths: Sequence[str]) -> list[str]:
    """The same for paths that need not exist: a directory that is not there yet is no subpath when it is made."""
    return [*map(literal, paths), *inside(paths)]


def alone(paths: Sequence[str]) -> list[str]:
    """Paths without what is below them, in every spelling."""
    return [*map(literal, paths), *map(regex, patterns.among(paths, end=""))]


def both(*filters: str) -> str:
    """All of them."""
    return filters[0] if len(filters) == 1 else f"(require-all {' '.join(filters)})"


def either(*filters: str) -> str:
    """One of them."""
    return filters[0] if len(filters) == 1 else f"(require-any {' '.join(filters)})"


def no(filter: str) -> str:
    """Not this one."""
    return f"(require-not {filter})"


def allow(operations: str, filters: Iterable[str]) -> Iterator[str]:
    """A rule that allows, if there is anything to allow."""
    found = tuple(dict.fromkeys(filters))
    if found:
        yield _rule("allow", operations, found)


def deny(operations: str, filters: Iterable[str]) -> Iterator[str]:
    """Rules that deny and say so in the log, if there is anything to deny."""
    found = tuple(dict.fromkeys(filters))
    for start in range(0, len(found), FILTERS_A_RULE):
        yield _rule("deny", operations, (*found[start : start + FILTERS_A_RULE], TAGGED))


def _rule(action: str, operations: str, filters: Sequence[str]) -> str:
    if len(filters) == 1:
        return f"({action} {operations} {filters[0]})"
    return f"({action} {operations}\n  " + "\n  ".join(filters) + ")"


def _reads(policy: FilePolicy) -> Iterator[str]:
    yield from deny(f"{READ} {EXECUTE}", inside(policy.hidden))
    yield from allow("file-read-metadata", map(literal, policy.passages))
    yield from allow(READ, map(subpath, policy.shown))
    yield from deny(READ, inside(policy.hidden_again))
    yield from deny(READ, _hidden_by_name(policy))
    others = [no(OWN_TERMINAL), *map(no, map(literal, policy.terminals))]
    yield from deny("file-read-data", (both(regex(services.TERMINAL_PATTERN), *others),))


def _hidden_by_name(policy: FilePolicy) -> Iterator[str]:
    if policy.hidden_names:
        names = patterns.any_of(map(patterns.name_pattern, policy.hidden_names))
        for base in policy.bases:
            yield regex(f"{_below(base)}{names}{patterns.AND_BELOW}$")
    for glob in policy.hidden_paths:
        yield regex(f"^{patterns.path_pattern(glob)}{patterns.AND_BELOW}$")


def _writes(policy: FilePolicy) -> Iterator[str]:
    yield _rule("deny", WRITE, (TAGGED,))
    for root in policy.roots:
        if root.writable:
            yield from allow(WRITE, (subpath(root.path),))
        elif any(below(root.path, ground) for ground in policy.grounds):
            yield from deny(WRITE, inside_or_made((root.path,)))
    devices = (*services.DEVICES, *policy.terminals)
    yield from allow(WRITE, (*map(literal, devices), *map(regex, services.DEVICE_PATTERNS)))
    yield from allow(WRITE, (both(regex(services.TERMINAL_PATTERN), OWN_TERMINAL),))


def _below(root: str) -> str:
    """The beginning of an expression for names anywhere below a root."""
    return f"^{patterns.literal(root.rstrip('/'))}/(.*/)?"


def _names(policy: FilePolicy) -> Iterator[str]:
    """Each list denies its names as directories with all that is in them, and as files unless there is an exception."""
    names, grounds = policy.names, policy.grounds
    if not grounds:
        return
    free = [no(regex(f"^{patterns.path_exception_pattern(glob)}$")) for glob in names.allowed_paths]
    more = [no(regex(f"^(.*/)?{one}$")) for one in map(patterns.exception_pattern, names.more_allowed)]
    shipped = [no(regex(f"^(.*/)?{one}$")) for one in map(patterns.exception_pattern, names.allowed)]
    yield from deny(WRITE, (regex(patterns.disguised(ground)) for ground in grounds))
    for ground in grounds:
        yield from deny(WRITE, _names_below(ground, names, free, more, shipped))
    yield from deny(WRITE, _paths_below(grounds, names.more_paths, free, more))
    yield from deny(WRITE, _paths_below(grounds, names.paths, free, [*more, *shipped]))


def _names_below(
    ground: str, names: Names, free: list[str], more: list[str], shipped: list[str]
) -> Iterator[str]:
    start = _below(ground)
    folders = (*names.more_names, *names.names)
    packages = patterns.any_of(map(patterns.literal, sorted(names.package_folders)) or ("",))
    unpacked = [no(regex(f"{start}{packages}/.*$"))] if names.package_folders else []
    unpacked += [no(subpath(place)) for place in names.package_places if below(place, ground)]
    if folders:
        yield both(regex(f"{start}{_any_name(folders)}/.*$"), *free)
    if names.more_names:
        yield both(regex(f"{start}{_any_name(names.more_names)}$"), *more, *free)
    if names.names_among_packages:
        yield both(regex(f"{start}{_any_name(names.names_among_packages)}$"), *shipped, *more, *free)
    if names.package_names:
        yield both(regex(f"{start}{_any_name(names.package_names)}$"), *unpacked, *shipped, *more, *free)


def _any_name(globs: Sequence[str]) -> str:
    return patterns.any_of(map(patterns.name_pattern, globs))


def _paths_below(
    grounds: Sequence[str], globs: Sequence[str], free: list[str], excepted: list[str]
) -> Iterator[str]:
    ground = either(*map(subpath, grounds))
    for pattern in map(patterns.path_pattern, globs):
        yield both(ground, regex(f"^{pattern}/.*$"), *free)
        yield both(ground, regex(f"^{pattern}$"), *excepted, *free)


def _kept(policy: FilePolicy) -> Iterator[str]:
    """Sealed paths, and guards against renames: of what is above something protected, and to what is above a denied
    path. A rename needs the right to unlink its source, and to create its target."""
    yield from deny(WRITE, inside_or_made(policy.sealed))
    if policy.grounds:
        yield from deny(WRITE, _hidden_by_name(policy))
    yield from deny("file-write-unlink", alone(policy.guarded))
    if policy.grounds:
        ground = either(*map(subpath, policy.grounds))
        certain = [way for way in policy.ways if not way.endswith("*")]
        vague = [way for way in policy.ways if way.endswith("*")]
        yield from deny("file-write-unlink file-write-create", (both(ground, _way(way)) for way in certain))
        folder = "(vnode-type DIRECTORY)"
        yield from deny("file-write-unlink", (both(ground, folder, _way(way)) for way in vague))


def _way(glob: str) -> str:
    return regex(f"^{patterns.path_pattern(glob)}$")


def _programs(policy: FilePolicy) -> Iterator[str]:
    if not policy.runs_everything:
        yield from deny(EXECUTE, inside(policy.grounds))
    yield from allow(EXECUTE, map(subpath, policy.runnable))
    yield from deny(EXECUTE, _hidden_by_name(policy))
    yield from deny(EXECUTE, alone(services.DANGEROUS_PROGRAMS))


def _network(network: Network) -> Iterator[str]:
    """The session's own three ports and nothing else: no other service of this host, no socket of a path, no names."""
    if network.is_open:
        # A socket with a path is a service of this host (an agent with keys, a container engine), not the network.
        yield from deny("network-outbound", ("(remote unix-socket)",))
        resolver = f"(remote unix-socket (path-literal {quote(services.RESOLVER_SOCKET)}))"
        yield from allow("network-outbound", (resolver,))
        return
    yield _rule("deny", "network*", (TAGGED,))
    yield from allow("network-outbound", (f'(remote tcp "localhost:{port}")' for port in network.ports))
    yield from deny("mach-lookup", (_service(services.RESOLVER_SERVICE),))


def _service(name: str) -> str:
    return f"(global-name {quote(name)})"


def _processes() -> Iterator[str]:
    for operations in ("signal", "process-info*"):
        # The denial has no filter and the permission has one: the other way round is said not to work.
        yield _rule("deny", operations, (TAGGED,))
        yield from allow(operations, ("(target self)", "(target same-sandbox)"))
    # Arguments and environment of every process of the user are read this way. Its name is of no use in a rule, since
    # it is asked for by number: so what may be asked is listed.
    yield _rule("deny", "sysctl-read", (TAGGED,))
    names = (f"(sysctl-name {quote(name)})" for name in services.SYSTEM_VALUES)
    trees = (f"(sysctl-name-prefix {quote(name)})" for name in services.SYSTEM_TREES)
    yield from allow("sysctl-read", (*names, *trees))
    yield _rule("deny", " ".join(services.DANGEROUS_OPERATIONS), (TAGGED,))
    yield from deny("mach-lookup", map(_service, services.DANGEROUS_SERVICES))
    yield from deny("file-ioctl", (f"(ioctl-command {services.TIOCSTI})",))
