"""Answers from metadata: what is proved, what still has to be read, and why, on tables made for each proof."""

from __future__ import annotations

import datetime
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.evidence.sources import WholeIndex
from pruner.planning import answering, kept_slices
from pruner.tables.snapshot import Snapshot
from tests.support.paging import page_everything
from tests.support.parquet.tables import names, table_of, write_file

SEMANTICS = pruner.Semantics(engine="duckdb", zone="UTC")


def _rest(answer: pruner.Answer) -> list[str]:
    every = names(answer.snapshot)
    return [every[ordinal] for ordinal in answer.rest.tolist()]


@pytest.fixture
def days(tmp_path: Path) -> pruner.Table:
    """Three days of two files each with ten rows; `x` counts through them, `city` is a, b, a, b, …"""
    for number in range(6):
        first = number * 10
        write_file(
            tmp_path / "t" / f"day=2024-01-0{number // 2 + 1}" / f"part-{number}.parquet",
            x=list(range(first, first + 10)),
            city=["a", "b"] * 5,
        )
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("stats", on="x")
    table.create_index("cities", on="city", using="bitmap")
    return table


def test_whole_partitions_are_counted_without_reading(days: pruner.Table) -> None:
    assert days.plan("true").count().told == "answered from metadata: 6 of 6 files"
    assert days.plan("day = '2024-01-02'").count().value == 20
    assert days.plan("day = '2024-01-02' AND x >= 20").count().exact
    assert days.count("NOT day = '2024-01-02'") == 40
    assert days.count() == 60


def test_bitmaps_count_the_rows_of_a_value_beside_a_partition(days: pruner.Table) -> None:
    answer = days.plan("city = 'a' AND day = '2024-01-03'").count()
    assert (answer.value, answer.exact) == (10, True)
    assert days.plan("city <> 'a' OR city IS NULL").count().value == 30


@pytest.mark.slow
def test_what_is_not_proved_is_left_to_be_read(days: pruner.Table) -> None:
    answer = days.plan("x >= 15").count()
    assert (answer.value, _rest(answer)) == (40, ["day=2024-01-01/part-1.parquet"])
    assert days.count("x >= 15") == 45
    assert days.count("x >= 15 -- all of these") == 45


def test_another_engine_counts_what_has_to_be_read_itself(days: pruner.Table) -> None:
    assert days.count("day = '2024-01-01'", dialect="spark") == 20
    with pytest.raises(pruner.PredicateError, match="spark does not run in this process: count in spark"):
        days.count("x >= 15", dialect="spark")


def test_extremes_need_no_file_that_cannot_hold_a_better_one(days: pruner.Table) -> None:
    assert days.plan("true").max("x").value == 59
    assert days.plan("true").min("day").value == datetime.date(2024, 1, 1)
    assert days.plan("day < '2024-01-03'").max("day").value == datetime.date(2024, 1, 2)
    # The file that matches in part holds less than another that matches as a whole.
    answer = days.plan("x >= 15").max("x")
    assert (answer.value, answer.exact) == (59, True)
    assert _rest(days.plan("x >= 15").min("x")) == ["day=2024-01-01/part-1.parquet"]
    assert days.plan("x > 1000").max("x").told == "answered from metadata: 6 of 6 files"


def test_rows_are_counted_by_partition_and_by_value(days: pruner.Table) -> None:
    assert days.plan("true").count_by("city").value == {"a": 30, "b": 30}
    assert days.plan("city = 'a' AND city < 'b'").count_by("city").value == {"a": 30}
    by_day = days.plan("city = 'a'").count_by("day")
    assert by_day.value == {datetime.date(2024, 1, day): 10 for day in (1, 2, 3)}
    assert by_day.exact


