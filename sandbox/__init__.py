"""The launcher: wraps one command, gives it its environment and hands the wrap's listeners to the gateway.

It decides nothing about the network and writes no log; it imports the standard library, `gateway.policy`,
`gateway.session` and `gateway.errors`, so that `run` starts in milliseconds.

    launch.py     which backend is in force, and the start-up line that says so
    spec.py       what a session asks of its wrap (frozen values)
    env.py        the environment of the wrapped process (variables.py holds its lists, gitconfig.py the git part)
    paths.py      what a command needs to run: its install prefix, its interpreter, its PATH
    mounts.py     the spec as bubblewrap arguments (binds.py, filerules.py, gitdir.py, etc.py feed it)
    backends/     one file per backend; base.py says what a backend is
    stub.py       runs inside: opens the listeners, hands them out, waits for the word, becomes the command
    keeper.py     the same on the host, for runs without a wrap: owns the command's process tree
    connect.py    runs inside: git's and ssh's way through the SOCKS proxy
"""
