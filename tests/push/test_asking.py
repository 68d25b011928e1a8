"""A push that waits for a person: what they are asked, what comes of each answer, and who may leave meanwhile."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.approvals import Answer, Question
from gateway.policy.decision import Verdict
from gateway.policy.rules import RuleSet
from tests.fakes.push_gateway import LABEL, NAME, PushWorld, push_rule, push_world
from tests.fakes.raw_push import ZERO, good_pack, post, section, statuses
from tests.fakes.wire import PATIENCE

LARGE = 3 << 20
YES, NO = Answer(True, "go ahead", "zoe"), Answer(False, "not on a Friday", "zoe")


class Person:
    """Attached; answers when told to."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.closed_ones: list[Question] = []
        self.reply: Callable[[Question], None] = lambda question: None

    def asked(self, question: Question) -> None:
        self.questions.append(question)
        self.reply(question)

    def closed(self, question: Question) -> None:
        self.closed_ones.append(question)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PushWorld]:
    with push_world(tmp_path) as opened:
        yield opened


@pytest.fixture
def person(world: PushWorld) -> Person:
    someone = Person()
    world.call(lambda: world.approvals.attach(someone))
    return someone


def answering(answer: Answer) -> Callable[[Question], None]:
    def reply(question: Question) -> None:
        assert question.settle(answer)

    return reply


@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
def test_approved(world: PushWorld, person: Person, size: int) -> None:
    person.reply = answering(YES)
    git = world.worktree()
    new = git.commit(content=os.urandom(size), message="A subject\n\nand a body")
    done = git.try_to("push", "origin", "HEAD:other")
    assert done.returncode == 0, done.stderr
    assert f"remote: {LABEL}: waiting for approval 1 (5 min left)" in done.stderr
    assert world.refs() == {"refs/heads/other": new}
    [question] = person.questions
    assert question.summary == f"push to {NAME}: create refs/heads/other"
    assert question.details == {
        "repository": NAME,
        "refs": [{"ref": "refs/heads/other", "old": ZERO, "new": new, "kind": "create", "ascii": True}],
        "others": 0,
        "commits": [{"id": new, "subject": "A subject"}],
    }
    [record] = world.pushes()
    assert record["approver"] == "zoe"
    assert (record["refs"][0]["verdict"], record["refs"][0]["rule"]) == ("allow", "default")
    assert [one["state"] for one in world.records("approval")] == ["asked", "approved"]


@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
def test_denied(world: PushWorld, person: Person, size: int) -> None:
    person.reply = answering(NO)
    git = world.worktree()
    git.commit(content=os.urandom(size))
    done = git.try_to("push", "origin", "HEAD:other")
    assert done.returncode == 1
    assert "[remote rejected] HEAD -> other" in done.stderr and "; not on a Friday)" in done.stderr
    assert world.refs() == {} and world.written == []


def test_the_kind_is_part_of_the_question(world: PushWorld, person: Person) -> None:
    person.reply = answering(YES)
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:other")
    git.commit("two")
    git("push", "-q", "origin", "HEAD:other")
    git("commit", "-q", "--amend", "-m", "rewritten")
    git("push", "-q", "--force", "origin", "HEAD:other")
    kinds = [question.details["refs"][0]["kind"] for question in person.questions]  # type: ignore[index]
    assert kinds == ["create", "fast-forward", "force"]


def test_one_answer_is_for_one_request(world: PushWorld, person: Person) -> None:
    """The same push again asks again."""
    person.reply = answering(NO)
    git = world.worktree()
    git.commit()
    for _ in range(2):
        assert git.try_to("push", "origin", "HEAD:other").returncode == 1
    assert len({question.id for question in person.questions}) == 2


