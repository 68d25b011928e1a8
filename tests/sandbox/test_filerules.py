"""The file rules: which names and paths are denied, which only look like it, and what a configuration adds."""

import os
import posixpath
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import filerules
from sandbox.filerules import (
    ALLOWED_AMONG_PACKAGES,
    GIT_DENIED,
    LINKED_DENIED,
    UNSEARCHED_FOLDERS,
    WRITE_ALLOWED_NAMES,
    WRITE_DENIED_NAMES,
    WRITE_DENIED_PATHS,
    FileRules,
    NameRules,
)
from tests.source_tree import ROOT

SHIPPED = NameRules(FileRules())


def denied(path: str, rules: NameRules = SHIPPED) -> bool:
    """Whether the absolute path may not be written."""
    return rules.write_denied(*posixpath.split(path))


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".ENV", ".Env", ".env.local", ".env.production", ".ENV.Local", ".env.example.local", ".env.", ".env.d",
        "server.key", "SERVER.KEY", ".key", "a.b.key", "cert.pem", "Cert.PeM", ".pem", "a.p12", "a.pfx",
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout",
        ".gitconfig", ".GitConfig", ".gitmodules", ".mcp.json", ".MCP.json", ".vscode", ".VSCode", ".idea",
        "name\nin two lines.pem", "ключ.key", "with space.pfx",
        # what some file system takes for one of these
        ".e\u200bnv", ".\u2060env", "\ufeff.env", "x.\u212aey", "x.\uff4bey", "\uff0eenv", ".ba\u017fhrc", ".\u2170dea",
        ".env\U000e0041", ".git\u00admodules", ".claude\u200b.pem", ".MCP\u200d.JSON",
        ".env ", ".env.", ".env. .", ".vscode ", "a.pem...", ".env::$DATA", ".vscode:$I30:$INDEX_ALLOCATION", "a.key:x",
        ".env\udcff", "a.\udcc3key", ".e\udcfenv", "\udcc0.env",
        # exceptions are letter by letter
        ".env.ex\u200bample", ".env.\uff45xample", ".env.example\udcff", ".env.example:x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", ["/srv/repo", "/", "/srv/repo/deep/down", "/srv/repo/.git"])
def test_denied_by_name_wherever_it_stands(folder: str, name: str) -> None:
    assert SHIPPED.write_denied(folder, name)


