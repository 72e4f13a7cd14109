"""Small metadata tables for tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import xxhash

from pruner.metadata import FieldBinding, IndexDefinition, MetadataTable, SegmentEntry, State, define
from pruner.metadata.segments import BATCH_SCHEMA
from pruner.storage.store import Store

IDENTITY = "table-1"
AMOUNT = ("amount",)


def keys(numbers: range | list[int]) -> pa.Array[Any]:
    return pa.array([xxhash.xxh3_128_digest(b"%d" % number) for number in numbers], pa.binary(16))


def batch_records(numbers: range | list[int]) -> pa.Table:
    names = [f"file-{number}" for number in numbers]
    count = len(names)
    return pa.table(
        {
            "slice_key": keys(numbers),
            "partition_path": ["day=1"] * count,
            "file_id": names,
            "base_file": [f"day=1/{name}.parquet" for name in names],
            "base_size": list(range(count)),
            "base_version": ["v"] * count,
            "base_instant": ["20240101000000000"] * count,
        },
        schema=BATCH_SCHEMA,
    )


def statistics(count: int) -> pa.Table:
    return pa.table(
        {"__slice": pa.array(range(count), pa.int32()), "min": list(range(count)), "max": [7] * count}
    )


def an_index(name: str = "amount_idx") -> IndexDefinition:
    return define(name, "column_stats", (FieldBinding(AMOUNT, "int64", 3),), options={"k": "v"})


def add_index(table: MetadataTable, definition: IndexDefinition) -> State:
    def change(state: State) -> State:
        state = state if state.matches(IDENTITY) else state.without_coverage(IDENTITY)
        return state.with_definition(definition)

    return table.commit(change)


def write_records(
    table: MetadataTable, definition: IndexDefinition, numbers: range
) -> tuple[SegmentEntry, SegmentEntry]:
    batch = table.write_segment("files", batch_records(numbers))
    records = table.write_segment(
        "column_stats", statistics(len(numbers)), definition=definition, field=AMOUNT, batch=batch
    )
    return batch, records


def a_table(store: Store, *, count: int = 5) -> tuple[MetadataTable, IndexDefinition]:
    """A metadata table with one index over `count` slices, at version 2."""
    table = MetadataTable.open(store)
    definition = an_index()
    add_index(table, definition)
    written = write_records(table, definition, range(count))
    table.commit(lambda state: state.with_segments(written))
    return table, definition
