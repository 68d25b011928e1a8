"""The file rules: which names and paths are denied, which only look like it, and what a configuration adds."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.filerules import (
    GIT_DENIED,
    LINKED_DENIED,
    UNSEARCHED_FOLDERS,
    WRITE_ALLOWED_NAMES,
    WRITE_DENIED_NAMES,
    WRITE_DENIED_PATHS,
    FileRules,
    NameRules,
)

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
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", ["/srv/repo", "/", "/srv/repo/deep/down", "/srv/repo/.git"])
def test_denied_by_name_wherever_it_stands(folder: str, name: str) -> None:
    assert SHIPPED.write_denied(folder, name)


@pytest.mark.parametrize(
    "name",
    [
        ".env.example", ".env.sample", ".env.template", ".ENV.Example",
        ".envrc", "env", "env.local", "x.env", ".environment", "_env", ".en", " .env", ".env ",
        "keys", "key", "a.key.txt", "monkey", "turnkey", "keyboard.json", "a.keys", ".keys",
        "pem", "a.pem.txt", "tempem", "a.pem~", "a.p12.bak", "p12", "pfx", "a.pfxx",
        "bashrc", ".bashrc.bak", "my.bashrc", ".bashrcs", "profile", ".profiles", ".zshrc.zwc", ".zsh_history",
        "gitconfig", ".gitignore", ".gitattributes", ".gitmodules.orig", ".git", ".github", "config", "hooks",
        "mcp.json", ".mcp.json5", "vscode", ".vscodeignore", ".ideas", "settings.json", "README.md", "", ".", "..",
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
        # an exception, by name and by path
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


# --- What holds for every name --------------------------------------------------------------------

NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=12)
FOLDERS = st.lists(NAMES, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(FOLDERS, NAMES, st.sampled_from(["", ".key", ".pem", ".p12", ".pfx"]))
def test_the_ending_decides_whatever_stands_before_it(folder: str, stem: str, ending: str) -> None:
    for name in (stem + ending, stem + ending.upper()):
        assert SHIPPED.write_denied(folder, name) or not ending


@given(FOLDERS, NAMES)
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