@pytest.mark.parametrize(
    "name",
    [
        ".env.example", ".env.sample", ".env.template", ".ENV.Example",
        ".envrc", "env", "env.local", "x.env", ".environment", "_env", ".en", " .env",
        "keys", "key", "a.key.txt", "monkey", "turnkey", "keyboard.json", "a.keys", ".keys",
        "pem", "a.pem.txt", "tempem", "a.pem~", "a.p12.bak", "p12", "pfx", "a.pfxx",
        "bashrc", ".bashrc.bak", "my.bashrc", ".bashrcs", "profile", ".profiles", ".zshrc.zwc", ".zsh_history",
        "gitconfig", ".gitignore", ".gitattributes", ".gitmodules.orig", ".git", ".github", "config", "hooks",
        "mcp.json", ".mcp.json5", "vscode", ".vscodeignore", ".ideas", "settings.json", "README.md", "", ".", "..",
        "env\u200b", "monk\u200bey", "\u212aeys", "a.\u212aeys", ".\u0435nv", "\udcff", "caf\udce9.txt", "a:b",
        "x.env.", "...",
        "\u200b", "a.pem.txt ", "\uff0e", ".en\u0307v",
    ],
)  # fmt: skip
def test_not_denied_by_name(name: str) -> None:
    assert not SHIPPED.write_denied("/srv/repo", name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/repo/.claude/settings.json", True),
        ("/srv/repo/.claude/settings.local.json", True),
        ("/srv/repo/.Claude/Settings.JSON", True),
        ("/srv/repo/deep/down/.claude/hooks", True),
        ("/srv/repo/.claude/commands", True),
        ("/srv/repo/.claude/agents", True),
        ("/home/dev/.config/fish/config.fish", True),
        ("/srv/repo/.claude", False),
        ("/srv/repo/.claude/notes.md", False),
        ("/srv/repo/.claude/settings.json.bak", False),
        ("/srv/repo/.claude/settings.yaml", False),
        ("/srv/repo/claude/settings.json", False),
        ("/srv/repo/x.claude/settings.json", False),
        ("/srv/repo/.claude/below/settings.json", False),
        ("/srv/repo/.claude/projects/hooks", False),
        ("/srv/repo/agents", False),
        ("/srv/repo/fish/config.fish", False),
        ("/srv/repo/.config/fish/functions.fish", False),
        ("/srv/repo/.config/fish/conf.d", True),
        ("/.claude/settings.json", True),
        ("/srv/repo/.cl\u200baude/hook\u017f", True),
        ("/srv/repo/.claude./settings.json ", True),
        ("/srv/repo/.claude:x/settings.json::$DATA", True),
        # what is denied denies all below it
        ("/srv/repo/.claude/hooks/pre/run.sh", True),
        ("/srv/repo/.vscode/settings.json", True),
        ("/srv/repo/.VSCODE/deep/down/file", True),
        ("/srv/repo/.env/bin/python", True),
        ("/srv/repo/.env.example/file", False),
        ("/srv/repo/.idea/.env.example", True),
        ("/srv/repo/.\u200bidea/file", True),
        # keys of installed packages
        ("/srv/repo/node_modules/a/cert.pem", False),
        ("/srv/repo/Node_Modules/a/b/cert.KEY", True),
        ("/srv/repo/.venv/lib/python3/site-packages/certifi/cacert.pem", False),
        ("/srv/repo/node_modules/a.pem/file", False),
        ("/srv/repo/node_modules", False),
        ("/srv/repo/node_modules.pem", True),
        ("/srv/repo/node_modules/.env", True),
        ("/srv/repo/node_modules/a/.vscode/a.pem", True),
        ("/srv/repo/node_modules/a/x.p12", True),
        ("/srv/repo/node_modules/.claude/hooks", True),
        ("/srv/repo/a.pem/node_modules/b.pem", True),
        ("/srv/repo/node_modules2/a.pem", True),
    ],
)
def test_denied_by_the_end_of_the_path(path: str, expected: bool) -> None:
    assert denied(path) is expected


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        # a name of the configuration joins the shipped ones
        (FileRules(deny_write=("secrets.*",)), "/srv/repo/secrets.yaml", True),
        (FileRules(deny_write=("secrets.*",)), "/srv/repo/Secrets.YAML", True),
        (FileRules(deny_write=("secrets.*",)), "/srv/repo/secrets", False),
        (FileRules(deny_write=("secrets.*",)), "/srv/repo/.env", True),
        (FileRules(deny_write=("[ab].txt",)), "/srv/repo/a.txt", True),
        (FileRules(deny_write=("[ab].txt",)), "/srv/repo/c.txt", False),
        (FileRules(deny_write=("?.txt",)), "/srv/repo/ab.txt", False),
        # a path is whole, and globs in it reach over folders
        (FileRules(deny_write=("/srv/repo/deploy/*",)), "/srv/repo/deploy/run.sh", True),
        (FileRules(deny_write=("/srv/repo/deploy/*",)), "/srv/repo/deploy/below/run.sh", True),
        (FileRules(deny_write=("/srv/repo/deploy/*",)), "/srv/repo/deployed/run.sh", False),
        (FileRules(deny_write=("/srv/repo/deploy/*",)), "/srv/other/deploy/run.sh", False),
        (FileRules(deny_write=("*/deploy/*",)), "/srv/other/deploy/run.sh", True),
        (FileRules(deny_write=("deploy/run.sh",)), "/srv/repo/deploy/run.sh", False),
        (FileRules(deny_write=("/srv/repo/a.txt",)), "/srv/repo/A.TXT", True),
        # all below what is denied
        (FileRules(deny_write=("/srv/repo/a",)), "/srv/repo/a/b/c", True),
        (FileRules(deny_write=("/srv/repo/a",)), "/srv/repo/ab", False),
        (FileRules(deny_write=("plans",)), "/srv/repo/plans/b/c", True),
        (FileRules(deny_write=("/srv/r\u00e9po/*.txt",)), "/srv/re\u0301po/a.txt", True),
        (FileRules(deny_write=("/srv/repo/*.txt",)), "/srv/repo/a.t\u200bxt", True),
        (FileRules(deny_write=("/srv/repo/*.txt",)), "/srv/repo/a.txt.", True),
        (FileRules(deny_write=("\u200b",)), "/srv/repo/a", False),
        # the configuration's word beats the shipped exceptions
        (FileRules(deny_write=("*.pem",)), "/srv/repo/node_modules/a.pem", True),
        (FileRules(deny_write=("*/node_modules/*.key",)), "/srv/repo/node_modules/a/b.key", True),
        (FileRules(deny_write=(".env.example",)), "/srv/repo/.env.example", True),
        (FileRules(deny_write=("/srv/repo/*",)), "/srv/repo/.env.example", True),
        # an exception, by name and by path
        (FileRules(allow_write=(".vscode",)), "/srv/repo/.vscode/settings.json", False),
        (FileRules(allow_write=(".vscode",)), "/srv/repo/.vscode/.env", True),
        (FileRules(allow_write=("settings.json",)), "/srv/repo/.vscode/settings.json", True),
        (FileRules(allow_write=("*/.vscode/settings.json",)), "/srv/repo/.vscode/settings.json", False),
        (FileRules(allow_write=("*/.vscode/settings.json",)), "/srv/repo/.vscode/tasks.json", True),
        (FileRules(allow_write=("*/.vscode/part",)), "/srv/repo/.vscode/part/file", False),
        (FileRules(allow_write=("public.pem",)), "/srv/repo/publi\u200bc.pem", True),
        (FileRules(allow_write=("caf\u00e9.pem",)), "/srv/repo/cafe\u0301.pem", False),
        (FileRules(allow_write=("a",), deny_write=("/srv/repo/a",)), "/srv/repo/a", False),
        (FileRules(allow_write=("public.pem",)), "/srv/repo/public.pem", False),
        (FileRules(allow_write=("public.pem",)), "/srv/repo/Public.PEM", False),
        (FileRules(allow_write=("public.pem",)), "/srv/repo/private.pem", True),
        (FileRules(allow_write=("*/testdata/*",)), "/srv/repo/testdata/a.key", False),
        (FileRules(allow_write=("*/testdata/*",)), "/srv/repo/TestData/a.key", False),
        (FileRules(allow_write=("*/testdata/*",)), "/srv/repo/data/a.key", True),
        (FileRules(allow_write=("/srv/repo/.claude/commands",)), "/srv/repo/.claude/commands", False),
        (FileRules(allow_write=("/srv/repo/.claude/commands",)), "/srv/more/.claude/commands", True),
        (FileRules(allow_write=("commands",)), "/srv/repo/.claude/commands", False),
        (FileRules(deny_write=("a*",), allow_write=("ab",)), "/srv/repo/ab", False),
        (FileRules(deny_write=("a*",), allow_write=("ab",)), "/srv/repo/ac", True),
        # what is to be hidden is another matter
        (FileRules(deny_read=("plans",)), "/srv/repo/plans", False),
    ],
)
def test_configuration_joins(rules: FileRules, path: str, expected: bool) -> None:
    assert denied(path, NameRules(rules)) is expected


