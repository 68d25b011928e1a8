"""A push that a person must approve: what they are asked, and the wait, in which the client may leave at any time.

The question is about these refs with these ids in this repository, held by this one request. The body goes on into a
spool meanwhile, so that a client that leaves is noticed at once.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from gateway.approvals import NOBODY, Answer, Question
from gateway.policy.push import PushRequest
from gateway.policy.remembering import remembered_push
from gateway.policy.repositories import RepositoryName
from gateway.policy.rules import OVERRIDABLE, Rule
from gateway.push.commands import Command, PushCommands
from gateway.push.content import Content
from gateway.push.context import PushContext
from gateway.push.inbound import ClientGone, Inbound
from gateway.push.reply import Talk
from gateway.push.verdicts import RefVerdict

_CANNOT_WAIT: Final = (
    "a person must approve this, and this git client cannot wait for it (it has no side-band)"
)
# Seconds between two lines that say how long there is still to wait.
_REMIND: Final = 30.0
# Refs named in the line a person reads first.
_NAMED: Final = 3


async def ask_about(
    context: PushContext,
    repository: RepositoryName,
    push: PushCommands,
    refs: Sequence[RefVerdict],
    subjects: Sequence[tuple[str, str]],
    content: Content,
    inbound: Inbound,
    talk: Talk,
) -> Answer:
    """A person's answer about these refs. ClientGone withdraws the question; what `Content.hold` raises does too."""
    approvals = context.door.approvals
    summary, details = _question(str(repository), push, refs, subjects)
    override = any(ref.decision is not None and ref.decision.code == OVERRIDABLE for ref in refs)
    rules = tuple(filter(None, (_rule(repository, ref) for ref in refs)))
    question = approvals.question(context.session, "push", summary, details, rules=rules, override=override)
    if not talk.possible and approvals.attended:
        return Answer(False, _CANNOT_WAIT)
    if not approvals.attended:
        await approvals.ask(question)  # for its record
        return Answer(False, NOBODY)
    asking = asyncio.create_task(approvals.ask(question))
    holding = asyncio.create_task(content.hold(context.spool_folder, asking.done))
    leaving = asyncio.create_task(inbound.departure())
    telling = asyncio.create_task(_tell(context, question, talk))
    try:
        async with talk.kept_alive():
            await asyncio.wait((asking, leaving, holding), return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
                await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise ClientGone
        answer = asking.result()
        await holding
        return answer
    finally:
        for task in (asking, holding, leaving, telling):
            task.cancel()
        await asyncio.wait((asking, holding, leaving, telling))


async def _tell(context: PushContext, question: Question, talk: Talk) -> None:
    while True:
        minutes = max(1, math.ceil((question.deadline - context.clock()) / 60))
        await talk.say(f"waiting for approval {question.id} ({minutes} min left)")
        await context.sleep(_REMIND)


def _rule(repository: RepositoryName, ref: RefVerdict) -> Rule | None:
    """What a remembered yes to one ref allows; nothing where the rules deny it: that is overridden once."""
    command, decision = ref.command, ref.decision
    if not isinstance(command, Command) or decision is None or decision.code == OVERRIDABLE:
        return None
    return remembered_push(PushRequest(repository, command.ref, ref.kind))


def _question(
    repository: str, push: PushCommands, refs: Sequence[RefVerdict], subjects: Sequence[tuple[str, str]]
) -> tuple[str, dict[str, object]]:
    """The line, and exactly what is asked. Names that are not ASCII are marked: many letters look like others."""
    named = ", ".join(f"{ref.kind} {ref.command.shown}" for ref in refs[:_NAMED])
    more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
    details: dict[str, object] = {
        "repository": repository,
        "refs": [
            {
                "ref": ref.command.shown,
                "old": ref.command.old,
                "new": ref.command.new,
                "kind": ref.kind.value,
                "ascii": ref.command.shown.isascii(),
            }
            for ref in refs
        ],
        "others": len(push.commands) - len(refs),
        "commits": [{"id": commit, "subject": subject} for commit, subject in subjects],
    }
    return f"push to {repository}: {named}{more}", details
