"""The metadata table: index definitions and segments with their records; `docs/format.md` describes the files."""

from __future__ import annotations

from pruner.metadata.definitions import FieldBinding, IndexDefinition, define
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES, NewerFormatError, SegmentEntry, State
from pruner.metadata.table import MetadataTable

__all__ = [
    "FILES",
    "FieldBinding",
    "IndexDefinition",
    "MetadataTable",
    "NewerFormatError",
    "SegmentEntry",
    "State",
    "batch_table",
    "define",
]
