"""Table schemas for tests."""

from __future__ import annotations

import pyarrow as pa

from pruner.schema import Field, TableSchema, flatten


def table_schema(schema: pa.Schema) -> TableSchema:
    """The schema of a table with these columns and the fields of their structs."""
    return TableSchema(tuple(Field(path, entry.type) for path, entry in flatten(schema)))
