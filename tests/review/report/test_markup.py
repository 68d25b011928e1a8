"""HTML that cannot be forged: what goes in as text comes out as text, whatever it is."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.review.report.markup import Markup, element, join, style, text


class Reader(HTMLParser):
    """What a reader of HTML makes of it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.tags.append("declaration")


def read(markup: Markup) -> Reader:
    reader = Reader()
    reader.feed(markup.html)
    reader.close()
    return reader


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_text_stays_text(child: str, attribute: str) -> None:
    found = read(element("p", child, title=attribute))
    assert found.tags == ["p"]
    shown = "".join(found.texts)
    told = dict(found.attributes)["title"]
    assert told is not None
    for before, after in ((child, shown), (attribute, told)):
        assert after == after.encode("unicode_escape").decode() or after.isprintable()
        if before.isprintable():
            assert after == before


def test_what_is_not_printable_is_spelled() -> None:
    assert text("a\x1b[2J\u202e\n\ud800").html == "a\\x1b[2J\\u202e\\n\\ud800"


@pytest.mark.parametrize(
    ("made", "html"),
    [
        (element("p"), "<p></p>"),
        (element("p", "a", None, ["b", [element("b", "c")]]), "<p>ab<b>c</b></p>"),
        (
            element("td", class_="x", data_label="y", hidden=True, title=None, id=False),
            '<td class="x" data-label="y" hidden></td>',
        ),
        (element("meta", name="a"), '<meta name="a">'),
        # In SVG nothing is empty by its name: what came after it would be inside it.
        (element("rect", x=1, y=2.5), '<rect x="1" y="2.5"></rect>'),
        (join("a", element("b", "<")), "a<b>&lt;</b>"),
        (element("a", href="#hosts"), '<a href="#hosts"></a>'),
        (style("p { color: red; }"), "<style>p { color: red; }</style>"),
    ],
)
def test_elements(made: Markup, html: str) -> None:
    assert made.html == html


@pytest.mark.parametrize("name", ["script", "style", "P", "p onload=x", "", "p>"])
def test_names_that_are_no_elements(name: str) -> None:
    with pytest.raises(ValueError, match="no element"):
        element(name)


@pytest.mark.parametrize(
    "attributes",
    [
        {"onclick": "x()"},
        {"style": "color: red"},
        {"href": "http://a.test"},
        {"href": "javascript:x()"},
        {"href": "#a b"},
        {"href": "hosts"},
        {"src": "x.png"},
        {"srcdoc": "x"},
        {"action": "x"},
        {"a b": "x"},
        {"a=b": "x"},
    ],
)
def test_attributes_that_no_report_has(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="report"):
        element("a", **attributes)


def test_a_style_cannot_end_itself() -> None:
    with pytest.raises(ValueError, match="tag"):
        style("</style><script>x()</script>")