def test_groups_of_a_file_that_a_condition_cuts_are_read(days: pruner.Table) -> None:
    """The bitmaps of one column say how many rows match, those of another whose rows they are; not which of them."""
    days.create_index("numbers", on="x", using="bitmap")
    answer = days.plan("x >= 15").count_by("city")
    assert (days.plan("x >= 15").count().value, answer.value) == (45, {"a": 20, "b": 20})
    assert _rest(answer) == ["day=2024-01-01/part-1.parquet"]


def test_nulls_and_nan_are_no_values(tmp_path: Path) -> None:
    nan = float("nan")
    table = table_of(
        tmp_path,
        a={"x": pa.array([1.5, None, 2.5]), "n": pa.array([None] * 3, pa.int32())},
        b={"x": pa.array([nan, 3.5, None]), "n": pa.array([7, None, 8], pa.int32())},
        c={"x": pa.array([-0.0, -1.0, 0.0]), "n": pa.array([1, 2, 3], pa.int32())},
    )
    table.create_index("stats", on="*")
    plan = table.plan("true", semantics=SEMANTICS)
    assert plan.count("x").value == 7
    assert plan.count("n").value == 5
    assert plan.min("x").value == -1.0
    # NaN is the greatest value in DuckDB, and is not recorded; the greatest of the last file is one of two zeros.
    assert _rest(plan.max("x")) == ["b.parquet"]
    assert plan.max("n").value == 8
    assert _rest(table.plan("n > 0", semantics=SEMANTICS).count()) == ["b.parquet"]


@pytest.mark.slow
def test_a_null_is_no_match_of_a_condition_nor_of_its_negation(tmp_path: Path) -> None:
    table = table_of(tmp_path, a={"x": [1, 2, None]}, b={"x": [1, 2, 3]})
    table.create_index("stats", on="x")
    for where in ("x > 0", "NOT x > 5"):
        answer = table.plan(where).count()
        assert (answer.value, _rest(answer)) == (3, ["a.parquet"])
        assert table.count(where) == 5


def test_a_cut_text_is_no_value(tmp_path: Path) -> None:
    long = "z" * 3000
    table = table_of(tmp_path, a={"s": ["a", long]}, b={"s": ["b", "c"]})
    table.create_index("stats", on="s")
    assert table.plan("true").min("s").value == "a"
    answer = table.plan("true").max("s")
    assert _rest(answer) == ["a.parquet"]


@pytest.mark.parametrize(
    "column",
    [pa.array([1, 9], pa.uint32()), pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(9, 2))],
)
def test_unsigned_numbers_and_decimals_are_read(tmp_path: Path, column: Any) -> None:
    table = table_of(tmp_path, a={"x": column})
    table.create_index("stats", on="x")
    assert _rest(table.plan("true").max("x")) == ["a.parquet"]
    assert table.plan("true").count("x").value == 2


def test_a_file_that_no_index_covers_is_read(days: pruner.Table) -> None:
    root = Path(days.uri.removeprefix("file://"))
    write_file(root / "day=2024-01-01" / "late.parquet", x=[1000], city=["c"])
    late = ["day=2024-01-01/late.parquet"]
    plan = pruner.open_table(str(root)).plan("true")
    assert _rest(plan.count()) == late
    assert _rest(plan.max("x")) == late
    assert _rest(plan.count_by("city")) == late
    assert plan.count().value == 60


def test_a_file_with_another_type_is_read(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"x": pa.array([1, 2], pa.int32())},
        b={"x": pa.array([3, 4], pa.int64())},
    )
    table.create_index("stats", on="x")
    assert _rest(table.plan("true").min("x")) == ["a.parquet"]


