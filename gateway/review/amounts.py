"""Amounts in words."""


def many(count: int, one: str, several: str = "") -> str:
    """ "1 push", "1,200 pushes"; `several` where an s is not enough."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
