"""Coding agents and the tools of a project work in a wrapped run, the way their user starts them."""

import json
import os
import shutil
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fakes.product import PYTHON, Done, Product, Running

# --- Agents ---------------------------------------------------------------------------------------


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


# An agent as a shell script: says what it finds in its directory, writes what agents write, tries what they may not.
AGENT = """#!/bin/sh
own=${VARIABLE:-$HOME/OWN}
echo "own $own"
cat "$own/LOGIN" 2>/dev/null || echo "no login"
echo "; found"
ls -A "$own"
echo note >> "$own/notes" && wc -l < "$own/notes"
for name in SEALED; do
    (echo evil > "$own/$name") 2>/dev/null && echo "wrote $name"
    (echo evil > "$own/$name/new") 2>/dev/null && echo "wrote $name/new"
    (echo evil > "$own/draft" && mv -f "$own/draft" "$own/$name") 2>/dev/null && echo "moved over $name"
    rm -rf "$own/$name" 2>/dev/null && echo "removed $name"
    mv "$own/$name" "$own/aside" 2>/dev/null && echo "moved $name"
done
rm -rf "$own/draft" "$own/aside"
ls -d "$USER_HOME"/OWN/LOGIN "$USER_HOME"/.ssh 2>/dev/null
true
"""

# Name: the package, the variable, the own directory, the login, what is sealed, and what has to be there at the start.
AGENTS = {
    "claude": (
        "@anthropic-ai/claude-code", "CLAUDE_CONFIG_DIR", ".claude", ".credentials.json",
        ("settings.json", "settings.local.json", "hooks", "commands", "agents"),
    ),
    "codex": ("@openai/codex", "CODEX_HOME", ".codex", "auth.json", ("config.toml", "hooks.json", "rules", "prompts")),
    "gemini": (
        "@google/gemini-cli", "GEMINI_CLI_HOME", "", ".gemini/oauth_creds.json",
        (".gemini/settings.json", ".gemini/commands", ".gemini/policies", ".gemini/extensions"),
    ),
}  # fmt: skip


def program(name: str) -> str:
    """The text of a stand-in for an agent."""
    _, variable, own, login, sealed = AGENTS[name]
    text = AGENT.replace("VARIABLE", variable).replace("OWN", own).replace("LOGIN", login)
    return text.replace("SEALED", " ".join(sealed))


def log_in(home: Path, name: str) -> Path:
    """The user's own directory of an agent, logged in; its path."""
    own = home / AGENTS[name][2]
    write(own / AGENTS[name][3], '{"claudeAiOauth": {"accessToken": "the login"}}', 0o600)
    write(home / ".ssh/id_ed25519", "the key", 0o600)
    return own


# --- How agents are installed: takes the home and the agent's name, returns what goes in front of PATH. ---


def with_npm(home: Path, name: str) -> str:
    """`npm install -g` into a prefix of the user's own."""
    package = AGENTS[name][0]
    write(home / f".npm-global/lib/node_modules/{package}/bin/cli", program(name), 0o755)
    (home / ".npm-global/bin").mkdir()
    (home / f".npm-global/bin/{name}").symlink_to(f"../lib/node_modules/{package}/bin/cli")
    return str(home / ".npm-global/bin")


def with_its_installer(home: Path, name: str) -> str:
    """A file for each version, and a link to the newest."""
    write(home / f".local/share/{name}/versions/2.0.1", program(name), 0o755)
    (home / ".local/bin").mkdir(parents=True)
    (home / f".local/bin/{name}").symlink_to(home / f".local/share/{name}/versions/2.0.1")
    return str(home / ".local/bin")


def installed(product: Product, name: str, install: object = with_npm) -> Path:
    """Installs an agent and logs its user in; the user's own directory."""
    assert callable(install)
    product.violates = True  # it tries what it may not
    own = log_in(product.home, name)
    product.environment["PATH"] = f"{install(product.home, name)}:{product.environment['PATH']}"
    return own


def listed(done: Done) -> tuple[str, list[str], list[str]]:
    """The agent's directory, what it found (its login, then names), what it could do."""
    assert done.status == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    count = next(place for place, line in enumerate(rest) if line.strip().isdigit())
    login, names = "\n".join([*rest[:count], ""]).split("; found\n")
    return first.removeprefix("own "), [login, *names.splitlines()], rest[count:]


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("install", [with_npm, with_its_installer])
def test_agent_has_its_login_and_not_its_settings(wrapped: Product, name: str, install: object) -> None:
    own = installed(wrapped, name, install)
    before = snapshot(own)
    options = ("--env", f"USER_HOME={wrapped.home}")
    folder, found, did = listed(wrapped.run(name, options=options))
    assert folder.startswith(f"{wrapped.folder}/state/agent-gateway/workspaces/default/worktrees/work-")
    assert folder.endswith(f"/agents/{name}")
    assert "the login" in found[0]
    assert did == ["1"]
    # The second run goes on where the first one was, also in the modes that write nothing else.
    again, found_again, did_again = listed(wrapped.run(name, options=(*options, "--mode", "review")))
    assert (again, sorted(found_again), did_again) == (folder, sorted([*found, "notes"]), ["2"])
    assert snapshot(own) == before


