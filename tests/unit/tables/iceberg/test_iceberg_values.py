"""Bounds of Iceberg's manifests as values, and what partition transforms say about columns, against pyiceberg."""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import parse_transform
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

import pruner
from pruner.arrow import arrow
from pruner.tables.iceberg.deletes import DeleteFile, DeletePlan
from pruner.tables.iceberg.manifests import POSITION_DELETES
from pruner.tables.iceberg.transforms import bucket_of, extent_of, next_prefix
from pruner.tables.iceberg.values import decode_values
from tests.support.iceberg.manifests import written
from tests.support.iceberg.tables import IcebergLake, rows

CHARACTERS = st.characters(exclude_categories=["Cs"])
EXACT = Context(prec=60)
DATES = st.dates(date(1, 1, 1), date(9999, 12, 31))
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-7, EXACT))

KINDS: dict[str, tuple[iceberg.PrimitiveType, pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (iceberg.BooleanType(), pa.bool_(), st.booleans()),
    "int": (iceberg.IntegerType(), pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (iceberg.LongType(), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (iceberg.FloatType(), pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (iceberg.DoubleType(), pa.float64(), st.floats(allow_nan=False)),
    "date": (iceberg.DateType(), pa.date32(), DATES),
    "time": (iceberg.TimeType(), pa.time64("us"), st.times()),
    "timestamp": (iceberg.TimestampType(), pa.timestamp("us"), MOMENTS),
    "timestamptz": (
        iceberg.TimestamptzType(),
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda m: m.replace(tzinfo=UTC)),
    ),
    "string": (iceberg.StringType(), pa.string(), st.text(CHARACTERS)),
    "binary": (iceberg.BinaryType(), pa.binary(), st.binary(max_size=40)),
    "fixed": (iceberg.FixedType(5), pa.binary(5), st.binary(min_size=5, max_size=5)),
    "uuid": (iceberg.UUIDType(), pa.binary(16), st.uuids()),
    "decimal": (iceberg.DecimalType(38, 7), pa.decimal128(38, 7), DECIMALS),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_bounds_are_read_as_they_were_written(kind: str, data: st.DataObject) -> None:
    written, type_, values = KINDS[kind]
    given_values: list[Any] = data.draw(st.lists(st.none() | values, max_size=12))
    stored = arrow.array(
        [None if each is None else to_bytes(written, each) for each in given_values], pa.binary()
    )
    start = data.draw(st.integers(0, len(given_values)))
    decoded = decode_values(stored.slice(start), type_).to_pylist()
    expected = [each.bytes if isinstance(each, uuid.UUID) else each for each in given_values[start:]]
    assert [_same(each) for each in decoded] == [_same(each) for each in expected]


def _same(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("narrow", "wide", "type_", "value"),
    [
        (iceberg.IntegerType(), iceberg.LongType(), pa.int64(), -7),
        (iceberg.FloatType(), iceberg.DoubleType(), pa.float64(), -0.5),
    ],
)
def test_bounds_of_before_a_promotion_are_read(
    narrow: Any, wide: Any, type_: pa.DataType, value: Any
) -> None:
    stored = arrow.array([to_bytes(narrow, value), to_bytes(wide, value), None, b"\1\2\3"], pa.binary())
    assert decode_values(stored, type_).to_pylist() == [value, value, None, None]


@pytest.mark.parametrize("kind", KINDS)
@given(junk=st.lists(st.none() | st.binary(max_size=20), max_size=8))
def test_bytes_that_are_none_of_the_type_are_nothing(kind: str, junk: list[bytes | None]) -> None:
    _, type_, _ = KINDS[kind]
    assert len(decode_values(arrow.array(junk, pa.binary()), type_)) == len(junk)


def test_a_decimal_with_more_digits_than_its_type_is_nothing() -> None:
    stored = arrow.array([to_bytes(iceberg.DecimalType(9, 2), Decimal("1234567.89")), b"\x05"], pa.binary())
    assert decode_values(stored, pa.decimal128(5, 2)).to_pylist() == [None, Decimal("0.05")]


TRANSFORMED: dict[str, tuple[str, ...]] = {
    "int": ("identity", "truncate[10]", "truncate[1]", "bucket[16]"),
    "long": ("identity", "truncate[1000]"),
    "decimal": ("truncate[50]",),
    "string": ("identity", "truncate[1]", "truncate[4]"),
    "binary": ("truncate[3]",),
    "date": ("identity", "year", "month", "day"),
    "timestamp": ("year", "month", "day", "hour"),
    "timestamptz": ("year", "month", "day", "hour"),
}


@pytest.mark.parametrize(
    ("kind", "transform"), [(kind, each) for kind, many in TRANSFORMED.items() for each in many]
)
@given(data=st.data())
def test_a_value_lies_in_what_its_transform_says(kind: str, transform: str, data: st.DataObject) -> None:
    written, type_, values = KINDS[kind]
    value = data.draw(values)
    stored = _stored(value)
    partition = parse_transform(transform).transform(written)(
        stored if not isinstance(value, Decimal) else value
    )
    extent = extent_of(transform, _in_avro(partition), type_)
    assert extent is not None
    assert not extent.is_null
    compared = stored.encode() if isinstance(stored, str) else stored
    lower, upper = _comparable(extent.lower), _comparable(extent.upper)
    assert lower is None or lower <= compared
    assert upper is None or (compared < upper if extent.upper_is_open else compared <= upper)


@pytest.mark.parametrize(
    ("transform", "partition", "type_", "value"),
    [
        ("truncate[10]", 2147483646, pa.int32(), -(2**31)),
        ("truncate[10]", 2147483646, pa.int64(), -(2**31)),
        ("truncate[10]", 9223372036854775806, pa.int64(), -(2**63)),
        ("hour", -1732919508, pa.timestamp("us"), 2**63 - 1),
    ],
)
def test_s30_java_goes_over_the_end_of_a_type(transform: str, partition: int, type_: Any, value: int) -> None:
    """The partitions are those that Iceberg's `TruncateUtil` and `DateTimeUtil` give these values."""
    extent = extent_of(transform, partition, type_)
    assert extent is not None
    assert not extent.is_null
    assert extent.lower is None or extent.lower <= value
    assert extent.upper is None or value <= extent.upper


def test_truncated_numbers_short_of_the_ends_of_a_type_are_bounded() -> None:
    greatest = extent_of("truncate[10]", 2**31 - 18, pa.int32())
    least = extent_of("truncate[10]", -(2**31) + 8, pa.int32())
    hour = extent_of("hour", 490_000, pa.timestamp("us"))
    assert (greatest and greatest.lower, greatest and greatest.upper) == (2**31 - 18, 2**31 - 9)
    assert (least and least.lower, least and least.upper) == (-(2**31) + 8, -(2**31) + 17)
    assert hour is not None
    assert hour.lower == 490_000 * 3_600_000_000


def _code_units(text: str, width: int) -> str:
    """A text as cut by writers that count units of UTF-16: Iceberg for Java before 0.7 (iceberg#293)."""
    return text.encode("utf-16-le")[: 2 * width].decode("utf-16-le")


def _utf8_bytes(text: str, width: int) -> str:
    """A text as cut by writers that count bytes: Iceberg for Go before June 2026 (iceberg-go#1222)."""
    return text.encode()[:width].decode()


@pytest.mark.parametrize(
    ("cut", "width", "text"),
    [
        (_code_units, 2, "\U0001f600\U0001f601"),
        (_code_units, 3, "a\U0001f600b"),
        (_utf8_bytes, 2, "éa"),
        (_utf8_bytes, 3, "aéa"),
        (_utf8_bytes, 4, "\U0001f600a"),
    ],
)
def test_a_text_of_fewer_characters_than_the_width_may_have_been_cut(
    cut: Callable[[str, int], str], width: int, text: str
) -> None:
    extent = extent_of(f"truncate[{width}]", cut(text, width), pa.string())
    assert extent is not None
    assert extent.lower <= text
    assert extent.upper is None or text < extent.upper or (text == extent.upper and not extent.upper_is_open)


@pytest.mark.parametrize(("text", "width"), [("ab", 3), ("", 1), ("é", 3), ("\U0001f600", 3), ("éé", 3)])
def test_a_text_that_no_writer_can_have_cut_is_the_one_value(text: str, width: int) -> None:
    extent = extent_of(f"truncate[{width}]", text, pa.string())
    assert extent is not None
    assert (extent.lower, extent.upper, extent.upper_is_open) == (text, text, False)


@pytest.mark.parametrize("transform", ["identity", "truncate[2]"])
def test_a_text_with_a_character_that_was_no_utf8_says_nothing_but_that_it_is_none(transform: str) -> None:
    extent = extent_of(transform, "é\ufffd", pa.string())
    assert extent is not None
    assert (extent.lower, extent.upper, extent.is_null) == (None, None, False)


@pytest.mark.parametrize("period", ["year", "month", "day"])
@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("us")], ids=str)
def test_all_of_before_1970_may_be_in_the_first_period(period: str, type_: pa.DataType) -> None:
    """ClickHouse has written 0 for all of it (ClickHouse#118583)."""
    extent = extent_of(period, 0, type_)
    assert extent is not None
    assert extent.lower is None
    assert extent.upper > 0 or type_ == pa.date32()


@pytest.mark.parametrize("transform", ["identity", "year", "hour", "truncate[4]", "bucket[8]"])
def test_null_is_null_alone(transform: str) -> None:
    found = extent_of(transform, None, pa.timestamp("us"))
    assert found is not None
    assert found.is_null


@pytest.mark.parametrize("transform", ["void", "zorder", "truncate[x]", "bucket[]", ""])
@pytest.mark.parametrize("value", [None, 3])
def test_nothing_is_said_by_a_transform_that_is_not_known(transform: str, value: Any) -> None:
    assert extent_of(transform, value, pa.int32()) is None


@pytest.mark.parametrize("period", ["year", "month", "day"])
def test_dates_before_1970_may_be_in_the_next_period(period: str) -> None:
    """Older writers rounded towards zero: they put a date of the month before 1970 into month 0 (trap)."""
    before = extent_of(period, 0, pa.date32())
    assert before is not None
    assert before.lower is None
    earlier = extent_of(period, -1, pa.date32())
    assert earlier is not None
    assert earlier.lower < -1
    after = extent_of(period, 1, pa.date32())
    assert after is not None
    assert after.lower > 0


def _stored(value: Any) -> Any:
    """A value as bounds and partition tuples store it."""
    match value:
        case datetime():
            return datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            return (datetime.combine(date(1970, 1, 1), value) - datetime(1970, 1, 1)) // timedelta(
                microseconds=1
            )
        case Decimal():
            return int(value.scaleb(7, EXACT))
        case _:
            return value


def _in_avro(value: Any) -> Any:
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(7, EXACT))
        return unscaled.to_bytes(17, "big", signed=True)
    return value


