"""The launcher: wraps one command or many, gives them their environment and hands the wrap's listeners to the gateway.

It decides nothing about the network and writes no log; it imports the standard library, `gateway.policy`,
`gateway.session` and `gateway.errors`, so that `run` starts in milliseconds.

    spec.py       what a session asks of its wrap (frozen values); events.py what happens in one
    launch.py     which backend is in force, and the start-up line that says so; probing/ finds out whether it works
    backends/     one file per backend; base.py says what a backend is, wrap.py holds what all wraps share
    mounts.py     the spec as bubblewrap arguments (spec_checks.py, binds.py, survey.py, etc.py feed it)
    filerules.py  which names are denied; masks.py covers those that exist (quarantine.py looks again afterwards)
    governed.py   what is judged when it is made: by supervisor/ outside, behind what confine.py builds inside
    seatbelt/     the same on macOS, as a profile; terminal/ is a person's own shell
    agents/       agents' own directories, spaces; git/ what git inside is told
    env.py        the environment of the wrapped process (variables.py holds its lists)
    stub.py       runs inside: opens the listeners, hands them out, waits for the word, becomes the command
    attendant.py  runs inside and on the host: starts one of many commands, tells its end, kills its tree
    keeper.py     on the host, for wraps whose processes live there: owns their tree
    connect.py    runs inside: git's and ssh's way through the SOCKS proxy; credential.py git's read token
"""
