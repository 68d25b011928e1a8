"""truncate through the door: what is changed, what is refused, and how long a file may become."""

from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def test_truncate(ground: Ground) -> None:
    ground.write("f", "x" * 100)
    (ground.root / "l").symlink_to("f")
    (ground.root / "kept").mkdir()
    ground.write("kept/file", "kept")
    seen = tried(
        ground,
        """
os.mkfifo("p")
t("shorter", lambda: os.truncate("f", 10))
t("longer", lambda: os.truncate("l", 5000))
t("size", lambda: os.stat("f").st_size)
t("negative", lambda: os.truncate("f", -1))
t("directory", lambda: os.truncate(".", 0))
t("pipe", lambda: os.truncate("p", 0))
t("absent", lambda: os.truncate("no", 0))
t("slash", lambda: os.truncate("f/", 0))
t("sealed", lambda: os.truncate("kept/file", 0))
t("private", lambda: (put("/var/tmp/f"), os.truncate("/var/tmp/f", 1), os.stat("/var/tmp/f").st_size)[2])
t("outside", lambda: os.truncate("/etc/passwd", 0))
""",
        sealed=[str(ground.root / "kept")],
    )
    outside = seen.pop("outside")
    assert outside in ("EROFS", "EACCES")
    assert seen == {
        "shorter": "ok", "longer": "ok", "size": 5000, "negative": "EINVAL", "directory": "EISDIR", "pipe": "EINVAL",
        "absent": "ENOENT", "slash": "ENOTDIR", "sealed": "EACCES", "private": 1,
    }  # fmt: skip


def test_files_grow_to_the_caller_s_own_limit(ground: Ground) -> None:
    """Whoever goes beyond it is told, and gets the signal that goes with it; what is longer already may shrink."""
    ground.write("long", "x" * 9000)
    seen = tried(
        ground,
        """
import resource, signal
got = []
signal.signal(signal.SIGXFSZ, lambda number, _: got.append(number))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
put("f")
t("to it", lambda: os.truncate("f", 5000))
t("size", lambda: os.stat("f").st_size)
t("signals before", lambda: len(got))
t("beyond", lambda: os.truncate("f", 5001))
t("beyond, by descriptor", lambda: os.truncate(f"/proc/self/fd/{os.open('f', os.O_RDONLY)}", 5001))
t("longer than what is too long", lambda: os.truncate("long", 9001))
t("signals", lambda: len(got))
t("shorter", lambda: os.truncate("long", 8000))
t("as long", lambda: os.truncate("long", 8000))
t("still", lambda: os.stat("f").st_size)
""",
    )
    assert seen == {
        "to it": "ok", "size": 5000, "signals before": 0, "beyond": "EFBIG", "beyond, by descriptor": "EFBIG",
        "longer than what is too long": "EFBIG", "signals": 3, "shorter": "ok", "as long": "ok", "still": 5000,
    }  # fmt: skip
