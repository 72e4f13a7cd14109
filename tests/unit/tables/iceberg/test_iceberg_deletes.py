"""Rows removed by equality deletes of Iceberg, against a comparison of each row with each delete."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import TableError
from pruner.tables.iceberg.deletes import DeleteFile, DeletePlan, DeletesOf
from pruner.tables.iceberg.manifests import EQUALITY_DELETES, POSITION_DELETES
from pruner.tables.iceberg.row_deletes import ByValue, DataFile, EqualityDeletes, IcebergDeletes
from pruner.tables.iceberg.schema import LeafField, read_name_mapping

FIELD_ID = b"PARQUET:field_id"
KINDS: dict[int, tuple[pa.DataType, list[Any]]] = {
    1: (pa.int64(), [None, 0, 1, -5, 2**40]),
    2: (pa.string(), [None, "", "a", "\0", "ä"]),
    3: (pa.float64(), [None, 0.0, -0.0, math.nan, -math.nan, 1.5]),
    4: (pa.float32(), [None, 0.0, -0.0, math.nan, 0.5]),
    5: (pa.decimal128(20, 3), [None, Decimal("0.000"), Decimal("-1.500")]),
    6: (pa.date32(), [None, date(1969, 12, 31), date(2024, 1, 1)]),
    7: (pa.bool_(), [None, True, False]),
    8: (pa.binary(), [None, b"", b"\0", b"\0\0"]),
    9: (pa.uuid(), [None, bytes(16), bytes(15) + b"\1"]),
}
TYPES = {id_: type_ for id_, (type_, _) in KINDS.items()}
LEAVES = {id_: LeafField(type_) for id_, type_ in TYPES.items()}
DELETE = DeleteFile(
    content=EQUALITY_DELETES,
    path="",
    format="PARQUET",
    size=0,
    rows=0,
    sequence_number=1,
    partition=(0, ()),
    referenced_file=None,
    offset=None,
    length=None,
    equality_ids=(),
    first=None,
    last=None,
)


def _written(path: Path, ids: tuple[int, ...], rows: list[tuple[Any, ...]], group: int = 3) -> str:
    fields = [pa.field(f"c.{id_}", TYPES[id_], metadata={FIELD_ID: str(id_)}) for id_ in ids]
    columns = [
        pa.array([row[at] for row in rows], pa.binary(16)).cast(TYPES[id_])
        if isinstance(TYPES[id_], pa.UuidType)
        else pa.array([row[at] for row in rows], TYPES[id_])
        for at, id_ in enumerate(ids)
    ]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path, row_group_size=group)
    return str(path)


def _alike(value: Any) -> Any:
    """Java's equality: one NaN, two zeros."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


@pytest.mark.slow
@given(data=st.data())
def test_deleted_rows_are_those_that_an_older_file_shares_with_a_delete(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("equal")
    held = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    ids = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True)

    def rows(of: list[int]) -> list[tuple[Any, ...]]:
        return data.draw(st.lists(st.tuples(*(st.sampled_from(KINDS[id_][1]) for id_ in of)), max_size=8))

    file_rows = rows(held)
    deletes: list[tuple[DeleteFile, list[int], list[tuple[Any, ...]]]] = []
    for number in range(data.draw(st.integers(1, 4))):
        of = data.draw(st.just(held) | ids)
        deleted = rows(of)
        path = _written(folder / f"d{number}.parquet", tuple(of), deleted)
        sequence = data.draw(st.integers(3, 7))
        made = replace(DELETE, path=path, equality_ids=tuple(of), sequence_number=sequence)
        deletes.append((made, of, deleted))
    expected = [
        position
        for position, row in enumerate(file_rows)
        if any(
            made.sequence_number > 5
            and all(
                _alike(dict(zip(held, row, strict=True)).get(id_)) == _alike(value)
                for id_, value in zip(of, each, strict=True)
            )
            for made, of, deleted in deletes
            for each in deleted
        )
    ]
    uri = _written(folder / "data.parquet", tuple(held), file_rows)
    reading = EqualityDeletes(LEAVES, str(folder), {})
    found = reading.positions(DataFile(uri, 0, 5, {}), frozenset(made for made, _, _ in deletes))
    assert found.tolist() == expected


def test_a_column_that_its_partition_alone_has_is_compared_by_that(tmp_path: Path) -> None:
    data = _written(tmp_path / "data.parquet", (1,), [(1,), (2,)])
    delete = _written(tmp_path / "delete.parquet", (1, 5), [(1, Decimal("-1.500")), (2, None)])
    made = replace(DELETE, path=delete, equality_ids=(1, 5), sequence_number=9)
    reading = EqualityDeletes(LEAVES, str(tmp_path), {})
    unscaled = (-1500).to_bytes(4, "big", signed=True)
    assert reading.positions(DataFile(data, 0, 5, {5: unscaled}), frozenset([made])).tolist() == [0]
    assert reading.positions(DataFile(data, 0, 5, {5: None}), frozenset([made])).tolist() == [1]


