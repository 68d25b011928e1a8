"""The fixed list as data."""

import re

from gateway.policy.commands.denied import DENIED, DENIED_BEGINNINGS, DENIED_ROWS, DEVICES, TREES, WHOLE


def test_names_are_lower_case_words() -> None:
    assert all(re.fullmatch(r"[a-z0-9_.-]+", name) for name in (*DENIED, *DENIED_BEGINNINGS))
    assert all(" " in row and row == row.lower() for row in DENIED_ROWS)


def test_reasons_are_clauses() -> None:
    assert all(
        why.startswith("it ")
        for why in (*DENIED.values(), *DENIED_BEGINNINGS.values(), *DENIED_ROWS.values())
    )


def test_whole_directories_are_normal() -> None:
    assert all(path == "/" or (path.startswith("/") and not path.endswith("/")) for path in WHOLE)
    assert all(option.startswith("-") for options in TREES.values() for option in options)


def test_devices_are_no_files_of_everybody() -> None:
    assert (
        re.match(DEVICES, "/dev/sda1")
        and not re.match(DEVICES, "/dev/null")
        and not re.match(DEVICES, "/dev/shm/a")
    )
