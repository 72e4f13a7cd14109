"""Lookups of keys by Bloom filters and by a record index: building, what a first plan reads, growth with slices.

In the same run for comparison: a bare sort of the keys, and DuckDB over files that it wrote with Parquet's own
filters.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from pruner.expr.bound.predicates import CompareLeaf, Point
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.optional import ArrangingIndexType, RecordPart, SelectiveIndexType
from pruner.indexes.registry import index_type
from pruner.maintenance.compaction import MERGED_SLICES
from pruner.pipeline.batches import BATCH_SLICES
from pruner.schema import Field
from pruner.storage.local import LocalStore
from pruner.tables.footers.filters import blocks_for, filter_of
from pruner.verdict import Outcome

USING = ("bloom_filter", "record_index")
FIELD = Field(("x",), pa.int64())
KEYS_A_SLICE = 10
LOOK_UPS = 200
_DUCKDB = Semantics(engine="duckdb", zone="UTC")


class Read(NamedTuple):
    """What was read from a store: requests and bytes."""

    requests: int
    size: int


def measure(console: Console, root: Path, wanted: str) -> None:
    """Build both indexes on the UUIDs of the table of `benchmarks lookup`, and look up keys with each."""
    sample = _sample(root)
    bare = _seconds(lambda: _bare_sort(root))
    grid = Grid(title=f"look-ups of a UUID; a bare sort of the keys, read and in memory, takes {bare:.1f} s")
    for heading in (
        "index",
        "bytes a key",
        "build, of a sort",
        "files of 1 key",
        "cold: read",
        "warm",
        "1,000 keys",
    ):
        grid.add_column(heading, justify="left" if heading == "index" else "right")
    rows = sum(pq.read_metadata(each).num_rows for each in root.glob("*.parquet"))
    for using in USING:
        table = pruner.open_table(str(root), index_uri=f"{root}.{using}")
        taken = _seconds(lambda table=table, using=using: table.create_index("keys", on="uuid", using=using))
        size = table.status().indexes[0].bytes
        many = "uuid IN (" + ", ".join(f"'{each}'" for each in sample[:1000]) + ")"
        read = _read_by(f"{root}.{using}", root, f"uuid = '{wanted}'")
        warm = median(
            _seconds(lambda each=each, table=table: table.plan(f"uuid = '{each}'")) for each in sample[:50]
        )
        plan = table.plan(f"uuid = '{wanted}'")
        listed = _seconds(lambda table=table, many=many: table.plan(many))
        grid.add_row(
            using,
            f"{size / rows:.1f}",
            f"{taken / bare:.1f}",
            f"{plan.kept} of {plan.total:,}",
            f"{read.size / 1e3:,.0f} KB in {read.requests}",
            f"{1e3 * warm:.1f} ms",
            f"{1e3 * listed:.0f} ms",
        )
    console.print(grid)
    _beside_parquet(console, root, wanted)


def _sample(root: Path) -> list[str]:
    """UUIDs from twenty files."""
    files = sorted(root.glob("*.parquet"))
    rng = np.random.default_rng(3)
    found: list[str] = []
    for number in rng.integers(0, len(files), 20).tolist():
        column: Any = pq.read_table(files[number], columns=["uuid"]).column(0)
        found += column[:60].to_pylist()
    return found


def _bare_sort(root: Path) -> None:
    """Read the keys and sort them."""
    keys: Any = pq.read_table(root, columns=["uuid"])
    keys.sort_by("uuid")


def _read_by(index_uri: str, root: Path, predicate: str) -> Read:
    """What a first plan reads of the metadata table, including the log."""
    found: list[int] = []
    real_get, real_ranges = LocalStore.get, LocalStore.get_ranges

    def get(self: LocalStore, path: str, max_bytes: int) -> bytes:
        data = real_get(self, path, max_bytes)
        found.append(len(data))
        return data

    def get_ranges(self: LocalStore, path: str, ranges: Any) -> list[bytes]:
        data = real_ranges(self, path, ranges)
        found.extend(map(len, data))
        return data

    LocalStore.get, LocalStore.get_ranges = get, get_ranges  # type: ignore[method-assign]
    try:
        pruner.open_table(str(root), index_uri=index_uri).plan(predicate)
    finally:
        LocalStore.get, LocalStore.get_ranges = real_get, real_ranges  # type: ignore[method-assign]
    return Read(len(found), sum(found))


def _beside_parquet(console: Console, root: Path, wanted: str) -> None:
    """The same lookup by DuckDB: with Parquet's own filters, and over the one file that holds the key."""
    own = root.with_name("with_filters")
    own.mkdir()
    with duckdb.connect() as con:
        for file in sorted(root.glob("*.parquet")):
            con.execute(
                f"COPY (FROM '{file}') TO '{own / file.name}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 100000)"
            )
        table = pruner.open_table(str(root), index_uri=f"{root}.record_index")
        query = "SELECT * FROM read_parquet({}) WHERE uuid = $1"

        def pruned() -> None:
            con.execute(query.format(list(table.plan(f"uuid = '{wanted}'").files)), [wanted]).fetchall()

        (file,) = table.plan(f"uuid = '{wanted}'").files
        for what, run in (
            ("by name", lambda: con.execute(query.format([file]), [wanted]).fetchall()),
            ("record index, then the file", pruned),
            (
                "Parquet's own filters",
                lambda: con.execute(query.format(f"'{own}/*.parquet'"), [wanted]).fetchall(),
            ),
            ("whole scan", lambda: con.execute(query.format(f"'{root}/*.parquet'"), [wanted]).fetchall()),
        ):
            run()
            console.print(f"DuckDB, {what}: {1e3 * median(_seconds(run) for _ in range(5)):.1f} ms")


