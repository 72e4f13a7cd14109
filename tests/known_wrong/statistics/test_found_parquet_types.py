"""Files whose Parquet type the engine reads as another type than Arrow does (rule R11, traps S20 to S24).

DuckDB over a table made of all files (`CREATE TABLE … AS`, so that DuckDB itself prunes nothing) is the oracle.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner.expr.types import Unit
from tests.support.duckdb import plain as plain_duckdb
from tests.support.losses import kept_by
from tests.support.parquet.types import (
    contradicting,
    converted,
    converted_only,
    decimals,
    int96,
    logical,
    logical_only,
    plain,
)

NEW_YORK = "America/New_York"


def matching(folder: Path, predicate: str, zone: str = "UTC") -> set[str]:
    """Names of the files with a row for which the predicate is true, by DuckDB over a copy of their rows."""
    with plain_duckdb.judge(zone) as connection:
        connection.execute(
            "CREATE TEMP TABLE copied AS SELECT * FROM read_parquet($files, filename = true, union_by_name = true)",
            {"files": sorted(map(str, folder.glob("*.parquet")))},
        )
        rows = connection.execute(f"SELECT DISTINCT filename FROM copied WHERE {predicate}").fetchall()
    return {Path(row[0]).name for row in rows}


def kept(folder: Path, predicate: str, using: str = "column_stats", zone: str = "UTC") -> set[str]:
    """Names of the files that a plan over one index keeps, by DuckDB's rules."""
    table = pruner.open_table(str(folder))
    if not table.indexes():
        table.create_index("i", on="x", using=using)
    plan = table.plan(predicate, semantics=pruner.Semantics(engine="duckdb", zone=zone))
    return {Path(file).name for file in plan.files}


def counted(folder: Path, predicate: str, zone: str = "UTC", most_files: int | None = None) -> int:
    """Rows that a statement through the adapter finds; it may read at most `most_files` files."""
    with pruner_duckdb.connect({"t": str(folder)}) as con:
        con.execute(f"SET TimeZone = '{zone}'")
        ((rows,),) = con.sql(f"SELECT count(*) FROM t WHERE {predicate}").fetchall()
        assert most_files is None or con.last_plans[0].kept <= most_files
    return rows


def days(unit: Unit, *dates: str) -> pa.Array:
    """Instants at midnight in UTC."""
    moments = [datetime.datetime.fromisoformat(date) for date in dates]
    return pa.array(moments, pa.timestamp(unit)).cast(pa.timestamp(unit, "UTC"))


@pytest.mark.sampled(4)
@pytest.mark.rewriting
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_s20_a_converted_type_alone_is_a_wall_clock_in_duckdb(tmp_path: Path, using: str, unit: Unit) -> None:
    """parquet-mr before 1.11, Hive and Impala write no logical type; Arrow says UTC, DuckDB reads TIMESTAMP."""
    for day in ("2024-01-02", "2024-01-03", "2024-06-01"):
        converted_only(tmp_path / f"{day}.parquet", days(unit, day))
    for predicate in ("x = '2024-01-02'", "x < '2024-01-02 04:00:00'"):
        assert matching(tmp_path, predicate, NEW_YORK) == {"2024-01-02.parquet"}
        assert kept(tmp_path, predicate, using, NEW_YORK) == {"2024-01-02.parquet"}
        assert counted(tmp_path, predicate, NEW_YORK, most_files=1) == 1


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_s20_spark_and_trino_read_an_instant_and_prune_as_before(tmp_path: Path, using: str) -> None:
    for day in ("2024-01-02", "2024-01-03", "2024-06-01"):
        converted_only(tmp_path / f"{day}.parquet", days("us", day))
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x", using=using)
    rules = pruner.Semantics(engine="spark", zone=NEW_YORK)
    assert len(table.plan("x = TIMESTAMP '2024-01-01 19:00:00'", semantics=rules).files) == 1
    assert len(table.plan("x = TIMESTAMP '2024-01-02 00:00:00'", semantics=rules).files) == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_s20_instants_and_wall_clocks_in_one_column_are_unknown(
    tmp_path: Path, using: str, first: str
) -> None:
    """DuckDB turns the wall clocks into instants by the session's zone; Arrow sees one type."""
    converted_only(tmp_path / f"{first}.parquet", days("us", "2024-01-02"))
    plain(tmp_path / "a2.parquet", days("us", "2024-01-05"))
    predicate = "x = '2024-01-02'"
    assert matching(tmp_path, predicate, NEW_YORK) == {f"{first}.parquet"}
    assert f"{first}.parquet" in kept(tmp_path, predicate, using, NEW_YORK)
    assert counted(tmp_path, predicate, NEW_YORK) == 1
    plan = pruner.open_table(str(tmp_path)).plan(predicate, dialect="duckdb")
    assert any("TIMESTAMP_MICROS" in reason for reason in plan.fallbacks)
    spark = pruner.open_table(str(tmp_path)).plan("x > TIMESTAMP '2024-01-04'", dialect="spark")
    assert [Path(file).name for file in spark.files] == ["a2.parquet"]


