"""What a wrapped process that means it can do about pushes with all it is given: its settings, its token, the session's
secret and a socket. Nothing is forwarded that the rules would refuse, and the next good push goes through."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.product import PYTHON, Done, Product
from tests.fakes.push_machine import (
    ADDRESS,
    DENIED,
    LABEL,
    NAME,
    PushMachine,
    at_work,
    codes,
    outcomes,
    records,
    rejected,
)

NOT_LINKED = (
    f"{LABEL} policy: acme/other is not linked to the workspace default, so nothing can be pushed there"
)

# What such a program starts with.
SOCKETS = Path(__file__).parents[1] / "fakes/push_sockets.py"


def speak(machine: PushMachine, script: str) -> tuple[list[Any], Done]:
    """What a Python program inside told, and its run."""
    done = machine.product.run(PYTHON, "-I", "-c", f"{SOCKETS.read_text()}\n{script}")
    assert done.status == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()], done


def untouched(machine: PushMachine) -> None:
    """Of repositories that the session has nothing to do with, the forge was never asked."""
    assert not [seen for seen in machine.forge.requests if "other" in seen.path]
    assert list(machine.refs("acme/other")) == ["main"]


# --- With git's own settings ----------------------------------------------------------------------


def test_settings_are_no_boundary(machine: PushMachine) -> None:
    """Whatever git is told inside: where a push can go was settled before."""
    machine.create("acme/other")
    straight = f"{machine.url}/{NAME}"
    elsewhere = "" if machine.product.sandbox == "off" else "cp -r . $TMPDIR/copy && cd $TMPDIR/copy && "
    ran = machine.run(
        f"{elsewhere}git remote add other https://github.com/acme/other.git && git push other agent/work",
        "git remote set-url origin https://github.com/acme/other.git && git push origin agent/work",
        f"git remote set-url origin {ADDRESS} && git push origin agent/work:main",
        # Straight to the forge: without our rewriting, as an address, and with rewriting of one's own.
        f"GIT_CONFIG_GLOBAL=/dev/null git push {straight} agent/work",
        f"git -c remote.origin.pushurl={straight} push origin agent/work",
        f"(unset GIT_CONFIG_COUNT; GIT_CONFIG_GLOBAL=/dev/null git push {straight} agent/work)",
        f"(unset GIT_CONFIG_COUNT; GIT_CONFIG_GLOBAL=/dev/null git push "
        f"http://x-access-token:$GH_TOKEN@$GH_HOST/{NAME} agent/work)",
        "(unset GIT_CONFIG_COUNT; git push origin agent/work)",
        f"git config url.{machine.url}/.pushInsteadOf https://github.com/ && git push origin agent/work:main",
        "git config http.proxy http://127.0.0.1:1 && git config remote.origin.receivepack /bin/true && "
        "git -c http.extraHeader='X-Agent-Gateway-Session: another' push -q origin agent/work",
    )  # fmt: skip
    assert [step.status for step in ran.steps] == [128, 128, 1, 128, 128, 128, 128, 128, 1, 0], ran.steps
    for number in (0, 1):
        assert ran[number].lines[0] == f"remote: {NOT_LINKED}"
    for number in (2, 8):
        rejected(ran[number], f" ! [remote rejected] agent/work -> main ({DENIED})")
    # Past the gateway; with https there would be nothing to see, and the token to say no.
    for number in (3, 4, 5, 6):
        assert ran[number].lines[-1].endswith("The requested URL returned error: 403"), ran[number].said
    assert [one["code"] for one in ran.done.egress if one["verdict"] == "deny"] == ["push_bypass"] * 4
    assert ran[7].lines[0] == f"remote: {LABEL} policy: the secret of this session is missing or wrong"
    assert codes(ran.done) == ["not_linked", "not_linked", "wrong_secret"]
    assert sorted(machine.refs()) == ["agent/work", "main"]
    untouched(machine)
    machine.settled(ran.done, write=1)


def test_the_token_inside_only_reads(wrapped_machine: PushMachine) -> None:
    """Neither by git, which the proxy sees and GitHub refuses, nor by the API."""
    machine = wrapped_machine
    git, api = f"$GH_HOST/{NAME}.git", "$GH_HOST/api/v3"
    login, bearer = '-u "x-access-token:$GH_TOKEN"', '-H "Authorization: Bearer $GH_TOKEN"'
    curl = "curl -s -o /dev/null -w '%{http_code} '"
    script = f"""
    {curl} {login} "http://{git}/info/refs?service=git-receive-pack"
    {curl} {login} "http://{git}/info/refs?service=git%2Dreceive%2dpack"
    printf 0000 | {curl} {login} --data-binary @- http://{git}/git-receive-pack
    {curl} {bearer} -d '{{}}' http://{api}/app/installations/50001/access_tokens
    {curl} {bearer} -X PATCH -d '{{"sha": "0"}}' http://{api}/repos/{NAME}/git/refs/heads/main
    {curl} {bearer} -X PUT -d '{{}}' http://{api}/repos/{NAME}/contents/README
    echo; read line
    """
    with machine.start(script) as running:
        assert running.hear().split() == ["403", "403", "403", "401", "405", "405"]
        [token] = machine.token_values("read")
        address = f"{machine.forge.url}/{NAME}.git/info/refs?service=git-receive-pack"
        [said] = subprocess.run(
            ("curl", "-s", "-u", f"x-access-token:{token}", address),
            capture_output=True, text=True, check=False,
        ).stdout.splitlines()  # fmt: skip
        assert said == "Write access to repository not granted."
        running.tell("end")
        done = running.end()
    assert [one["code"] for one in done.egress if one["verdict"] == "deny"] == ["push_bypass"] * 3
    assert list(machine.refs()) == ["main"]
    machine.settled(done)


@pytest.mark.parametrize("option", ["", "--state-dir"])
def test_the_key_of_the_app_is_out_of_sight(wrapped_machine: PushMachine, option: str) -> None:
    """Where the operator left it among what is shown: it can neither be read nor replaced."""
    machine = wrapped_machine
    machine.product.violates = True
    folder = machine.product.folder / "agent" if option else machine.product.work
    folder.mkdir(exist_ok=True)
    key = folder / "app.pem"
    machine.key.rename(key)
    machine.product.settings["github"]["private_key_file"] = str(key)
    pem = key.read_text()
    ran = machine.run(
        f"cat {key}",
        f"mv {key} {folder}/elsewhere || rm -f {key} || echo x > {key}",
        f"grep -rl 'PRIVATE KEY' . {folder} /run 2>/dev/null",
        "git push -q origin agent/work",
        options=(option, str(folder)) if option else (),
    )
    assert [step.status == 0 for step in ran.steps[1:]] == [False, False, True], ran.steps
    assert "PRIVATE" not in ran[0].said
    assert key.read_text() == pem
    machine.settled(ran.done, write=1)


# --- With the worktree's objects ------------------------------------------------------------------


def test_a_worktree_that_lies(wrapped_machine: PushMachine) -> None:
    """A cut history, objects that are broken or gone: git or GitHub says no, and the gateway says so."""
    machine = wrapped_machine
    ran = machine.run(
        "cp -r . $TMPDIR/copy && cd $TMPDIR/copy && git switch -q --orphan strange && "
        "git commit -q --allow-empty -m one && git commit -q --allow-empty -m two",
        "git rev-parse HEAD > .git/shallow && git push origin strange:agent/shallow",
        "rm .git/shallow && echo one > file && git add file && git commit -q -m file && "
        "object=$(git rev-parse HEAD:file | sed 's/^../&\\//') && chmod u+w .git/objects/$object",
        "printf broken > .git/objects/$object; git push origin strange:agent/broken",
        "rm .git/objects/$object; git push origin strange:agent/missing",
        "git push -q origin agent/work",
    )  # fmt: skip
    assert [step.status for step in ran.steps] == [0, 1, 0, 1, 1, 0], ran.steps
    rejected(ran[1], " ! [remote rejected] strange -> agent/shallow (shallow update not allowed)")
    assert sorted(machine.refs()) == ["agent/work", "main"]
    for number in (3, 4):
        assert "Traceback" not in ran[number].said
    # The two that git broke off were never whole, whether the gateway heard of them or not.
    assert all(status != "ok" for refs in outcomes(ran.done)[:-1] for *_, status in refs)
    assert ran.done.stderr == ""
    assert machine.forge.wait_until_idle() and not machine.forge.tokens.live


def test_two_pushes_to_one_branch_at_once(wrapped_machine: PushMachine) -> None:
    """Both are judged and forwarded, each with a token of its own; GitHub decides which was first."""
    machine = wrapped_machine
    ran = machine.run(
        "git switch -q -c one && git commit -q --allow-empty -m one && "
        "git switch -q -c two HEAD~1 && git commit -q --allow-empty -m two",
        "git push origin one:agent/race >$TMPDIR/one 2>&1 & first=$!; "
        "git push origin two:agent/race >$TMPDIR/two 2>&1; second=$?; wait $first; echo $? $second; "
        "cat $TMPDIR/one $TMPDIR/two; rm $TMPDIR/one $TMPDIR/two",
    )  # fmt: skip
    first, second = map(int, ran[1].lines[0].split())
    both = outcomes(ran.done)
    assert len(both) == 2 or (len(both) == 1 and "non-fast-forward" in ran[1].said), ran[1].said
    won = [ref for [(ref, _, _, status)] in both if status == "ok"]
    assert won == ["refs/heads/agent/race"]
    assert sorted((first, second)) == [0, 1], ran[1].said
    assert machine.refs()["agent/race"] == machine.git("rev-parse", "two" if first else "one")
    machine.settled(ran.done, write=len(both))


# --- With a socket --------------------------------------------------------------------------------


def test_requests_by_hand(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.create("acme/other")
    said, done = speak(
        machine,
        r"""
