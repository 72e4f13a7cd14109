"""Log files whose schemas say more than names alone show: records claimed what no row holds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.bound.predicates import CompareLeaf, NotNullLeaf, Point
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.bitmap.index import BITMAP
from pruner.indexes.column_stats.index import COLUMN_STATS
from pruner.metadata.segments import SLICE_COLUMN
from pruner.pipeline.hudi_logs import read_rows
from pruner.pipeline.kernel import Gathered, read_slice
from pruner.pipeline.requests import BuildRequest, Failure, SliceFiles
from pruner.schema import Field
from pruner.tables.hudi.properties import HudiProperties
from pruner.tables.hudi.schema import table_schema
from pruner.verdict import Outcome
from tests.unit.pipeline.test_hudi_logs import DONE, data_block, encoded

if TYPE_CHECKING:
    from pruner.indexes.base import IndexType

SEMANTICS = Semantics(engine="spark", zone="UTC")


def _decimal(namespace: str, scale: int) -> dict[str, Any]:
    about = {"type": "fixed", "name": "fixed", "namespace": namespace, "size": 5}
    return about | {"logicalType": "decimal", "precision": 10, "scale": scale}


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def test_found_two_types_of_one_short_name() -> None:
    """Avro 1.11, "Names": a name is scoped to its namespace. 7.50 was recorded as 0.0750, by another type's scale."""
    inner = _record("s", ("y", _decimal("m", 4)))
    outer = _record("r", ("a", _decimal("n", 2)), ("s", inner), ("b", "fixed")) | {"namespace": "n"}
    row = {"a": Decimal("1.25"), "s": {"y": Decimal("1.0000")}, "b": Decimal("7.50")}
    schema = json.dumps(outer)
    found = read_rows(schema, map(memoryview, encoded(schema, [row])))
    assert found.table.to_pylist() == [{"a": row["a"], "s": row["s"]}]
    assert set(found.left_out) == {("b",)}


def test_found_a_struct_of_log_rows_that_is_left_out_as_a_whole(tmp_path: Path) -> None:
    """A struct field that log rows hold in an unsupported form was recorded as NULL in all of them."""
    path = tmp_path / "base.parquet"
    pq.write_table(pa.table({"s": [{"x": 1}]}), path)
    one, other = _record("p", ("x", "long")), _record("q", ("x", "long"), ("y", "long"))
    log = tmp_path / "log"
    log.write_bytes(data_block([("s", ["null", one, other])], [{"s": {"x": 7, "y": 8}}]))
    field = Field(("s", "x"), pa.int64())
    files = SliceFiles(0, str(path), path.stat().st_size, [str(log)], log.stat().st_size, DONE)
    (found,) = read_slice(files, {}, [BuildRequest(COLUMN_STATS, field, {}, "i")])
    assert isinstance(found, tuple)
    assert not isinstance(found, Failure)
    assert not found[0], "trusted"


def test_found_the_default_of_a_struct_is_that_of_its_fields() -> None:
    """Avro 1.11, "Complex Types": a record's default has a value for each field. Files without it were read as NULL."""
    place = _record("p", ("zip", "int"))
    avro = _record("t") | {"fields": [{"name": "place", "type": place, "default": {"zip": 5}}]}
    arrow = pa.schema({"place": pa.struct([("zip", pa.int32())])})
    schema = table_schema(arrow, json.dumps(avro), None, HudiProperties({}, b""), "t")
    assert not schema.find(("place", "zip")).absent_is_null


def test_found_log_timestamps_of_another_unit_than_the_tables(tmp_path: Path) -> None:
    """S12: the reader decides if milliseconds in log rows become the table's microseconds or are taken for them."""
    log = tmp_path / "log"
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    log.write_bytes(data_block([("at", millis)], [{"at": datetime(2026, 1, 1, tzinfo=UTC)}]))
    files = SliceFiles(0, None, None, [str(log)], log.stat().st_size, DONE)
    for type_, trusted in ((pa.timestamp("ms", "UTC"), True), (pa.timestamp("us", "UTC"), False)):
        field = Field(("at",), type_)
        (found,) = read_slice(files, {}, [BuildRequest(COLUMN_STATS, field, {}, "i")])
        assert isinstance(found, tuple)
        assert not isinstance(found, Failure)
        assert found[0] is trusted


