"""Hudi's own metadata table: our reader against Hudi's, and plans from its statistics against Spark's snapshot read."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner.storage.opening import open_store
from pruner.tables.avro.columns import NotColumnarError, decode_field
from pruner.tables.hudi.metadata.indexes import HudiIndexes, StatCache
from pruner.tables.hudi.metadata.partition import FileGroup
from pruner.tables.hudi.metadata.payloads import (
    BLOOM,
    FILES,
    LOCATION,
    SECONDARY,
    STATS,
    body,
    decoder,
    schema_of,
)
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.archived import ALL, all_tables
from tests.support.kept.tables import AllTables
from tests.support.running.profiles import examples, seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = list(ALL)
KINDS = {1, 2, 3, 4, 5}
PLANNED = {"cow_indexed_later_v9": {5}, "cow_indexing_v9": {5}}
"""The kinds of records that every table has, and those of indexes that are planned or in flight."""

MEMBERS = ("Boolean", "Int", "Long", "Float", "Double", "Bytes", "String", "Date", "Decimal", "TimeMicros")
MEMBERS += ("TimestampMicros", "LocalDate", "Array")
"""The wrappers of a value, in the order of Avro's union, which Spark shows as `member<i>`."""


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> AllTables:
    """The tables with every index of Hudi's; read-only."""
    return all_tables(start_session)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_what_hudi_reads(name: str, indexed: AllTables) -> None:
    path = indexed.path(name)
    indexes = HudiIndexes(str(path), {}, read_timeline(open_store(str(path), {})), StatCache())
    expected = {
        (row["type"], row["key"]): _of_spark(row)
        for row in pq.read_table(path.with_name("metadata.parquet")).to_pylist()
    }
    found: dict[tuple[int, str], Any] = {}
    for partition in indexes.names:
        for group in indexes.groups(partition):
            records = dict(group.records())
            _assert_decoded_alike(group)
            assert dict(group.look_up(list(records))) == records
            found.update(
                ((record["type"], key.decode()), _of_ours(record)) for key, record in records.items()
            )
    assert found == expected
    assert {kind for kind, _ in found} >= KINDS - PLANNED.get(name, set())


def _assert_decoded_alike(group: FileGroup) -> None:
    """Records decoded in bulk equal those decoded one by one."""
    for hfile in (found for found, _ in group.layers() if found is not None):
        values = [value for _, value in hfile.scan()]
        one_by_one = [decoder(hfile)(value) for value in values]
        try:
            at_once = decode_field(values, schema_of(hfile), STATS)
        except NotColumnarError:
            assert any(body(record, FILES) is not None for record in one_by_one), (
                "only lists of files are not read so"
            )
        else:
            assert repr(at_once) == repr([record.get(STATS) for record in one_by_one])  # NaN equals nothing


def _of_spark(row: dict[str, Any]) -> dict[str, Any]:
    parts = {part: row[part] for part in (BLOOM, STATS, LOCATION, SECONDARY) if row.get(part) is not None}
    if row[FILES] is not None:
        parts[FILES] = dict(row[FILES])
    if STATS in parts:
        stats = dict(parts[STATS])
        for end in ("minValue", "maxValue"):
            members = stats[end]
            stats[end] = members and next(
                (MEMBERS[int(name[6:])], held["value"]) for name, held in members.items() if held is not None
            )
        parts[STATS] = stats
    return parts


def _of_ours(record: dict[str, Any]) -> dict[str, Any]:
    parts = {
        part: found for part in (FILES, BLOOM, STATS, LOCATION, SECONDARY) if (found := body(record, part))
    }
    if STATS in parts:
        stats = dict(parts[STATS])
        for end in ("minValue", "maxValue"):
            stats[end] = stats[end] and _unwrapped(*stats[end])
        stats["valueType"] = stats.get("valueType") and stats["valueType"][1]
        parts[STATS] = stats
    return parts


def _unwrapped(name: str, held: dict[str, Any]) -> tuple[str, Any]:
    wrapper = name.rpartition(".")[2].removesuffix("Wrapper")
    value = held["value"]
    if wrapper == "Decimal":
        return wrapper, Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-15)
    return wrapper, value


