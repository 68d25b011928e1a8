"""The config file: found, read, every problem reported at once, and compiled into a session's egress rules.

`loading` is the way in and the only home of YAML; `values` are what comes out. Between them: `file` (bounded read),
`tree` and `section` (nodes with their lines), `schema`, `egress` and `github` (what the keys mean), `checks` (across
keys).
"""

from gateway.config.file import find_config
from gateway.config.loading import EXTRA_RULE, ConfigError, check_config, compile_egress, load_config
from gateway.config.values import Config

__all__ = [
    "EXTRA_RULE",
    "Config",
    "ConfigError",
    "check_config",
    "compile_egress",
    "find_config",
    "load_config",
]
