"""The benchmark (`make bench`, `python -m tests.bench`): this gateway, direct, and the peers this machine can install.

It measures and prints; it decides nothing and nothing imports it. `toolchain` builds and finds programs, `subjects`
starts and stops what is measured, `measures` and `micro` take the figures, `report` prints them with their bounds.
Pushes have a stage of their own: `push_site` (with `push_forge`, `push_place`, `push_agent`), measured by `pushes`.
"""
