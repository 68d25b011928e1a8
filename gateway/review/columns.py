"""The columns of the log as tables: every field of every kind of record, with its type. A new one belongs here too."""

from collections.abc import Mapping
from typing import Final

_TEXTS: Final = "VARCHAR[]"
# Field -> type, for all that every record has.
COMMON: Final = {
    "v": "INTEGER",
    "ts": "VARCHAR",
    "seq": "BIGINT",
    "prev": "VARCHAR",
    "session": "VARCHAR",
    "workspace": "VARCHAR",
    "space": "VARCHAR",
    "agent": "VARCHAR",
    "sandbox": "STRUCT(backend VARCHAR, file_rules VARCHAR)",
    "event": "VARCHAR",
    "truncated": "BOOLEAN",
}
_REFS: Final = (
    'STRUCT("ref" VARCHAR, "old" VARCHAR, "new" VARCHAR, kind VARCHAR, verdict VARCHAR, "rule" VARCHAR, '
    "reason VARCHAR, status VARCHAR)[]"
)
# Event -> its own fields; the same name is the same type everywhere.
EVENTS: Final = {
    "session": {
        "state": "VARCHAR",
        "mode": "VARCHAR",
        "worktree": "VARCHAR",
        "network": "BOOLEAN",
        "environment_kept": _TEXTS,
        "environment_dropped": _TEXTS,
        "environment_set": _TEXTS,
        "exit_status": "BIGINT",
        "self_test": "VARCHAR",
    },
    "egress": {
        "connection": "VARCHAR",
        "state": "VARCHAR",
        "transport": "VARCHAR",
        "host": "VARCHAR",
        "host_unicode": "VARCHAR",
        "port": "BIGINT",
        "verdict": "VARCHAR",
        "code": "VARCHAR",
        "rule": "VARCHAR",
        "address": "VARCHAR",
        "sni": "VARCHAR",
        "method": "VARCHAR",
        "path": "VARCHAR",
        "status": "BIGINT",
        "bytes_up": "BIGINT",
        "bytes_down": "BIGINT",
        "duration_ms": "BIGINT",
        "close": "VARCHAR",
        "count": "BIGINT",
    },
    "push": {
        "repository": "VARCHAR",
        "refs": _REFS,
        "bytes": "BIGINT",
        "duration_ms": "BIGINT",
        "approver": "VARCHAR",
        "code": "VARCHAR",
        "reason": "VARCHAR",
        "client": "VARCHAR",
        "count": "BIGINT",
        "deleted_protected": _TEXTS,
        "deleted_unknown": "BOOLEAN",
    },
    "token": {
        "state": "VARCHAR",
        "kind": "VARCHAR",
        "repositories": _TEXTS,
        "permissions": "JSON",
        "expires": "VARCHAR",
        "reason": "VARCHAR",
    },
    "action": {
        "tool": "VARCHAR",
        "command": "VARCHAR",
        "effects": _TEXTS,
        "verdict": "VARCHAR",
        "rule": "VARCHAR",
        "reason": "VARCHAR",
        "approver": "VARCHAR",
        "target": "VARCHAR",
        "code": "VARCHAR",
        "count": "BIGINT",
    },
    "approval": {
        "id": "BIGINT",
        "state": "VARCHAR",
        "approver": "VARCHAR",
        "remember": "BOOLEAN",
        "action": "VARCHAR",
        "summary": "VARCHAR",
        "reason": "VARCHAR",
        "override": "BOOLEAN",
    },
    "violation": {
        "action": "VARCHAR",
        "target": "VARCHAR",
        "rule": "VARCHAR",
        "raw": "VARCHAR",
        "count": "BIGINT",
    },
    "config": {"state": "VARCHAR", "source": "VARCHAR", "old": "VARCHAR", "new": "VARCHAR"},
    "checkpoint": {
        "chain": "VARCHAR",
        "head": "VARCHAR",
        "count": "BIGINT",
        "reason": "VARCHAR",
        "key": "VARCHAR",
        "signature": "VARCHAR",
    },
}
# Column -> type, of all records.
COLUMNS: Final = {**COMMON, **{name: kind for fields in EVENTS.values() for name, kind in fields.items()}}
# Kinds of columns as `json_transform` has them.
STRUCTURES: Final[Mapping[str, object]] = {
    _TEXTS: ["VARCHAR"],
    COMMON["sandbox"]: {"backend": "VARCHAR", "file_rules": "VARCHAR"},
    _REFS: [
        dict.fromkeys(("ref", "old", "new", "kind", "verdict", "rule", "reason", "status"), "VARCHAR"),
    ],
}
