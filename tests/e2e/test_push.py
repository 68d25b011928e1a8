"""Pushes by real git from inside: what the rules let through and what they refuse, as git and the log say it."""

from tests.fakes.push_machine import (
    ADDRESS,
    ALLOWED,
    DENIED,
    INNOCENT,
    LABEL,
    NAME,
    PushMachine,
    codes,
    outcomes,
    records,
    rejected,
)

# Above what git sends in one piece: it asks first, and sends chunks.
LARGE = 20 << 20
ASKED = (
    f"{LABEL} policy: Push to remote needs an approval for release/1 (new) by config.yaml:4 (ask the release "
    f"managers); {ALLOWED}; a person must approve this, and no approver is attached"
)
ALL: list[dict[str, object]] = [{"action": "push", "decision": "allow"}]


def test_what_the_rules_say_is_what_happens(machine: PushMachine) -> None:
    main = machine.refs()["main"]
    ran = machine.run(
        "git push origin agent/work",
        "git push origin agent/work:main",
        "git push --porcelain origin agent/work:main",
        "git push origin agent/work:release/1",
        "git push origin agent/work:agent/a agent/work:main",
        "git push --atomic --porcelain origin agent/work:agent/a agent/work:main",
        "git push -q origin agent/work:main",
        "echo $AGENT_GATEWAY_URL",
    )
    to = f"To {ran[7].said.strip()}/git/{machine.url.removeprefix('http://')}/{NAME}.git"
    assert ran[0].status == 0
    assert ran[0].lines == [to, " * [new branch]      agent/work -> agent/work"]
    rejected(ran[1], f" ! [remote rejected] agent/work -> main ({DENIED})")
    rejected(ran[2], f"!\trefs/heads/agent/work:refs/heads/main\t[remote rejected] ({DENIED})")
    rejected(ran[3], f" ! [remote rejected] agent/work -> release/1 ({ASKED})")
    rejected(
        ran[4],
        f" ! [remote rejected] agent/work -> agent/a ({INNOCENT})",
        f" ! [remote rejected] agent/work -> main ({DENIED})",
    )
    rejected(
        ran[5],
        f"!\trefs/heads/agent/work:refs/heads/agent/a\t[remote rejected] ({INNOCENT})",
        f"!\trefs/heads/agent/work:refs/heads/main\t[remote rejected] ({DENIED})",
    )
    rejected(ran[6], f" ! [remote rejected] agent/work -> main ({DENIED})")

    work = machine.git("rev-parse", "agent/work")
    assert machine.refs() == {"main": main, "agent/work": work}
    denied = ("refs/heads/main", "fast-forward", "deny", DENIED)
    both = [("refs/heads/agent/a", "create", "allow", INNOCENT), denied]
    assert outcomes(ran.done) == [
        [("refs/heads/agent/work", "create", "allow", "ok")],
        [denied],
        [denied],
        [("refs/heads/release/1", "create", "deny", ASKED)],
        both,
        both,
        [denied],
    ]
    assert (ran.done.forwarded, ran.done.refused) == (1, 6)
    [asked] = records(ran.done, "approval")
    assert (asked["state"], asked["summary"]) == (
        "unattended",
        f"push to {NAME}: create refs/heads/release/1",
    )
    machine.settled(ran.done, write=1)


def test_a_large_push(wrapped_machine: PushMachine) -> None:
    """Refused with exit status 1, and forwarded."""
    machine = wrapped_machine
    main = machine.refs()["main"]
    ran = machine.run(
        f"head -c {LARGE} /dev/urandom > large && git add large && git commit -q -m large",
        "git push --atomic --porcelain origin agent/work:agent/a agent/work:main",
        "git push origin agent/work",
    )
    rejected(
        ran[1],
        f"!\trefs/heads/agent/work:refs/heads/agent/a\t[remote rejected] ({INNOCENT})",
        f"!\trefs/heads/agent/work:refs/heads/main\t[remote rejected] ({DENIED})",
    )
    assert ran[2].status == 0, ran[2].said
    assert machine.refs() == {"main": main, "agent/work": machine.git("rev-parse", "agent/work")}
    assert all(record["bytes"] > LARGE for record in records(ran.done, "push"))
    machine.settled(ran.done, write=1)


def test_check_tells_beforehand(wrapped_machine: PushMachine) -> None:
    """`check push` gives the verdict, the rule and the words that the push then meets."""
    refs = ("agent/work", "main", "release/1", "other", "refs/tags/v1", "refs/notes/x", "refs/pull/1/head")
    ran = wrapped_machine.run(*(f"git push origin agent/work:{full(ref)}" for ref in refs))
    pushes = records(ran.done, "push")
    status, answer = wrapped_machine.check(NAME, *refs)
    assert (status, answer["verdict"]) == (1, "deny")
    for ref, push in zip(refs, pushes, strict=True):
        [met] = push["refs"]
        [told] = [one for one in answer["refs"] if (one["ref"], one["kind"]) == (met["ref"], met["kind"])]
        assert met["verdict"] == told["verdict"].replace("ask", "deny"), ref
        assert met["rule"] == told["rule"], ref
        assert met["reason"].startswith(told["reason"]), ref
        assert (met["status"] == "ok") == (told["verdict"] == "allow"), ref


