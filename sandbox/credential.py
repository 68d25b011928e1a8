"""Runs inside the wrap as git's credential helper: asks the gateway for the session's read-only token.

    python -I -S -E -B credential.py FORGE get|store|erase

FORGE is the forge's URL as configured (`https://github.com`). For `get` git describes on stdin what it wants to reach
(git-credential(1), INPUT/OUTPUT FORMAT); the answer goes to stdout in the same form. Nothing is ever stored, so `store`
and `erase` do nothing. Whatever goes wrong, git gets no answer, exit status 0 and one line on stderr, which it shows:
it goes on without a login, and its own message follows.

What is asked of the gateway, whose address and secret are in AGENT_GATEWAY_URL and AGENT_GATEWAY_SECRET; no proxy is
used:

    POST /agent/git-credential
    X-Agent-Gateway-Session: SECRET
    Content-Type: application/json

    {"host": "github.com", "path": "acme/widget.git"}

`host` is git's (HOST, or HOST:PORT where the URL has a port), `path` the URL's, without the slash in front, with or
without ".git", perhaps with more behind it (Git LFS has `info/lfs`); empty when git gave none. Answers:

    200 {"username": "x-access-token", "password": TOKEN}
    404 there is no token for this repository, perhaps with {"message": SENTENCE}; anything else: no token either

It is mounted into the wrap on its own, so it imports the standard library only. It holds no token but the one it
passes on, and puts none into a message.
"""

import http.client
import json
import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

# What git sends is some lines; a server's `wwwauth[]` among them are the longest.
INPUT_LIMIT = 256 << 10
# Seconds for the gateway's answer: it may have to renew a token at the forge first.
ANSWER_DEADLINE = 60.0
# Two short strings; a token has about 500 characters.
ANSWER_LIMIT = 64 << 10
MESSAGE_LIMIT = 500
CHUNK = 64 << 10

NOT_LISTED = (
    "this session has no token to read {repository}: a public repository needs none; for a private one ask the operator"
    " to add it to the workspace's `repositories` in the config, and to install the GitHub App there"
)
NO_GATEWAY = (
    "the session's gateway cannot be asked for a token ({reason}): start the command with `agent-gateway run`"
)
NO_SECRET = (
    "the session's gateway does not take this AGENT_GATEWAY_SECRET: leave it as `agent-gateway run` set it"
)
NO_ANSWER = (
    "the session's gateway gave no token (status {status}): try again, and tell the operator if it stays"
)


class Failure(Exception):
    """Ends the helper without an answer, with one line on stderr."""


def read_question() -> dict[str, str]:
    """The attributes that git tells, by name; of two the last. Failure when they are no text of that form."""
    data = b""
    while part := os.read(0, CHUNK):
        data += part
        if len(data) > INPUT_LIMIT:
            raise Failure("git describes more than a helper reads")
    lines = data.decode(errors="surrogateescape").split("\n")
    pairs = (line.partition("=") for line in lines if line)
    return {name: value for name, _, value in pairs}


def concerns(question: Mapping[str, str], forge: str) -> bool:
    """Whether git means the forge: the token is for nobody else."""
    scheme, _, authority = forge.partition("://")
    asked = (question.get("protocol", ""), question.get("host", "").lower())
    return bool(authority) and asked == (scheme, authority)


def ask(gateway: str, secret: str, question: Mapping[str, str]) -> tuple[str, str]:
    """User name and password from the gateway. Failure says why there are none."""
    body = json.dumps({"host": question.get("host", ""), "path": question.get("path", "")})
    headers = {"X-Agent-Gateway-Session": secret, "Content-Type": "application/json"}
    try:
        address = urlsplit(gateway)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_DEADLINE)
        connection.request("POST", "/agent/git-credential", body, headers)
        response = connection.getresponse()
        status, answer = response.status, response.read(ANSWER_LIMIT + 1)
        connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise Failure(NO_GATEWAY.format(reason=reason)) from None
    if status == 403:
        raise Failure(NO_SECRET)
    if status == 404:
        repository = shown(question.get("path", "")) or "that"
        raise Failure(message_of(answer) or NOT_LISTED.format(repository=repository))
    if status != 200:
        raise Failure(NO_ANSWER.format(status=status))
    return login_of(answer)


def fields_of(answer: bytes) -> dict[str, object]:
    """The JSON object of an answer; empty for anything else."""
    if len(answer) > ANSWER_LIMIT:
        return {}
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def message_of(answer: bytes) -> str:
    """The gateway's own sentence; empty when it has none."""
    message = fields_of(answer).get("message")
    return shown(message) if isinstance(message, str) else ""


def login_of(answer: bytes) -> tuple[str, str]:
    """User name and password, each in one printable line, or a Failure: a line end in one would speak to git."""
    fields = fields_of(answer)
    username, password = fields.get("username"), fields.get("password")
    if isinstance(username, str) and isinstance(password, str) and is_line(username) and is_line(password):
        return username, password
    raise Failure("the session's gateway gave something that is no token: tell the operator")


def is_line(text: str) -> bool:
    """Whether it can stand behind `username=` or `password=`."""
    return bool(text) and text.isascii() and text.isprintable()


def shown(text: str) -> str:
    """Somebody's text as part of a line for people."""
    return "".join(one if one.isprintable() else " " for one in text[:MESSAGE_LIMIT])


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What git is told. Failure says why nothing is."""
    if len(arguments) != 2:
        raise Failure("usage: credential.py FORGE get|store|erase")
    forge, action = arguments
    question = read_question()  # always: git would find its pipe broken
    if action != "get":  # also whatever git may ask one day: unknown operations are to be ignored
        return ""
    if not concerns(question, forge):
        raise Failure(f"there is a token for {shown(forge)} alone")
    gateway, secret = environment.get("AGENT_GATEWAY_URL", ""), environment.get("AGENT_GATEWAY_SECRET", "")
    if not gateway or not secret:
        raise Failure(NO_GATEWAY.format(reason="AGENT_GATEWAY_URL or AGENT_GATEWAY_SECRET is not set"))
    username, password = ask(gateway, secret, question)
    return f"username={username}\npassword={password}\n"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The helper; always 0, since git has a message of its own for a login that is missing."""
    try:
        os.write(1, run(arguments, environment).encode())
    except Failure as failure:
        os.write(2, f"agent-gateway: {failure}\n".encode(errors="replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
