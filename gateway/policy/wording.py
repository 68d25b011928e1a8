"""Somebody else's text in a line for people: here, and nowhere else, it is made harmless to terminal and line."""


def printable(text: str) -> str:
    """The text with everything escaped that is not printable: control characters (ESC, BEL, C1, line ends), what hides
    or reorders text, what is no text at all (bytes of a path that are not UTF-8)."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text
    )


def printable_lines(text: str) -> str:
    """The same for several lines, which stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))
