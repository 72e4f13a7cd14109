"""One schema for files that differ: the closed table of promotions (R7)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pruner.schema import Field
from pruner.tables.footers.file_schemas import promote, unify

PROMOTIONS = """
    int8     int64    int64    ok
    int32    int64    int64    ok
    int64    int32    int64    ok
    uint8    uint32   uint32   ok
    uint8    int8     int16    ok
    uint32   int32    int64    ok
    uint32   int64    int64    ok
    uint64   int64    uint64   conflict
    null     string   string   ok
    string   null     string   ok
    float    double   double   conflict
    double   float    double   conflict
    int32    double   int32    conflict
    int64    string   int64    conflict
    string   binary   string   conflict
    date32   string   date32   conflict
"""


def of_name(name: str) -> pa.DataType:
    return getattr(pa, {"float": "float32", "double": "float64"}.get(name, name))()


@pytest.mark.parametrize("case", [line.split() for line in PROMOTIONS.strip().splitlines()])
def test_promotions(case: list[str]):
    left, right, result, verdict = case
    type_, conflict = promote(of_name(left), of_name(right))
    assert type_ == of_name(result)
    assert (conflict is None) == (verdict == "ok")


def test_decimals_keep_the_wider_precision_and_are_in_conflict():
    assert promote(pa.decimal128(10, 2), pa.decimal128(12, 2))[0] == pa.decimal128(12, 2)
    assert promote(pa.decimal128(10, 2), pa.decimal128(12, 2))[1] is not None
    assert promote(pa.decimal128(10, 2), pa.decimal128(10, 3)) == (
        pa.decimal128(10, 2),
        "files hold both decimal128(10, 2) and decimal128(10, 3)",
    )


def test_timestamps_of_two_units_or_zones_are_in_conflict():
    assert promote(pa.timestamp("ms"), pa.timestamp("us"))[1] is not None
    assert promote(pa.timestamp("us"), pa.timestamp("us", "UTC"))[1] is not None


def _by_name(*schemas: pa.Schema) -> dict[str, Field]:
    return {entry.name: entry for entry in unify(schemas)}


def test_a_column_that_only_later_files_have_stands_behind():
    found = unify(
        [pa.schema({"a": pa.int32(), "b": pa.string()}), pa.schema({"c": pa.int8(), "a": pa.int64()})]
    )
    assert [(entry.name, entry.type, entry.conflict) for entry in found] == [
        ("a", pa.int64(), None),
        ("b", pa.string(), None),
        ("c", pa.int8(), None),
    ]


def test_structs_are_joined_field_by_field():
    one = pa.schema({"s": pa.struct([("x", pa.int32()), ("y", pa.float32())])})
    two = pa.schema({"s": pa.struct([("y", pa.float64()), ("z", pa.string())])})
    found = _by_name(one, two)
    assert found["s"].type == pa.struct([("x", pa.int32()), ("y", pa.float64()), ("z", pa.string())])
    assert found["s"].conflict is None
    assert found["s.x"].conflict is None
    assert (
        found["s.y"].conflict == "files hold both float and double, which engines widen to different values"
    )


def test_a_struct_that_is_something_else_elsewhere_is_in_conflict_with_all_that_is_in_it():
    one = pa.schema({"s": pa.struct([("x", pa.int32())])})
    found = _by_name(one, pa.schema({"s": pa.int64()}))
    assert found["s"].conflict is not None
    assert found["s.x"].conflict is not None


def test_lists_must_be_equal():
    one, two = pa.schema({"l": pa.list_(pa.int32())}), pa.schema({"l": pa.list_(pa.int64())})
    assert _by_name(one, two)["l"].conflict is not None
    assert _by_name(one, one)["l"].conflict is None


def test_names_that_differ_in_case_are_one_field_in_conflict():
    found = unify([pa.schema({"City": pa.string()}), pa.schema({"city": pa.string()})])
    assert [(entry.name, entry.conflict) for entry in found] == [
        ("City", "files spell its name differently: City, city")
    ]


def test_names_that_differ_in_case_within_one_file_are_two_fields_in_conflict():
    found = unify([pa.schema({"City": pa.string(), "city": pa.int32()})])
    assert [entry.name for entry in found] == ["City", "city"]
    assert all(entry.conflict for entry in found)


def _with_ids(**ids: int) -> pa.Schema:
    return pa.schema(
        [pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(id_)}) for name, id_ in ids.items()]
    )


def test_ids_that_stay_with_their_names_are_kept():
    found = _by_name(_with_ids(a=1, b=2), _with_ids(b=2, a=1), pa.schema({"a": pa.int32()}))
    assert (found["a"].field_id, found["a"].conflict) == (1, None)
    assert (found["b"].field_id, found["b"].conflict) == (2, None)


def test_a_name_with_two_ids_and_an_id_with_two_names_are_in_conflict():
    made_anew = _by_name(_with_ids(a=1), _with_ids(a=2))
    assert made_anew["a"].conflict == "files give it different field ids: 1, 2"
    renamed = _by_name(_with_ids(a=1), _with_ids(b=1))
    assert (
        renamed["a"].conflict == renamed["b"].conflict == "files give its field id to different names: a, b"
    )
