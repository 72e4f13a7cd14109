"""Rows that plans have lost to indexes over expressions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from pruner.errors import IndexDefinitionError
from tests.support.duckdb.plain import judge
from tests.support.losses import kept, matching, write_files


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "predicate",
    [
        "a * 0.1 = 0.3",
        "a * 0.1 IN (0.6, 0.7)",
        "a * 0.1 + 0.1 = 0.7",
        "a * 0.1::FLOAT >= 0.7",
        "(a + 1) * 0.1::FLOAT = 0.7",
    ],
)
def test_found_integers_times_a_decimal_constant(tmp_path: Path, predicate: str) -> None:
    """`0.1` was taken for a double also beside an integer, where engines compute in decimals, or in 32-bit floats.

    3 * 0.1 is 0.3 exactly there, and 0.30000000000000004 was recorded.
    """
    folder = write_files(tmp_path / "t", *(pa.table({"a": pa.array([n], pa.int32())}) for n in range(8)))
    table = pruner.open_table(str(folder))
    for refused in ("a * 0.1", "a * 0.1::FLOAT", "(a + 1) * 0.1::FLOAT"):
        with pytest.raises(IndexDefinitionError, match="a decimal constant or a float of 32 bits"):
            table.create_index("refused", on=refused)
    # These are doubles, and serve no other expressions.
    table.create_index("tenth", on="a * 1e-1")
    table.create_index("more", on="a * 1e-1 + 1e-1")
    assert matching(folder, predicate), "a row is at stake"
    assert matching(folder, predicate) <= kept(folder, predicate)
    assert kept(folder, "a * 1e-1 = 5e-1") == matching(folder, "a * 1e-1 = 5e-1") == {"5.parquet"}


def test_found_a_decimal_constant_beside_doubles_still_prunes(tmp_path: Path) -> None:
    """There every engine takes the constant for a double, as intended."""
    folder = write_files(tmp_path / "t", *(pa.table({"x": [float(n)]}) for n in range(8)))
    pruner.open_table(str(folder)).create_index("tenth", on="x * 0.1")
    predicate = "x * 0.1 > 0.55"
    assert kept(folder, predicate) == matching(folder, predicate) == {"6.parquet", "7.parquet"}


def test_found_a_part_of_a_split_text_or_empty(tmp_path: Path) -> None:
    """`coalesce(string_split(s, ',')[2], '')` was taken for `split_part(s, ',', 2)`, which is NULL where `s` is NULL.

    Plans of DuckDB's statements dropped the file with the NULL.
    """
    texts = ([None, "a,b"], ["c,d"], ["e,"])
    folder = write_files(tmp_path / "t", *(pa.table({"s": pa.array(each, pa.string())}) for each in texts))
    table = pruner.open_table(str(folder))
    table.create_index("part", on="split_part(s, ',', 2)", using="bitmap")
    with pruner_duckdb.connect({"t": table}) as connection:
        for part in (
            "coalesce(string_split(s, ',')[2], '')",
            "CASE WHEN 1 = 1 THEN split_part(s, ',', 2) END",
        ):
            query = f"SELECT * FROM {{}} WHERE {part} = '' ORDER BY ALL"
            expected = judge().execute(query.format(f"'{folder}/*.parquet'")).fetchall()
            assert connection.execute(query.format("t")).fetchall() == expected, part
        assert connection.execute("SELECT s FROM t WHERE split_part(s, ',', 2) = ''").fetchall() == [("e,",)]
        assert connection.last_plans[-1].kept == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("index", "predicate", "row"),
    [
        # Spark binds `&` before `^` before `|`.
        ("(n | 4) & 1", "n | 4 & 1 = 6", 6),
        ("(n ^ 4) & 1", "n ^ 4 & 1 = 6", 6),
        ("(n | 4) ^ 4", "n | 4 ^ 4 = 6", 6),
        ("(n | 2) & 1 & 5", "n | 2 & 1 & 5 = 7", 7),
    ],
)
def test_found_signs_that_spark_binds_otherwise(tmp_path: Path, index: str, predicate: str, row: int) -> None:
    """The parser binds them from left to right, so text for Spark found indexes over something else."""
    folder = write_files(tmp_path / "t", *(pa.table({"n": [n]}) for n in range(10)))
    table = pruner.open_table(str(folder))
    table.create_index("other", on=index, dialect="spark")
    semantics = pruner.Semantics(engine="spark")
    files = {Path(file).name for file in table.plan(predicate, dialect="spark", semantics=semantics).files}
    assert f"{row}.parquet" in files
    expression, _, value = predicate.partition(" = ")
    with pytest.raises(IndexDefinitionError):
        table.create_index("none", on=expression, dialect="spark")
    meant = table.plan(f"{index} = {value}", dialect="spark", semantics=semantics)
    assert meant.kept == 0


def test_found_seconds_of_instants(tmp_path: Path) -> None:
    """DuckDB's `epoch` of an instant is not always the double of the wall clock in UTC, which was recorded.

    For 1501 microseconds they are 0.0015010000000000002 and 0.001501. A quarter of all moments differ.
    """
    moments = [1501 + number * 1_000_000 for number in range(4)]
    columns = [
        {"i": pa.array([each], pa.timestamp("us", "UTC")), "ts": pa.array([each], pa.timestamp("us"))}
        for each in moments
    ]
    folder = write_files(tmp_path / "t", *map(pa.table, columns))
    table = pruner.open_table(str(folder))
    for refused in ("epoch(i)", "epoch(timezone('UTC', i))", "epoch(i::TIMESTAMP)"):
        with pytest.raises(IndexDefinitionError, match="the function epoch"):
            table.create_index("instants", on=refused)
    table.create_index("clocks", on="epoch(ts)")
    predicate = "epoch(i) = 0.0015010000000000002::DOUBLE"
    assert matching(folder, predicate) == {"0.parquet"} <= kept(folder, predicate)
    predicate = "epoch(ts) = 1.001501::DOUBLE"
    assert matching(folder, predicate) == kept(folder, predicate) == {"1.parquet"}


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        ("coalesce(extra, -1)", "coalesce(extra, -1) = -1"),
        ("coalesce(text, 'none')", "coalesce(text, 'none') = 'none'"),
        (
            "CASE WHEN extra IS NULL THEN 'x' ELSE 'y' END",
            "CASE WHEN extra IS NULL THEN 'x' ELSE 'y' END = 'x'",
        ),
        ("CASE WHEN extra > 0 THEN 'x' ELSE 'y' END", "CASE WHEN extra > 0 THEN 'x' ELSE 'y' END = 'y'"),
        ("extra + 1", "extra + 1 = 8"),
        ("nullif(extra, 0)", "nullif(extra, 0) = 7"),
    ],
)
@pytest.mark.parametrize("using", ["column_stats", "bitmap", "bloom_filter"])
@pytest.mark.parametrize("native", ["off", "auto"])
def test_found_a_file_without_the_columns_of_an_expression(
    tmp_path: Path, expression: str, predicate: str, using: str, native: str
) -> None:
    """Its values were taken for NULL, whatever the expression makes of NULL, and the file was dropped."""
    folder = write_files(
        tmp_path / "t",
        pa.table({"id": [0], "extra": pa.array([5], pa.int32()), "text": ["a"]}),
        pa.table({"id": [1], "extra": pa.array([7], pa.int32()), "text": ["b"]}),
        pa.table({"id": [2]}),
        pa.table({"id": [3], "extra": pa.array([9], pa.int32()), "text": ["c"]}),
    )
    table = pruner.open_table(str(folder))
    table.create_index("over", on=expression, using=using, dialect="duckdb")
    scan = f"read_parquet('{folder}/*.parquet', union_by_name = true)"
    expected = judge().execute(f"SELECT id FROM {scan} WHERE {predicate} ORDER BY id").fetchall()
    assert expected, "a row is at stake"
    con = pruner_duckdb.connect({"t": table}, native=native)
    assert con.execute(f"SELECT id FROM t WHERE {predicate} ORDER BY id").fetchall() == expected
    plan = table.plan(predicate, dialect="duckdb")
    # The file without the columns stays: its values are unknown. Where NULL yields NULL, it is dropped.
    assert plan.kept == 1
