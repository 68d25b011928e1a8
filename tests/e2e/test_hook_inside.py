"""Claude Code in a session: its tool calls are judged, recorded and, in modes that only read, not even offered.

The CLI is a stand-in that speaks its hook protocol (`tests/fakes/claude.py`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.fakes.claude import install
from tests.fakes.product import PYTHON, Done, Product

BYPASS = "--dangerously-skip-permissions"
INSTALLED = "tools"


def write(path: str, number: int = 1) -> dict[str, Any]:
    given = {"file_path": path, "content": "written\n"}
    return {"tool_name": "Write", "tool_input": given, "tool_use_id": f"toolu_{number:02}"}


def bash(command: str, number: int = 2) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"toolu_{number:02}"}


def other(name: str, **given: object) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given, "tool_use_id": "toolu_99"}


@pytest.fixture
def agent(product: Product) -> Product:
    """A machine with the stand-in on its PATH."""
    return with_claude(product)


@pytest.fixture
def wrapped_agent(wrapped: Product) -> Product:
    return with_claude(wrapped)


def with_claude(product: Product) -> Product:
    folder = product.folder / INSTALLED
    install(folder)
    product.environment["PATH"] = f"{folder}:{product.environment['PATH']}"
    return product


def claude(
    product: Product, calls: Sequence[Mapping[str, Any]], *arguments: str, mode: str = "chat"
) -> tuple[list[dict[str, Any]], Done]:
    """What became of each call of a `claude` that is started directly, and its run."""
    done = product.run("claude", *arguments, "-p", json.dumps(calls), options=("--mode", mode))
    return [json.loads(line) for line in done.lines], done


def actions(done: Done) -> list[tuple[str, str, str]]:
    """Tool, verdict and rule of each record."""
    return [(one["tool"], one["verdict"], one["rule"]) for one in done.records if one["event"] == "action"]


@pytest.mark.parametrize("arguments", [(), (BYPASS,)])
def test_every_call_is_judged_and_recorded(agent: Product, arguments: tuple[str, ...]) -> None:
    inside = agent.work / "made.txt"
    calls = [
        write(str(inside)),
        write("/etc/made-by-claude", 3),
        bash("echo hello", 4),
        other("mcp__github__create_issue", title="t"),
        other("SomethingNew"),
        other("TodoWrite", todos=[]),
    ]
    told, done = claude(agent, calls, *arguments)
    outcomes = [(one["tool"], one["outcome"], one["hooks"]) for one in told]
    assert outcomes == [
        ("Write", "ran", 1),
        ("Write", "blocked", 1),
        ("Bash", "ran", 1),
        ("mcp__github__create_issue", "blocked", 1),
        ("SomethingNew", "blocked", 1),
        ("TodoWrite", "ran", 1),
    ]
    assert inside.read_text() == "written\n"
    assert told[2]["output"] == "hello\n"
    assert "no approver is attached" in told[1]["reason"]
    assert [verdict for _, verdict, _ in actions(done)] == ["allow", "deny", "allow", "deny", "deny", "allow"]
    for record in done.records:
        if record["event"] == "action":
            assert {"tool", "command", "effects", "verdict", "rule", "reason", "approver"} <= set(record)
            assert record["session"]


@pytest.mark.parametrize("mode", ["plan", "review", "orchestrate"])
def test_a_mode_that_only_reads_does_not_offer_what_changes(agent: Product, mode: str) -> None:
    told, done = claude(
        agent, [write("made.txt"), bash("echo hello"), bash("git commit -m x", 3)], BYPASS, mode=mode
    )
    assert [one["outcome"] for one in told] == ["not offered", "ran", "blocked"]
    assert not (agent.work / "made.txt").exists()
    assert [verdict for _, verdict, _ in actions(done)] == ["allow", "deny"]


def test_a_prompt_is_not_taken_for_a_tool(agent: Product) -> None:
    """The option for tools takes every word behind it: ours does not."""
    done = agent.run("claude", json.dumps([bash("echo hello")]), options=("--mode", "plan"))
    assert json.loads(done.lines[0])["output"] == "hello\n"


def test_a_nested_claude_has_the_hook_too(wrapped_agent: Product) -> None:
    """Also one that is started by something else, with another configuration and another gateway in its environment."""
    nested = json.dumps([write("/etc/x"), write("made.txt", 3)])
    script = (
        f"export CLAUDE_CONFIG_DIR=$TMPDIR/own AGENT_GATEWAY_URL=http://127.0.0.1:9 HOME=$TMPDIR;"
        f" mkdir -p $CLAUDE_CONFIG_DIR;"
        f" echo '{{\"disableAllHooks\": true}}' > $CLAUDE_CONFIG_DIR/settings.json;"
        f" claude {BYPASS} --settings '{{\"disableAllHooks\": true}}' -p '{nested}'"
    )
    done = wrapped_agent.run("/bin/sh", "-c", script)
    assert [json.loads(line)["outcome"] for line in done.lines] == ["blocked", "ran"]
    assert [verdict for _, verdict, _ in actions(done)] == ["deny", "allow"]
    done = wrapped_agent.run("/bin/sh", "-c", script, options=("--mode", "plan"))
    assert [json.loads(line)["outcome"] for line in done.lines] == ["not offered", "not offered"]


def test_a_wrong_secret_blocks_everything(wrapped_agent: Product) -> None:
    done = wrapped_agent.run(
        "/bin/sh", "-c", f"AGENT_GATEWAY_SECRET=wrong claude {BYPASS} -p '{json.dumps([bash('echo hello')])}'"
    )
    told = json.loads(done.lines[0])
    assert (told["outcome"], told["output"]) == ("blocked", "")
    assert "secret" in told["reason"]
    assert [verdict for _, verdict, _ in actions(done)] == ["deny"]


def test_nothing_of_it_can_be_changed_from_inside(wrapped_agent: Product) -> None:
    script = """
