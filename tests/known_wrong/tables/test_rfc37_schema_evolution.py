"""RFC-37's section on schema evolution: its statements about keys, as tests of ours (trap T2).

"The most common schema evolution use cases like change of column type, adding a new column are not affected": so they
prune, and lose nothing. "Column name rename, dropping a column and adding a column with dropped name would have indices
referring them more than needed. This would lead to the index lookup matching stale/new records across evolved schemas":
so there nothing is looked up. Engines find a column by its name or by its field id: a file with a row that matches by
either of them stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.hudi.spark_reads import SparkReads
from tests.support.kept.tables import KeptTables


class Held(NamedTuple):
    """A column of a file."""

    id: int
    name: str
    values: list[int]
    type: Any = pa.int64()


class Case(NamedTuple):
    """Two files, the older first, and the files that stay for `column = value`."""

    files: tuple[list[Held], list[Held]]
    kept: dict[tuple[str, int], set[str]]


BOTH = {"0", "1"}
K = (Held(1, "k", [10, 11]), Held(1, "k", [20, 21]))
CASES = {
    "another type": Case(
        ([Held(1, "k", [1, 3], pa.int32())], [Held(1, "k", [2**40, 3, 5])]),
        {("k", 1): {"0"}, ("k", 2**40): {"1"}, ("k", 3): BOTH, ("k", 4): set()},
    ),
    "a new column": Case(
        ([K[0]], [K[1], Held(2, "x", [7, 9])]),
        {("x", 7): {"1"}, ("x", 8): set(), ("k", 10): {"0"}, ("k", 20): {"1"}},
    ),
    "a name changed": Case(
        ([K[0], Held(2, "a", [1, 3])], [K[1], Held(2, "b", [5, 7])]),
        {**{("b", value): BOTH for value in (1, 3, 5, 7, 2)}, ("k", 10): {"0"}},
    ),
    "dropped, and made anew": Case(
        ([K[0], Held(2, "x", [1, 3])], [K[1], Held(3, "x", [5, 7])]),
        {**{("x", value): BOTH for value in (1, 3, 5, 7, 2)}, ("k", 20): {"1"}},
    ),
    "names exchanged": Case(
        ([Held(2, "a", [1]), Held(3, "b", [5])], [Held(2, "b", [6]), Held(3, "a", [2])]),
        {(name, value): BOTH for name in "ab" for value in (1, 2, 5, 6, 9)},
    ),
}
TYPES = ("column_stats", "bloom_filter", "record_index")
OPTIONS = {"bloom_filter": {"fpp": "0.0001"}}


def _write(root: Path, number: int, columns: list[Held]) -> None:
    root.mkdir(exist_ok=True)
    fields = [pa.field(each.name, each.type, metadata={"PARQUET:field_id": str(each.id)}) for each in columns]
    rows = max(len(each.values) for each in columns)
    arrays = [pa.array([*each.values, *[None] * (rows - len(each.values))], each.type) for each in columns]
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), root / f"{number}.parquet")


def _tables(root: Path, case: Case, types: tuple[str, ...]) -> Iterator[pruner.Table]:
    """The table with indexes that were built before it changed and then refreshed, and with indexes built after."""
    _write(root, 0, case.files[0])
    before = pruner.open_table(root, index_uri=f"{root}.before")
    for using in types:
        before.create_index(using, on="*", using=using, options=OPTIONS.get(using, {}))
    _write(root, 1, case.files[1])
    before.refresh()
    yield before
    after = pruner.open_table(root, index_uri=f"{root}.after")
    for using in types:
        after.create_index(using, on="*", using=using, options=OPTIONS.get(using, {}))
    yield after


def _holders(case: Case, column: str, value: int) -> set[str]:
    """The files in which a row has the value, by the column's name or by its newest field id."""
    newest = next(each.id for each in case.files[1] if each.name == column)
    return {
        str(number)
        for number, columns in enumerate(case.files)
        if any(value in each.values for each in columns if column == each.name or newest == each.id)
    }


@pytest.mark.sampled(24)
@pytest.mark.parametrize("types", [*((each,) for each in TYPES), TYPES], ids="+".join)
@pytest.mark.parametrize("name", CASES)
def test_t2_files_of_an_evolved_schema(tmp_path: Path, name: str, types: tuple[str, ...]) -> None:
    case = CASES[name]
    for table in _tables(tmp_path / "t", case, types):
        for (column, value), expected in case.kept.items():
            for engine in ("duckdb", "spark", "trino"):
                plan = table.plan(f"{column} = {value}", dialect=engine)
                kept = {Path(each).stem for each in plan.files}
                assert _holders(case, column, value) <= kept, (table.index_uri, column, value, engine)
                if types != ("column_stats",):  # it cannot distinguish values within its bounds
                    assert kept == expected, (table.index_uri, column, value, engine)


@pytest.mark.spark
@pytest.mark.parametrize("using", TYPES)
@pytest.mark.parametrize("name", ["cow_widened_v6", "cow_widened_v9", "cow_renamed_v9"])
def test_t2_hudi_tables_of_an_evolved_schema(
    hudi_tables: KeptTables, spark_reads: SparkReads, tmp_path: Path, name: str, using: str
) -> None:
    """Each value that Spark reads is found in the file group from which Spark read it; keys still prune."""
    path = hudi_tables.path(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"), hudi_indexes=False)
    table.create_index("i", on="*", using=using, options=OPTIONS.get(using, {}))
    read = spark_reads.read(path)
    columns = [each for each, type_ in read.types.items() if type_ in ("int", "bigint", "string")]
    for row in read.rows:
        group = row["_hoodie_file_name"].split("_")[0]
        for column in columns:
            if column.startswith("_hoodie") or row[column] is None:
                continue
            literal = repr(row[column]) if isinstance(row[column], str) else row[column]
            plan = table.plan(f"{column} = {literal}", dialect="spark")
            assert group in {each.file_id for each in plan.slices}, (column, literal)
    key = max(row["id"] for row in read.rows)
    assert table.plan(f"id = {key}", dialect="spark").kept < len(table.snapshot().slices)
    assert table.plan(f"id = {key + 1000}", dialect="spark").kept == 0
