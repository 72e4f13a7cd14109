"""First rows by a table's own statistics: no index of pruner's, deleted rows, NULL, NaN and truncated bounds."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import cmp_to_key
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.evidence.delta import DeltaStatistics
from tests.support.delta.logs import DeltaLog
from tests.support.delta.random_tables import COLUMNS, START, random_table
from tests.support.iceberg.tables import IcebergLake, changed
from tests.support.running import profiles

DUCKDB = pruner.Semantics(engine="duckdb", zone="UTC")


def values_by_file(table: DeltaLog, column: str, least: int | None) -> dict[str, list[Any]]:
    """The values of a column by file, of the rows with `id >= least`."""
    found: dict[str, list[Any]] = {}
    for path, held in table.files.items():
        rows: Any = pq.read_table(table.root / unquote(path))
        ids = rows.column("id").to_pylist()
        values = rows.column(column).to_pylist() if column in rows.column_names else [None] * len(ids)
        found[path] = [
            value
            for at, (id_, value) in enumerate(zip(ids, values, strict=True))
            if at not in held.deleted and (least is None or (id_ is not None and id_ >= least))
        ]
    return found


def compared(one: Any, other: Any, *, descending: bool, nulls_first: bool) -> int:
    """DuckDB's order: NaN above all numbers, and one zero."""
    if one is None or other is None:
        return 0 if one is other else (-1 if (one is None) == nulls_first else 1)
    nans = [isinstance(each, float) and math.isnan(each) for each in (one, other)]
    order = nans[0] - nans[1] if any(nans) else (one > other) - (one < other)
    return -order if descending else order


def needed(files: dict[str, list[Any]], rows: int, *, descending: bool, nulls_first: bool) -> set[str]:
    """The files with one of the first rows, or one equal to the last of them."""

    def before(one: Any, other: Any) -> int:
        return compared(one, other, descending=descending, nulls_first=nulls_first)

    ordered = sorted((value for values in files.values() for value in values), key=cmp_to_key(before))
    if not ordered:
        return set()
    last = ordered[min(rows, len(ordered)) - 1]
    return {path for path, values in files.items() if any(before(value, last) <= 0 for value in values)}


def names_of(snapshot: Any, ordinals: Any) -> set[str]:
    return {Path(file).name for file in snapshot.base_files.take(pa.array(ordinals)).to_pylist()}


def kept_of(plan: pruner.Plan) -> set[str]:
    return names_of(plan.snapshot, plan.ordinals)


def test_the_latest_rows_of_a_delta_table_without_an_index(tmp_path: Path):
    """Bounds of moments are cut to milliseconds: the file before ends in the millisecond in which the last begins."""
    table = DeltaLog(tmp_path / "t", COLUMNS[:1] + COLUMNS[5:6], features=("deletionVectors",))
    moments = [START + timedelta(microseconds=330 * n) for n in range(300)]
    paths = table.append(
        *(pa.table({"id": [n] * 10, "at": moments[10 * n : 10 * n + 10]}) for n in range(30))
    )
    plan = pruner.open_table(str(table.root)).plan("true")
    assert kept_of(plan.top("at", 10, descending=True)) == {*paths[-2:]}
    assert kept_of(plan.top("at", 11, descending=True)) == {*paths[-3:]}
    assert kept_of(plan.top("at", 10)) == {paths[0]}
    assert kept_of(plan.top("id", 10)) == {paths[0]}
    assert kept_of(plan.top("id", 10, descending=True)) == {paths[-1]}
    latest = plan.max("at")
    assert (latest.value, names_of(plan.snapshot, latest.rest)) == (None, {*paths[-2:]})
    table.delete({paths[-1]: range(9), paths[-2]: [4]})
    plan = pruner.open_table(str(table.root)).plan("id >= 0")
    assert kept_of(plan.top("id", 1, descending=True)) == {paths[-1]}
    assert kept_of(plan.top("id", 2, descending=True)) == {*paths[-2:]}
    assert kept_of(plan.top("id", 11, descending=True)) == {*paths[-3:]}, (
        "nine rows are left of the one before"
    )


