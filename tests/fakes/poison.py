"""A log in which everything that an agent, a server or a repository chooses is an attack on whoever shows it."""

from pathlib import Path
from typing import Any

from gateway.audit import EventKind
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.review.columns import EVENTS
from tests.fakes.review_log import Writer

# Each would do something in a page that takes it for markup: the way is in the middle.
ATTACKS = (
    "<script>window.poisoned=1</script>",
    '"><img src=http://evil.test/a.png onerror=window.poisoned=1>',
    "'><svg onload=window.poisoned=1>",
    "</title></style></table><iframe srcdoc='<script>parent.poisoned=1</script>'>",
    "<a href=javascript:window.poisoned=1>x</a>",
    "<meta http-equiv=refresh content='0;url=http://evil.test/'>",
    "<base href=http://evil.test/>",
    "--><!--",
    "&lt;script&gt;&#60;b&#62;",
    "\x1b]0;title\x07\x1b[2J\r\n\u202eevil\u2066\u200b",
)
POISON = " ".join(ATTACKS)


def poisoned_log(folder: Path) -> None:
    """Writes it: every kind of record, every field of it that is a text."""
    writer = Writer(folder)
    session = writer.open("s1" + ATTACKS[0], agent=POISON)
    for at, attack in enumerate(ATTACKS):
        writer.at = at
        writer.tunnel(session, attack, up=20_000_000)
        writer.refuse(session, f"{attack}.test")
        writer.refuse(session, attack, Decision(Verdict.DENY, "deny.txt:1", POISON, Code.DENIED))
        writer.request(session, attack, path=f"/{attack}")
        # Codes are the product's own words, and ASCII.
        writer.fail(session, attack, code=attack if attack.isprintable() else "dns_failed")
    for name, fields in EVENTS.items():
        if name not in ("session", "egress", "checkpoint"):
            writer.note(EventKind(name), session, **_fields(fields))
    for state in ("minted", "revoke_failed"):
        writer.note(EventKind.TOKEN, session, **{**_fields(EVENTS["token"]), "state": state})
    writer.note(
        EventKind.PUSH,
        session,
        **{**_fields(EVENTS["push"]), "refs": [_ref("allow"), _ref("deny")], "code": ""},
    )
    writer.close(session)
    writer.log.close()


def _fields(fields: dict[str, str]) -> dict[str, Any]:
    return {name: _value(kind) for name, kind in fields.items()}


def _value(kind: str) -> Any:
    match kind:
        case "VARCHAR":
            return POISON
        case "VARCHAR[]":
            return [POISON]
        case "BOOLEAN":
            return True
        case "JSON":
            return {ATTACKS[0]: POISON}
        case "BIGINT" | "INTEGER":
            return 7
        case _:
            return [_ref(POISON)]


def _ref(verdict: str) -> dict[str, str]:
    return {
        **dict.fromkeys(("ref", "old", "new", "rule", "reason", "status"), POISON),
        "kind": "force",
        "verdict": verdict,
    }
