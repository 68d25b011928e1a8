"""Tables of commands: what the words of a shell line mean to the rules. Data, and nothing that decides.

A row is the words that begin a command,
options left out: "git commit" speaks for `git -C dir commit -m x` too. To teach
the product a command, add a row here and a line to `tests/data/shell_lines.txt`.
"""
