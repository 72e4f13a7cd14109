"""The files that hold the first rows of an order or of a LIMIT: which are kept, and why no others are needed."""

from __future__ import annotations

import os
from decimal import Decimal, localcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.expr.semantics import Semantics
from pruner.planning.first_rows import Order
from tests.support.parquet.footers import written_by
from tests.support.parquet.tables import names, table_of, write_file


def test_the_latest_rows_are_in_the_last_files(tmp_path: Path) -> None:
    for number in range(100):
        path = write_file(
            tmp_path / f"part-{number:03}.parquet",
            ts=pa.array(range(number * 50, number * 50 + 50), pa.timestamp("us")),
            k=pa.array([None if number == 3 else number % 7] * 50, pa.int64()),
        )
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(tmp_path))
    table.create_index("stats", on="*")
    plan = table.plan("true")
    latest = plan.top("ts", 100, descending=True)
    assert [Path(file).name for file in latest.files] == ["part-098.parquet", "part-099.parquet"]
    assert latest.steps[-1].clause.startswith(
        "the first 100 rows by ts: threshold of the first 100 rows: ts >= "
    )
    assert plan.top("ts", 101, descending=True).kept == 3
    assert plan.top("ts", 5001, descending=True).kept == 100
    # Ties stay, and so does what may come before all values.
    assert plan.top("k", 1, descending=True).kept == len([n for n in range(100) if n % 7 == 6 and n != 3])
    assert "part-003.parquet" in {Path(f).name for f in plan.top("k", 1, nulls_first=True).files}
    # A condition may exclude all rows of the last files.
    other = table.plan("k = 1")
    assert {Path(file).name for file in other.top("ts", 60, descending=True).files} == {
        "part-092.parquet",
        "part-099.parquet",
    }
    assert [Path(file).name for file in other.limited(60).files] == ["part-001.parquet", "part-008.parquet"]


def test_instants_of_int96_are_first_rows_where_they_are_read_as_such(tmp_path: Path) -> None:
    """Spark reads them as instants, truncated to microseconds; they are known to the microsecond only."""
    for number in range(4):
        moments = pa.array([number * 10_000 + 1_999, number * 10_000 + 7_001], pa.timestamp("ns"))
        path = tmp_path / f"part-{number}.parquet"
        pq.write_table(pa.table({"ts": moments}), path, use_deprecated_int96_timestamps=True)
        written_by(path, "parquet-mr version 1.13.1 (build 0)")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(tmp_path))
    table.create_index("stats", on="ts")
    plan = table.plan("true", semantics=Semantics(engine="spark", version="3.5.6", zone="UTC"))
    assert plan.top("ts", 2, descending=True).kept == 1
    assert plan.top("ts", 3).kept == 2
    assert plan.threshold("ts", 2, descending=True).value == 31
    assert plan.threshold("ts", 2).value == 7
    assert list(plan.min("ts").rest) == [0]
    # DuckDB reads them as wall-clock times, whose order is the same.
    assert table.plan("true").top("ts", 2, descending=True).kept == 1
    assert table.plan("true", semantics=Semantics(engine="trino")).top("ts", 2, descending=True).kept == 4


def test_files_of_other_units_and_widths_have_bounds_in_the_table_s_type(tmp_path: Path) -> None:
    seconds = range(3)
    for name, moments, type_, first in (
        ("a", pa.timestamp("us"), pa.int64(), 10),
        ("b", pa.timestamp("ms"), pa.int32(), 20),
        ("c", pa.timestamp("ms"), pa.int32(), 0),
    ):
        write_file(
            tmp_path / f"{name}.parquet",
            ts=pa.array([first + each for each in seconds], pa.timestamp("s")).cast(moments),
            n=pa.array([first + each for each in seconds], type_),
        )
        os.utime(tmp_path / f"{name}.parquet", (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(tmp_path))
    table.create_index("stats", on="*")
    plan = table.plan("true")
    for column in ("ts", "n"):
        kept = {
            (rows, descending): [
                Path(file).stem for file in plan.top(column, rows, descending=descending).files
            ]
            for rows in (1, 4)
            for descending in (False, True)
        }
        assert kept == {(1, False): ["c"], (4, False): ["a", "c"], (1, True): ["b"], (4, True): ["a", "b"]}


def test_a_threshold_of_decimals_has_all_of_its_digits(tmp_path: Path) -> None:
    least = Decimal("-1234567890123456789012345678.9012345678")
    for number in range(3):
        with localcontext(prec=40):
            values = pa.array([least + number, least + number + Decimal("0.5")], pa.decimal128(38, 10))
        path = write_file(tmp_path / f"part-{number}.parquet", d=values)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(tmp_path))
    table.create_index("stats", on="d")
    plan = table.plan("true")
    assert plan.threshold("d", 2).as_py() == Decimal("-1234567890123456789012345678.4012345678")
    assert plan.threshold("d", 3, descending=True).as_py() == Decimal(
        "-1234567890123456789012345677.9012345678"
    )
    assert plan.top("d", 2).kept == 1


