"""What the Iceberg REST catalog's OpenAPI description (version 0.0.1, OpenAPI 3.1.1) says of answers, as checks.

Source: schemas of apache/iceberg, open-api/rest-catalog-open-api.yaml, written down anew for the answers that the
catalog gives. An answer may have no name that the description lacks, but for those in `BEYOND`: a name that is written
wrong would pass otherwise, since hardly any is required.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_WRITES: Final = (
    "INSERT INTO {table} SELECT * FROM {table}",
    "INSERT OVERWRITE {table} SELECT * FROM {table}",
    "DELETE FROM {table} WHERE id = 5",
    "DELETE FROM {table}",
    "TRUNCATE TABLE {table}",
    "UPDATE {table} SET id = 7 WHERE id = 5",
    "MERGE INTO {table} t USING (SELECT 5 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "DROP TABLE {table}",
    "DROP TABLE {table} PURGE",
    "CREATE TABLE {table}_too (id INT) USING iceberg",
    "CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT * FROM {table}",
    "ALTER TABLE {table} ADD COLUMN y INT",
    "ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled'='true')",
    "ALTER TABLE {table} CREATE TAG now",
    "ALTER TABLE {table} RENAME TO lake.web.else",
    "CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
    "CALL lake.system.rewrite_manifests('{name}')",
    "CALL lake.system.rewrite_position_delete_files('{name}')",
    "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00')",
    "CALL lake.system.remove_orphan_files(table => '{name}', older_than => TIMESTAMP '2020-01-01 00:00:00')",
    "CALL lake.system.remove_orphan_files(table => '{name}', location => '{root}')",
    "CALL lake.system.add_files(table => '{name}', source_table => '`parquet`.`{root}`')",
    "CALL lake.system.register_table(table => 'web.other', metadata_file => '{root}/x.metadata.json')",
)
"""What a user of Spark may try, by the table, its name in the catalog and its real folder: none may change anything."""

REFUSALS: Final = re.compile(r"read-only|not served|GC is disabled|/dev/null|does not support|not supported")
"""What a refusal may say: the catalog's own sentence, that nothing is deleted, or that there is no place to write."""

HARMLESS: Final = ("CALL lake.system.rewrite_position_delete_files",)
"""What finds nothing to do."""

Check = Callable[[Any, str], Iterator[str]]

BEYOND: Final = frozenset({"referenced-data-file"})
"""Names that Iceberg's Java library writes and reads, and its description lacks."""

LONG: Final = 2**63


def attach_catalog(session: SparkSession, url: str, *, cached: bool = False) -> None:
    """Let a session know the catalog of a service as `lake`, by its URL alone.

    Files are written by Hadoop's own local file system. To delete what was refused to be written below `/dev/null` is
    an error in the small one of other tests, which Iceberg repeats for eight seconds.

    Args:
        session: a session of its own, whose settings nobody shares.
        url: of the catalog.
        cached: whether tables that are loaded are kept, as Spark does unless it is told otherwise.
    """
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": url,
        ".cache-enabled": f"{cached}".lower(),
        ".hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        ".hadoop.fs.file.impl.disable.cache": "true",
    }.items():
        session.conf.set(f"spark.sql.catalog.lake{name}", value)


def refuses_all_writes(session: SparkSession, name: str, root: Path) -> None:
    """Assert that none of the statements changes a table of the catalog `lake`, and that each says why."""
    before = _content(root)
    for statement in SPARK_WRITES:
        made = statement.format(table=f"lake.{name}", name=name, root=root)
        try:
            session.sql(made).collect()
        except Exception as error:
            refused = f"{error}"
            assert REFUSALS.search(refused), (made, refused[:2000])
        else:
            assert made.startswith(HARMLESS), made
        assert _content(root) == before, made


def _content(root: Path) -> dict[str, str]:
    return {
        f"{each}": hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(root.parent.rglob("*"))
        if each.is_file()
    }


def problems(schema: str, answer: Any) -> list[str]:
    """What of an answer is not as its schema has it: each place with what is wrong there."""
    return list(_named(schema)(answer, schema))


def _named(name: str) -> Check:
    return lambda value, place: SCHEMAS[name](value, place)  # noqa: PLW0108 - it refers to those that follow


def _scalar(type_: type, what: str) -> Check:
    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
            yield f"{place}: {value!r} is no {what}"
        elif type_ is int and not -LONG <= value < LONG:
            yield f"{place}: {value} has more than 64 bits"

    return check


def _one_of(*values: Any) -> Check:
    def check(value: Any, place: str) -> Iterator[str]:
        if value not in values:
            yield f"{place}: {value!r} is none of {values}"

    return check


def _text(pattern: str) -> Check:
    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
            yield f"{place}: {value!r} is not of the form {pattern}"

    return check


