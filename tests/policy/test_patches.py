"""Which files a patch names."""

import pytest

from gateway.policy.patches import PatchError, patched_paths

CODEX = """*** Begin Patch
*** Add File: new.py
+print("*** Delete File: not/this")
*** Update File: src/old name.py
*** Move to: src/moved.py
@@ def f():
-a
+b
*** Delete File: gone.txt
*** End Patch
"""
DIFF = """diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py\t2026-01-01
@@ -1 +1 @@
-a
+b
diff --git a/y.py b/y.py
deleted file mode 100644
--- a/y.py
+++ /dev/null
--- /dev/null
+++ b/z.py
rename from old.py
rename to new.py
"""


@pytest.mark.parametrize(
    ("text", "written", "deleted"),
    [
        (CODEX, ("new.py", "src/old name.py", "src/moved.py"), ("gone.txt",)),
        (CODEX.replace("\n", "\r\n"), ("new.py", "src/old name.py", "src/moved.py"), ("gone.txt",)),
        ("apply\n" + CODEX, ("new.py", "src/old name.py", "src/moved.py"), ("gone.txt",)),
        (DIFF, ("x.py", "z.py", "old.py", "new.py"), ("y.py",)),
    ],
)
def test_the_files_of_a_patch(text: str, written: tuple[str, ...], deleted: tuple[str, ...]) -> None:
    assert patched_paths(text) == (written, deleted)


@pytest.mark.parametrize(
    "text", ["", "hello", "*** Begin Patch\n*** End Patch", "*** Add File: x", "-- a", "++ b"]
)
def test_what_names_no_file(text: str) -> None:
    with pytest.raises(PatchError):
        patched_paths(text)
