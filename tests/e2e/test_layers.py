"""Each boundary alone: everything that the others could refuse is allowed, or they are off. It holds all the same.

What is tried is tried by a process that asks nobody: a plain shell, with what it finds inside. Beside each trial stands
the same thing where the boundary itself allows it, so that no refusal is one by accident.
"""

from pathlib import Path
from typing import Any

import pytest

from gateway.policy.actions import Action
from tests.fakes.authority import Authority
from tests.fakes.product import PYTHON, Product
from tests.fakes.push_machine import NAME, PushMachine, records
from tests.fakes.site import open_site

# Guardrails that let everything through.
NO_GUARDRAILS: tuple[dict[str, Any], ...] = tuple(
    {"action": action.value, "decision": "allow"} for action in Action
)
# File rules that deny as little as they can be told to.
NO_FILE_RULES = {"files": {"allow_write": ["*"]}}
CURL = "curl -s -o /dev/null -m 20 -w '%{http_code}\\n'"
ASK = """
import json, os, sys, urllib.request
request = urllib.request.Request(
    os.environ["AGENT_GATEWAY_URL"] + "/agent/tool-call",
    json.dumps({"tool": "Bash", "command": sys.argv[1]}).encode(),
    {"X-Agent-Gateway-Session": os.environ["AGENT_GATEWAY_SECRET"]})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(json.loads(opener.open(request).read())["decision"])
"""


def open_all_but(product: Product, *layers: str) -> Product:
    """Takes every layer away that can be configured away, but these."""
    if "guardrails" not in layers:
        product.settings["rules"] = list(NO_GUARDRAILS)
    if "path confinement" not in layers:
        product.settings |= NO_FILE_RULES
    return product


def test_egress(wrapped: Product, authority: Authority) -> None:
    """No rule says anything about the network, and files are nobody's business: an unlisted host is refused all the
    same, and there is no way past the proxy."""
    with open_site(open_all_but(wrapped, "egress"), authority) as site:
        script = f"""
        {CURL} http://{site.plain_target}/hello
        {CURL} http://unlisted.test/hello
        {CURL} --noproxy '*' http://127.0.0.1:{site.plain.port}/hello
        true"""
        done = wrapped.run("sh", "-c", script)
        assert site.plain.connections == 1
    assert done.lines == ["200", "403", "000"]
    assert (done.allowed, done.denied) == (1, 1)


def test_push_gate(wrapped_machine: PushMachine) -> None:
    """The forge may be reached, and no guardrail speaks of commands: which refs are pushed is decided all the same."""
    machine = wrapped_machine
    gate = list(machine.product.settings["rules"])
    open_all_but(machine.product, "push gate")
    others = [rule for rule in NO_GUARDRAILS if rule["action"] != "push"]
    machine.product.settings["rules"] = [*gate, *others]
    ran = machine.run(
        "git push origin agent/work", "git push origin agent/work:main", "git push origin :main"
    )
    assert [step.status for step in ran.steps] == [0, 1, 1]
    assert (machine.has("agent/work"), list(machine.refs())) == (True, ["agent/work", "main"])
    machine.settled(ran.done, write=1)


def test_credentials(wrapped_machine: PushMachine) -> None:
    """Every push is allowed, and the forge may be reached: what is found inside cannot push past the gate."""
    machine = wrapped_machine
    open_all_but(machine.product, "credentials")
    found = machine.product.home / ".git-credentials"
    found.write_text(f"http://x:{'f' * 40}@forge.test\n")
    script = f"""
    {CURL} -u "x-access-token:$GH_TOKEN" "http://$GH_HOST/{NAME}.git/info/refs?service=git-upload-pack"
    printf 0000 | {CURL} -u "x-access-token:$GH_TOKEN" --data-binary @- "http://$GH_HOST/{NAME}.git/git-receive-pack"
    cat {found} ~/.git-credentials 2>/dev/null | wc -c
    git push -q origin agent/work && echo pushed"""
    done = machine.product.run("sh", "-c", script)
    assert done.lines == ["200", "403", "0", "pushed"]
    assert machine.has("agent/work")
    assert [one["code"] for one in done.egress if one["verdict"] == "deny"] == ["push_bypass"]
    # The token that pushed was never inside.
    assert {one["kind"] for one in records(done, "token")} == {"read", "write"}


