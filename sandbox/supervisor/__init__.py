"""The door: a process of its own, outside the wrap and bubblewrap's parent, that performs what may write or name files.

    launcher ─► supervisor (no capabilities, one thread) ─► bwrap ─► init ─► stub, later CMD

A filter inside turns every call that opens for writing, creates, renames, links or connects into a notification
(seccomp_unotify(2)) and a Landlock ruleset inside forbids the same calls to everybody but us. The supervisor reads
the caller's path once, pins the directory with openat2 on the wrap's own root, judges the pinned directory's real
path and the final name, performs the call itself on what it pinned, and hands the result in. Nothing is answered
with "continue" that the ruleset would not stop if its path were another one by then.

What is called when: `program` (the process) → `loop` (one notification after another) → `operations`, `opening`,
`truncating`, `naming`, `connecting`, `pairing` (the calls) → `existing` (files that are there), `reopening` (what is
open already) → `resolution` (paths), `tracee`, `tracees` (the callers), `judgement` (the rules), `report` (violations)
→ `kernel` (system calls). `rules` and `client` are the launcher's side; they import nothing else here.

It makes calls for others in a mount namespace that is not its own. Mounts of the pinned directories count as ever
(EROFS, EXDEV), but whether a name is a mount point the kernel looks up in the namespace of whoever asks: it would let
us move what it would not let the caller move. So every bind and mask is a rule here. And it is one thread for all, so
nothing it does may wait for somebody: see `waiting`.
"""