def test_another_command_sees_nothing_of_it(wrapped: Product) -> None:
    installed(wrapped, "claude")
    folder, *_ = listed(wrapped.run("claude"))
    assert os.path.exists(folder)
    script = f'ls -d {folder} {wrapped.home}/.claude 2>/dev/null; echo "${{CLAUDE_CONFIG_DIR:-none}}"'
    assert wrapped.run("sh", "-c", script).lines == ["none"]


def test_login_of_another_workspace(wrapped: Product) -> None:
    """Each has a directory of its own; what was logged in later is not copied again."""
    own = installed(wrapped, "claude")
    first, *_ = listed(wrapped.run("claude"))
    write(own / ".credentials.json", '{"claudeAiOauth": {"accessToken": "a new one"}}')
    assert "the login" in listed(wrapped.run("claude"))[1][0]
    other, found, _ = listed(wrapped.run("claude", options=("--workspace", "other")))
    assert other == f"{wrapped.folder}/state/agent-gateway/workspaces/other/agents/claude"
    assert first != other
    assert "a new one" in found[0]


def test_user_who_shows_their_own_directory(wrapped: Product) -> None:
    own = installed(wrapped, "claude")
    done = wrapped.run("claude", options=("--state-dir", str(own), "--env", f"CLAUDE_CONFIG_DIR={own}"))
    folder, found, _ = listed(done)
    assert (folder, "the login" in found[0]) == (str(own), True)


def test_agent_without_a_wrap(tmp_path: Path) -> None:
    """The home is the user's own there, and nothing is copied."""
    product = Product(tmp_path / "machine", "off")
    own = installed(product, "claude")
    (own / "settings.json").unlink(missing_ok=True)
    script = 'echo "${CLAUDE_CONFIG_DIR:-$HOME/.claude}"'
    write(
        product.home / ".npm-global/lib/node_modules/@anthropic-ai/claude-code/bin/cli",
        f"#!/bin/sh\n{script}\n",
        0o755,
    )
    assert product.run("claude").lines == [str(own)]
    assert not (tmp_path / "machine/state/agent-gateway/workspaces").exists()


# --- Projects -------------------------------------------------------------------------------------


def node_project(work: Path) -> None:
    """A project whose scripts use a program of a package that it depends on."""
    package = {"name": "greeter", "version": "1.0.0", "bin": {"greet": "cli.js"}}
    write(work / "vendor/greeter/package.json", json.dumps(package))
    write(
        work / "vendor/greeter/cli.js", "#!/usr/bin/env node\nconsole.log(require('./words').text)\n", 0o755
    )
    write(work / "vendor/greeter/words.js", "exports.text = 'hello from a bin link';\n")
    write(work / "vendor/greeter/cacert.pem", "not a secret\n")
    project = {
        "name": "project",
        "version": "1.0.0",
        "scripts": {"test": "greet && node --test", "build": "node build.js"},
        "dependencies": {"greeter": "file:vendor/greeter"},
    }
    write(work / "package.json", json.dumps(project))
    write(work / "build.js", "require('fs').writeFileSync('built.txt', 'built')\n")
    write(work / "a.test.js", "require('node:test')('adds', () => { if (1 + 1 !== 2) throw 1 })\n")


NPM = shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin")


@pytest.mark.parametrize("npm", [NPM] if NPM else [])
def test_node_project(wrapped: Product, npm: str) -> None:
    node_project(wrapped.work)
    script = f"""
    {npm} install --install-links --no-audit --no-fund --silent && {npm} test --silent && {npm} run build --silent
    cat built.txt; echo; ls -l node_modules/.bin/greet | cut -c1; {npm} exec --offline greet
    {npm} config get cache"""
    done = wrapped.run("sh", "-c", script)
    lines = done.lines
    assert lines[0] == "hello from a bin link"
    assert any(line.endswith("pass 1") for line in lines)
    home = next((wrapped.folder / "state/agent-gateway/workspaces/default/worktrees").glob("work-*/home"))
    assert lines[-4:] == ["built", "l", "hello from a bin link", f"{home}/.npm"]
    assert (wrapped.work / "node_modules/greeter/cacert.pem").read_text() == "not a secret\n"
    assert (home / ".npm/_cacache").is_dir()


