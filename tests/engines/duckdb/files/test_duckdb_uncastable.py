"""Columns with values that cannot be cast to the table's type: DuckDB casts while it reads, and so does pruner."""

from __future__ import annotations

import decimal
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from pruner_duckdb.read.scan import may_fail
from tests.engines.duckdb.duckdb_tables import BEFORE_2, indexed

UNCASTABLE: dict[str, tuple[Any, Any]] = {
    "BIGINT, DATE": (pa.array([5, None]), pa.array([1], pa.date32())),
    "BOOLEAN, TIMESTAMP": (pa.array([True, None]), pa.array([1], pa.timestamp("us"))),
    "VARCHAR, BIGINT[]": (pa.array(["abc", None]), pa.array([[1]])),
    "VARCHAR, BLOB": (pa.array(["ü", None]), pa.array([b"\xff"])),
    "BIGINT, DECIMAL(38,30)": (
        pa.array([2**62, None]),
        pa.array([decimal.Decimal("1.5")], pa.decimal128(38, 30)),
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kinds", UNCASTABLE)
def test_what_plain_duckdb_answers_of_a_column_that_cannot_be_cast(tmp_path: Path, kinds: str) -> None:
    """`union_by_name` casts while it reads: counts and IS NULL need no cast, and an error names the file."""
    for number, values in enumerate(UNCASTABLE[kinds]):
        ids = [10 * number + each for each in range(len(values))]
        pq.write_table(pa.table({"id": ids, "x": values}), tmp_path / f"{number}.parquet")
    pruned, plain = pruner_duckdb.connect({"t": indexed(tmp_path)}), duckdb.connect()
    files = f"read_parquet('{tmp_path}/*.parquet', union_by_name = true)"
    answered = 0
    for sql, kept in (
        ("SELECT count(*) FROM {}", 2),
        ("SELECT count(*) FROM {} WHERE x IS NULL", 2),
        ("SELECT id FROM {} WHERE x IS NULL", 2),
        ("SELECT id FROM {} WHERE x IS NOT NULL", 2),
        ("SELECT count(*) FROM {} WHERE x IS NULL AND id > 1", 1),
        ("SELECT x FROM {} WHERE id >= 10", 1),
        ("SELECT count(x) FROM {}", 2),
        ("SELECT * FROM {}", 2),
    ):
        try:
            expected = sorted(plain.execute(sql.format(files)).fetchall(), key=repr)
        except duckdb.ConversionException as error:
            with pytest.raises(duckdb.ConversionException, match=re.escape(str(error).splitlines()[0])):
                pruned.execute(sql.format("t")).fetchall()
            continue
        assert sorted(pruned.execute(sql.format("t")).fetchall(), key=repr) == expected, sql
        assert pruned.last_plans[-1].kept == kept, sql
        answered += 1
    # DuckDB 1.5 also casts for IS NULL; 2.0.1 reads bytes as text, whatever they are.
    reads_bytes = kinds == "VARCHAR, BLOB" and duckdb.__version__ not in ("1.5.6", "2.0.0")
    assert answered == (8 if reads_bytes else 3 if BEFORE_2 else 6)


@pytest.mark.parametrize(
    ("held", "wanted", "fails"),
    [
        ("INTEGER", "BIGINT", False),
        ("BIGINT", "INTEGER", True),
        ("UBIGINT", "BIGINT", True),
        ("BIGINT", "DOUBLE", False),
        ("BIGINT", "DECIMAL(21,2)", False),
        ("BIGINT", "DECIMAL(20,2)", True),
        ("DECIMAL(9,2)", "DECIMAL(12,2)", False),
        ("DECIMAL(9,2)", "DECIMAL(9,4)", True),
        ("DATE", "TIMESTAMP WITH TIME ZONE", False),
        ("TIME", "DATE", True),
        ("STRUCT(a INTEGER)", "STRUCT(a INTEGER, b INTEGER)", False),
        ("INTEGER[]", "BIGINT[]", False),
        ("INTEGER", "INTEGER[]", True),
        ("UUID", "VARCHAR", False),
        ("VARCHAR", "UUID", True),
    ],
)
def test_casts_that_may_fail(held: str, wanted: str, fails: bool) -> None:
    assert may_fail(held, wanted) is fails
