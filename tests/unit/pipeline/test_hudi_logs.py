"""Log files as sequences of blocks, rows of Avro blocks as they are stored, and slices as the union of both."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.indexes.column_stats.index import COLUMN_STATS
from pruner.pipeline.footers import FileReader
from pruner.pipeline.hudi_logs import log_rows, read_rows
from pruner.pipeline.kernel import read_slice
from pruner.pipeline.requests import BuildRequest, Failure, SliceFiles
from pruner.pipeline.unions import UnionReader
from pruner.schema import Field
from pruner.tables.hudi.logs import BlockType, blocks, records
from tests.support.parquet.footers import claim, written_by

T1, T2, T3 = "20260101000000001", "20260101000000002", "20260101000000003"
DONE = f"{T1} {T1} {T2}"
"""Both instants have completed."""


def entries(values: Mapping[int, str]) -> bytes:
    packed = b"".join(struct.pack(">ii", key, len(text)) + text.encode() for key, text in values.items())
    return struct.pack(">i", len(values)) + packed


def block(type_: int, header: Mapping[int, str], content: bytes = b"") -> bytes:
    body = struct.pack(">ii", 1, type_) + entries(header) + struct.pack(">q", len(content)) + content
    body += entries({})
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def schema_of(fields: Sequence[tuple[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields]})


def encoded(schema: str, rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
    found: list[bytes] = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), row)
        found.append(out.getvalue())
    return found


def data_block(
    fields: Sequence[tuple[str, Any]], rows: Sequence[Mapping[str, Any]], instant: str = T1
) -> bytes:
    schema = schema_of(fields)
    each = [struct.pack(">i", len(data)) + data for data in encoded(schema, rows)]
    content = struct.pack(">ii", 3, len(each)) + b"".join(each)
    return block(BlockType.AVRO, {0: instant, 2: schema}, content)


NULLABLE: dict[str, tuple[Any, pa.DataType, Any]] = {
    "flag": ("boolean", pa.bool_(), True),
    "small": ("int", pa.int32(), -(2**31)),
    "big": ("long", pa.int64(), 2**63 - 1),
    "ratio": ("float", pa.float32(), 0.5),
    "fare": ("double", pa.float64(), -0.0),
    "name": ("string", pa.string(), "Zürich 東京"),
    "code": ("bytes", pa.binary(), b"\x00\xff"),
    "hash": ({"type": "fixed", "name": "h", "size": 3}, pa.binary(3), b"abc"),
    "kind": ({"type": "enum", "name": "k", "symbols": ["A", "B"]}, pa.string(), "B"),
    "day": ({"type": "int", "logicalType": "date"}, pa.date32(), date(1500, 1, 1)),
    "at": (
        {"type": "long", "logicalType": "timestamp-micros"},
        pa.timestamp("us", "UTC"),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        pa.timestamp("ms"),
        datetime(2026, 1, 1),
    ),
    "price": (
        {"type": "fixed", "name": "p", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 2},
        pa.decimal128(38, 2),
        Decimal("-999999999999999999999999999999999999.99"),
    ),
    "cents": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        pa.decimal128(4, 2),
        Decimal("-0.05"),
    ),
}


def test_every_type_as_it_is_stored():
    schema = schema_of([(name, ["null", type_]) for name, (type_, _, _) in NULLABLE.items()])
    values = {name: value for name, (_, _, value) in NULLABLE.items()}
    rows = read_rows(schema, map(memoryview, encoded(schema, [values, dict.fromkeys(values)])))
    assert rows.table.schema.types == [type_ for _, type_, _ in NULLABLE.values()]
    assert rows.table.to_pylist() == [values, dict.fromkeys(values)]
    assert not rows.left_out


def test_structs_names_of_types_and_what_is_left_out():
    money = {
        "type": "fixed",
        "name": "money",
        "size": 4,
        "logicalType": "decimal",
        "precision": 6,
        "scale": 1,
    }
    place = {
        "type": "record",
        "name": "place",
        "fields": [
            {"name": "zip", "type": ["null", "int"]},
            {"name": "rent", "type": ["null", "money"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    schema = schema_of(
        [
            ("paid", money),
            ("place", ["null", place]),
            ("either", ["null", "int", "string"]),
            ("clock", {"type": "int", "logicalType": "time-millis"}),
        ]
    )
    row = {
        "paid": Decimal("1.5"),
        "place": {"zip": 7, "rent": Decimal("2.5"), "tags": ["a"]},
        "either": "x",
        "clock": datetime(2026, 1, 1).time(),
    }
    rows = read_rows(schema, map(memoryview, encoded(schema, [row, {**row, "place": None}])))
    assert rows.table.to_pylist() == [
        {"paid": Decimal("1.5"), "place": {"zip": 7, "rent": Decimal("2.5")}},
        {"paid": Decimal("1.5"), "place": None},
    ]
    assert rows.left_out == {
        ("place", "tags"): "array",
        ("either",): "a union of 2 types",
        ("clock",): "int time-millis",
    }


def test_blocks_and_their_records():
    data = data_block([("x", "int")], [{"x": 1}, {"x": 2}]) + block(BlockType.DELETE, {0: T2}, b"whatever")
    first, second = blocks(data)
    assert (first.type, first.instant, len(list(records(first.content)))) == (BlockType.AVRO, T1, 2)
    assert (second.type, second.instant, bytes(second.content)) == (BlockType.DELETE, T2, b"whatever")


@given(data=st.data())
def test_broken_log_files_are_refused_or_read_as_rows(data: st.DataObject):
    """Any change of bytes gives whole blocks or one ValueError, never half a file."""
    whole = data_block([("x", "int")], [{"x": 1}, {"x": 2}]) * 2
    kind = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(1, 255))
    broken = {
        "cut": whole[:at],
        "flip": whole[:at] + bytes([whole[at] ^ byte]) + whole[at + 1 :],
        "insert": whole[:at] + bytes([byte]) + whole[at:],
    }[kind]
    try:
        found = [len(list(records(b.content))) for b in blocks(broken) if b.type is BlockType.AVRO]
    except ValueError:
        return
    assert len(found) <= 2
    assert kind == "flip" or found in ([], [2])


def write_log(folder: Path, *parts: bytes) -> tuple[str, int]:
    path = folder / f".f_{T1}.log.{len(list(folder.iterdir()))}_0-1-1"
    path.write_bytes(b"".join(parts))
    return str(path), path.stat().st_size


def values(path: tuple[str, int], instants: str | None) -> list[Any]:
    (rows,) = log_rows([path[0]], path[1], instants, {})
    (leaf,) = [rows.reader.footer.leaf(("x",))]
    assert leaf is not None
    return [value for array in rows.reader.batches(leaf) for value in array.to_pylist()]


X = [("x", ["null", "int"])]


def test_all_blocks_of_a_file_count_each_version_of_a_row(tmp_path: Path):
    log = write_log(tmp_path, data_block(X, [{"x": 1}]), data_block(X, [{"x": 2}], T2))
    assert values(log, DONE) == [1, 2]
    assert values(log, f"{T2} {T2}") == [1, 2], "what is older than the timeline was completed"


@pytest.mark.parametrize("instants", [None, "", f"{T1} {T1}"])
def test_unfinished_blocks_make_the_slice_unknown(tmp_path: Path, instants: str | None):
    """R4: also if it is unknown which instants have completed."""
    log = write_log(tmp_path, data_block(X, [{"x": 1}]), data_block(X, [{"x": 2}], T2))
    with pytest.raises(ValueError, match="has not completed"):
        log_rows([log[0]], log[1], instants, {})


def test_what_was_rolled_back_is_no_row(tmp_path: Path):
    rollback = block(BlockType.COMMAND, {0: T2, 1: T3, 3: "0"})
    log = write_log(tmp_path, data_block(X, [{"x": 1}]), data_block(X, [{"x": 9}], T3), rollback)
    assert values(log, DONE) == [1]


@pytest.mark.parametrize("type_", [BlockType.CORRUPT, BlockType.HFILE, BlockType.CDC])
def test_blocks_of_other_kinds_make_the_slice_unknown(tmp_path: Path, type_: BlockType):
    log = write_log(tmp_path, data_block(X, [{"x": 1}]), block(type_, {0: T1}, b"?"))
    with pytest.raises(ValueError, match="which is not read"):
        log_rows([log[0]], log[1], DONE, {})


def test_a_file_that_grew_since_it_was_listed_is_refused(tmp_path: Path):
    log = write_log(tmp_path, data_block(X, [{"x": 1}]))
    with pytest.raises(ValueError, match="were listed"):
        log_rows([log[0]], log[1] - 1, DONE, {})


def test_parquet_blocks(tmp_path: Path):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": pa.array([5, None], pa.int32())}), sink)
    content = sink.getvalue().to_pybytes()
    assert values(write_log(tmp_path, block(BlockType.PARQUET, {0: T1}, content)), DONE) == [5, None]


def record(
    folder: Path, base: pa.Table | None, logs: Sequence[tuple[str, int]], about: Field
) -> dict[str, Any]:
    """The column statistics of one slice, by column name."""
    uri = None
    if base is not None:
        uri = str(folder / "base.parquet")
        pq.write_table(base, uri)
    files = SliceFiles(0, uri, None, [log[0] for log in logs], sum(log[1] for log in logs), DONE)
    (found,) = read_slice(files, {}, [BuildRequest(COLUMN_STATS, about, {}, "i")])
    assert not isinstance(found, Failure), found
    names = [entry.name for entry in COLUMN_STATS.record_schema]
    return dict(zip(names, list(found), strict=True))  # type: ignore[arg-type]


def test_the_union_of_base_and_logs(tmp_path: Path):
    base = pa.table({"x": pa.array([3, 4], pa.int32())})
    logs = [
        write_log(tmp_path, data_block(X, [{"x": 1}])),
        write_log(tmp_path, data_block(X, [{"x": None}], T2)),
    ]
    found = record(tmp_path, base, logs, Field(("x",), pa.int32()))
    assert (found["trusted"], found["row_count"], found["null_count"]) == (True, 4, 1)
    assert (found["min_integer"], found["max_integer"]) == (1, 4)
    assert not found["from_data"], "the base file's footer is enough"
    without_base = record(tmp_path, None, logs, Field(("x",), pa.int32()))
    assert (without_base["row_count"], without_base["max_integer"]) == (2, 1)


def test_integers_of_two_widths_and_types_that_differ(tmp_path: Path):
    base = pa.table({"x": pa.array([3], pa.int32())})
    wide = write_log(tmp_path, data_block([("x", "long")], [{"x": 2**40}]))
    found = record(tmp_path, base, [wide], Field(("x",), pa.int64()))
    assert (found["trusted"], found["min_integer"], found["max_integer"]) == (True, 3, 2**40)
    text = write_log(tmp_path, data_block([("x", "string")], [{"x": "a"}]))
    assert not record(tmp_path, base, [text], Field(("x",), pa.int32()))["trusted"]
    listed = write_log(tmp_path, data_block([("x", {"type": "array", "items": "int"})], [{"x": [1]}]))
    assert not record(tmp_path, base, [listed], Field(("x",), pa.int32()))["trusted"]


@pytest.mark.parametrize("with_base", [True, False])
@pytest.mark.parametrize(
    ("writer", "is_read"),
    [
        ("parquet-mr version 1.7.0", True),
        ("impala version 4.0.0", True),
        ("", True),
        ("parquet-cpp-arrow version 1.0.0", True),
        ("parquet-cpp-arrow version 6.0.0", False),
    ],
)
def test_s31_log_blocks_of_another_writer_are_not_trusted_as_the_base_file_is(
    tmp_path: Path, writer: str, is_read: bool, with_base: bool
):
    """PARQUET-251: binary minima and maxima were wrong before parquet-mr 1.8, also in blocks of log files."""
    of_another = tmp_path / "block.parquet"
    pq.write_table(pa.table({"x": pa.array([7, 100], pa.int32())}), of_another)
    written_by(claim(of_another, max_value=struct.pack("<i", 7)), writer)
    logs = [
        write_log(tmp_path, data_block(X, [{"x": 1}])),
        write_log(tmp_path, block(BlockType.PARQUET, {0: T2}, of_another.read_bytes())),
    ]
    base = pa.table({"x": pa.array([3], pa.int32())}) if with_base else None
    found = record(tmp_path, base, logs, Field(("x",), pa.int32()))
    assert (found["min_integer"], found["max_integer"]) == (1, 100 if is_read else 7)
    assert found["from_data"] is is_read


def test_s31_writers_of_one_name_are_trusted_as_the_oldest_is(tmp_path: Path):
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    for path, writer in (
        (first, "parquet-mr version 1.13.1"),
        (second, "parquet-mr version 1.10.1 (build 1)"),
    ):
        pq.write_table(pa.table({"x": pa.array([7], pa.int32())}), path)
        written_by(path, writer)
    logs = [
        write_log(tmp_path, block(BlockType.PARQUET, {0: T1}, first.read_bytes())),
        write_log(tmp_path, block(BlockType.PARQUET, {0: T2}, second.read_bytes())),
    ]
    assert not record(tmp_path, None, logs, Field(("x",), pa.int32()))["from_data"]
    written_by(second, "parquet-mr version 1.9.0")
    logs[1] = write_log(tmp_path, block(BlockType.PARQUET, {0: T2}, second.read_bytes()))
    assert record(tmp_path, None, logs, Field(("x",), pa.int32()))["from_data"]


@pytest.mark.parametrize("absent_is_null", [True, False])
def test_a_column_that_a_partial_update_leaves_out(tmp_path: Path, absent_is_null: bool):
    base = pa.table({"x": pa.array([3], pa.int32()), "y": pa.array([7], pa.int32())})
    log = write_log(tmp_path, data_block(X, [{"x": 1}]))
    found = record(tmp_path, base, [log], Field(("y",), pa.int32(), absent_is_null=absent_is_null))
    assert found["trusted"] is absent_is_null
    if absent_is_null:
        assert (found["null_count"], found["min_integer"], found["max_integer"]) == (1, 7, 7)


def test_old_dates_of_log_rows_leave_the_calendar_open(tmp_path: Path):
    """S17: the base file states its calendar, which says nothing about the log rows."""
    days = pa.table({"d": pa.array([date(2020, 1, 1)])})
    base = days.replace_schema_metadata({"org.apache.spark.version": "3.5.0"})
    old = data_block([("d", {"type": "int", "logicalType": "date"})], [{"d": date(1500, 1, 1)}])
    found = record(tmp_path, base, [write_log(tmp_path, old)], Field(("d",), pa.date32()))
    assert found["calendar_open"]


@pytest.mark.parametrize("as_block", [True, False])
@pytest.mark.parametrize(
    "mark", [{"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.legacyDateTime": ""}], ids=str
)
def test_s17_one_file_in_the_legacy_calendar_makes_bounds_of_all_unknown(
    tmp_path: Path, mark: dict[str, str], as_block: bool
):
    """Spark shifts its values by days, whatever the session says; it reads those of the other files unchanged."""
    legacy = pa.table({"d": pa.array([date(1500, 1, 1)])}).replace_schema_metadata(mark)
    recent = pa.table({"d": pa.array([date(2020, 1, 1)])})
    if as_block:
        sink = pa.BufferOutputStream()
        pq.write_table(legacy, sink)
        base, content = recent, block(BlockType.PARQUET, {0: T1}, sink.getvalue().to_pybytes())
    else:
        base, content = (
            legacy,
            data_block([("d", {"type": "int", "logicalType": "date"})], [{"d": date(2020, 1, 1)}]),
        )
    found = record(tmp_path, base, [write_log(tmp_path, content)], Field(("d",), pa.date32()))
    assert (found["min_integer"], found["max_integer"]) == (None, None)
    assert "legacy calendar" in found["note"]


def test_s31_the_parquet_type_of_a_slice_is_that_of_its_stored_files(tmp_path: Path):
    """S23: engines read the base file by its own Parquet type, whatever rows of log files were rewritten as."""
    decimals = pa.table({"x": pa.array([Decimal("1.50")], pa.decimal128(18, 2))})
    base = tmp_path / "base.parquet"
    pq.write_table(decimals, base, store_decimal_as_integer=True)
    of_avro = {"type": "fixed", "name": "f", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2}
    logs = [write_log(tmp_path, data_block([("x", of_avro)], [{"x": Decimal("1.50")}]))]
    with FileReader(str(base)) as reader:
        alone = reader.footer.leaf(("x",))
    with union(base, logs) as reader:
        leaf = reader.footer.leaf(("x",))
    assert alone is not None
    assert leaf is not None
    assert (leaf.type, leaf.parquet) == (alone.type, alone.parquet)
    assert leaf.parquet is not None

    written_otherwise = pa.BufferOutputStream()
    pq.write_table(decimals, written_otherwise)
    logs = [write_log(tmp_path, block(BlockType.PARQUET, {0: T1}, written_otherwise.getvalue().to_pybytes()))]
    with union(base, logs) as reader:
        leaf = reader.footer.leaf(("x",))
    assert leaf is not None
    assert leaf.type is None, "two Parquet types, which an engine may read as two types"


def union(base: Path, logs: Sequence[tuple[str, int]]) -> UnionReader:
    rows = log_rows([log[0] for log in logs], sum(log[1] for log in logs), DONE, {})
    return UnionReader("slice", FileReader(str(base)), rows, {})