def test_nulls_do_not_hold_a_threshold_up(tmp_path: Path) -> None:
    table = table_of(tmp_path, a={"x": [10, None, None, None]}, b={"x": [7, 8, 9]}, c={"x": [1, 2, 3]})
    table.create_index("stats", on="x")
    for rows, kept in ((1, 1), (2, 2), (4, 2), (5, 3)):
        assert table.plan("true").top("x", rows, descending=True).kept == kept
    for rows, kept in ((3, 1), (4, 2), (7, 3)):
        assert table.plan("true").top("x", rows).kept == kept


def test_rows_without_a_value_do_not_hold_a_threshold_up(tmp_path: Path) -> None:
    nothing = pa.array([None] * 3, pa.int64())
    table = table_of(
        tmp_path,
        a={"x": [7, 8, 9], "y": nothing, "g": [1] * 3},
        b={"x": [4, 5, 6], "y": [None, None, 1], "g": [1] * 3},
        c={"x": [1, 2, 3], "y": [1, 2, 3], "g": [1] * 3},
    )
    table.create_index("stats", on=["x", "y", "g"])
    plan = table.plan("true")
    assert plan.first_of([Order("x", 1, descending=True)]).kept == 1
    assert plan.first_of([Order("x", 1, descending=True, with_value="y")]).kept == 2
    assert plan.first_of([Order("x", 2, descending=True, with_value="y")]).kept == 3
    assert plan.first_of([Order("x", 1, descending=True, with_value="y", within="g")]).kept == 2
    both = plan.first_of([Order("x", 1), Order("x", 1, descending=True)])
    assert [Path(file).name for file in both.files] == ["a.parquet", "c.parquet"]


@pytest.mark.slow
def test_the_first_rows_of_each_value_are_in_few_files(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"x": [1, 2, 3, 4], "g": ["p", "p", "q", None], "h": ["p"] * 4},
        b={"x": [5, 5, None, 5], "g": ["p", "q", None, None], "h": ["q"] * 4},
        c={"x": [6, 7, 8, 9], "g": ["p", "p", None, "q"], "h": ["p"] * 4},
        d={"x": pa.array([None, 9, 9, 9], pa.int64()), "g": ["r"] * 4, "h": ["q"] * 4},
    )
    table.create_index("stats", on="*")
    plan = table.plan("true")

    def left(
        column: str, rows: int, *, where: str = "true", descending: bool = True, nulls_first: bool = False
    ) -> str:
        found = table.plan(where).first_of([Order("x", rows, descending, nulls_first, within=column)])
        return "".join(Path(file).stem for file in found.files)

    assert left("h", 1) == "cd"
    assert left("h", 4) == "bcd"  # of `q`, three rows of `d` have a value
    assert left("h", 5) == "abcd"
    # Without a bitmap nothing is known about the values of `g` except in one file.
    assert left("g", 1) == "abcd"
    table.create_index("groups", on="g", using="bitmap")
    assert plan.kept == 4
    assert left("g", 1) == "cd"
    assert left("g", 2) == "abcd"
    assert left("g", 1, descending=False) == "ad"
    assert left("g", 1, descending=False, nulls_first=True) == "abd"
    # Of rows that match in part, it is only known that they may not be those of a value.
    assert left("g", 1, where="x < 9") == "abc"


