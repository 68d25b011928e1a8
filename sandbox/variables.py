"""The lists behind the environment of the wrapped process. Data only; `env.py` says how they are used.

Names are compared in upper case. A pattern is a name with `*` for anything.
"""

# Passed from the host as they are: terminal, language, identity of the author, plain switches.
PASSED = (
    "TERM", "COLORTERM", "COLORFGBG", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
    "CLICOLOR_FORCE", "COLUMNS", "LINES", "LS_COLORS",
    "LANG", "LANGUAGE", "LC_*", "TZ",
    "USER", "LOGNAME",
    "CI", "DEBIAN_FRONTEND", "SOURCE_DATE_EPOCH",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING",
    "NODE_ENV", "RUST_BACKTRACE", "RUST_LOG", "CARGO_TERM_COLOR", "GOMAXPROCS", "GOARCH", "GOOS", "CGO_ENABLED",
    "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "PYENV_VERSION", "RUSTUP_TOOLCHAIN", "NVM_BIN",
)  # fmt: skip

# Names of a program that other programs run: passed when it is a plain name or a system path.
PROGRAMS = ("EDITOR", "VISUAL", "PAGER", "SHELL")

# Paths of toolchains: passed when the wrapped process can see them.
LOCATIONS = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "RUSTUP_HOME", "JAVA_HOME", "GOROOT", "SDKMAN_DIR",
    "VOLTA_HOME", "ASDF_DIR", "ASDF_DATA_DIR", "BUN_INSTALL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CONFIG_DIR",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
)  # fmt: skip

# Set by the wrap itself, whatever the host says.
PLACES = ("HOME", "PATH", "TMPDIR", "TMP", "TEMP", "TMPPREFIX", "PWD", "OLDPWD", "SHLVL", "_")

# The agents' own model providers: the agent cannot work without its key, so these beat the credential patterns.
MODEL_PROVIDERS = (
    "ANTHROPIC_*", "CLAUDE_*", "CLAUDECODE",
    "OPENAI_*", "CODEX_*", "AZURE_OPENAI_*",
    "GEMINI_*", "GOOGLE_API_KEY", "GOOGLE_GENAI_*", "GOOGLE_GENERATIVE_AI_*",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OPENROUTER_*", "MISTRAL_*", "GROQ_*", "XAI_*", "DEEPSEEK_*", "COHERE_*", "TOGETHER_*", "FIREWORKS_*",
    "PERPLEXITY_*", "CEREBRAS_*", "OLLAMA_*", "LITELLM_*", "DASHSCOPE_*", "QWEN_*", "MOONSHOT_*", "KIMI_*", "ZAI_*",
    "AIDER_*", "GOOSE_*", "OPENCODE_*", "CURSOR_*", "AMP_API_KEY", "VERTEXAI_*",
)  # fmt: skip
# Except for what an agent keeps under its own prefix for somebody else: forges and trackers.
NOT_MODEL_PROVIDERS = (
    "*GITHUB*",
    "*GITLAB*",
    "*BITBUCKET*",
    "*GITEA*",
    "*JIRA*",
    "*LINEAR*",
    "*ATLASSIAN*",
    "*CONFLUENCE*",
    "*ASANA*",
    "*NOTION*",
    "*TRELLO*",
    "*CLICKUP*",
    "*YOUTRACK*",
)

# Load code into, or redirect, any program that is started. Never passed and never set, not even by name.
LOADER_INJECTION = (
    "LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS",
    "LOCALDOMAIN", "MALLOC_*", "GETCONF_DIR", "RESOLV_*",
)  # fmt: skip

# What git runs, reads or writes; the wrap sets what git needs.
GIT_INJECTION = (
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE",
    "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR", "GIT_CONFIG", "GIT_CONFIG_*", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL_FROM_USER", "GIT_SSL_*", "GIT_HTTP_*",
    "GIT_TRACE*", "GIT_CURL_*", "GIT_REDIRECT_*", "GIT_ATTR_*", "GIT_TERMINAL_PROMPT",
)  # fmt: skip

# Load code into one kind of program. Never passed from the host; what is named with a value is the user's own word.
INTERPRETER_INJECTION = (
    # shells
    "BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "IFS",
    "ZDOTDIR", "FPATH", "KSH_ENV",
    # Python
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONPLATLIBDIR",
    "PYTHONWARNINGS", "PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONCASEOK", "PYTHONPYCACHEPREFIX",
    "PIP_*", "UV_*",
    # Node and its kin
    "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "NPM_CONFIG_*",
    "ELECTRON_RUN_AS_NODE", "BUN_*", "DENO_*",
    # Perl, Ruby, Lua, R, PHP
    "PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_*",
    "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "R_PROFILE*", "R_ENVIRON*", "R_LIBS*", "PHPRC", "PHP_INI_SCAN_DIR",
    # Java, .NET, Go, Rust, make, compilers
    "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "MAVEN_ARGS", "GRADLE_OPTS",
    "DOTNET_STARTUP_HOOKS", "DOTNET_*PROFILER*", "COMPLUS_*", "CORECLR_*", "GOFLAGS", "GOENV", "GOTOOLCHAIN",
    "GOPROXY", "GONOSUMDB", "GONOSUMCHECK", "GOPRIVATE", "RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_*_RUNNER", "MAKEFLAGS",
    "MAKEFILES", "CC", "CXX", "LESSOPEN", "LESSCLOSE", "MANPAGER", "BROWSER",
    # TLS
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSLKEYLOGFILE", "OPENSSL_*",
)  # fmt: skip