def test_the_same_push_twice_at_a_time(world: PushWorld, person: Person) -> None:
    """Both wait, each with a question of its own; a yes to one is none to the other."""
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/other")) + data
    answers: list[dict[str, str]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(statuses(post(world, body).body))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    world.until(lambda: len(person.questions) == 2, "two questions")
    first, second = person.questions
    world.call(lambda: first.settle(YES))
    world.until(lambda: bool(world.pushes()), "the first push")
    assert not second.withdrawn
    world.call(lambda: second.settle(NO))
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(answer["refs/heads/other"] == "ok" for answer in answers) == [False, True]


def test_nothing_is_asked_when_another_ref_is_denied(world: PushWorld, person: Person) -> None:
    git = world.worktree()
    git.commit()
    assert git.try_to("push", "origin", "main", "HEAD:other").returncode == 1
    assert person.questions == []


def test_allowed_refs_go_with_the_approved_ones(world: PushWorld, person: Person) -> None:
    person.reply = answering(YES)
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:other", "HEAD:agent/one")
    assert sorted(world.refs()) == ["refs/heads/agent/one", "refs/heads/other"]
    assert person.questions[0].details["others"] == 1


def test_a_name_that_only_looks_like_another(world: PushWorld, person: Person) -> None:
    """A Cyrillic letter: never allowed by an ASCII rule, and marked for whoever is asked."""
    person.reply = answering(NO)
    git = world.worktree()
    git.commit()
    git.try_to("push", "origin", "HEAD:refs/heads/agent/m\u0430in")
    assert person.questions[0].details["refs"][0]["ascii"] is False  # type: ignore[index]


def test_a_client_without_sideband_cannot_wait(world: PushWorld, person: Person) -> None:
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/other"), capabilities="report-status") + data)
    [reason] = statuses(answer.body, sideband=False).values()
    assert reason.endswith("this git client cannot wait for it (it has no side-band)")
    assert person.questions == [] and world.written == []


def test_signs_of_life(world: PushWorld, person: Person) -> None:
    """Text comes while the body is still under way."""
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/other")) + data
    head = [f"Content-Length: {len(body)}", "Content-Type: application/x-git-receive-pack-request"]
    with world.wire(body[:-1], headers=head) as wire:
        wire.until(b"waiting for approval 1 (5 min left)\n")
        world.call(lambda: person.questions[0].settle(YES))
        wire.send(body[-1:])
        wire.until(b"ok refs/heads/other\n")


@pytest.mark.parametrize("whole", [True, False], ids=["all sent", "half sent"])
def test_a_client_that_leaves_withdraws_the_question(world: PushWorld, person: Person, whole: bool) -> None:
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/other")) + data
    head = [f"Content-Length: {len(body)}", "Content-Type: application/x-git-receive-pack-request"]
    with world.wire(body if whole else body[:-5], headers=head) as wire:
        wire.until(b"waiting for approval")
        wire.reset()
    world.until(lambda: bool(person.closed_ones), "the end of the question")
    [question] = person.questions
    assert question.withdrawn and not world.call(lambda: question.settle(YES))
    world.until(lambda: bool(world.pushes()), "the record")
    assert world.pushes()[0]["code"] == "client_gone"
    assert [one["state"] for one in world.records("approval")] == ["asked", "withdrawn"]
    assert world.minted == 0 and world.refs() == {}


def test_ctrl_c(world: PushWorld, person: Person) -> None:
    git = world.worktree()
    git.commit(content=os.urandom(LARGE))
    with subprocess.Popen(
        ("git", "-C", str(git.folder), "push", "origin", "HEAD:other"),
        env=git.variables(), stderr=subprocess.DEVNULL, start_new_session=True,
    ) as program:  # fmt: skip
        world.until(lambda: bool(person.questions), "the question")
        os.killpg(program.pid, signal.SIGINT)
    world.until(lambda: bool(world.pushes()), "the record")
    assert person.questions[0].withdrawn
    assert world.minted == 0


def test_nobody_answers_in_time(world: PushWorld, person: Person) -> None:
    world.approvals.timeout = 0.05
    git = world.worktree()
    git.commit()
    done = git.try_to("push", "origin", "HEAD:other")
    assert done.returncode == 1
    assert "nobody did within 0.05 seconds)" in done.stderr
    assert world.written == []


def test_a_rule_that_denies_by_now(tmp_path: Path) -> None:
    """The rules are asked again when the answer is there: here an allow has expired, and a denial stands behind it."""
    with push_world(tmp_path) as world:
        person = Person()
        world.call(lambda: world.approvals.attach(person))

        def tighten(question: Question) -> None:
            denying = RuleSet(rules=(push_rule(Verdict.DENY, "other", place="config.yaml:99"),))
            object.__setattr__(world.session, "rules", denying)
            question.settle(YES)

        person.reply = tighten
        git = world.worktree()
        git.commit()
        done = git.try_to("push", "origin", "HEAD:other")
        assert done.returncode == 1
        assert "by config.yaml:99" in done.stderr
        assert world.written == []
        assert world.pushes()[0]["refs"][0]["rule"] == "config.yaml:99"


def test_an_approver_that_leaves(world: PushWorld, person: Person) -> None:
    git = world.worktree()
    git.commit()
    person.reply = lambda question: world.approvals.detach(person)
    done = git.try_to("push", "origin", "HEAD:other")
    assert done.returncode == 1
    assert "the approver left before there was an answer" in done.stderr


def test_a_session_that_is_closed_meanwhile(tmp_path: Path) -> None:
    with push_world(tmp_path) as world:
        person = Person()
        world.call(lambda: world.approvals.attach(person))
        new, data = good_pack("one")
        body = section((ZERO, new, "refs/heads/other")) + data
        head = [f"Content-Length: {len(body)}", "Content-Type: application/x-git-receive-pack-request"]
        with world.wire(body, headers=head) as wire:
            wire.until(b"waiting for approval")
            world.stop()
            wire.rest()
        assert person.questions[0].withdrawn
        assert world.pushes()[0]["code"] == "session_closed"
        assert world.refs() == {}