def test_python_project(wrapped: Product) -> None:
    """`.venv/bin/pytest` of the project, whose interpreter lies elsewhere."""
    venv.create(wrapped.work / ".venv", symlinks=True)
    site = wrapped.work / f".venv/lib/python{sysconfig.get_python_version()}/site-packages"
    for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        if found.submodule_search_locations:
            shutil.copytree(
                Path(found.origin).parent, site / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(found.origin, site)
    entry = f"#!{wrapped.work}/.venv/bin/python\nimport sys\nfrom pytest import main\nsys.exit(main())\n"
    write(wrapped.work / ".venv/bin/pytest", entry, 0o755)
    test = "import sys\ndef test(tmp_path):\n    (tmp_path / 'x').touch()\n    assert sys.prefix.endswith('.venv')\n"
    write(wrapped.work / "test_project.py", test)
    done = wrapped.run(".venv/bin/pytest", "-q", "-p", "no:cacheprovider")
    assert done.status == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_commit(wrapped: Product) -> None:
    write(wrapped.work / "README", "text\n")
    identity = "-c user.name=A -c user.email=a@b.test"
    script = (
        f"git add README && git {identity} commit -q -m inside && git log --format=%s && git status --short"
    )
    assert wrapped.run("sh", "-c", script).lines == ["inside"]


# --- The home and its caches ----------------------------------------------------------------------

# What users set to keep caches elsewhere; inside, all of them are below the private home.
CACHE_VARIABLES = (
    "CARGO_HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "YARN_CACHE_FOLDER", "PNPM_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR",
    "npm_config_cache", "NPM_CONFIG_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "PIPX_HOME",
)  # fmt: skip
CACHES = (
    ".npm", ".cache/pip", ".cache/uv", ".cache/yarn", ".cache/go-build", "go/pkg/mod", ".cargo/registry",
    ".local/share/pnpm",
)  # fmt: skip


def test_caches_are_the_workspaces_own(wrapped: Product) -> None:
    wrapped.environment |= {name: f"{wrapped.home}/caches/{name}" for name in CACHE_VARIABLES}
    wrapped.environment["XDG_CONFIG_HOME"] = str(wrapped.folder / "config")
    names = " ".join(CACHE_VARIABLES)
    script = f'for name in {names}; do printenv $name && echo "$name is set"; done; cd; pwd'
    (home,) = wrapped.run("sh", "-c", script).lines
    fill = f"cd; mkdir -p {' '.join(CACHES)} && for name in {' '.join(CACHES)}; do touch $name/kept; done"
    look = f"cd; ls {' '.join(f'{name}/kept' for name in CACHES)} 2>/dev/null | wc -l; pwd"
    assert wrapped.run("sh", "-c", fill).lines == []
    assert wrapped.run("sh", "-c", look).lines == [str(len(CACHES)), home]
    # Another worktree has another home, unless both name a workspace.
    shared = ("--workspace", "shared")
    assert wrapped.run("sh", "-c", fill, options=shared).lines == []
    other = wrapped.folder / "other"
    other.mkdir()
    elsewhere = ("--repo", str(other))
    counts = [
        wrapped.run("sh", "-c", look, options=options).lines for options in (elsewhere, (*elsewhere, *shared))
    ]
    assert [lines[0] for lines in counts] == ["0", str(len(CACHES))]
    # Modes that write nothing get an empty one.
    assert wrapped.run("sh", "-c", look, options=("--mode", "plan")).lines == ["0", "/tmp/home"]


def test_caches_take_what_packages_bring(wrapped: Product) -> None:
    """Certificates, test keys, editors' settings: unpacked, they are nobody's secrets and nobody's settings."""
    wrapped.violates = True
    folders = [f"{cache}/package" for cache in CACHES]
    names = ["cacert.pem", "testdata/server.key", ".env", ".vscode/settings.json", ".gitmodules"]
    paths = " ".join(f"{folder}/{name}" for folder in folders for name in names)
    script = f"""cd
    for path in {paths}; do mkdir -p $(dirname $path) && echo x > $path; done
    for path in a.pem .env .bashrc .vscode/x other/.cache/b.pem; do
        (mkdir -p $(dirname $path) && echo x > $path) 2>/dev/null && echo wrote $path; done
    ls -d {paths} | wc -l"""
    assert wrapped.run("sh", "-c", script).lines == [str(len(paths.split()))]


def test_pip_keeps_what_it_fetched(wrapped: Product) -> None:
    wrapped.activate(PYTHON)
    script = "python -m pip --isolated cache dir"
    (folder,) = wrapped.run("sh", "-c", script, options=("--env", "PIP_CONFIG_FILE=/dev/null")).lines
    home = next((wrapped.folder / "state/agent-gateway/workspaces/default/worktrees").glob("work-*/home"))
    assert folder == f"{home}/.cache/pip"


def test_running_twice_at_once(wrapped: Product) -> None:
    """Two agents of one worktree start together: one directory, whole for both."""
    installed(wrapped, "claude")
    runs: list[Running] = [wrapped.start("claude") for _ in range(2)]
    results = [listed(run.end()) for run in runs]
    assert results[0][0] == results[1][0]
    assert all("the login" in found[0] for _, found, _ in results)
    assert len(os.listdir(os.path.dirname(results[0][0]))) == 1