def _comparable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@given(
    prefix=st.text(CHARACTERS, max_size=5),
    rest=st.text(CHARACTERS),
)
def test_what_begins_with_a_text_lies_below_its_successor(prefix: str, rest: str) -> None:
    following = next_prefix(prefix)
    assert following is None or (prefix + rest).encode() < following.encode()


def test_an_identity_of_a_date_says_nothing_of_the_timestamp_that_it_became() -> None:
    """Days, read as microseconds, would be the first seconds of 1970."""
    promoted = extent_of("identity", 19000, pa.timestamp("us"))
    assert promoted is not None
    assert (promoted.lower, promoted.upper, promoted.is_null) == (None, None, False)
    moment = extent_of("identity", 1_700_000_000_000_000, pa.timestamp("us"))
    assert moment is not None
    assert moment.lower == moment.upper == 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("data", "delete"),
    [
        ((float("nan"),), (float("nan"),)),
        ((b"\x00\x00\x04\xd2",), (b"\x00\x00\x00\x00\x00\x00\x04\xd2",)),
        ((b"\xff\xfe",), (b"\xfe",)),
        ((None, "a"), (None, "a")),
    ],
)
def test_deletes_of_a_partition_meet_its_files(data: tuple[Any, ...], delete: tuple[Any, ...]) -> None:
    """NaN is not equal to itself as a key, and a promoted decimal is written in more bytes."""
    plan = DeletePlan()
    plan.add(_position_deletes((3, delete)), is_partitioned=True)
    found = plan.of("file:/t/a.parquet", 1, (3, data))
    assert found is not None
    assert len(found.positions) == 1
    assert plan.of("file:/t/a.parquet", 1, (4, data)) is None
    assert plan.of("file:/t/a.parquet", 3, (3, data)) is None, "it is older than the file"


