"""agent-gateway: what leaves a coding agent's machine is allowed, refused and recorded here.

cli.py         argv, environment, exit status; imports the rest when it is needed; arguments.py has the parsers
options.py     what the options may not say together; plan.py works a run out, with places.py and wrap_spec.py
profile.py     `profile`: what `run` would use as its wrap, shown
run.py         composition root of `run`: config, wrap, session, proxies, teardown; foreground.py is its command
github_half.py the App, the tokens and the push gateway of a session, put together for `run`
action_half.py what its tool calls meet; operator_half.py what its operator answers by (approvals_command.py)
terminal.py    where the command stands on a terminal, and the terminal as it was; signals.py passes signals on
demo.py        `demo`: the main job against targets of its own on loopback; demo_push.py its pushes
config/        YAML into frozen values, every problem at once
allowlists.py  reads the shipped lists
session.py     Session, Sessions; lifecycle.py opens and closes them, violations.py brings what the wrap refuses
authorizer.py  the door: decides and records (push_authorizer.py, action_authorizer.py); audit/ is the log behind it
policy/        pure: hosts, addresses, lists, limits, rules, refs, shell lines, tools -> Decision
proxy/         enforcement point 1: mitmproxy, HTTP and SOCKS5
push/          enforcement point 2: reads pushes, judges each ref, forwards with a token of its own
credentials/   the App's tokens: minted, lent, revoked, recorded
api/           what a wrapped process may ask of the gateway itself, and what an operator may
review/        reads the log: is it whole, what happened; doctor/ says what works on this host
forge/         a GitHub in small for the demo and the tests; nothing of the gateway's own way imports it
../sandbox/    the launcher: native wrap, environment, stub
"""

__version__ = "0.1.0"
