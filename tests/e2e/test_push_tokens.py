"""Tokens of a session: none outlives it however it ends, none is seen where it must not be; GitHub's own troubles."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from gateway.forge.faults import Fault, Moment, Point
from tests.fakes.product import PYTHON
from tests.fakes.push_machine import DENIED, LABEL, PushMachine, codes, outcomes, records

# --- The end of a session -------------------------------------------------------------------------

PUSH = "git push -q origin agent/work"
# How it ends: what CMD does, with the command that is to go on meanwhile; the signal it is sent; the exit status.
ENDS = {
    "success": ("{} & read line", 0, 0),
    "failure": ("{} & read line; exit 3", 0, 3),
    "crash": ("{} & read line; kill -9 $$", 0, 137),
    "SIGTERM": ("exec {}", signal.SIGTERM, 143),
    "SIGINT": ("exec {}", signal.SIGINT, 130),
    "SIGHUP": ("exec {}", signal.SIGHUP, 129),
}


@pytest.mark.parametrize(("script", "number", "status"), ENDS.values(), ids=ENDS)
def test_however_it_ends(wrapped_machine: PushMachine, script: str, number: int, status: int) -> None:
    """Also while GitHub is at work on a push: both tokens are revoked, and what nobody heard of is not denied."""
    machine = wrapped_machine
    machine.forge.faults.set(Point.RECEIVE, Fault(stall_answer=0))
    with machine.start(script.format(PUSH)) as running:
        machine.until(lambda: machine.has("agent/work"))
        if number:
            running.process.send_signal(number)
        else:
            running.tell("go on")
        done = running.end()
    assert done.status == status
    [[(_, _, verdict, said)]] = outcomes(done)
    assert verdict == "allow"
    # git may be gone before the gateway ends: then the push went through as far as anybody can tell.
    assert said.startswith("the session was closed: the outcome is unknown"), said
    assert (done.forwarded, done.refused) == (1, 0)
    machine.settled(done, write=1)


@pytest.mark.parametrize("kill", [False, True])
def test_without_a_push(unwrapped_machine: PushMachine, kill: bool) -> None:
    machine = unwrapped_machine
    with machine.start("kill -9 $$" if kill else "exec sleep 1000") as running:
        if not kill:
            running.process.terminate()
        done = running.end()
    assert done.status == (137 if kill else 143)
    machine.settled(done)


def test_a_push_that_github_does_not_take(wrapped_machine: PushMachine) -> None:
    """In the middle of its bytes, with all buffers full: the session ends at once all the same."""
    machine = wrapped_machine
    commit_much(machine)
    machine.forge.faults.set(Point.RECEIVE, Fault(stall=True, moment=Moment.ABRUPT))
    with machine.start(f"exec {PUSH}") as running:
        machine.until(lambda: machine.asked("POST", "git-receive-pack"))
        running.process.terminate()
        done = running.end()
    assert done.status == 143
    [[(_, _, _, said)]] = outcomes(done)
    assert said.startswith("the session was closed"), said
    assert list(machine.refs()) == ["main"]
    machine.settled(done, write=1, stuck=True)


def test_killing_git_in_the_middle(wrapped_machine: PushMachine) -> None:
    """Whether GitHub has all of that push or not: the next one goes through."""
    machine = wrapped_machine
    commit_much(machine)
    machine.forge.faults.set(Point.RECEIVE, Fault(stall=True, times=1))
    script = f"setsid {PUSH} & read line; kill -s KILL -- -$!; wait; {PUSH}"
    with machine.start(script) as running:
        machine.until(lambda: machine.asked("POST", "git-receive-pack"))
        running.tell("kill it")
        done = running.end()
    assert done.status == 0, done
    # In which order they come to an end depends on how much had gone.
    [killed] = [one for one in records(done, "push") if "code" in one]
    assert killed["code"] in {"client_gone", "outcome_unknown"}
    assert [status for refs in outcomes(done) for *_, status in refs].count("ok") == 1
    assert machine.has("agent/work")
    machine.settled(done, write=2)


def commit_much(machine: PushMachine) -> None:
    """More than all buffers on the way hold."""
    (machine.product.work / "large").write_bytes(os.urandom(20 << 20))
    machine.git("add", "large")
    machine.git("commit", "-q", "-m", "large")


# --- Revoking -------------------------------------------------------------------------------------


def test_revoking_is_tried_again(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.forge.faults.set(Point.REVOKE, Fault(502, times=2))
    ran = machine.run(PUSH)
    assert (ran[0].status, ran.done.stderr) == (0, "")
    machine.settled(ran.done, write=1)


def test_a_token_that_cannot_be_revoked(wrapped_machine: PushMachine) -> None:
    """It is on record and on the user's screen; push and session end all the same."""
    machine = wrapped_machine
    machine.forge.faults.set(Point.REVOKE, Fault(502))
    ran = machine.run(PUSH)
    assert ran[0].status == 0
    said = ran.done.stderr.splitlines()
    assert sorted(line.partition(" could not be revoked; it ends by itself at ")[0] for line in said) == [
        "agent-gateway: a GitHub token (read) for acme/widget",
        "agent-gateway: a GitHub token (write) for acme/widget",
    ]
    failed = [one for one in records(ran.done, "token") if one["state"] == "revoke_failed"]
    assert {one["kind"] for one in failed} == {"read", "write"}
    assert all("status 502" in one["reason"] for one in failed)
    assert {one["expires"] for one in failed} == {line.rpartition(" ")[2] for line in said}
    assert len(machine.forge.tokens.live) == 2
    assert machine.spilt() == []


