"""The parser of one command: what every command has."""

import argparse
from typing import Final, NoReturn

from gateway import __version__
from gateway.policy.wording import printable

VERSION: Final = f"agent-gateway {__version__}"

type Commands = argparse._SubParsersAction[Parser]


class Parser(argparse.ArgumentParser):
    """What it complains about is the caller's text."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def add_command(
    commands: Commands, name: str, text: str, description: str | None = None, usage: str | None = None
) -> Parser:
    """A command's or subject's parser with what every one has."""
    parser = commands.add_parser(name, help=text, description=description, usage=usage, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=VERSION)
    return parser
