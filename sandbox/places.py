"""Places on the host that are never bound into a wrap, and the check of every path that is to be bound.

The lists are data. Nothing here reads a file's content; the checks compare resolved paths.
"""

import os
import pwd
from dataclasses import dataclass

from gateway.errors import GatewayError

# Below a home directory: logins, keys and whatever else lets its reader act as the user. A bind that holds one of
# these, is one of these or lies in one of these is refused, whether the file exists today or not.
SECRET_PLACES = (
    # keys and the agents that guard them
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".pki",
    ".config/age",
    ".config/sops",
    ".age",
    "Library/Keychains",
    # password managers
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".config/keepassxc",
    ".config/rbw",
    ".lastpass",
    "Library/Application Support/Bitwarden",
    # clouds and clusters
    ".aws",
    ".azure",
    ".config/gcloud",
    ".boto",
    ".gsutil",
    ".s3cfg",
    ".config/rclone",
    ".config/doctl",
    ".config/hcloud",
    ".config/linode-cli",
    ".config/scw",
    ".config/flyctl",
    ".fly/config.yml",
    ".config/netlify",
    ".config/.wrangler",
    ".wrangler",
    ".local/share/com.vercel.cli",
    ".kube",
    ".minikube",
    ".docker",
    ".config/containers",
    ".config/helm",
    ".terraform.d",
    ".terraformrc",
    ".config/terraform",
    ".pulumi/credentials.json",
    ".oci",
    ".bluemix",
    ".aliyun",
    ".databrickscfg",
    ".snowflake",
    ".snowsql/config",
    ".vault-token",
    # forges, registries and other logins in files
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/tea",
    ".config/github-copilot",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".local/share/uv/credentials",
    ".config/uv/credentials",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm/rc",
    ".bunfig.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".ivy2/.credentials",
    ".sbt/.credentials",
    ".nuget/NuGet",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".hex",
    ".condarc",
    ".jupyter",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".cache/huggingface/token",
    ".huggingface",
    ".kaggle",
    ".config/wandb",
    ".sentryclirc",
    ".config/heroku",
    ".config/stripe",
    ".config/ngrok",
    ".ngrok2",
    # mail and messages
    ".thunderbird",
    ".config/Slack",
    ".config/discord",
    ".config/Signal",
    "Library/Thunderbird",
    "Library/Application Support/Slack",
    # browser profiles
    ".mozilla",
    ".config/mozilla",
    ".librewolf",
    ".waterfox",
    ".tor project",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/google-chrome-unstable",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/microsoft-edge-dev",
    ".config/vivaldi",
    ".config/opera",
    ".var/app",
    "snap",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Google/Chrome Beta",
    "Library/Application Support/Firefox",
    "Library/Application Support/Vivaldi",
    "Library/Application Support/com.operasoftware.Opera",
    "Library/Cookies",
    # shell and client histories hold what was typed after a wrong prompt
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
)

# Kernel interfaces: a bind of them undoes the namespaces.
KERNEL_PLACES = ("/proc", "/sys", "/dev")

# Sockets of the host's services: a path to one of them is a way out of the wrap.
RUNTIME_PLACES = ("/run", "/var/run")
# Removable media are mounted below the runtime directory on some systems, and people keep worktrees there.
RUNTIME_EXCEPTIONS = ("/run/media",)

# Below the product's state directory: what belongs to the wrapped processes and not to the product.
MANAGED_PLACES = ("workspaces", "spaces")

# The host's own secrets.
SYSTEM_SECRETS = (
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/NetworkManager",
    "/etc/wireguard",
    "/var/lib/docker",
    "/var/lib/containerd",
)

# Writable, these would make the wrap the host's administrator (when run as root).
# Both spellings: on most systems /bin is a link to /usr/bin, and what is looked at is resolved.
SYSTEM_ROOTS = (
    "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local",
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/var",
)  # fmt: skip


# Why what holds the state and the log of the product is not shown.
OWN_STATE = "it holds this product's own state"


def within(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies below it; both normalised."""
    return path == root or path.startswith(root.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class Guard:
    """The resolved places of one launch: homes, their secrets, and the product's own directories."""

    homes: tuple[str, ...]
    secrets: tuple[str, ...]
    own: tuple[str, ...]

    def refusal(self, path: str, read_only: bool, managed: bool = False) -> str:
        """Why this resolved path may not be bound; empty when it may.

        `managed` is for directories that the product itself keeps for wraps, below `MANAGED_PLACES` of its state.
        """
        if path == "/":
            return "it is the whole file system"
        for place in KERNEL_PLACES:
            if within(path, place):
                return f"{place} belongs to the wrap itself"
        for place in RUNTIME_PLACES:
            if within(path, place) and not any(path.startswith(free + "/") for free in RUNTIME_EXCEPTIONS):
                return f"{place} holds the sockets of the host's services"
        for home in self.homes:
            if within(home, path):
                return f"it holds the home directory {home}"
        for own in self.own:
            kept = managed and any(within(path, f"{own}/{place}") for place in MANAGED_PLACES)
            if (within(path, own) and not kept) or within(own, path):
                return f"{OWN_STATE} ({own})"
        for secret in (*self.secrets, *SYSTEM_SECRETS):
            if within(secret, path) or within(path, secret):
                return f"it holds secrets ({secret})"
        if not read_only and path in SYSTEM_ROOTS:
            return "system directories are read-only"
        return ""


def guard(user_home: str, own: tuple[str, ...]) -> Guard:
    """The guard for a user: their home as given and as the account says, with symlinks resolved and as written."""
    written = {home for home in (user_home, account_home()) if home and home != "/"}
    homes = sorted(written | {os.path.realpath(home) for home in written})
    secrets = {os.path.join(home, place) for home in homes for place in SECRET_PLACES}
    secrets |= {os.path.realpath(secret) for secret in secrets}  # a folder above may be a link as well
    owned = {path for path in own if path}
    return Guard(
        tuple(homes), tuple(sorted(secrets)), tuple(sorted(owned | {os.path.realpath(p) for p in owned}))
    )


def account_home() -> str:
    """The home directory in the account database; empty when the user has no account (containers)."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def resolve_bind(path: str, field: str, read_only: bool, places: Guard, managed: bool = False) -> str:
    """The resolved path of something to be bound. GatewayError, naming the field, when it may not or is not there."""
    if not os.path.isabs(path):
        raise GatewayError(f"{field}: {path!r} is not an absolute path")
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        raise GatewayError(f"{field}: {path}: {error.strerror}") from error
    refusal = places.refusal(real, read_only, managed)
    if refusal:
        raise GatewayError(
            f"{field}: {path} cannot be seen from inside the wrap: {refusal}",
            "name a directory below it, or run in another directory"
            + (
                "; or keep that elsewhere (XDG_STATE_HOME, XDG_RUNTIME_DIR, audit.directory)"
                if OWN_STATE in refusal
                else ""
            ),
        )
    return real