@pytest.mark.parametrize("sandbox", ["on", "off"])
def test_guardrails(tmp_path: Path, sandbox: str) -> None:
    """With a wrap around it or none, and no rule but one about a command: that one is refused to whoever asks."""
    product = open_all_but(Product(tmp_path / "machine", sandbox), "guardrails")
    product.settings["rules"] = [
        {"action": "spawn_process", "decision": "deny", "commands": ["make deploy"]},
        *(rule for rule in NO_GUARDRAILS if rule["action"] != "spawn_process"),
    ]
    told = []
    for line in ("make deploy", "make test"):
        done = product.run(PYTHON, "-c", ASK, line)
        (record,) = records(done, "action")
        told.append((done.stdout.strip(), record["verdict"]))
    assert told == [("deny", "deny"), ("allow", "allow")]


def test_worktree(wrapped: Product) -> None:
    """No rule about files or commands, and hosts as one likes: writing ends at the worktree."""
    outside = wrapped.folder / "outside"
    outside.mkdir()
    open_all_but(wrapped, "worktree")
    script = f"echo x > inside; echo x > {outside}/file; echo x > {wrapped.home}/file; ls {outside} | wc -l"
    done = wrapped.run("sh", "-c", f"{{ {script}; }} 2>/dev/null")
    assert done.lines[-1] == "0"
    assert (wrapped.work / "inside").read_text() == "x\n"
    assert list(outside.iterdir()) == []
    assert not (wrapped.home / "file").exists()


def test_path_confinement(wrapped: Product) -> None:
    """Guardrails allow every file and command: names under file rules are not made, and secrets not read."""
    wrapped.violates = True
    open_all_but(wrapped, "path confinement")
    key = wrapped.home / ".ssh/id_ed25519"
    key.parent.mkdir()
    key.write_text("the key")
    script = f"echo x > plain; echo x > .env; mkdir -p .git/hooks; echo x > .git/hooks/pre-push; cat {key}"
    done = wrapped.run("sh", "-c", f"{{ {script}; }} 2>/dev/null; true")
    assert done.stdout == ""
    assert (wrapped.work / "plain").exists()
    assert not (wrapped.work / ".env").exists()
    assert not (wrapped.work / ".git/hooks/pre-push").exists()
    assert done.violations


def test_os_wrap(wrapped: Product) -> None:
    """Everything that rules could say is allowed: processes, other files and the log are out of reach."""
    open_all_but(wrapped, "OS wrap")
    files = f"ls -d {wrapped.audit} {wrapped.folder}/config.yaml"
    processes = "ls /proc | grep -c '^[0-9]'; kill -0 $pid && echo reached"
    with wrapped.start("sh", "-c", f"read pid; {{ {files}; {processes}; }} 2>/dev/null; true") as running:
        running.tell(str(running.process.pid))
        done = running.end()
    (count,) = done.lines
    assert int(count) < 10


def test_tool_surface(wrapped: Product) -> None:
    """Whatever rules allow, a mode that only reads offers no tool that changes something."""
    open_all_but(wrapped, "tool surface")
    ask = ASK.replace("/agent/tool-call", "/agent/tools").replace(
        'json.dumps({"tool": "Bash", "command": sys.argv[1]}).encode()', "None"
    ).replace('["decision"]', '["tools"]')  # fmt: skip
    offered = {}
    for mode in ("chat", "review"):
        done = wrapped.run(PYTHON, "-c", ask, options=("--mode", mode))
        offered[mode] = done.stdout
    assert "'Write'" in offered["chat"]
    assert "'Write'" not in offered["review"]
    assert "'Read'" in offered["review"]