@pytest.mark.slow
def test_the_first_rows_of_each_combination_of_values_are_in_few_files(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"x": [1, 2, 3, 4], "g": ["p", "p", "q", "q"], "h": ["p"] * 4, "i": [1, 2, 1, 2]},
        b={"x": [5, 5, 5, 5], "g": ["p", "q", "q", "q"], "h": ["q"] * 4, "i": [1, 2, 1, 2]},
        c={"x": [6, 7, 8, 9], "g": ["p", "p", "q", "q"], "h": ["p"] * 4, "i": [1, 1, 1, 2]},
        d={"x": [6, 7, 8, 9], "g": ["p"] * 4, "h": [None] * 4, "i": [1, 1, 1, 2]},
        e={"x": [0, 0, 0, 0], "g": ["p"] * 4, "h": [None] * 4, "i": [1, 1, 1, 2]},
    )
    table.create_index("stats", on=["x", "g", "h", "i"])

    def left(*columns: str, rows: int = 1, where: str = "true") -> str:
        found = table.plan(where).first_of([("x", rows, True, False, None, columns)])
        return "".join(Path(file).stem for file in found.files)

    assert left("h", "g") == "abcd"  # in `d` and `e` alone the values of both columns are known
    table.create_index("groups", on="g", using="bitmap")
    assert left("h", "g") == left("g", "h") == left("g", "h", "g") == "bcd"
    assert left("g") == "cd"
    assert left("h", "g", rows=2) == "bcd"
    assert left("h", "g", rows=3) == "abcd"
    assert left("h", "g", rows=5) == "abcde"
    # In `c` and `d`, the rows that do not match may be those of a value.
    assert left("h", "g", where="x < 9") == "abcde"
    table.create_index("numbers", on="i", using="bitmap")
    assert left("g", "i") == "abcd"  # which values of two columns occur together is unknown
    assert left("g", "i", "h") == "abcd"


@pytest.mark.slow
def test_the_first_values_are_in_few_files(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"x": [1, 1, 2], "f": [0.0, -0.0, 0.0], "u": pa.array([1, 2, 3], pa.uint8())},
        b={"x": [2, 3, 3], "f": [1.0, 2.0, float("nan")], "u": pa.array([1, 2, 3], pa.uint8())},
        c={"x": [3, 4, None], "f": [3.0, 4.0, 5.0], "u": pa.array([4, 5, 6], pa.uint8())},
        d={"x": pa.array([None] * 3, pa.int64()), "f": [5.0, 6.0, 7.0], "u": pa.array([7, 8, 9], pa.uint8())},
        e={"x": [8, 9, 9], "f": [5.0, 6.0, 7.0], "u": pa.array([7, 8, 9], pa.uint8())},
    )

    def left(values: int, column: str = "x", *, where: str = "true", **how: bool) -> str:
        found = table.plan(where).first_values(column, values, **how)
        return "".join(Path(file).stem for file in found.files)

    assert left(1) == "abcde"
    table.create_index("stats", on="*")
    assert left(1) == "a"
    assert left(2) == "ab"  # 2 is in both
    assert left(3) == "abc"
    assert left(4) == "abc"
    assert left(5) == "abce"
    assert left(7) == "abcde"
    assert left(1, descending=True) == "e"
    assert left(3, descending=True) == "ce"
    assert left(1, descending=True, nulls_first=True) == "cde"
    assert left(2, nulls_first=True) == "abcd"
    assert left(1, where="x <> 1") == "ab"  # which of the first file's rows match is unknown
    assert left(1, "f", where="x < 9 OR x IS NULL", descending=True) == "bde"  # NaN
    assert left(1, "f", where="x >= 3") == "bce"
    assert left(1, "f") == "abc"  # there are two zeros
    assert left(1, "u") == "abcde"
    with pytest.raises(pruner.SchemaError):
        table.plan("true").first_values("z", 1)


def test_ties_in_a_group_stay(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        a={"x": [1, 5], "g": [1, 1]},
        b={"x": [5, 5], "g": [1, 1]},
        c={"x": [0, 4], "g": [1, 1]},
    )
    table.create_index("stats", on="*")
    kept = table.plan("true").first_of([Order("x", 2, descending=True, within="g")])
    assert [Path(file).name for file in kept.files] == ["a.parquet", "b.parquet"]


def test_a_limit_in_any_order_takes_the_files_that_hold_most(tmp_path: Path) -> None:
    table = table_of(tmp_path, a={"x": [1, 50]}, b={"x": [20, 21]}, c={"x": [30, 31, 32, 33]})
    table.create_index("stats", on="x")
    plan = table.plan("x >= 20")
    assert plan.kept == 3
    assert [names(plan.snapshot)[each] for each in plan.limited(3).ordinals] == [
        "a.parquet",
        "b.parquet",
        "c.parquet",
    ]
    assert [names(plan.snapshot)[each] for each in plan.limited(3, fewest=True).ordinals] == ["c.parquet"]
    assert plan.limited(7, fewest=True).kept == 3
