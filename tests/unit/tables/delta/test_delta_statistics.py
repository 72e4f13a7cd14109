"""What the statistics in Delta's log prove, and what they do not: each rule of trust (docs/delta.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import pruner
import pruner.evidence.delta as evidence
from pruner.schema import Field
from pruner.tables.delta import checkpoint, statistics
from pruner.tables.delta.checkpoint import CheckpointPart
from tests.support.delta.logs import Column, DeltaLog, moment, write_checkpoint


def one_file(
    folder: Path, type_: str, low: Any, high: Any, nulls: int | None = 0, rows: int | None = 10
) -> pruner.Table:
    """A table with a column `c` and one file, with these statistics in the log."""
    column = Column("c", type_)
    table = DeltaLog(folder / "t", (column, Column("d", "long")))
    stats: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    stats |= {} if low is None else {"minValues": {"c": low}}
    stats |= {} if high is None else {"maxValues": {"c": high}}
    stats |= {} if nulls is None else {"nullCount": {"c": nulls}}
    table.append(pa.table({"c": pa.nulls(10, column.arrow().type)}), stats=json.dumps(stats))
    return pruner.open_table(str(table.root))


def kept(table: pruner.Table, *predicates: str) -> list[int]:
    return [table.plan(predicate).kept for predicate in predicates]


def test_bounds_and_counts(tmp_path: Path):
    table = one_file(tmp_path, "long", -5, 7)
    assert kept(table, "c = 7", "c = -5", "c > 6", "c IS NOT NULL") == [1, 1, 1, 1]
    assert kept(table, "c = 8", "c < -5", "c > 7", "c IS NULL", "c IN (8, 9)") == [0, 0, 0, 0, 0]
    assert kept(table, "d = 1", "d IS NULL", "d IS NOT NULL") == [1, 1, 1], "nothing is said of d"


def test_a_column_of_nulls(tmp_path: Path):
    table = one_file(tmp_path, "long", None, None, 10)
    assert kept(table, "c IS NULL", "c IS NOT NULL", "c = 1") == [1, 0, 0]


@pytest.mark.parametrize(
    ("low", "high", "nulls"),
    [(9, 1, 0), ("1", "2", 0), (1.5, 2.5, 0), (True, False, 0), ({}, [], 0), (1, 2, 11)],
)
def test_statistics_that_make_no_sense_prove_nothing(tmp_path: Path, low: Any, high: Any, nulls: int):
    assert kept(one_file(tmp_path, "long", low, high, nulls), "c = 5", "c = 100") == [1, 1]


@pytest.mark.parametrize("stats", ["{", "null", "[]", "7", '{"numRecords": 1, "minValues": 3}'])
def test_statistics_that_cannot_be_read_prove_nothing(tmp_path: Path, stats: str):
    table = DeltaLog(tmp_path / "t", (Column("c", "long"),))
    table.append(pa.table({"c": [1]}), stats=stats)
    assert kept(pruner.open_table(str(table.root)), "c = 5", "c IS NULL") == [1, 1]


def test_parts_of_statistics(tmp_path: Path):
    assert kept(one_file(tmp_path, "long", 5, None), "c < 5", "c > 100") == [0, 1]
    table = one_file(tmp_path / "rows", "long", 1, 5, rows=None)
    assert kept(table, "c = 9", "c IS NULL", "c = 3") == [0, 0, 1]
    assert kept(one_file(tmp_path / "nulls", "long", None, None, 10, rows=None), "c IS NOT NULL") == [1]


def test_d1_greatest_moments_are_cut_to_milliseconds(tmp_path: Path):
    table = one_file(tmp_path, "timestamp", "2024-01-01T00:00:00.000Z", "2024-01-02T00:00:00.123Z")
    column = "c = TIMESTAMPTZ '2024-01-02 00:00:00.{}Z'"
    assert kept(table, column.format("123999"), column.format("123")) == [1, 1]
    assert kept(table, column.format("124000"), "c < TIMESTAMPTZ '2024-01-01 00:00:00Z'") == [0, 0]


def test_d1_moments_with_microseconds_were_not_cut(tmp_path: Path):
    table = one_file(tmp_path, "timestamp", "2024-01-01T00:00:00.000001Z", "2024-01-02T00:00:00.123456Z")
    column = "c = TIMESTAMPTZ '2024-01-02 00:00:00.{}Z'"
    assert kept(table, column.format("123456"), column.format("123457")) == [1, 0]


def test_moments_without_a_zone(tmp_path: Path):
    table = one_file(tmp_path, "timestamp_ntz", "2024-01-01T00:00:00.000", "2024-01-02T00:00:00.123")
    assert kept(table, "c = TIMESTAMP '2024-01-02 00:00:00.123999'") == [1]
    assert kept(table, "c = TIMESTAMP '2024-01-02 00:00:00.124'", "c < TIMESTAMP '2024-01-01'") == [0, 0]


def test_d4_offsets_are_cut_to_minutes(tmp_path: Path):
    """An offset of -4:56:02, as New York had it until 1883, is written as -04:56."""
    table = one_file(tmp_path, "timestamp", "1970-01-01T00:00:00.000-04:56", "1970-01-02T00:00:00.000-04:56")
    inside = "c = TIMESTAMPTZ '1970-01-02 04:56:02Z'", "c = TIMESTAMPTZ '1970-01-01 04:55:58Z'"
    outside = "c = TIMESTAMPTZ '1970-01-02 04:57:02Z'", "c = TIMESTAMPTZ '1970-01-01 04:54:58Z'"
    assert kept(table, *inside, *outside) == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("timestamp", "2024-01-01T00:00:00.000", "2024-01-02T00:00:00.000"),
        ("timestamp_ntz", "2024-01-01T00:00:00.000Z", "2024-01-02T00:00:00.000Z"),
        ("timestamp", "+10000-01-01T00:00:00.000Z", "+12000-01-01T00:00:00.000Z"),
        ("timestamp", "1890-01-01T00:00:00.000Z", "1899-01-02T00:00:00.000Z"),
        ("date", "1500-01-01", "1582-10-14"),
        ("date", "soon", "later"),
    ],
)
def test_moments_that_mean_different_things_prove_nothing(tmp_path: Path, type_: str, low: str, high: str):
    table = one_file(tmp_path, type_, low, high)
    name = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "date": "DATE"}[type_]
    moments = ("1200-01-01", "2023-01-01", "2050-01-01")
    assert kept(table, *(f"c = {name} '{each}'" for each in moments)) == [1, 1, 1]


def test_dates(tmp_path: Path):
    table = one_file(tmp_path, "date", "1582-10-15", "2024-02-29")
    assert kept(table, "c = DATE '1582-10-15'", "c = DATE '1582-10-14'", "c > DATE '2024-02-29'") == [1, 0, 0]


@pytest.mark.parametrize("tie", ["", "\x7f", "\ufffd", "\U0010ffff"])
def test_a_text_that_was_cut_stands_for_all_that_begin_so(tmp_path: Path, tie: str):
    beginning = "a" * 32
    table = one_file(tmp_path, "string", beginning, beginning + tie)
    assert kept(table, f"c = '{beginning}\U0010ffffz'", f"c = '{beginning}b'", f"c = '{beginning}'") == [
        1,
        1,
        1,
    ]
    assert kept(table, f"c = '{'a' * 31}c'", f"c = '{'a' * 31}'") == [0, 0]


@pytest.mark.parametrize("tie", ["", "\ufffd"])
def test_s7_half_a_character_before_a_cut_is_no_question_mark(tmp_path: Path, tie: str):
    """Delta up to 2.4 cut UTF-16, and Java writes `?` for the remaining half of a pair: below what was cut."""
    beginning = "a" * 31
    table = one_file(tmp_path, "string", beginning, f"{beginning}?{tie}")
    assert kept(table, f"c = '{beginning}\U0001f600b'", f"c > '{beginning}b'", f"c = '{beginning}?'") == [
        1,
        1,
        1,
    ]
    assert kept(table, f"c = '{'a' * 30}c'", "c = 'b'") == [0, 0]


def test_text_is_ordered_by_its_bytes(tmp_path: Path):
    """In UTF-16, characters beyond U+FFFF come before U+E000 to U+FFFF."""
    assert kept(one_file(tmp_path, "string", "aaa", "bbb\ufffd"), "c = 'bbb\U0001f600'", "c = 'bbd'") == [
        1,
        0,
    ]
    assert kept(one_file(tmp_path / "b", "string", "a", "\uff61"), "c = '\ue000'", "c = '\U0001f600'") == [
        1,
        0,
    ]


CUT = "x" * 32


@pytest.mark.parametrize(
    ("type_", "value", "constant", "is_one"),
    [
        ("long", 7, "7", True),
        ("date", "2024-01-02", "DATE '2024-01-02'", True),
        ("decimal(9,2)", 1.25, "1.25", True),
        ("decimal(38,0)", 10**37, str(10**37), False),
        ("string", "a", "'a'", True),
        ("string", "x" * 31, f"'{'x' * 31}'", True),
        ("string", CUT, f"'{CUT}'", False),
        ("timestamp_ntz", "2024-01-02T00:00:00.000", "TIMESTAMP '2024-01-02'", False),
        ("double", 1.5, "1.5", False),
    ],
)
def test_equal_bounds_are_one_value_where_nothing_was_cut(
    tmp_path: Path, type_: str, value: Any, constant: str, *, is_one: bool
):
    table = DeltaLog(tmp_path / "t", (Column("c", type_), Column("d", "long")), features=("timestampNtz",))
    bounds = {"c": value, "d": 1}
    for nulls in (0, 1):
        stats = {"numRecords": 2, "minValues": bounds, "maxValues": bounds, "nullCount": {"c": nulls, "d": 0}}
        table.append(pa.table({"d": [1, 1]}), stats=stats)
    opened = pruner.open_table(str(table.root))
    one = 0 if is_one else 2
    found = kept(opened, f"c = {constant}", f"c <> {constant}", f"c NOT IN ({constant})")
    assert found == [2, one, one]
    assert kept(opened, f"NOT (c IS NOT DISTINCT FROM {constant})") == [one or 1]


def test_nan_hides_behind_any_bounds(tmp_path: Path):
    """Spark treats it as the greatest value, other writers leave it out."""
    table = one_file(tmp_path, "double", 1.0, 2.0)
    assert kept(table, "c = CAST('NaN' AS DOUBLE)", "c > 5", "c = 3") == [1, 1, 0]
    table = one_file(tmp_path / "nan", "double", 1.0, "NaN")
    assert kept(table, "c > 5", "c = 3", "c = 0.5") == [1, 1, 0]


def test_infinity_and_signed_zero(tmp_path: Path):
    table = one_file(tmp_path, "double", "-Infinity", -0.0)
    assert kept(table, "c = 0.0", "c = -0.0", "c = -1e300", "c = 1.0") == [1, 1, 1, 0]


def test_the_shortest_text_of_a_float_is_another_double(tmp_path: Path):
    held = float(np.float32(0.1))
    assert held > 0.1
    table = DeltaLog(tmp_path / "t", (Column("c", "float"),), features=("typeWidening",))
    stats = {"numRecords": 1, "minValues": {"c": 0.1}, "maxValues": {"c": 0.1}, "nullCount": {"c": 0}}
    table.append(pa.table({"c": pa.array([0.1], pa.float32())}), stats=stats)
    opened = pruner.open_table(str(table.root))
    assert kept(opened, f"c = CAST({held!r} AS FLOAT)") == [1]
    table.widen("c", "double")
    edit_schema(table, {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]})
    assert kept(opened, f"c = CAST({held!r} AS DOUBLE)", "c = 0.2") == [1, 0]


def edit_schema(table: DeltaLog, about_column: dict[str, Any]) -> None:
    metadata = table.metadata()
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][0]["metadata"] |= about_column
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    table.commit(metadata)


@pytest.mark.parametrize(
    ("old", "new", "low", "high", "inside", "outside"),
    [
        ("integer", "long", "1", "5", "3", "7"),
        ("byte", "integer", "1", "5", "5", "6"),
        ("integer", "double", "1", "5", "5.0", "0.5"),
        ("integer", "decimal(12,2)", "1", "5", "4.50", "5.01"),
        ("decimal(4,2)", "decimal(8,4)", "1.50", "2.25", "2.25", "2.2501"),
        (
            "date",
            "timestamp_ntz",
            '"2024-01-01"',
            '"2024-01-02"',
            "TIMESTAMP '2024-01-02'",
            "TIMESTAMP '2024-01-03'",
        ),
    ],
)
def test_statistics_from_before_a_type_was_widened(
    tmp_path: Path, old: str, new: str, low: str, high: str, inside: str, outside: str
):
    table = DeltaLog(tmp_path / "t", (Column("c", old),), features=("typeWidening",))
    stats = f'{{"numRecords": 10, "minValues": {{"c": {low}}}, "maxValues": {{"c": {high}}}, "nullCount": {{"c": 0}}}}'
    table.append(pa.table({"c": pa.nulls(10, table.columns[0].arrow().type)}), stats=stats)
    table.widen("c", new)
    assert kept(pruner.open_table(str(table.root)), f"c = {inside}", f"c = {outside}") == [1, 0]


@pytest.mark.parametrize(
    ("low", "high", "kept_each"),
    [
        ("0.000000000000678", "0.000000000000679", {"0.000000000000678": 1, "0.000000000000677": 0}),
        (  # more digits than the text of a double has
            "12345678901234567890.123456789012345678",
            "12345678901234567890.123456789012345679",
            {
                "12345678901234567890.123456789012345678": 1,
                "12345678901234567890.123456789012345677": 0,
                "12345678901234567890.123456789012345680": 0,
            },
        ),
        (
            "1.2345678901234568e+16",
            "1.2345678901234568e+16",
            {
                "12345678901234568": 1,
                "12345678901234567.91": 1,
                "12345678901234569.5": 1,
                "12345678901234600": 0,
                "12345678901234500": 0,
            },
        ),
        (  # all digits of a double
            "-12345678901234567168",
            "-12345678901234567168",
            {"-12345678901234567890.1": 1, "-12345678901234566112": 1, "-12345678901234000000": 0},
        ),
    ],
)
def test_decimals_are_off_by_as_much_as_doubles_can_be(
    tmp_path: Path, low: str, high: str, kept_each: dict[str, int]
):
    """delta-rs writes decimals by way of doubles: 12345678901234567.91 as 1.2345678901234568e+16."""
    table = DeltaLog(tmp_path / "t", (Column("c", "decimal(38,18)"),))
    bounds = f'"minValues": {{"c": {low}}}, "maxValues": {{"c": {high}}}'
    stats = f'{{"numRecords": 2, {bounds}, "nullCount": {{"c": 0}}}}'
    table.append(pa.table({"c": [Decimal(low), Decimal(high)]}), stats=stats)
    predicates = (f"c = CAST('{value}' AS DECIMAL(38,18))" for value in kept_each)
    assert kept(pruner.open_table(str(table.root)), *predicates) == list(kept_each.values())


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("precision", "scale"), [(18, 0), (25, 3), (38, 18), (38, 0), (38, 37)])
def test_decimals_of_delta_rs_deny_no_value(tmp_path: Path, precision: int, scale: int):
    of = Random(precision * 100 + scale)
    rows = [
        [Decimal(of.randrange(-(10**digits), 10**digits)).scaleb(-scale) for _ in range(3)]
        for digits in range(1, precision + 1)
    ]
    for each in rows:
        write_deltalake(
            str(tmp_path / "t"),
            pa.table({"c": pa.array(each, pa.decimal128(precision, scale))}),
            mode="append",
        )
    table = pruner.open_table(str(tmp_path / "t"))
    files: Any = table.snapshot().data.columns.column("base_file").to_pylist()
    dropped = 0
    for place, file in enumerate(files):
        for value in pq.read_table(file).column("c").to_pylist():
            plan = table.plan(f"c = CAST('{value:f}' AS DECIMAL({precision},{scale}))", dialect="duckdb")
            assert plan.kept_mask[place], (value, file)
            dropped += plan.total - plan.kept
    assert dropped > 0


def test_d2_a_file_with_deleted_rows_is_described_by_more_than_it_has(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", (Column("c", "long"),), features=("deletionVectors",))
    (path,) = table.append(pa.table({"c": [1, 2, 3, 4]}))
    opened = pruner.open_table(str(table.root))
    opened.create_index("i", on="c")
    opened.create_index("b", on="c", using="bitmap")
    assert opened.plan("c < 9").all_match.tolist() == [True]
    assert (opened.plan("c >= 2").count().value, opened.plan("true").count().value) == (3, 4)
    table.delete({path: [2, 3]})
    assert kept(opened, "c = 9", "c = 3", "c IS NULL") == [0, 1, 0]
    assert opened.plan("c < 9").all_match.tolist() == [False]
    counts = {predicate: opened.plan(predicate).count() for predicate in ("c >= 1", "true", "c = 2", "c > 1")}
    proved = {predicate: (answer.value, len(answer.rest)) for predicate, answer in counts.items()}
    assert proved == {"c >= 1": (2, 0), "true": (2, 0), "c = 2": (0, 1), "c > 1": (0, 1)}, (
        "nobody but a reader knows which rows are left"
    )
    others = (opened.plan("true").max("c"), opened.plan("true").count("c"), opened.plan("true").count_by("c"))
    assert [(answer.value, len(answer.rest)) for answer in others] == [(None, 1), (0, 1), ({}, 1)]
    for use in (
        lambda plan: list(plan.files),
        lambda plan: plan.scan_polars(),
        lambda plan: plan.scan_pyarrow(),
    ):
        with pytest.raises(pruner.TableError, match="deletion vectors"):
            use(opened.plan("c = 2"))
    assert opened.plan("c = 9").scan_polars().collect().height == 0


def test_d3_statistics_go_by_the_names_in_the_files(tmp_path: Path):
    struct = Column("s", "struct", "col-2", 2, (Column("x", "long", "col-3", 3),))
    table = DeltaLog(tmp_path / "t", (Column("a", "long", "col-1", 1), struct), mapping="name")
    table.append(pa.table({"a": [1, 2], "s": pa.array([{"x": 5}, {"x": 6}], struct.arrow().type)}))
    opened = pruner.open_table(str(table.root))
    assert kept(opened, "a = 2", "a = 3", "s.x = 6", "s.x = 7") == [1, 0, 1, 0]
    table.rename("a", "b")
    assert kept(opened, "b = 2", "b = 3") == [1, 0]
    table.drop("b")
    table.add_column("a", "long")
    assert kept(opened, "a = 1", "a = 3", "a IS NULL") == [1, 1, 1]


@pytest.mark.parametrize("kind", ["classic", "parts", "v2_json", "v2_parquet"])
def test_statistics_of_checkpoints(tmp_path: Path, kind: str):
    table = DeltaLog(tmp_path / "t", (Column("c", "long"),))
    for at in range(7):
        table.append(pa.table({"c": [at * 10, at * 10 + 5]}))
    write_checkpoint(table, kind)
    table.append(pa.table({"c": [70, 75]}))
    opened = pruner.open_table(str(table.root))
    assert [opened.plan(f"c = {at * 10 + 5}").kept for at in range(9)] == [1] * 8 + [0]
    assert opened.plan("c >= 30").kept == 5


def test_a_checkpoint_that_went_since_leaves_the_files_in(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", (Column("c", "long"),))
    table.append(pa.table({"c": [1]}))
    write_checkpoint(table)
    opened = pruner.open_table(str(table.root))
    assert opened.plan("true").kept == 1
    next(table.log.glob("*.checkpoint.parquet")).unlink()
    plan = opened.plan("c = 9")
    assert plan.kept == 1
    assert any("is missing" in each for each in plan.fallbacks)


def test_typed_statistics_of_a_checkpoint(tmp_path: Path):
    """With `delta.checkpoint.writeStatsAsStruct` alone a checkpoint has no JSON."""
    held: dict[str, tuple[str, pa.DataType, Any]] = {
        "n": ("long", pa.int64(), 5),
        "t": ("timestamp", pa.timestamp("us", "UTC"), moment("2024-01-01T00:00:00.123")),
        "x": ("double", pa.float64(), float("nan")),
        "d": ("decimal(9,2)", pa.decimal128(9, 2), Decimal("1.25")),
        "e": ("date", pa.date32(), date(2024, 1, 1)),
    }
    opened = in_columns_alone(tmp_path / "t", held)
    assert kept(opened, "n = 5", "n = 6", "d = 1.25", "d = 1.26", "e = DATE '2024-01-02'") == [1, 0, 1, 0, 0]
    inside, outside = (f"t = TIMESTAMPTZ '2024-01-01 00:00:00.{each}Z'" for each in ("123999", "124"))
    assert kept(opened, inside, outside, "x > 5", "x IS NULL") == [1, 0, 1, 0]


@pytest.mark.parametrize("old_timestamps", [False, True])
def test_days_and_moments_beyond_python_s_years_bound_nothing(tmp_path: Path, *, old_timestamps: bool):
    """A day of 9999 is common; INT96, Spark's way by default, holds more than nanoseconds since 1970 can say."""
    last, behind = 2_932_896, 2_932_897
    held: dict[str, tuple[str, pa.DataType, Any]] = {
        "last": ("date", pa.date32(), last),
        "behind": ("date", pa.date32(), behind),
        "before": ("date", pa.date32(), -800_000),
        "t": ("timestamp", pa.timestamp("us", "UTC"), last * 86_400_000_000),
        "n": ("timestamp_ntz", pa.timestamp("us"), behind * 86_400_000_000),
        "id": ("long", pa.int64(), 5),
    }
    opened = in_columns_alone(tmp_path / "t", held, use_deprecated_int96_timestamps=old_timestamps)
    assert kept(opened, "id = 5", "id = 6", "last = DATE '9999-12-31'", "last < DATE '9999-12-31'") == [
        1,
        0,
        1,
        0,
    ]
    assert kept(opened, "behind > DATE '9999-12-31'", "before < DATE '1582-01-01'", "behind IS NULL") == [
        1,
        1,
        0,
    ]
    assert kept(
        opened, "t = TIMESTAMPTZ '9999-12-31 00:00:00Z'", "t < TIMESTAMPTZ '2024-01-01 00:00:00Z'"
    ) == [1, 0]
    assert kept(opened, "n > TIMESTAMP '9999-12-31 00:00:00'", "n < TIMESTAMP '2024-01-01 00:00:00'") == [
        1,
        0,
    ]