@pytest.mark.parametrize(
    ("globs", "path", "expected"),
    [
        ((), "/srv/repo/.env", False),
        (("plans.*",), "/srv/repo/plans.txt", True),
        (("plans.*",), "/srv/repo/PLANS.TXT", True),
        (("plans.*",), "/srv/repo/my-plans.txt", False),
        (("*/private",), "/srv/repo/private", True),
        (("*/private",), "/srv/repo/private/file", False),
        (("*/private/*",), "/srv/repo/private/file", True),
        (("/srv/repo/a",), "/srv/repo/a", True),
        (("/srv/repo/a",), "/srv/more/a", False),
    ],
)
def test_hidden(globs: tuple[str, ...], path: str, expected: bool) -> None:
    assert NameRules(FileRules(deny_read=globs)).read_denied(*posixpath.split(path)) is expected


def test_an_exception_from_writing_is_none_from_hiding() -> None:
    rules = NameRules(FileRules(allow_write=("plans",), deny_read=("plans",)))
    assert rules.read_denied("/srv/repo", "plans")


@pytest.mark.parametrize("names", [WRITE_DENIED_NAMES, WRITE_ALLOWED_NAMES, GIT_DENIED, LINKED_DENIED])
def test_lists_hold_names_in_lower_case_each_once(names: tuple[str, ...]) -> None:
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and "/" not in name for name in names)


