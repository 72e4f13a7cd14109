"""Indexes for lookups that Spark's executors built equal those built locally, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.metadata import MetadataTable
from pruner.pipeline import spark as spark_runner
from pruner.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pruner.metadata.state import SegmentEntry

pytestmark = pytest.mark.spark

FILES, ROWS = 4, 30_000
NAMES = {"id", "definition", "batch"}
"""The fields of a segment's metadata that are random: its own id, and those of its definition and its batch."""
INDEXES = {"bloom_filter": ["id", "name", "price"], "record_index": ["id", "name"]}


class Segment(NamedTuple):
    """A segment: what it describes, all bytes before the footer, and the footer, without `NAMES`."""

    about: dict[str, Any]
    body: bytes
    footer: list[Any]


def write_files(root: Path) -> None:
    rng = np.random.default_rng(17)
    root.mkdir()
    for number in range(FILES):
        ids = rng.integers(0, 2**40, ROWS)
        columns: dict[str, Any] = {"id": ids, "name": pa.array(ids).cast(pa.string()), "price": ids / 7}
        pq.write_table(pa.table(columns), root / f"{number}.parquet")


def segment(place: Path, entry: SegmentEntry) -> Segment:
    data = (place / entry.path).read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    metadata: Any = pq.read_metadata(place / entry.path)
    own = dict(metadata.metadata)
    about = {
        key: value
        for key, value in msgspec.json.decode(own.pop(b"pruner.segment")).items()
        if key not in NAMES
    }
    # Arrow's form of the schema, which repeats all of this metadata.
    del own[b"ARROW:schema"]
    groups = [metadata.row_group(number).to_dict() for number in range(metadata.num_row_groups)]
    return Segment(
        about,
        data[:-footer],
        [metadata.num_rows, metadata.schema.to_arrow_schema().remove_metadata(), own, groups],
    )


def segments_of(table: pruner.Table) -> list[Segment]:
    metadata = MetadataTable(open_store(table.index_uri))
    entries = [entry for entry in metadata.state().segments if entry.definition is not None]
    found = [segment(Path(table.index_uri), entry) for entry in entries]
    return sorted(found, key=lambda each: repr(each.about))


def build(table: pruner.Table, run: Any) -> None:
    for using, columns in INDEXES.items():
        options = {"fpp": "0.00001"} if using == "bloom_filter" else {}
        built = table.create_index(using, on=columns, using=using, options=options, run=run)
        assert built is not None
        assert built.failures == ()


def assert_same_bytes(one: pruner.Table, other: pruner.Table) -> None:
    ours, theirs = segments_of(one), segments_of(other)
    assert [each.about for each in ours] == [each.about for each in theirs]
    for left, right in zip(ours, theirs, strict=True):
        assert left.body == right.body, left.about
        assert left.footer == right.footer, left.about


def test_one_part(spark: SparkSession, tmp_path: Path) -> None:
    """Large enough to be read in parts: filters in stripes, keys in pages."""
    write_files(tmp_path / "t")
    tables = [
        pruner.open_table(tmp_path / "t", index_uri=str(tmp_path / each)) for each in ("local", "spark")
    ]
    for table, run in zip(tables, ("local", spark), strict=True):
        build(table, run)
    found = segments_of(tables[0])
    assert len(found) == 5
    assert all(b"pruner.pieces" in each.footer[2] for each in found)
    assert_same_bytes(*tables)


def test_parts_that_were_compacted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runner, "CHUNK_SLICES", 2)
    write_files(tmp_path / "t")
    local, distributed = (
        pruner.open_table(tmp_path / "t", index_uri=str(tmp_path / each)) for each in ("local", "spark")
    )
    build(local, "local")
    build(distributed, spark)
    assert len(segments_of(distributed)) == 2 * len(segments_of(local))
    distributed.compact()
    assert_same_bytes(local, distributed)


def test_log_files(spark: SparkSession, hudi_table: Callable[[str], Path], tmp_path: Path) -> None:
    path = hudi_table("mor_v9")
    tables = [pruner.open_table(path, index_uri=str(tmp_path / each)) for each in ("local", "spark")]
    for table, run in zip(tables, ("local", spark), strict=True):
        for using in INDEXES:
            table.create_index(using, on=["id", "city"], using=using, run=run)
    assert len(segments_of(tables[0])) == 4
    assert_same_bytes(*tables)
