"""The Unicode form of a host with A-labels (`xn--…`), for a reviewer's eyes. Nothing is ever matched by it."""

from typing import Final

_PREFIX: Final = "xn--"


def unicode_form(host: str) -> str:
    """The host with its A-labels decoded (RFC 3492), where that gives something else; otherwise empty.

    A label that does not decode stays as it is: what is shown must never hide what was asked for.
    """
    if _PREFIX not in host:
        return ""
    shown = ".".join(map(_decoded, host.split(".")))
    return shown if shown != host else ""


def _decoded(label: str) -> str:
    if not label.startswith(_PREFIX):
        return label
    try:
        return label[len(_PREFIX) :].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