def in_columns_alone(
    root: Path, held: dict[str, tuple[str, pa.DataType, Any]], **options: Any
) -> pruner.Table:
    """A table of one row, whose checkpoint has typed statistics alone: a Delta type, an Arrow type and a value each."""
    table = DeltaLog(root, tuple(Column(name, kind) for name, (kind, _, _) in held.items()))
    row: Any = pa.table({name: pa.array([value], type_) for name, (_, type_, value) in held.items()})
    table.append(row, stats=False)
    write_checkpoint(table)
    file = next(table.log.glob("*.checkpoint.parquet"))
    found: Any = pq.read_table(file)
    adds = found.column("add").combine_chunks()
    ends = pa.struct(row.schema)
    counts = pa.struct([(name, pa.int64()) for name in held])
    kind = pa.struct(
        [("numRecords", pa.int64()), ("minValues", ends), ("maxValues", ends), ("nullCount", counts)]
    )
    values = {name: value for name, (_, _, value) in held.items()}
    told = {"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(held, 0)}
    parsed = pa.array([told if there else None for there in adds.is_valid().to_pylist()], kind)
    fields = [*adds.type, pa.field("stats_parsed", kind)]
    children = [*(adds.field(each.name) for each in adds.type), parsed]
    both = pa.StructArray.from_arrays(children, fields=fields, mask=adds.is_null())
    pq.write_table(found.set_column(found.column_names.index("add"), "add", both), file, **options)
    return pruner.open_table(str(table.root))


def test_char_columns_prove_nothing(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", (Column("c", "string"),))
    edit_schema(table, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    table.append(pa.table({"c": ["ab"]}))
    assert kept(pruner.open_table(str(table.root)), "c = 'ab   '") == [1]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", ["", "classic", "parts", "v2_parquet"])
@pytest.mark.parametrize("few", [0, 2, 1024])
def test_statistics_are_parsed_once_and_follow_the_files(
    tmp_path: Path, kind: str, few: int, monkeypatch: pytest.MonkeyPatch
):
    """A table that stays open plans like one that is newly opened, and reads no part of the log again."""
    monkeypatch.setattr(evidence, "_FEW", few)
    random = Random(f"{kind} {few}")
    table = DeltaLog(
        tmp_path / "t", (Column("id", "long"), Column("s", "string")), features=("deletionVectors",)
    )

    def rows(first: int) -> pa.Table:
        return pa.table(
            {"id": range(first, first + 5), "s": [f"{at % 97:02d}" for at in range(first, first + 5)]}
        )

    table.append(*(rows(at) for at in range(0, 60, 5)))
    if kind:
        write_checkpoint(table, kind)
    opened = pruner.open_table(str(table.root))
    reads = 0
    read_once = CheckpointPart.statistics

    def counted(part: CheckpointPart) -> Iterator[pa.Table]:
        nonlocal reads
        reads += 1
        return read_once(part)

    for step in range(12):
        change = random.choice(("append", "remove", "delete"))
        if change == "append":
            table.append(*(rows(60 + 15 * step + 5 * at) for at in range(random.randrange(1, 4))))
        elif change == "remove":
            table.remove(*random.sample(list(table.files), 2))
        else:
            table.delete({random.choice(list(table.files)): [random.randrange(5)]})
        fresh = pruner.open_table(str(table.root))
        wanted = {
            predicate: fresh.plan(predicate).kept_mask.tolist()
            for predicate in (
                f"id = {random.randrange(240)}",
                f"s >= '{random.randrange(97):02d}'",
                "id < 30",
            )
        }
        if step:
            monkeypatch.setattr(CheckpointPart, "statistics", counted)
        for predicate, expected in wanted.items():
            assert opened.plan(predicate).kept_mask.tolist() == expected, (step, change, predicate)
        monkeypatch.setattr(CheckpointPart, "statistics", read_once)
    assert reads == 0


def generated(
    root: Path,
    expression: str,
    type_: str,
    values: list[str | None],
    source: str = "timestamp",
    **protocol: Any,
) -> DeltaLog:
    """A table without statistics, partitioned by a column generated from `at`: a file for each value."""
    table = DeltaLog(root, (Column("at", source), Column("p", type_)), ("p",), features=("timestampNtz",))
    told = {"minReaderVersion": 1, "minWriterVersion": 4, **protocol}
    metadata = table.metadata()
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][1]["metadata"]["delta.generationExpression"] = expression
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    table.commit({"protocol": told}, metadata)
    for value in values:
        table.append(
            pa.table({"at": pa.array([None], table.columns[0].arrow().type)}),
            stats=False,
            values={"p": value},
        )
    return table


DAYS: list[str | None] = ["2024-03-01", "2024-03-04", "2024-03-07", None, "1582-01-01"]


@pytest.mark.parametrize("expression", ["CAST(at AS DATE)", "cast( `at`  as date )"])
def test_a_day_of_a_partition_bounds_the_moments_that_it_is_made_of(tmp_path: Path, expression: str):
    """Whatever zone the day is in: from 24 hours before it begins to 24 hours after it ends, in UTC."""
    opened = pruner.open_table(generated(tmp_path / "t", expression, "date", DAYS).root)

    def kept(condition: str) -> list[bool]:
        return opened.plan(condition, dialect="duckdb").kept_mask.tolist()

    assert kept("at = TIMESTAMPTZ '2024-03-02 23:59:59Z'") == [True, False, False, True, True]
    assert kept("at = TIMESTAMPTZ '2024-03-03 00:00:01Z'") == [False, True, False, True, True]
    assert kept("at >= TIMESTAMPTZ '2024-03-06 00:00:01Z'") == [False, False, True, True, True]
    assert kept("at < TIMESTAMPTZ '2024-02-29 00:00:00Z'") == [False, False, False, True, True]
    assert kept("at < TIMESTAMPTZ '2024-02-29 00:00:01Z'") == [True, False, False, True, True]
    assert kept("at IS NULL") == kept("at IS NOT NULL") == [True] * 5
    assert kept("at IS NULL OR at > TIMESTAMPTZ '2030-01-01Z'") == [True] * 5


def test_a_year_of_a_partition_bounds_the_moments_that_it_is_made_of(tmp_path: Path):
    years: list[str | None] = ["2023", "2024", "1900", "9999", None]
    for number, source in enumerate(("timestamp", "timestamp_ntz")):
        opened = pruner.open_table(
            generated(tmp_path / str(number), "YEAR(at)", "integer", years, source).root
        )
        name = "TIMESTAMPTZ" if source == "timestamp" else "TIMESTAMP"
        for instant, expected in (
            ("2023-06-01", [True, False]),
            ("2024-01-01 12:00:00", [True, True]),
            ("2024-12-31", [False, True]),
            ("2026-01-01", [False, False]),
        ):
            plan = opened.plan(f"at = {name} '{instant}'", dialect="duckdb")
            assert plan.kept_mask.tolist() == [*expected, True, True, True], instant


@pytest.mark.parametrize(
    ("expression", "type_", "values", "protocol"),
    [
        ("CAST(at AS DATE)", "date", DAYS, {"minWriterVersion": 3}),
        ("CAST(at AS DATE)", "date", DAYS, {"minWriterVersion": 7, "writerFeatures": ["appendOnly"]}),
        ("CAST(other AS DATE)", "date", DAYS, {}),
        ("CAST(at AS DATE) + 30", "date", DAYS, {}),
        ("date_add(CAST(at AS DATE), 1)", "date", DAYS, {}),
        ("CAST(at AS DATE)", "string", DAYS, {}),
        ("YEAR(at)", "string", ["2024"] * 5, {}),
        ("MONTH(at)", "integer", ["3"] * 5, {}),
        ("YEAR(at)", "integer", ["02024"] * 5, {}),
    ],
)
def test_what_is_not_known_to_be_made_of_a_column_bounds_nothing(
    tmp_path: Path, expression: str, type_: str, values: list[str | None], protocol: dict[str, Any]
):
    opened = pruner.open_table(generated(tmp_path / "t", expression, type_, values, **protocol).root)
    assert opened.plan("at > TIMESTAMPTZ '2030-01-01Z'", dialect="duckdb").kept == 5


NUMBERS = (
    *("0", "-0.0", "5", "-7", "0.1", "1e-320", "1.7976931348623157e308", "1e400", "-1e400", "1E5", "5e-324"),
    *("9007199254740993", "18446744073709551616", "123456789012345678901234567890", "2.5000000000000000001"),
    *('"NaN"', '"Infinity"', '"-Infinity"', '"1.5"', '"x"', '""', "true", "null", "{}", "[1]", "1.", "+1"),
)


def test_texts_are_bounded_as_each_is_by_itself():
    """Texts are processed together, which is faster; beside a number, each is processed by itself."""
    beginnings = ("", "a", "ä" * 30, "a" * 31, "a" * 32, "\U0001f600" * 31, "a" * 40)
    texts = [f"{text}{end}" for text in beginnings for end in ("", "z", "?", "\x7f", "\ufffd", "?\U0010ffff")]
    values = [*texts, None]
    nothing: list[Any] = [None] * len(values)
    together = statistics.bounds_of(
        statistics.Found(nothing, nothing, values, values), pa.string(), was_float=False
    )
    found = statistics.Found([*nothing, None], [*nothing, None], [*values, 1], [*values, 1])
    apart = statistics.bounds_of(found, pa.string(), was_float=False)
    assert (together.low, together.high) == (apart.low[:-1], apart.high[:-1])
    assert together.low[:-1] == [text.encode() for text in texts]
    cut = [text for text in texts if len(text) >= 32 or text.endswith(("\x7f", "\ufffd", "\U0010ffff"))]
    bounds = dict(zip(texts, together.high, strict=False))
    assert all(bounds[text] != text.encode() for text in cut)
    assert all(bounds[text] == text.encode() for text in texts if text not in cut)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("was_float", [False, True])
def test_doubles_are_what_python_makes_of_their_texts(type_: pa.DataType, *, was_float: bool):
    """They are decoded as doubles, which is faster; what is not a number is read as in any other column."""
    texts = [
        f'{{"numRecords": 3, "minValues": {{"x": {low}}}, "maxValues": {{"x": {high}}}, "nullCount": {{"x": 1}}}}'
        for low in NUMBERS
        for high in NUMBERS
    ]
    table = pa.table({"stats": texts})
    about = Field(("x",), type_)
    found = statistics.found_of([table.slice(0, 100), table.slice(100)], about)
    generic = statistics.found_of(
        [table], Field(("x",), pa.string())
    )  # which leaves numbers as they are written
    assert (found.rows, found.nulls) == (generic.rows, generic.nulls)
    # Beside a text nothing is decoded as a double in advance.
    bounds = statistics.bounds_of(found, type_, was_float=was_float)
    wanted = statistics.bounds_of(generic, type_, was_float=was_float)
    assert list(map(repr, bounds.low)) == list(map(repr, wanted.low))
    assert list(map(repr, bounds.high)) == list(map(repr, wanted.high))


def test_nan_of_a_typed_column_bounds_nothing():
    found = statistics.Found([1] * 3, [0] * 3, [math.nan, 1.0, None], [2.0, math.nan, 3.0])
    assert statistics.bounds_of(found, pa.float64(), was_float=False) == ([None, 1.0, None], [2.0, None, 3.0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classic", "parts"])
def test_statistics_are_of_their_files_however_many_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """Checkpoints with texts, typed columns, both or neither, read three files at a time."""
    monkeypatch.setattr(checkpoint, "AT_ONCE", 3)
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("x", "double")))
    for at in range(20):
        rows = pa.table({"id": [at * 10, at * 10 + 9], "x": [at / 4, None if at % 3 else at / 2]})
        table.append(rows, stats=at % 5 != 4)
    write_checkpoint(table, kind)
    for version in range(table.version + 1):
        table.commit_file(version).unlink()
    for each in table.log.glob("*.checkpoint*.parquet"):
        _with_typed(each)
    unknown = {at for at in range(20) if at % 5 == 4}
    for at in range(20):
        opened = pruner.open_table(table.root)  # nothing is parsed in advance
        assert _numbers(opened, f"id = {at * 10 + 5}") == unknown | {at}
        wanted = {each for each in range(20) if each / 4 <= at / 4 <= (each / 4 if each % 3 else each / 2)}
        assert _numbers(opened, f"x = {at / 4}") == unknown | wanted


def _numbers(opened: pruner.Table, predicate: str) -> set[int]:
    names = [pq.read_table(uri).column("id")[0].as_py() // 10 for uri in opened.plan(predicate).files]
    return set(names)


def _with_typed(path: Path) -> None:
    """Give every second file of a checkpoint its statistics in columns instead of text."""
    held: Any = pq.read_table(path)
    adds: Any = held.column("add").combine_chunks()
    texts = adds.field("stats").to_pylist()
    of_both: Any = pa.struct([("id", pa.int64()), ("x", pa.float64())])
    counts: Any = pa.struct([("id", pa.int64()), ("x", pa.int64())])
    kind = pa.struct(
        [("numRecords", pa.int64()), ("minValues", of_both), ("maxValues", of_both), ("nullCount", counts)]
    )
    typed = [json.loads(text) if text and at % 2 else None for at, text in enumerate(texts)]
    rest = [None if at % 2 else text for at, text in enumerate(texts)]
    fields = [(each.name, each.type) for each in adds.type if each.name != "stats"]
    children = [adds.field(name) for name, _ in fields] + [pa.array(rest, pa.string()), pa.array(typed, kind)]
    made = pa.StructArray.from_arrays(
        children,
        fields=[pa.field(*each) for each in (*fields, ("stats", pa.string()), ("stats_parsed", kind))],
        mask=adds.is_null(),
    )
    at = held.schema.get_field_index("add")
    pq.write_table(held.set_column(at, "add", made), path, row_group_size=7)
