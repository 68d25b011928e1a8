"""agent-gateway: what leaves a coding agent's machine is allowed, refused and recorded here.

cli.py         argv, environment, exit status; imports the rest when it is needed
run.py         composition root of `run`: config, wrap, session, proxies, command, teardown
terminal.py    where the command stands on a terminal, and the terminal as it was; signals.py passes signals on
demo.py        `demo`: the main job against targets of its own on loopback
config/        YAML into frozen values, every problem at once
allowlists.py  reads the shipped lists
session.py     Session, Sessions; lifecycle.py opens and closes them
authorizer.py  the door: decides and records; audit.py is the log behind it
policy/        pure: hosts, addresses, lists, limits, egress -> Decision
proxy/         enforcement point 1: mitmproxy, HTTP and SOCKS5
api/           what a wrapped process may ask of the gateway itself
../sandbox/    the launcher: native wrap, environment, stub
"""

__version__ = "0.1.0"