def test_no_slice_with_log_files_is_answered_for(days: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    view = days.snapshot().data
    logs = view.has_logs.copy()
    logs[2] = True
    monkeypatch.setattr(Snapshot, "has_logs", logs)
    monkeypatch.setattr(Snapshot, "any_logs", True)
    plan = pruner.open_table(days.uri).plan("x >= 0 AND city IS NOT NULL")
    held = ["day=2024-01-02/part-2.parquet"]
    assert _rest(plan.count()) == held
    assert _rest(plan.count_by("city")) == held
    assert _rest(plan.count_by("day")) == held
    assert _rest(plan.min("day")) == []
    assert not plan.all_match[2]


def test_nothing_is_answered_while_pruning_is_off(
    days: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    plan = days.plan("true")
    for answer in (plan.count(), plan.max("x"), plan.count_by("city")):
        assert len(answer.rest) == 6
    assert plan.top("x", 1).kept == plan.limited(1).kept == 6


def test_a_step_of_the_report_tells_what_was_not_needed(days: pruner.Table) -> None:
    plan = days.plan("true")
    left = plan.unanswered(plan.count())
    assert left.kept == 0
    assert "answered from metadata: 6 of 6 files" in left.explain()
    assert "answered from metadata" in left.to_html()


def test_extremes_are_known_by_group_where_files_have_one_value(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"g": ["x"] * 3, "v": [1, 2, 3], "w": [None, 5, 6]},
        b={"g": ["x"] * 2, "v": [7, 8], "w": pa.array([None, None], pa.int64())},
        c={"g": ["y"] * 2, "v": [4, 4], "w": [1, 2]},
        d={"g": ["x", "y"], "v": [0, 100], "w": [0, 100]},
        e={"g": pa.array([None, None], pa.string()), "v": [5, 6], "w": [3, 4]},
        f={"g": ["z"] * 2, "v": [3, 30], "w": ["a", "b" * 2000]},
    )
    table.create_index("stats", on=["g", "v"])
    calls = [("count", None), ("max", "v"), ("min", "v"), ("count", "v")]
    answer, rest = table.plan("true").grouped("g", calls)
    assert _rest(answer) == ["d.parquet"]
    assert [names(rest.snapshot)[each] for each in rest.ordinals] == ["d.parquet"]
    proved = {row["value"]: list(row.values())[1:] for row in answer.proved.to_pylist()}
    assert proved == {"x": [5, 8, 1, 5], "y": [2, 4, 4, 2], None: [2, 6, 5, 2], "z": [2, 30, 3, 2]}
    # The extremes of a file whose rows match in part are unknown.
    answer, _ = table.plan("v > 2").grouped("g", calls)
    assert _rest(answer) == ["a.parquet", "d.parquet"]
    assert _rest(table.plan("v > 2").grouped("g", [("min", "v")])[0]) == ["a.parquet", "d.parquet"]
    assert table.plan("v > 1000").grouped("g", calls)[0].exact


def test_a_cut_text_is_no_extreme_of_a_group(tmp_path: Path) -> None:
    table = table_of(tmp_path, a={"g": [1, 1], "s": ["a", "b" * 2000]}, b={"g": [2, 2], "s": ["c", "d"]})
    table.create_index("stats", on="*")
    assert _rest(table.plan("true").grouped("g", [("max", "s")])[0]) == ["a.parquet"]
    assert table.plan("true").grouped("g", [("min", "s"), ("count", "s")])[0].exact


def test_answers_are_about_what_an_engine_lists(days: pruner.Table) -> None:
    plan = days.plan("x < 45")
    listed = ~plan.snapshot.has_logs
    assert plan.among(listed) is plan
    listed[[0, 4]] = False
    some = plan.among(listed)
    assert (some.kept, some.count().value, some.count().exact) == (3, 30, True)
    assert (some.min("x").value, some.max("x").value) == (10, 39)
    assert some.count_by("city").value == {"a": 15, "b": 15}
    assert some.top("x", 3, descending=True).ordinals.tolist() == [3]
    assert "the engine lists 3 files" in some.explain()


def test_a_value_in_a_path_is_that_of_the_rows_where_files_have_it_as_well(tmp_path: Path) -> None:
    """Engines show the one or the other: it is the value of every row only if both are equal."""
    for name, values in (("g=1/a", [1, 1]), ("g=2/b", [1, 2]), ("g=3/c", [4, 4]), ("g=5/d", [5, None])):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"x": [1, 2], "g": pa.array(values, pa.int64())}), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(tmp_path))
    assert table.plan("true").count_by("g").value == {}
    table.create_index("stats", on="*")
    found = table.plan("true").count_by("g")
    assert found.value == {1: 2}
    assert [Path(file).stem for file in found.files] == ["b", "c", "d"]
    assert table.plan("true").max("g").value == 1
    assert len(table.plan("true").max("g").files) == 3


