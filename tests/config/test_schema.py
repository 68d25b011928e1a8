"""Every section but `egress` and `github`, and what this version does not offer."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from gateway.config.schema import MAX_LABEL, UNAVAILABLE, read_config
from gateway.config.tree import MappingNode, Reading, ScalarNode, SequenceNode
from gateway.config.values import Config, Workspace
from gateway.policy.repositories import RepositoryName
from tests.fakes.config_files import assert_refused, assert_warned, load, problems

NOW = datetime(2030, 1, 1, tzinfo=UTC)

REFUSED = (
    ("the file is a list", "- sandbox: on\n", 1, "the file must be a mapping"),
    ("the file is a word", "sandbox\n", 1, "the file must be a mapping"),
    ("unknown key", "sandbox: on\negres: {}\n", 2, "unknown key 'egres': write egress"),
    ("a key of a section at the top", "allow: [x.test]\n", 1, "unknown key 'allow': write it below egress:"),
    ("unknown key below", "audit:\n  keep_day: 5\n", 2, "unknown key 'keep_day' in audit: write keep_days"),
    ("duplicate key", "sandbox: on\nsandbox: off\n", 2, "duplicate key 'sandbox': line 1 has it too"),
    ("duplicate key below", "audit:\n  keep_days: 5\n  keep_days: 6\n", 3, "duplicate key 'keep_days'"),
    ("a list as a key", "[sandbox]: on\n", 1, "a list as a key"),
    ("merge key", "<<: {sandbox: off}\n", 1, "merge keys"),
    ("sandbox is yes", "sandbox: yes\n", 1, "sandbox must be on or off"),
    ("sandbox is empty", "\nsandbox:\n", 2, "sandbox must be on or off, not empty"),
    ("worktree", "worktree: in_place\n", 1, "must be one of in-place, cow, git: write worktree: in-place"),
    ("file_rules", "file_rules: none\n", 1, "must be one of create-time, existing-only"),
    ("bridge", "bridge: [handover]\n", 1, "must be one of handover, socat"),
    ("files is a list", "files: []\n", 1, "must be a mapping of keys"),
    ("deny_write is text", "files:\n  deny_write: '*.key'\n", 2, "must be a list, not text"),
    (
        "path of nowhere",
        "files:\n  deny_write:\n    - deploy/*.tf\n",
        3,
        "write '*/deploy/*.tf' for that path",
    ),
    ("path of nowhere", "files: {deny_read: ['./x']}\n", 1, "can never match"),
    ("deny_write holds a number", "files:\n  deny_write:\n    - 1\n", 3, "must be text"),
    ("pass is no name", "environment:\n  pass: [A=B]\n", 2, "is no name of a variable"),
    ("pass is a glob", "environment:\n  pass: ['A*']\n", 2, "is no name of a variable"),
    ("set is no name", "environment:\n  set: {1A: x}\n", 2, "is no name of a variable"),
    ("set to a truth", "environment:\n  set:\n    A: true\n", 3, "not true or false"),
    ("set to nothing", "environment:\n  set:\n    A:\n    B: x\n", 3, "not empty"),
    ("set to a list", "environment:\n  set: {A: [x]}\n", 2, "not a list"),
    ("set to NUL", 'environment:\n  set: {A: "x\\0y"}\n', 2, "an escape for a character that no text has"),
    ("set to a lone surrogate", 'environment:\n  set: {A: "\\ud800"}\n', 2, "an escape for a character"),
    ("empty label", "push:\n  label: ''\n", 2, "is an empty text"),
    ("label of two lines", 'push:\n  label: "a\\nb"\n', 2, "a line break"),
    ("long label", f"push:\n  label: {'x' * (MAX_LABEL + 1)}\n", 2, "more than 60 characters"),
    ("workspaces is a list", "workspaces: [default]\n", 1, "must be a mapping, not a list"),
    ("workspace is a list", "workspaces:\n  default: []\n", 2, "workspaces.default must be a mapping"),
    ("workspace of no name", "workspaces:\n  a/b: {}\n", 2, "is no name of a workspace"),
    ("unknown key of a workspace", "workspaces:\n  default: {repos: []}\n", 2, "in workspaces.default"),
    (
        "no repository",
        "workspaces:\n  default: {repositories: [x]}\n",
        2,
        "is no repository: write owner/name",
    ),
    ("two dots", "workspaces:\n  default: {repositories: [o/..]}\n", 2, "is no repository: write owner/name"),
    ("an address", "workspaces:\n  default: {repositories: ['https://h/o/n']}\n", 2, "is no repository"),
    (
        "relative checkout",
        "workspaces:\n  default: {checkouts: [x]}\n",
        2,
        "workspaces.default.checkouts is a relative",
    ),
    ("rules is a mapping", "rules: {}\n", 1, "must be a list, not a mapping"),
    ("relative rules file", "managed_rules_file: rules.yaml\n", 1, "is a relative path"),
    ("no timeout", "approvals: {timeout: 0}\n", 1, "from 1 to 86400, not 0"),
    ("timeout with a unit", "approvals: {timeout: 5m}\n", 1, "must be a whole number"),
    ("command is a number", "approvals: {command: 1}\n", 1, "must be text"),
    ("command in the working directory", "approvals: {command: ./ask}\n", 1, "is a relative path"),
    ("command on PATH, with arguments", "approvals:\n  command: [ask, -y]\n", 2, "is a relative path"),
    ("command is an empty list", "approvals:\n  command: []\n", 2, "is an empty list"),
    ("relative log directory", "audit: {directory: log}\n", 1, "is a relative path"),
    ("log directory is a number", "audit: {directory: 1}\n", 1, "must be text"),
    ("no size", "audit: {max_file_mb: 0}\n", 1, "from 1 to 100000, not 0"),
    ("negative days", "audit: {keep_days: -1}\n", 1, "from 1 to 36500, not -1"),
    ("listen without port", "operator: {listen: 127.0.0.1}\n", 1, "is no loopback address with a port"),
    ("listen everywhere", "operator: {listen: '0.0.0.0:80'}\n", 1, "is no loopback address with a port"),
    ("listen on a name", "operator: {listen: 'localhost:80'}\n", 1, "is no loopback address with a port"),
    ("listen on port 0", "operator: {listen: '127.0.0.1:0'}\n", 1, "is no loopback address with a port"),
)

NOT_YET = (
    ("worktree", "worktree: cow\n", 1, "this version offers in-place"),
    ("worktree", "\nworktree: git\n", 2, "this version offers in-place"),
    ("operator.listen", "operator:\n  token_file: /t\n  listen: '127.0.0.1:80'\n", 3, "write null"),
)

QUIET = (
    "{}",
    "sandbox: off",
    "worktree: in-place\nfile_rules: existing-only\nbridge: handover",
    "bridge: socat",
    "file_rules: create-time",
    "bridge: socat",
    "files: {deny_write: ['*.secret', ~/x, '*/deploy/*.tf'], allow_write: [/srv/a.key], deny_read: ['~/private']}",
    "environment: {pass: [EDITOR, _x1], set: {LANG: C.UTF-8}}",
    "workspaces: {}",
    "workspaces: {default: {}}",
    "workspaces: {default: {repositories: [], checkouts: []}}",
    "workspaces: {default: {checkouts: [/srv/x, ~/src/y]}, team: {repositories: [o/n], checkouts: [/srv/x]}}",
    "workspaces: {default: {repositories: [acme/widget, acme/docs.git]}, team: {repositories: [o/n]}, other: {}}",
    "rules: []",
    "approvals: {timeout: 1, command: null}",
    "approvals: {command: ~/bin/ask}",
    "approvals: {command: [/usr/bin/ask, -y]}",
    "managed_rules_file: ~",
    "github: {app_id: null, private_key_file: null}",
    "audit: {directory: ~/log, max_file_mb: 1, keep_days: 1}",
    "operator: {listen: null, token_file: null}",
    "--- # a start, and an end\nsandbox: on\n...\n",
    "%YAML 1.2\n---\nsandbox: on\n",
    "files: {deny_write: &same ['*.x'], deny_read: *same}",
    '"sandbox": "on"',
)


@pytest.mark.parametrize(
    ("content", "line", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_value_is_refused_with_its_line(tmp_path: Path, content: str, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


@pytest.mark.parametrize(("key", "content", "line", "fragment"), NOT_YET)
def test_what_does_not_exist_yet_is_an_error(
    tmp_path: Path, key: str, content: str, line: int, fragment: str
) -> None:
    assert_refused(tmp_path, content, line, ": not available in this version: ")
    assert_refused(tmp_path, content, line, fragment)
    assert fnmatchcase(problems(tmp_path, content)[0].message, f"{key}: *")


def test_every_row_of_what_is_unavailable_is_tested() -> None:
    assert {key for key, *_ in NOT_YET} == {key for key, _ in UNAVAILABLE}


@pytest.mark.parametrize("content", QUIET)
def test_valid_content_has_no_problem(tmp_path: Path, content: str) -> None:
    assert problems(tmp_path, content) == ()
    load(tmp_path, content)


def test_values_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/test")
    config = load(
        tmp_path,
        """\
