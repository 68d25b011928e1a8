"""`agent-gateway approvals` against real sockets: what is shown, what is answered, what is told when it cannot be."""

import io
import json
import threading
from pathlib import Path
from queue import Queue

import pytest

from gateway.approvals_command import answer, approvals, find_waiting, list_waiting, watch
from gateway.errors import UsageError
from gateway.operator_socket import listen, session_socket
from gateway.policy.push import PushRequest, UpdateKind
from gateway.policy.remembering import remembered_push
from gateway.policy.repositories import parse_repository
from gateway.typed_answers import HELP
from tests.fakes.console import PROGRAM, Console, terminal
from tests.fakes.operator_desk import OperatorDesk, Somebody, operator_desk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sockets"


def attach(desk: OperatorDesk) -> None:
    desk.call(lambda: desk.approvals.attach(Somebody()))


def shown(folder: Path, *, as_json: bool = False) -> str:
    lines: list[str] = []
    assert list_waiting(folder, lines.append, as_json=as_json) == 0
    return "\n".join(lines)


def test_nobody_is_running(folder: Path) -> None:
    assert shown(folder) == "no questions are waiting"
    assert shown(folder, as_json=True) == "[]"
    assert answer(folder, "3", approve=True) == (1, "no session is running that could ask anything")
    assert answer(folder, "s9:3", approve=True) == (1, "no session s9 is running")


def test_a_list_says_exactly_what_is_asked(tmp_path: Path, folder: Path) -> None:
    with operator_desk(tmp_path, folder) as desk:
        attach(desk)
        question, _ = desk.ask()
        text = shown(folder)
        assert text.splitlines()[0].startswith(
            f"{question.id}  push  session s1, agent claude, asked 0 s ago"
        )
        for piece in (
            "push to acme/widget: create feature/x",
            "create feature/x  000000000000..aaaaaaaaaaaa",
            "Add x",
        ):
            assert piece in text
        assert f"agent-gateway approvals approve {question.id}" in text
        (told,) = json.loads(shown(folder, as_json=True))
        assert told["id"] == question.id


@pytest.mark.parametrize(("approve", "text"), [(True, "fine"), (False, "not today")])
def test_an_answer(tmp_path: Path, folder: Path, approve: bool, text: str) -> None:
    with operator_desk(tmp_path, folder) as desk:
        attach(desk)
        question, asking = desk.ask()
        status, said = answer(folder, str(question.id), approve=approve, text=text)
        assert (status, said) == (0, f"{question.id} is {'approved' if approve else 'denied'}")
        found = asking.result(30)
        assert (found.allowed, found.reason) == (approve, text)
        assert answer(folder, str(question.id), approve=True) == (1, f"{question.id} was answered already")
        assert answer(folder, "77", approve=True)[1].startswith("no question 77 is waiting")


def test_what_cannot_be_remembered_is_said(tmp_path: Path, folder: Path) -> None:
    rule = remembered_push(PushRequest(parse_repository("a/b"), "refs/heads/x/y", UpdateKind.CREATE))
    assert rule is not None
    with operator_desk(tmp_path, folder) as desk:
        attach(desk)
        once, _ = desk.ask()
        assert "this once" in answer(folder, str(once.id), approve=True, remember=True)[1]
        always, _ = desk.ask(rules=(rule,))
        assert "[--remember]" in shown(folder)
        assert "rest of the session" in answer(folder, str(always.id), approve=True, remember=True)[1]


def test_an_override_needs_a_reason(tmp_path: Path, folder: Path) -> None:
    with operator_desk(tmp_path, folder) as desk:
        attach(desk)
        question, _ = desk.ask(override=True)
        assert f"approve {question.id} --reason TEXT" in shown(folder)
        status, said = answer(folder, str(question.id), approve=True)
        assert (status, "write --reason" in said) == (1, True)
        assert answer(folder, str(question.id), approve=True, text="agreed")[0] == 0


def test_one_number_in_two_sessions(tmp_path: Path, folder: Path) -> None:
    with (
        operator_desk(tmp_path / "a", folder) as first,
        operator_desk(tmp_path / "b", folder, session_id="s2") as second,
    ):
        for desk in (first, second):
            attach(desk)
            desk.ask()
        status, said = answer(folder, "1", approve=True)
        assert (status, said) == (1, "1 waits in several sessions: write one of s1:1, s2:1")
        assert "approve s2:1" in shown(folder)
        assert answer(folder, "s2:1", approve=True)[0] == 0
        assert [one.name for one in find_waiting(folder)] == ["s1:1"]
        assert answer(folder, "1", approve=False)[0] == 0


@pytest.mark.parametrize("name", ["", "x", "1x", "s1:", "-1", "1 2", "9" * 30, "½"])
def test_what_names_no_question(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="names no question"):
        answer(folder, name, approve=True)


def test_a_gateway_that_gives_no_answer_is_named(folder: Path) -> None:
    with listen(session_socket(folder, "s1")) as listening:
        listening.setblocking(True)

        def serve() -> None:
            for _ in range(2):
                listening.accept()[0].close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        told: list[str] = []
        assert find_waiting(folder, told.append) == []
        assert told == ["run-s1.sock gives no answer, so its questions are missing here"]
        thread.join(10)


def test_a_gateway_that_says_nothing_sensible_has_no_questions(folder: Path) -> None:
    with listen(session_socket(folder, "s1")) as listening:
        listening.setblocking(True)

        def serve() -> None:
            for reply in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"nonsense\r\n\r\n"):
                connection, _ = listening.accept()  # the look whether anybody is there
                connection.close()
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        for _ in range(3):
            assert find_waiting(folder) == []
        thread.join(10)


