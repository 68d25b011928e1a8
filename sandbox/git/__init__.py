"""Git, as far as a wrap has to know it: what the host's git says, and what the git inside is told.

program.py       runs the host's git, bounded
directory.py     where a worktree's git directory really is
settings.py      the copy of the user's configuration without what holds secrets or runs programs
obeyed.py        what a repository's configuration has git run or include
remotes.py       github_host.py   which repositories of which forge a worktree belongs to
session.py       how pushes and fetches are led to the gateway
config_syntax.py config_change.py   which replacements of a `.git/config` are harmless
tracked.py       tracked files that may not be written inside
"""