@pytest.mark.parametrize("kind", [COLUMN_STATS, BITMAP], ids=lambda kind: kind.name)
@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("engine", ["spark", "duckdb", "trino"])
def test_found_base_files_whose_unit_is_finer_than_the_tables_milliseconds(
    kind: IndexType, unit: Any, engine: Any, tmp_path: Path
) -> None:
    """S12: Spark takes microseconds in UTC for the table's milliseconds; it and DuckDB show other microseconds as such.

    So neither a range in the file's unit nor "no millisecond equals a microsecond" rules anything out.
    """
    path, field = tmp_path / "base.parquet", Field(("at",), pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"at": pa.array([1_700_000_000_000], pa.timestamp(unit, "UTC"))}), path)
    records = _recorded(SliceFiles(0, str(path), path.stat().st_size, [], 0, DONE), kind, field)
    slices = pa.array([0] * records.num_rows, pa.int32())
    evidence = kind.load(records.append_column("__slice", slices), 1, field)
    year_2020 = Point(1_577_836_800_000, 1_577_836_800_000)
    for leaf in (
        CompareLeaf(field, Operator.GT, year_2020),
        CompareLeaf(field, Operator.LT, year_2020),
        NotNullLeaf(field, False),
        NotNullLeaf(field, True),
    ):
        held = evidence.possible(leaf, Outcome.TRUE, Semantics(engine=engine, zone="UTC"), None)
        assert held is None or held.tolist() == [True], leaf


@pytest.mark.parametrize(
    ("type_", "kept"),
    [
        (pa.int8(), True),
        (pa.uint16(), True),
        (pa.timestamp("ms"), True),
        (pa.timestamp("us"), True),
        (pa.int32(), False),
        (pa.int64(), False),
        (pa.date32(), False),
    ],
    ids=str,
)
def test_found_values_that_the_tables_type_cannot_have_but_files_may(type_: pa.DataType, kept: bool) -> None:
    """S12, S24: `tinyint_column = 300` is never true of the type; Trino and Spark read the stored 32 bits of a file."""
    field = Field(("x",), type_)
    none = pa.table({each.name: pa.array([], each.type) for each in COLUMN_STATS.record_schema})
    evidence = COLUMN_STATS.load(none.append_column("__slice", pa.array([], pa.int32())), 1, field)
    found = evidence.possible(NotNullLeaf(field, False), Outcome.TRUE, SEMANTICS, None)
    assert found is not None
    assert found.tolist() == [kept]


def _partly_absent(folder: Path, column: str) -> SliceFiles:
    """A slice whose base file lacks a column that its log rows have."""
    base, log = folder / "base.parquet", folder / "log"
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int64())}), base)
    log.write_bytes(data_block([("x", "long"), (column, "long")], [{"x": 2, column: 9}]))
    return SliceFiles(0, str(base), base.stat().st_size, [str(log)], log.stat().st_size, DONE)


def _recorded(files: SliceFiles, kind: IndexType, field: Field) -> pa.Table:
    requests = [BuildRequest(kind, field, {}, "i")]
    gathered = Gathered(requests)
    gathered.add(files, read_slice(files, {}, requests))
    assert not gathered.failures
    (records,) = gathered.tables()
    assert records is not None
    return records.drop_columns([SLICE_COLUMN])


def _covered(records: pa.Table, kind: IndexType, field: Field) -> bool:
    slices = pa.array([0] * records.num_rows, pa.int32())
    evidence = kind.load(records.append_column("__slice", slices), 1, field)
    leaf = CompareLeaf(field, Operator.EQ, Point(5, 5))
    held = evidence.possible(leaf, Outcome.TRUE, SEMANTICS, None)
    assert held is not None
    assert bool(evidence.covered[0]) is not bool(held[0]), "covered slices do not hold 5, the others may"
    return bool(evidence.covered[0])


@pytest.mark.parametrize("kind", [COLUMN_STATS, BITMAP], ids=lambda kind: kind.name)
@pytest.mark.parametrize("missing_in", ["base file", "no file"])
def test_found_a_later_default_of_a_column_that_some_files_lack(
    kind: IndexType, missing_in: str, tmp_path: Path
) -> None:
    """T3: rows of files without the column counted as NULL but read as the default that the table gave it later."""
    field = Field(("later" if missing_in == "base file" else "x",), pa.int64())
    files = _partly_absent(tmp_path, "later")
    found = _recorded(files, kind, field)
    assert _covered(found, kind, field), "while absent means NULL, its bounds are 9 and NULL"
    defaulted = replace(field, absent_is_null=False)
    assert _covered(found, kind, defaulted) is (missing_in == "no file")


@pytest.mark.parametrize("kind", [COLUMN_STATS, BITMAP], ids=lambda kind: kind.name)
def test_records_that_do_not_say_whether_some_files_lack_a_column(kind: IndexType, tmp_path: Path) -> None:
    """Older records are uncovered only where it matters: the column has a default, and the slice has NULLs."""
    files = _partly_absent(tmp_path, "later")
    for name, has_nulls in (("later", True), ("x", False)):
        field = Field((name,), pa.int64())
        old = _recorded(files, kind, field).drop_columns(["partly_absent"])
        assert _covered(old, kind, field)
        assert _covered(old, kind, replace(field, absent_is_null=False)) is not has_nulls