other = REFS.replace("widget", "other")
probe = ("Content-Length: 4", TYPE)
question = b'{"host": "forge.test", "path": "acme/other"}'
requests = [
    (403, head(REFS, secret="")),
    (403, head(REFS, secret=SECRET[:-1])),
    (403, head(REFS, f"X-Agent-Gateway-Session: {SECRET}")),
    (403, head(other)),
    (404, head(REFS.replace("github.com", "evil.test"))),
    (404, head(REFS.replace("acme/widget", "acme/../acme/widget"))),
    (404, head(REFS.replace("acme/widget", "acme%2fwidget"))),
    (404, head(REFS + "&service=git-upload-pack")),
    (403, head(REFS.replace("receive", "upload"))),
    (403, head(PUSH.replace("receive", "upload"), "Content-Length: 0", method="POST")),
    (400, head(f"http://{HOST}{REFS}")),
    (400, head(REFS, host="evil.test")),
    (405, head(REFS, method="CONNECT")),
    (400, head(PUSH, *probe, CHUNKED, method="POST") + b"0000"),
    (400, head(PUSH, *probe, "Content-Length: 400", method="POST") + b"0000"),
    (415, head(PUSH, *probe, "Content-Encoding: br", method="POST") + b"0000"),
    (415, head(PUSH, "Content-Length: 4", method="POST") + b"0000"),
    (400, head(PUSH, TYPE, CHUNKED, method="POST") + b"0x4\r\n0000\r\n0\r\n\r\n"),
    (400, head(PUSH, TYPE, CHUNKED, method="POST") + chunk(b"0001") + b"0\r\n\r\n"),
    (0, head(REFS, "X: " + "x" * 100_000)),
    (404, head("/agent/git-credential", f"Content-Length: {len(question)}", method="POST") + question),
    (400, os.urandom(500) + b"\r\n\r\n"),
]
for number, (status, data) in enumerate(requests):
    answered = int((ask(data) or b"- 0 -").split(b" ", 2)[1])
    if answered != status:
        tell(f"request {number} was answered with {answered} instead of {status}")
