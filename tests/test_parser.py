"""What every command has."""

import pytest

from gateway.parser import VERSION, Parser, add_command


def commands() -> Parser:
    parser = Parser(prog="p")
    add_command(parser.add_subparsers(), "one", "text")
    return parser


def test_every_command_knows_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        commands().parse_args(["one", "--version"])
    assert (error.value.code, capsys.readouterr().out) == (0, f"{VERSION}\n")


def test_options_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands().parse_args(["one", "--vers"])
    assert "unrecognized arguments: --vers" in capsys.readouterr().err


def test_a_complaint_is_harmless_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        commands().parse_args(["one", "\x1b[2J\u202e"])
    assert error.value.code == 2
    assert "\\x1b[2J\\u202e" in capsys.readouterr().err
