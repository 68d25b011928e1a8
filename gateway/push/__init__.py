"""Enforcement point 2: pushes. What a client sends is read, judged and written anew; its own bytes never go on.

Order of a push: `handlers` (HTTP) → `target` (which address) → `access` (which repository) → `advertisement`, or
`receiver`: `gzip_body` (content coding) → `commands` on `pkt` (what is asked) → the door, with `pack_scan` and
`ancestry` (what kind of update) → `forwarding`, `upstream` → `report` (what the client reads). dulwich's only home.
"""
