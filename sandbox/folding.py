"""What other file systems make of a name: spellings that one of them takes for another name's. Pure.

Case-insensitive ext4, APFS, HFS+, NTFS and vfat look a name up in a folded form: without letter case, in a normal form
of Unicode, some without the characters that nobody sees (`.e<U+200B>nv` is `.env` there). Nobody says how the disk
under a name folds, so a denial looks at the coarsest form, and an exception at the name as it is written.

This module and `filerules.py` are imported by a process that has to start fast: no `re`, no `dataclasses`, no `typing`.
"""

from unicodedata import normalize

# Default_Ignorable_Code_Point of Unicode (DerivedCoreProperties.txt), reserved ranges included; first and last.
IGNORABLE_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
_IGNORED = {code: None for first, last in IGNORABLE_RANGES for code in range(first, min(last, 0xFFFF) + 1)}
# Undecodable bytes, as `surrogateescape` shows them.
_BROKEN = dict.fromkeys(range(0xDC80, 0xDD00))
# vfat and NTFS drop these from the end of a name.
_DROPPED_AT_END = ". "
# Folding twice has always been enough; a text that still changes then is as good as folded.
_TURNS = 4


def fold(text: str) -> str:
    """The coarsest form: compatibility decomposition, nothing invisible, full case folding. Folding again changes
    nothing."""
    for _ in range(_TURNS):
        folded = _visible(normalize("NFKD", text).translate(_IGNORED)).casefold()
        if folded == text:
            break
        text = folded
    return text


def _visible(text: str) -> str:
    """Without the ignorable characters beyond the first plane, which are too many for a table."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    ranges = IGNORABLE_RANGES[-3:]
    return "".join(one for one in text if not any(first <= ord(one) <= last for first, last in ranges))


def written(text: str) -> str:
    """The form in which an exception is compared: letter case and canonical equivalence (one text in two encodings,
    which APFS and HFS+ do not tell apart) do not matter, everything else does."""
    return normalize("NFC", text).lower()


def readings(name: bytes) -> tuple[str, ...]:
    """The folded forms in which a denial has to be tried, the plainest first; one for nearly every name.

    The second is what is left where a file system cuts: at the end of a name, at a colon (NTFS: `.env::$DATA` is
    `.env`), and at bytes that are no UTF-8, which some replace and others refuse.
    """
    text = name.decode("utf-8", "surrogateescape")
    text = text.lower() if text.isascii() else fold(text)
    bare = text.translate(_BROKEN) if not text.isascii() else text
    bare = bare.partition(":")[0].rstrip(_DROPPED_AT_END)
    return (text,) if bare == text or not bare else (text, bare)
