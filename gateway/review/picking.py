"""A selection as a condition of SQL: the same records as `Selection.matches` picks one by one."""

from typing import Final

from gateway.review.columns import COLUMNS
from gateway.review.selection import Selection, expression

# What is not simply a text or a number, as one text of its values.
_SPELLED: Final = {
    "sandbox": "concat_ws(chr(10), sandbox.backend, sandbox.file_rules)",
    "permissions": "array_to_string(json_extract_string(permissions, '$.*'), chr(10))",
    "refs": (
        "array_to_string(list_transform(refs, lambda one: concat_ws(chr(10), one.ref, one.old, one.new, one.kind, "
        "one.verdict, one.rule, one.reason, one.status)), chr(10))"
    ),
}


def _spelled(name: str, kind: str) -> str:
    if kind.startswith("VARCHAR[]"):
        return f'array_to_string("{name}", chr(10))'
    return _SPELLED.get(name) or f'CAST("{name}" AS VARCHAR)'


# What `--text` looks into: every value of every field, but no yes and no.
_SEARCHED: Final = ", ".join(_spelled(name, kind) for name, kind in COLUMNS.items() if kind != "BOOLEAN")


def condition(selection: Selection) -> tuple[str, list[object]]:
    """The condition on the view `lines`, and the values of its question marks; TRUE for everything."""
    parts: list[str] = []
    values: list[object] = []

    def add(part: str, *more: object) -> None:
        parts.append(part)
        values.extend(more)

    for column, wanted in (("event", selection.events), ("session", selection.sessions)):
        if wanted:
            add(f"list_contains(?, {column})", sorted(wanted))
    if selection.hosts:
        pattern = expression(selection.hosts)
        add("(_fits(host, ?) OR _fits(host_unicode, ?))", pattern, pattern)
    if selection.verdicts:
        names = sorted(selection.verdicts)
        of_refs = "list_has_any(list_transform(refs, lambda one: one.verdict), ?)"
        add(f"(coalesce(list_contains(?, verdict), false) OR {of_refs})", names, names)
    if selection.codes:
        add("list_contains(?, code)", sorted(selection.codes))
    if selection.rules:
        pattern = expression(selection.rules)
        of_refs = "list_bool_or(list_transform(refs, lambda one: _fits(one.rule, ?)))"
        add(f"(_fits(rule, ?) OR {of_refs})", pattern, pattern)
    if selection.since:
        add("ts >= ?", selection.since)
    if selection.until:
        add("ts < ?", selection.until)
    for text in selection.texts:
        add(f"contains(lower(concat_ws(chr(10), {_SEARCHED})), ?)", text.lower())
    return " AND ".join(f"coalesce({part}, false)" for part in parts) or "true", values
