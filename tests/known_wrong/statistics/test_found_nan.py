"""Files with NaN that statistics do not count: a plan of one file gives the answer of DuckDB over all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

NAN = float("nan")
FALSE_OF_NAN = ("x = 0", "x < 10", "x <= 0", "x IN (0, 1)", "x BETWEEN -1 AND 1")
"""With several files DuckDB loses rows with NaN for other conditions, also through pruner."""

CONDITIONS = (*FALSE_OF_NAN, "x <> 0", "x > 3", "NOT (x < 10)")


def _write(root: Path, type_: pa.DataType, *, evolved: bool) -> None:
    """Arrow leaves NaN out of the bounds: those of the first file are 0 and 0."""
    root.mkdir()
    columns: list[dict[str, Any]] = [
        {"id": [1, 40], "x": pa.array([NAN, 0.0], type_)},
        {"id": [20, 60], "x": pa.array([0.5, 5.0], type_)},
        {"id": [33, 80], "x": pa.array([1.0, 7.0], type_)},
    ]
    if evolved:
        columns[1]["more"] = ["a", "b"]
    for number, each in enumerate(columns):
        pq.write_table(pa.table(each), root / f"{number}.parquet")


@pytest.mark.rewriting
@pytest.mark.sampled(6)
@pytest.mark.parametrize("evolved", [False, True])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("using", ["record_index", "bloom_filter"])
def test_conditions_on_the_rows_of_one_file(
    tmp_path: Path, using: str, type_: pa.DataType, *, evolved: bool
) -> None:
    root = tmp_path / "t"
    _write(root, type_, evolved=evolved)
    options = {"fpp": "0.00001"} if using == "bloom_filter" else {}
    pruner.open_table(root).create_index("ids", on="id", using=using, options=options)
    source = f"read_parquet('{root}/*.parquet', union_by_name = true)"
    with pruner_duckdb.connect({"t": root}) as con, plain_duckdb.judge() as judge:
        for condition in CONDITIONS:
            asked = f"SELECT id, x FROM {{}} WHERE id IN (1, 40) AND ({condition}) ORDER BY id"
            found = con.execute(asked.format("t")).fetchall()
            assert con.last_plans[-1].kept == 1
            assert repr(found) == repr(judge.execute(asked.format(source)).fetchall()), condition


@pytest.mark.sampled(4)
@pytest.mark.parametrize("condition", FALSE_OF_NAN)
def test_two_files_of_three_that_differ(tmp_path: Path, condition: str) -> None:
    """By `union_by_name` DuckDB knows the bounds of all files that it reads."""
    root = tmp_path / "t"
    _write(root, pa.float64(), evolved=True)
    pruner.open_table(root).create_index("ids", on="id", using="record_index")
    asked = f"SELECT id, x FROM {{}} WHERE id IN (1, 20, 40) AND ({condition}) ORDER BY id"
    with pruner_duckdb.connect({"t": root}) as con, plain_duckdb.judge() as judge:
        found = con.execute(asked.format("t")).fetchall()
        assert con.last_plans[-1].kept == 2
        source = f"read_parquet('{root}/*.parquet', union_by_name = true)"
        assert repr(found) == repr(judge.execute(asked.format(source)).fetchall())


def test_one_file_of_a_float_column_by_its_own_index(tmp_path: Path) -> None:
    root = tmp_path / "t"
    _write(root, pa.float64(), evolved=False)
    pruner.open_table(root).create_index("values", on="x")
    with pruner_duckdb.connect({"t": root}) as con:
        assert con.execute("SELECT id FROM t WHERE x < 0.25").fetchall() == [(40,)]
        assert con.last_plans[-1].kept == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["bitmap", "bloom_filter"])
def test_found_the_greatest_number_of_one_file(tmp_path: Path, using: str) -> None:
    """DuckDB answers `max(x)` of one file with NaN from its statistic, once it must account for NaN."""
    root = tmp_path / "t"
    _write(root, pa.float64(), evolved=False)
    pruner.open_table(root).create_index("ids", on="id", using=using)
    with pruner_duckdb.connect({"t": root}) as con:
        found = con.execute("SELECT max(x), min(x), count(x) FROM t WHERE id IN (33, 80)").fetchall()
        assert found == [(7.0, 1.0, 2)]
        assert con.last_plans[-1].kept == 1