def _list(item: Check, *, unique: bool = False) -> Check:
    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
            return
        each: Any
        for at, each in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from item(each, f"{place}[{at}]")
        if unique and len({repr(each) for each in value}) < len(value):  # pyright: ignore
            yield f"{place}: has an item twice"

    return check


def _map(item: Check) -> Check:
    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place}: {value!r} is no object"
            return
        name: Any
        each: Any
        for name, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from item(each, f"{place}.{name}")

    return check


def _object(required: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    known = required | (optional or {})

    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place}: {value!r} is no object"
            return
        yield from (f"{place}: lacks {name}" for name in required if name not in value)
        name: Any
        each: Any
        for name, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            if name in known:
                yield from known[name](each, f"{place}.{name}")
            elif name not in BEYOND:
                yield f"{place}: has {name}, which is unknown"

    return check


def _by(name: str, kinds: dict[str, Check]) -> Check:
    """An object whose kind stands in one of its values."""

    def check(value: Any, place: str) -> Iterator[str]:
        kind: Any = value.get(name) if isinstance(value, dict) else None  # pyright: ignore
        if kind in kinds:
            yield from kinds[kind](value, place)
        else:
            yield f"{place}: {name} is {kind!r}, none of {sorted(kinds)}"

    return check


def _type(value: Any, place: str) -> Iterator[str]:
    nested = isinstance(value, dict)
    yield from (_named("NestedType") if nested else _text(PRIMITIVE))(value, place)


def _primitive_value(value: Any, place: str) -> Iterator[str]:
    # NULL is none by the description, and Java's library writes and reads it in partitions.
    if value is not None and not isinstance(value, bool | int | float | str):
        yield f"{place}: {value!r} is no value of a primitive type"


PRIMITIVE: Final = (
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|timestamp_ns|timestamptz_ns|string|uuid|binary|"
    r"fixed\[\d+\]|decimal\(\d+, ?\d+\)|variant|unknown|geometry.*|geography.*"
)
TRANSFORM: Final = r"identity|year|month|day|hour|void|bucket\[\d+\]|truncate\[\d+\]"
_STRING, _INT, _BOOL = _scalar(str, "text"), _scalar(int, "whole number"), _scalar(bool, "truth value")
_STRINGS = _map(_STRING)
_FIELDS: dict[str, Check] = {"fields": _list(_named("StructField"))}
_STRUCT: dict[str, Check] = {"type": _one_of("struct"), **_FIELDS}
_LEAF: dict[str, Check] = {"type": _STRING, "term": _named("Term")}
_FILE: dict[str, Check] = {
    "content": _STRING,
    "file-path": _STRING,
    "file-format": _one_of("avro", "orc", "parquet", "puffin"),
    "spec-id": _INT,
    "partition": _list(_primitive_value),
    "file-size-in-bytes": _INT,
    "record-count": _INT,
}
_FILE_MAY: dict[str, Check] = {"split-offsets": _list(_INT), "sort-order-id": _INT}
_TASKS: dict[str, Check] = {
    "delete-files": _list(_named("DeleteFile")),
    "file-scan-tasks": _list(_named("FileScanTask")),
    "plan-tasks": _list(_STRING),
}
_MOMENT: dict[str, Check] = {"timestamp-ms": _INT}

