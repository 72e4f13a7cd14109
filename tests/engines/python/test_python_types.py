"""Types for Python engines: the result has the table's types, or the plan names the offending column before reading."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import SchemaError
from tests.support.duckdb import plain as plain_duckdb

CLOCK = datetime(2024, 3, 31, 1, 30, 0, 1)
BERLIN = pa.timestamp("us", "Europe/Berlin")
CATEGORY = pa.dictionary(pa.int32(), pa.string())
AS_WRITTEN = {
    "a zone": pa.array([CLOCK, None], BERLIN),
    "an offset": pa.array([CLOCK, None], pa.timestamp("ms", "+02:00")),
    "a zone in a struct": pa.array([{"at": CLOCK}, None], pa.struct([("at", BERLIN)])),
    "zones in a list": pa.array([[CLOCK], None], pa.list_(BERLIN)),
    "a dictionary": pa.array(["a", None]).dictionary_encode(),
    "a dictionary in a struct": pa.array([{"x": "a"}, None], pa.struct([("x", CATEGORY)])),
    "a duration": pa.array([5, None], pa.duration("us")),
    "an array": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "milliseconds of a day": pa.array([date(2024, 3, 31), None], pa.date64()),
}
"""Types that only the Arrow schema of a footer has: SQL engines, and tables here, follow the Parquet schema."""
REFUSED_BY_POLARS = {
    "a duration": "column 'x'.*Int64.*Duration",
    "an array": "column 'x'.*List.*Array",
    "milliseconds of a day": "column 'x'.*Date.*Datetime",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", AS_WRITTEN)
def test_types_of_the_table_come_out_or_are_refused_before_reading(tmp_path: Path, kind: str) -> None:
    pq.write_table(pa.table({"x": AS_WRITTEN[kind], "id": [1, 2]}), tmp_path / "a.parquet")
    plan = pruner.open_table(str(tmp_path)).plan("id > 0")
    (type_,) = (field.type for field in plan.schema.columns if field.name == "x")
    by_parquet = (
        plain_duckdb.session().execute(f"SELECT x FROM '{tmp_path}/a.parquet' WHERE id = 1").fetchone()
    )
    assert by_parquet is not None
    for rows in (plan.scan_pyarrow().to_table(), plan.scan_datafusion().to_arrow_table()):
        column: Any = rows.column("x")
        assert column.type == type_
        assert column.is_valid().to_pylist() == [True, False]
    if kind in REFUSED_BY_POLARS:
        with pytest.raises(SchemaError, match=REFUSED_BY_POLARS[kind]):
            plan.scan_polars()
        assert plan.scan_polars(["id"]).collect()["id"].to_list() == [1, 2]
        return
    frame = plan.scan_polars().collect()
    expected = pl.from_arrow(plan.scan_pyarrow().to_table())
    assert isinstance(expected, pl.DataFrame)
    assert frame.schema == expected.schema
    assert frame.equals(expected)


def test_int96_and_decimals_that_polars_does_not_hold_are_refused(tmp_path: Path) -> None:
    """Polars reads INT96 as microseconds, the table has nanoseconds: values beyond their range would overflow."""
    moments = pa.table({"x": pa.array([CLOCK], pa.timestamp("us"))})
    wide = pa.table({"x": pa.array([Decimal("1.50")], pa.decimal256(50, 2))})
    for rows, why in ((moments, "Datetime"), (wide, "decimal256")):
        pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
        with pytest.raises(SchemaError, match=rf"column 'x' cannot be read.*{why}"):
            pruner.open_table(str(tmp_path)).plan("true").scan_polars()


def test_integers_of_128_bits_are_refused_in_one_sentence(tmp_path: Path) -> None:
    pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}).write_parquet(tmp_path / "a.parquet")
    plan = pruner.open_table(str(tmp_path)).plan("true")
    with pytest.raises(SchemaError, match="column 'x' cannot be read.*Int128"):
        plan.scan_polars()
    for scan in (plan.scan_pyarrow, plan.scan_datafusion):
        with pytest.raises(SchemaError, match=r"pyarrow cannot read .*a\.parquet"):
            scan()


def test_categories_of_polars_are_text(tmp_path: Path) -> None:
    pl.DataFrame({"x": pl.Series(["b", "a"], dtype=pl.Categorical)}).write_parquet(tmp_path / "a.parquet")
    plan = pruner.open_table(str(tmp_path)).plan("x = 'a'")
    assert plan.scan_polars().filter(pl.col("x") == "a").collect()["x"].to_list() == ["a"]
    pl.DataFrame({"x": pl.Series(["b"], dtype=pl.Enum(["a", "b"]))}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="column 'x'.*String.*Enum"):
        pruner.open_table(str(tmp_path)).plan("x = 'b'").scan_polars()
