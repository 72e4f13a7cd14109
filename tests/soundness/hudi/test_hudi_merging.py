"""No merge mode loses a row, and none leaves the index without power: every payload of Hudi, on real tables.

What a merged read returns in a column must be in the base file or in a log file (R5). The test shows this against
Spark, for the values of each column of each row, and for those of two columns in one row, as the snapshot read and the
read of base files alone return them. The written values are the other bound: a value that no write brought to a file
group excludes the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
from tests.support.hudi.payloads import BUILDERS, INSERTED, UPSERTED, payload_tables
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.writer import CITIES
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPARK = pruner.Semantics(engine="spark", zone="UTC")
COLUMNS = ("id", "seats", "fare", "note", "ts")
FILE_GROUPS = 3


@pytest.fixture(scope="module")
def payloads(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The tables of each payload; read-only."""
    return payload_tables(start_session)


@pytest.mark.parametrize("name", BUILDERS)
def test_values_of_merged_rows_stand_in_the_index(
    name: str, spark_reads: SparkReads, payloads: KeptTables, tmp_path: Path
) -> None:
    path = payloads.path(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*", build=False)
    table.create_index("bits", on=list(COLUMNS), using="bitmap", build=False)
    table.create_index("values", on=list(COLUMNS), using="bloom_filter", build=False)
    table.create_index("keys", on=list(COLUMNS), using="record_index", build=False)
    refreshed = table.refresh()
    assert not refreshed.failures
    assert sum(1 for entry in table.snapshot().slices if entry.log_files) == FILE_GROUPS - 1
    assert not table.status().uncoverable

    merged = spark_reads.read(path).rows
    of_base_files = spark_reads.read(path, read_optimized=True).rows
    assert {row["id"]: row for row in merged}[0]["fare"] != INSERTED[0][2], "the log files were not merged"
    for rows, mode in ((merged, "snapshot"), (of_base_files, "read_optimized")):
        semantics = replace(SPARK, scan_mode=mode)
        for row in rows:
            group = row["_hoodie_file_name"].split("_", maxsplit=1)[0]
            for text in _conditions(row):
                kept = {entry.file_id for entry in table.plan(text, semantics=semantics).slices}
                assert group in kept, f"LOST {group} for {text} ({mode})"
    for text, possible in _values_written():
        plan = table.plan(text, semantics=SPARK)
        assert {entry.partition_path for entry in plan.slices} <= possible, text
    assert table.plan("seats = 1000000", semantics=SPARK).kept == 0


def _conditions(row: Any) -> Iterator[str]:
    """Conditions true in this row: on each column, and on each column and the next, which may come from other files."""
    names = [name for name in row.asDict() if not name.startswith("_hoodie_")]
    texts = [_equal(name, row[name]) for name in names]
    yield from texts
    yield from (f"{one} AND {other}" for one, other in zip(texts, [*texts[1:], texts[0]], strict=True))


def _equal(name: str, value: Any) -> str:
    match value:
        case None:
            return f"`{name}` IS NULL"
        case str():
            return f"`{name}` = '{value}'"
        case float():
            return f"`{name}` = {value!r}D"
        case _:
            return f"`{name}` = {value}"


def _values_written() -> Iterator[tuple[str, set[str]]]:
    """Each value of each column, and the partitions to which a write brought it: each has one file group."""
    written = [*INSERTED, *(row for rows in UPSERTED for row in rows)]
    for position, name in enumerate(COLUMNS):
        for value in {row[position] for row in written}:
            places = {f"city={CITIES[row[0] % len(CITIES)]}" for row in written if row[position] == value}
            yield _equal(name, value), places
