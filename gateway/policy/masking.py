"""What no record may hold, taken out of text: token shapes, URL userinfo, query strings, authorization values.

Errs on the side of hiding, but leaves host names, package paths and mail addresses readable. Every expression here
takes time in proportion to the text, whatever an agent puts into it.
"""

import re
from typing import Final

HIDDEN: Final = "***"

# No token is shorter than this.
SHORTEST_TOKEN: Final = 15
# The start of a word, also behind a percent-encoded character; "task-list" and "monkeyJar" hold no token.
_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
# The issuers' published prefixes, in any letter case where the rest is distinctive enough (host names are lower case).
_TOKENS = re.compile(
    # GitHub's installation tokens come in two forms, the longer one with dots, dashes and underscores inside.
    r"(?i:ghs_[a-z0-9._-]{36,}|gh[a-z]_[a-z0-9]{20,}|github_pat_[a-z0-9_]{20,}"
    r"|gl(?:pat|rt|dt|cbt)-[a-z0-9_-]{16,}"
    r"|xox[a-z]-[a-z0-9-]{10,}|npm_[a-z0-9]{30,}|pypi-age[a-z0-9_-]{20,}|hf_[a-z0-9]{20,}|dckr_[op]at_[a-z0-9_-]{16,}"
    r"|[sr]k_(?:live|test)_[a-z0-9]{16,}"
    rf"|{_START}(?:sk-[a-z0-9_-]{{16,}}|aiza[a-z0-9_-]{{30,}}|ya29\.[a-z0-9_-]{{20,}}"
    r"|(?:akia|asia)(?=[a-z]*[2-7])[a-z2-7]{16}(?![a-z0-9])))"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
    # A JSON Web Token with or without its later parts: base64url of a JSON object.
    rf"|{_START}eyJ[A-Za-z0-9_-]{{12,}}(?:\.[A-Za-z0-9_-]*){{0,4}}"
)
# Looked for first, in lower case: a token holds one of these, and hardly any other text does.
_HINTS = (
    "_",
    "glpat-",
    "glrt-",
    "gldt-",
    "glcbt-",
    "xox",
    "pypi-age",
    "sk-",
    "aiza",
    "ya29.",
    "akia",
    "asia",
    "eyj",
)
# Values of headers that carry a secret, and the schemes of `Authorization` wherever they stand.
_AUTHORIZATION = re.compile(
    r"""(?i)((?:authorization|api-key|private-token|cookie|x-agent-gateway-session)["'\s]*[:=])\s*["']?[^\r\n"']+"""
    rf"|{_START}((?:bearer|basic|digest|negotiate|ntlm)(?:\s|%20|\+))(?:\s|%20|\+)*[A-Za-z0-9+/=._~-]{{8,}}"
)
# A word up to its last "@". Passwords hold anything, so what stands before it is judged as a whole.
_UP_TO_AT = re.compile(r"(?<!\S)\S*@")
# Where userinfo begins in such a word: "//user@", "//user:pass@" and "user:pass@", but neither "//host:8080/@scope"
# nor "mail@".
_USERINFO = re.compile(r"//(?=[^/?#@]*@|[^/?#:@]*:(?!\d{1,5}[/?#]))|^(?=[^/?#:@]*:(?!//|\d{1,5}[/?#]))")
_QUERY_OF_URL = re.compile(r"\?\S+")
_PAIRS = re.compile(r"\?[^\s=?]*=\S*")


def mask(text: str) -> str:
    """The text with `***` in place of what no record may hold."""
    if "@" in text:
        text = _UP_TO_AT.sub(_without_userinfo, text)
    if "?" in text:
        text = (_QUERY_OF_URL if "://" in text else _PAIRS).sub("?" + HIDDEN, text)
    # A secret's name or scheme is set off from it by one of these.
    if ":" in text or "=" in text or " " in text or "%" in text or "+" in text or not text.isprintable():
        text = _AUTHORIZATION.sub(_without_value, text)
    if len(text) < SHORTEST_TOKEN:
        return text
    lower = text.lower()
    for hint in _HINTS:
        if hint in lower:
            return _TOKENS.sub(HIDDEN, text)
    return text


def mask_host(text: str) -> str:
    """A host as a client wrote it, perhaps with userinfo before it or a query behind it, without those."""
    if "@" in text:
        text = HIDDEN + text[text.rindex("@") :]
    return text.partition("?")[0]


def mask_path(text: str) -> str:
    """A request's path without query and fragment."""
    return text.partition("?")[0].partition("#")[0]


def _without_userinfo(word: re.Match[str]) -> str:
    begin = _USERINFO.search(word[0])
    return f"{word[0][: begin.end()]}{HIDDEN}@" if begin else word[0]


def _without_value(match: re.Match[str]) -> str:
    return f"{match[1] or match[2]}{'' if match[2] else ' '}{HIDDEN}"