def test_deletes_of_one_file_meet_it_whatever_the_partitions_say() -> None:
    """When Java rewrites a manifest, it writes NULL for a value whose column was dropped, and uses the path."""
    place = b"file:/t/a.parquet"
    plan = DeletePlan()
    plan.add(replace(_position_deletes((3, (0,))), first=place, last=place), is_partitioned=True)
    found = plan.of(place.decode(), 1, (3, (None,)))
    assert found is not None
    assert len(found.positions) == 1
    assert plan.of("file:/t/b.parquet", 1, (3, (0,))) is None
    assert plan.of(place.decode(), 3, (3, (None,))) is None, "it is older than the file"


def _position_deletes(partition: tuple[int, tuple[Any, ...]]) -> DeleteFile:
    return DeleteFile(
        content=POSITION_DELETES,
        path="file:/t/d.parquet",
        format="parquet",
        size=1,
        rows=1,
        sequence_number=2,
        partition=partition,
        referenced_file=None,
        offset=None,
        length=None,
        equality_ids=(),
        first=None,
        last=None,
    )


BUCKETED = (
    "int",
    "long",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "binary",
    "fixed",
    "uuid",
    "decimal",
)


@pytest.mark.parametrize("kind", BUCKETED)
@given(data=st.data())
def test_buckets_are_those_of_pyiceberg(kind: str, data: st.DataObject) -> None:
    written, type_, values = KINDS[kind]
    value = data.draw(values)
    count = data.draw(st.integers(1, 2**31 - 1))
    stored = value
    match kind:
        case "date":
            stored = date_to_days(value)
        case "time":
            stored = (value.hour * 3600 + value.minute * 60 + value.second) * 1_000_000 + value.microsecond
        case "timestamp" | "timestamptz":
            stored = datetime_to_micros(value)
        case "string":
            stored = value.encode()
        case "uuid":
            stored = value.bytes
        case "decimal":
            stored = int(value.scaleb(7, EXACT))
        case _:
            pass
    expected = parse_transform(f"bucket[{count}]").transform(written)(value)
    assert bucket_of(stored, type_, count) == expected