# --- GitHub in trouble at the start ---------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["closed", "cut"])
def test_opening_without_github(wrapped_machine: PushMachine, trouble: str) -> None:
    """The session opens without a token, says so and has it on record; what it cannot do then has a sentence."""
    machine = wrapped_machine
    if trouble == "closed":
        machine.product.settings["github"]["api_url"] = "http://forge.test:1/api/v3"
        sentence, detail = "GitHub cannot be reached", "All connection attempts failed"
    else:
        machine.forge.faults.set(Point.FIND, Fault(cut_answer=5))
        sentence, detail = "the connection to GitHub broke", "RemoteProtocolError"
    ran = machine.run("echo works", PUSH, "git ls-remote origin", "env | grep -c ^GH_TOKEN")
    assert [step.status for step in ran.steps] == [0, 128, 128, 1], ran.steps
    assert ran[0].lines == ["works"]
    [note] = ran.done.stderr.splitlines()
    assert note.startswith(f"agent-gateway: no GitHub token for acme/widget: {sentence}")
    assert detail in note
    assert ran[1].lines[0].startswith(f"remote: {LABEL}: acme/widget cannot be pushed to: {sentence}")
    assert ran[2].lines[0].startswith(f"agent-gateway: {sentence}")
    assert "terminal prompts disabled" in ran[2].said
    assert codes(ran.done) == ["github_unavailable"]
    [failed] = records(ran.done, "token")
    assert failed["state"] == "mint_failed" and failed["reason"].startswith(sentence)
    assert machine.spilt() == []


# --- Who sees a token -----------------------------------------------------------------------------

LOOK = r"""
import os, sys
for name in os.listdir("/proc"):
    for file in ("cmdline", "environ"):
        try:
            with open(f"/proc/{name}/{file}", "rb") as opened:
                print(name, file, opened.read().hex())
        except OSError:
            pass
"""