NANOSECOND = datetime.datetime(2024, 1, 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("nested", [False, True], ids=["column", "field"])
@pytest.mark.parametrize("old_first", [False, True])
def test_s21_int96_beside_nanoseconds(tmp_path: Path, nested: bool, old_first: bool) -> None:
    """DuckDB types the column by INT96, as TIMESTAMP, and rounds the nanoseconds of the other file."""
    ends = pa.array([1_704_067_205_000_000_001], pa.timestamp("ns"))
    starts = pa.array([1_704_067_100_000_000_000], pa.timestamp("ns"))
    if nested:
        ends, starts = (pa.StructArray.from_arrays([each], ["y"]) for each in (ends, starts))
    int96(tmp_path / ("a.parquet" if old_first else "c.parquet"), starts)
    plain(tmp_path / "b.parquet", ends)
    name = "x.y" if nested else "x"
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on=name)
    for text in ("2024-01-01 00:00:05", "2024-01-01 00:00:05.000000001"):
        predicate = f"{name} = '{text}'"
        plan = table.plan(predicate, dialect="duckdb")
        assert matching(tmp_path, predicate) <= {Path(file).name for file in plan.files}
    assert counted(tmp_path, f"{name} >= '2024-01-01 00:00:05'") == 1


def test_s22_int96_beyond_nanoseconds_in_lists(tmp_path: Path) -> None:
    """All values of the list lie outside the range of nanoseconds: the points were dropped, and the file with them."""
    for year in (1500, 2024, 9999):
        values = pa.array([datetime.datetime(year, 12, 31)], pa.timestamp("us"))
        int96(tmp_path / f"{year}.parquet", values)
    far = "x IN (TIMESTAMP '9999-12-31', TIMESTAMP '9999-01-01')"
    either = "x = TIMESTAMP '9999-12-31' OR x = TIMESTAMP '1500-12-31'"
    near = "x IN (TIMESTAMP '2024-12-31', TIMESTAMP '2024-01-01')"
    for predicate, files in ((far, {"9999"}), (either, {"1500", "9999"}), (near, {"2024"})):
        names = {f"{name}.parquet" for name in files}
        assert matching(tmp_path, predicate) == names
        assert kept(tmp_path, predicate) == names
        assert counted(tmp_path, predicate) == len(names)
    assert kept(tmp_path, "x NOT IN (TIMESTAMP '9999-12-31', TIMESTAMP '9999-01-01')") == {
        "1500.parquet",
        "2024.parquet",
    }


def test_s23_enum_is_text(tmp_path: Path) -> None:
    """Arrow reads ENUM as bytes; all three engines read text, so the column is text and prunes."""
    converted(tmp_path / "a.parquet", pa.array([b"apple"]), "ENUM")
    converted(tmp_path / "b.parquet", pa.array([b"pear"]), "ENUM")
    plain(tmp_path / "c.parquet", pa.array(["plum"]))
    table = pruner.open_table(str(tmp_path))
    table.create_index("s", on="x")
    table.create_index("b", on="x", using="bitmap")
    for predicate in ("x = 'pear'", "x LIKE 'pe%'", "x > 'b' AND x < 'pf'"):
        assert matching(tmp_path, predicate) == {"b.parquet"}
        for dialect in ("duckdb", "spark", "trino"):
            names = [Path(file).name for file in table.plan(predicate, dialect=dialect).files]
            assert names == ["b.parquet"]


