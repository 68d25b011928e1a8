"""One path in all its spellings. Pure.

The kernel compares the path without links, in the letter case of the disk. What a rule is told may be neither, so each
path is given as written and resolved; and what the disk takes for the same name counts as the same (`fold`).
"""

import unicodedata
from collections.abc import Iterable

# Links at the root of every Mac, which lead below /private.
PRIVATE_LINKS = ("/tmp", "/var", "/etc")

# Characters and pairs that APFS and HFS+ fold to plain letters besides letter case (full case folding of Unicode).
# "k" and "s" have one each; the others are ligatures and the sharp s.
FOLDED = {
    "k": "\u212a",
    "s": "\u017f",
    "ss": "\u00df\u1e9e",
    "ff": "\ufb00",
    "fi": "\ufb01",
    "fl": "\ufb02",
    "ffi": "\ufb03",
    "ffl": "\ufb04",
    "st": "\ufb05\ufb06",
}

# Characters that HFS+ leaves out when it compares names, and some that nobody sees. In the midst of plain text they
# have no business: `.e<U+200C>nv` is `.env` on such a disk.
IGNORED = "".join(
    chr(code)
    for first, last in (
        (0x00AD, 0x00AD), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x206A, 0x206F), (0xFEFF, 0xFEFF),
    )
    for code in range(first, last + 1)
)  # fmt: skip


def fold(text: str) -> str:
    """The form in which two names are one on the disk."""
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFD", decomposed.casefold())


def written(text: str) -> str:
    """The form in which an exception is compared: only letter case and canonical equivalence do not count."""
    return unicodedata.normalize("NFC", text).lower()


def is_disguised(name: str) -> bool:
    """Whether a name has an invisible character beside a plain one."""
    return any(
        one in IGNORED and any(" " <= beside <= "~" for beside in name[max(0, at - 1) : at + 2])
        for at, one in enumerate(name)
    )


def below(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies in it, letter for letter."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def below_any_case(path: str, root: str) -> bool:
    """The same, with every spelling of the root's last name. The directories above it are there, and the kernel knows
    them by the names that the disk has."""
    folder, _, name = root.rpartition("/")
    if not path.startswith(folder + "/"):
        return False
    return fold(path[len(folder) + 1 :].partition("/")[0]) == fold(name)


def spell(path: str, aliases: Iterable[tuple[str, str]] = ()) -> tuple[str, ...]:
    """The path itself, what it is called by other names of the directories above it, and with and without /private.

    `aliases` are pairs (one name, another name) of the same directory.
    """
    found = [path]
    for one, other in aliases:
        found += [other + known[len(one) :] for known in tuple(found) if below(known, one)]
    for known in tuple(found):
        for link in PRIVATE_LINKS:
            if below(known, link):
                found.append(f"/private{known}")
            elif below(known, f"/private{link}"):
                found.append(known.removeprefix("/private"))
    return tuple(sorted(set(found)))
