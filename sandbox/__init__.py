"""The launcher: wraps one command, gives it its environment and hands the wrap's listeners to the gateway.

It decides nothing about the network and writes no log; it imports the standard library, `gateway.policy`,
`gateway.session` and `gateway.errors`, so that `run` starts in milliseconds.

    launch.py     which backend is in force, and the start-up line that says so
    spec.py       what a session asks of its wrap (frozen values)
    env.py        the environment of the wrapped process (variables.py holds its lists, gitconfig.py the git part)
    paths.py      what a command needs to run: its install prefix, its interpreter, its PATH
    mounts.py     the spec as bubblewrap arguments (binds.py, filerules.py, gitdir.py, etc.py feed it)
    events.py     what happens in a wrap, as values (violations.py counts what was refused)
    backends/     one file per backend; base.py says what a backend is, wrap.py holds what all wraps share
    stub.py       runs inside: opens the listeners, hands them out, waits for the word, becomes the command
    attendant.py  runs inside and on the host: starts one of many commands, tells its end, kills its tree
    keeper.py     on the host, for wraps whose processes live there: owns their tree
    connect.py    runs inside: git's and ssh's way through the SOCKS proxy
"""
