"""Meta columns of Hudi: indexes on them lose no row, on every fixture table, against Spark's read.

A row's meta columns may be read as other values than its base file holds: rows of log files bring their own, an
update of a copy-on-write table gives the rows beside it another `_hoodie_file_name`, a clustering keeps the commit
time, and a table without meta columns (`hoodie.populate.meta.fields=false`) has NULL there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from pruner.tables.hudi.avro_schema import META_COLUMNS
from tests.support.hudi.merging import merging_tables
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from pruner.planning.pinned import PinnedSnapshot

pytestmark = pytest.mark.spark

SEMANTICS = pruner.Semantics(engine="spark", zone="UTC")
READ_OPTIMIZED = dataclasses.replace(SEMANTICS, scan_mode="read_optimized")
MERGED = [
    f"{name}_v{version}"
    for name in ("mor_event_time", "mor_deleted_by_column", "mor_archived")
    for version in (6, 9)
]
TABLES = [*table_names(), *MERGED]


@pytest.fixture(scope="module")
def tables(hudi_tables: KeptTables, start_session: Callable[[], SparkSession]) -> Callable[[str], Path]:
    """The path of a table of either catalog; read-only."""
    merging = merging_tables(start_session)
    return lambda name: (merging if name in MERGED else hudi_tables).path(name)


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_lost_by_a_meta_column(
    name: str, spark_reads: SparkReads, tables: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tables(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on=list(META_COLUMNS))
    table.create_index("values", on=list(META_COLUMNS), using="bitmap")
    pinned = table.snapshot()
    _check(pinned, spark_reads.read(path).rows, SEMANTICS)
    if name.startswith("mor"):
        _check(pinned, spark_reads.read(path, read_optimized=True).rows, READ_OPTIMIZED)


def _check(pinned: PinnedSnapshot, rows: list[Row], semantics: pruner.Semantics) -> None:
    for column in META_COLUMNS:
        groups: dict[str, set[str]] = {}
        for row in rows:
            groups.setdefault(row[column], set()).add(row["_hoodie_file_name"].split("_", maxsplit=1)[0])
        assert None not in groups
        for value in groups:
            for operator, holds in (("=", str.__eq__), (">=", str.__ge__), ("<=", str.__le__)):
                text = f"{column} {operator} '{_quoted(value)}'"
                expected = {group for found, some in groups.items() if holds(found, value) for group in some}
                kept = {entry.file_id for entry in pinned.plan(text, semantics=semantics).slices}
                assert expected <= kept, f"LOST {expected - kept} for {text}"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