@pytest.mark.parametrize("id_", KINDS)
def test_a_column_that_a_file_lacks_is_compared_by_its_default(tmp_path: Path, id_: int) -> None:
    """A NULL struct has no fields, so no default applies to them."""
    field = pa.field("new", TYPES[id_], metadata={FIELD_ID: str(id_)})
    values = pa.array([KINDS[id_][1][1]], pa.binary(16) if id_ == 9 else TYPES[id_]).cast(TYPES[id_])
    mask = pa.array([False, True, False])
    boxes = pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["old"], mask=mask)
    box = pa.field("box", boxes.type, metadata={FIELD_ID: "90"})
    pq.write_table(pa.table([boxes], schema=pa.schema([box])), tmp_path / "data.parquet")
    file = DataFile(str(tmp_path / "data.parquet"), 0, 5, {})
    made = replace(DELETE, path=str(tmp_path / "delete.parquet"), equality_ids=(id_,), sequence_number=9)

    def removed(deleted: pa.Array[Any], above: tuple[int, ...] = (), is_null: bool = False) -> list[int]:
        told = pa.field("box", deleted.type, metadata={FIELD_ID: "90"}) if above else field
        pq.write_table(pa.table([deleted], schema=pa.schema([told])), tmp_path / "delete.parquet")
        leaf = LeafField(TYPES[id_], above, values[0])
        reading = EqualityDeletes({id_: leaf}, str(tmp_path), {})
        known = replace(file, constants={id_: None} if is_null else {})
        return reading.positions(known, frozenset([made])).tolist()

    absent = pa.array([None], TYPES[id_])
    assert removed(values) == [0, 1, 2]
    assert removed(absent) == []
    assert removed(absent, is_null=True) == [0, 1, 2]
    assert removed(values, is_null=True) == []
    assert removed(pa.StructArray.from_arrays([values], fields=[field]), (90,)) == [0, 2]
    assert removed(pa.StructArray.from_arrays([absent], fields=[field]), (90,)) == []
    nothing = pa.StructArray.from_arrays([absent], fields=[field], mask=pa.array([True]))
    assert removed(nothing, (90,)) == [1]


@pytest.mark.parametrize(
    ("ids", "named", "message"),
    [
        ((1,), (1, 2), "lacks column 2"),
        ((1,), (), "without their columns"),
        ((1,), (77,), "by column 77, which the table never had"),
    ],
)
def test_deletes_that_cannot_be_applied_are_an_error(
    tmp_path: Path, ids: tuple[int, ...], named: tuple[int, ...], message: str
) -> None:
    data = _written(tmp_path / "data.parquet", (1,), [(1,), (2,)])
    delete = _written(tmp_path / "delete.parquet", ids, [(1,)])
    reading = EqualityDeletes(LEAVES, str(tmp_path), {})
    file = DataFile(data, 0, 5, {})
    good = replace(DELETE, path=delete, equality_ids=(1,), sequence_number=9)
    with pytest.raises(TableError, match=message):
        reading.positions(file, frozenset([replace(good, equality_ids=named)]))
    with pytest.raises(TableError, match="is missing"):
        reading.positions(file, frozenset([replace(good, path=f"{delete}-gone")]))
    with pytest.raises(TableError, match="of format AVRO"):
        reading.positions(file, frozenset([replace(good, format="AVRO")]))


def test_columns_of_a_file_without_field_ids_are_found_by_the_name_mapping_else_by_position(
    tmp_path: Path,
) -> None:
    pq.write_table(pa.table({"other": [2, 1, 7], "c.1": [1, 2, 3]}), tmp_path / "data.parquet")
    delete = _written(tmp_path / "delete.parquet", (1,), [(1,)])
    made = replace(DELETE, path=delete, equality_ids=(1,), sequence_number=9)
    file = DataFile(str(tmp_path / "data.parquet"), 0, 5, {})
    mapping = read_name_mapping('[{"field-id": 1, "names": ["gone", "c.1"]}]', "t")
    for known, expected in ((mapping, [0]), (None, [1])):
        reading = EqualityDeletes(LEAVES, str(tmp_path), {}, known)
        assert reading.positions(file, frozenset([made])).tolist() == expected


@pytest.mark.parametrize(
    ("data", "delete", "meets"),
    [((b"\0",), (b"",), False), ((b"\0",), (b"\0",), True), ((-0.0,), (0.0,), False), ((1.5,), (1.5,), True)],
)
def test_equality_deletes_meet_files_of_their_own_partition(
    data: tuple[Any, ...], delete: tuple[Any, ...], meets: bool
) -> None:
    plan = DeletePlan(binary=frozenset([(0, 0)]) if isinstance(data[0], bytes) else frozenset())
    plan.add(replace(DELETE, partition=(0, delete), sequence_number=2), is_partitioned=True)
    assert (plan.of("a", 1, (0, data)) is not None) == meets
    assert plan.of("a", 2, (0, data)) is None, "it is no newer than the file"
    assert plan.of("a", 1, (1, data)) is None, "it is of another spec"


def test_equality_deletes_without_partitions_meet_all_files() -> None:
    plan = DeletePlan()
    plan.add(replace(DELETE, sequence_number=2), is_partitioned=False)
    assert plan.of("a", 1, (4, ("x",))) is not None


def test_rows_that_are_deleted_are_known_where_a_vector_is_all_there_is() -> None:
    vector = replace(
        DELETE, content=POSITION_DELETES, format="PUFFIN", rows=7, referenced_file="a", offset=4, length=40
    )
    positions = replace(vector, format="PARQUET")
    known: list[tuple[DeletesOf | None, int]] = [
        (None, 0),
        (DeletesOf((vector,)), 7),
        (DeletesOf((replace(vector, rows=0),)), 0),
        (DeletesOf((vector,), (DELETE,)), -1),
        (DeletesOf((), (DELETE,)), -1),
        (DeletesOf((positions,)), -1),
        (DeletesOf((replace(positions, referenced_file=None),)), -1),
        (DeletesOf((vector, replace(vector, offset=44))), -1),
        (DeletesOf((replace(vector, referenced_file="b"),)), -1),
        (DeletesOf((replace(vector, referenced_file=None),)), -1),
    ]
    by_value = ByValue([], [], [], {}, {})
    deletes = IcebergDeletes([each for each, _ in known], ["a"] * len(known), "", {}, by_value)
    assert deletes.counts.tolist() == [count for _, count in known]
