"""Applies a delta of a pack (gitformat-pack(5), "Deltified representation") within bounds of the caller's.

Sizes the delta claims are checked before anything is made of them: the base's against the base there is, the result's
against `most`, every copy against the base, every byte written against the result. Never allocates by a claim.
"""

from typing import Final

# git writes sizes in 7 bits a byte; ten bytes hold 64 bits, and no object has more.
_SIZE_BYTES: Final = 10
# What a copy of size 0 means.
_LONGEST_COPY: Final = 0x10000


class DeltaError(ValueError):
    """The delta does not fit its base or itself; says how in a sentence."""


def apply_delta(base: bytes, delta: bytes, most: int) -> bytes:
    """The object, at most `most` bytes of it, that `delta` makes of `base`. Raises DeltaError."""
    claimed_base, position = _read_size(delta, 0)
    size, position = _read_size(delta, position)
    if claimed_base != len(base):
        raise DeltaError(f"the delta is for a base of {claimed_base} bytes, which has {len(base)}")
    if size > most:
        raise DeltaError(f"the delta's result would have more than {most} bytes")
    result = bytearray()
    end = len(delta)
    while position < end:
        instruction = delta[position]
        position += 1
        if instruction & 0x80:
            start, length, position = _read_copy(delta, position, instruction)
            piece = base[start : start + length]
        else:
            length = instruction
            piece = delta[position : position + length]
            position += length
        if not length or len(piece) != length:
            raise DeltaError("the delta copies what is not there")
        result += piece
        if len(result) > size:
            break
    if len(result) != size:
        raise DeltaError("the delta's result does not have the size that the delta names")
    return bytes(result)


def _read_size(delta: bytes, position: int) -> tuple[int, int]:
    """A size, and where the next thing starts."""
    size = 0
    for count, byte in enumerate(delta[position : position + _SIZE_BYTES]):
        size |= (byte & 0x7F) << (7 * count)
        if not byte & 0x80:
            return size, position + count + 1
    raise DeltaError("the delta's header is cut off or too long")


def _read_copy(delta: bytes, position: int, instruction: int) -> tuple[int, int, int]:
    """Offset and length of a copy from the base, and where the next instruction starts."""
    values = [0] * 7
    for bit in range(7):
        if instruction >> bit & 1:
            if position >= len(delta):
                raise DeltaError("the delta is cut off")
            values[bit] = delta[position]
            position += 1
    length = int.from_bytes(values[4:], "little")
    return int.from_bytes(values[:4], "little"), length or _LONGEST_COPY, position
