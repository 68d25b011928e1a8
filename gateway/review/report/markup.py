"""HTML that cannot be forged: text is escaped wherever it enters, and only `element` makes tags.

What stands in a log was chosen by agents, web servers and repositories. A child or an attribute is plain text unless it
is `Markup`, and `Markup` is no text: the two cannot be joined by mistake. Links lead nowhere but into the page.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final

from gateway.policy.wording import printable

# Names that this module writes without looking at them.
_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9-]*")
# Elements that have no end. Those of SVG have one, or what follows would be inside them.
_VOID: Final = frozenset({"meta", "br"})
# Their content is no HTML, so escaping does not make it harmless.
_RAW: Final = frozenset({"script", "style"})
_ANCHOR: Final = re.compile(r"#[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of HTML that is safe as it is."""

    html: str


type Child = "Markup | str | Iterable[Child] | None"
type Attribute = str | int | float | bool | None

NOTHING: Final = Markup("")


def text(value: str) -> Markup:
    """Somebody's text: what controls a terminal or turns the direction of writing is spelled out, the rest escaped."""
    return Markup(escape(printable(value)))


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` is the attribute `class`, `data_label` is `data-label`; None and False leave an attribute
    out, True gives it no value. ValueError for a name that is none, a style, a script or a link out of the page."""
    if not _NAME.fullmatch(name) or name in _RAW:
        raise ValueError(f"no element of a report: {name!r}")
    start = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{start}>")
    return Markup(f"<{start}>{join(*children).html}</{name}>")


def join(*children: Child) -> Markup:
    """All of them, one behind the other."""
    return Markup("".join(_html(child) for child in children))


def style(css: str) -> Markup:
    """A style sheet of our own. ValueError for one that could end before its end."""
    if "<" in css:
        raise ValueError("a style sheet with a tag in it")
    return Markup(f"<style>{css}</style>")


def _html(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.html
    if isinstance(child, str):
        return text(child).html
    return "".join(_html(one) for one in child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(name) or name == "style" or name.startswith("on"):
        raise ValueError(f"no attribute of a report: {name!r}")
    if name == "href" and not _ANCHOR.fullmatch(str(value)):
        raise ValueError("a link out of the report")
    if name in ("src", "action", "formaction", "srcdoc"):
        raise ValueError("a report loads nothing")
    return f" {name}" if value is True else f' {name}="{text(str(value)).html}"'
