"""Names of repositories and patterns over them, parsed once. GitHub does not tell upper from lower case in them."""

import re
from dataclasses import dataclass, field

from gateway.policy.marks import Mark, longest

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,99}")
_DOTS = frozenset({".", ".."})
_SUFFIX = ".git"  # GitHub gives no repository a name that ends so: it is part of the address alone
_PART = re.compile(r"[A-Za-z0-9._*-]{1,100}")


class RepositoryError(ValueError):
    """A text that names no repository. The message is one sentence and holds nothing of the text."""


class RepositoryPatternError(ValueError):
    """A text that is no pattern over repositories. The message says what to write instead."""


@dataclass(frozen=True, slots=True, eq=False)
class RepositoryName:
    """A repository as somebody spelt it. Two spellings that GitHub takes for one repository are equal."""

    owner: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """Owner and name in lower case; both are ASCII."""
        return self.owner.lower(), self.name.lower()

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, RepositoryName) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


def parse_repository(text: str) -> RepositoryName:
    """The repository that "owner/name" or "owner/name.git" names. RepositoryError for anything else."""
    owner, slash, name = text.partition("/")
    if not slash or "/" in name:
        raise RepositoryError("a repository is written as owner/name")
    if name.lower().endswith(_SUFFIX):
        name = name[: -len(_SUFFIX)]
    if not _OWNER.fullmatch(owner):
        raise RepositoryError(
            "an owner has up to 100 letters, digits, dots, _ and -, a letter or digit first"
        )
    if not _NAME.fullmatch(name) or name in _DOTS or name.lower().endswith(_SUFFIX):
        raise RepositoryError("a repository's name has up to 100 letters, digits, dots, _ and -, no - first")
    return RepositoryName(owner, name)


@dataclass(frozen=True, slots=True)
class RepositoryPattern:
    """A glob over "owner/name"; the star stays on its side of the slash. Made by `parse_repository_pattern`."""

    text: str
    _glob: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pieces = (re.escape(piece) for piece in re.split(r"\*+", self.text.lower()))
        object.__setattr__(self, "_glob", re.compile("[^/]*".join(pieces)))

    def matches(self, repository: RepositoryName) -> bool:
        """Whether the repository is one of them, whatever case either is written in."""
        return self._glob.fullmatch("/".join(repository.key)) is not None

    @property
    def mark(self) -> Mark:
        """What stands in every repository's name that it matches, in lower case."""
        return Mark(fragment=longest(self.text.lower().split("*")))


def parse_repository_pattern(text: str) -> RepositoryPattern:
    """The pattern that a text is: "acme/widget", "acme/*", "*/widget". RepositoryPatternError otherwise."""
    owner, slash, name = text.partition("/")
    if not slash or "/" in name:
        raise RepositoryPatternError('write owner/name, "owner/*" for all of an owner')
    if "**" in text:
        raise RepositoryPatternError("write one star: it stands for any part of an owner or of a name")
    if not _PART.fullmatch(owner) or not _PART.fullmatch(name):
        raise RepositoryPatternError("write letters, digits, dots, _, - and stars on both sides of the slash")
    if name.lower().endswith(_SUFFIX):
        raise RepositoryPatternError("write the name without .git")
    try:
        parse_repository(text.replace("*", "x"))  # what a star stands for may be left out of this
    except RepositoryError as error:
        raise RepositoryPatternError(f"no repository has such a name: {error}") from None
    return RepositoryPattern(text)


@dataclass(frozen=True, slots=True)
class SessionRepositories:
    """Where one session may push to: `own` are its worktree's, `linked` the workspace's."""

    own: tuple[RepositoryName, ...] = ()
    linked: tuple[RepositoryName, ...] = ()

    @property
    def all(self) -> tuple[RepositoryName, ...]:
        """Each once, the worktree's first."""
        return tuple(dict.fromkeys((*self.own, *self.linked)))