def test_every_path_rule_has_a_folder_before_it() -> None:
    assert all("/" in path and not path.startswith("/") for path in WRITE_DENIED_PATHS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".claude", True),
        (".Claude", True),
        ("fish", True),
        (".config", False),
        ("hooks", False),
        ("claude", False),
    ],
)
def test_directories_with_denied_entries(name: str, expected: bool) -> None:
    assert SHIPPED.leads_to_denied(name) is expected


def test_unsearched_folders_are_those_of_installed_packages() -> None:
    assert {"node_modules", "site-packages"} == UNSEARCHED_FOLDERS
    assert set(ALLOWED_AMONG_PACKAGES) <= set(WRITE_DENIED_NAMES)


# --- What holds for every name --------------------------------------------------------------------

NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=12)
FOLDERS = st.lists(NAMES, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(FOLDERS, NAMES, st.sampled_from(["", ".key", ".pem", ".p12", ".pfx"]))
def test_the_ending_decides_whatever_stands_before_it(folder: str, stem: str, ending: str) -> None:
    for name in (stem + ending, stem + ending.upper()):
        assert SHIPPED.write_denied(folder, name) or not ending


@given(FOLDERS.filter(lambda folder: not denied(f"{folder}/x")), NAMES)
def test_names_that_begin_like_a_secrets_file(folder: str, rest: str) -> None:
    whole = f".env.{rest}"
    assert SHIPPED.write_denied(folder, whole) is (whole.lower() not in WRITE_ALLOWED_NAMES)


@given(FOLDERS, st.sampled_from([name for name in WRITE_DENIED_NAMES if "*" not in name]), st.data())
def test_case_hides_nothing(folder: str, name: str, data: st.DataObject) -> None:
    upper = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    spelled = "".join(c.upper() if up else c for c, up in zip(name, upper, strict=True))
    assert SHIPPED.write_denied(folder, spelled)


@given(FOLDERS, NAMES, st.lists(NAMES, max_size=3))
def test_more_rules_never_deny_less(folder: str, name: str, more: list[str]) -> None:
    longer = NameRules(FileRules(deny_write=tuple(more)))
    assert longer.write_denied(folder, name) or not SHIPPED.write_denied(folder, name)


# --- What the supervisor asks ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (b"/srv/repo/.env", ".env"),
        (b"/srv/repo/.ENV.Local", ".env.*"),
        (b"/srv/repo/x/Server.KEY", "*.key"),
        (b"/srv/repo/.VSCode/a/b", ".vscode"),
        (b"/srv/repo/.claude/hooks/x", ".claude/hooks"),
        (b"/srv/repo/.e\xe2\x80\x8bnv", ".env"),
        (b"/srv/repo/\xff\xfe/a.pem", "*.pem"),
        (b"/srv/repo/Plans.TXT", "Plans.*"),
        (b"/srv/repo/deploy/x", "/srv/Repo/deploy/*"),
        (b"/srv/repo/deploy", ""),
        (b"/srv/repo/keys", ""),
        (b"/a", ""),
    ],
)
def test_the_rule_that_is_reported_is_the_glob_as_written(path: bytes, rule: str) -> None:
    rules = NameRules(FileRules(deny_write=("Plans.*", "/srv/Repo/deploy/*")))
    folder, _, name = path.rpartition(b"/")
    assert rules.denied(folder, name) == rule
    assert rules.denied(folder, name) == rule, "asked again"