@pytest.mark.slow
def test_rows_are_counted_by_several_columns(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number, day in enumerate(("2024-01-01", "2024-01-01", "2024-01-02")):
        folder = root / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        columns = {
            "city": ["a", None, "b", "a"] if number else ["c"] * 4,
            "n": pa.array([number] * 4, pa.int64()),
            "other": ["x", "y", "x", "x"],
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(root))
    table.create_index("n", on="n")
    table.create_index("cities", on="city", using="bitmap")
    plan = table.plan("true")
    answer, rest = plan.grouped(["day", "city"], [("count", None)])
    day, other = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)
    found = sorted(map(repr, (tuple(row.values()) for row in answer.proved.to_pylist())))
    wanted = [(day, "c", 4), (day, "a", 2), (day, "b", 1), (day, None, 1)]
    wanted += [(other, "a", 2), (other, "b", 1), (other, None, 1)]
    assert rest.kept == 0
    assert found == sorted(map(repr, wanted))
    assert plan.grouped(["city", "day"], [("count", None), ("count", None)])[1].kept == 0
    # For two columns with several values each, it is unknown which values occur together.
    table.create_index("others", on="other", using="bitmap")
    plan = table.plan("true")
    answer, rest = plan.grouped(["city", "other"], [("count", None)])
    assert rest.kept == 3 - len({"c"} & {row["value"] for row in answer.proved.to_pylist()})
    # An extreme of some rows of a file is unknown.
    answer, rest = plan.grouped(["day", "city"], [("max", "n")])
    assert rest.kept == 3
    assert plan.grouped(["day", "n"], [("max", "n"), ("count", "n")])[1].kept == 0
    # So are the groups of matching rows if not all rows match.
    assert table.plan("other = 'x'").grouped(["day", "city"], [("count", None)])[1].kept == 3


def test_extremes_of_texts_are_known_by_a_bitmap(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    for number, values in enumerate((["b", "d"], ["c", "d"], ["a", None], ["e", "f"])):
        path = root / f"{number}.parquet"
        pq.write_table(pa.table({"s": values * 2, "n": [number] * 4}), path, write_statistics=["n"])
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(root))
    table.create_index("values", on="s", using="bitmap")
    plan = table.plan("true")
    least, greatest = plan.min("s"), plan.max("s")
    assert (least.value, list(least.rest)) == ("a", [])
    assert (greatest.value, list(greatest.rest)) == ("f", [])
    # If only some rows match, the extremes of those that the bitmap finds by the condition.
    some = table.plan("s > 'b' AND s < 'e'")
    assert (some.min("s").value, some.max("s").value) == ("c", "d")
    assert some.min("s").exact
    assert some.max("s").exact


def test_an_extreme_that_is_no_value_is_in_few_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    for number in range(4):
        path = root / f"{number}.parquet"
        amounts = pa.array([f"{number}.5", f"{number + 1}.5", None]).cast(pa.decimal128(6, 1))
        long = [f"{number}" + "z" * 2000] * 2 + [None]
        pq.write_table(pa.table({"amount": amounts, "long": long, "n": [number, number, None]}), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(root))
    table.create_index("all", on="*")
    plan = table.plan("true")
    # Files with an equal bound stay, as the value may be in them as well.
    for column, least, greatest in (("amount", [0, 1], [2, 3]), ("long", [0], [3])):
        answers = plan.min(column), plan.max(column)
        assert [each.value for each in answers] == [None, None]
        assert [each.rest.tolist() for each in answers] == [least, greatest]
    # Not by rows that are not known to match.
    assert table.plan("n >= 0").max("amount").rest.tolist() == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("type_", [pa.float64(), pa.float32(), pa.struct([("f", pa.float64())])], ids=str)