# Behind a question that is in order: each is judged by itself.
good = head(PUSH, *probe, method="POST", close=False) + b"0000"
answer = ask(good + good + head(other))
tell(answer.count(b"HTTP/1.1 200 "))
tell(answer.count(b"HTTP/1.1 403 "))
tell(git("push", "-q", "origin", "agent/work"))
""",
    )
    assert said == [2, 1, [0, ""]]
    untouched(machine)
    written = [seen.path for seen in machine.forge.requests if seen.credential == "write"]
    assert all(path.startswith((f"/{NAME}.git/", "/api/v3/installation/token")) for path in written)
    assert sorted(machine.refs()) == ["agent/work", "main"]
    assert done.stderr == ""
    machine.settled(done, write=1)


def test_a_crowd(wrapped_machine: PushMachine) -> None:
    """Connections that say nothing, or begin and do not end: a bound on them, a sentence for git, and the session ends
    when it ends."""
    machine = wrapped_machine
    said, done = speak(
        machine,
        r"""
begun = (b"", b"GET / HT", head(PUSH, TYPE, "Content-Length: 9999", method="POST") + b"00")
idle = []
for number in range(150):
    try:
        idle.append(dial(begun[number % 3]))
    except OSError:
        pass
for connection in idle:
    connection.close()
