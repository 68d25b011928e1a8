"""`agent-gateway approvals`: asks the gateways of this user what waits for an answer, shows it, and answers.

A client of the operator API; it decides nothing. A number belongs to one gateway: where two have the same one, the
session's name goes before it, SESSION:ID.
"""

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.errors import UsageError
from gateway.operator_socket import OperatorSocket, connect, find_sockets, socket_folder
from gateway.policy.wording import printable
from gateway.question_text import describe
from gateway.typed_answers import HELP, TypedAnswer, take_typed

# Seconds for an answer, and for a sign of life of one that is watched: the gateway gives one every five.
_PATIENCE: Final = 10.0
_SILENCE: Final = 20.0
# Seconds between two looks for runs that have started since.
_LOOK: Final = 1.0
# Bytes of an answer: more than all calls and pushes that a gateway holds at once, each character as its escape.
_ANSWER_BYTES: Final = 512 << 20

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question and the gateway that has it."""

    place: OperatorSocket
    question: Json

    @property
    def name(self) -> str:
        """What it is called on this machine, wherever it is."""
        return f"{self.question.get('session', '')}:{self.question.get('id', '')}"


def approvals(
    environ: Mapping[str, str],
    write: Callable[[str], None],
    tell: Callable[[str], None],
    *,
    word: str,
    question: str,
    remember: bool,
    text: str,
    json: bool,
    read: Callable[[], str] | None = None,
) -> int:
    """The command: its exit status. `write` takes results, `tell` what is said about them; `read` gives the next line
    that a person types, where one sits there."""
    folder = socket_folder(environ)
    if word == "watch":
        return watch(folder, write, as_json=json, read=None if json else read)
    if word == "list":
        return list_waiting(folder, write, tell, as_json=json)
    status, said = answer(folder, question, approve=word == "approve", remember=remember, text=text)
    tell(said)
    return status


def find_waiting(folder: Path, tell: Callable[[str], None] | None = None) -> list[Waiting]:
    """What waits at all gateways, oldest first in each. One that ends meanwhile has nothing to ask; `tell` is told of
    one that is there and gives no answer."""
    found = []
    for place in find_sockets(folder):
        try:
            _, answer = _request(place.path, "GET", "/approvals")
        except (OSError, http.client.HTTPException, ValueError):
            if tell is not None and os.path.lexists(place.path):
                tell(f"{place.path.name} gives no answer, so its questions are missing here")
            continue
        questions = answer.get("approvals", [])
        found += [Waiting(place, question) for question in questions if isinstance(question, dict)]
    return found


def list_waiting(
    folder: Path,
    write: Callable[[str], None],
    tell: Callable[[str], None] | None = None,
    *,
    as_json: bool,
) -> int:
    """Shows what waits."""
    found = find_waiting(folder, tell)
    if as_json:
        write(json.dumps([waiting.question for waiting in found]))
    elif not found:
        write("no questions are waiting")
    else:
        numbers = [waiting.question.get("id") for waiting in found]
        for waiting in found:
            alone = numbers.count(waiting.question.get("id")) == 1
            write(
                "\n".join(describe(waiting.question, str(waiting.question["id"]) if alone else waiting.name))
            )
    return 0


def answer(
    folder: Path, name: str, *, approve: bool, remember: bool = False, text: str = ""
) -> tuple[int, str]:
    """Answers a question: the exit status, and what became of it in a sentence. UsageError for what names none."""
    session, number = _parse(name)
    waiting = [one for one in find_waiting(folder) if _is_meant(one, session, number)]
    if len(waiting) > 1:
        names = ", ".join(one.name for one in waiting)
        return 1, f"{number} waits in several sessions: write one of {names}"
    if waiting:
        place = waiting[0].place
    else:
        places = [one for one in find_sockets(folder) if session in ("", one.session)]
        if len(places) != 1:
            return 1, _nobody(name, session, places)
        place = places[0]
    body = {"remember": remember, "reason": text} if approve else {"message": text}
    word = "approve" if approve else "deny"
    try:
        status, said = _request(place.path, "POST", f"/approvals/{number}/{word}", body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 1, f"{name} could not be answered: {printable(str(error))}"
    return _told(name, word, status, said, remember)


def watch(
    folder: Path,
    write: Callable[[str], None],
    *,
    as_json: bool,
    read: Callable[[], str] | None = None,
) -> int:
    """Shows questions as they come and go, at gateways that start later too, and takes typed answers, until it is
    interrupted."""
    threads: dict[Path, threading.Thread] = {}
    lock = threading.Lock()
    over = threading.Event()

    def say(text: str) -> None:
        with lock:
            try:
                write(text)
            except OSError:
                over.set()  # nobody reads this any more, so nobody is there to be asked
                raise

    if not as_json:
        say("watching: questions of every run are shown here, Ctrl-C ends it")
    if read is not None:
        say(HELP)
        typing = (read, partial(_answer_typed, folder), say)
        threading.Thread(target=take_typed, args=typing, daemon=True, name="typed answers").start()
    try:
        while not over.is_set():
            for place in find_sockets(folder):
                known = threads.get(place.path)
                if known is None or not known.is_alive():
                    thread = threading.Thread(
                        target=_watch_one,
                        args=(place, say, as_json),
                        daemon=True,
                        name=f"watch {place.path.name}",
                    )
                    threads[place.path] = thread
                    thread.start()
            over.wait(_LOOK)
        raise BrokenPipeError
    except KeyboardInterrupt:
        return 130


def _answer_typed(folder: Path, typed: TypedAnswer) -> str:
    try:
        _, said = answer(
            folder, typed.question, approve=typed.approve, remember=typed.remember, text=typed.text
        )
    except UsageError as error:
        return "; ".join(error.lines)
    return said


def _watch_one(place: OperatorSocket, say: Callable[[str], None], as_json: bool) -> None:
    try:
        for event in _events(place.path):
            if as_json:
                say(json.dumps(event))
            elif event.get("event") == "asked":
                say("\n".join(describe(event, f"{event.get('session', '')}:{event.get('id', '')}")))
            elif event.get("event") == "closed":
                say(f"{printable(str(event.get('session')))}:{event.get('id')} is over")
    except (OSError, http.client.HTTPException, ValueError):
        return  # the gateway has ended


def _parse(name: str) -> tuple[str, int]:
    session, _, number = name.rpartition(":")
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise UsageError(f"{printable(name[:80])!r} names no question", "write its number, or SESSION:NUMBER")
    return session, int(number)


def _is_meant(waiting: Waiting, session: str, number: int) -> bool:
    question = waiting.question
    return question.get("id") == number and session in ("", question.get("session"))


def _nobody(name: str, session: str, places: Sequence[OperatorSocket]) -> str:
    if not places:
        return (
            f"no session {session} is running" if session else "no session is running that could ask anything"
        )
    return f"no question {name} is waiting; agent-gateway approvals lists those that are"


def _told(name: str, word: str, status: int, said: Json, remember: bool) -> tuple[int, str]:
    match said.get("state"):
        case "done" if word == "deny":
            return 0, f"{name} is denied"
        case "done" if remember and not said.get("remembered"):
            return 0, f"{name} is approved, this once: an answer to it cannot be remembered"
        case "done":
            return 0, f"{name} is approved" + (", and so for the rest of the session" if remember else "")
        case "unknown":
            return 1, f"no question {name} is waiting; agent-gateway approvals lists those that are"
        case "answered":
            return 1, f"{name} was answered already"
        case "over":
            return 1, f"{name} is over: whoever asked has gone, or the time was up"
        case "needs_reason":
            return 1, f"{name} is denied by a rule: to override it, write --reason TEXT"
        case _:
            return 1, f"{name} was not answered: the gateway said {status}"


# --- HTTP on a Unix socket ------------------------------------------------------------------------


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = connect(self._path, float(self.timeout or _PATIENCE))


def _request(path: Path, method: str, target: str, body: Json | None = None) -> tuple[int, Json]:
    connection = _Connection(path, _PATIENCE)
    try:
        connection.request(method, target, None if body is None else json.dumps(body))
        response = connection.getresponse()
        found = json.loads(response.read(_ANSWER_BYTES))
        return response.status, found if isinstance(found, dict) else {}
    finally:
        connection.close()


def _events(path: Path) -> Iterator[Json]:
    connection = _Connection(path, _SILENCE)
    try:
        connection.request("GET", "/approvals/watch")
        response = connection.getresponse()
        if response.status != http.client.OK:
            return
        while line := response.readline(_ANSWER_BYTES):
            if line.strip():
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event
    finally:
        connection.close()