def full(ref: str) -> str:
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def test_kinds_are_on_record(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.product.settings["rules"] = ALL
    ran = machine.run(
        "git push -q origin agent/work",
        # Proven by the pushed commits; by GitHub alone, which has them all already; by nobody.
        "git commit -q --allow-empty -m more && git push -q origin agent/work",
        "git push -q origin agent/work:main",
        "git commit -q --amend --allow-empty -m other && git push -q -f origin agent/work",
        "git push -q -f origin agent/work~1:main",
        "git push -q origin :agent/work",
        "git tag light && git tag -a -m heavy heavy && git push -q origin light heavy",
        "git tag -f light HEAD~1 >/dev/null && git push -q -f origin light",
        "git push -q origin :refs/tags/heavy agent/work:agent/again",
    )
    assert [step.status for step in ran.steps] == [0] * 9, ran.steps
    kinds = [[(ref, kind, status) for ref, kind, _, status in refs] for refs in outcomes(ran.done)]
    work, main = "refs/heads/agent/work", "refs/heads/main"
    assert kinds == [
        [(work, "create", "ok")],
        [(work, "fast-forward", "ok")],
        [(main, "fast-forward", "ok")],
        [(work, "force", "ok")],
        [(main, "force", "ok")],
        [(work, "delete", "ok")],
        [("refs/tags/heavy", "create", "ok"), ("refs/tags/light", "create", "ok")],
        [("refs/tags/light", "tag-move", "ok")],
        [("refs/heads/agent/again", "create", "ok"), ("refs/tags/heavy", "delete", "ok")],
    ]
    machine.settled(ran.done, write=9)


def test_a_rule_about_kinds_goes_by_what_is_proven(wrapped_machine: PushMachine) -> None:
    """What the worktree says of itself (grafts, replaced objects, a cut history) proves nothing."""
    wrapped_machine.product.settings["rules"] = [
        {"action": "push", "decision": "allow", "refs": ["agent/**"]},
        {"action": "push", "decision": "deny", "force": True, "note": "no force"},
        {"action": "push", "decision": "deny", "kind": "delete"},
    ]
    ran = wrapped_machine.run(
        "git push -q origin agent/work && git switch -q --orphan strange && git commit -q --allow-empty -m strange",
        "git replace --graft strange agent/work && git merge-base --is-ancestor agent/work strange",
        "git push origin strange:agent/work",
        "git -c core.useReplaceRefs=false push -f origin strange:agent/work",
        "git replace -d $(git rev-parse strange) && git replace strange agent/work",
        "git push -f origin strange:agent/work",
        "git push origin :agent/work",
        "git push origin strange:agent/strange",
    )
    assert [step.status for step in ran.steps] == [0, 0, 1, 1, 0, 1, 1, 0], ran.steps
    forced = f"{LABEL} policy: Push to remote is denied for agent/work (forced) by config.yaml:3 (no force)"
    rejected(ran[2], f" ! [remote rejected] strange -> agent/work ({forced})")
    rejected(ran[3], f" ! [remote rejected] strange -> agent/work ({forced})")
    deletion = f"{LABEL} policy: Push to remote is denied for agent/work (deletion) by config.yaml:4"
    rejected(ran[6], f" ! [remote rejected] agent/work ({deletion})")
    assert wrapped_machine.refs()["agent/work"] == wrapped_machine.git("rev-parse", "agent/work")
    assert [kind for [(_, kind, _, _)] in outcomes(ran.done)][1:-1] == ["force", "force", "force", "delete"]
    wrapped_machine.settled(ran.done, write=2)


def test_other_histories(wrapped_machine: PushMachine) -> None:
    """A repository with ids of SHA-256, and a clone without its history."""
    machine = wrapped_machine
    machine.create("acme/long", object_format="sha256")
    machine.product.settings["workspaces"] = {"default": {"repositories": ["acme/long"]}}
    ran = machine.run(
        "git clone -q https://github.com/acme/long long && git -C long commit -q --allow-empty -m one",
        "git -C long push -q origin HEAD:agent/one",
        "git -C long push origin HEAD:main",
        f"git clone -q --depth 1 {ADDRESS} shallow && git -C shallow commit -q --allow-empty -m one",
        "git -C shallow push -q origin HEAD:agent/two",
        "git -C shallow push origin HEAD:main",
        "git -C long rev-parse HEAD; git -C shallow rev-parse HEAD",
    )
    assert [step.status for step in ran.steps] == [0, 0, 1, 0, 0, 1, 0], ran.steps
    for number in (2, 5):
        rejected(ran[number], f" ! [remote rejected] HEAD -> main ({DENIED})")
    assert [machine.refs("acme/long")["agent/one"], machine.refs()["agent/two"]] == ran[6].lines
    assert [kind for [(_, kind, _, _)] in outcomes(ran.done)] == ["create", "fast-forward"] * 2
    machine.settled(ran.done, write=2)


def test_a_mode_that_changes_nothing(wrapped_machine: PushMachine) -> None:
    ran = wrapped_machine.run(
        "git push origin agent/work", "git ls-remote -q origin", options=("--mode", "plan")
    )
    reason = (
        "Push to remote is denied for agent/work (new): this session is in mode plan, which changes nothing"
    )
    rejected(ran[0], f" ! [remote rejected] agent/work -> agent/work ({LABEL} policy: {reason})")
    assert ran[1].status == 0
    assert list(wrapped_machine.refs()) == ["main"]
    wrapped_machine.settled(ran.done)


def test_without_a_network(wrapped_machine: PushMachine) -> None:
    """Not out by a push either; GitHub is not even asked."""
    machine = wrapped_machine
    ran = machine.run("git push origin agent/work", "git ls-remote origin", options=("--no-network",))
    assert [step.status for step in ran.steps] == [128, 128], ran.steps
    assert f"remote: {LABEL} policy: the network is off for this session" in ran[0].said
    assert codes(ran.done) == ["network_off"]
    assert len(machine.forge.requests) == 0
    machine.settled(ran.done, read=0)


def test_managed_rules_only_tighten(wrapped_machine: PushMachine) -> None:
    """Also where they lie within reach: there nobody can write them, or take them away."""
    machine = wrapped_machine
    machine.product.violates = True
    managed = machine.product.work / "managed.yaml"
    managed.write_text(
        'rules:\n  - {action: push, decision: deny, refs: ["agent/secret/**"], note: from above}\n'
    )
    machine.product.settings |= {"managed_rules_file": str(managed), "push": {"label": "Head Office"}}
    ran = machine.run(
        "echo rules: [] > managed.yaml",
        "mv managed.yaml elsewhere || rm -f managed.yaml",
        "git push origin agent/work:agent/secret/x",
        "git push -q origin agent/work",
    )
    assert [step.status == 0 for step in ran.steps] == [False, False, False, True], ran.steps
    reason = "Push to remote is denied for agent/secret/x (new) by managed.yaml:2 (from above); allowed here: agent/**"
    rejected(
        ran[2],
        f" ! [remote rejected] agent/work -> agent/secret/x (Head Office policy: {reason}, refs/tags/v*)",
    )
    machine.settled(ran.done, write=1)


def test_what_github_itself_refuses_is_told_as_github_s(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    ran = machine.run(
        "mkdir -p .github/workflows && echo x > .github/workflows/x.yml && git add . && git commit -q -m workflow",
        "git push origin agent/work",
    )
    reason = (
        "refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml` without `workflows` "
        "permission"
    )
    rejected(ran[1], f" ! [remote rejected] agent/work -> agent/work ({reason})")
    [push] = records(ran.done, "push")
    assert (push["refs"][0]["verdict"], push["refs"][0]["status"]) == ("allow", reason)
    machine.settled(ran.done, write=1)


def test_without_an_app(wrapped_machine: PushMachine) -> None:
    """The reason says what to configure; nothing asks for a password."""
    machine = wrapped_machine
    machine.product.settings["github"] |= {"app_id": None, "private_key_file": None}
    ran = machine.run(
        "git push origin agent/work",
        "git ls-remote origin",
        'env | grep -c "^GH_TOKEN=\\|^GITHUB_TOKEN="',
    )
    assert [step.status for step in ran.steps] == [128, 128, 1], ran.steps
    assert ran[0].lines[0] == (
        f"remote: {LABEL} policy: pushes need a GitHub App: set github.app_id and github.private_key_file in the "
        "gateway's configuration"
    )
    assert "terminal prompts disabled" in ran[1].said
    assert ran.done.stderr == ""
    assert codes(ran.done) == ["no_app"]
    machine.settled(ran.done, read=0)


def test_every_record_is_one_printable_line(wrapped_machine: PushMachine) -> None:
    """Whatever a ref is called: what people read of it is escaped, in git's output and in the log."""
    machine = wrapped_machine
    machine.product.settings["rules"] = [{"action": "push", "decision": "deny"}]
    names = ("agent/\u202eliam", "agent/main\u0430", "agent/" + "x" * 200)
    ran = machine.run(*(f"git push origin agent/work:'refs/heads/{name}'" for name in names))
    for step in ran.steps:
        assert step.status == 1, step.said
        [line] = [line for line in step.lines if "remote rejected" in line]
        assert line.partition("(Control Center policy: ")[2].isascii(), line
    [log] = machine.product.audit.glob("*.jsonl")
    assert all(line.isascii() and line.isprintable() for line in log.read_text().split("\n"))
    machine.settled(ran.done)
