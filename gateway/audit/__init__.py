"""The audit log: JSON Lines, one file per writing process, each line chained to the one before by its hash.

`log` appends, `event` is what is appended, `written_file` a file being written, `names` the names of files. `signing`
holds the key, `register` what is known of every chain outside the log, `sealing` brings both into a chain. `retention`
removes and compresses finished files, the latter in the thread of `tending`.
"""

from gateway.audit.event import GENESIS, SCHEMA_VERSION, AuditEvent, EventKind
from gateway.audit.log import AuditLog
from gateway.audit.sealing import Reason

__all__ = ["GENESIS", "SCHEMA_VERSION", "AuditEvent", "AuditLog", "EventKind", "Reason"]
