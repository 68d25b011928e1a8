"""Reading the audit log: `files` gives its lines, `verify` says whether it is what was written."""
