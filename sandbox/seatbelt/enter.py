"""Runs inside, between `sandbox-exec` and the command: says why the command cannot be executed, as the contract has it.

    sandbox-exec -f PROFILE python -I -S -E -B enter.py IGNORED FORGET CMD [ARG…]

`sandbox-exec` itself would exit with 71 whatever is in the way. IGNORED are the numbers of the signals that the
command ignores (comma-separated, "-" for none), since this interpreter has set some; FORGET names the variables that
are not the command's own if they are there, likewise.
"""

import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType


def load_stub() -> ModuleType:
    """The module that becomes commands; there is no import path to find it on."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    loader = SourceFileLoader("stub", os.path.join(folder, "stub.py"))
    spec = spec_from_loader("stub", loader)
    assert spec is not None  # a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    """Becomes the command; returns the exit status that says why it could not."""
    ignored, forget, *argv = arguments
    variables = dict(os.environb)
    for name in forget.split(","):
        variables.pop(name.encode(), None)
    stub = load_stub()
    stub.reset_signals([int(number) for number in ignored.split(",") if number.isdigit()])
    code: int = stub.execute([os.fsencode(argument) for argument in argv], variables)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