# Doors to services of the host: agents that hold keys, desktops, container engines, terminals and editors that type
# for whoever asks, and programs that ask for passwords.
SOCKETS = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNUPGHOME", "DBUS_*", "AT_SPI_BUS_ADDRESS",
    "DISPLAY", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER", "WAYLAND_*", "SWAYSOCK", "I3SOCK", "HYPRLAND_*",
    "XDG_RUNTIME_DIR", "PULSE_*", "PIPEWIRE_*", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID",
    "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "PODMAN_*", "BUILDKIT_HOST", "KUBECONFIG",
    "TMUX", "TMUX_*", "STY", "KITTY_LISTEN_ON", "WEZTERM_UNIX_SOCKET", "NVIM", "NVIM_LISTEN_ADDRESS",
    "EMACS_SERVER_FILE", "VSCODE_*", "WSL_INTEROP", "WSLENV",
    "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS",
)  # fmt: skip

# Settings for git that may hold a login; they count together, so they go together.
GIT_SETTINGS = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_CONFIG_PARAMETERS")

# Where connections go; the wrap sets these, and naming one is a mistake.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY")

# The product's own words to the wrapped process.
OWN = ("AGENT_GATEWAY_*",)
# Of these the ones that belong to a session; the rest is for the program itself (`AGENT_GATEWAY_CONFIG`).
OWN_SESSION = (
    "AGENT_GATEWAY_SESSION", "AGENT_GATEWAY_SANDBOX", "AGENT_GATEWAY_URL", "AGENT_GATEWAY_SECRET",
)  # fmt: skip

# Credentials by name; the exceptions are words that only look like one. A pass list is in force anyway: these
# keep a name that some pattern above lets through from being one.
CREDENTIALS = (
    "*TOKEN*", "*SECRET*", "*PASSW*", "*PASSPHRASE*", "*API_KEY*", "*APIKEY*", "*_KEY", "*CREDENTIAL*", "*PRIVATE*",
    "*_AUTH", "*_AUTH_*", "*AUTHORIZATION*", "*COOKIE*", "*DSN", "*CONNECTION_STRING", "DATABASE_URL",
    "AWS_*", "AZURE_*", "ARM_*", "GOOGLE_*", "GCP_*", "CLOUDSDK_*", "GH_*", "GITHUB_*", "GITLAB_*", "CI_JOB_*",
    "ACTIONS_*", "RUNNER_*", "NPM_*", "PYPI_*", "TWINE_*", "OP_*", "VAULT_*", "CONSUL_*", "TF_VAR_*", "DOCKER_*",
    "HEROKU_*", "CLOUDFLARE_*", "SENTRY_*", "SLACK_*", "STRIPE_*", "TWILIO_*", "PG*", "MYSQL_*", "REDIS_*",
    "BITBUCKET_*", "GITEA_*", "JIRA_*", "LINEAR_*", "ATLASSIAN_*", "CONFLUENCE_*", "ASANA_*", "NOTION_*", "TRELLO_*",
    "CLICKUP_*", "YOUTRACK_*", "SHORTCUT_*", "REDMINE_*", "MONDAY_*",
)  # fmt: skip
CREDENTIAL_EXCEPTIONS = ("TOKENIZERS_PARALLELISM", "GIT_AUTHOR_*")

# Credentials by value, in whatever variable: token shapes, key files, passwords in URLs. Regular expressions.
CREDENTIAL_VALUES = (
    r"\bgh[pousr]_[A-Za-z0-9._-]{20,}",  # newer ones hold an App's number and a JWT
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bgl(pat|rt|dt|cbt)-[A-Za-z0-9_-]{16,}",
    r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[A-Za-z0-9-]{10,}",
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"\b[sr]k_(live|test)_[A-Za-z0-9]{16,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[A-Za-z0-9_-]{30,}",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\bdckr_[op]at_[A-Za-z0-9_-]{16,}",
    r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bya29\.[A-Za-z0-9_-]{20,}",
    r"\bhv[bs]\.[A-Za-z0-9_-]{20,}",
    r"\blin_(api|oauth)_[A-Za-z0-9]{20,}",
    r"\bATATT[A-Za-z0-9_=-]{20,}",
    r"\bntn_[A-Za-z0-9]{20,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.",
    r"-----BEGIN [A-Z ]*PRIVATE KEY",
    r"(?i:\bauthorization\s*:\s*\S)",
    r"(?i:[a-z][a-z0-9+.-]*://[^/?#\s@]+@)",  # any userinfo: a token often stands there without a password
)

# Telemetry is denied by the lists; a client that knows does not try.
TELEMETRY_OFF = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DO_NOT_TRACK": "1",
    "NEXT_TELEMETRY_DISABLED": "1",
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "CHECKPOINT_DISABLE": "1",
    "GOTELEMETRY": "off",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "SCARF_ANALYTICS": "false",
    "TURBO_TELEMETRY_DISABLED": "1",
    "STORYBOOK_DISABLE_TELEMETRY": "1",
}
