"""The record index: where the row with a key is."""

from pruner.indexes.record_index.index import RECORD_INDEX, RecordIndex

__all__ = ["RECORD_INDEX", "RecordIndex"]
