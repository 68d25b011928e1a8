"""The doctor: what works on this host, what does not, and the command or edit that mends it. It changes nothing.

findings.py      a finding, and all of them as text and JSON
place.py         where the doctor looks: environment, configuration, directories
answer.py        all of it, as `agent-gateway doctor` tells it
examination.py   the table of checks; runs them, each with a deadline
kernel.py  wrapping.py  git.py  network.py  github.py  configuration.py  state.py  leftovers.py   the checks
boundaries.py    which boundary holds for whom, as data: the honest table
"""
