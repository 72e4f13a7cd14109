"""Which writers are trusted, and that those at hand deserve it: footers against the data of the same file."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.errors import IndexDefinitionError
from pruner.expr.bound.predicates import IsNullLeaf
from pruner.indexes.base import LeafColumn
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.columns.trust import Calendar, calendar, footer_is_believed, never_shortens, writer
from pruner.indexes.optional import RowIndexType
from pruner.indexes.registry import index_type
from pruner.pipeline.footers import FileReader
from pruner.schema import Field
from pruner.tables.footers.file_schemas import plain_type
from tests.support.parquet.column_stats import outcomes, record_file
from tests.support.parquet.footers import written_by

NUMBER = LeafColumn(("x",), 0, pa.int64(), "int64", None, False)


@pytest.mark.parametrize(
    ("created_by", "believed"),
    [
        ("parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)", True),
        ("parquet-mr version 1.10.0 (build x)", True),
        ("parquet-mr version 1.9.1", False),
        ("parquet-mr version 1.8.0 (build x)", False),
        ("parquet-mr", False),
        ("parquet-mr compatible Photon version 0.2 (build 16.1)", False),
        ("parquet-cpp-arrow version 26.0.1", True),
        ("parquet-cpp-arrow version 6.0.0-SNAPSHOT", True),
        ("parquet-cpp-arrow version 5.0.0", False),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False),
        ("parquet-rs version 53.0.0", True),
        ("parquet-rs version 4.1.0", False),
        ("DuckDB version v1.1.3 (build 19864453f7)", True),
        ("DuckDB version v2.0.0 (build 1234567890)", True),
        ("DuckDB version v1.0.0 (build 1f98600c2c)", False),
        ("DuckDB", False),
        ("impala version 4.1.0-RELEASE (build abc)", False),
        ("Polars", False),
        ("fastparquet-python version 2024.2.0", False),
        ("", False),
    ],
)
def test_writers_by_name_and_version(created_by: str, believed: bool) -> None:
    assert footer_is_believed(created_by, NUMBER) is believed


def test_never_for_floating_point_int96_and_types_without_order() -> None:
    good = "parquet-cpp-arrow version 26.0.1"
    for type_ in (pa.float32(), pa.float64(), pa.null(), None):
        assert not footer_is_believed(good, LeafColumn(("x",), 0, type_, str(type_), None, False))
    assert not footer_is_believed(
        good, LeafColumn(("x",), 0, pa.timestamp("us"), "int96", None, False, int96=True)
    )


def test_versions_are_numbers() -> None:
    assert writer("DuckDB version v1.1.3 (build x)") == ("duckdb", (1, 1, 3))
    assert writer("parquet-cpp-arrow version 10.0") == ("parquet-cpp-arrow", (10, 0, 0))
    assert writer("Polars") is None
    assert never_shortens("parquet-cpp-arrow version 26.0.1")
    assert not never_shortens("parquet-rs version 53.0.0")


def test_calendars() -> None:
    day = LeafColumn(("x",), 0, pa.date32(), "date32[day]", None, False)
    int96 = LeafColumn(("x",), 0, pa.timestamp("us"), "int96", None, False, int96=True)
    version = b"org.apache.spark.version"
    assert calendar({}, day) is Calendar.OPEN
    assert calendar({version: b"3.5.9"}, day) is Calendar.PROLEPTIC
    assert calendar({version: b"2.4.8"}, day) is Calendar.LEGACY
    assert calendar({version: b"3.5.9", b"org.apache.spark.legacyDateTime": b""}, day) is Calendar.LEGACY
    assert calendar({version: b"unheard of"}, day) is Calendar.LEGACY
    assert calendar({version: b"3.0.1"}, day) is Calendar.PROLEPTIC
    assert calendar({version: b"3.0.1"}, int96) is Calendar.LEGACY
    assert calendar({version: b"3.5.9", b"org.apache.spark.legacyINT96": b""}, int96) is Calendar.LEGACY


def _columns(rng: random.Random, rows: int) -> dict[str, pa.Array[Any]]:
    def some(make: Any) -> list[Any]:
        return [None if rng.random() < 0.2 else make() for _ in range(rows)]

    day = datetime.date(1970, 1, 1)
    return {
        "b": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
        "i8": pa.array(some(lambda: rng.randint(-128, 127)), pa.int8()),
        "i16": pa.array(some(lambda: rng.randint(-(2**15), 2**15 - 1)), pa.int16()),
        "i32": pa.array(some(lambda: rng.randint(-(2**31), 2**31 - 1)), pa.int32()),
        "i64": pa.array(some(lambda: rng.randint(-(2**63), 2**63 - 1)), pa.int64()),
        "u8": pa.array(some(lambda: rng.randint(0, 255)), pa.uint8()),
        "u16": pa.array(some(lambda: rng.randint(0, 2**16 - 1)), pa.uint16()),
        "u32": pa.array(some(lambda: rng.randint(0, 2**32 - 1)), pa.uint32()),
        "u64": pa.array(some(lambda: rng.randint(0, 2**64 - 1)), pa.uint64()),
        "d9": pa.array(some(lambda: Decimal(rng.randint(-(10**8), 10**8)) / 100), pa.decimal128(9, 2)),
        "d18": pa.array(some(lambda: Decimal(rng.randint(-(10**17), 10**17))), pa.decimal128(18, 0)),
        "d38": pa.array(some(lambda: Decimal(rng.randint(-(10**27), 10**27))), pa.decimal128(38, 6)),
        "s": pa.array(
            some(lambda: "".join(rng.choices("aé鯨\U0001f40b\x7f", k=rng.randint(0, 3)))), pa.string()
        ),
        "long": pa.array(some(lambda: rng.choice("aé鯨\U0010ffff") * rng.randint(1, 400)), pa.string()),
        "y": pa.array(some(lambda: rng.randbytes(rng.randint(0, 4))), pa.binary()),
        "date": pa.array(some(lambda: day + datetime.timedelta(rng.randint(-9999, 9999))), pa.date32()),
        "ts": pa.array(some(lambda: rng.randint(-(10**15), 10**15)), pa.timestamp("us")),
        "tz": pa.array(some(lambda: rng.randint(-(10**15), 10**15)), pa.timestamp("us", "UTC")),
        "t32": pa.array(some(lambda: rng.randrange(86_400_000)), pa.time32("ms")),
        "t64": pa.array(some(lambda: rng.randrange(86_400 * 10**9)), pa.time64("ns")),
        "id": pa.array(some(lambda: rng.randbytes(16)), pa.uuid()),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["pyarrow", "duckdb"])
def test_footers_of_the_writers_at_hand_say_what_the_data_says(tmp_path: Path, engine: str) -> None:
    believed = 0
    for seed in range(6):
        rng = random.Random(seed)
        table = pa.table(_columns(rng, rng.choice([1, 3, 40])))
        path = tmp_path / f"{engine}{seed}.parquet"
        if engine == "pyarrow":
            pq.write_table(
                table, path, row_group_size=rng.choice([2, 100]), use_dictionary=rng.random() < 0.5
            )
        else:
            duckdb.from_arrow(table).write_parquet(str(path), row_group_size=2048)
        fields = [Field((entry.name,), plain_type(entry.type)) for entry in pq.read_schema(path)]
        claimed = [record_file(path, field) for field in fields]
        written_by(path, "somebody")
        for field, footer in zip(fields, claimed, strict=True):
            data = record_file(path, field)
            assert data.from_data
            believed += not footer.from_data
            same = {"from_data": True, "min_exact": data.min_exact, "max_exact": data.max_exact}
            assert footer.in_range
            if pa.types.is_integer(field.type) and field.type.bit_width < 32:
                # Arrow has wrapped the data: only a footer shows that all numbers fit (trap S24).
                assert not data.in_range
                same["in_range"] = False
            assert footer._replace(**same) == data, field.name
            assert data.min_exact or not footer.min_exact
            assert data.max_exact or not footer.max_exact
    assert believed > 60


def test_all_nulls_do_not_need_bounds_to_be_believed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.nulls(3, pa.int64())}), tmp_path / "a.parquet")
    record = record_file(tmp_path / "a.parquet", Field(("x",), pa.int64()))
    assert (record.null_count, record.has_values, record.from_data) == (3, False, False)


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.null(),
        pa.decimal256(50, 2),
    ],
    ids=str,
)
def test_unsupported_types_are_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(IndexDefinitionError) as raised:
        COLUMN_STATS.check(Field(("shop", "x"), type_), {})
    assert "'shop.x'" in str(raised.value)
    assert str(type_) in str(raised.value)


def test_supported_types_are_accepted() -> None:
    for column in _columns(random.Random(0), 1).values():
        COLUMN_STATS.check(Field(("x",), column.type), {})
    for type_ in (
        pa.float32(),
        pa.float64(),
        pa.large_string(),
        pa.binary(4),
        pa.date64(),
        pa.timestamp("ns", "UTC"),
    ):
        COLUMN_STATS.check(Field(("x",), type_), {})


def test_what_else_is_refused() -> None:
    with pytest.raises(IndexDefinitionError, match="no option 'fpp'"):
        COLUMN_STATS.check(Field(("x",), pa.int64()), {"fpp": "0.1"})
    with pytest.raises(IndexDefinitionError, match="files hold both"):
        COLUMN_STATS.check(Field(("x",), pa.int64(), conflict="files hold both"), {})
    with pytest.raises(IndexDefinitionError, match="partition column"):
        COLUMN_STATS.check(Field(("x",), pa.int64(), partition=True, in_file=False), {})


def test_index_types_by_name() -> None:
    for name in ("column_stats", "COLUMN_STATS", "col_stats"):
        assert index_type(name) is COLUMN_STATS
    assert isinstance(COLUMN_STATS, RowIndexType)
    with pytest.raises(
        IndexDefinitionError, match="no index type 'btree': use one of bitmap, bloom_filter, column_stats"
    ):
        index_type("btree")


def test_a_record_as_a_table_is_the_record(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, None]}), tmp_path / "a.parquet")
    field = Field(("x",), pa.int64())
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        table = COLUMN_STATS.record(reader, field, {})
    assert table.schema.equals(COLUMN_STATS.record_schema)
    assert table.num_rows == 1
    numbered = table.append_column("__slice", pa.array([0], pa.int32()))
    assert outcomes(COLUMN_STATS.load(numbered, 1, field), IsNullLeaf(field)) == ["tf"]
