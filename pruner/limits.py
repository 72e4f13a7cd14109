"""Bounds on all external input, in one module so that they can be read and tested together."""

PREDICATE_TEXT_BYTES = 32 * 1024 * 1024
"""Longest predicate text, in UTF-8 bytes; holds an IN list of a million ten-digit values."""

PREDICATE_DEPTH = 200
"""Deepest nesting of a predicate, in tree levels and in parentheses of its text."""

PREDICATE_NODES = 2_000_000
"""Most nodes of one predicate, including the literals of IN lists."""

SQL_PARSER_NESTING = 100
"""Deepest nesting of parentheses that the SQL parser is given: it recurses several frames per level."""

STRING_BOUND_BYTES = 64
"""Length at which stored string and binary bounds are truncated."""

LOG_ENTRY_BYTES = 64 * 1024 * 1024
"""Largest log entry that a reader accepts."""

SEGMENT_SLICES = 1 << 20
"""Most slices whose records one segment holds."""

STATEMENT_CHARACTERS = 1024 * 1024
"""Longest statement (CREATE INDEX and the like), in characters."""

CONFIG_BYTES = 1024 * 1024
"""Largest `pruner.toml`."""

INDEX_MEMORY = 256 * 1024 * 1024
"""Most bytes of index records that a table holds, unless it was opened with another `index_memory`."""

FEED_FILES = 10_000
"""Most event files that a change feed may hold; listing more costs as much as the feed saves."""

FEED_FILE_BYTES = 1024 * 1024
"""Largest event file of a change feed."""

FEED_NEW_BYTES = 16 * 1024 * 1024
"""Most bytes of new events that are read for one listing."""

FEED_NAMES = 4096
"""Most paths named by a change feed that are looked up one by one; beyond that, the whole table is listed."""

FEED_CONFIRM_SECONDS = 600.0
"""Default number of seconds after which a full listing confirms what a change feed reported."""

REMEMBERED_SLICES = 1 << 16
"""Total slices of the snapshots that remembered scans hold, at 650 bytes each; the newest snapshot is held whatever its
size, and the newest few where threads ask about them.
"""
