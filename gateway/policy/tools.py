"""The tools of known agents: what a call of each is about, and which of its fields say so. Data, and its look-up.

To teach the product a tool, add a row here and one to the table of its test. What stands in no row is not known, and
that is asked about in chat and denied in the modes that only read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.policy.actions import CHANGING, Action
from gateway.policy.modes import READ_ONLY, Mode


class Kind(StrEnum):
    """How a call is judged."""

    OWN = "own"  # the agent's own affairs, or mere reading of what is no file: nothing to judge
    READ = "read"  # reads the files it names
    WRITE = "write"  # writes the files it names
    PATCH = "patch"  # a patch that names its files itself
    SHELL = "shell"  # runs a shell line
    WEB = "web"  # fetches from the addresses it names
    ACT = "act"  # has the effects of its row, on what it names


@dataclass(frozen=True, slots=True)
class Tool:
    """A row. `fields` of the input hold what the call is about (a text, or several in a list), the first of them that
    is there counts unless `every` does; `needed`: without one of them the call cannot be understood. `below` hold a
    pattern of names below that. `changes` says that a mode that only reads does not offer it."""

    kind: Kind
    fields: tuple[str, ...] = ()
    needed: bool = True
    every: bool = False
    below: tuple[str, ...] = ()
    effects: tuple[Action, ...] = ()
    changes: bool = False

    @property
    def is_offered(self) -> bool:
        """Whether modes that only read have it."""
        changing = self.kind in (Kind.WRITE, Kind.PATCH) or not CHANGING.isdisjoint(self.effects)
        return not (changing or self.changes)


def _rows(tool: Tool, names: str) -> dict[str, Tool]:
    """One row for each of several names."""
    return dict.fromkeys(names.split(), tool)


_OWN: Final = Tool(Kind.OWN)
_READ: Final = Tool(Kind.READ, ("file_path", "absolute_path", "notebook_path", "path"))
_LOOK: Final = Tool(Kind.READ, ("path", "dir_path"), needed=False)
_SEEK: Final = Tool(Kind.READ, ("path", "dir_path"), needed=False, below=("glob", "include"))
_WRITE: Final = Tool(Kind.WRITE, ("file_path", "notebook_path", "absolute_path", "path"))
_SHELL: Final = Tool(Kind.SHELL, ("command", "cmd"))
_SEARCH: Final = Tool(Kind.ACT, ("query", "q"), effects=(Action.ACCESS_NETWORK,))
_RUN: Final = Tool(Kind.ACT, ("skill", "command"), needed=False, effects=(Action.SPAWN_PROCESS,))

# Claude Code's, of all versions that are in use.
CLAUDE_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    _rows(_READ, "Read NotebookRead")
    | _rows(_LOOK, "Glob LS")
    | _rows(_SEEK, "Grep")
    | _rows(_WRITE, "Write Edit MultiEdit NotebookEdit")
    | _rows(_SHELL, "Bash Monitor")
    | _rows(Tool(Kind.WEB, ("url",)), "WebFetch")
    | _rows(_SEARCH, "WebSearch")
    | _rows(_RUN, "Skill SlashCommand")
    | _rows(Tool(Kind.OWN, changes=True), "EnterWorktree")
    | _rows(Tool(Kind.ACT, ("name",), needed=False, effects=(Action.DELETE_FILE,)), "ExitWorktree")
    | _rows(
        _OWN,
        "Agent Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate AgentOutputTool BashOutput KillBash "
        "KillShell TodoRead TodoWrite AskUserQuestion EnterPlanMode ExitPlanMode exit_plan_mode ListMcpResources "
        "ListMcpResourcesTool ReadMcpResource ReadMcpResourceTool LSP ToolSearch CronCreate CronDelete CronList "
        "ScheduleWakeup StructuredOutput SendMessage PushNotification WaitForMcpServers",
    )
)
# Codex's and Gemini CLI's, and the spellings that other agents have for the same.
OTHER_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    _rows(Tool(Kind.PATCH, ("input", "patch", "command")), "apply_patch")
    | _rows(_SHELL, "shell bash exec_command local_shell container.exec shell_command run_shell_command")
    | _rows(_READ, "read_file view_image")
    | _rows(Tool(Kind.READ, ("paths", "include")), "read_many_files")
    | _rows(_LOOK, "list_directory list_dir glob")
    | _rows(_SEEK, "grep grep_files grep_search search_file_content")
    | _rows(_WRITE, "write_file replace edit_file")
    | _rows(Tool(Kind.WEB, ("url", "prompt")), "web_fetch")
    | _rows(_SEARCH, "google_web_search web_search")
    | _rows(_OWN, "update_plan save_memory write_todos ask_user")
)

_REVIEW: Final = Tool(Kind.ACT, effects=(Action.PUBLISH_REVIEW,))
_REQUEST: Final = Tool(Kind.ACT, effects=(Action.OPEN_PULL_REQUEST,))
_TRACKER: Final = Tool(Kind.ACT, effects=(Action.WRITE_TRACKER,))
# By the forge's API, so past the push gateway.
_PUSH: Final = Tool(Kind.ACT, effects=(Action.PUSH,))
# Tools of MCP servers, by a word in the server's name. The names are those of the servers' own documentation.
MCP_TOOLS: Final[Mapping[str, Mapping[str, Tool]]] = MappingProxyType(
    {
        "github": _rows(_REQUEST, "create_pull_request create_pull_request_with_copilot")
        | _rows(
            _REVIEW,
            "merge_pull_request update_pull_request create_pull_request_review pull_request_review_write "
            "create_and_submit_pull_request_review create_pending_pull_request_review add_pull_request_review_comment "
            "submit_pending_pull_request_review delete_pending_pull_request_review add_comment_to_pending_review "
            "add_reply_to_pull_request_comment request_copilot_review enable_pull_request_auto_merge",
        )
        | _rows(
            _TRACKER,
            "create_issue update_issue issue_write add_issue_comment sub_issue_write add_sub_issue remove_sub_issue "
            "reprioritize_sub_issue assign_copilot_to_issue label_write",
        )
        | _rows(
            _PUSH, "push_files create_or_update_file delete_file create_branch update_pull_request_branch"
        ),
        "gitlab": _rows(_REQUEST, "create_merge_request")
        | _rows(
            _REVIEW, "merge_merge_request update_merge_request create_merge_request_note create_draft_note"
        )
        | _rows(_TRACKER, "create_issue update_issue delete_issue create_issue_note create_note")
        | _rows(_PUSH, "push_files create_or_update_file create_branch"),
        "linear": _rows(
            _TRACKER,
            "create_issue update_issue save_issue delete_issue create_comment save_comment create_project "
            "update_project save_project create_issue_label create_document update_document",
        ),
        "atlassian": _rows(
            _TRACKER,
            "createJiraIssue editJiraIssue transitionJiraIssue addCommentToJiraIssue addWorklogToJiraIssue "
            "createConfluencePage updateConfluencePage createConfluenceFooterComment createConfluenceInlineComment "
            "jira_create_issue jira_update_issue jira_delete_issue jira_add_comment jira_transition_issue",
        ),
        "slack": _rows(_TRACKER, "slack_post_message slack_reply_to_thread slack_send_message"),
        "notion": _rows(
            _TRACKER, "notion-create-pages notion-update-page notion-create-comment notion-move-pages"
        ),
        "filesystem": _rows(
            Tool(Kind.READ, ("path", "paths"), needed=False),
            "read_file read_text_file read_media_file read_multiple_files list_directory directory_tree "
            "list_directory_with_sizes search_files get_file_info list_allowed_directories",
        )
        | _rows(Tool(Kind.WRITE, ("path",)), "write_file edit_file create_directory")
        | _rows(Tool(Kind.WRITE, ("source", "destination"), every=True), "move_file"),
        "fetch": _rows(Tool(Kind.WEB, ("url",)), "fetch"),
        "playwright": _rows(Tool(Kind.WEB, ("url",)), "browser_navigate"),
        "puppeteer": _rows(Tool(Kind.WEB, ("url",)), "puppeteer_navigate"),
        "git": _rows(Tool(Kind.ACT, effects=(Action.COMMIT,)), "git_commit"),
    }
)
# Servers of which everything that begins so reads and changes nothing.
_READING: Final = re.compile(
    r"(?:get|list|search)_[a-z_]+|(?:pull_request|issue)_read|git_(?:status|diff|diff_unstaged|diff_staged|log|show)"
)
_READERS: Final = frozenset({"github", "gitlab", "linear", "git"})
_MCP: Final = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")
_WORD: Final = re.compile(r"[a-z0-9]+")


def find_tool(name: str) -> Tool | None:
    """The row of a tool; None for one that is not known."""
    found = CLAUDE_TOOLS.get(name) or OTHER_TOOLS.get(name)
    return found if found is not None else _mcp_tool(name)


def _mcp_tool(name: str) -> Tool | None:
    """`mcp__SERVER__TOOL`: the server's name is whatever its user calls it, usually with the product's in it."""
    parts = _MCP.fullmatch(name)
    if parts is None:
        return None
    tool = parts["tool"]
    for word in _WORD.findall(parts["server"].lower()):
        row = MCP_TOOLS.get(word, {}).get(tool)
        if row is not None:
            return row
        if word in _READERS and _READING.fullmatch(tool):
            return _OWN
    return None


def offered_tools(mode: Mode) -> tuple[str, ...]:
    """The names of the tools that a mode has, sorted."""
    return tuple(name for name, tool in _sorted() if mode not in READ_ONLY or tool.is_offered)


def disallowed_tools(mode: Mode) -> tuple[str, ...]:
    """The names of known tools that a mode does not offer, sorted."""
    return tuple(name for name, tool in _sorted() if mode in READ_ONLY and not tool.is_offered)


def disallowed_claude_tools(mode: Mode) -> tuple[str, ...]:
    """Those among them that are Claude Code's own."""
    return tuple(name for name in disallowed_tools(mode) if name in CLAUDE_TOOLS)


def _sorted() -> list[tuple[str, Tool]]:
    return sorted({**CLAUDE_TOOLS, **OTHER_TOOLS}.items())