@pytest.mark.parametrize("old_first", [False, True])
def test_s23_enum_beside_bytes(tmp_path: Path, old_first: bool) -> None:
    """Text beside bytes in DuckDB: `x = '\\x41'` is one byte or four letters, depending on which file comes first."""
    converted(tmp_path / ("a.parquet" if old_first else "z.parquet"), pa.array([b"\\x41"]), "ENUM")
    plain(tmp_path / "m.parquet", pa.array([b"A"]))
    table = pruner.open_table(str(tmp_path))
    with pytest.raises(pruner.PrunerError, match="files hold both"):
        table.create_index("i", on="x")
    assert len(table.plan("x = 'A'", dialect="duckdb").files) == 2


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_s23_text_by_its_logical_type_alone_is_bytes_in_duckdb(tmp_path: Path, using: str) -> None:
    """DuckDB follows the converted type; without it text is BLOB, `'\\x41'` one byte, and `LIKE` an error."""
    logical_only(tmp_path / "a.parquet", pa.array(["A"]))
    logical_only(tmp_path / "b.parquet", pa.array(["\\x41"]))
    predicate = r"x = '\x41'::BLOB"
    assert matching(tmp_path, predicate) == {"a.parquet"}
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x", using=using)
    assert "a.parquet" in {Path(f).name for f in table.plan(r"x = '\x41'", dialect="duckdb").files}
    assert [Path(f).name for f in table.plan("x = 'A'", dialect="spark").files] == ["a.parquet"]


def test_s23_dates_by_their_logical_type_alone_are_numbers_in_duckdb(tmp_path: Path) -> None:
    for day in (1, 2):
        logical_only(tmp_path / f"{day}.parquet", pa.array([day], pa.date32()))
    assert matching(tmp_path, "x = 2") == {"2.parquet"}
    assert "2.parquet" in kept(tmp_path, "x = 2")
    assert kept_by(tmp_path, "x = DATE '1970-01-02'", "spark") == {"1.parquet"}


@pytest.mark.parametrize("old_first", [False, True])
def test_s23_uuid_beside_fixed_size_bytes(tmp_path: Path, old_first: bool) -> None:
    """Both are 16 bytes in Arrow; DuckDB reads one as UUID, whose texts are other bytes."""
    letters = b"ABCDEFGHIJKLMNOP"
    logical(
        tmp_path / ("a.parquet" if old_first else "z.parquet"), pa.array([letters], pa.binary(16)), "UUID"
    )
    plain(tmp_path / "m.parquet", pa.array([b"QRSTUVWXYZABCDEF"], pa.binary(16)))
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x")
    assert len(table.plan("x = '41424344-4546-4748-494a-4b4c4d4e4f50'", dialect="duckdb").files) == 2


def test_s23_a_variant_is_no_struct(tmp_path: Path) -> None:
    """Its parts are not fields that an engine exposes: DuckDB takes `x.typed_value` for a key of the value."""
    for number in (5, 7):
        parts = [pa.array([b"\x01\x00\x00"]), pa.array([None], pa.binary()), pa.array([number], pa.int32())]
        group = pa.StructArray.from_arrays(parts, ["metadata", "value", "typed_value"])
        logical(tmp_path / f"{number}.parquet", group, "Variant")
    table = pruner.open_table(str(tmp_path))
    with pytest.raises(pruner.PrunerError, match="VARIANT"):
        table.create_index("i", on="x.typed_value")
    assert len(table.plan("x.typed_value = 5", dialect="duckdb").files) == 2