sandbox: off
files: {deny_write: ["*.secret"], allow_write: [a b], deny_read: [~/x]}
environment: {pass: [EDITOR], set: {A: "x\\ny", B: 007, C: 1.50, D: ""}}
push: {label: "Überwachung"}
approvals: {timeout: 5}
audit: {directory: ~/log, max_file_mb: 3, keep_days: 4}
""",
    )
    assert config.sandbox is False
    assert (config.files.deny_write, config.files.allow_write, config.files.deny_read) == (
        ("*.secret",),
        ("a b",),
        ("~/x",),
    )
    assert config.environment.pass_ == ("EDITOR",)
    assert config.environment.set_ == {"A": "x\ny", "B": "007", "C": "1.50", "D": ""}
    assert config.push.label == "Überwachung"
    assert config.approvals.timeout == 5
    assert (config.audit.directory, config.audit.max_file_mb, config.audit.keep_days) == (
        Path("/home/of/test/log"),
        3,
        4,
    )


def test_repositories_of_workspaces_arrive(tmp_path: Path) -> None:
    content = (
        "workspaces:\n  default: {repositories: [Acme/Widget.git]}\n  team: {repositories: [o/n, o/m]}\n"
    )
    assert load(tmp_path, content).workspaces == {
        "default": Workspace((RepositoryName("acme", "widget"),)),
        "team": Workspace((RepositoryName("o", "n"), RepositoryName("o", "m"))),
    }
    twice = "workspaces:\n  default: {repositories: [o/n, O/N.git]}\n"
    assert_warned(tmp_path, twice, 2, "workspaces.default.repositories: O/N stands there twice")


def test_warnings(tmp_path: Path) -> None:
    assert_warned(tmp_path, "environment:\n  pass: [A]\n  set:\n    A: x\n", 4, "A is passed as well")
    assert_warned(tmp_path, "operator:\n  token_file: /t\n", 2, "has no effect without operator.listen")


def test_listening_needs_a_token() -> None:
    reading = Reading("config.yaml", "config.yaml")
    operator = MappingNode(2, ((ScalarNode(2, "listen"), ScalarNode(2, "127.0.0.1:80")),))
    read_config(MappingNode(1, ((ScalarNode(1, "operator"), operator),)), reading, NOW, unavailable=())
    assert [str(problem) for problem in reading.problems] == [
        "config.yaml:2: operator.listen needs operator.token_file: write its path as well"
    ]


def test_what_is_unavailable_is_read_all_the_same() -> None:
    reading = Reading("config.yaml", "config.yaml")

    def mapping(**values: MappingNode | SequenceNode | ScalarNode) -> MappingNode:
        return MappingNode(1, tuple((ScalarNode(1, key), value) for key, value in values.items()))

    def texts(*items: str) -> SequenceNode:
        return SequenceNode(1, tuple(ScalarNode(1, item) for item in items))

    root = mapping(
        worktree=ScalarNode(1, "cow"),
        workspaces=mapping(team=mapping(checkouts=texts("/srv/x"))),
        approvals=mapping(command=texts("/bin/x", "-y")),
        operator=mapping(listen=ScalarNode(1, "127.0.0.1:80"), token_file=ScalarNode(1, "/t")),
    )
    config = read_config(root, reading, NOW, unavailable=())
    assert reading.problems == ()
    assert str(config.worktree) == "cow"
    assert config.workspaces == {"default": Workspace(), "team": Workspace((), (Path("/srv/x"),))}
    assert config.approvals.command == ("/bin/x", "-y")
    assert (config.operator.listen, config.operator.token_file) == ("127.0.0.1:80", Path("/t"))
    single = read_config(
        mapping(approvals=mapping(command=ScalarNode(1, "/bin/x"))), reading, NOW, unavailable=()
    )
    assert single.approvals.command == ("/bin/x",)
    assert read_config(mapping(), reading, NOW) == Config()
