"""Makes the tables of the cases: `python -m referee.make_cases` in a checkout of lake-pruner.

Each case is a folder of `cases/` with `case.json`, the table in `table`, and the same rows in `blind`, without
anything by which a reader could skip. A reader's answer over `blind` is what the condition means to it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform

from referee.conditions import Condition
from referee.run import CASES, SCRATCH
from tests.support.parquet.footers import (
    BINARY,
    COLUMNS,
    META_DATA,
    ROW_GROUPS,
    STATISTICS,
    STRUCT,
    Struct,
    claim,
    edit_footer,
    written_by,
)

NAN = math.nan
_COLUMN_ORDERS = 7
_OLD_MAX, _OLD_MIN = 1, 2


@dataclass(frozen=True)
class Case:
    """A table and queries over it.

    `files` are the rows of each file, by its path; `edit` changes a file's metadata after it is written.
    """

    name: str
    title: str
    trap: str
    files: Mapping[str, pa.Table]
    conditions: Iterable[Condition]
    edit: Callable[[Path], object] | None = None
    written: Mapping[str, Any] = field(default_factory=dict[str, Any])
    format: str = "parquet"


def rows(**columns: Any) -> pa.Table:
    """A table whose column `id` numbers the rows."""
    length = len(next(iter(columns.values())))
    return pa.table({"id": pa.array(range(length), pa.int64()), **columns})


def one(**columns: Any) -> dict[str, pa.Table]:
    """The files of a table of one file."""
    return {"rows.parquet": rows(**columns)}


def old_bounds(low: bytes, high: bytes, writer: str) -> Callable[[Path], object]:
    """Give the column after `id` only the deprecated bounds, as writers before parquet-format 2.4 did."""

    def edit(footer: Struct) -> None:
        footer.pop(_COLUMN_ORDERS, None)
        for group in footer[ROW_GROUPS][1][1]:
            for column in group[COLUMNS][1][1]:
                column[META_DATA][1].pop(STATISTICS, None)
            of_column = group[COLUMNS][1][1][1][META_DATA][1]
            of_column[STATISTICS] = (STRUCT, {_OLD_MAX: (BINARY, high), _OLD_MIN: (BINARY, low)})

    return lambda path: edit_footer(written_by(path, writer), edit)


def comparisons(column: str, *values: Any) -> list[Condition]:
    """Every comparison with every value, and some of their negations."""
    plain = [[operator, column, each] for each in values for operator in ("=", "<>", "<", "<=", ">", ">=")]
    return [*plain, *(["not", each] for each in plain if each[0] in ("=", ">", "<="))]


NULLS = [["is null", "x"], ["not", ["is null", "x"]]]
ZEROS = [[operator, "x", each] for each in (0.0, {"double": "-0.0"}) for operator in ("=", "<=", ">=")]
OLD_WRITER = "parquet-mr version 1.6.0"


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _int96(day: int, hour: int) -> bytes:
    """A moment of January 2020: nanoseconds of the day, and the Julian day."""
    return struct.pack("<qi", hour * 3_600_000_000_000, 2_458_849 + day)


def parquet_cases() -> list[Case]:
    """The cases of plain Parquet files."""
    floats = [1.0, 2.0, {"double": "nan"}, 3.0]
    return [
        Case(
            "nan_outside_the_bounds",
            "a NaN that the bounds of its row group leave out, as most writers do",
            "S1",
            one(x=[1.0, 2.0, NAN]),
            comparisons("x", *floats),
        ),
        Case(
            "nan_outside_the_bounds_of_pages",
            "a NaN that the bounds of its page leave out",
            "S1",
            one(x=[float(n % 3) if n % 1000 != 500 else NAN for n in range(8000)]),
            comparisons("x", 2.0, 3.0, {"double": "nan"}),
            written={"write_page_index": True, "data_page_size": 1024, "use_dictionary": False},
        ),
        Case(
            "nan_as_a_bound",
            "bounds that are NaN, as old writers made them",
            "S1",
            one(x=[1.0, 2.0, NAN, 5.0]),
            comparisons("x", *floats),
            lambda path: claim(path, 1, min_value=_double(NAN), max_value=_double(NAN)),
        ),
        Case(
            "nan_behind_zero_bounds",
            "bounds of 0.0 that a writer began with and that NaN never moved",
            "S25",
            one(x=[NAN, NAN]),
            comparisons("x", 1.0, {"double": "nan"}),
            lambda path: claim(path, 1, min_value=_double(0.0), max_value=_double(0.0)),
        ),
        Case(
            "negative_zero_below_a_zero_bound",
            "rows of -0.0 under bounds of +0.0, which are equal",
            "S6",
            one(x=[-0.0, -0.0]),
            ZEROS,
            lambda path: claim(path, 1, min_value=_double(0.0), max_value=_double(0.0)),
        ),
        Case(
            "zero_above_a_negative_zero_bound",
            "rows of +0.0 under bounds of -0.0, which are equal",
            "S6",
            one(x=[0.0, 0.0]),
            ZEROS,
            lambda path: claim(path, 1, min_value=_double(-0.0), max_value=_double(-0.0)),
        ),
        Case(
            "null_count_missing",
            "NULLs of which the statistics give no count",
            "S4",
            one(x=[1, None, 3]),
            [*NULLS, *comparisons("x", 2), ["in", "x", [1, 5]]],
            lambda path: claim(path, 1, null_count=None),
        ),
        Case(
            "statistics_missing",
            "a column without any statistics",
            "S3",
            one(x=["a", None, "b"]),
            [*NULLS, *comparisons("x", "a")],
            lambda path: claim(path, 1, null_count=None, min_value=None, max_value=None),
        ),
        Case(
            "one_value_and_nulls",
            "a row group of one value and NULLs, for which a condition is true or NULL",
            "L10",
            one(x=[5, None, 5, None]),
            [*comparisons("x", 5, 6), *NULLS, ["in", "x", [5]], ["not", ["in", "x", [6, 7]]]],
        ),
        Case(
            "nothing_but_nulls",
            "a row group of NULLs alone",
            "I2",
            {**one(x=pa.array([None, None], pa.int64())), "b.parquet": rows(x=[1, 2])},
            [*NULLS, *comparisons("x", 1), ["not", ["in", "x", [1]]]],
        ),
        Case(
            "text_cut_short",
            "bounds of long text that the writer cut, with the last character of the greatest raised",
            "S7",
            one(x=["b" * 200, "b" * 100, "c" * 300]),
            [
                *comparisons("x", "b" * 200, "b" * 64, "c" * 300),
                ["starts with", "x", "b" * 70],
                ["not", ["starts with", "x", "b" * 150]],
            ],
            lambda path: claim(path, 1, min_value=b"b" * 64, max_value=b"c" * 63 + b"d"),
        ),
        Case(
            "prefix_of_everything",
            "a row group all of whose text begins alike",
            "L4",
            one(x=["ab", "abc", "ab\U0010ffffz", None]),
            [["starts with", "x", each] for each in ("", "a", "ab", "abc", "ab\U0010ffff")]
            + [["not", ["starts with", "x", each]] for each in ("", "a", "ab", "abc", "b")],
        ),
        Case(
            "text_ordered_by_signed_bytes",
            "the deprecated bounds of text, which old writers ordered by signed bytes",
            "S8",
            one(x=["a", "z", "é"]),
            comparisons("x", "a", "m", "é"),
            old_bounds("é".encode(), b"z", OLD_WRITER),
        ),
        Case(
            "unsigned_ordered_as_signed",
            "the deprecated bounds of unsigned numbers, which old writers ordered as signed ones",
            "S15",
            one(x=pa.array([1, 5, 3_000_000_000], pa.uint32())),
            comparisons("x", 1, 5, 2_000_000_000, 3_000_000_000),
            old_bounds(struct.pack("<I", 3_000_000_000), struct.pack("<I", 5), OLD_WRITER),
        ),
        Case(
            "decimals_ordered_by_signed_bytes",
            "the deprecated bounds of decimals, which old writers ordered as signed bytes",
            "S9",
            one(x=pa.array([Decimal("1.28"), Decimal("0.01"), Decimal("0.50")], pa.decimal128(18, 2))),
            comparisons("x", {"decimal": "1.28"}, {"decimal": "0.01"}, {"decimal": "0.75"}),
            old_bounds((128).to_bytes(8, "big"), (50).to_bytes(8, "big"), OLD_WRITER),
        ),
        Case(
            "int96_ordered_by_bytes",
            "the deprecated bounds of INT96, ordered by bytes that begin with the time of day",
            "S10",
            one(x=[dt.datetime(2020, 1, 1, 1), dt.datetime(2020, 1, 2, 23), dt.datetime(2020, 1, 3, 12)]),
            comparisons("x", {"timestamp": "2020-01-01 01:00:00"}, {"timestamp": "2020-01-02 12:00:00"}),
            old_bounds(_int96(2, 23), _int96(1, 1), OLD_WRITER),
            {"use_deprecated_int96_timestamps": True},
        ),
        Case(
            "fractions_and_integers",
            "integers compared with fractions between them",
            "L9",
            one(x=[1, 2, 3]),
            comparisons("x", 0.5, 1.5, 2.0, 3.5),
        ),
        Case(
            "single_and_double_precision",
            "single precision compared with a constant of double precision",
            "L9",
            one(x=pa.array([0.1, 0.25], pa.float32())),
            comparisons("x", 0.1, 0.25),
        ),
        Case(
            "integers_beyond_doubles",
            "integers that differ where doubles do not",
            "L9",
            one(x=[2**53, 2**53 + 1, 2**53 + 2]),
            comparisons("x", 2**53 + 1, float(2**53)),
        ),
        Case(
            "column_that_came_later",
            "a column that an older file lacks",
            "S28",
            {"a.parquet": rows(y=[1, 2]), "b.parquet": rows(y=[3, 4], x=[1, None])},
            [*NULLS, *comparisons("x", 1, 5), ["or", ["is null", "x"], ["=", "y", 3]]],
        ),
        Case(
            "integers_of_two_widths",
            "32 bits in one file, 64 in the other",
            "T2",
            {
                "a.parquet": rows(x=pa.array([1, -2], pa.int32())),
                "b.parquet": rows(x=pa.array([2**40, 1], pa.int64())),
            },
            [*comparisons("x", 1, 2**40, -2), ["in", "x", [1, 2**40]]],
        ),
        Case(
            "timestamps_of_two_units",
            "milliseconds in one file, microseconds in the other",
            "S12",
            {
                "a.parquet": rows(
                    x=pa.array([dt.datetime(2020, 1, 1), dt.datetime(1969, 12, 31, 23)], pa.timestamp("ms"))
                ),
                "b.parquet": rows(
                    x=pa.array(
                        [dt.datetime(2020, 1, 1, 0, 0, 0, 1), dt.datetime(1900, 1, 1)], pa.timestamp("us")
                    )
                ),
            },
            comparisons(
                "x", {"timestamp": "2020-01-01 00:00:00"}, {"timestamp": "2020-01-01 00:00:00.000001"}
            ),
        ),
        Case(
            "instants",
            "timestamps with time zone, before and after 1970",
            "S13",
            one(
                x=pa.array(
                    [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1)],
                    pa.timestamp("us", "UTC"),
                )
            ),
            comparisons("x", {"instant": "1970-01-01 00:00:00+00:00"}),
        ),
        Case(
            "dates_of_all_times",
            "the least and the greatest dates",
            "S22",
            one(x=[dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]),
            comparisons("x", {"date": "0001-01-01"}, {"date": "1582-10-10"}, {"date": "9999-12-31"}),
        ),
        Case(
            "yes_and_no",
            "Booleans with NULL",
            "L3",
            one(x=[True, None, True]),
            [["=", "x", True], ["<>", "x", True], ["not", ["=", "x", True]], ["=", "x", False], *NULLS],
        ),
        Case(
            "partition_values_as_written",
            "values in paths that look like numbers, are escaped, or stand for NULL",
            "N2",
            {
                f"x={value}/rows.parquet": pa.table({"id": [number]})
                for number, value in enumerate(
                    ("1", "01", "1.0", "a%2Fb", "a b", "__HIVE_DEFAULT_PARTITION__", "é")
                )
            },
            [["=", "x", "1"], ["=", "x", "01"], ["=", "x", "a/b"], ["<>", "x", "1"], ["=", "x", "é"], *NULLS],
        ),
    ]


def _delta(case_files: Mapping[str, pa.Table], root: Path, **options: Any) -> None:
    for table in case_files.values():
        deltalake.write_deltalake(root, table, mode="append", **options)


def _change_log(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change each added file of a Delta log; its statistics are passed as a mapping and written back as text."""
    for commit in sorted((root / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for line in lines:
            if "add" in line:
                statistics = json.loads(line["add"].get("stats") or "null")
                held = {"stats": statistics}
                change(held)
                line["add"].pop("stats", None)
                if held["stats"] is not None:
                    line["add"]["stats"] = json.dumps(held["stats"])
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _bounds(**columns: tuple[Any, Any]) -> Callable[[Path], None]:
    """Set the bounds of columns in a Delta log, as another kind of writer has them."""

    def change(held: dict[str, Any]) -> None:
        for name, (low, high) in columns.items():
            held["stats"]["minValues"][name], held["stats"]["maxValues"][name] = low, high

    return lambda root: _change_log(root, change)


def delta_cases() -> list[Case]:
    """The cases of statistics in a Delta log, as Spark's Delta writes them."""
    moment = dt.datetime(2020, 1, 1, 0, 0, 0, 123_456)
    long = "é" * 40
    cases = [
        Case(
            "delta_nan",
            "a NaN that the log's bounds leave out",
            "S1",
            one(x=[1.0, 2.0, NAN]),
            comparisons("x", 1.0, 2.0, 3.0, {"double": "nan"}),
            _bounds(x=(1.0, 2.0)),
        ),
        Case(
            "delta_moments_cut_to_milliseconds",
            "a greatest moment that the log cut to milliseconds",
            "D1",
            one(x=pa.array([moment], pa.timestamp("us", "UTC"))),
            comparisons("x", {"instant": "2020-01-01 00:00:00.123456+00:00"}),
            _bounds(x=("2020-01-01T00:00:00.123Z", "2020-01-01T00:00:00.123Z")),
        ),
        Case(
            "delta_text_cut_short",
            "text of more than 32 characters, cut with a sign behind it that is greater than any character",
            "S7",
            one(x=[long, "é" * 32]),
            comparisons("x", long, "é" * 33),
            _bounds(x=("é" * 32, "é" * 32 + "\U0010ffff")),
        ),
        Case(
            "delta_without_counts_of_null",
            "statistics without any count of NULLs",
            "S4",
            one(x=[1, None]),
            [*NULLS, *comparisons("x", 1)],
            lambda root: _change_log(root, lambda held: held["stats"].pop("nullCount")),
        ),
        Case(
            "delta_one_value_and_nulls",
            "a file of one value and NULLs",
            "L10",
            one(x=[5, None]),
            [*NULLS, *comparisons("x", 5, 6), ["not", ["in", "x", [6, 7]]]],
        ),
        Case(
            "delta_column_that_came_later",
            "a column of which older files have no statistics",
            "S28",
            {"a": rows(y=[1, 2]), "b": rows(y=[3, 4], x=[1, None])},
            [*NULLS, *comparisons("x", 1, 5)],
            written={"schema_mode": "merge"},
        ),
        Case(
            "delta_some_files_without_statistics",
            "files of which the log says nothing beside files of which it does",
            "S5",
            {"a": rows(x=[1, 2]), "b": rows(x=[3, 4])},
            [*comparisons("x", 1, 3), *NULLS],
            lambda root: _change_log(
                root, lambda held: held.update(stats=None) if held["stats"]["minValues"]["x"] == 3 else None
            ),
        ),
        Case(
            "delta_wide_bounds",
            "bounds that are said to be wider than the rows (tightBounds is false)",
            "A2",
            one(x=[5, 6]),
            [*comparisons("x", 5, 9), *NULLS],
            lambda root: _change_log(
                root,
                lambda held: held["stats"].update(
                    tightBounds=False, minValues={"x": 0, "id": 0}, maxValues={"x": 9, "id": 9}
                ),
            ),
        ),
    ]
    return [Case(**{**vars(case), "format": "delta"}) for case in cases]


def iceberg_cases() -> list[Case]:
    """The cases of metrics in Iceberg's manifests, as PyIceberg writes them."""
    cases = [
        Case(
            "iceberg_nan",
            "a NaN that the bounds leave out and nan_value_counts counts",
            "S1",
            one(x=[1.0, 2.0, NAN]),
            comparisons("x", 1.0, 3.0, {"double": "nan"}),
        ),
        Case(
            "iceberg_prefix",
            "text that begins with the prefix, and longer bounds",
            "L4",
            one(x=["ab", "abc", "b" * 40]),
            [["starts with", "x", each] for each in ("a", "ab", "b" * 20)]
            + [["not", ["starts with", "x", each]] for each in ("a", "ab", "abc", "b", "b" * 20, "b" * 16)],
        ),
        Case(
            "iceberg_not_prefix_of_one_value",
            "a file of one short text that is shorter than the prefix",
            "L4",
            one(x=["ab", "ab"]),
            [["not", ["starts with", "x", each]] for each in ("a", "ab", "abc")],
        ),
        Case(
            "iceberg_prefix_longer_than_the_partition",
            "a partition by the first characters, and a longer prefix",
            "L4",
            one(x=["ab", "abd", "abc", "b"]),
            [["starts with", "x", each] for each in ("ab", "abc")]
            + [["not", ["starts with", "x", each]] for each in ("a", "ab", "abc")],
            written={"transform": TruncateTransform(2)},
        ),
        Case(
            "iceberg_bucket",
            "a partition by a hash",
            "I1",
            one(x=pa.array([1, 34, None], pa.int64())),
            [*comparisons("x", 34, 35), ["in", "x", [1, 34]], ["not", ["in", "x", [34]]], *NULLS],
            written={"transform": BucketTransform(16)},
        ),
        Case(
            "iceberg_days_before_1970",
            "a partition by the day, of moments before 1970",
            "S14",
            one(x=pa.array([dt.datetime(1969, 12, 31, 23), dt.datetime(1970, 1, 1)], pa.timestamp("us"))),
            comparisons("x", {"timestamp": "1969-12-31 23:00:00"}, {"timestamp": "1970-01-01 00:00:00"}),
            written={"transform": DayTransform()},
        ),
        Case(
            "iceberg_text_cut_short",
            "text of more than 16 characters",
            "S7",
            one(x=["é" * 40, "é" * 16]),
            comparisons("x", "é" * 40, "é" * 17),
        ),
        Case(
            "iceberg_one_value_and_nulls",
            "a file of one value and NULLs",
            "L10",
            one(x=[5, None]),
            [*NULLS, *comparisons("x", 5, 6), ["not", ["in", "x", [6, 7]]]],
        ),
        Case(
            "iceberg_negative_zero",
            "zeros of negative sign alone, which equal those of positive sign",
            "S6",
            one(x=[-0.0, -0.0]),
            ZEROS,
        ),
        Case(
            "iceberg_zeros",
            "zeros of both signs",
            "S6",
            one(x=[-0.0, 0.0]),
            ZEROS,
        ),
    ]
    return [Case(**{**vars(case), "format": "iceberg"}) for case in cases]


def _iceberg(case: Case, place: Path, metrics: str) -> None:
    """Write an Iceberg table where the runner puts it, because its metadata has absolute paths, and copy it."""
    root = SCRATCH / place.relative_to(CASES)
    catalog = SqlCatalog("made", uri="sqlite://", warehouse=f"file://{root}")
    catalog.create_namespace("n")
    schema = next(iter(case.files.values())).schema
    properties = {"write.metadata.metrics.default": metrics}
    table = catalog.create_table("n.t", schema, location=f"file://{root}", properties=properties)
    if metrics != "none" and "transform" in case.written:
        with table.update_spec() as spec:
            spec.add_field("x", case.written["transform"], "x_part")
    for each in case.files.values():
        table.append(each)
    shutil.copytree(root, place)


def write(case: Case, place: Path, *, blind: bool) -> None:
    """Write the table of a case, or the same rows without anything to skip by."""
    if case.format == "iceberg":
        _iceberg(case, place, "none" if blind else "truncate(16)")
        return
    if case.format == "delta":
        _delta(case.files, place, **case.written)
        if case.edit is not None and not blind:
            case.edit(place)
        if blind:
            _change_log(place, lambda held: held.update(stats=None))
        return
    for name, table in case.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {key: value for key, value in case.written.items() if not blind or "int" in key}
        if not blind:
            pq.write_table(table, path, **options)
            if case.edit is not None:
                case.edit(path)
            continue
        pq.write_table(table, path, write_statistics=False, **options)


def main() -> None:
    """Regenerate the folders."""
    for folder in (CASES, SCRATCH):
        shutil.rmtree(folder, ignore_errors=True)
    for case in (*parquet_cases(), *delta_cases(), *iceberg_cases()):
        place = CASES / case.name
        for blind in (False, True):
            write(case, place / ("blind" if blind else "table"), blind=blind)
        told = {
            "title": case.title,
            "trap": case.trap,
            "format": case.format,
            "conditions": list(case.conditions),
        }
        (place / "case.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