def test_a_watcher_whose_reader_has_gone_is_there_no_more(tmp_path: Path, folder: Path) -> None:
    ended: list[type[BaseException]] = []

    def hear(line: str) -> None:
        if line.startswith("{"):
            raise BrokenPipeError

    def look() -> None:
        try:
            watch(folder, hear, as_json=True)
        except OSError as error:
            ended.append(type(error))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    with operator_desk(tmp_path, folder) as desk:
        desk.wait_until(lambda: desk.approvals.attended)
        _, asking = desk.ask()
        assert "the approver left" in asking.result(30).reason
        thread.join(30)
        assert ended == [BrokenPipeError]
        assert not desk.call(lambda: desk.approvals.attended)


class Screen(io.StringIO):
    """What a watcher writes; `wait_for` a text, then it is interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def line(self, text: str) -> None:
        with self.changed:
            self.write(text + "\n")
            self.changed.notify_all()

    def wait_for(self, text: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.getvalue(), 30), self.getvalue()


def test_what_is_typed_answers(tmp_path: Path, folder: Path) -> None:
    screen, typed = Screen(), Queue[str]()
    options = {"as_json": False, "read": typed.get}
    threading.Thread(target=watch, args=(folder, screen.line), kwargs=options, daemon=True).start()
    with operator_desk(tmp_path, folder) as desk:
        desk.wait_until(lambda: desk.approvals.attended)
        first, yes = desk.ask()
        second, no = desk.ask()
        denied, overridden = desk.ask(override=True)
        for line in (
            "y",
            "yes please",
            f"n s1:{second.id} not today\n",
            f"y {first.id}\n",
            f"y {denied.id}\n",
        ):
            typed.put(line)
        screen.wait_for(f"{denied.id} is denied by a rule: to override it, write --reason TEXT")
        typed.put(f"y {denied.id} it is urgent\n")
        assert (yes.result(30).allowed, no.result(30).allowed, no.result(30).reason) == (
            True,
            False,
            "not today",
        )
        assert (overridden.result(30).allowed, overridden.result(30).reason) == (True, "it is urgent")
        for said in (
            HELP,
            f"{first.id} is approved",
            f"s1:{second.id} is denied",
            "'please' names no question",
        ):
            screen.wait_for(said)


def test_a_person_answers_where_the_question_is_shown(tmp_path: Path) -> None:
    console = Console(tmp_path)
    sockets = tmp_path / "run/agent-gateway"
    with operator_desk(tmp_path, sockets) as desk, terminal(console, PROGRAM, "approvals", "watch") as shown:
        shown.see(b"answer with: y ID")
        desk.wait_until(lambda: desk.approvals.attended)
        question, asking = desk.ask()
        shown.see(b"push to acme/widget")
        shown.type(f"y {question.id}\n".encode())
        shown.see(f"{question.id} is approved".encode())
        assert asking.result(30).allowed
        shown.type(b"\x03")
        assert shown.end() == 130


def test_a_watcher_in_the_background_goes_on(tmp_path: Path) -> None:
    """Reading there would stop it, and whoever is stopped is nobody to ask."""
    console = Console(tmp_path)
    sockets = tmp_path / "run/agent-gateway"
    job = f"set -m; {PROGRAM} approvals watch & read line; jobs; kill -INT %1; wait; echo over"
    with operator_desk(tmp_path, sockets) as desk, terminal(console, "bash", "-c", job) as shown:
        shown.see(b"answer with: y ID")
        desk.wait_until(lambda: desk.approvals.attended)
        question, asking = desk.ask()
        shown.see(b"push to acme/widget")
        assert answer(sockets, f"{question.id}", approve=True)[0] == 0
        assert asking.result(30).allowed
        shown.see(b"is over")
        shown.type(b"end\n")
        shown.see(b"Running")
        shown.see(b"over")


def test_programs_are_not_asked_to_type(folder: Path) -> None:
    """JSON is for programs: nothing but events is written, and nothing is read."""
    screen = Screen()

    def read() -> str:
        raise AssertionError("read")

    options = {"read": read, "word": "watch", "question": "", "remember": False, "text": "", "json": True}
    environ = {"XDG_RUNTIME_DIR": str(folder)}
    threading.Thread(
        target=approvals, args=(environ, screen.line, screen.line), kwargs=options, daemon=True
    ).start()
    with operator_desk(folder, folder / "agent-gateway") as desk:
        desk.wait_until(lambda: desk.approvals.attended)
        desk.ask()
        screen.wait_for('"asked"')
        assert HELP not in screen.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_finds_runs_that_start_later_and_survives_their_end(
    tmp_path: Path, folder: Path, as_json: bool
) -> None:
    screen = Screen()
    thread = threading.Thread(
        target=watch, args=(folder, screen.line), kwargs={"as_json": as_json}, daemon=True
    )
    thread.start()
    for session in ("s1", "s2"):
        with operator_desk(tmp_path / session, folder, session_id=session) as desk:
            desk.wait_until(lambda: desk.approvals.attended)
            question, asking = desk.ask()
            screen.wait_for(f'"session": "{session}"' if as_json else f"approve {session}:{question.id}")
            assert answer(folder, f"{session}:{question.id}", approve=True)[0] == 0
            assert asking.result(30).allowed
            screen.wait_for('"closed"' if as_json else f"{session}:{question.id} is over")
