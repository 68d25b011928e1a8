"""How programs with commands of their own are read: other names of theirs, and options before the command.

A tool is `git`, not `ls`. Its options before the command are passed over; those here take a value.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Other names -> the name that the tables use.
SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "podman": "docker", "nerdctl": "docker", "podman-compose": "docker-compose", "tofu": "terraform",
        "mamba": "conda",
        "micromamba": "conda", "apt": "apt-get", "dnf": "yum", "microdnf": "yum", "dnf5": "yum",
        "gmake": "make", "nodejs": "node",
        "grm": "rm", "gln": "ln", "gcp": "cp", "gmv": "mv", "gdd": "dd", "gsed": "sed", "gxargs": "xargs",
        "gfind": "find",
        "genv": "env", "gtimeout": "timeout", "gtee": "tee", "gchmod": "chmod", "gchown": "chown",
        "gshred": "shred",
        "egit": "git", "hub-git": "git", "k": "kubectl", "kubecolor": "kubectl",
        "microk8s.kubectl": "kubectl",
        "flyctl": "fly", "mvnw": "mvn", "pip-sync": "easy_install", "virtualenv": "venv",
        "bundler": "bundle", "2to3-3": "2to3",
        "ip6tables-legacy": "ip6tables", "iptables-legacy": "iptables", "pnpx": "npx", "bsdtar": "tar",
        "gtar": "tar",
    }
)  # fmt: skip
# Names that may carry a version: `pip3.12` is `pip`.
VERSIONED: Final = frozenset(
    {"python", "pip", "node", "ruby", "perl", "gem", "lua", "luarocks", "php", "pypy", "easy_install", "ksh"}
)
# Options with a value that may stand before a tool's command.
VALUES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix",
                          "--config-env", "--attr-source"}),
        "gh": frozenset({"-R", "--repo", "--hostname"}),
        "glab": frozenset({"-R", "--repo", "-g", "--group"}),
        "npm": frozenset({"--prefix", "-C", "-w", "--workspace", "--registry", "--userconfig", "--cache",
                          "--loglevel", "--tag", "--otp"}),
        "pnpm": frozenset({"-C", "--dir", "-F", "--filter", "--reporter", "--loglevel"}),
        "yarn": frozenset({"--cwd", "--registry", "--modules-folder", "--cache-folder"}),
        "bun": frozenset({"--cwd", "-c", "--config", "--filter"}),
        "pip": frozenset({"--python", "--log", "--proxy", "--retries", "--timeout", "--cert",
                          "--client-cert", "--cache-dir", "--trusted-host"}),
        "uv": frozenset({"--directory", "--project", "--python", "-p", "--cache-dir", "--config-file",
                         "--color"}),
        "poetry": frozenset({"-C", "--directory", "-P", "--project"}),
        "cargo": frozenset({"-C", "--config", "-Z", "--color", "--manifest-path"}),
        "go": frozenset({"-C"}),
        "docker": frozenset({"--context", "-c", "--config", "-H", "--host", "-l", "--log-level",
                             "--tlscacert", "--tlscert", "--tlskey",
                             "--connection", "--url", "--identity", "--root", "-n", "--namespace", "-f",
                             "--file", "-p", "--project-name",
                             "--env-file", "--profile", "--project-directory", "--ansi"}),
        "docker-compose": frozenset({"-f", "--file", "-p", "--project-name", "--env-file", "--profile",
                                     "--project-directory"}),
        "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user",
                              "-s", "--server", "--token", "--as",
                              "--as-group", "--request-timeout", "-v", "--v", "--cache-dir",
                              "--certificate-authority"}),
        "oc": frozenset({"-n", "--namespace", "--context", "--kubeconfig"}),
        "helm": frozenset({"-n", "--namespace", "--kube-context", "--kubeconfig"}),
        "terraform": frozenset(),
        "aws": frozenset({"--profile", "--region", "--output", "--endpoint-url", "--query", "--color",
                          "--ca-bundle"}),
        "gcloud": frozenset({"--project", "--account", "--configuration", "--format", "--verbosity",
                             "--impersonate-service-account"}),
        "az": frozenset({"--subscription", "-o", "--output", "--query"}),
        "systemctl": frozenset({"-H", "--host", "-M", "--machine", "-t", "--type", "--state", "-p",
                                "--property", "-n", "-o"}),
        "ip": frozenset({"-n", "-netns", "-f", "-family", "-b", "-batch"}),
        "make": frozenset({"-C", "--directory", "-f", "--file", "--makefile", "-I", "-j", "-l", "-o",
                           "-W"}),
        "mvn": frozenset({"-f", "--file", "-P", "-pl", "-s", "--settings", "-T"}),
        "gradle": frozenset({"-p", "--project-dir", "-b", "-c", "-I"}),
        "hg": frozenset({"-R", "--repository", "--cwd", "--config"}),
        "svn": frozenset({"--username", "--password", "--config-dir", "--config-option"}),
        "apt-get": frozenset({"-o", "-c", "-t", "--option", "--target-release", "-a"}),
        "apk": frozenset({"-p", "--root", "-X", "--repository"}),
        "pipenv": frozenset({"--python"}),
        "conda": frozenset(),
        "composer": frozenset({"-d", "--working-dir"}),
        "vault": frozenset({"-address", "-namespace"}),
        "op": frozenset({"--account", "--vault"}),
    }
)  # fmt: skip
# What a tool does when no command is named.
WITHOUT_COMMAND: Final[Mapping[str, str]] = MappingProxyType({"yarn": "install", "bundle": "install"})
# With one of these it only says something about itself.
ABOUT_ITSELF: Final = frozenset({"-h", "--help", "-v", "-V", "--version"})
# Keys of git's configuration whose value git runs.
GIT_COMMAND_KEYS: Final = (
    r"core\.(?:pager|editor|sshcommand|gitproxy|askpass|fsmonitor|alternaterefscommand)"
    r"|sequence\.editor|credential(?:\..*)?\.helper"
    r"|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver|mergetool\..*\.cmd"
    r"|difftool\..*\.cmd|filter\..*\.(?:clean|smudge|process)"
    r"|pager\..*|gpg\.program|gpg\..*\.program|interactive\.difffilter|remote\..*\.(?:uploadpack"
    r"|receivepack|vcs)|browser\..*\.cmd|man\..*\.cmd"
    r"|uploadpack\.packobjectshook|sendemail\..*cmd|web\.browser|trailer\..*\.(?:command|cmd)"
    r"|submodule\..*\.update|guitool\..*\.cmd"
)
# Keys after which git reads or runs what nobody sees here.
GIT_HIDING_KEYS: Final = (
    r"include\.path|includeif\..*\.path|core\.hookspath|core\.worktree"
    r"|init\.templatedir|protocol\.ext\.allow|alias\..*"
)
# Options of git's commands whose value is a shell line.
GIT_TEXTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "rebase": frozenset({"-x", "--exec"}),
        "filter-branch": frozenset(
            {"--env-filter", "--tree-filter", "--index-filter", "--parent-filter", "--msg-filter",
             "--commit-filter",
             "--tag-name-filter", "--setup"}
        ),
        "difftool": frozenset({"-x", "--extcmd"}),
        "clone": frozenset({"-u", "--upload-pack"}),
        "fetch": frozenset({"--upload-pack"}),
        "ls-remote": frozenset({"--upload-pack"}),
        "push": frozenset({"--receive-pack", "--exec"}),
        "grep": frozenset({"-O", "--open-files-in-pager"}),
    }
)  # fmt: skip
