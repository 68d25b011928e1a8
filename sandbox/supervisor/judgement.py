"""What the rules say of a pinned place: may it be written, made, moved, connected to? Text in, rule out; no file is
touched.

A place is judged by the real path of its pinned directory and by its final name, so no spelling, link or rename on
the way there matters. Rules on single names hold however the directories above are renamed. Rules on paths do not, so
no directory above a sealed path, and none that would bring something under a path rule, may be moved, nor may
anything but mkdir put one there: what is made inside is then judged one by one.
"""

from _collections_abc import Callable  # what `collections.abc` is, without the rest of `collections`

from sandbox.filerules import FileRules, NameRules
from sandbox.folding import readings
from sandbox.supervisor.resolution import Place
from sandbox.supervisor.rules import DoorRules

# Where a place is. PRIVATE: a mount of the wrap's own, which the wall leaves open. OWN: one that it cannot leave open,
# since something governed is bound below. READ_ONLY: a bind that the kernel keeps from being written. GOVERNED: below a
# writable bind. OUTSIDE: anywhere else. Names are judged in the last two.
PRIVATE, OWN, READ_ONLY, GOVERNED, OUTSIDE = range(5)

# Seatbelt's names of what is done.
CREATE, DATA, UNLINK, OUTBOUND = (
    "file-write-create",
    "file-write-data",
    "file-write-unlink",
    "network-outbound",
)

# Directories whose judgement is remembered, and the longest path that is.
REMEMBERED = 2048
REMEMBERED_LENGTH = 512

# The rule of a mount that is read-only.
MOUNT = "read-only bind"

# The rule of what the canary asks for, and the ends of the names it uses.
CANARY = "canary"
WALL, DOOR = b".wall", b".door"

# Names that the kernel never lets anybody make, open for writing, or move.
DOTS = (b".", b"..")


class Refused(Exception):
    """A rule's no, with what the launcher is told."""

    def __init__(self, action: str, target: bytes, rule: str) -> None:
        super().__init__(rule)
        self.action = action
        self.target = target
        self.rule = rule


class Ground:
    """One directory: its zone, the sealed path it lies in (empty: none), and the special names in it, folded.

    `guarded` are directories above something sealed, `configs` configurations whose replacement is judged.
    """

    __slots__ = ("configs", "guarded", "rule", "sealed", "zone")

    def __init__(self, zone: int, rule: str, special: "dict[str, dict[str, str]]") -> None:
        self.zone = zone
        self.rule = rule
        self.sealed = special.get("sealed", {})
        self.guarded = special.get("guarded", {})
        self.configs = special.get("configs", {})


