"""Enforcement point 1: the session's HTTP and SOCKS5 proxies, on embedded mitmproxy with a raw front end.

Nothing here decides: the addon asks the door. Order of a connection: listener → front (`http_front`, `socks_front`) →
hooks of `addons` → `dialling` → `tunnel` (opaque) or `plain` (HTTP). This is mitmproxy's only home.
"""