def growth(console: Console) -> None:
    """One key in memory, with 10,000 slices and with 1,000,000."""
    grid = Grid(title=f"one key among slices of {KEYS_A_SLICE} keys, in memory; median of {LOOK_UPS}")
    for heading in ("index", "slices a segment", "10,000 slices", "1,000,000 slices", "times"):
        grid.add_column(heading, justify="left" if heading == "index" else "right")
    for using in USING:
        small = _of_slices(using, 10_000, BATCH_SLICES)
        for of_each in (BATCH_SLICES, MERGED_SLICES):  # as built, and compacted
            large = _of_slices(using, 1_000_000, of_each)
            shown = (f"{1e3 * each:.3f} ms" for each in (small, large))
            grid.add_row(using, f"{of_each:,}", *shown, f"{large / small:.1f}")
    console.print(grid)


def _of_slices(using: str, count: int, of_each: int) -> float:
    kind = index_type(using)
    assert isinstance(kind, ArrangingIndexType)
    assert isinstance(kind, SelectiveIndexType)
    rng = np.random.default_rng(5)
    keys = rng.permutation(count * KEYS_A_SLICE).astype(np.int64)
    parts: list[RecordPart] = []
    for start in range(0, count, of_each):
        stop = min(start + of_each, count)
        records = kind.arrange(_records(using, keys, start, stop), FIELD)
        parts.append(RecordPart(records, None, records.select))
    evidence = kind.load_parts(parts, count, FIELD)
    times: list[float] = []
    for key in rng.integers(0, len(keys), LOOK_UPS).tolist():
        leaf = CompareLeaf(FIELD, Operator.EQ, Point(key, key))
        times.append(_seconds(lambda leaf=leaf: evidence.possible(leaf, Outcome.TRUE, _DUCKDB, None)))
    return median(times)


def _records(using: str, keys: Any, start: int, stop: int) -> pa.Table:
    """Records of some slices, as the kernel returns them."""
    count = stop - start
    hashes = hash_values(pa.array(keys[start * KEYS_A_SLICE : stop * KEYS_A_SLICE])).reshape(count, -1)
    hashes = np.sort(hashes, axis=1)
    columns: dict[str, Any] = {
        "usable": np.ones(count, np.bool_),
        "type": pa.array(["int64"] * count),
        "parquet": pa.array(["INT64 - -"] * count),
        "in_range": np.ones(count, np.bool_),
        "absent": np.zeros(count, np.bool_),
        "partly_absent": np.zeros(count, np.bool_),
        "__slice": np.arange(start, stop, dtype=np.int32),
    }
    each = np.full(count, KEYS_A_SLICE)
    if using == "record_index":
        positions = np.arange(KEYS_A_SLICE, dtype="<u4").tobytes()
        own = {
            "row_count": each,
            "keys": each,
            "hashes": pa.array([row.tobytes() for row in hashes], pa.large_binary()),
        }
        empty = pa.nulls(count, pa.large_binary())
        own |= {
            "positions": pa.array([positions] * count, pa.large_binary()),
            "fences": empty,
            "packed": empty,
        }
    else:
        blocks = blocks_for(KEYS_A_SLICE, 0.01)
        filters = [filter_of(row, blocks) for row in hashes]
        own = {
            "distinct": each,
            "blocks": np.full(count, blocks, np.int32),
            "stripes": np.zeros(count, np.int16),
        }
        own["filter"] = pa.array(filters, pa.large_binary())
    return pa.table({**columns, **own})


def _seconds(run: Any) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
