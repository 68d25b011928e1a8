"""A small GitHub on loopback: an App API that hands out scoped tokens, and real git behind `git http-backend`.

It stands in for GitHub in the demo and in tests. It must not be reachable from another machine, serve anything outside
its own folder, or outlive whoever started it. Nothing in the gateway's own way of a push imports it.
"""
