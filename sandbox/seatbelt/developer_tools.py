"""Where Apple's developer tools lie: git, make and the compilers. Looks at the host, changes nothing.

What stands in /usr/bin under their names only looks them up. For that it writes a cache that other programs of the user
believe, where nothing inside the wrap may write: each call would complain, and take half a second. So the tools'
own directories come first on PATH.
"""

import os
from collections.abc import Sequence

# The link that `xcode-select` makes, and where the tools are without it.
PLACES = (
    "/var/db/xcode_select_link",
    "/Library/Developer/CommandLineTools",
    "/Applications/Xcode.app/Contents/Developer",
)
SHIMS = "/usr/bin"
PROGRAMS = ("usr/bin", "Toolchains/XcodeDefault.xctoolchain/usr/bin")
# What the compilers ask for when nobody looked it up for them.
SDK_VARIABLE = "SDKROOT"
SDKS = ("SDKs/MacOSX.sdk", "Platforms/MacOSX.platform/Developer/SDKs/MacOSX.sdk")


def find_tools(places: Sequence[str] = PLACES) -> str:
    """The directory of the developer tools; empty when there are none."""
    found = (os.path.realpath(place) for place in places)
    return next((place for place in found if os.path.isdir(os.path.join(place, PROGRAMS[0]))), "")


def put_first(path: str, tools: str) -> str:
    """A PATH on which the tools' own directories come before the programs that look them up."""
    folders = path.split(":")
    if not tools or SHIMS not in folders:
        return path
    own = [os.path.join(tools, end) for end in PROGRAMS]
    at = folders.index(SHIMS)
    missing = [folder for folder in own if os.path.isdir(folder) and folder not in folders[:at]]
    return ":".join((*folders[:at], *missing, *folders[at:]))


def find_sdk(tools: str) -> str:
    """The directory of headers and libraries; empty when there is none."""
    found = (os.path.join(tools, end) for end in SDKS) if tools else ()
    return next(filter(os.path.isdir, found), "")