new = git("rev-parse", "HEAD")[1].strip()
held = [begin(new, "refs/heads/agent/held") for _ in range(4)]
# Until the gateway has noticed all of that.
while (done := git("push", "origin", "agent/work:agent/no"))[0] != 1:
    git("push", "-q", "origin", ":agent/no")
tell(done)
for connection in held:
    connection.close()
while (done := git("push", "-q", "origin", "agent/work"))[0]:
    pass
tell(done)
left = [begin(new, "refs/heads/agent/left") for _ in range(3)]
""",
    )
    reason = f"{LABEL}: 4 pushes of this session are under way: push again when one of them is over"
    [refused, pushed] = said
    assert f" ! [remote rejected] agent/work -> agent/no ({reason})" in refused[1].splitlines()
    assert pushed == [0, ""]
    assert "agent/held" not in machine.refs() and "agent/left" not in machine.refs()
    assert machine.refs()["agent/work"] == machine.git("rev-parse", "agent/work")
    assert done.stderr == ""
    assert machine.forge.wait_until_idle() and not machine.forge.tokens.live
    balance = [one["state"] for one in records(done, "token")]
    assert balance.count("minted") == balance.count("revoked")
    assert list(machine.tmp.iterdir()) == []


def test_a_secret_is_for_one_session_and_for_its_time(tmp_path: Path) -> None:
    """Without a wrap every process of the machine reaches a session's listener."""
    with at_work(Product(tmp_path / "machine", "off"), tmp_path) as machine:
        look = "echo $AGENT_GATEWAY_URL $AGENT_GATEWAY_SECRET; read line"
        path = f"/git/github.com/{NAME}.git/info/refs?service=git-receive-pack"
        with machine.start(look) as one, machine.start(look) as two:
            (url, secret), (other_url, other_secret) = one.hear().split(), two.hear().split()
            answers = [
                status(f"{url}{path}", secret),
                status(f"{url}{path}", other_secret),
                status(f"{other_url}{path}", secret),
            ]
            assert answers == ["200", "403", "403"]
            one.tell("end")
            assert codes(one.end()) == ["wrong_secret"]
            assert status(f"{url}{path}", secret) == "000"
            assert status(f"{other_url}{path}", other_secret) == "200"
            two.tell("end")
            assert codes(two.end()) == ["wrong_secret"]
        assert not machine.forge.tokens.live


def status(url: str, secret: str) -> str:
    """Of curl's answer; 000 for none."""
    header = f"X-Agent-Gateway-Session: {secret}"
    command = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header, url)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
