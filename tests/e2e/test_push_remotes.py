"""Where pushes and fetches go: by which spelling of a remote, to which repository, with which credential."""

import base64

from tests.fakes.product import went_out
from tests.fakes.push_machine import ADDRESS, FORGE, LABEL, NAME, PushMachine, codes, records

# Of the repository, as people and tools write it; the forge's own spelling is made from its URL.
SPELLINGS = (
    f"https://github.com/{NAME}",
    ADDRESS,
    f"https://github.com:443/{NAME}.git",
    f"http://github.com/{NAME}",
    f"https://www.github.com/{NAME}",
    f"git@github.com:{NAME}.git",
    f"github.com:{NAME}",
    f"ssh://git@github.com/{NAME}",
    f"ssh://git@github.com:22/{NAME}.git",
    f"ssh://git@ssh.github.com:443/{NAME}",
    f"git+ssh://github.com/{NAME}",
    f"git://github.com/{NAME}.git",
    "https://github.com/ACME/Widget.git",
    f"git@{FORGE}:{NAME}",
)


def test_every_spelling(wrapped_machine: PushMachine) -> None:
    """A push comes to the gateway, a fetch goes to the forge by way of the proxy; neither asks for anything."""
    machine = wrapped_machine
    spellings = (*SPELLINGS, f"{machine.url}/{NAME}")
    ran = machine.run(
        f"for url in {' '.join(spellings)}; do git push --dry-run $url agent/work || exit; done",
        f"for url in {' '.join(SPELLINGS[:2] + SPELLINGS[5:8])}; do git push -q $url agent/work:agent/$$ || exit; done",
        f"for url in {' '.join(spellings)}; do git ls-remote -q $url agent/work main || exit; done",
    )
    said, pushed, listed = ran.steps
    assert (said.status, pushed.status, listed.status) == (0, 0, 0), ran.steps
    to = [line for line in said.lines if line.startswith("To ")]
    assert len(to) == len(spellings)
    assert all(line.startswith("To http://127.0.0.1:") and f"/git/{FORGE}:" in line for line in to), to
    main = machine.refs()["main"]
    assert listed.lines == [f"{main}\trefs/heads/main"] * len(spellings)
    # Not one connection of the wrapped process was for a push, and all of them were for the forge.
    assert {one["host"] for one in ran.done.egress} == {FORGE}
    assert not [one for one in ran.done.egress if "receive-pack" in one["path"]]
    machine.settled(ran.done, write=1)


def test_a_remote_that_is_spelt_in_its_own_way(wrapped_machine: PushMachine) -> None:
    """What no list has, but the worktree: another account, another case, a pushurl."""
    machine = wrapped_machine
    machine.git("remote", "set-url", "origin", "HTTPS://agent@GitHub.com/acme/widget.git")
    machine.git("remote", "set-url", "--push", "origin", "org-7@github.com:acme/widget.git")
    ran = machine.run(
        "git push -q origin agent/work", "git fetch -q origin", "git rev-parse origin/agent/work"
    )
    assert [step.status for step in ran.steps] == [0, 0, 0], ran.steps
    assert ran[2].lines == [machine.refs()["agent/work"]]
    machine.settled(ran.done, write=1)


def test_fetching(machine: PushMachine) -> None:
    """Clone, fetch and ls-remote of a private repository, with the token that reads, which is in GH_TOKEN too."""
    target = f"{FORGE}:{machine.forge.port}"
    ran = machine.run(
        f"git clone -q {ADDRESS} copy && cat copy/README",
        "git fetch -q origin && git rev-parse origin/main",
        f"git ls-remote -q git@github.com:{NAME} main",
        "echo $GH_TOKEN $GITHUB_TOKEN $GH_HOST",
        'curl -s -H "Authorization: Bearer $GH_TOKEN" -o /dev/null -w "%{http_code}" '
        f'"http://$GH_HOST/api/v3/repos/{NAME}"',
        "git remote -v",
        "git clone -q https://github.com/acme/other other",
    )
    main = machine.refs()["main"]
    assert [step.status for step in ran.steps] == [0, 0, 0, 0, 0, 0, 128], ran.steps
    assert ran[0].lines == [NAME]
    assert ran[1].lines == [main]
    assert ran[2].lines == [f"{main}\trefs/heads/main"]
    [token] = machine.token_values("read")
    assert ran[3].lines == [f"{token} {token} {target}"]
    assert ran[4].lines == ["200"]
    assert token not in ran[5].said
    assert "terminal prompts disabled" in ran[6].said
    [minted] = machine.forge.tokens.minted
    assert minted.permissions == {"contents": "read", "pull_requests": "write", "metadata": "read"}
    # git asks without a token first, as it does; what it gets then it gets with the one that reads.
    seen = {
        (one.credential, one.token) for one in machine.forge.requests if ".git/git-upload-pack" in one.path
    }
    assert seen == {("read", minted.id)}
    assert set(ran.done.log) == set(went_out("http", target))
    assert ran.done.refused == 0
    machine.settled(ran.done)


