"""A package index in small: one wheel behind the simple repository API (PEP 503), as routes of a web server."""

import base64
import hashlib
import io
import zipfile

from tests.fakes.web import Answer, Request, Route

PROJECT = "tiny-greeting"
VERSION = "1.2.3"
WHEEL = f"tiny_greeting-{VERSION}-py3-none-any.whl"
GREETING = "a greeting from the wheel"

_HTML = {"Content-Type": "text/html"}


def build_wheel() -> bytes:
    """A pure wheel with one module (PyPA specification "Binary distribution format")."""
    metadata = f"tiny_greeting-{VERSION}.dist-info"
    files = {
        "tiny_greeting.py": f"print({GREETING!r})\n",
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {PROJECT}\nVersion: {VERSION}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    files[f"{metadata}/RECORD"] = "".join([*lines, f"{metadata}/RECORD,,\n"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def index_routes() -> dict[str, Route]:
    """`/simple/PROJECT/` with a link to the wheel in `/files/`."""
    wheel = build_wheel()
    link = f"/files/{WHEEL}#sha256={hashlib.sha256(wheel).hexdigest()}"
    page = f"<!DOCTYPE html><html><body><a href='{link}'>{WHEEL}</a></body></html>"

    def simple(request: Request) -> Answer:
        if request.path != f"/simple/{PROJECT}/":
            return Answer(b"no such project\n", 404)
        return Answer(page.encode(), fields=_HTML)

    def files(request: Request) -> Answer:
        return Answer(wheel) if request.path == f"/files/{WHEEL}" else Answer(b"no such file\n", 404)

    return {"simple": simple, "files": files}
