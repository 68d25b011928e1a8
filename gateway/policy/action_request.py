"""One effect of what an agent wants to do, as plain values: what the rules about its action are held against."""

from dataclasses import dataclass
from typing import Final

from gateway.policy.actions import Action
from gateway.policy.refs import caseless, name_text
from gateway.policy.repositories import RepositoryName
from gateway.policy.started import canonical_name, program_name


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One action on one thing. What is empty is not known, or the action is not about such a thing.

    `target` is for people: a URL, a path, a shell command. `host` is in normal form (`gateway.policy.hosts`), `path`
    absolute and without links, `words` are those of the simple command that does it, without what only starts it
    (`env`, `sudo`, `nohup` …) and without global options (`git -C dir push` is `git push`). `tool` is the tool's name.
    """

    action: Action
    target: str = ""
    host: str = ""
    path: str = ""
    words: tuple[str, ...] = ()
    repository: RepositoryName | None = None
    tool: str = ""

    @property
    def anchors(self) -> tuple[str, ...]:
        """By what rules about it are found: how its command begins, as far as rules may say, how its host ends, and the
        directory that goes with all that is in it."""
        found: tuple[str, ...] = ()
        for words in spellings(self.words):
            longest = min(len(words), _ANCHORED_WORDS)
            found += tuple(command_anchor(words[:length]) for length in range(1, longest + 1))
        found += (host_anchor(self.host),) if self.host else ()
        deletes = self.path and self.action is Action.DELETE_FILE
        return (*found, path_anchor(self.path)) if deletes else found

    @property
    def text(self) -> str:
        """Where the parts of globs are looked for."""
        repository = "/".join(self.repository.key) if self.repository else ""
        return f"{self.host}\0{name_text(self.path)}/\0{repository}"

    @property
    def unknown(self) -> tuple[str, ...]:
        """What it does not say, by the names that rules have for it."""
        return tuple(fact for fact in _FACTS if not getattr(self, fact))


_FACTS: Final = ("host", "path", "repository")
# Words of a command by which a rule is found; of a longer row the first ones.
_ANCHORED_WORDS: Final = 4


def spellings(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """A command as it is written, and with the name that stands for all programs of its kind: pip for pip3."""
    if not words:
        return ()
    name = canonical_name(program_name(words[0]))
    return (words,) if name == words[0] else (words, (name, *words[1:]))


def command_anchor(words: tuple[str, ...]) -> str:
    """Of the beginning of a command: no host begins so."""
    return "$" + "\0".join(words[:_ANCHORED_WORDS])


def host_anchor(host: str) -> str:
    """How a host or a pattern of hosts ends: its last two labels, which no pattern leaves open."""
    return ".".join(host.rsplit(".", 2)[-2:])


def path_anchor(path: str) -> str:
    """Of a directory: no host and no command begins so."""
    return f"/{caseless(path).strip('/')}"