UNFIT = [
    ("UINT_8", 300),
    ("UINT_8", -1),
    ("UINT_16", 70_000),
    ("UINT_16", -1),
    ("INT_8", 379),
    ("INT_16", 70_000),
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize(("annotation", "value"), UNFIT)
@pytest.mark.parametrize("dialect", ["spark", "trino"])
def test_s24_values_that_do_not_fit_their_annotation(
    tmp_path: Path, using: str, annotation: str, value: int, dialect: str
) -> None:
    """Spark and Trino read the number as stored, Arrow and DuckDB wrap it to what fits."""
    converted(tmp_path / "unfit.parquet", pa.array([value], pa.int32()), annotation)
    converted(tmp_path / "five.parquet", pa.array([5], pa.int32()), annotation)
    converted(tmp_path / "six.parquet", pa.array([6], pa.int32()), annotation)
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x", using=using)
    names = {Path(file).name for file in table.plan(f"x = {value}", dialect=dialect).files}
    # Spark wraps signed numbers as Arrow does.
    assert "unfit.parquet" in names or (dialect, annotation[0]) == ("spark", "I")
    if dialect == "spark" or annotation[0] == "I":
        assert names <= {"unfit.parquet"}
    for predicate in (f"x = {value}", "x > 100", "x = 5", "x < 0"):
        if annotation.startswith("U") and "<" in predicate:
            continue
        assert matching(tmp_path, predicate) <= kept(tmp_path, predicate)
    assert kept(tmp_path, "x = 5") == {"five.parquet"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize(("annotation", "value"), [("INT_8", 379), ("INT_16", 70_000)])
def test_s24_beside_wider_integers_spark_reads_the_number_as_it_is_stored(
    tmp_path: Path, using: str, annotation: str, value: int
) -> None:
    """Spark wraps to the type of the column: beside a plain INT32 in another file, nothing is wrapped."""
    converted(tmp_path / "unfit.parquet", pa.array([value], pa.int32()), annotation)
    converted(tmp_path / "fitting.parquet", pa.array([7], pa.int32()), annotation)
    plain(tmp_path / "wide.parquet", pa.array([1000], pa.int32()))
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x", using=using)

    def kept(predicate: str) -> set[str]:
        return {Path(file).name for file in table.plan(predicate, dialect="spark").files}

    assert kept(f"x = {value}") == {"unfit.parquet"}
    assert kept("x = 7") == {"fitting.parquet", "unfit.parquet"}
    assert kept("x = 1000") == {"wide.parquet", "unfit.parquet"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [pa.uint8(), pa.int8()])
def test_s24_the_annotation_alone_is_no_doubt(tmp_path: Path, type_: pa.DataType) -> None:
    """Numbers that a trusted footer shows to fit prune for every engine that has such a type."""
    for value in (5, 6, 100):
        plain(tmp_path / f"{value}.parquet", pa.array([value], type_))
    table = pruner.open_table(str(tmp_path))
    table.create_index("s", on="x")
    table.create_index("b", on="x", using="bitmap")
    for dialect in ("duckdb", "spark", "trino") if type_ == pa.int8() else ("duckdb", "spark"):
        assert [Path(f).name for f in table.plan("x = 6", dialect=dialect).files] == ["6.parquet"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("annotation", "value"), [*UNFIT[:4], ("UINT_32", -1)])
@pytest.mark.parametrize("compared", ["= {}", "IN ({}, 5)", "BETWEEN {} AND {}"])
@pytest.mark.parametrize("type_", ["bigint", "double", "decimal(20, 0)"])
def test_s24_a_cast_is_not_decided_by_the_range_of_the_annotation(
    tmp_path: Path, annotation: str, value: int, compared: str, type_: str
) -> None:
    """Trino reads unsigned annotations as the type that the table declares, which is unknown here."""
    converted(tmp_path / "unfit.parquet", pa.array([value], pa.int32()), annotation)
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x")
    predicate = f"CAST(x AS {type_}) {compared.format(value, value)}"
    assert table.plan(predicate, dialect="trino").kept == 1


@pytest.mark.parametrize("annotation", ["UINT_32", "INT_32"])
def test_s24_types_that_contradict_each_other_decide_nothing(tmp_path: Path, annotation: str) -> None:
    """By the logical type no number is 200; DuckDB follows the converted one."""
    contradicting(tmp_path / "a.parquet", pa.array([200, 201], pa.int32()), annotation, 8)
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x")
    assert matching(tmp_path, "x = 200") == {"a.parquet"}
    plan = table.plan("x = 200", dialect="duckdb")
    assert plan.kept == 1
    assert any("is not known" in reason for reason in plan.fallbacks)


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_a_decimal_beyond_its_precision_fails_its_own_slice_alone(tmp_path: Path, using: str) -> None:
    """Arrow cannot hold 39 digits: the build of the whole table failed with its error."""
    numbers = pa.array([(1).to_bytes(16, "big"), (2**127 - 1).to_bytes(16, "big")], pa.binary(16))
    decimals(tmp_path / "wide.parquet", numbers, 36)
    pq.write_table(pa.table({"x": pa.array([1, 2]).cast(pa.decimal128(36, 0))}), tmp_path / "good.parquet")
    table = pruner.open_table(str(tmp_path))
    result = table.create_index("i", on="x", using=using)
    assert result is not None
    assert [Path(failure.slice).name for failure in result.failures] == ["wide.parquet"]
    assert {Path(file).name for file in table.plan("x = 3", dialect="duckdb").files} == {"wide.parquet"}
