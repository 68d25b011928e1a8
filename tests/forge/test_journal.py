"""What the forge remembers of requests."""

import threading

from gateway.forge.journal import Journal, Seen
from gateway.forge.tokens import Credential


def seen(path: str, method: str = "GET") -> Seen:
    return Seen(method, path, Credential.READ, 1)


def test_requests_stand_in_their_order() -> None:
    journal = Journal()
    for path in ("/one", "/two"):
        journal.note(seen(path))
    journal.note(seen("/three", "POST"))
    assert [item.path for item in journal] == ["/one", "/two", "/three"]
    assert journal.paths("GET") == ["/one", "/two"]
    assert len(journal) == 3
    journal.clear()
    assert list(journal) == []


def test_the_oldest_are_forgotten() -> None:
    journal = Journal()
    for number in range(10_001):
        journal.note(seen(str(number)))
    assert len(journal) == 10_000
    assert next(iter(journal)).path == "1"


def test_waiting_for_a_request() -> None:
    journal = Journal()
    assert not journal.wait_for(lambda _: True, 0)
    journal.note(seen("/one"))
    assert journal.wait_for(lambda item: item.path == "/one", 0)
    assert not journal.wait_for(lambda item: item.path == "/two", 0)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(journal.wait_for(lambda it: it.path == "/two", 60)))
    thread.start()
    journal.note(seen("/two"))
    thread.join()
    assert found == [True]
