"""What is asked about in chat because it changes something elsewhere, and what changes something at all.

The first has no action of its own.

A mode that only reads denies both. What stands in neither table runs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# State of other machines, of accounts and of the machine itself; packages that are published.
ASKED: Final = (
    "npm publish|unpublish|deprecate|undeprecate|dist-tag|access|owner|author|team|org|login|adduser"
    "|logout|star|unstar|profile"
    "|hook|trust|stage",
    "pnpm publish|deploy|login|logout",
    "yarn publish|unpublish|login|logout|owner|tag",
    "yarn npm publish|tag|login|logout",
    "bun publish|pm",
    "lerna publish|version",
    "changeset publish",
    "semantic-release",
    "release-it",
    "np",
    "vsce publish|unpublish|login",
    "ovsx publish",
    "deno publish|deploy",
    "jsr publish",
    "twine upload|register",
    "poetry publish",
    "pdm publish",
    "uv publish",
    "hatch publish",
    "flit publish",
    "maturin publish|upload",
    "rye publish",
    "anaconda upload",
    "cargo publish|yank|owner|login|logout|release",
    "gem push|yank|owner|signin|signout",
    "bundle exec rake release",
    "rake release",
    "composer archive",
    "dotnet nuget push|delete",
    "nuget push|delete|setApiKey|setapikey",
    "mvn deploy|release:perform|release:prepare",
    "gradle publish|publishPlugins|publishToMavenLocal|publishplugins|publishtomavenlocal",
    "gradlew publish|publishplugins",
    "sbt publish|publishSigned|publishsigned",
    "luarocks upload",
    "mix hex.publish|hex.user|hex.organization",
    "cabal upload",
    "stack upload",
    "dart pub publish",
    "flutter pub publish",
    "pod trunk|repo",
    "goreleaser release",
    "jreleaser",
    "docker run|create|start|restart|stop|kill|pause|unpause|exec|attach|build|push|pull|commit|import"
    "|load|tag|rm|rmi|rename"
    "|update|cp|login|logout|deploy|save|export|wait",
    "docker container|image create|run|start|stop|restart|kill|exec|attach|build|push|pull|rm|remove"
    "|prune|import|load|tag"
    "|commit|cp|rename|update|pause|unpause",
    "docker volume|network create|rm|remove|prune|connect|disconnect|update",
    "docker builder|buildx|manifest|plugin|secret|config|stack|service|swarm|trust|machine|pod|play|kube",
    "docker system prune|reset|migrate|renumber",
    "docker context create|use|rm|update|import",
    "docker compose up|down|run|exec|start|stop|restart|rm|build|pull|push|create|kill|pause|unpause|cp"
    "|watch|attach|scale|publish",
    "docker-compose up|down|run|exec|start|stop|restart|rm|build|pull|push|create|kill|pause|unpause|scale",
    "buildah", "skopeo copy|delete|sync", "crane push|delete|copy|tag|append",
    "oras push|copy|attach|delete", "kaniko",
    "earthly", "dagger", "vagrant up|destroy|halt|ssh|provision|reload|box|plugin",
    "terraform apply|destroy|import|taint|untaint|force-unlock|login|logout|refresh",
    "terraform state mv|rm|push|replace-provider",
    "terraform workspace new|select|delete",
    "terragrunt apply|destroy|import|run-all|run|state|taint|untaint",
    "pulumi up|update|destroy|import|refresh|cancel|state|login|logout",
    "cdk deploy|destroy|bootstrap|import|rollback",
    "cdktf deploy|destroy",
    "sam deploy|delete|sync|publish",
    "serverless deploy|remove|invoke|rollback",
    "sls deploy|remove|invoke|rollback",
    "ansible", "ansible-playbook", "ansible-pull", "packer build", "chef-client", "puppet apply|agent",
    "salt", "salt-call",
    "nomad job|run|stop|system|node",
    "consul kv|services",
    "kubectl apply|create|delete|edit|patch|replace|scale|autoscale|set|label|annotate|rollout|expose|run"
    "|exec|cp|attach"
    "|port-forward|proxy|drain|cordon|uncordon|taint|debug|certificate",
    "kubectl config set|set-context|set-cluster|set-credentials|use-context|use|unset|delete-context"
    "|delete-cluster|rename-context|delete-user",
    "kubectl auth reconcile",
    "oc apply|create|delete|edit|patch|replace|scale|set|label|annotate|rollout|expose|run|exec|new-app"
    "|start-build|login|adm",
    "helm install|upgrade|uninstall|delete|rollback|push|test|registry",
    "helm repo add|remove|update",
    "helm dependency update|build",
    "helmfile apply|sync|destroy|delete",
    "kustomize edit", "skaffold run|dev|deploy|delete|apply", "argocd app|login|repo|cluster|proj",
    "flux bootstrap|create|delete"
    "|reconcile|suspend|resume|uninstall|install", "istioctl install|apply|uninstall",
    "kind create|delete|load",
    "minikube start|stop|delete|addons", "k3d cluster|image", "eksctl create|delete|scale|upgrade|update",
    "gh repo create|new|delete|fork|rename|edit|archive|unarchive|sync|set-default|deploy-key|autolink"
    "|gitignore|license",
    "gh release create|new|delete|delete-asset|edit|upload",
    "gh workflow run|enable|disable",
    "gh run cancel|rerun|delete",
    "gh secret|variable set|delete|remove",
    "gh gist create|new|delete|edit|rename",
    "gh ssh-key|gpg-key add|delete",
    "gh cache delete",
    "gh codespace|cs create|delete|ssh|cp|edit|rebuild|stop|code|ports|jupyter",
    "gh agent-task create", "gh copilot", "gh alias set|import|delete", "gh config set|clear-cache",
    "gh ruleset", "gh attestation",
    "gh auth logout|switch",
    "glab repo create|delete|fork|archive|transfer|mirror",
    "glab release create|delete|upload",
    "glab ci run|trigger|retry|cancel|delete",
    "glab variable set|update|delete|import",
    "glab snippet create", "glab ssh-key add|delete", "glab schedule create|delete|run",
    "hub create|delete|fork|release|issue|merge|push|sync|ci-status|gist",
    "tea releases|release|repos|repo|labels|milestones create|delete|edit",
    "git send-email|imap-send|p4|daemon|credential-store|http-backend|shell|instaweb|maintenance|svn",
    "git remote-http|remote-https|remote-ext|remote-fd|upload-pack|receive-pack|upload-archive",
    "hg push|bookmark", "jj git", "svn commit|ci|delete|copy|move|mkdir|import|lock|unlock|propset",
    "bzr push",
    "heroku", "fly", "vercel", "netlify deploy|api|sites|env|build|link|unlink", "wrangler", "firebase",
    "railway", "surge", "amplify", "eb", "doctl", "linode-cli", "hcloud", "scw", "ibmcloud", "oci", "cf",
    "supabase db|functions|link|secrets|projects|storage", "planetscale", "pscale", "neonctl", "turso",
    "stripe", "twilio",
    "sentry-cli releases|deploys|sourcemaps|upload-dif|login", "datadog-ci", "cloudflared", "ngrok",
    "tailscale",
    "mc cp|mv|rm|mb|rb|mirror|policy|admin", "s3cmd put|del|sync|mb|rb|mv|cp|setacl",
    "rclone copy|move|sync|delete|purge|mkdir"
    "|rmdir|copyto|moveto|deletefile|bisync|config|mount|serve|rcat",
    "gsutil cp|mv|rm|rb|mb|rsync|acl|iam|setmeta|defacl",
    "sendmail", "mail", "mailx", "mutt", "msmtp", "swaks",
    "systemctl start|stop|restart|reload|enable|disable|mask|unmask|edit|set-property|daemon-reload"
    "|daemon-reexec|kill|link"
    "|preset|revert|set-default|set-environment|try-restart|reload-or-restart",
    "service", "rc-service", "rc-update", "update-rc.d", "chkconfig", "supervisorctl", "pm2", "initctl",
    "crontab", "anacron", "timedatectl", "hostnamectl", "loginctl", "localectl", "networkctl",
    "resolvectl", "nmcli", "netplan",
    "ifconfig", "ip link|addr|address|route|rule|netns|tunnel|neigh", "iw", "iwconfig", "brctl",
    "ovs-vsctl", "tc", "sysctl -w|--write|-p|--load|--system",
    "osascript", "defaults write|delete|import", "tccutil", "softwareupdate", "open", "xdg-open",
    "bpftrace", "bpftool", "dtrace", "criu", "reptyr",
    "ssh-copy-id", "autossh", "sshfs", "openvpn", "wg", "wg-quick",
    "dropdb", "createdb", "pg_restore", "mysqladmin", "redis-cli flushall|flushdb|shutdown|config",
)  # fmt: skip

# Tools of clouds: words that only read. With any other operation they are asked about.
CLOUD_TOOLS: Final = frozenset({"aws", "gcloud", "az"})
CLOUD_READS: Final = (
    "describe", "get", "list", "show", "ls", "help", "version", "wait", "search", "lookup", "info", "tail",
    "check", "exists",
    "batch-get", "head", "query", "scan", "select", "filter", "view", "print", "configure", "config",
    "read", "diff", "validate",
)  # fmt: skip

# Changes something on this machine: denied where a mode only reads.
CHANGING: Final = (
    "git add|stage|rm|mv|reset|restore|checkout|switch|clean|stash|init|clone|apply|bisect|gc|prune"
    "|repack|replace|update-ref"
    "|update-index|symbolic-ref|write-tree|read-tree|checkout-index|hash-object|mktag|mktree|pack-refs"
    "|pack-objects|unpack-objects"
    "|index-pack|fetch|submodule|sparse-checkout|subtree|rerere|maintenance|lfs|flow|annex|undo|absorb"
    "|mergetool|fast-import"
    "|prune-packed|commit-graph|multi-pack-index|fsmonitor--daemon|credential|svn|p4|request-pull"
    "|difftool|merge-file|merge-index",
    "git branch|tag|config",
    "git worktree add|remove|move|prune|lock|unlock|repair",
    "git remote add|remove|rm|rename|set-url|set-head|set-branches|prune|update",
    "git notes remove|prune",
    "git reflog expire|delete",
    "git bundle create|unbundle",
    "hg add|addremove|remove|rm|rename|mv|copy|revert|update|up|checkout|co|clone|init|pull|strip|shelve"
    "|unshelve|backout|purge|tag",
    "svn add|revert|update|up|checkout|co|switch|merge|cleanup|resolve|export",
    "jj new|edit|abandon|restore|bookmark|undo|init|op",
    "rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "trash-empty", "rimraf", "del", "rip",
    "gio trash|remove|move|copy",
    "mv", "cp", "ln", "link", "install", "mkdir", "mkfifo", "mknod", "touch", "truncate", "fallocate",
    "tee", "sponge", "dd", "split",
    "csplit", "chmod", "chown", "chgrp", "chattr", "setfacl", "xattr", "rename", "prename", "mmv", "rsync",
    "scp", "sftp", "ditto",
    "patch", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "emacsclient", "pico", "micro", "hx",
    "code", "subl", "zed", "cursor",
    "sd", "2to3", "codemod", "comby", "jscodeshift",
    "unzip", "7z", "7za", "unrar", "cpio", "ar", "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz",
    "lzma", "zstd", "unzstd",
    "compress", "uncompress", "zip", "tar",
    "find -delete|-fprint|-fprintf|-fprint0|-fls",
    "kill", "pkill", "killall", "skill", "xkill", "fuser",
    "crontab", "ssh-keygen", "gpg", "openssl genrsa|req|genpkey|rand", "wget", "wget2", "aria2c", "axel",
    "make install|uninstall|clean|distclean|deploy|publish|release",
    "npm uninstall|un|unlink|remove|rm|r|prune|version|pkg|config|set|cache|shrinkwrap|dedupe",
    "pnpm remove|rm|uninstall|un|prune|store|patch|patch-commit|version",
    "yarn remove|version|cache|autoclean|set|config|patch|patch-commit",
    "bun remove|rm|unlink|patch",
    "pip uninstall|cache|config",
    "pipx uninstall|uninstall-all", "uv remove|lock|init|venv|cache|version", "uv pip uninstall",
    "uv tool uninstall",
    "poetry remove|lock|version|init|new|env|cache", "pdm remove|lock|init|cache",
    "pipenv uninstall|lock|clean",
    "conda remove|uninstall|clean|config",
    "cargo remove|rm|clean|fix|fmt|init|new|uninstall|generate-lockfile|vendor",
    "rustup uninstall|self|override", "rustfmt", "go mod|generate|clean|fmt|fix|work", "gofmt -w",
    "goimports -w", "gem uninstall|cleanup",
    "bundle remove|clean|config|lock|cache", "composer remove|dump-autoload",
    "brew uninstall|remove|rm|cleanup|autoremove|link|unlink",
    "dotnet new|remove|clean|restore|format|publish|pack|sln|ef",
    "mix format|deps.clean|ecto.migrate|ecto.drop|ecto.create",
    "rails generate|g|destroy|d|db:migrate|db:drop|db:create|db:reset|db:rollback",
    "rake db:migrate|db:drop|db:reset",
    "alembic upgrade|downgrade|revision|stamp", "flask db", "prisma migrate|db|generate|format",
    "knex migrate:latest|migrate:rollback",
    "black", "isort", "autopep8 -i", "yapf -i", "prettier --write|-w", "eslint --fix",
    "biome --write|--apply", "ruff format", "ruff check --fix",
    "stylelint --fix", "standard --fix", "rubocop -a|-A|--auto-correct|--autocorrect", "clang-format -i",
    "shfmt -w", "terraform fmt",
    "tsc-watch", "ctags", "etags",
    "psql", "mysql", "sqlite3", "mongosh", "mongo", "redis-cli", "createdb", "dropdb", "createuser",
    "dropuser", "pg_restore", "mysqladmin",
    "mysqlimport", "cockroach", "influx", "cqlsh",
    "tmux", "screen", "service", "logger", "wall", "write", "mesg",
    "ldconfig", "update-alternatives", "locale-gen", "depmod",
)  # fmt: skip
# Programs that change something only with one of these options.
CHANGING_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sed": frozenset({"-i", "--in-place"}),
        "gsed": frozenset({"-i", "--in-place"}),
        "perl": frozenset({"-i"}),
        "ruby": frozenset({"-i"}),
        "awk": frozenset({"-i", "--in-place", "--inplace"}),
        "gawk": frozenset({"-i", "--in-place", "--inplace"}),
        "yq": frozenset({"-i", "--inplace", "--in-place"}),
        "sort": frozenset({"-o", "--output"}),
        "curl": frozenset({"-o", "-O", "--output", "--remote-name", "--remote-name-all", "--output-dir",
                           "-J", "-T", "--upload-file", "-X", "--request", "-d", "--data", "--data-raw",
                           "--data-binary", "--data-urlencode", "--data-ascii", "--json", "-F", "--form",
                           "--form-string", "-c", "--cookie-jar", "-D", "--dump-header"}),
        "http": frozenset({"-d", "--download", "-o", "--output", "-f", "--form"}),
    }
)  # fmt: skip
# Commands that list without any operand more than that many, unless one of the options makes them change something.
LISTING: Final[Mapping[str, tuple[int, frozenset[str]]]] = MappingProxyType(
    {
        "git branch": (0, frozenset({"-d", "-D", "-m", "-M", "-c", "-C", "-f", "-u", "--delete", "--move",
                                     "--copy", "--force",
                                     "--set-upstream-to", "--unset-upstream", "--edit-description",
                                     "--track", "-t"})),
        "git tag": (0, frozenset({"-d", "--delete", "-a", "-s", "-u", "-m", "-F", "-f", "--annotate",
                                  "--sign", "--force"})),
        "git config": (1, frozenset({"--add", "--unset", "--unset-all", "--replace-all", "--edit", "-e",
                                     "--rename-section",
                                     "--remove-section"})),
    }
)  # fmt: skip
# Options that make a list of them whatever else stands there, but for those above.
LISTING_OPTIONS: Final = frozenset(
    {"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at",
     "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--verify"}
)  # fmt: skip
# First words, or options anywhere, that make of a command that changes something one that does not.
HARMLESS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "git stash": frozenset({"list", "show"}),
        "git submodule": frozenset({"status", "summary"}),
        "git bisect": frozenset({"log", "view", "visualize"}),
        "git lfs": frozenset({"ls-files", "status", "env", "version"}),
        "git apply": frozenset({"--check", "--stat", "--numstat", "--summary"}),
        "git sparse-checkout": frozenset({"list"}),
        "git rerere": frozenset({"status", "diff", "remaining"}),
        "git subtree": frozenset({"split"}),
        "tar": frozenset({"-t", "--list"}),
        "unzip": frozenset({"-l", "-v", "-t", "-p", "-Z"}),
        "gzip": frozenset({"-c", "-l", "-t", "--stdout", "--list", "--test"}),
        "gunzip": frozenset({"-c", "-l", "-t", "--stdout", "--list", "--test"}),
        "xz": frozenset({"-c", "-l", "-t", "--stdout", "--list", "--test"}),
        "bzip2": frozenset({"-c", "-t", "--stdout", "--test"}),
        "zstd": frozenset({"-c", "-l", "-t", "--stdout", "--list", "--test"}),
        "black": frozenset({"--check", "--diff"}),
        "isort": frozenset({"-c", "--check", "--check-only", "--diff"}),
        "ruff format": frozenset({"--check", "--diff"}),
        "cargo fmt": frozenset({"--check"}),
        "rustfmt": frozenset({"--check"}),
        "terraform fmt": frozenset({"--check"}),
        "kill": frozenset({"-0", "-l"}),
        "crontab": frozenset({"-l"}),
    }
)  # fmt: skip
# `gh api` and `glab api`: with one of these it is no mere look. A method that is not GET counts too.
API_METHODS: Final = frozenset({"-X", "--method"})
API_FIELDS: Final = frozenset({"-f", "-F", "--field", "--raw-field", "--input"})
API_READS: Final = frozenset({"get", "head", "options"})
