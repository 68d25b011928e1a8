"""Programs that start another one, and where its words begin among theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`flags` and `values` are its options without and with a value ("-n", "--signal"); any other option is a doubt.

    `operands` words stand before the command. `assignments`: variables may stand there too. The values of `texts` are
    shell lines. `joined`: the words are put together to a shell line. `appends`: words that nobody sees are added.
    With one of `idle` nothing is started. `remote`: the command runs elsewhere. `alone`: what it does by itself counts.
    """

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    texts: frozenset[str] = frozenset()
    joined: bool = False
    appends: bool = False
    idle: frozenset[str] = frozenset()
    remote: bool = False
    alone: bool = False


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HELP: Final = _options("--help --version")
_SUDO: Final = Wrapper(
    flags=_options(
        "-A -b -B -E -e -H -i -K -k -l -n -N -P -S -s -V -v --askpass --background --bell --preserve-env"
        " --edit "
        "--set-home --login --remove-timestamp --reset-timestamp --list --non-interactive --no-update "
        "--preserve-groups --stdin --shell --validate"
    ),
    values=_options(
        "-a -C -c -D -g -h -p -R -r -T -t -U -u --close-from --chdir --group --host --prompt --chroot"
        " --role "
        "--command-timeout --type --other-user --user"
    ),
    assignments=True,
    alone=True,
)
_NONE: Final = Wrapper()
_RUNS: Final = Wrapper(
    flags=_options(
        "-q -v -s --quiet --verbose --silent --isolated --frozen --locked --no-sync --offline --all --dev"
    ),
    values=_options(
        "-p --python --with --extra --group --project --directory -C --env-file -e --env -n --name"
    ),
)
_PACKAGE_RUNS: Final = Wrapper(
    flags=_options(
        "-y --yes --no --no-install --prefer-offline --quiet -q --offline --silent --isolated -s --bun"
    ),
    values=_options("-p --package --from --with --python --spec --pip-args"),
    texts=_options("-c --call"),
    alone=True,
)
# By the words that begin it, options left out.
WRAPPERS: Final[Mapping[str, Wrapper]] = MappingProxyType(
    {
        # Words of the shell's own: variables may stand behind them.
        "!": Wrapper(assignments=True),
        "{": Wrapper(assignments=True),
        "time": Wrapper(
            assignments=True,
            flags=_options("-p -a -v -q -V --append --verbose --quiet --portability"),
                        values=_options("-f -o --format --output"), idle=_HELP),
        "env": Wrapper(
            flags=_options("-i - -0 -v --ignore-environment --null --debug --list-signal-handling"),
            values=_options("-u -C -P --unset --chdir --argv0 -a"),
            assignments=True, texts=_options("-S --split-string"), idle=_HELP,
        ),
        "nohup": Wrapper(idle=_HELP),
        "setsid": Wrapper(flags=_options("-c -f -w --ctty --fork --wait"), idle=_HELP),
        "nice": Wrapper(values=_options("-n --adjustment"), idle=_HELP),
        "renice": Wrapper(idle=_HELP),
        "ionice": Wrapper(flags=_options("-t --ignore"),
        values=_options("-c -n -p -P -u --class --classdata"), idle=_HELP),
        "chrt": Wrapper(flags=_options("-b -f -i -o -r -d -a -R -v"), values=_options("-T -P -D"),
        operands=1),
        "taskset": Wrapper(flags=_options("-a -c -p"), operands=1),
        "numactl": Wrapper(values=_options("-N -C -m -i -p"), flags=_options("-l --localalloc -a --all")),
        "prlimit": Wrapper(flags=_options("--noheadings --raw --verbose")),
        "timeout": Wrapper(
            flags=_options("--preserve-status --foreground -v --verbose -f -p"),
            values=_options("-k -s --kill-after --signal"), operands=1, idle=_HELP,
        ),
        "gtimeout": Wrapper(flags=_options("--preserve-status --foreground -v --verbose -f -p"),
                            values=_options("-k -s --kill-after --signal"), operands=1, idle=_HELP),
        "stdbuf": Wrapper(values=_options("-i -o -e --input --output --error"), idle=_HELP),
        "unbuffer": Wrapper(flags=_options("-p")),
        "caffeinate": Wrapper(flags=_options("-d -i -m -s -u"), values=_options("-t -w")),
        "setarch": Wrapper(flags=_options("-R -3 -v -F -I -L -S -T -X -Z -B"), operands=1),
        "linux64": _NONE,
        "linux32": _NONE,
        "strace": Wrapper(
            flags=_options("-f -ff -c -C -d -h -i -q -r -t -tt -ttt -T -v -V -x -xx -y -yy -D -k -n -w -z -Z"),
            values=_options("-a -b -e -E -I -o -O -p -P -s -S -u -U -X --trace"),
        ),
        "ltrace": Wrapper(flags=_options("-c -C -f -i -r -S -t -T"),
        values=_options("-a -e -l -n -o -p -s -u -x")),
        "catchsegv": _NONE,
        "faketime": Wrapper(flags=_options("-m -f"), operands=1),
        "fakeroot": Wrapper(flags=_options("-u"), values=_options("-l -s -i -f -b")),
        "xvfb-run": Wrapper(flags=_options("-a -l"), values=_options("-e -f -n -p -s -w")),
        "dbus-run-session": Wrapper(values=_options("--config-file")),
        "ssh-agent": Wrapper(flags=_options("-c -D -d -k -s"), values=_options("-a -E -O -P -t")),
        "proxychains": Wrapper(flags=_options("-q"), values=_options("-f")),
        "proxychains4": Wrapper(flags=_options("-q"), values=_options("-f")),
        "torsocks": _NONE,
        "rlwrap": _NONE,
        "chronic": _NONE,
        "sem": Wrapper(flags=_options("--fg"), values=_options("-j --id"), appends=True),
        "flock": Wrapper(
            flags=_options("-e -x -s -u -n -o -F --exclusive --shared --unlock --nonblock --nb"
                " --no-fork --close --verbose"),
            values=_options("-w -E --timeout --wait --conflict-exit-code"), texts=_options("-c --command"),
            operands=1,
        ),
        "command": Wrapper(flags=_options("-p"), idle=_options("-v -V")),
        "builtin": _NONE,
        "exec": Wrapper(flags=_options("-c -l"), values=_options("-a")),
        "busybox": Wrapper(idle=_options("--list --install --help --list-full")),
        "toybox": Wrapper(idle=_options("--help --version --long")),
        "xargs": Wrapper(
            flags=_options("-0 -r -t -p -x -o -i -e -l --null --no-run-if-empty --verbose --interactive"
                " --exit --open-tty"),
            values=_options("-I -J -n -L -P -R -S -d -s -a -E --replace --max-args --max-lines"
                " --max-procs --delimiter "
                            "--max-chars --arg-file --eof --process-slot-var"),
            appends=True, idle=_HELP,
        ),
        "parallel": Wrapper(
            flags=_options("-0 -k -m -X -q -u -v -r --keep-order --bar --eta --progress --dry-run --null --ungroup "
                           "--line-buffer --lb --halt-on-error --will-cite --no-run-if-empty --pipe"),
            values=_options("-j -P -I -N -n -L -a -d --jobs --halt --timeout --retries --delay --colsep --results "
                            "--joblog --tmpdir --arg-file --delimiter --max-args"),
            joined=True, appends=True, idle=_options("--help --version --citation"),
        ),
        "watch": Wrapper(
            flags=_options("-b -c -C -d -e -g -p -t -w -x -r --beep --color --no-color --differences"
                " --errexit --chgexit "
                           "--precise --no-title --no-wrap --exec"),
            values=_options("-n -q --interval --equexit"), joined=True, idle=_HELP,
        ),
        "entr": Wrapper(flags=_options("-a -c -d -n -p -r -s -z -x"), appends=True),
        "script": Wrapper(
            flags=_options("-a -e -f -q -r -k -F --append --return --flush --quiet --force"),
            values=_options("-E -I -O -B -o -m -t -T --echo --log-in --log-out --log-io --output-limit"
                " --logging-format"),
            texts=_options("-c --command"), operands=1,
        ),
        "su": Wrapper(
            flags=_options("- -f -l -m -p -P --fast --login --preserve-environment --pty"),
            values=_options("-g -G -s -w --group --supp-group --shell --whitelist-environment"),
            texts=_options("-c --command --session-command"), operands=1, alone=True,
        ),
        "runuser": Wrapper(
            flags=_options("- -f -l -m -p -P --fast --login --preserve-environment --pty"),
            values=_options("-u -g -G -s -w --user --group --supp-group --shell"),
            texts=_options("-c --command --session-command"), alone=True,
        ),
        "sudo": _SUDO,
        "sudo-rs": _SUDO,
        "doas": Wrapper(flags=_options("-L -n -s"), values=_options("-a -C -u"), alone=True),
        "pkexec": Wrapper(flags=_options("--disable-internal-agent --keep-cwd"), values=_options("--user"),
        alone=True),
        "run0": Wrapper(values=_options("-u -g --user --group --nice -D --chdir --setenv --property"),
        alone=True),
        "setpriv": Wrapper(
            flags=_options("--clear-groups --keep-groups --init-groups --nnp --no-new-privs --reset-env"),
            values=_options("--reuid --regid --ruid --rgid --groups --inh-caps --ambient-caps"
                " --bounding-set --pdeathsig"),
            alone=True,
        ),
        "gosu": Wrapper(operands=1, alone=True),
        "su-exec": Wrapper(operands=1, alone=True),
        "sg": Wrapper(texts=_options("-c"), operands=1, alone=True),
        "chroot": Wrapper(flags=_options("--skip-chdir"), values=_options("--groups --userspec"),
        operands=1, alone=True),
        "unshare": Wrapper(
            flags=_options("-i -m -n -p -u -U -C -T -f -r -c --ipc --mount --net --pid --uts --user"
                " --cgroup --time --fork "
                           "--map-root-user --map-current-user --keep-caps --mount-proc --map-auto"),
            values=_options("-S -G -R -w --setuid --setgid --root --wd --map-user --map-group"
                " --propagation --setgroups"),
            alone=True,
        ),
        "nsenter": Wrapper(
            flags=_options("-a -m -u -i -n -p -U -C -T -r -w -F -Z --all --mount --uts --ipc --net"
                " --pid --user --cgroup "
                           "--preserve-credentials --no-fork"),
            values=_options("-t -S -G --target --setuid --setgid --wdns"), alone=True,
        ),
        "systemd-run": Wrapper(
            flags=_options("-t -P -q -G -d -S --user --system --scope --pty --pipe --quiet --wait --collect --shell"),
            values=_options("-p -u -E -H -M --property --unit --setenv --slice --uid --gid"
                " --on-calendar --on-active"),
            alone=True,
        ),
        "ip netns exec": Wrapper(operands=1, alone=True),
        "firejail": Wrapper(alone=True),
        "flatpak-spawn": Wrapper(flags=_options("--host --clear-env --sandbox"), alone=True),
        "host-spawn": Wrapper(alone=True),
        "distrobox-host-exec": Wrapper(alone=True),
        "ssh": Wrapper(
            flags=_options("-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y"),
            values=_options("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w"),
            operands=1, joined=True, remote=True, alone=True,
        ),
        "mosh": Wrapper(values=_options("-p --ssh --port --client --server"), operands=1, joined=True,
        remote=True, alone=True),
        "npx": _PACKAGE_RUNS,
        "npm exec": _PACKAGE_RUNS,
        "npm x": _PACKAGE_RUNS,
        "pnpm exec": _RUNS,
        "pnpm dlx": _PACKAGE_RUNS,
        "yarn dlx": _PACKAGE_RUNS,
        "yarn exec": _RUNS,
        "bunx": _PACKAGE_RUNS,
        "bun x": _PACKAGE_RUNS,
        "uvx": _PACKAGE_RUNS,
        "uv run": _RUNS,
        "uv tool run": _PACKAGE_RUNS,
        "pipx run": _PACKAGE_RUNS,
        "poetry run": _RUNS,
        "pipenv run": _RUNS,
        "pdm run": _RUNS,
        "rye run": _RUNS,
        "hatch run": _RUNS,
        "conda run": _RUNS,
        "bundle exec": _RUNS,
        "mise exec": Wrapper(operands=0),
        "asdf exec": _RUNS,
        "direnv exec": Wrapper(operands=1),
        "corepack": _NONE,
        "dotenv": _RUNS,
    }
)  # fmt: skip
# They read a shell line behind `-c`, a file, or what comes in.
SHELLS: Final = frozenset(
    {"sh", "bash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "pdksh", "oksh", "lksh", "yash", "posh",
     "rbash", "rzsh",
     "fish", "csh", "tcsh", "nu", "elvish", "xonsh", "pwsh", "powershell", "osh", "hush"}
)  # fmt: skip
# Options of theirs with a value.
SHELL_VALUES: Final = frozenset(
    {"-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-C", "--init-command", "-D", "--debug-output"}
)
# Their syntax is not that of the grammar.
FOREIGN_SHELLS: Final = frozenset({"fish", "csh", "tcsh", "nu", "elvish", "xonsh", "pwsh", "powershell"})
# Modules behind `python -m` that are commands of their own.
PYTHON_MODULES: Final = frozenset(
    {"pip", "pipx", "uv", "poetry", "pdm", "hatch", "twine", "build", "flit", "conda", "ensurepip",
     "pipenv", "black",
     "isort", "ruff", "autopep8", "venv", "virtualenv", "shutil"}
)  # fmt: skip
# Options of python with a value.
PYTHON_VALUES: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
# Variables that hold a command, which the programs after them run.
COMMAND_VARIABLES: Final = frozenset(
    {"GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXTERNAL_DIFF",
     "GIT_ASKPASS",
     "GIT_PROXY_COMMAND", "SSH_ASKPASS", "SUDO_ASKPASS", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "FCEDIT",
     "BROWSER",
     "GH_PAGER", "GH_EDITOR", "GH_BROWSER", "PROMPT_COMMAND", "LESSOPEN", "LESSCLOSE",
     "CARGO_BUILD_RUSTC_WRAPPER",
     "RUSTC_WRAPPER", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "PS4", "MAKEFLAGS_SHELL"}
)  # fmt: skip
# Variables after which nobody can tell any more what a command is.
CHANGING_VARIABLES: Final = frozenset(
    {"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "ZDOTDIR", "SHELLOPTS",
     "BASHOPTS", "IFS",
     "GIT_EXEC_PATH", "GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_PARAMETERS",
     "GIT_CONFIG_COUNT",
     "GIT_TEMPLATE_DIR", "BASH_ALIASES"}
)  # fmt: skip
CHANGING_BEGINNINGS: Final = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "BASH_FUNC_")
