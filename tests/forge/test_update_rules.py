"""The hook: what it reads and answers, and which updates it refuses."""

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from gateway.forge import update_rules
from gateway.forge.rules import PROTECTED_BRANCH, protected_branch, ruleset
from gateway.forge.update_rules import VARIABLE, changed_workflow, judge, packet, read_commands, read_packets
from tests.fakes.forge import Git, new_worktree

ZERO, ID = "0" * 40, "1" * 40
PASS = packet("option fall-through")
FLUSH = b"0000"


def version(features: str = "") -> bytes:
    return packet(f"version=1\0{features}") + FLUSH


def run(git: Git, *updates: str, rules: object = (), workflows: bool = True, features: str = "") -> bytes:
    """The hook as git runs it, without the answer to the version."""
    source = version(features) + b"".join(packet(update) for update in updates) + FLUSH
    done = subprocess.run(
        (sys.executable, "-I", "-S", update_rules.__file__),
        input=source,
        cwd=git.folder,
        env={**git.variables(), VARIABLE: json.dumps({"workflows": workflows, "rules": rules})},
        capture_output=True,
        check=True,
    )
    head = packet("version=1") + FLUSH
    assert done.stdout.startswith(head)
    return done.stdout.removeprefix(head) + done.stderr


@pytest.fixture
def git(tmp_path: Path) -> Git:
    made = new_worktree(tmp_path / "w", "nowhere")
    made.commit()
    return made


def test_packets() -> None:
    assert packet("hello") == b"0009hello"
    source = BytesIO(packet("one") + packet("two") + FLUSH + packet("three"))
    assert list(read_packets(source)) == [b"one", b"two"]
    assert source.read() == packet("three")
    with pytest.raises(ValueError, match="invalid literal"):
        list(read_packets(BytesIO(packet("one"))))


def test_commands() -> None:
    source = BytesIO(packet(f"{ZERO} {ID} refs/heads/a\n") + packet(f"{ID} {ZERO} refs/heads/b") + FLUSH)
    assert read_commands(source) == ((ZERO, ID, "refs/heads/a"), (ID, ZERO, "refs/heads/b"))


def test_what_is_not_refused_falls_through(git: Git) -> None:
    answer = run(git, f"{ZERO} {git('rev-parse', 'HEAD')} refs/heads/new", f"{ID} {ZERO} refs/heads/old")
    assert answer == packet("ok refs/heads/new") + PASS + packet("ok refs/heads/old") + PASS + FLUSH


def test_a_rule_speaks_for_its_refs(git: Git) -> None:
    rule = ["refs/heads/rel/*", "no", ["of {ref}", "more"]]
    answer = run(git, f"{ZERO} {ID} refs/heads/rel/1", f"{ZERO} {ID} refs/heads/rel", rules=[rule])
    assert answer == (
        packet("ng refs/heads/rel/1 no") + packet("ok refs/heads/rel") + PASS + FLUSH
        + b"of refs/heads/rel/1\nmore\n"
    )  # fmt: skip


def test_atomic_is_all_or_nothing(git: Git) -> None:
    updates = (f"{ZERO} {ID} refs/heads/a", f"{ZERO} {ID} refs/heads/b")
    rules = [["refs/heads/b", "no", []]]
    answer = run(git, *updates, rules=rules, features="push-options atomic")
    assert answer == packet("ng refs/heads/a atomic push failure") + packet("ng refs/heads/b no") + FLUSH
    assert run(git, *updates, features="atomic").count(PASS) == 2


def test_the_first_rule_wins() -> None:
    rules = [
        (rule.pattern, rule.reason, list(rule.messages))
        for rule in (protected_branch("refs/heads/main"), ruleset("refs/heads/*"))
    ]
    reason, messages = judge((ZERO, ID, "refs/heads/main"), True, rules)
    assert reason == PROTECTED_BRANCH
    assert messages[0] == "error: GH006: Protected branch update failed for refs/heads/main."


def test_the_default_branch_is_not_deleted(git: Git) -> None:
    answer = run(git, f"{ID} {ZERO} refs/heads/main", f"{ID} {ZERO} refs/heads/other")
    assert answer == (
        packet("ng refs/heads/main refusing to delete the current branch: refs/heads/main")
        + packet("ok refs/heads/other") + PASS + FLUSH
    )  # fmt: skip


def test_workflows(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """New is what no ref holds."""
    first = git("rev-parse", "HEAD")
    changed = git.commit(".github/workflows/ci.yml")
    later = git.commit("other")
    git("tag", "-a", "-m", "one", "v1")
    tag = git("rev-parse", "v1")
    git("checkout", "-q", "-b", "side", first)
    aside = git.commit("aside")
    git("merge", "-q", "-m", "merged", later)
    merged = git("rev-parse", "HEAD")
    for ref in ("refs/heads/main", "refs/tags/v1", "refs/heads/side"):
        git("update-ref", "-d", ref)
    git("update-ref", "refs/heads/main", first)
    monkeypatch.chdir(git.folder)
    for new in (changed, later, tag, merged):
        assert changed_workflow(new) == ".github/workflows/ci.yml"
    for new in (first, aside, ZERO, ID, git("rev-parse", f"{first}^{{tree}}")):
        assert changed_workflow(new) == ""
    git("update-ref", "refs/heads/holds", changed)
    assert changed_workflow(later) == ""
    answer = run(git, f"{first} {aside} refs/heads/main", workflows=False)
    assert answer == packet("ok refs/heads/main") + PASS + FLUSH
    git("update-ref", "-d", "refs/heads/holds")
    assert b"without `workflows` permission" in run(git, f"{first} {later} refs/heads/x", workflows=False)
    assert b"ok refs/heads/x" in run(git, f"{first} {later} refs/heads/x", workflows=True)
