"""Progress is for a person who waits: on a terminal, not before it takes a while, and gone at the end."""

import io

import pytest

from gateway.review.progress import progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal() -> None:
    stream, now = Terminal(), [0.0]
    with progress_line(stream, "verifying", lambda: now[0]) as tell:
        tell(1 << 20, 4 << 20)
        assert stream.getvalue() == ""
        now[0] = 1.0
        tell(1 << 20, 4 << 20)
        tell(2 << 20, 4 << 20)
        assert stream.getvalue() == "\r\x1b[Kverifying: 25 % of 4 MB"
        now[0] = 2.0
        tell(4 << 20, 4 << 20)
        tell(0, 0)
    assert stream.getvalue().endswith("100 % of 4 MB\r\x1b[K")


def test_elsewhere() -> None:
    stream, now = io.StringIO(), [0.0]
    with progress_line(stream, "verifying", lambda: now[0]) as tell:
        now[0] = 9.0
        tell(1, 2)
    assert stream.getvalue() == ""


def test_the_line_goes_also_when_it_fails() -> None:
    stream, now = Terminal(), [0.0]
    with (
        pytest.raises(ValueError, match="broken"),
        progress_line(stream, "verifying", lambda: now[0]) as tell,
    ):
        now[0] = 9.0
        tell(1, 2)
        raise ValueError("broken")
    assert stream.getvalue().endswith("\r\x1b[K")
