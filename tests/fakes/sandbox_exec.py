"""Stands for macOS's `sandbox-exec` and `log`, where there are none: takes the same command lines and confines nothing.

python sandbox_exec.py -f PROFILE CMD [ARG…]      leaves the profile beside this file as it was read; becomes CMD
python sandbox_exec.py -p TEXT CMD [ARG…]         becomes CMD; TEXT is not looked at
python sandbox_exec.py log stream …               says that it is there, then what is written to the pipe `log.fifo`
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(arguments: list[str]) -> None:
    """Plays the program that the command line asks for."""
    if arguments[0] == "log":
        sys.stdout.buffer.write(b"Filtering the log data\n")
        sys.stdout.flush()
        tag = arguments[-1].split('"')[1].encode()
        with open(os.path.join(HERE, "log.fifo"), "rb") as pipe:
            for line in pipe:
                sys.stdout.buffer.write(line.replace(b"TAG", tag))
                sys.stdout.flush()
        return
    if arguments[0] == "-f":
        with open(arguments[1], "rb") as file, open(os.path.join(HERE, "profile"), "wb") as copy:
            copy.write(file.read())
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
