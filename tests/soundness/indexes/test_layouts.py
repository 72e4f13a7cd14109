"""RFC-63's storage layouts: where files lie and what they hold are separate things, and plans know both.

The layouts of "Handling the Storage Layout Scenarios" and the table of "Use Case 2": `datestr` is in the paths, in the
files, or in both, as Hudi writes it. The oracle is DuckDB over each file by itself, without Hive partitioning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.expr.semantics import Engine
from pruner.indexes import partition_stats
from pruner.metadata import MetadataTable
from pruner.storage.opening import open_store
from pruner.table import Table
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet.tables import write_file
from tests.support.running import profiles

ROWS = 4


@dataclass(frozen=True)
class File:
    """A file of events of one organization, spread over its days, first and last included."""

    path: str
    org: int
    first: str
    last: str


@dataclass(frozen=True)
class Layout:
    """Files below one or several roots, and how many a predicate must leave: {predicate: files}."""

    roots: tuple[str, ...]
    files: tuple[File, ...]
    kept: dict[str, int] = field(default_factory=dict[str, int])


HIVE = Layout(
    ("table",),
    (
        File("table/datestr=2022-10-01/f1.parquet", 1, "2022-10-01", "2022-10-01"),
        File("table/datestr=2022-10-01/f2.parquet", 2, "2022-10-01", "2022-10-01"),
        File("table/datestr=2022-10-02/f3.parquet", 1, "2022-10-02", "2022-10-02"),
    ),
    {
        "datestr = DATE '2022-10-01'": 2,
        "org_id = 1": 2,
        "ts >= TIMESTAMP '2022-10-02 00:00:00'": 1,
        "datestr = DATE '2022-10-01' AND org_id = 1": 1,
        "datestr > DATE '2022-10-02'": 0,
    },
)
RANDOM_PREFIX = Layout(
    ("d3f1/path/to/table", "0a9c/path/to/table"),
    (
        File("d3f1/path/to/table/partition1=abc/f1.parquet", 1, "2022-10-01", "2022-10-03"),
        File("d3f1/path/to/table/partition1=xyz/f2.parquet", 1, "2022-10-04", "2022-10-05"),
        File("0a9c/path/to/table/partition1=xyz/f3.parquet", 2, "2022-10-01", "2022-10-05"),
        File("0a9c/path/to/table/partition1=abc/f4.parquet", 3, "2022-10-06", "2022-10-06"),
    ),
    {
        "partition1 = 'abc'": 2,
        "partition1 = 'abc' AND org_id = 1": 1,
        "org_id IN (2, 3)": 2,
        "partition1 > 'abc' AND ts < TIMESTAMP '2022-10-02 00:00:00'": 1,
        "partition1 = 'none'": 0,
    },
)
SCATTERED = Layout(
    ("bucket-a/a/b/c", "bucket-x/x/y", "bucket-z"),
    (
        File("bucket-a/a/b/c/f1.parquet", 1, "2022-10-01", "2022-10-02"),
        File("bucket-x/x/y/f2.parquet", 1, "2022-10-03", "2022-10-03"),
        File("bucket-z/f1.parquet", 2, "2022-10-01", "2022-10-03"),
    ),
    {
        "org_id = 1": 2,
        "org_id = 1 AND ts > TIMESTAMP '2022-10-02 23:59:59'": 1,
        "datestr = DATE '2022-10-01'": 2,
        "NOT (org_id = 1)": 1,
        "org_id = 9": 0,
    },
)
EVOLVED = Layout(
    ("table",),
    (
        File("table/org_id=1/datestr=2022-10-01/base_file_1.parquet", 1, "2022-10-01", "2022-10-01"),
        File("table/org_id=1/datestr=2022-10-02/base_file_2.parquet", 1, "2022-10-02", "2022-10-02"),
        File("table/org_id=2/datestr=2022-10-01/base_file_3.parquet", 2, "2022-10-01", "2022-10-01"),
        File("table/org_id=3/datestr=2022-10-01/base_file_4.parquet", 3, "2022-10-01", "2022-10-01"),
        File("table/org_id=1/base_file_10.parquet", 1, "2022-10-10", "2022-10-11"),
        File("table/org_id=2/base_file_11.parquet", 2, "2022-10-10", "2022-10-15"),
    ),
    {
        "org_id = 1": 3,
        "ts >= TIMESTAMP '2022-10-10 00:00:00'": 2,
        "org_id = 2 AND ts < TIMESTAMP '2022-10-02 00:00:00'": 1,
        "ts >= TIMESTAMP '2022-10-12 00:00:00' AND ts < TIMESTAMP '2022-10-13 00:00:00'": 1,
        "org_id = 4": 0,
    },
)
MONTH_TO_DAY = Layout(
    ("table",),
    (
        File("table/datestr=2022-09/f1.parquet", 1, "2022-09-01", "2022-09-30"),
        File("table/datestr=2022-10/f2.parquet", 1, "2022-10-01", "2022-10-31"),
        File("table/datestr=2022-11/f3.parquet", 2, "2022-11-01", "2022-11-30"),
        File("table/datestr=2022-12/f4.parquet", 2, "2022-12-01", "2022-12-31"),
        File("table/datestr=2023-01-01/f5.parquet", 1, "2023-01-01", "2023-01-01"),
        File("table/datestr=2023-01-02/f6.parquet", 2, "2023-01-02", "2023-01-02"),
    ),
    {
        # The RFC's own query: the months from October on, and each day.
        "ts > TIMESTAMP '2022-10-01 00:00:00'": 5,
        "ts >= TIMESTAMP '2023-01-02 00:00:00'": 1,
        "org_id = 2": 3,
        "org_id = 2 AND ts < TIMESTAMP '2022-11-29 00:00:00'": 1,
    },
)
LAYOUTS = {
    "hive-style": HIVE,
    "random prefix": RANDOM_PREFIX,
    "scattered": SCATTERED,
    "org_id/datestr to org_id": EVOLVED,
    "month to day": MONTH_TO_DAY,
}


def write(layout: Layout, folder: Path, *, datestr: bool) -> dict[str, Path]:
    """Write the files of a layout, `datestr` in them or only in their paths; returned by the URI that plans give."""
    found: dict[str, Path] = {}
    for entry in layout.files:
        first, last = date.fromisoformat(entry.first), date.fromisoformat(entry.last)
        days = [first + (last - first) * position // (ROWS - 1) for position in range(ROWS)]
        times = [
            datetime(day.year, day.month, day.day) + timedelta(hours=hour) for hour, day in enumerate(days)
        ]
        columns = {
            "org_id": pa.array([entry.org] * ROWS, pa.int64()),
            "ts": pa.array(times, pa.timestamp("us")),
            "id": pa.array(range(ROWS), pa.int64()),
        }
        if datestr:
            columns["datestr"] = pa.array(days, pa.date32())
        path = write_file(folder / entry.path, **columns)
        found[str(path)] = path
    return found


def matching(files: dict[str, Path], predicate: str) -> set[str]:
    """The files that hold a row for which a predicate is true, by DuckDB over each one with the values of its path."""
    with plain_duckdb.session() as con:
        found = set[str]()
        for uri, path in files.items():
            values = dict(part.split("=", 1) for part in path.parts if "=" in part)
            extra = ""
            if "partition1" in values:
                extra = f", '{values['partition1']}' AS partition1"
            if len(values.get("datestr", "")) == len("2022-10-01"):
                extra = f", DATE '{values['datestr']}' AS datestr"
            rows = f"SELECT *{extra} FROM read_parquet('{path}', hive_partitioning = false)"
            if con.execute(f"SELECT count(*) FROM ({rows}) WHERE {predicate}").fetchall() != [(0,)]:
                found.add(uri)
        return found


@pytest.fixture(scope="module", autouse=True)
def groups_of_few() -> Iterator[None]:
    """Partition statistics for every batch, however small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition_stats, "LEAST_SLICES", 1)
        patched.setattr(partition_stats, "LEAST_PER_GROUP", 1)
        yield


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Table, dict[str, Path]]]:
    """Each layout, written and indexed once."""
    made: dict[str, tuple[Table, dict[str, Path]]] = {}

    def table(name: str) -> tuple[Table, dict[str, Path]]:
        if name not in made:
            folder = tmp_path_factory.mktemp("layout")
            in_paths = any("datestr=" in entry.path for entry in LAYOUTS[name].files)
            files = write(LAYOUTS[name], folder, datestr=not in_paths)
            opened = pruner.open_table([folder / root for root in LAYOUTS[name].roots])
            opened.create_index("stats", on="*")
            segments = MetadataTable(open_store(opened.index_uri)).state().segments
            assert all(each.partition_stats for each in segments if each.partition == "column_stats")
            made[name] = opened, files
        return made[name]

    return table


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "predicate"),
    [(name, predicate) for name, layout in LAYOUTS.items() for predicate in layout.kept],
)
@pytest.mark.parametrize("engine", ["duckdb", "spark", "trino"])
def test_each_layout_is_pruned_by_what_its_files_hold(
    name: str, predicate: str, engine: Engine, tables: Callable[[str], tuple[Table, dict[str, Path]]]
) -> None:
    table, files = tables(name)
    semantics = pruner.Semantics(engine=engine, zone="UTC")
    kept = set(table.plan(predicate, semantics=semantics).files)
    assert matching(files, predicate) <= kept, "a file with a matching row is gone"
    assert len(kept) == LAYOUTS[name].kept[predicate], table.plan(predicate, semantics=semantics).explain()


