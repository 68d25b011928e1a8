"""What the benchmark pushes, and where to: a worktree with a large commit, the forge's repositories, and the way back
to how a repository was before a push. It starts nothing that lives on.
"""

import os
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.toolchain import Unavailable, find_program, output_of

FILES = 1_200
FILE_BYTES = 250_000
"""300 MB in all, of random bytes: nothing deflates, nothing is a delta, and the forge indexes a pack."""
REFS = 100_000
SEED = 300

MEMORY_FOLDER = Path("/dev/shm")
ROOM = 3 << 30  # bytes: the repository before and after, and the pack that is being received

_WHO = "A. Gent <agent@forge.test> 1700000000 +0000"


@dataclass(frozen=True, slots=True)
class Commits:
    """Ids: `base` and its child `middle` are the forge's; `large`, a child of `middle`, brings the 300 MB."""

    base: str
    middle: str
    large: str


def fast_folder() -> Path | None:
    """A file system in memory, where programs may lie and there is room; None where there is none."""
    try:
        found = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return None
    usable = not found.f_flag & os.ST_NOEXEC and os.access(MEMORY_FOLDER, os.W_OK)
    return MEMORY_FOLDER if usable and found.f_bavail * found.f_frsize >= ROOM else None


def git_program() -> str:
    """The git that everything here is done with."""
    return find_program("git", "apt-get install git")


def plain_git(home: Path) -> Mapping[str, str]:
    """The variables that keep git from this machine's own configuration."""
    return {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def git(folder: Path, *arguments: str, text: bytes = b"") -> str:
    """What git says. `Unavailable` when it fails."""
    done = subprocess.run(
        (git_program(), "-C", str(folder), *arguments),
        input=text,
        capture_output=True,
        env={**os.environ, **plain_git(folder)},
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout.decode().strip()


def fast_import(folder: Path, stream: Iterable[bytes], *options: str) -> None:
    """git-fast-import(1), fed piece by piece. `Unavailable` when it fails."""
    argv = (git_program(), "-C", str(folder), "fast-import", "--quiet", "--done", "--depth=0", *options)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env={**os.environ, **plain_git(folder)}) as child:
        assert child.stdin is not None
        for piece in stream:
            child.stdin.write(piece)
        child.stdin.write(b"done\n")
        child.stdin.close()
        if child.wait():
            raise Unavailable("git fast-import failed")


def commit(branch: str, message: str, *, parent: str = "", mark: int = 0) -> bytes:
    """A commit in the language of fast-import; files may follow."""
    lines = [f"commit refs/heads/{branch}", f"committer {_WHO}", f"data {len(message)}", message]
    if mark:
        lines.insert(1, f"mark :{mark}")
    if parent:
        lines.append(f"from refs/heads/{parent}")
    return "\n".join([*lines, ""]).encode()


def history(chance: random.Random) -> Iterator[bytes]:
    """The three commits."""
    yield commit("base", "base")
    yield commit("middle", "middle", parent="base")
    yield commit("large", "large", parent="middle")
    for number in range(FILES):
        yield f"M 100644 inline folder{number % 40}/file{number}\ndata {FILE_BYTES}\n".encode()
        yield chance.randbytes(FILE_BYTES) + b"\n"


def lay_out_worktree(folder: Path, bare: Path, remotes: Mapping[str, str]) -> Commits:
    """A repository with the three commits in one pack, the first two of them on the forge's main."""
    output_of((git_program(), "init", "-q", "--initial-branch=main", str(folder)))
    fast_import(folder, history(random.Random(SEED)))
    for name, url in remotes.items():
        git(folder, "remote", "add", name, url)
    git(folder, "push", "-q", str(bare), "middle:refs/heads/main")
    base, middle, large = (git(folder, "rev-parse", name) for name in ("base", "middle", "large"))
    return Commits(base, middle, large)


def lay_out_refs(bare: Path) -> None:
    """A branch for each of 100,000 commits, in one file of packed refs, as after `git gc`."""
    marks = bare / "marks"
    numbers = range(1, REFS + 1)
    chain = (commit("chain", f"commit {number}", mark=number) for number in numbers)
    fast_import(bare, chain, f"--export-marks={marks}")
    ids = dict(line.split() for line in marks.read_text().splitlines())
    git(bare, "update-ref", "-d", "refs/heads/chain")
    refs = (f"{ids[f':{number}']} refs/heads/team/topic-{number:06}\n" for number in numbers)
    (bare / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(refs))


class Remembered:
    """A bare repository as it is now; `restore` makes it so again, but for one branch that is put where it is asked."""

    def __init__(self, bare: Path) -> None:
        self._bare = bare
        self._kept = frozenset(self._objects())
        self._refs = frozenset(self._branches())

    def restore(self, branch: str = "", commit: str = "") -> None:
        """Without what pushes brought. The branch then is at `commit`, or not there."""
        wanted = f"refs/heads/{branch}" if commit else ""
        moves = [f"delete {ref}\n" for ref in self._branches() if ref not in {*self._refs, wanted}]
        if wanted:
            moves.append(f"update {wanted} {commit}\n")
        git(self._bare, "update-ref", "--stdin", text="".join(moves).encode())
        for path in self._objects():
            if path not in self._kept:
                path.unlink()

    def tip(self, branch: str) -> str:
        """Where a branch is, empty for nowhere."""
        return git(self._bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")

    def _branches(self) -> list[str]:
        return git(self._bare, "for-each-ref", "--format=%(refname)").splitlines()

    def _objects(self) -> Iterator[Path]:
        return (path for path in (self._bare / "objects").rglob("*") if path.is_file())
