"""The real Delta tables that tests read: every reader feature and every kind of history, written by Spark.

Each table has a name and a builder, is built once per machine, and is read-only by agreement. Beside it stands, for
every version that can be read, what Spark reads with nothing skipped: `delta_states`. A table that is to be written to
is copied: `AllTables.copy`.
"""

from tests.support.delta.tables.kept import delta_states, tables
from tests.support.delta.tables.registry import BUILDERS

__all__ = ["BUILDERS", "delta_states", "tables"]