SCHEMAS: Final[dict[str, Check]] = {
    "CatalogConfig": _object(
        {"defaults": _STRINGS, "overrides": _STRINGS},
        {
            "endpoints": _list(_text(r"(GET|POST|HEAD|DELETE) /v1/\S+")),
            "idempotency-key-lifetime": _STRING,
        },
    ),
    "ListNamespacesResponse": _object({}, {"namespaces": _list(_list(_STRING), unique=True)}),
    "GetNamespaceResponse": _object({"namespace": _list(_STRING)}, {"properties": _STRINGS}),
    "ListTablesResponse": _object(
        {}, {"identifiers": _list(_object({"namespace": _list(_STRING), "name": _STRING}), unique=True)}
    ),
    "LoadCredentialsResponse": _object({"storage-credentials": _list(_named("StorageCredential"))}),
    "StorageCredential": _object({"prefix": _STRING, "config": _STRINGS}),
    "LoadTableResult": _object(
        {"metadata": _named("TableMetadata")},
        {
            "metadata-location": _STRING,
            "config": _STRINGS,
            "storage-credentials": _list(_named("StorageCredential")),
        },
    ),
    "TableMetadata": _object(
        {"format-version": _one_of(1, 2, 3), "table-uuid": _STRING},
        {
            "location": _STRING,
            "last-updated-ms": _INT,
            "next-row-id": _INT,
            "properties": _STRINGS,
            "schemas": _list(_named("Schema")),
            "schema": _named("Schema"),
            "current-schema-id": _INT,
            "last-column-id": _INT,
            "partition-specs": _list(_named("PartitionSpec")),
            "partition-spec": _list(_named("PartitionField")),
            "default-spec-id": _INT,
            "last-partition-id": _INT,
            "sort-orders": _list(_named("SortOrder")),
            "default-sort-order-id": _INT,
            "snapshots": _list(_named("Snapshot")),
            "refs": _map(
                _object({"type": _one_of("tag", "branch"), "snapshot-id": _INT}, {"max-ref-age-ms": _INT})
            ),
            "current-snapshot-id": _INT,
            "last-sequence-number": _INT,
            "snapshot-log": _list(_object({"snapshot-id": _INT, **_MOMENT})),
            "metadata-log": _list(_object({"metadata-file": _STRING, **_MOMENT})),
            "statistics": _list(_object({})),
            "partition-statistics": _list(_object({})),
        },
    ),
    "Snapshot": _object(
        {
            "snapshot-id": _INT,
            **_MOMENT,
            "manifest-list": _STRING,
            "summary": _named("Summary"),
        },
        {
            "parent-snapshot-id": _INT,
            "sequence-number": _INT,
            "schema-id": _INT,
            "first-row-id": _INT,
            "added-rows": _INT,
        },
    ),
    "Summary": lambda value, place: (
        yield from [
            *_STRINGS(value, place),
            *_one_of("append", "replace", "overwrite", "delete")(value.get("operation"), place),
        ]
    ),
    "Schema": _object(_STRUCT, {"schema-id": _INT, "identifier-field-ids": _list(_INT)}),
    "StructField": _object(
        {"id": _INT, "name": _STRING, "type": _type, "required": _BOOL},
        {"doc": _STRING, "initial-default": _primitive_value, "write-default": _primitive_value},
    ),
    "NestedType": _by(
        "type",
        {
            "struct": _object(_STRUCT),
            "list": _object(
                {"type": _STRING, "element-id": _INT, "element": _type, "element-required": _BOOL}
            ),
            "map": _object(
                {
                    "type": _STRING,
                    "key-id": _INT,
                    "key": _type,
                    "value-id": _INT,
                    "value": _type,
                    "value-required": _BOOL,
                }
            ),
        },
    ),
    "PartitionSpec": _object({"fields": _list(_named("PartitionField"))}, {"spec-id": _INT}),
    "PartitionField": _object(
        {"source-id": _INT, "transform": _text(TRANSFORM), "name": _STRING}, {"field-id": _INT}
    ),
    "SortOrder": _object({"order-id": _INT, "fields": _list(_named("SortField"))}),
    "SortField": _object(
        {
            "source-id": _INT,
            "transform": _text(TRANSFORM),
            "direction": _one_of("asc", "desc"),
            "null-order": _one_of("nulls-first", "nulls-last"),
        }
    ),
    "PlanTableScanResult": _by(
        "status",
        {
            "completed": _object({"status": _STRING, "plan-id": _STRING}, _TASKS),
            "submitted": _object({"status": _STRING, "plan-id": _STRING}),
        },
    ),
    "FetchPlanningResult": _by(
        "status",
        {
            "completed": _object({"status": _STRING}, _TASKS),
            "submitted": _object({"status": _STRING}),
            "cancelled": _object({"status": _STRING}),
        },
    ),
    "FetchScanTasksResult": _object({}, _TASKS),
    "FileScanTask": _object(
        {"data-file": _named("DataFile")},
        {"delete-file-references": _list(_INT), "residual-filter": _named("Expression")},
    ),
    "DataFile": _object(_FILE | {"content": _one_of("data")}, _FILE_MAY | {"first-row-id": _INT}),
    "DeleteFile": _by(
        "content",
        {
            "position-deletes": _object(
                _FILE, _FILE_MAY | {"content-offset": _INT, "content-size-in-bytes": _INT}
            ),
            "equality-deletes": _object(_FILE, _FILE_MAY | {"equality-ids": _list(_INT)}),
        },
    ),
    "Expression": _by(
        "type",
        {
            **dict.fromkeys(("true", "false"), _object({"type": _STRING})),
            **dict.fromkeys(
                ("and", "or"),
                _object({"type": _STRING, "left": _named("Expression"), "right": _named("Expression")}),
            ),
            "not": _object({"type": _STRING, "child": _named("Expression")}),
            **dict.fromkeys(("is-null", "not-null", "is-nan", "not-nan"), _object(_LEAF)),
            **dict.fromkeys(("in", "not-in"), _object(_LEAF | {"values": _list(_primitive_value)})),
            **dict.fromkeys(
                ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with"),
                _object(_LEAF | {"value": _primitive_value}),
            ),
        },
    ),
    "Term": lambda value, place: (
        _STRING(value, place)
        if isinstance(value, str)
        else _object({"type": _one_of("transform"), "transform": _text(TRANSFORM), "term": _STRING})(
            value, place
        )
    ),
    "IcebergErrorResponse": _object({"error": _named("ErrorModel")}),
    "ErrorModel": _object({"message": _STRING, "type": _STRING, "code": _INT}, {"stack": _list(_STRING)}),
}
