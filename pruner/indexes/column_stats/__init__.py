"""Column statistics: minimum, maximum and counts of each field in each slice."""

from pruner.indexes.column_stats.index import COLUMN_STATS, ColumnStats

__all__ = ["COLUMN_STATS", "ColumnStats"]