class Judge:
    """The rules of one wrap. `canary` is what its names begin with, empty once it is over; `seen` counts them."""

    def __init__(self, rules: DoorRules) -> None:
        self._names = NameRules(FileRules(rules.deny_write, rules.allow_write))
        self._zones = {
            **dict.fromkeys(map(_bytes, rules.own), OWN),
            **dict.fromkeys(map(_bytes, rules.private), PRIVATE),
            **dict.fromkeys(map(_bytes, (*rules.read_only, *rules.closed)), READ_ONLY),
            **dict.fromkeys(map(_bytes, rules.writable), GOVERNED),
        }
        self._sealed = {_fold(_bytes(path)): path for path in rules.sealed}
        self.own_mounts = tuple(map(_bytes, (*rules.private, *rules.own)))
        self._special: dict[str, dict[str, dict[str, str]]] = {}
        self._sockets = frozenset(map(_bytes, rules.sockets))
        self._closed = frozenset(map(_bytes, rules.closed))
        # What was asked about last.
        self._place: Place | None = None
        self._action = CREATE
        self._grounds: dict[bytes, Ground] = {}
        self.canary = rules.canary.encode("ascii")
        self.seen: dict[str, int] = {}
        roots = [_fold(_bytes(path)) for path in rules.writable]
        for path in (*rules.writable, *rules.read_only):
            self._hold(_fold(_bytes(path)), path)
        for folded, path in self._sealed.items():
            self._note("sealed", folded, path)
            self._guard(folded, path, roots)
        for path in rules.git_configs:
            folded = _fold(_bytes(path))
            self._note("configs", folded, path)
            self._guard(folded, path, roots)

    def _note(self, kind: str, folded: str, path: str) -> None:
        folder, _, name = folded.rpartition("/")
        self._special.setdefault(folder, {}).setdefault(kind, {})[name] = path

    def _hold(self, folded: str, path: str) -> None:
        """A bind and every directory above it stay where they are, also in a mount of the wrap's own: rules are found
        by path. The kernel would say EBUSY to the caller, but not to us, who see none of the wrap's mounts."""
        while folded:
            self._note("guarded", folded, path)
            folded = folded.rpartition("/")[0]

    def _guard(self, folded: str, path: str, roots: list[str]) -> None:
        """Every directory above, below the bind that holds it."""
        above = folded.rpartition("/")[0]
        while above and any(_is_below(above, root) and above != root for root in roots):
            self._note("guarded", above, path)
            above = above.rpartition("/")[0]

    def ground(self, folder: bytes) -> Ground:
        """What is known of a directory, by its real path."""
        return self._grounds.get(folder) or self._look(folder)

    def _look(self, folder: bytes) -> Ground:
        folded = _fold(folder)
        rule, above = "", folded
        while above and not rule:
            rule = self._sealed.get(above, "")
            above = above.rpartition("/")[0]
        ground = Ground(self._zone(folder), rule, self._special.get(folded, {}))
        if len(folder) <= REMEMBERED_LENGTH:
            if len(self._grounds) >= REMEMBERED:
                self._grounds.clear()
            self._grounds[folder] = ground
        return ground

    def _zone(self, path: bytes) -> int:
        """That of the nearest mount we were told of."""
        above = path
        while above and above not in self._zones:
            above = above.rpartition(b"/")[0]
        return self._zones.get(above or b"/", OUTSIDE)

    # --- Verdicts -----------------------------------------------------------------------------------

    def check(self, place: Place, action: str) -> int:
        """The zone of a place whose name may be written, made or moved; Refused where it may not."""
        if self.canary and place.name.startswith(self.canary):
            return self._answer_canary(place, action)
        self._place, self._action = place, action
        folder, name = place.folder, place.name
        ground = self._grounds.get(folder) or self._look(folder)
        if ground.zone <= READ_ONLY or name in DOTS:
            return ground.zone
        rule = ground.rule or self._names.denied(folder, name)
        if not rule and (ground.sealed or ground.configs):
            folded = readings(name)[0]
            rule = ground.sealed.get(folded) or ground.configs.get(folded, "")
        if rule:
            raise Refused(action, place.path, rule)
        return ground.zone

    def refused_by_mount(self) -> Refused | None:
        """What the kernel has just refused with EROFS, if that is one of the binds that are read-only on purpose.
        Programs try the system's own folders as a matter of course (Python, for bytecode): that is told to nobody."""
        place, self._place = self._place, None
        above = place.path if place is not None else b""
        while above and above not in self._closed:
            above = above.rpartition(b"/")[0]
        return Refused(self._action, place.path, MOUNT) if place is not None and above else None

    def check_path(self, path: bytes, action: str) -> int:
        """The same for a file that was pinned without its name: by its real path."""
        folder, _, name = path.rpartition(b"/")
        found = Place(-1, name)
        found.believe(folder or b"/")
        return self.check(found, action)

    def check_folder(self, folder: bytes, action: str) -> int:
        """The zone of a directory in which something without a name is to be made."""
        zone = self.ground(folder).zone
        if zone > READ_ONLY and folder != b"/":
            self.check_path(folder, action)
        return zone

    def guard(self, place: Place, action: str) -> None:
        """Refused when something sealed lies below: nobody may move it, or put anything but a directory there."""
        ground = self.ground(place.folder)
        if ground.guarded and ground.zone != PRIVATE:
            rule = ground.guarded.get(readings(place.name)[0])
            if rule:
                raise Refused(action, place.path, rule)

    def guard_create(self, place: Place) -> None:
        """The same for something that is made."""
        self.guard(place, CREATE)

    def guard_link(self, place: Place) -> None:
        """Refused when a link of this name would bring what it leads to under a path rule."""
        self.guard(place, CREATE)
        if self.ground(place.folder).zone > READ_ONLY and place.name not in DOTS:
            rule = self._names.brings_denied(place.folder, place.name)
            if rule:
                raise Refused(CREATE, place.path, rule)

    def guard_move(self, old: Place, new: Place) -> "Callable[[bytes, bytes], str] | None":
        """Refused when a directory of the old name may not get the new one. Otherwise what somebody has to ask of each
        entry in it (see `NameRules.taken_along`), or None."""
        if self.ground(new.folder).zone <= READ_ONLY or old.name in DOTS or new.name in DOTS:
            return None
        source = (old.folder, old.name)
        rule = self._names.brings_denied(new.folder, new.name, source)
        if rule:
            raise Refused(CREATE, new.path, rule)
        return self._names.taken_along(new.folder, new.name, source)

    def check_alias(self, place: Place) -> None:
        """Refused where nobody may write: a link to it would lead programs outside there."""
        self.check(place, CREATE)
        if self._zone(place.path) == READ_ONLY:
            raise Refused(CREATE, place.path, MOUNT)

    def config(self, place: Place) -> str:
        """The rule of a configuration whose replacement is judged by its content; empty for anything else."""
        ground = self.ground(place.folder)
        return "" if ground.rule else ground.configs.get(readings(place.name)[0], "")

    def check_socket(self, path: bytes) -> bool:
        """Whether a socket at this real path is listed; Refused where it is neither that nor in a mount of the wrap's
        own."""
        is_listed = path in self._sockets
        if self._zone(path.rpartition(b"/")[0]) > OWN and not is_listed:
            raise Refused(OUTBOUND, path, "unix-socket")
        return is_listed

    def _answer_canary(self, place: Place, action: str) -> int:
        if place.name.endswith(WALL):
            self.seen["wall"] = self.seen.get("wall", 0) + 1
            return PRIVATE
        self.seen["door"] = self.seen.get("door", 0) + 1
        raise Refused(action, place.path, CANARY)


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _fold(path: bytes) -> str:
    """The coarsest form of a path; the root is empty."""
    return "/".join(readings(part)[0] for part in path.rstrip(b"/").split(b"/"))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