def test_own_repositories_and_the_workspace_s(wrapped_machine: PushMachine) -> None:
    """Those and no others, whatever the App may reach; one token for all of an installation."""
    machine = wrapped_machine
    for name in ("acme/upstream", "acme/linked", "other/linked", "acme/secret"):
        machine.create(name)
    machine.git("remote", "add", "upstream", "git@github.com:acme/upstream.git")
    machine.product.settings["workspaces"] = {
        "lab": {"repositories": ["acme/linked", "other/linked"]},
        "default": {"repositories": ["acme/secret"]},
    }
    names = ("acme/upstream", "acme/linked", "Other/Linked", "acme/secret", "acme/none")
    ran = machine.run(
        *(f"git push https://github.com/{name} agent/work" for name in names),
        "git ls-remote -q https://github.com/other/linked main",
        "git push https://github.com/acme agent/work",
        options=("--workspace", "lab"),
    )
    assert [step.status for step in ran.steps] == [0, 0, 0, 128, 128, 0, 128], ran.steps
    for number in (3, 4):
        sentence = f"{names[number]} is not linked to the workspace lab, so nothing can be pushed there"
        assert ran[number].lines[0] == f"remote: {LABEL} policy: {sentence}"
        assert ran[number].lines[1].startswith("fatal: unable to access 'http://127.0.0.1:")
        assert ran[number].lines[1].endswith("The requested URL returned error: 403")
    assert ran[6].lines[-1].endswith("not found"), ran[6].said
    assert codes(ran.done)[:2] == ["not_linked", "not_linked"]
    assert list(machine.refs("acme/secret")) == ["main"]
    read = [one for one in records(ran.done, "token") if (one["kind"], one["state"]) == ("read", "minted")]
    assert {frozenset(one["repositories"]) for one in read} == {
        frozenset({NAME, "acme/upstream", "acme/linked"}),
        frozenset({"other/linked"}),
    }
    written = [
        one for one in records(ran.done, "token") if (one["kind"], one["state"]) == ("write", "minted")
    ]
    assert [one["repositories"] for one in written] == [["acme/upstream"], ["acme/linked"], ["other/linked"]]
    assert all(one["permissions"] == {"contents": "write", "metadata": "read"} for one in written)
    machine.settled(ran.done, read=2, write=3)


def test_new_tokens_are_as_good(wrapped_machine: PushMachine) -> None:
    """GitHub's long ones."""
    machine = wrapped_machine
    machine.forge.faults.stateless = True
    ran = machine.run("git push -q origin agent/work", f"git clone -q {ADDRESS} copy", "echo $GH_TOKEN")
    assert [step.status for step in ran.steps] == [0, 0, 0], ran.steps
    [token] = machine.token_values("read")
    assert len(token) > 400 and ran[2].lines == [token]
    machine.settled(ran.done, write=1)


def test_the_user_s_own_settings(unwrapped_machine: PushMachine) -> None:
    """Rewriting, logins and proxies stay outside, a word for GitHub and an alias count."""
    machine = unwrapped_machine
    login = base64.b64encode(b"dev:hush").decode()
    (machine.product.home / ".gitconfig").write_text(
        '[url "git@github.com:"]\n\tpushInsteadOf = https://github.com/\n\tinsteadOf = gh:\n'
        f'[http "{machine.url}/"]\n\textraHeader = "Authorization: Basic {login}"\n'
        "[http]\n\tproxy = http://127.0.0.1:1\n"
        "[credential]\n\thelper = !echo password=hush\n"
        "[alias]\n\tup = push origin\n"
    )
    machine.git("remote", "set-url", "origin", f"gh:{NAME}")
    ran = machine.run("git up -q agent/work", "git ls-remote -q origin agent/work", "git config --list")
    assert [step.status for step in ran.steps] == [0, 0, 0], ran.steps
    assert "hush" not in ran[2].said and login not in ran[2].said
    machine.settled(ran.done, write=1)
