"""What agents are given besides the worktree: a directory of their own, and the folders of a space.

state.py    which agents are known, and where their own directory is
seeding.py  what is copied there once of the user's
trust.py    what an agent is told of the folder it works in
sharing.py  spaces: agents beside each other
"""
