"""Every bound on what a peer may send and how long it may take. README shows this table."""

from typing import Final

# Bytes of one line of a request or response head; what nginx and Apache take at most by default is 8 KiB.
HEAD_LINE: Final = 16 * 1024
# Bytes of a whole head.
HEAD_TOTAL: Final = 64 * 1024
# Fields of a head.
HEAD_FIELDS: Final = 128
# Bytes of a ClientHello; one with post-quantum key shares has about 2 KiB.
CLIENT_HELLO: Final = 32 * 1024
# Seconds until a head, a SOCKS greeting, a SOCKS request or a ClientHello must be complete.
HANDSHAKE: Final = 10.0
# Seconds for one name lookup.
RESOLVE: Final = 10.0
# Seconds for one address, and for all addresses of a name.
DIAL_ONE: Final = 10.0
DIAL_ALL: Final = 30.0
# Seconds before the next address is tried beside the first (RFC 8305 section 5).
DIAL_STAGGER: Final = 0.25
# Addresses of one name that are tried at most.
DIAL_ADDRESSES: Final = 8
# Seconds after which a plain request that still runs is recorded, before the record of its end.
LONG_REQUEST: Final = 1.0
# Seconds a refused peer gets to read its answer and hang up.
LINGER: Final = 2.0
# Connections over a session's limit that are still read, so that they can be told why; beyond, they are closed at once.
OVER_LIMIT: Final = 64
# Seconds between two looks at the deadlines of all connections.
SWEEP: Final = 0.25
# Name lookups of one session at a time, and of all sessions.
LOOKUPS_PER_SESSION: Final = 8
LOOKUPS: Final = 32
# Seconds an answer of the resolver is kept, and how many answers.
LOOKUP_KEPT: Final = 30.0
LOOKUPS_KEPT: Final = 2048
