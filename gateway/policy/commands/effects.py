"""What commands do, by the actions that rules are about. A row may name alternatives for a word: "gh pr"
" create|new"."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.policy.actions import Action

EFFECTS: Final[Mapping[Action, tuple[str, ...]]] = MappingProxyType(
    {
        Action.COMMIT: (
            "git commit|merge|rebase|cherry-pick|revert|am|pull|commit-tree|filter-branch|filter-repo"
            "|fast-import|citool|gui",
            "git subtree add|merge|pull",
            "git svn rebase|dcommit",
            "gh pr update-branch",
            "hg commit|ci|merge|graft|rebase|import|amend",
            "jj commit|describe|squash|split|rebase|new",
            "svn commit|ci",
        ),
        Action.PUSH: ("git push|send-pack|http-push", "git subtree push", "git lfs push"),
        Action.OPEN_PULL_REQUEST: (
            "gh pr create|new",
            "glab mr create|new",
            "hub pull-request",
            "az repos pr create",
            "git request-pull",
            "bb pr create",
            "tea pr|pulls create",
        ),
        Action.PUBLISH_REVIEW: (
            "gh pr merge|review|comment|close|reopen|edit|ready|lock|unlock|revert",
            "glab mr merge|approve|revoke|note|close|reopen|update|delete|rebase|todo",
            "az repos pr update|set-vote",
            "tea pr|pulls merge|approve|reject|review|close|reopen",
        ),
        Action.WRITE_TRACKER: (
            "gh issue create|new|edit|comment|close|reopen|delete|lock|unlock|pin|unpin|transfer|develop",
            "gh label create|edit|delete|clone",
            "gh project create|edit|delete|close|copy|link|unlink|item-add|item-archive|item-create"
            "|item-delete|item-edit"
            "|field-create|field-delete|mark-template",
            "glab issue create|new|update|note|close|reopen|delete|subscribe|unsubscribe|board",
            "glab label create|delete|edit",
            "jira issue create|edit|comment|move|assign|delete|link|clone|watch|worklog",
            "jira epic create|add|remove",
            "jira sprint add|close",
            "tea issues|issue create|close|reopen|edit",
            "tea comment",
            "linear issue create|update|close|delete|comment",
            "az boards work-item create|update|delete",
        ),
        Action.INSTALL_PACKAGE: (
            "npm install|i|in|ins|inst|insta|instal|isnt|isnta|isntal|isntall|add|ci|clean-install|ic"
            "|install-clean|isntall-clean"
            "|install-test|it|cit|install-ci-test|update|up|upgrade|udpate|create|init|innit|rebuild|rb"
            "|link|ln|dedupe|ddp",
            "pnpm install|i|add|update|up|upgrade|dlx|create|import|rebuild|link|self-update|env"
            "|install-test|it",
            "yarn install|add|up|upgrade|upgrade-interactive|dlx|create|import|link|dedupe|plugin",
            "yarn global add|upgrade",
            "bun install|i|add|a|update|create|x|link|upgrade",
            "bunx",
            "npx -y|-p|--yes|--package",
            "npm exec|x -y|-p|--yes|--package",
            "deno install|add|cache|i|update",
            "corepack enable|prepare|install|use|up",
            "pip install|download|wheel",
            "pipx install|inject|upgrade|upgrade-all|reinstall|reinstall-all|run|install-all",
            "uv add|sync",
            "uv pip install|sync",
            "uv tool install|upgrade|run",
            "uv python install|upgrade",
            "uvx",
            "poetry add|install|update|sync",
            "poetry self add|update",
            "pdm add|install|update|sync",
            "pipenv install|update|sync|upgrade",
            "rye add|sync|install|fetch",
            "hatch dep sync",
            "conda install|create|update|upgrade",
            "conda env create|update",
            "easy_install",
            "ensurepip",
            "cargo install|add|update|binstall",
            "rustup install|update|default",
            "rustup toolchain|component|target add|install",
            "go install|get",
            "gem install|update|i|fetch",
            "bundle install|update|add|i|inject",
            "composer install|require|update|i|u|r|create-project|upgrade",
            "composer global require|install|update",
            "brew install|upgrade|reinstall|tap|bundle|update",
            "port install|upgrade|selfupdate",
            "apt-get install|upgrade|dist-upgrade|full-upgrade|update|build-dep|reinstall|remove|purge"
            "|autoremove|autopurge|source",
            "aptitude install|upgrade|full-upgrade|safe-upgrade|update|remove|purge",
            "dpkg -i|-r|-P|--install|--remove|--purge|--unpack|--configure",
            "rpm -i|-U|-F|-e|--install|--upgrade|--freshen|--erase",
            "yum install|update|upgrade|localinstall|reinstall|groupinstall|remove|erase",
            "zypper install|in|update|up|dist-upgrade|dup|remove|rm",
            "emerge",
            "pacman -S|-R|-U|--sync|--remove|--upgrade",
            "yay",
            "paru",
            "apk add|upgrade|update|del|fix",
            "xbps-install",
            "snap install|refresh|remove",
            "flatpak install|update|uninstall",
            "nix-env -i|-u|-e|--install|--upgrade|--uninstall",
            "nix profile install|add|upgrade",
            "guix install|upgrade|pull",
            "dotnet add",
            "dotnet tool install|update|restore",
            "dotnet workload install|update|restore",
            "nuget install|update|restore",
            "luarocks install|make|build",
            "cpan",
            "cpanm",
            "mix deps.get|deps.update|archive.install|escript.install|local.hex|local.rebar",
            "cabal install|update|get",
            "stack install|setup|upgrade",
            "opam install|update|upgrade",
            "dart pub get|add|upgrade|global",
            "flutter pub get|add|upgrade|global",
            "pod install|update",
            "swift package update|resolve",
            "choco install|upgrade",
            "scoop install|update",
            "winget install|upgrade",
            "asdf install|plugin|plugin-add",
            "mise install|use|upgrade",
            "nvm install",
            "fnm install",
            "volta install|fetch|pin",
            "pyenv install",
            "rbenv install",
            "sdk install|upgrade",
            "gh extension|extensions|ext install|upgrade|create",
            "helm plugin install|update",
            "kubectl krew install|upgrade",
            "code --install-extension",
            "playwright install|install-deps",
            "pre-commit install|install-hooks|autoupdate",
            "tlmgr install|update",
            "ansible-galaxy install",
            "ansible-galaxy collection|role install",
        ),
        Action.ACCESS_NETWORK: (
            "curl", "wget", "wget2", "aria2c", "axel", "http", "https", "xh", "xhs", "curlie", "httpie",
            "lynx", "links",
            "elinks", "w3m", "lwp-request", "get", "ftp", "lftp", "ncftp", "tftp", "sftp", "scp", "rsync",
            "ssh", "mosh",
            "ssh-copy-id", "ssh-keyscan", "sshfs", "autossh", "telnet", "nc", "ncat", "netcat", "socat",
            "nmap", "masscan",
            "ping", "ping6", "traceroute", "tracepath", "mtr", "dig", "nslookup", "host", "drill", "whois",
            "finger",
            "websocat", "wscat", "grpcurl", "yt-dlp", "youtube-dl", "rclone", "s3cmd", "gsutil", "mutt",
            "mail", "mailx",
            "sendmail", "msmtp", "swaks", "ab", "wrk", "hey", "vegeta", "siege", "cloudflared", "ngrok",
            "tailscale",
            "wg", "openvpn", "gh", "glab", "hub", "tea", "aws", "gcloud", "az",
            "git clone|fetch|pull|ls-remote|fetch-pack|svn|p4|request-pull|archive-remote|send-email"
            "|imap-send|daemon",
            "git remote update|show|prune",
            "git submodule update|add",
            "git subtree add|pull",
            "git lfs pull|fetch|clone",
            "openssl s_client",
            "npm view|info|show|search|audit|outdated|ping|whoami",
            "pip index|search",
            "hg clone|pull|incoming|outgoing",
            "svn checkout|co|update|up|export",
        ),
        Action.DELETE_FILE: (
            "rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "trash-empty", "rimraf", "del",
            "rip", "gio trash",
            "git rm|clean",
            "find -delete",
        ),
        Action.ACCESS_SECRET: (
            "security find-generic-password|find-internet-password|dump-keychain|export|find-certificate"
            "|find-key",
            "pass show|ls|find|grep",
            "pass",
            "secret-tool lookup|search",
            "gh auth token|status|login|refresh|setup-git",
            "glab auth status|login",
            "git credential|credential-store|credential-cache|credential-manager|credential-osxkeychain",
            "gcloud auth print-access-token|print-identity-token|application-default|login",
            "aws secretsmanager get-secret-value|batch-get-secret-value",
            "aws ssm get-parameter|get-parameters|get-parameters-by-path",
            "aws sts get-session-token|assume-role",
            "aws configure get|export-credentials",
            "aws ecr get-login-password",
            "az account get-access-token",
            "az keyvault secret",
            "vault read|kv|login|print",
            "op read|item|document|inject|run|signin",
            "bw get|list|unlock|login|export",
            "doppler secrets|run",
            "lpass show|export|ls",
            "gopass show|find|ls",
            "kubectl get secret|secrets",
            "kubectl describe secret|secrets",
            "heroku config|auth:token",
            "vercel env",
            "npm token",
            "docker-credential-desktop",
            "docker-credential-osxkeychain",
            "ssh-add",
        ),
    }
)  # fmt: skip
# Programs that read none of the files that their words name. Every other one may.
READS_NOTHING: Final = frozenset(
    {"rm", "rmdir", "unlink", "touch", "mkdir", "chmod", "chown", "chgrp", "ls", "stat", "test", "[", "cd",
     "pushd", "echo", "printf",
     "git", "find", "which", "type", "command", "basename", "dirname", "realpath", "readlink", "true",
     "false", "ln", "export", "unset",
     "declare", "alias", "gh", "npm", "docker", "kill", "sleep", "eza", "exa", "tree", "du", "truncate",
     "shred"}
)  # fmt: skip
# Programs that write where their last word, or `-t DIR`, says; all of their words; what follows a key.
WRITES_LAST: Final = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "ditto", "gcp", "gmv"})
WRITES_ALL: Final = frozenset(
    {"tee", "touch", "mkdir", "mkfifo", "mknod", "truncate", "fallocate", "sponge", "mkdirhier"}
)
# The first word is what to do, the others are the files.
WRITES_REST: Final = frozenset({"chmod", "chown", "chgrp", "setfacl", "chattr", "xattr"})
WRITES_BEHIND: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "dd": ("of=",),
        "curl": (
            "-o",
            "--output",
            "--output-dir",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
        ),
        "wget": ("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a"),
        "sort": ("-o", "--output"),
        "tar": ("-C", "--directory"),
        "unzip": ("-d",),
        "gpg": ("-o", "--output"),
        "ssh-keygen": ("-f",),
        "openssl": ("-out",),
    }
)
# With one of these options the files that they read are written too.
WRITES_IN_PLACE: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sed": frozenset({"-i", "--in-place"}),
        "gsed": frozenset({"-i", "--in-place"}),
        "perl": frozenset({"-i"}),
        "ruby": frozenset({"-i"}),
        "yq": frozenset({"-i", "--inplace"}),
    }
)


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of network programs with a value that is no address.
NETWORK_VALUES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "curl": _options(
            "-X --request -H --header -d --data --data-raw --data-binary --data-urlencode --data-ascii"
            " --json -o --output -u "
            "--user -A --user-agent -e --referer -b --cookie -c --cookie-jar -F --form --form-string -T"
            " --upload-file -m "
            "--max-time --connect-timeout -w --write-out -C --continue-at -D --dump-header -E --cert"
            " --key --cacert --capath "
            "-r --range -t --telnet-option -Q --quote -U --proxy-user -Y -y -z --time-cond --retry"
            " --retry-delay "
            "--retry-max-time --limit-rate --max-redirs --cert-type --key-type --pass --ciphers --tlsv1"
            " --output-dir "
            "--max-filesize --interface --local-port --stderr --trace --trace-ascii --oauth2-bearer"
            " --aws-sigv4 --create-file-mode "
            "--parallel-max --unix-socket"
        ),
        "wget": _options(
            "-O --output-document -o --output-file -a --append-output -P --directory-prefix -t --tries -T"
            " --timeout -w --wait "
            "-U --user-agent --header --user --password --post-data --post-file --method --body-data"
            " --body-file -A --accept "
            "-R --reject -D --domains -l --level -Q --quota --limit-rate --referer --load-cookies"
            " --save-cookies "
            "--ca-certificate --certificate --private-key -X -I --exclude-directories --include-directories"
        ),
    }
)
# With one of these the request goes somewhere else than its address says, or nobody sees where.
NETWORK_DETOURS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "curl": frozenset({"-x", "--proxy", "--preproxy", "--connect-to", "--resolve", "-K", "--config",
                           "--socks5", "--doh-url",
                           "--socks5-hostname", "--socks4", "--socks4a", "--url-query", "--variable"}),
        "wget": frozenset({"-i", "--input-file", "-e", "--execute", "--config", "-B", "--base"}),
    }
)  # fmt: skip
# Programs whose first words are addresses, also without a scheme: host, host:port, user@host:path.
NETWORK_ADDRESSES: Final = frozenset(
    {"curl", "wget", "wget2", "aria2c", "axel", "http", "https", "xh", "xhs", "lynx", "links", "w3m",
     "telnet", "nc", "ncat",
     "netcat", "ping", "ping6", "traceroute", "host", "dig", "nslookup", "whois", "ssh", "mosh", "sftp",
     "ftp", "ssh-keyscan"}
)  # fmt: skip
# Hosts of programs that have only one.
NETWORK_HOSTS: Final[Mapping[str, str]] = MappingProxyType({"gh": "api.github.com", "hub": "api.github.com"})
