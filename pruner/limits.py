"""Bounds on everything that comes from outside, in one place so that they can be read and tested together."""

PREDICATE_TEXT_BYTES = 32 * 1024 * 1024
"""Longest predicate text, in UTF-8 bytes; holds an IN list of a million ten-digit values."""

PREDICATE_DEPTH = 200
"""Deepest nesting of a predicate, in tree levels and in parentheses of its text."""

PREDICATE_NODES = 2_000_000
"""Most nodes of one predicate, literals of IN lists included."""

SQL_PARSER_NESTING = 100
"""Parentheses that the SQL parser is given at most: it recurses several frames a level."""

STRING_BOUND_BYTES = 64
"""Length at which stored string and binary bounds are truncated."""

LOG_ENTRY_BYTES = 64 * 1024 * 1024
"""Largest log entry that a reader accepts."""

SEGMENT_SLICES = 1 << 20
"""Most slices whose records stand in one segment."""

STATEMENT_CHARACTERS = 1024 * 1024
"""Longest statement (CREATE INDEX and the like)."""

CONFIG_BYTES = 1024 * 1024
"""Largest `pruner.toml`."""

INDEX_MEMORY = 256 * 1024 * 1024
"""Bytes of index records that a table holds at most, unless it was opened with another `index_memory`."""

FEED_FILES = 10_000
"""Event files that a change feed may hold; listing more of them costs as much as what it is to save."""

FEED_FILE_BYTES = 1024 * 1024
"""Largest event file of a change feed."""

FEED_NEW_BYTES = 16 * 1024 * 1024
"""Bytes of new events that one look reads at most."""

FEED_NAMES = 4096
"""Places named by a change feed that a look asks for one by one; of more, everything is listed."""

FEED_CONFIRM_SECONDS = 600.0
"""Seconds after which a whole listing confirms what a change feed said, unless something else is set."""

REMEMBERED_SLICES = 1 << 16
"""Slices of the snapshots that remembered scans hold, all together, of 650 bytes each; the newest snapshot is held
whatever it has, and the newest few where threads ask about them.
"""
