"""The laws of the house that a machine can check: the tables first, then the tests that apply them.

A law is changed here, with a line in ARCHITECTURE.md that says why; never by an exception inside a module.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_tree import (
    ROOT,
    Module,
    dotted,
    imports,
    is_ours,
    module_of,
    modules,
    within,
)

# --- Who may import what --------------------------------------------------------------------------

POLICY = ("gateway.policy",)
CORE = (
    "gateway.session",
    "gateway.audit",
    "gateway.disk",
    "gateway.errors",
    "gateway.metrics",
    "gateway.allowlists",
    *POLICY,
)
# What every process that serves does for itself, whatever it serves.
PROCESS = ("gateway.talk", "gateway.garbage", "gateway.log_sync")
MIDDLE = (
    "gateway.lifecycle",
    "gateway.authorizer",
    "gateway.push_authorizer",
    "gateway.action_authorizer",
    "gateway.approvals",
    "gateway.approver_command",
    "gateway.review",
    "gateway.config",
)
EVERYTHING = ("gateway", "sandbox")
# Module -> what it may import of this project. A row speaks for the modules below it too; the longest wins.
# Modules below a row may import each other where the row names itself. No row: the test asks for one.
IMPORTS: dict[str, tuple[str, ...]] = {
    "gateway.__main__": ("gateway.cli",),
    "gateway.cli": EVERYTHING,
    "gateway.run": EVERYTHING,
    "gateway.plan": EVERYTHING,
    "gateway.foreground": EVERYTHING,
    "gateway.profile": EVERYTHING,
    "gateway.wrap_spec": EVERYTHING,
    "gateway.as_written": EVERYTHING,
    "gateway.hooking": EVERYTHING,
    "gateway.action_half": EVERYTHING,
    "gateway.hook": ("sandbox.hook",),
    "gateway.places": ("gateway.config", "gateway.directories", *CORE, "sandbox"),
    "gateway.directories": ("gateway.errors",),
    "gateway.options": ("gateway.config", *CORE, "sandbox"),
    "gateway.arguments": ("gateway.parser", "gateway.review_arguments"),
    "gateway.review_arguments": ("gateway.parser",),
    "gateway.parser": POLICY,
    "gateway.review_command": ("gateway.places", "gateway.review", *CORE),
    "gateway.demo": ("gateway",),
    "gateway.demo_push": ("gateway",),
    "gateway.github_half": ("gateway",),
    "gateway.demo_agent": (),
    "gateway.serve": ("gateway",),
    "gateway.proxy": ("gateway.proxy", *PROCESS, *MIDDLE, *CORE),
    "gateway.push": ("gateway.push", "gateway.credentials", *MIDDLE, *CORE),
    "gateway.api": ("gateway.api", *MIDDLE, *CORE),
    "gateway.mcp": ("gateway.mcp", *MIDDLE, *CORE),
    "gateway.check": (*MIDDLE, *CORE),
    "gateway.check_command": EVERYTHING,
    "gateway.closing": (*MIDDLE, *CORE),
    "gateway.self_test": EVERYTHING,
    "gateway.prober": ("sandbox.mounts",),
    "gateway.opening": EVERYTHING,
    "gateway.ending": EVERYTHING,
    "gateway.metrics": (),
    "gateway.signals": ("gateway.children",),
    "gateway.children": (),
    "gateway.scarcity": (),
    "gateway.terminal": CORE,
    "gateway.violations": ("sandbox.events",),
    "gateway.talk": POLICY,
    "gateway.garbage": (),
    "gateway.log_sync": CORE,
    "gateway.disk": (),
    "gateway.lifecycle": CORE,
    "gateway.authorizer": CORE,
    "gateway.push_authorizer": ("gateway.approvals", *CORE),
    "gateway.action_authorizer": ("gateway.approvals", *CORE),
    "gateway.approvals": CORE,
    "gateway.operator_socket": ("gateway.directories", "gateway.errors"),
    "gateway.operator_half": ("gateway",),
    "gateway.approvals_command": (
        "gateway.operator_socket",
        "gateway.question_text",
        "gateway.typed_answers",
        *CORE,
    ),
    "gateway.typed_answers": (),
    "gateway.question_text": POLICY,
    "gateway.approver_command": ("gateway.approvals", *CORE),
    "gateway.review": ("gateway.review", *CORE),
    "gateway.config": ("gateway.config", *CORE),
    "gateway.credentials": ("gateway.credentials", *CORE),
    "gateway.forge": ("gateway.forge", "gateway.errors"),
    "gateway.session": CORE,
    "gateway.audit": CORE,
    "gateway.errors": POLICY,
    # It looks at everything, and nothing but `cli` looks at it: so it is no part of the core.
    "gateway.doctor": EVERYTHING,
    "gateway.allowlists": CORE,
    "gateway.policy": POLICY,
    "sandbox": ("sandbox", "gateway.policy", "gateway.session", "gateway.errors"),
    "allowlists": (),
}
# Beats the table above.
NEVER: tuple[tuple[str, str], ...] = (
    ("sandbox", "gateway.policy.shell"),
    ("gateway.serve", "gateway.cli"),
    ("gateway.run", "gateway.cli"),
)

# Third party -> the only places that import it. One that is missing here is imported nowhere.
HOMES: dict[str, tuple[str, ...]] = {
    "mitmproxy": ("gateway.proxy",),
    "dulwich": ("gateway.push",),
    "tornado": ("gateway.push", "gateway.api", "gateway.forge"),
    "httpx": ("gateway.credentials", "gateway.push"),
    "jwt": ("gateway.credentials", "gateway.forge"),
    "cryptography": ("gateway.credentials", "gateway.audit", "gateway.forge"),
    "ruamel": ("gateway.config.loading",),
    "tree_sitter": ("gateway.policy.shell",),
    "tree_sitter_bash": ("gateway.policy.shell",),
    "duckdb": ("gateway.review",),
    "mcp": ("gateway.mcp",),
}

# --- Purity of policy -----------------------------------------------------------------------------

# All of the standard library that policy may use: nothing that reads, waits, draws lots or writes.
# fmt: off
PURE_MODULES = frozenset({
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "collections.abc", "dataclasses",
    "enum", "functools", "hashlib", "ipaddress", "itertools", "json", "math", "operator", "re", "shlex",
    "string", "struct", "types", "typing", "unicodedata", "urllib.parse",
})
# fmt: on
# A datetime is a value; only its makers look at the clock, and those are impure calls.
PURE_NAMES = frozenset(
    {
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "fnmatch.fnmatchcase",
        "fnmatch.translate",
        "datetime.datetime",
    }
)
# fmt: off
IMPURE_CALLS = frozenset({
    "open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__",
    "datetime.now", "datetime.utcnow", "datetime.today",
})
# fmt: on

# --- Words and places -----------------------------------------------------------------------------

PRINTERS = frozenset({"gateway.cli", "gateway.run", "gateway.demo"})
# Programs: what the shell or the wrap starts. Anywhere else, arguments and environment are parameters.
PROGRAMS = frozenset({
    "gateway.cli", "gateway.__main__", "gateway.forge.update_rules", "gateway.proxy.worker",
    "sandbox.seatbelt.enter", "sandbox.supervisor.program",
    "sandbox.egress_probe", "sandbox.stub", "sandbox.connect", "sandbox.credential", "sandbox.hook", "sandbox.keeper",
})  # fmt: skip
PROCESS_STATE = frozenset({"os.environ", "os.getenv", "os.environb", "os.putenv", "sys.argv", "sys.exit"})
# Module -> functions that may catch everything: the door, and the tops of threads and tasks.
CATCHERS: dict[str, frozenset[str]] = {
    "gateway.approvals": frozenset({"Approvals._tell", "Approvals._close"}),
    "gateway.doctor.examination": frozenset({"_Running._run"}),
    "gateway.authorizer": frozenset({"Authorizer.authorize", "Authorizer.authorize_addresses"}),
    "gateway.push.receiver": frozenset({"Reception.run"}),
    "gateway.push_authorizer": frozenset({"PushAuthorizer.judge"}),
    "gateway.action_authorizer": frozenset({"ActionAuthorizer._judge"}),
    "sandbox.hook": frozenset({"main"}),
    "gateway.proxy.connection": frozenset({"Connection.disconnect"}),
    "gateway.proxy.listener": frozenset({"_serve"}),
    "gateway.proxy.reactor": frozenset({"Reactor.select"}),
    "sandbox.supervisor.loop": frozenset({"Loop.handle"}),
}
NAMES_THAT_SAY_NOTHING = re.compile(
    r"(^|_)(util|utils|helper|helpers|manager|common|processor|engine|service)(_|$)"
)
MODULE_LINES = 400


def row(name: str) -> str | None:
    """The row of IMPORTS that speaks for a module."""
    return max((key for key in IMPORTS if within(name, key)), key=len, default=None)


def law_allows(importer: str, target: str) -> bool:
    """May this module of ours import that one?"""
    key = row(importer)
    if key is None or any(within(importer, who) and within(target, what) for who, what in NEVER):
        return False
    # gateway/__init__.py holds a docstring: naming it is no dependency.
    return target == "gateway" or any(within(target, prefix) for prefix in IMPORTS[key])


def third_parties(start: str, at_top_only: bool) -> dict[str, str]:
    """Third parties that importing a module brings along, each with the place that imports it."""
    seen: set[str] = set()
    queue, found = [start], {}
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        queue.extend(parent for parent in (name.rpartition(".")[0],) if parent in modules())
        for item in imports(modules()[name]):
            if at_top_only and not item.at_top:
                continue
            target = module_of(item.target)
            if target:
                queue.append(target)
            elif item.target.partition(".")[0] not in sys.stdlib_module_names:
                found[item.target.partition(".")[0]] = modules()[name].at(item.line)
    return found


every_module = pytest.mark.parametrize("module", modules().values(), ids=modules().keys())


# --- Imports --------------------------------------------------------------------------------------


@every_module
def test_imports_follow_the_table(module: Module) -> None:
    assert module.is_package or row(module.name), f"{module.name} has no row in IMPORTS"
    broken = [
        f"{module.at(item.line)}: {module.name} may not import {item.target}"
        for item in imports(module)
        if is_ours(item.target) and not law_allows(module.name, item.target)
    ]
    assert not broken, "\n".join(broken)


@every_module
def test_third_parties_stay_at_home(module: Module) -> None:
    strays = []
    for item in imports(module):
        package = item.target.partition(".")[0]
        if is_ours(item.target) or package in sys.stdlib_module_names:
            continue
        if not any(within(module.name, home) for home in HOMES.get(package, ())):
            strays.append(f"{module.at(item.line)}: {package} lives in {HOMES.get(package, 'no module')}")
    assert not strays, "\n".join(strays)


@every_module
def test_no_import_escapes_the_table(module: Module) -> None:
    """An import the table cannot see is no import."""
    hidden = [
        module.at(node.lineno)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and dotted(node.func) in {"__import__", "importlib.import_module", "import_module"}
    ]
    assert not hidden


@pytest.mark.parametrize("name", [name for name in modules() if within(name, "sandbox")])
def test_sandbox_runs_on_the_standard_library(name: str) -> None:
    """Not even by way of the modules it may import: the launcher starts in milliseconds."""
    assert third_parties(name, at_top_only=False) == {}


@pytest.mark.parametrize("name", [name for name in modules() if name in {"gateway.cli", "gateway.__main__"}])
def test_command_line_imports_lazily(name: str) -> None:
    assert third_parties(name, at_top_only=True) == {}


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("gateway.cli", "gateway.proxy.listener", True),
        ("gateway.cli", "sandbox.launch", True),
        ("gateway.run", "sandbox.launch", True),
        ("gateway.run", "gateway.cli", False),
        ("gateway.serve", "gateway.api.operator", True),
        ("gateway.serve", "sandbox.launch", False),
        ("gateway.proxy.listener", "gateway.proxy.relay", True),
        ("gateway.proxy.listener", "gateway.authorizer", True),
        ("gateway.proxy.listener", "gateway.api.agent", False),
        ("gateway.proxy.listener", "sandbox.spec", False),
        ("gateway.push.server", "gateway.credentials.broker", True),
        ("gateway.proxy.listener", "gateway.credentials.broker", False),
        ("gateway.lifecycle", "gateway.authorizer", False),
        ("gateway.session", "gateway.policy.egress", True),
        ("gateway.session", "gateway.lifecycle", False),
        ("gateway.policy.hosts", "gateway.policy.problem", True),
        ("gateway.policy.hosts", "gateway.errors", False),
        ("gateway.policyholder", "gateway.policy.hosts", False),
        ("sandbox.env", "gateway.session", True),
        ("sandbox.env", "gateway.config", False),
        ("sandbox.env", "gateway.policy.shell", False),
        ("sandbox.env", "tests.fakes", False),
    ],
)
def test_table_means_what_the_house_says(importer: str, target: str, allowed: bool) -> None:
    assert law_allows(importer, target) is allowed


# --- Purity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in modules() if within(name, "gateway.policy")])
def test_policy_is_pure(name: str) -> None:
    module = modules()[name]
    faults = []
    for item in imports(module):
        source = item.target.rpartition(".")[0]
        home = any(within(name, place) for place in HOMES.get(item.target.partition(".")[0], ()))
        if not (
            is_ours(item.target) or home or {item.target, source} & PURE_MODULES or item.target in PURE_NAMES
        ):
            faults.append(f"{module.at(item.line)}: imports {item.target}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and dotted(node.func) in IMPURE_CALLS:
            faults.append(f"{module.at(node.lineno)}: calls {dotted(node.func)}()")
        if isinstance(node, ast.Global):
            faults.append(f"{module.at(node.lineno)}: keeps state in a global")
    assert not faults, "\n".join(faults)


# --- Words and places -----------------------------------------------------------------------------


@every_module
def test_module_says_what_it_is(module: Module) -> None:
    assert ast.get_docstring(module.tree), f"{module.at(1)}: no docstring"
    assert not NAMES_THAT_SAY_NOTHING.search(module.path.stem), f"{module.path.stem} says nothing"


@every_module
def test_module_is_short(module: Module) -> None:
    assert len(module.path.read_text("utf-8").splitlines()) <= MODULE_LINES, f"{module.name}: divide it"


@every_module
def test_module_has_its_test_file(module: Module) -> None:
    """gateway/policy/x.py has tests/policy/test_x.py; sandbox/x.py has tests/sandbox/test_x.py."""
    if module.path.name in {"__init__.py", "__main__.py"}:
        return
    place = module.path.relative_to(ROOT)
    folders = place.parent.parts[1:] if place.parts[0] == "gateway" else place.parent.parts
    expected = Path("tests", *folders, f"test_{place.name}")
    assert (ROOT / expected).is_file(), f"{place} has no {expected}"


@every_module
def test_only_the_command_line_prints(module: Module) -> None:
    if module.name not in PRINTERS:
        assert not [
            module.at(node.lineno)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and dotted(node.func) == "print"
        ]


@every_module
def test_only_programs_touch_arguments_and_environment(module: Module) -> None:
    if module.name not in PROGRAMS:
        assert not [
            f"{module.at(node.lineno)}: {dotted(node)}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute) and dotted(node) in PROCESS_STATE
        ]


def broad_handlers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Function ("Class.method") and line of each handler that catches everything and keeps it."""

    def walk(node: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ExceptHandler) and is_broad(child):
                yield ".".join(path), child.lineno
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from walk(child, (*path, child.name))
            else:
                yield from walk(child, path)

    def is_broad(handler: ast.ExceptHandler) -> bool:
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        broad = any(item is None or dotted(item) in {"Exception", "BaseException"} for item in caught)
        last = handler.body[-1]
        return broad and not (isinstance(last, ast.Raise) and last.exc is None)

    yield from walk(tree, ())


@every_module
def test_only_door_and_tops_catch_everything(module: Module) -> None:
    allowed = CATCHERS.get(module.name, frozenset())
    caught = list(broad_handlers(module.tree))
    stray = [
        f"{module.at(line)}: {function or 'module'}" for function, line in caught if function not in allowed
    ]
    assert not stray, f"catch what you expect, or add the top to CATCHERS: {stray}"
    assert allowed <= {function for function, _ in caught}, f"CATCHERS names what {module.name} no longer has"
