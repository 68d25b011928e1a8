"""Directories of the product's own: made with all that is missing above them, each for this user alone."""

import os


def make_private(path: str) -> None:
    """Makes a directory and those above it that are missing, each 0700; what is there stays as it is. OSError when it
    cannot be, or something else stands there.

    `os.makedirs` gives its mode to the last one alone.
    """
    missing = []
    above = path
    while not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above) or "."
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):  # or somebody else has made it just now
                raise