def test_a_file_whose_vector_leaves_nothing_holds_no_first_row(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", COLUMNS[:1], features=("deletionVectors",))
    paths = table.append(*(pa.table({"id": [number] * 3}) for number in range(3)))
    table.delete({paths[2]: range(3)})
    plan = pruner.open_table(str(table.root)).plan("true")
    assert paths[1] in kept_of(plan.top("id", 3, descending=True))
    assert paths[0] not in kept_of(plan.top("id", 3, descending=True))
    assert paths[0] in kept_of(plan.top("id", 4, descending=True))


def test_nulls_that_wide_statistics_count_are_not_believed(tmp_path: Path):
    """Their number may be anything between none and all (Delta protocol, "Per-file Statistics")."""
    table = DeltaLog(tmp_path / "t", COLUMNS[1:2], features=("deletionVectors",))
    stats = {
        "numRecords": 4,
        "minValues": {"number": 5},
        "maxValues": {"number": 5},
        "nullCount": {"number": 1},
    }
    table.append(pa.table({"number": [5, None, None, None]}), stats={**stats, "tightBounds": False})
    (second,) = table.append(pa.table({"number": [3]}))
    plan = pruner.open_table(str(table.root)).plan("true")
    assert second in kept_of(plan.top("number", 3, descending=True))


def test_statistics_of_floating_point_are_not_read_for_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """NaN is greater than any number, and Delta's statistics leave it out."""
    table = DeltaLog(tmp_path / "t", COLUMNS[2:3])
    files = {*table.append(*(pa.table({"real": [n + 0.5, n + 0.75]}) for n in range(3)))}
    plan = pruner.open_table(str(table.root)).plan("true")
    monkeypatch.setattr(DeltaStatistics, "records", lambda *_: pytest.fail("statistics were read"))
    assert kept_of(plan.top("real", 1, descending=True)) == files


def test_a_file_that_may_lack_the_column_stays(tmp_path: Path):
    """The log does not tell whether statistics or the column are missing."""
    table = DeltaLog(tmp_path / "t", COLUMNS[:1])
    (first,) = table.append(pa.table({"id": [1, 2]}))
    table.add_column("late", "long")
    (second,) = table.append(pa.table({"id": [3, 4], "late": [7, 8]}))
    plan = pruner.open_table(str(table.root)).plan("true")
    assert kept_of(plan.top("late", 2, descending=True)) == {first, second}
    assert first in kept_of(plan.top("late", 1, nulls_first=True))


def test_an_index_over_some_files_and_statistics_of_the_others(tmp_path: Path):
    """The index counts NULLs, so it says more about its files than the log does."""
    table = DeltaLog(tmp_path / "t", COLUMNS[1:2])
    early = table.append(*(pa.table({"number": [n, n, None]}) for n in range(5)))
    opened = pruner.open_table(str(table.root))
    assert opened.plan("true").top("number", 2, descending=True).kept == 5, (
        "the log's numbers of NULLs are not taken"
    )
    opened.create_index("s", on="number")
    assert kept_of(opened.plan("true").top("number", 2, descending=True)) == {early[-1]}
    assert kept_of(opened.plan("true").top("number", 3, descending=True)) == {*early[-2:]}
    later = table.append(*(pa.table({"number": [n, n]}) for n in (9, 10)))
    assert kept_of(opened.plan("true").top("number", 2, descending=True)) == {later[-1]}
    assert kept_of(opened.plan("true").top("number", 5, descending=True)) == {*later, early[-1]}


def test_a_file_stays_where_the_log_contradicts_an_index(tmp_path: Path):
    """The log says of the file whose rows reach the threshold that it holds none of them."""
    table = DeltaLog(tmp_path / "t", COLUMNS[1:2])
    lie = {
        "numRecords": 2,
        "minValues": {"number": 0},
        "maxValues": {"number": 1},
        "nullCount": {"number": 0},
    }
    (first,) = table.append(pa.table({"number": [9, 9]}), stats=lie)
    opened = pruner.open_table(str(table.root))
    opened.create_index("s", on="number")
    table.append(pa.table({"number": [2, 2]}))
    assert kept_of(opened.plan("true").top("number", 2, descending=True)) == {first}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_no_first_row_of_a_random_delta_table_is_lost(tmp_path: Path, number: int):
    """`PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=1000` tries more tables."""
    seed = profiles.seed() + number
    random = Random(seed)
    fewer = asked = 0
    for case in range(max(3, profiles.examples(40) // 4)):
        table = random_table(random, tmp_path / str(case))
        opened = pruner.open_table(str(table.root))
        if random.random() < 0.3:
            some = random.sample([each.name for each in COLUMNS], 2)
            opened.create_index("s", on=some)
            paths = table.append(pa.table({"id": [random.randrange(100)], "number": [random.randrange(100)]}))
            if random.random() < 0.5:
                table.delete({paths[0]: [0]})
            opened = pruner.open_table(str(table.root))
        for _ in range(40):
            column = random.choice(COLUMNS).name
            least = random.choice((None, None, 20, 60))
            rows = random.choice((1, 2, 5, 20))
            order = {"descending": random.random() < 0.5, "nulls_first": random.random() < 0.3}
            plan = opened.plan("true" if least is None else f"id >= {least}", semantics=DUCKDB)
            first = plan.top(column, rows, **order)
            lost = needed(values_by_file(table, column, least), rows, **order) - kept_of(first)
            assert not lost, (
                f"first {rows} by {column}, {order}, id >= {least}, seed {seed}, case {case}: {lost}"
            )
            asked += 1
            fewer += first.kept < plan.kept
    assert fewer > asked // 5, (fewer, asked)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["unpartitioned", "months"])
def test_first_rows_of_an_iceberg_table_without_an_index(tmp_path: Path, spec: str):
    """Columns were renamed, promoted, dropped and added, and rows deleted; pyiceberg does not write counts of NaN."""
    table = changed(IcebergLake(tmp_path), spec, 2)
    opened = pruner.open_table(table.metadata_location)
    plan = opened.plan("true", semantics=DUCKDB)
    files = [str(file) for file in plan.snapshot.base_files.to_pylist()]
    fewer = set[str]()
    for column in (
        "key_",
        "number",
        "small",
        "x",
        "price",
        "day",
        "at",
        "wall",
        "clock",
        "name",
        "flag",
        "added",
    ):
        rows_by_file = {Path(file).name: _values(table, file, column) for file in files}
        for rows, descending, nulls_first in product((1, 7, 30), (False, True), (False, True)):
            first = plan.top(column, rows, descending=descending, nulls_first=nulls_first)
            order = {"descending": descending, "nulls_first": nulls_first}
            assert needed(rows_by_file, rows, **order) <= kept_of(first), (column, rows, order)
            if first.kept < plan.kept:
                fewer.add(column)
    assert fewer >= {"key_", "at", "day"}, fewer
    assert not fewer & {"small", "x"}, "whether there is a NaN is not known"


def _values(table: Any, file: str, column: str) -> list[Any]:
    """The values of a column, found by its field id, in the rows of one file."""
    field = table.schema().find_field(column).field_id
    rows = pq.read_table(file.removeprefix("file://"), partitioning=None)
    for at, each in enumerate(rows.schema):
        if each.metadata and int(each.metadata[b"PARQUET:field_id"]) == field:
            return rows.column(at).to_pylist()
    return [None] * rows.num_rows
