"""A pack that proves a fast-forward from `OLD` to `NEW` in its first bytes, and a forge that knows its commits."""

from collections.abc import Mapping

from gateway.policy.decision import Decision, Verdict
from tests.fakes.packs import BLOB, COMMIT, commit, entry, object_id, pack

OLD = "a" * 40
FIRST = commit(OLD, message=b"the first\n")
SECOND = commit(object_id(COMMIT, FIRST), message=b"the second\n\nwith a body\n")
NEW = object_id(COMMIT, SECOND)
FILLING = [entry(BLOB, bytes([number]) * 5000) for number in range(20)]
PROVING = pack([entry(COMMIT, SECOND), entry(COMMIT, FIRST), *FILLING])
ALLOW = Decision(Verdict.ALLOW, "config.yaml:1", "allowed")


class Forge:
    """Knows which commit is an ancestor of which; notes what it is asked."""

    def __init__(self, known: Mapping[tuple[str, str], bool] | None = None) -> None:
        self.known = known or {}
        self.questions: list[tuple[str, str]] = []

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        self.questions.append((old, new))
        return self.known.get((old, new))
