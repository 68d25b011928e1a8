"""Reads the source tree for the tests that hold it to the laws of the house."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target: a module of this project, or the dotted name as written."""

    target: str
    line: int
    at_top: bool


@dataclass(frozen=True, slots=True)
class Module:
    """A source file of the product."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def modules() -> dict[str, Module]:
    found = {}
    for folder in ("gateway", "sandbox", "allowlists"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, ast.parse(path.read_text("utf-8"), str(path)))
    return found


def within(name: str, prefix: str) -> bool:
    """True for the prefix itself and what lies below it; "a.b_*" means every module of that beginning."""
    if prefix.endswith("*"):
        return name.startswith(prefix[:-1])
    return name == prefix or name.startswith(prefix + ".")


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in {"gateway", "sandbox", "allowlists", "tests"}


def imports(module: Module) -> Iterator[Import]:
    """Every import of a module, those inside functions and under TYPE_CHECKING too."""
    top = set(module.tree.body)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, node in top)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                base = module.name.split(".")
                base = base[: len(base) - node.level + module.is_package]
                source = ".".join([*base, source] if source else base)
            for alias in node.names:
                below = f"{source}.{alias.name}"
                target = source if is_ours(source) and below not in modules() else below
                yield Import(target, node.lineno, node in top)


def module_of(dotted: str) -> str | None:
    """The module of ours that a dotted import lands in."""
    while dotted and dotted not in modules():
        dotted = dotted.rpartition(".")[0]
    return dotted or None


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            head = dotted(value)
            return f"{head}.{attribute}" if head else ""
        case _:
            return ""


def repository_files() -> Iterator[Path]:
    """The files somebody wrote: no hidden folder but .ci, no caches, nothing built."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") for part in parts[:-1] if part != ".ci")
        built = any(part in {"__pycache__", "build", "dist"} or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden and not built:
            yield path


def sources_of_tests() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield path, ast.parse(path.read_text("utf-8"), str(path))


def texts() -> Iterator[tuple[Path, str]]:
    for path in repository_files():
        try:
            yield path.relative_to(ROOT), path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
