"""Fields of Hudi tables: defaults, partition columns, and names that moved between columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pruner.errors import TableError
from pruner.tables.hudi.properties import HudiProperties
from pruner.tables.hudi.schema import SchemaHistory, table_schema
from pruner.tables.hudi.source import hudi_partitions

ARROW = pa.schema(
    {
        "id": pa.int32(),
        "city": pa.string(),
        "at": pa.int64(),
        "day": pa.date32(),
        "place": pa.struct([("name", pa.string()), ("zip", pa.int32())]),
    }
)


def properties(partition: str = "city", generator: str = "SIMPLE", **more: str) -> HudiProperties:
    values = {"hoodie.table.partition.fields": partition, "hoodie.table.keygenerator.type": generator}
    values["hoodie.datasource.write.hive_style_partitioning"] = "true"
    return HudiProperties(
        values | {"hoodie." + name.replace("__", "."): text for name, text in more.items()}, b""
    )


def avro(**defaults: Any) -> str:
    fields = [
        {"name": name, "type": ["null", "string"], "default": None} for name in ARROW.names if name != "place"
    ]
    place = {
        "type": "record",
        "name": "p",
        "fields": [{"name": "zip", "type": "int", "default": defaults.pop("zip", None)}],
    }
    fields.append({"name": "place", "type": ["null", place], "default": None})
    for field in fields:
        field["default"] = defaults.get(field["name"])
    return json.dumps({"type": "record", "name": "t", "fields": fields})


def history(*versions: list[tuple[int, str, Any]]) -> bytes:
    schemas = [
        {
            "version_id": number,
            "type": "record",
            "fields": [{"id": id_, "name": name, "type": type_} for id_, name, type_ in version],
        }
        for number, version in enumerate(versions)
    ]
    return json.dumps({"schemas": schemas}).encode()


def conflicts(*versions: list[tuple[int, str, Any]]) -> dict[str, str]:
    """Why a name may mean another column in older files."""
    schema = table_schema(ARROW, avro(), SchemaHistory(history(*versions), "t"), properties(), "t")
    return {entry.name: entry.dispute for entry in schema if entry.dispute}


def test_partition_columns_are_in_the_files_unless_dropped():
    schema = table_schema(ARROW, avro(), None, properties(), "t")
    assert [(f.name, f.in_file) for f in schema if f.partition] == [("city", True)]
    dropped = properties(datasource__write__drop__partition__columns="true")
    assert [(f.name, f.in_file) for f in table_schema(ARROW, avro(), None, dropped, "t") if f.partition] == [
        ("city", False)
    ]
    assert schema.find(("place", "zip")).type == pa.int32()


def test_columns_with_a_default_do_not_read_as_null_where_they_are_absent():
    schema = table_schema(ARROW, avro(at=0, zip=10115), None, properties(), "t")
    assert {f.name for f in schema if not f.absent_is_null} == {"at", "place.zip"}


def test_names_that_differ_in_case_alone_are_in_conflict():
    arrow = pa.schema({"id": pa.int32(), "ID": pa.int32(), "city": pa.string()})
    schema = table_schema(arrow, avro(), None, properties(), "t")
    assert [f.name for f in schema if f.conflict] == ["id", "ID"]


def test_a_history_without_surprises():
    first = [(0, "id", "int"), (1, "city", "string"), (2, "at", "int")]
    assert conflicts(first, [*first[:2], (2, "at", "long"), (3, "day", "date")]) == {}


def test_a_renamed_column_and_one_made_anew():
    first = [(0, "id", "int"), (1, "city", "string"), (2, "day", "date")]
    second = [(0, "id", "int"), (1, "at", "string"), (3, "day", "date")]
    assert conflicts(first, second) == {
        "at": "it was renamed from 'city', the name that older files have",
        "day": "an earlier column 'day' was dropped, and older files hold that one",
    }


def test_a_name_that_two_columns_exchanged():
    assert set(conflicts([(0, "id", "int"), (1, "at", "int")], [(1, "id", "int"), (0, "at", "int")])) == {
        "id",
        "at",
    }


@pytest.mark.parametrize(
    ("old", "new"), [("float", "double"), ("int", "string"), ("long", "int"), ("int", "double")]
)
def test_types_that_changed_what_files_hold(old: str, new: str):
    assert "at" in conflicts([(0, "at", old)], [(0, "at", new)])


FIRST = [(0, "id", "int"), (1, "city", "string"), (2, "day", "date")]
SECOND = [(0, "id", "int"), (1, "at", "string"), (2, "day", "date")]
THIRD = [*SECOND, (3, "city", "string")]


def _since(*versions: list[tuple[int, str, Any]]) -> dict[str, str]:
    read = SchemaHistory(history(*versions), "t")
    return {".".join(path): since.instant.rstrip("9") for path, since in read.changes.items()}


def test_a_column_is_itself_since_the_version_that_named_it():
    assert _since(FIRST, SECOND, THIRD) == {"at": "1", "city": "2"}
    assert _since(FIRST, THIRD, SECOND, THIRD) == {"at": "1", "city": "3"}
    assert _since(FIRST, SECOND, FIRST) == {"city": "2"}
    assert _since([(0, "at", "int")], [(0, "at", "string")], [(0, "at", "string")]) == {"at": "1"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([*SECOND, (3, "city", "string"), (4, "more", "int")], {}),
        (SECOND, {"city"}),
        (FIRST, {"at", "city"}),
        ([(1, "at", "int"), (3, "city", "string")], {"at"}),
        (None, {"at", "city"}),
    ],
)
def test_a_write_that_did_not_know_of_the_change_ends_all_trust(written: Any, expected: set[str]):
    """A writer that began before the change and was requested after it: its commit holds the schema that it had."""
    read = SchemaHistory(history(FIRST, SECOND, THIRD), "t")
    arrow = pa.schema({"id": pa.int32(), "at": pa.string(), "city": pa.string(), "day": pa.date32()})
    schema = table_schema(arrow, avro(), read, properties("day"), "t")
    record = "{" if written is None else json.dumps(json.loads(history(written))["schemas"][0])
    later = read.without(schema, "30000101000000000", record)
    assert {field.name for field in later if field.conflict} == set(expected)
    assert read.without(schema, "10000101000000000", record) == schema, (
        "a write from before: its files are out"
    )


def test_a_struct_in_conflict_takes_its_fields_along():
    place = {"type": "record", "fields": [{"id": 5, "name": "name", "type": "string"}]}
    assert set(conflicts([(4, "where", place)], [(4, "place", place)])) == {
        "place",
        "place.name",
        "place.zip",
    }


def test_a_schema_that_is_not_json_is_refused():
    with pytest.raises(TableError, match="is not understood"):
        table_schema(ARROW, "[]", None, properties(), "t")
    with pytest.raises(TableError, match="is not understood"):
        SchemaHistory(b"\xff", "t")


def values(paths: list[str], about: HudiProperties) -> dict[str, list[Any]]:
    found = hudi_partitions(paths, about, table_schema(ARROW, avro(), None, about, "t"))
    assert found.shared == set(found.values)
    return {path[0]: array.to_pylist() for path, array in found.values.items()}


def test_values_of_hive_style_paths():
    assert values(["city=rome", "city=p/q"], properties()) == {"city": ["rome", "p/q"]}
    two = properties("city,id", "COMPLEX")
    assert values(["city=rome/id=1", "city=paris/id=-2"], two) == {"city": ["rome", "paris"], "id": [1, -2]}


def test_values_of_plain_paths():
    plain = {"datasource__write__hive_style_partitioning": "false"}
    assert values(["rome", "a=b"], properties(**plain)) == {"city": ["rome", "a=b"]}
    assert values(["rome/1", "paris/2"], properties("city,id", "COMPLEX", **plain)) == {
        "city": ["rome", "paris"],
        "id": [1, 2],
    }
    assert values(["2013/01/02"], properties("day", **plain)) == {}


def test_values_are_decoded_only_where_they_were_encoded():
    assert values(["city=%252F"], properties()) == {"city": ["%252F"]}
    encoded = properties(datasource__write__partitionpath__urlencode="true")
    assert values(["city=%252F"], encoded) == {"city": ["%2F"]}
    assert values(["city=%2", "city=rome"], encoded) == {}


def test_the_default_partition_holds_null_and_for_strings_the_empty_one_too():
    default = "__HIVE_DEFAULT_PARTITION__"
    assert values([f"city={default}", "city=rome"], properties()) == {}
    assert values([f"id={default}", "id=7"], properties("id")) == {"id": [None, 7]}
    assert values(["city=default", "city=rome"], properties()) == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["id=01", "id=1e3", "id=2147483648", "id=", "id=true", "ID=1", "1"])
def test_texts_that_are_not_the_one_form_of_a_value_say_nothing(path: str):
    assert values([path], properties("id")) == {}


def test_a_column_that_is_not_trusted_takes_no_other_along():
    assert values(["city=rome/id=01"], properties("city,id", "COMPLEX")) == {"city": ["rome"]}
    assert values(["city=rome"], properties("city,id", "COMPLEX")) == {}


@pytest.mark.parametrize("generator", ["TIMESTAMP", "CUSTOM", "", "GLOBAL_DELETE", "NON_PARTITION"])
def test_other_key_generators_say_nothing(generator: str):
    assert values(["day=2013-01-01"], properties("day", generator)) == {}
    assert set(values(["day=2013-01-01"], properties("day"))) == {"day"}
