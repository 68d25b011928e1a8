"""What the jobs of the file rules' benchmark work on, all made here: a repository, an npm package, a wheel, C files.

Sizes are those of everyday projects. Names hold nothing that the rules deny, or there would be nothing to compare.
"""

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

from tests.bench.push_place import git_program, plain_git

REPOSITORY_FILES = 5_000
REPOSITORY_FOLDERS = 440
PACKAGE_FILES = 12_000
WHEEL_FILES = 1_500
MODULE_BYTES = 8_000
"""What a module of a large package has on the average: its compilation is most of an installation's work."""
C_FILES = 120

_TEXT = "".join(f"line {number} of a file that is like any other\n" for number in range(20))
_FUNCTION = '''
def function_{number}(items, limit={number}, *, strict=False):
    """Sums up the items below a limit, as a function of that length would."""
    total = 0
    for index, item in enumerate(items):
        if strict and item is None:
            raise ValueError(f"item {{index}} of {{len(items)}} is missing")
        if item is not None and item < limit:
            total += item * {number} + index
    return {{"total": total, "count": len(items), "limit": limit}}
'''
_MODULE = "".join(_FUNCTION.format(number=number) for number in range(MODULE_BYTES // len(_FUNCTION)))


def make_material(folder: Path) -> None:
    """Everything below `folder`, which is empty: repo.git, many-1.0.0.tgz, many-1.0-py3-none-any.whl, c/."""
    _make_repository(folder)
    _make_package(folder / "many-1.0.0.tgz")
    _make_wheel(folder / "many-1.0-py3-none-any.whl")
    _make_program(folder / "c")


def _make_repository(folder: Path) -> None:
    work = folder / "work"
    for number in range(REPOSITORY_FILES):
        below = number % REPOSITORY_FOLDERS
        file = work / f"part{below % 20}" / f"folder{below}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n{_TEXT}")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@forge.test")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*identity, "commit", "-q", "-m", "all of it"),
        ("clone", "-q", "--bare", ".", str(folder / "repo.git")),
    ):
        environment = {**plain_git(folder), "PATH": "/usr/bin:/bin"}
        subprocess.run((git_program(), *words), cwd=work, env=environment, check=True)
    subprocess.run(("rm", "-rf", str(work)), check=True)


def _make_package(path: Path) -> None:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        _add(archive, "package/package.json", '{"name": "many", "version": "1.0.0"}\n')
        for number in range(PACKAGE_FILES):
            _add(archive, f"package/lib/part{number % 900}/file{number}.js", f"// {number}\n{_TEXT}")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    entry.mode = 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _make_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        names = ["many/__init__.py", *(f"many/p{n % 150}/m{n}.py" for n in range(WHEEL_FILES))]
        for name in names:
            archive.writestr(name, _MODULE)
        info = "many-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: many\nVersion: 1.0\n")
        wheel = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        listed = [*names, f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in listed))


def _make_program(folder: Path) -> None:
    folder.mkdir()
    for number in range(C_FILES):
        body = "".join(f"int f{number}_{i}(int x) {{ return x * {i} + {number}; }}\n" for i in range(60))
        head = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        (folder / f"f{number}.c").write_text(head + body)
    objects = " ".join(f"f{number}.o" for number in range(C_FILES))
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "Makefile").write_text(
        f"main: main.o {objects}\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O0 -c -o $@ $<\n"
    )