def test_s1_rows_with_nan_are_counted_whatever_index_there_is(tmp_path: Path, type_: pa.DataType) -> None:
    """Files leave NaN out of their statistics, by which DuckDB skips rows: 596 of 3,554 were counted."""
    root = tmp_path / "t"
    root.mkdir()
    numbers = [[1.0, math.nan], [2.0, 3.0], [math.nan, math.nan], [70.0, None]]
    for number, values in enumerate(numbers):
        nested = [{"f": value} for value in values] if pa.types.is_struct(type_) else values
        pq.write_table(
            pa.table({"x": pa.array(nested, type_), "n": [number, 10]}), root / f"{number}.parquet"
        )
    table = pruner.open_table(str(root))
    column = "x.f" if pa.types.is_struct(type_) else "x"
    expected = {
        f"{column} > 60": 4,
        f"isnan({column})": 3,
        f"{column} >= 'nan'::DOUBLE": 3,
        f"NOT ({column} <= 60)": 4,
        f"{column} < 60": 3,
        f"n = 10 AND {column} > 60": 2,
        "n = 10": 4,
    }
    assert {predicate: table.count(predicate) for predicate in expected} == expected
    for using in ("column_stats", "bitmap"):
        table.create_index(using, on=column, using=using)
        assert {predicate: table.count(predicate) for predicate in expected} == expected


def test_a_large_index_is_read_whole_only_where_it_can_tell_the_values_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each statement read it again, and DuckDB read the column as well: 370 ms instead of 115."""
    reads: list[bool] = []
    read_whole = WholeIndex.__call__

    def counted(self: WholeIndex) -> object:
        reads.append(True)
        return read_whole(self)

    page_everything(monkeypatch, records=1)
    monkeypatch.setattr(WholeIndex, "__call__", counted)
    root = tmp_path / "t"
    root.mkdir()
    for number in range(4):
        columns = {"x": [number, 10 + number, 5, 5], "ok": [True, False, True, True]}
        pq.write_table(pa.table(columns), root / f"{number}.parquet")
    table = pruner.open_table(str(root))
    table.create_index("x", on="x", using="bitmap")
    table.create_index("ok", on="ok")
    # Not if another column leaves open which rows match.
    assert table.plan("x > 1 AND ok").max("x").value is None
    assert table.plan("ok").count_by("x").value == {}
    assert reads == []
    assert table.plan("x > 4").count_by("x").value == {5: 8, 10: 1, 11: 1, 12: 1, 13: 1}
    assert table.plan("true").max("x").value == 13
    assert len(reads) == 2
    # Nor again if it has more values than the limit on groups.
    monkeypatch.setattr(kept_slices, "MOST_GROUPS", 5)
    monkeypatch.setattr(answering, "MOST_GROUPS", 5)
    for _ in range(3):
        assert table.plan("x > 4").count_by("x").value == {}
    assert len(reads) == 2


def test_days_after_the_year_9999_are_texts(tmp_path: Path) -> None:
    """Python has no dates for them."""
    for number, day in enumerate((18_262, 2_932_897)):
        days = pa.array([day], pa.int32()).cast(pa.date32())
        pq.write_table(pa.table({"d": days}), tmp_path / f"{number}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("b", on="d", using="bitmap")
    plan = table.plan("true")
    assert plan.max("d").value == "10000-01-01"
    assert plan.count_by("d").value == {datetime.date(2020, 1, 1): 1, "10000-01-01": 1}
