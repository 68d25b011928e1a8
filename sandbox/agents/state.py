"""Agents that need their login: which command is one, and the state directory that the product keeps for it.

A wrapped process has a private home, so an agent would find itself logged out in it. Its own directory is never shown:
it holds the history of other projects, the logins of other services, and settings that run programs. Instead a
directory of the workspace takes its place, and a variable says so. It is seeded once (`seeding.py`), from a list:

    state = managed_state(command, environ, folder)     # a look, nothing is changed
    seed(state)                                         # at launch

From inside everything in it can be written but what is `sealed`: settings, hooks and what else runs programs.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.paths import find_program, path_folders
from sandbox.places import within
from sandbox.survey import LINK_LIMIT


@dataclass(frozen=True, slots=True)
class Piece:
    """One file or directory that is copied. `path` is relative to the agent's own directory, and to the managed one.
    Of a JSON object or TOML file with `keys` only those are taken. What stands `beside` the own directory stands in the
    home, as long as no variable moved both."""

    path: str
    keys: tuple[str, ...] = ()
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Agent:
    """What is known of one agent. `own` is its directory below the home when `variable` is not set; `sealed` are paths
    in it and the text of a file that is not there yet, None for a directory. `trust_file` is a sealed TOML file in
    which it notes what worktrees its user trusts (`projects.PATH.trust_level`): it cannot ask for that inside."""

    name: str
    package: str
    variable: str
    own: str
    pieces: tuple[Piece, ...]
    sealed: tuple[tuple[str, str | None], ...]
    trust_file: str = ""


# Preferences, and of what holds secrets only this agent's own login. Left out on purpose: histories, the logins of MCP
# servers, hooks, status lines, helpers that print keys, plugins, whatever is new.
AGENTS = (
    Agent(
        name="claude",
        package="@anthropic-ai/claude-code",
        variable="CLAUDE_CONFIG_DIR",
        own=".claude",
        pieces=(
            Piece(".credentials.json", keys=("claudeAiOauth", "organizationUuid")),
            Piece(
                ".claude.json",
                keys=(
                    "hasCompletedOnboarding", "lastOnboardingVersion", "oauthAccount", "userID", "primaryApiKey",
                    "customApiKeyResponses", "hasAvailableSubscription", "bypassPermissionsModeAccepted", "theme",
                    "editorMode", "diffTool", "verbose", "autoCompactEnabled", "preferredNotifChannel", "language",
                    "firstStartTime", "numStartups",
                ),
                beside=True,
            ),
            Piece(
                "settings.json",
                keys=(
                    "env", "model", "permissions", "language", "theme", "outputStyle", "attribution", "editorMode",
                    "includeCoAuthoredBy", "alwaysThinkingEnabled", "effortLevel", "verbose", "cleanupPeriodDays",
                    "autoCompactEnabled", "spinnerTipsEnabled", "preferredNotifChannel", "respectGitignore",
                    "forceLoginMethod", "forceLoginOrgUUID", "skipDangerousModePermissionPrompt",
                ),
            ),
            Piece("keybindings.json"),
            Piece("CLAUDE.md"),
            Piece("commands"),
            Piece("agents"),
            Piece("skills"),
            Piece("output-styles"),
        ),
        sealed=(
            ("settings.json", "{}\n"),
            ("settings.local.json", "{}\n"),
            ("hooks", None),
            ("commands", None),
            ("agents", None),
        ),
    ),
    Agent(
        name="codex",
        package="@openai/codex",
        variable="CODEX_HOME",
        own=".codex",
        pieces=(
            Piece("auth.json"),
            Piece(
                "config.toml",
                keys=(
                    "model", "review_model", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity",
                    "personality", "approval_policy", "sandbox_mode", "file_opener", "hide_agent_reasoning",
                    "forced_login_method", "preferred_auth_method", "cli_auth_credentials_store", "web_search",
                ),
            ),
            Piece("AGENTS.md"),
            Piece("prompts"),
            Piece("skills"),
            Piece("rules"),
        ),
        sealed=(
            ("config.toml", ""),
            ("hooks.json", '{"hooks": {}}\n'),
            ("rules", None),
            ("prompts", None),
        ),
        trust_file="config.toml",
    ),
    Agent(
        name="gemini",
        package="@google/gemini-cli",
        variable="GEMINI_CLI_HOME",
        own="",
        pieces=(
            Piece(".gemini/oauth_creds.json"),
            Piece(".gemini/google_accounts.json"),
            Piece(".gemini/installation_id"),
            Piece(
                ".gemini/settings.json",
                keys=(
                    "selectedAuthType", "security", "theme", "ui", "general", "model", "privacy", "vimMode",
                    "preferredEditor", "usageStatisticsEnabled",
                ),
            ),
            Piece(".gemini/keybindings.json"),
            Piece(".gemini/GEMINI.md"),
            Piece(".gemini/commands"),
            Piece(".gemini/policies"),
        ),
        sealed=(
            (".gemini/settings.json", "{}\n"),
            (".gemini/commands", None),
            (".gemini/policies", None),
            (".gemini/extensions", None),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ManagedState:
    """One agent's directory in one workspace: what a spec takes from it.

    `folder` is for `runner_state_dirs`, `sealed` for `protected_paths`, `variables` for the environment. `home` and
    `own` are where the user's things are, as absolute paths; `own_is_named` says that the variable named it. `worktree`
    is where the agent works, `hooks` the value of that name in Claude Code's settings (empty: none).
    """

    agent: Agent
    folder: str
    home: str
    own: str
    own_is_named: bool
    worktree: str = ""
    hooks: Mapping[str, object] = field(default_factory=dict)

    @property
    def sealed(self) -> tuple[str, ...]:
        """What is never written from inside."""
        return tuple(os.path.join(self.folder, path) for path, _ in self.agent.sealed)

    @property
    def variables(self) -> Mapping[str, str]:
        """What tells the agent where its directory is."""
        return {self.agent.variable: self.folder}


def managed_state(
    command: Sequence[str],
    environ: Mapping[str, str],
    state_folder: str,
    workdir: str = "/",
    state_dirs: Collection[str] = (),
    worktree: str = "",
) -> ManagedState | None:
    """The directory for the agent that `command` is; None when it is none that is known here.

    `environ` is the host's: HOME, PATH and the agent's own variable. `state_folder` belongs to the workspace or
    worktree, outside of what is shown. `state_dirs` are the directories that the user shows anyway: an agent whose own
    directory is among them needs no other. `worktree` is `workdir` where there is none around it.
    """
    home = environ.get("HOME", "")
    agent = find_agent(command, environ.get("PATH", ""), workdir)
    if agent is None or not os.path.isabs(home):
        return None
    named = environ.get(agent.variable, "")
    own = os.path.normpath(named if os.path.isabs(named) else os.path.join(home, agent.own))
    own_home = os.path.normpath(home)
    if any(within(os.path.realpath(own), os.path.realpath(folder)) for folder in state_dirs):
        return None
    folder = os.path.join(state_folder, "agents", agent.name)
    return ManagedState(agent, folder, own_home, own, os.path.isabs(named), worktree or workdir)


def find_agent(command: Sequence[str], search_path: str, workdir: str) -> Agent | None:
    """Which agent a command is: by its name, the names of links on the way to it, or its npm package."""
    if not command:
        return None
    path = find_program(command[0], path_folders(search_path), workdir)
    for _ in range(LINK_LIMIT):
        if not path:
            break
        for agent in AGENTS:
            if os.path.basename(path) == agent.name or f"/node_modules/{agent.package}/" in path:
                return agent
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return None