def test_folders_are_remembered_within_bounds() -> None:
    rules = NameRules(FileRules())
    for number in range(3 * filerules._KEPT_FOLDERS):
        assert not rules.denied(b"/srv/%d" % number, b"file")
        assert rules.denied(b"/srv/.idea/%d" % number, b"file") == ".idea"
    deep = b"/srv" + b"/abc" * 1000
    assert not rules.denied(deep, b"file")
    assert rules.denied(deep + b"/.vscode" + deep, b"file") == ".vscode"
    assert len(rules._places) <= filerules._KEPT_FOLDERS
    assert max(map(len, rules._places)) <= filerules._KEPT_LENGTH


@given(st.lists(st.binary(min_size=1, max_size=6).filter(lambda part: not {0, 47} & set(part)), max_size=4))
def test_any_bytes_can_be_asked_about(parts: list[bytes]) -> None:
    folder = b"".join(b"/" + part for part in parts)
    assert SHIPPED.denied(folder, b".env")
    assert SHIPPED.denied(folder, b"\xff.env\xfe.")
    assert SHIPPED.denied(folder, b"plain") == SHIPPED.denied(folder, b"other")


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        ("/srv/repo/x", "/srv/repo/.claude", ".claude/settings.json"),
        ("/srv/repo/x", "/srv/repo/.Cl\u200baude", ".claude/settings.json"),
        ("/srv/repo/x", "/srv/repo/.config", ".config/fish/config.fish"),
        ("/srv/repo/x", "/srv/repo/.config/fish", ".config/fish/config.fish"),
        ("/srv/repo/x", "/srv/repo/fish", ""),
        ("/srv/repo/x", "/srv/repo/y", ""),
        ("/srv/repo/a/.claude", "/srv/repo/b/.claude", ""),
        ("", "/srv/repo/.claude", ".claude/settings.json"),
        ("", "/srv/repo/y", ""),
        # rules of the configuration
        ("/srv/repo/x", "/srv/repo/deploy", "/srv/repo/deploy/*"),
        ("/srv/x", "/srv/repo", "/srv/repo/deploy/*"),
        ("", "/srv/repo/deploy", "/srv/repo/deploy/*"),
        ("/srv/repo/x", "/srv/repo/y/part", "*/part/run.sh"),
        ("/srv/repo/z/part", "/srv/repo/y/part", ""),
        ("/x", "/opt/a", "/opt/*/b"),
        ("/opt/x", "/opt/a", ""),
        ("", "/opt/a", ""),
    ],
)
def test_a_directory_that_would_bring_denied_paths(source: str, target: str, rule: str) -> None:
    rules = NameRules(FileRules(deny_write=("/srv/repo/deploy/*", "*/part/run.sh", "/opt/*/b")))
    old = os.path.split(os.fsencode(source)) if source else None
    found = rules.brings_denied(*os.path.split(os.fsencode(target)), old)
    assert found.removeprefix("*/") == rule.removeprefix("*/")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("/srv/repo/node_modules/a", "/srv/repo/a", True),
        ("/srv/repo/node_modules", "/srv/repo/old", True),
        ("/srv/repo/node_modules", "/srv/other/node_modules", False),
        ("/srv/repo/node_modules/.a-x1", "/srv/repo/node_modules/a", False),
        ("/srv/repo/a", "/srv/repo/node_modules/a", False),
        ("/srv/repo/a", "/srv/repo/b", False),
    ],
)
def test_a_directory_that_leaves_the_installed_packages(source: str, target: str, expected: bool) -> None:
    split = [os.path.split(os.fsencode(path)) for path in (target, source)]
    assert SHIPPED.leaves_packages(*split[0], split[1]) is expected


def test_importing_it_brings_nothing_that_is_slow_to_import() -> None:
    """The supervisor starts in milliseconds: every one of these takes several."""
    slow = "{'re', 'dataclasses', 'typing', 'fnmatch', 'inspect', 'enum'}"
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from sandbox.filerules import FileRules, NameRules;"
        f" NameRules(FileRules()).denied(b'/a', b'b'); print(sorted({slow} & set(sys.modules)))"
    )
    command = [sys.executable, "-I", "-S", "-E", "-B", "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