def test_the_hashes_of_the_specification() -> None:
    whole = 2**31 - 1
    assert bucket_of(34, pa.int64(), whole) == 2017239379
    assert bucket_of(1420, pa.decimal128(9, 2), whole) == (-500754589 & whole) % whole
    assert bucket_of(b"iceberg", pa.string(), whole) == 1210000089
    assert bucket_of(bytes([0, 1, 2, 3]), pa.binary(), whole) == (-188683207 & whole) % whole
    assert bucket_of(1.5, pa.float64(), whole) is None
    assert bucket_of(2**63, pa.int64(), whole) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "is_one"), [("fifteen bytes a", True), ("16 bytes and more", False)])
def test_s7_a_bound_that_may_have_been_cut_is_not_the_one_value(
    tmp_path: Path, value: str, *, is_one: bool
) -> None:
    """If a writer cuts a text and does not raise the upper bound, both bounds are equal."""
    table = IcebergLake(tmp_path).create("t")
    table.append(rows(table, range(1)).set_column(9, "name", [[value]]))
    (path,) = tmp_path.rglob("*-m0.avro")
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    entries: list[Any] = list(reader)
    cut = value[:16]
    for name in ("lower_bounds", "upper_bounds"):
        (bound,) = (pair for pair in entries[0]["data_file"][name] if pair["key"] == 10)
        bound["value"] = cut.encode()
    path.write_bytes(written(entries, reader.writer_schema))
    opened = pruner.open_table(table.metadata_location)
    kept = [opened.plan(f"name {text}").kept for text in (f"= '{cut}'", f"<> '{cut}'", f"NOT IN ('{cut}')")]
    assert kept == [1, not is_one, not is_one]
