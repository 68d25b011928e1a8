"""Sockets of the host: those that a bind names can be reached from inside, no others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sandbox.wrapping import Place

CONNECT = """
import errno, socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as out:
        try:
            out.connect(path)
            print(out.recv(100).decode())
        except OSError as error:
            print(errno.errorcode[error.errno])
"""


@contextmanager
def server(path: Path, word: str) -> Iterator[None]:
    """Answers everybody with a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(word.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("rules", ["create-time", "existing-only"])
def test_only_named_sockets_are_reached(place: Place, rules: str) -> None:
    named, other, outside = place.worktree / "named", place.worktree / "other", place.root / "outside"
    with server(named, "named"), server(other, "other"), server(outside, "outside"):
        binds = [[str(place.worktree), False], [str(named), False], [str(outside), False]]
        done = place.run(
            "python3",
            "-c",
            CONNECT,
            str(named),
            str(other),
            str(outside),
            bind_mounts=binds,
            file_rules=rules,
        )
    assert done.stderr == ""
    first, second, third = done.stdout.split()
    assert (first, third) == ("named", "outside")
    assert second in ("EACCES", "ECONNREFUSED")