for place in /etc/claude-code/managed-settings.json /etc/claude-code /run/agent-gateway/hook.pyc \
    "$CLAUDE_CONFIG_DIR/settings.json"; do
    (echo evil > "$place") 2>/dev/null && echo "wrote $place"
    (echo evil > "$place/new") 2>/dev/null && echo "wrote into $place"
    rm -rf "$place" 2>/dev/null && echo "removed $place"
    mv "$place" "$place.aside" 2>/dev/null && echo "moved $place"
    (echo evil > "$TMPDIR/evil" && mv -f "$TMPDIR/evil" "$place") 2>/dev/null && echo "moved over $place"
    ln -sf /dev/null "$place" 2>/dev/null && echo "linked $place"
    chmod 777 "$place" 2>/dev/null && echo "opened $place"
done
grep -c hook.pyc /etc/claude-code/managed-settings.json "$CLAUDE_CONFIG_DIR/settings.json"
"""
    wrapped_agent.violates = True
    path = wrapped_agent.folder / INSTALLED / "claude"
    path.write_text(f"#!/bin/sh\n{script}")
    done = wrapped_agent.run("claude")
    assert [line.rpartition(":")[2] for line in done.lines] == ["1", "1"], done.stdout


def test_a_gateway_that_is_gone_blocks(wrapped_agent: Product) -> None:
    """Whoever outlives the gateway asks nobody, and is blocked: with its process the whole wrap ends, so the hook is
    led to a port where there is none."""
    script = (
        "import json, subprocess\n"
        "settings = json.load(open('/etc/claude-code/managed-settings.json'))\n"
        "command = settings['hooks']['PreToolUse'][0]['hooks'][0]['command'].replace(':3180', ':3181')\n"
        "done = subprocess.run(command, shell=True, input=b'{}', capture_output=True)\n"
        "print(json.dumps([done.returncode, done.stdout.decode(), done.stderr.decode()]))\n"
    )
    done = wrapped_agent.run(PYTHON, "-c", script)
    status, output, error = json.loads(done.lines[0])
    assert (status, output) == (2, "")
    assert "cannot be asked" in error


def test_any_other_harness(agent: Product) -> None:
    """One call, one answer."""
    script = (
        "import json, os, urllib.request\n"
        "def ask(**call):\n"
        "    request = urllib.request.Request(\n"
        "        os.environ['AGENT_GATEWAY_URL'] + '/agent/tool-call', json.dumps(call).encode(),\n"
        "        {'X-Agent-Gateway-Session': os.environ['AGENT_GATEWAY_SECRET']})\n"
        "    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "    print(opener.open(request).read().decode().strip())\n"
        "ask(tool='edit', effects=['commit'])\n"
        "ask(tool='edit', effects=['open_pull_request'], target='x')\n"
        "ask(tool='bash', command='echo hello')\n"
    )
    done = agent.run(PYTHON, "-I", "-c", script)
    answers = [json.loads(line) for line in done.lines]
    assert [answer["decision"] for answer in answers] == ["allow", "deny", "allow"]
    assert [verdict for _, verdict, _ in actions(done)] == ["allow", "deny", "allow"]
