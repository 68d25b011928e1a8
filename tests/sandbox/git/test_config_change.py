"""Replaced git configurations: what real git writes is harmless, what runs something or leads elsewhere is not."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.git.config_change import SHOWN, judge, split

OLD = b"""[core]
\trepositoryformatversion = 0
\thooksPath = /opt/hooks
[remote "origin"]
\turl = https://forge.test/acme/widget.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "empty"]
\turl =
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[branch "odd"]
\tremote = https://forge.test/else/where
\tmergeoptions = --no-ff
[include]
\tpath = ../more
[alias]
\tco = checkout
"""


def changed(addition: str) -> str:
    """What is said of the old configuration with something at its end."""
    return judge(OLD, OLD + addition.encode())


@pytest.mark.parametrize(
    "addition",
    [
        "", "# a comment\n", "[core]\n", "[alias] ; nothing\n",
        '[branch "x"]\nremote = origin\nmerge = refs/heads/x', '[branch "x"]\nremote = .',
        '[BRANCH "X.y/z"]\nREMOTE = origin',
        "[branch.x]\nremote = origin", '[branch "x"]\npushRemote = origin',
        '[branch "x"]\nremote = origin\nremote = .',
        '[branch "x"]\nrebase = true', '[branch "x"]\nrebase = merges',
        '[branch "x"]\nmerge = refs/pull/7/head',
        '[branch "x"]\ndescription = "two\\nlines"', '[branch "x"]\ngh-merge-base = main',
        # a value that a branch had: it comes by renaming
        '[branch "new"]\nremote = https://forge.test/else/where',
        '[remote "origin"]\nfetch = +refs/heads/x:refs/remotes/origin/x',
        '[remote "origin"]\nfetch = ^refs/heads/y',
        '[remote "origin"]\nfetch = +refs/tags/*:refs/tags/*', '[remote "origin"]\nfetch = refs/heads/main',
        '[remote "origin"]\ntagOpt = --no-tags', '[remote "origin"]\ngh-resolved = base',
        '[submodule "lib"]\nactive = true\nurl = https://forge.test/acme/lib.git',
        '[submodule "lib"]\nactive',
        '[submodule "lib/a b"]\nurl = ssh://git@forge.test:22/acme/lib.git',
        '[submodule "x"]\nurl = git@forge.test:acme/lib',
        '[submodule "x"]\nurl = git://[::1]:9418/lib', '[submodule "x"]\nurl = https://me@forge.test/~me/lib',
        "[advice]\ndetachedHead = false", "[pull]\nrebase = true\nff = only", "[fetch]\nprune",
        "[lfs]\nrepositoryformatversion = 0",
    ],
)  # fmt: skip
def test_harmless(addition: str) -> None:
    assert changed(addition) == ""


HOSTILE = [
    # programs
    "[core]\nhooksPath = /tmp/x", "[core]\nhookspath =", "[core]\nfsmonitor = /tmp/x",
    "[core]\nsshCommand = sh",
    "[core]\neditor = sh", "[core]\npager = sh", "[core]\naskPass = sh", "[core]\ngitProxy = sh",
    "[core]\nworktree = /",
    "[core]\nbare", "[core]\nattributesFile = x", "[core]\nalternateRefsCommand = x",
    "[core]\nrepositoryformatversion = 1",
    "[alias]\nco = !sh", "[alias]\nx = !sh", '[alias "x"]\ncommand = !sh',
    '[filter "x"]\nclean = sh', '[filter "x"]\nsmudge = sh', '[filter "x"]\nprocess = sh',
    '[filter "x"]\nrequired',
    '[diff "x"]\ntextconv = sh', '[diff "x"]\ncommand = sh', "[diff]\nexternal = sh",
    '[merge "x"]\ndriver = sh',
    "[credential]\nhelper = !sh", '[credential "https://forge.test"]\nhelper = x', "[gpg]\nprogram = sh",
    '[gpg "ssh"]\nprogram = sh', "[sequence]\neditor = sh", "[interactive]\ndiffFilter = sh",
    "[pager]\nlog = sh",
    '[difftool "x"]\ncmd = sh', '[mergetool "x"]\ncmd = sh', "[uploadpack]\npackObjectsHook = sh",
    "[gc]\nauto = 0",
    "[gc]\nrecentObjectsHook = sh", "[init]\ntemplateDir = x", "[sendemail]\nsmtpserver = /bin/sh",
    "[hook]\nx = y",
    '[hook "x"]\ncommand = sh', '[trailer "x"]\ncommand = sh', '[tar "x"]\ncommand = sh', "[browser]\nx = y",
    '[man "x"]\ncmd = sh', "[web]\nbrowser = sh", "[receive]\nprocReceiveRefs = x", "[column]\nui = x",
    "[lfs]\nurl = x",
    '[lfs "customtransfer.x"]\npath = sh', '[submodule "x"]\nupdate = !sh',
    '[submodule "x"]\nupdate = checkout',
    "[submodule.x]\nupdate = !sh", '[submodule "x"]\nUPDATE = !sh', '[submodule "x"]\nbranch = x',
    "[submodule]\nrecurse",
    "[submodule]\nactive = .", '[branch "main"]\nmergeOptions = -s ../x',
    '[branch "new"]\nmergeoptions = --no-ff',
    # other files, other places
    "[include]\npath = x", '[includeIf "gitdir:/"]\npath = x', '[url "ext::sh -c x "]\ninsteadOf = https://',
    '[url "https://evil.test/"]\npushInsteadOf = https://', "[http]\nproxy = http://evil.test",
    "[http]\nsslVerify = false",
    '[http "https://forge.test"]\nextraHeader = x', "[protocol]\nallow = always",
    '[protocol "ext"]\nallow = always',
    "[extensions]\nworktreeConfig", "[extensions]\npartialClone = x", "[push]\ndefault = matching",
    "[remote]\npushDefault = x",
    '[remote "origin"]\nurl = https://evil.test/x', '[remote "origin"]\npushurl = x',
    '[remote "new"]\nurl = x',
    '[remote "origin"]\nreceivepack = sh', '[remote "origin"]\nuploadpack = sh',
    '[remote "origin"]\nvcs = sh',
    '[remote "origin"]\nproxy = x', '[remote "origin"]\nmirror', '[remote "origin"]\npromisor',
    '[remote "origin"]\npush = x',
    '[remote "origin"]\ngh-resolved = evil/other', "[user]\nname = x", "[user]\nemail = x",
    "[user]\nsigningKey = x",
    "[commit]\ngpgSign", "[advice]\nx = /bin/sh", '[advice "x"]\ny = true', "[safe]\ndirectory = *",
    "[trace2]\neventTarget = /x",
    # addresses where names are expected
    *(f'[branch "main"]\nremote = {value}' for value in (
        "https://evil.test/x", '"ext::sh -c x"', "git@evil.test:x", "../x", "/srv/x", "new", "empty", "-x",
        "Origin", "",
    )),
    '[branch "x"]\npushRemote = "ext::sh"', '[branch "x"]\nremote', "[branch]\nremote = origin",
    *(f'[branch "x"]\nmerge = {value}' for value in (
        "main", "refs/heads/a:refs/heads/b", "+refs/heads/a", "--upload-pack=x", "refs/heads/../x",
        "refs/heads/-x", "refs/heads/*",
        "refs/heads/a b", "refs/heads/", "refs/heads/a.lock", "refs/heads/@{x", "",
    )),
    '[branch "x"]\nrebase = !sh', '[branch "x"]\ndescription = "\x1b]0;x"',
    '[branch "x"]\ngh-merge-base = -x',
    *(f'[remote "origin"]\nfetch = {value}' for value in (
        "+refs/heads/*:refs/heads/*", "refs/heads/x:refs/heads/main", "+refs/*:refs/*",
        "refs/heads/x:refs/tags/y", "x:y", "",
        "refs/heads/*:refs/remotes/origin/x", "refs/heads/*/*:refs/remotes/*/*",
        "^refs/heads/a:refs/heads/b", "-x",
        "refs/heads/x:refs/remotes/../heads/x", "refs/heads/x:", "+", "^",
    )),
    '[remote "new"]\nfetch = +refs/heads/*:refs/remotes/new/*', '[remote "empty"]\nfetch = refs/heads/x',
    *(f'[submodule "lib"]\nurl = "{value}"' for value in (
        "ext::sh -c x", "ext::sh", "file:///srv/x", "/srv/x", "../x", "./x", "x", "-oProxyCommand=sh",
        "ssh://-oProxyCommand=sh/x",
        "ssh://me@-oProxyCommand=sh/x", "-x@forge.test:y", "forge.test:-x", "http://forge.test/x",
        "https://forge.test/%0ahost=x",
        "https://forge.test/a b", "https://user:password@forge.test/x", "https://forge.test", "https:///x",
        "ftp://forge.test/x",
        "ssh://%2doProxyCommand/x", "https://forge.test/$(x)", "transport::https://forge.test/x", "",
        "@forge.test:x", "./a:b",
    )),
    '[submodule "../x"]\nurl = https://forge.test/x', '[submodule "a/../b"]\nurl = https://forge.test/x',
    '[submodule "-x"]\nurl = https://forge.test/x', '[submodule "lib"]\nactive = !sh',
    "[pull]\nrebase = !sh", "[fetch]\nprune = x",
    "[lfs]\nrepositoryformatversion = 1", '[remote "origin"]\ntagOpt = --upload-pack=x',
    # not to be read for certain
    "[core", "x", "[a]\nk = x\ty", "[a]\rk = 1",
]  # fmt: skip


@pytest.mark.parametrize("addition", HOSTILE)
def test_refused(addition: str) -> None:
    reason = changed(addition)
    assert reason
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("find", "put", "allowed"),
    [
        # taken away
        (b'[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n', b"", True),
        (b"\tfetch = +refs/heads/*:refs/remotes/origin/*\n", b"", True),
        (b"\thooksPath = /opt/hooks\n", b"", False),
        (b"\tmergeoptions = --no-ff\n", b"", False),
        (b"[include]\n\tpath = ../more\n", b"", False),
        (b"\turl = https://forge.test/acme/widget.git\n", b"", False),
        (OLD, b"", False),
        # written in another way
        (b"\thooksPath = /opt/hooks", b'hookspath="/opt/hooks" # so', True),
        (b'[remote "origin"]', b'[REMOTE\t"origin"] ; x\n', True),
        (b"\n", b"\r\n", True),
        # in another order or once more
        (b"[include]\n\tpath = ../more\n[alias]\n\tco = checkout\n",
        b"[alias]\nco=checkout\n[include]\npath=../more\n", False),
        (b"\tco = checkout\n", b"\tco = checkout\n\tco = checkout\n", False),
        (b"co = checkout", b"co = Checkout", False),
        (b'"origin"', b'"Origin"', False),
        # renamed branches, but not what else stands there
        (b'[branch "main"]', b'[branch "trunk"]', True),
        (b'[branch "odd"]', b'[branch "even"]', False),
    ],
)  # fmt: skip
def test_replaced(find: bytes, put: bytes, allowed: bool) -> None:
    assert (judge(OLD, OLD.replace(find, put)) == "") is allowed


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"", b"[alias]\nx = !sh", "alias.x may not be added or changed from inside"),
        (b"[a]\nk=1", b"", "a.k may not be removed from inside"),
        (b"[a]\nk=1\nl=2", b"[a]\nl=2\nk=1", "a.k may not be moved or repeated from inside"),
        (b"", b'[branch "\x1b[1m\xff"]\nremote = x',
        "branch.?[1m\ufffd.remote does not name a remote that was there before"),
        (b"", b'[submodule "x"]\nactive = maybe',
        "submodule.x.active is none of true, false, yes, no, on, off, 1, 0"),
        (b"", b'[branch "x"]\nremote', "branch.x.remote has no value"),
        (b"[x", b"", "the present configuration is not understood: line 1 cannot be read"),
        (b"", b"\n[x", "the new configuration is not understood: line 2 cannot be read"),
        (b"[x", b"[x", ""),
    ],
)  # fmt: skip
def test_reasons(old: bytes, new: bytes, reason: str) -> None:
    assert judge(old, new) == reason


def test_a_reason_is_short() -> None:
    assert len(judge(b"", b'[x "' + b"y" * 5000 + b'"]\nk=1')) < SHOWN + 60


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (b"core.bare", (b"core", None, b"bare")),
        (b"branch.a.b.remote", (b"branch", b"a.b", b"remote")),
        (b"a..k", (b"a", b"", b"k")),
    ],
)
def test_split(name: bytes, parts: tuple[bytes, bytes | None, bytes]) -> None:
    assert split(name) == parts


NAMES = st.sampled_from(
    [b"core.x", b"alias.x", b"branch.x.mergeoptions", b"remote.o.url", b"submodule.x.update"]
)
ENTRIES = st.lists(st.tuples(NAMES, st.sampled_from([b"1", b"2"])), max_size=5)


def text_of(entries: list[tuple[bytes, bytes]]) -> bytes:
    parts = [(split(name), value) for name, value in entries]
    return b"".join(
        (b'[%s "%s"]' % (section, sub) if sub is not None else b"[%s]" % section) + b"%s=%s\n" % (key, value)
        for (section, sub, key), value in parts
    )


@given(ENTRIES, ENTRIES)
def test_what_is_not_in_the_table_stays_as_it_is(
    old: list[tuple[bytes, bytes]], new: list[tuple[bytes, bytes]]
) -> None:
    assert (judge(text_of(old), text_of(new)) == "") is (old == new)


# --- Real git -------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> None:
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@a.test",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a.test", "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always", "GIT_EDITOR": "true",
    }  # fmt: skip
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with a submodule in its tree, two branches at its origin."""
    root = tmp_path_factory.mktemp("git")
    git(root, "init", "-q", "-b", "main", "one")
    (root / "one/file").write_text("text")
    (root / "one/.gitmodules").write_text(
        '[submodule "lib"]\n\tpath = lib\n\turl = https://forge.test/acme/lib.git\n'
    )
    git(root / "one", "add", ".")
    git(root / "one", "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    git(root / "one", "commit", "-qm", "first")
    git(root / "one", "branch", "other")
    git(root, "clone", "-q", "--bare", "one", "origin.git")
    git(root, "clone", "-q", "origin.git", "clone")
    (root / "config").write_bytes((root / "clone/.git/config").read_bytes())
    return root / "clone"


@pytest.mark.parametrize(
    ("commands", "allowed"),
    [
        (["push -q -u origin HEAD:fresh"], True),
        (["checkout -q -b fresh", "push -q -u origin fresh"], True),
        (["checkout -q -b x1 --track origin/other"], True),
        (["checkout -q -b x2 --track main"], True),
        (["branch x3", "branch --set-upstream-to=origin/other x3", "branch -m x3 x4",
        "branch --unset-upstream x4"], True),
        (["branch x5 --track origin/main", "branch -c x5 x6", "branch -D x5"], True),
        (["switch -q other"], True),
        (["fetch -q", "pull -q origin main", "remote set-branches --add origin extra"], True),
        (["submodule init"], True),
        (["worktree add -q ../linked", "worktree remove ../linked"], True),
        (["config branch.main.rebase true", "config advice.detachedHead false"], True),
        (["init -q"], True),
        (["gc -q"], True),
        (["remote add fork https://evil.test/x"], False),
        (["remote set-url origin https://evil.test/x"], False),
        (["remote rename origin upstream"], False),
        (["remote remove origin"], False),
        (["config core.hooksPath x"], False),
        (["config user.email x@evil.test"], False),
        (["sparse-checkout set x"], False),
    ],
)  # fmt: skip
def test_what_git_itself_writes(commands: list[str], allowed: bool, clone: Path) -> None:
    (clone / ".git/config").write_bytes((clone.parent / "config").read_bytes())
    config = clone / ".git/config"
    for command in commands:
        before = config.read_bytes()
        git(clone, *command.split())
        assert (judge(before, config.read_bytes()) == "") is allowed, command