def _sql(query: str) -> Any:
    return duckdb.sql(query)


class Opened:
    """A table without an index of pruner's, and the rows that Spark reads of it."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.table = pruner.open_table(str(path), index_uri=str(scratch / "index"))
        self.rows = str(path.with_name("rows.parquet"))
        self.pinned = self.table.snapshot()

    def groups(self, predicate: str) -> set[str]:
        """The file groups with rows that match."""
        query = f"SELECT DISTINCT split_part(_hoodie_file_name, '_', 1) FROM '{self.rows}/*.parquet' WHERE {predicate}"
        return {group for (group,) in _sql(query).fetchall()}

    def groups_around(self, column: str, literal: str) -> set[str]:
        """The file groups with values on both sides of a literal, or equal to it."""
        query = (
            f"SELECT split_part(_hoodie_file_name, '_', 1) AS file FROM '{self.rows}/*.parquet' "
            f"GROUP BY file HAVING min({column}) <= {literal} AND max({column}) >= {literal}"
        )
        return {group for (group,) in _sql(query).fetchall()}

    def kept(self, predicate: str) -> set[str]:
        """The file groups that a plan keeps."""
        return {entry.file_id for entry in self.pinned.plan(predicate).slices}

    def notes(self, predicate: str) -> str:
        """The plan's report of what it could not use."""
        return self.pinned.plan(predicate).to_json()


