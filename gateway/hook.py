"""`agent-gateway hook pre-tool-use`: the hook that is mounted into wraps, for settings of a user's own."""

from collections.abc import Mapping

from sandbox.hook import main


def pre_tool_use(limit: float | None, environ: Mapping[str, str]) -> int:
    """Reads a tool call from stdin, answers on stdout, and gives the exit status: 2 blocks the call. Never raises.

    `limit` is in seconds; None: shorter than any time that Claude Code gives its hooks.
    """
    return main([] if limit is None else ["--limit", str(limit)], environ)