@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    org=st.integers(0, 4),
    day=st.dates(date(2022, 8, 30), date(2023, 1, 4)),
    operators=st.tuples(*[st.sampled_from(["=", "!=", "<", "<=", ">", ">="])] * 2),
    joined=st.sampled_from(["AND", "OR", "AND NOT", "OR NOT"]),
)
@settings(
    max_examples=profiles.examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_layout_loses_a_row(
    name: str,
    org: int,
    day: date,
    operators: tuple[str, str],
    joined: str,
    tables: Callable[[str], tuple[Table, dict[str, Path]]],
) -> None:
    table, files = tables(name)
    predicate = f"org_id {operators[0]} {org} {joined} ts {operators[1]} TIMESTAMP '{day} 00:00:00'"
    assert matching(files, predicate) <= set(table.plan(predicate).files)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("engine", ["duckdb", "spark", "trino"])
def test_days_that_stand_in_files_and_in_some_paths(name: str, engine: Engine, tmp_path: Path) -> None:
    """RFC-63's table has `datestr` in every file and in the paths of the old scheme: no file of the day is lost.

    Where a folder lacks the key or writes the value in another form, engines do not agree on the column, or refuse the
    tree: then the column drops nothing, and other columns still prune.
    """
    files = write(LAYOUTS[name], tmp_path, datestr=True)
    table = pruner.open_table([tmp_path / root for root in LAYOUTS[name].roots])
    table.create_index("stats", on="*")
    semantics = pruner.Semantics(engine=engine, zone="UTC")
    for day in ("2022-10-01", "2022-10-10", "2022-11-07", "2023-01-02"):
        with plain_duckdb.session() as con:
            found = {
                uri
                for uri, path in files.items()
                if con.execute(
                    f"SELECT count(*) FROM read_parquet('{path}', hive_partitioning = false) "
                    f"WHERE datestr = DATE '{day}'"
                ).fetchall()
                != [(0,)]
            }
        kept = set(table.plan(f"datestr = DATE '{day}'", semantics=semantics).files)
        assert found <= kept
        if name in ("hive-style", "random prefix", "scattered"):
            in_range = [entry for entry in LAYOUTS[name].files if entry.first <= day <= entry.last]
            assert len(kept) == len(in_range)
    assert table.plan("org_id = 9", semantics=semantics).kept == 0