@pytest.fixture
def opened(indexed: AllTables, tmp_path: Path) -> Callable[[str], Opened]:
    """Open a table by its name."""
    return lambda name: Opened(indexed.path(name), tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_no_matching_row_is_lost(name: str, opened: Callable[[str], Opened]) -> None:
    found = opened(name)
    rng = random.Random(f"{seed()} {name}")
    rows = _sql(f"SELECT * EXCLUDE (_hoodie_commit_seqno) FROM '{found.rows}/*.parquet'").to_arrow_table()
    pruned = 0
    for text in _predicates(rng, rows.to_pylist(), examples(60)):
        kept, needed = found.kept(text), found.groups(text)
        assert needed <= kept, f"LOST {needed - kept} of {name} for {text}"
        pruned += len(kept) < found.pinned.plan("true").kept
    assert pruned > examples(60) / 10, "hardly anything was pruned"


def _predicates(rng: random.Random, rows: list[dict[str, Any]], count: int) -> Iterator[str]:
    columns = [name for name, value in rows[0].items() if any(_literal(row[name]) for row in rows) or value]
    for _ in range(count):
        parts = [_leaf(rng, rows, rng.choice(columns)) for _ in range(rng.choice([1, 1, 2, 3]))]
        yield parts[0] if len(parts) == 1 else "(" + rng.choice([" AND ", " OR "]).join(parts) + ")"


def _leaf(rng: random.Random, rows: list[dict[str, Any]], column: str) -> str:
    if isinstance(rows[0][column], datetime.date) and rng.random() < 0.3:
        return f'month("{column}") {rng.choice(["=", "<", ">=", "!="])} {rng.randrange(1, 13)}'
    literals = [literal for row in rng.choices(rows, k=3) if (literal := _literal(row[column]))]
    first = literals[0] if literals else "NULL"
    text = rng.choice(
        [
            f'"{column}" {rng.choice(["=", "=", "<", "<=", ">", ">=", "!="])} {first}',
            f'"{column}" IN ({", ".join(literals or ["NULL"])})',
            f'"{column}" IS NULL',
            f'"{column}" BETWEEN {first} AND {literals[-1] if literals else "NULL"}',
        ]
    )
    return f"NOT ({text})" if rng.random() < 0.2 else text


def _literal(value: Any) -> str | None:
    """A literal of exactly the value's type, as DuckDB reads it."""
    match value:
        case None:
            return None
        case bool() | int():
            return str(value).lower()
        case float():
            return f"'{value}'::DOUBLE"
        case Decimal():
            return f"{value:f}::DECIMAL(10,2)"
        case datetime.datetime():
            return f"TIMESTAMPTZ '{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00'"
        case datetime.date():
            return f"DATE '{value}'"
        case _:
            text = str(value)
            return None if "\0" in text else "'" + text.replace("'", "''") + "'"  # no statement contains NUL


PARTLY_BELIEVED = ("name", "seen")
"""Text, which Java orders in its own way, and timestamps, for which DuckDB follows the annotation in the files."""

COLUMNS = ("seats", "big", "price", "day", "seen", "name", "ts")


@pytest.mark.parametrize("name", ["cow_v6", "cow_v9", "cow_composite_v9"])
def test_statistics_keep_what_their_bounds_leave_possible(name: str, opened: Callable[[str], Opened]) -> None:
    """Without an index of pruner's, each value keeps exactly the groups around it, where statistics are believed."""
    found = opened(name)
    for column in COLUMNS:
        rows = _sql(f"SELECT DISTINCT {column} FROM '{found.rows}/*.parquet'").fetchall()
        counts: set[int] = set()
        for (value,) in rows:
            literal = _literal(value)
            if literal is not None:
                around = found.groups_around(column, literal)
                kept = found.kept(f"{column} = {literal}")
                assert around <= kept
                counts.add(len(kept) - len(around))
        assert column in PARTLY_BELIEVED or counts == {0}, (column, counts)
    assert found.kept("seats IS NULL") == set()
    assert found.kept("id < 0") == set()


@pytest.mark.parametrize(("name", "believed"), [("mor_v6", False), ("mor_v8", True), ("mor_v9", True)])
def test_statistics_of_log_files_are_joined_to_those_of_the_base_file(
    name: str, believed: bool, opened: Callable[[str], Opened]
) -> None:
    """The update of id 3 is in a log file. Writers of version 6 append, so there such slices are kept.

    The log file of a deletion has no rows and no statistics, so its slice is kept too.
    """
    found = opened(name)
    updated, deleted = found.groups("id = 3"), found.groups("id = 7")
    unknown = found.kept("seats = 900")
    assert unknown == (deleted if believed else unknown | updated | deleted)
    assert found.kept("seats = 198") == updated | unknown | found.groups("id = 30")  # from -2, or 22, to 225


def test_a_range_that_may_hide_nan_is_not_believed(opened: Callable[[str], Opened]) -> None:
    """hudi#18754: Hudi 1.2 records 0.0 to 0.0 for a file with NaN, so its own data skipping loses the other values."""
    found = opened("cow_v9")
    assert found.groups("fare > 13") <= found.kept("fare > 13")
    assert "hudi#18754" in found.notes("fare > 13")


@pytest.mark.parametrize("name", ["cow_evolved_v6", "cow_evolved_v9"])
def test_text_too_long_for_statistics_is_not_all_null(name: str, opened: Callable[[str], Opened]) -> None:
    """hudi#18755: a text of 5,000 characters has no statistics in Parquet, and Hudi counts its file as all NULL."""
    found = opened(name)
    assert found.groups("note >= 'x'") <= found.kept("note >= 'x'")
    assert "hudi#18755" in found.notes("note >= 'x'")


@pytest.mark.parametrize("name", ["cow_evolved_v6", "cow_evolved_v9"])
def test_files_from_before_a_column_hold_null(name: str, opened: Callable[[str], Opened]) -> None:
    """hudi#19645: old files have no statistics of a column added later, and Hudi's own data skipping drops them."""
    found = opened(name)
    assert len(found.groups("note IS NULL")) >= 6
    assert found.groups("note IS NULL") <= found.kept("note IS NULL")


@pytest.mark.parametrize("name", ["cow_v9", "mor_v9"])
def test_duckdb_prunes_by_them(name: str, indexed: AllTables, tmp_path: Path) -> None:
    path = indexed.path(name)
    options = {"uri": str(path), "index_uri": str(tmp_path / "index")}
    con = pruner_duckdb.connect({"t": options})
    expected = _sql(
        f"SELECT id FROM '{path.with_name('rows.parquet')}/*.parquet' WHERE seats > 90 ORDER BY id"
    )
    assert con.execute("SELECT id FROM t WHERE seats > 90 ORDER BY id").fetchall() == expected.fetchall()
    (scan,) = con.last_plans
    assert scan.plan is not None
    assert scan.plan.kept <= scan.plan.total / 2
    assert "hudi.column_stats" in scan.plan.explain()