def test_who_sees_a_token(wrapped_machine: PushMachine) -> None:
    """While a push is under way: the write token is nowhere, the read token in environments alone, and the secret of
    the session in no command line."""
    machine = wrapped_machine
    machine.product.activate(PYTHON)
    machine.forge.faults.set(Point.RECEIVE, Fault(stall_answer=0, times=1))
    (machine.product.work / "look.py").write_text(LOOK)
    script = f"""
    export GIT_TRACE=1 GIT_TRACE_CURL=1 GIT_TRACE_PACKET=1 GIT_TRACE_SETUP=1
    {PUSH} >trace 2>&1 & read line
    python look.py; echo; echo $AGENT_GATEWAY_SECRET; cat trace; git ls-remote origin 2>&1
    git remote -v; git config --list
    """
    with machine.start(script) as running:
        machine.until(lambda: machine.has("agent/work"))
        [write], [read] = machine.token_values("write"), machine.token_values("read")
        gateway = Path(f"/proc/{running.process.pid}")
        own = [(gateway / file).read_bytes() for file in ("cmdline", "environ")]
        assert not any(value.encode() in text for text in own for value in (read, write))
        running.tell("look")
        done = running.end()
    looked, _, rest = done.stdout.partition("\n\n")
    secret, _, shown = rest.partition("\n")
    found = [line.split(" ") for line in looked.splitlines()]
    assert len({name for name, *_ in found}) > 3  # the shell, git, and git's helper, at least
    texts = [(file, bytes.fromhex(text)) for _, file, text in found]
    assert not [file for file, text in texts if write.encode() in text]
    assert {file for file, text in texts if read.encode() in text} == {"environ"}
    assert {file for file, text in texts if secret.encode() in text} == {"environ"}
    assert "Send header: X-Agent-Gateway-Session" in shown and "refs/heads/main" in shown
    assert write not in shown and read not in shown
    assert write not in done.stderr and read not in done.stderr
    machine.settled(done, write=1)


# --- A full disk ----------------------------------------------------------------------------------


def on_small_disks(
    machine: PushMachine, sizes: dict[Path, str], script: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a script inside, with tmpfs of these sizes in these places; the log is kept in `log`."""
    mounts = "".join(
        f"mkdir -p {path}; mount -t tmpfs -o size={size} tmpfs {path};" for path, size in sizes.items()
    )
    audit, kept = machine.product.audit, machine.product.folder / "log"
    command = machine.product.command(("sh", "-uc", f"exec 2>&1\n{script}"))
    outer = f'{mounts} "$@"; status=$?; cat {audit}/*.jsonl >{kept}; exit $status'
    return subprocess.run(
        ("unshare", "--map-root-user", "--mount", "sh", "-c", outer, "sh", *command),
        cwd=machine.product.work, env=machine.product.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_no_room_to_hold_a_push(wrapped_machine: PushMachine) -> None:
    """A push whose kind must be known first waits in a file; without room it is refused, and the room is free again."""
    machine = wrapped_machine
    machine.product.settings["rules"] += [{"action": "push", "decision": "deny", "force": True}]
    script = f"""
    {PUSH} && head -c 4000000 /dev/urandom >large && git add large && git commit -q --amend -m large
    git push -f origin agent/work; echo $?
    git push origin agent/work:agent/new; echo $?
    """
    done = on_small_disks(machine, {machine.product.audit.parent: "1m"}, script)
    said = done.stdout.splitlines()
    reason = f"{LABEL}: the gateway has no room on its disk for a push that has to wait"
    assert f" ! [remote rejected] agent/work -> agent/work ({reason})" in said
    assert [line for line in said if line.isdigit()] == ["1", "0"], done
    assert list(machine.tmp.iterdir()) == []
    assert not machine.forge.tokens.live


def test_no_room_for_the_log(wrapped_machine: PushMachine) -> None:
    """What cannot be recorded does not happen: the token is not used, and all of that is said."""
    machine = wrapped_machine
    script = f"""
    {PUSH} && echo pushed
    curl -s -o /dev/null "http://refused.test/[1-180]"
    git push origin agent/work:agent/late; echo $?
    git push origin agent/work:main; echo $?
    """
    done = on_small_disks(machine, {machine.product.audit: "48k"}, script)
    said = done.stdout.splitlines()
    assert said[0] == "pushed"
    reason = f"{LABEL}: the gateway could not record the token for this push, so nothing was pushed"
    assert f" ! [remote rejected] agent/work -> agent/late ({reason})" in said
    assert f" ! [remote rejected] agent/work -> main ({DENIED})" in said
    assert [line for line in said if line.isdigit()] == ["1", "1"], done
    assert "agent-gateway: records of pushes are lost, and none is forwarded meanwhile: " in done.stderr
    assert sorted(machine.refs()) == ["agent/work", "main"]
    used = {
        seen.token for seen in machine.forge.requests if seen.credential == "write" and ".git/" in seen.path
    }
    assert len(used) == 1
    assert len(machine.token_values("write")) == 2
    assert not machine.forge.tokens.live
    assert machine.spilt() == []
