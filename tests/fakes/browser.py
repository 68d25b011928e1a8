"""A real browser that looks at a page without a screen, and what it saw."""

import shutil
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Dialog, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
# It must not ask its maker for anything; and as root it has no sandbox of its own.
_FLAGS = (
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium, or Chrome. It fails where there is none: a report that nobody looked at is not tested."""
    program = next(filter(None, map(shutil.which, _NAMES)), _MAC)
    assert Path(program).exists(), "there is no Chromium here: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Look:
    """A page and what happened while it was looked at."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Dialog) -> None:
        """A page that asks for attention has run something."""
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def pixels(self) -> "Picture":
        """What is on the screen now."""
        return Picture.read(self.page.screenshot())


@contextmanager
def look_at(
    browser: Browser, file: Path, width: int = 1200, height: int = 900, **options: Any
) -> Iterator[Look]:
    """Opens a file in a window of this size, and listens to everything it says and asks for."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    look = Look(context.new_page())
    look.page.on("console", lambda message: look.said.append(f"{message.type}: {message.text}"))
    look.page.on("pageerror", lambda error: look.said.append(f"error: {error}"))
    look.page.on("dialog", look.dismiss)
    look.page.on("request", lambda request: look.asked.append(request.url))
    look.page.on("framenavigated", lambda frame: look.asked.append(frame.url))
    look.page.goto(file.as_uri())
    look.page.wait_for_load_state("networkidle")
    try:
        yield look
    finally:
        context.close()


@dataclass(frozen=True)
class Picture:
    """Pixels as (red, green, blue), row by row."""

    width: int
    height: int
    rows: tuple[bytes, ...]

    @classmethod
    def read(cls, png: bytes) -> "Picture":
        """A PNG of 8 bits a channel, not interlaced (RFC 2083)."""
        assert png.startswith(_SIGNATURE)
        at, packed, width, height, channels = len(_SIGNATURE), b"", 0, 0, 0
        while at < len(png):
            (length,) = struct.unpack_from(">I", png, at)
            kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
            if kind == b"IHDR":
                width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data)
                assert (depth, interlaced) == (8, 0)
                channels = {2: 3, 6: 4}[colour]
            elif kind == b"IDAT":
                packed += data
            at += length + 12
        return cls(width, height, tuple(_unfiltered(zlib.decompress(packed), width, height, channels)))

    def at(self, x: float, y: float) -> tuple[int, int, int]:
        """The colour there."""
        row, start = self.rows[int(y)], int(x) * 3
        return (row[start], row[start + 1], row[start + 2])

    def colours(self) -> Counter[bytes]:
        """How many pixels have which colour."""
        return Counter(row[at : at + 3] for row in self.rows for at in range(0, len(row), 3))


def _unfiltered(data: bytes, width: int, height: int, channels: int) -> Iterator[bytes]:
    size = width * channels
    above = bytearray(size)
    for number in range(height):
        start = number * (size + 1)
        method, row = data[start], bytearray(data[start + 1 : start + 1 + size])
        for at in range(size):
            left = row[at - channels] if at >= channels else 0
            corner = above[at - channels] if at >= channels else 0
            row[at] = (row[at] + _predicted(method, left, above[at], corner)) & 255
        above = row
        yield bytes(row) if channels == 3 else b"".join(row[at : at + 3] for at in range(0, size, 4))


def _predicted(method: int, left: int, up: int, corner: int) -> int:
    match method:
        case 0:
            return 0
        case 1:
            return left
        case 2:
            return up
        case 3:
            return (left + up) // 2
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))
