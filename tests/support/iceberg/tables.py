"""Iceberg tables that pyiceberg writes: every transform, evolved schemas and specs, deletes that rewrite files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform

_NOON = datetime(1969, 12, 30, 12, tzinfo=UTC)
ROWS = 24


def _name(n: int) -> str | None:
    """Texts of which many share their first characters, and most are longer than bounds are."""
    return None if n % 9 == 4 else f"{'ÄäZz'[n % 4]}{'lang und breit ' * 3}{n // 3:03d}"


COLUMNS: dict[str, tuple[iceberg.IcebergType, Callable[[int], Any]]] = {
    "id": (iceberg.LongType(), lambda n: n),
    "number": (iceberg.IntegerType(), lambda n: n * 7 - 60 if n % 5 else None),
    "small": (iceberg.FloatType(), lambda n: [0.1, -0.0, 0.0, float("nan"), 3.5, None][n % 6]),
    "x": (iceberg.DoubleType(), lambda n: float("nan") if n % 17 == 3 else None if n % 7 == 0 else n / 4 - 9),
    "price": (
        iceberg.DecimalType(20, 3),
        lambda n: None if n % 11 == 0 else Decimal(n * 125 - 4000).scaleb(-3),
    ),
    "day": (iceberg.DateType(), lambda n: None if n % 13 == 0 else date(1969, 12, 1) + timedelta(days=3 * n)),
    "at": (iceberg.TimestamptzType(), lambda n: _NOON + timedelta(hours=5 * n, microseconds=n)),
    "wall": (iceberg.TimestampType(), lambda n: (_NOON + timedelta(hours=7 * n)).replace(tzinfo=None)),
    "clock": (iceberg.TimeType(), lambda n: time(n % 24, 30, 0, n)),
    "name": (
        iceberg.StringType(),
        _name,
    ),
    "flag": (iceberg.BooleanType(), lambda n: [True, False, None][n % 3]),
    "raw": (iceberg.BinaryType(), lambda n: bytes([n % 256, 255, n % 7])),
    "key": (iceberg.UUIDType(), lambda n: UUID(int=(n * 0x9E3779B97F4A7C15) << 40).bytes),
    "box": (
        iceberg.StructType(
            iceberg.NestedField(101, "a", iceberg.IntegerType(), required=False),
            iceberg.NestedField(102, "b", iceberg.StringType(), required=False),
        ),
        lambda n: None if n % 8 == 1 else {"a": n, "b": None if n % 4 == 0 else f"b{n}"},
    ),
    "many": (
        iceberg.ListType(103, iceberg.LongType(), element_required=False),
        lambda n: None if n % 6 == 0 else list(range(n % 4)),
    ),
}
"""Columns by name: their type, and the value of row n."""

SPECS: dict[str, tuple[tuple[str, str], ...]] = {
    "unpartitioned": (),
    "identity": (("number", "identity"),),
    "months": (("day", "month"), ("id", "bucket[3]")),
    "hours": (("at", "hour"),),
    "buckets": (("number", "bucket[4]"),),
    "texts": (("name", "truncate[2]"), ("price", "truncate[1000]")),
    "years": (("wall", "year"), ("flag", "identity")),
}
"""Partition specs by name: source columns and transforms."""


class IcebergLake:
    """A catalog in a folder, and tables in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("ns")

    def create(self, name: str, spec: str = "unpartitioned", version: int = 2) -> Table:
        """Make an empty table of all columns."""
        fields = [
            iceberg.NestedField(number, column, type_, required=False)
            for number, (column, (type_, _)) in enumerate(COLUMNS.items(), 1)
        ]
        ids = {each.name: each.field_id for each in fields}
        parts = [
            PartitionField(ids[source], 1000 + number, parse_transform(transform), f"p{number}")
            for number, (source, transform) in enumerate(SPECS[spec])
        ]
        properties = {"format-version": str(version)}
        return self.catalog.create_table(
            f"ns.{name}",
            Schema(*fields),
            partition_spec=PartitionSpec(*parts),
            properties=properties,
        )


def rows(table: Table, numbers: range) -> pa.Table:
    """Rows by their numbers, as the table has its columns now; one that was added since repeats the row's number."""
    schema = table.schema().as_arrow()
    columns = {
        field.name: pa.array([_value(field.name, field.type, n) for n in numbers], field.type)
        for field in schema
    }
    return pa.table(columns, schema=schema)


def changed(lake: IcebergLake, spec: str, version: int) -> Table:
    """Make a table of some spec whose columns, partitions and rows have changed."""
    made = lake.create(f"{spec}_{version}", spec, version)
    for start in range(0, 2 * ROWS, ROWS // 2):
        made.append(rows(made, range(start, start + ROWS // 2)))
    made.delete("id = 7 or number = 150")
    with made.update_schema() as schema:
        schema.rename_column("id", "key_")
        schema.update_column("number", iceberg.LongType())
        schema.update_column("small", iceberg.DoubleType())
        schema.delete_column("many")
        schema.add_column("added", iceberg.IntegerType())
    with made.update_spec() as parts:
        for number in range(len(SPECS[spec])):
            parts.remove_field(f"p{number}")
        parts.add_field("name", "truncate[4]", "texts")
        parts.add_field("at", "day", "days")
    for start in range(2 * ROWS, 4 * ROWS, ROWS):
        made.append(_renamed(made, range(start, start + ROWS)))
    made.delete("key_ = 60")
    return made


def _renamed(table: Table, numbers: range) -> pa.Table:
    """Rows as the table has its columns now: `key_` was `id`."""
    found = rows(table, numbers)
    place = found.column_names.index("key_")
    field = found.schema.field(place)
    return found.set_column(place, field, pa.array(list(numbers), field.type))


def _value(name: str, type_: pa.DataType, n: int) -> Any:
    known = COLUMNS.get(name)
    if known is None:
        return str(n) if pa.types.is_large_string(type_) or pa.types.is_string(type_) else n
    return known[1](n)


def give_default(root: Path, name: str, default: Any) -> None:
    """Give a column a default as a writer of version 3 does when it adds one, which Spark 3.5 cannot say in SQL."""
    hint = root / "metadata" / "version-hint.text"
    version = int(hint.read_text())
    metadata = json.loads((root / "metadata" / f"v{version}.metadata.json").read_text())
    for schema in metadata["schemas"]:
        for each in schema["fields"]:
            if each["name"] == name:
                each["initial-default"] = each["write-default"] = default
    (root / "metadata" / f"v{version + 1}.metadata.json").write_text(json.dumps(metadata))
    hint.write_text(str(version + 1))
