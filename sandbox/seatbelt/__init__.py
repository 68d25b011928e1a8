"""macOS: one launch's file policy, and the Seatbelt profile (SBPL) that says the same to the kernel.

All of it is pure but the last four:

    spelling.py    the spellings of one path: as written, without links, and what the disk takes for the same name
    patterns.py    globs and paths as anchored expressions in which letter case does not count
    services.py    data: programs, system services and devices by which a process gets others to act for it
    policy.py      what may be read, written, unlinked and executed, decided in Python
    profile.py     the same as text for `sandbox-exec`, in an order that matters: the last rule that matches wins
    trial.py       a profile that says a little of everything, for the probe
    plan.py        looks at the host for a spec: the policy, and what the environment is told
    developer_tools.py  where git and the compilers really lie
    log_stream.py  refusals read back from the system's log
    enter.py       runs inside, between `sandbox-exec` and the command, for the exit statuses of the contract

Tests hold the two tellings together: an evaluator of the text gives the verdict of the policy, path by path.
"""
