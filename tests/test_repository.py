"""What the repository as a whole holds to: addresses, paths, and how tests are written."""

import ast
import re

from gateway.policy.lists import parse_list
from tests.source_tree import ROOT, dotted, sources_of_tests, texts

TEST_SINS = {
    "time.sleep": "wait for the event itself",
    "pytest.skip": "a test that cannot run is a failure",
    "pytest.xfail": "mend it or delete it",
    "pytest.importorskip": "the lock holds what tests need",
    "pytest.mark.skip": "a test that cannot run is a failure",
    "pytest.mark.skipif": "a test that cannot run is a failure",
    "pytest.mark.xfail": "mend it or delete it",
    "unittest.mock": "write a fake, or use the real thing",
}

# Groups of the baseline whose hosts anybody may name; those of all others are places to download from, and
# stand in allowlists/ alone.
NAMED_FREELY = frozenset({"llm", "git-hosting"})
# Folders of one machine. Sample paths in tests are under /home/dev, /srv or tmp_path.
DOTTED = re.compile(r"[\w-]+(?:\.[\w-]+)+")
MACHINE_PATHS = re.compile(r"(?<![\w.~/-])/(?:root|work|workspaces?)/")


def download_hosts() -> frozenset[str]:
    """Hosts of the baseline to download from, wildcards by what stands behind the star."""
    data = (ROOT / "allowlists" / "baseline.txt").read_bytes()
    entries = [entry for entry in parse_list(data, "baseline.txt").entries if entry.group not in NAMED_FREELY]
    return frozenset(entry.pattern.rpartition("*.")[2] for entry in entries)


def test_download_addresses_stand_in_the_lists_alone() -> None:
    hosts = download_hosts()
    assert hosts, "the baseline names no registry"
    found = [
        f"{path}: {name}"
        for path, text in texts()
        if path.parts[0] != "allowlists"
        for word in set(DOTTED.findall(text))
        for name in parts_of(word) & hosts
    ]
    assert not found, "\n".join(found)


def parts_of(word: str) -> set[str]:
    """Every name that a dotted word holds: of `a.b.c` also `b.c` and `a.b`."""
    labels = word.split(".")
    ends = range(1, len(labels) + 1)
    return {".".join(labels[start:end]) for end in ends for start in range(end)}


def test_names_are_found_in_words() -> None:
    assert parts_of("a.b.c") == {"a", "b", "c", "a.b", "b.c", "a.b.c"}


def test_no_path_of_a_machine() -> None:
    here = re.compile(rf"{MACHINE_PATHS.pattern}|{re.escape(str(ROOT))}(?![\w-])")
    found = [f"{path}: {match.group()}" for path, text in texts() for match in here.finditer(text)]
    assert not found, "\n".join(found)


def test_tests_neither_sleep_nor_skip_nor_mock() -> None:
    found: list[str] = []
    for path, tree in sources_of_tests():
        file = path.relative_to(ROOT)
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Attribute | ast.Name):
                names = [dotted(node)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            line = getattr(node, "lineno", 0)
            found.extend(f"{file}:{line}: {name}: {TEST_SINS[name]}" for name in names if name in TEST_SINS)
    assert not found, "\n".join(found)
