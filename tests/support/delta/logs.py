"""Writes Delta tables by hand, action by action, as the protocol has them: also what no writer at hand does."""

from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_B85, _Z85)


@dataclass(frozen=True)
class Column:
    """A column; `physical` is its name in files where that is another one, `fields` are those of a struct."""

    name: str
    type: str
    physical: str = ""
    id: int = 0
    fields: tuple[Column, ...] = ()

    @property
    def stored(self) -> str:
        return self.physical or self.name

    def arrow(self, *, physical: bool = False) -> pa.Field[Any]:
        metadata = {"PARQUET:field_id": str(self.id)} if physical and self.id else None
        if self.fields:
            type_: pa.DataType = pa.struct([each.arrow(physical=physical) for each in self.fields])
        elif self.type.startswith("decimal"):
            type_ = pa.decimal128(*map(int, self.type[8:-1].split(",")))
        else:
            type_ = _TYPES[self.type]
        return pa.field(self.stored if physical else self.name, type_, metadata=metadata)

    def json(self) -> dict[str, Any]:
        mapped = (
            {"delta.columnMapping.physicalName": self.stored, "delta.columnMapping.id": self.id}
            if self.id
            else {}
        )
        type_: Any = (
            {"type": "struct", "fields": [each.json() for each in self.fields]} if self.fields else self.type
        )
        return {"name": self.name, "type": type_, "nullable": True, "metadata": mapped}


def made_up(number: int) -> tuple[str, int]:
    """A physical name as writers of Delta make them, and a column id."""
    return f"col-{uuid.UUID(int=number)}", number


@dataclass
class File:
    """A file of the table: its add action, and the columns by which it was written."""

    add: dict[str, Any]
    columns: tuple[Column, ...]
    deleted: frozenset[int] = frozenset()


@dataclass
class DeltaLog:
    """One table that is written by hand, and what is in it by the writer's own account."""

    root: Path
    columns: tuple[Column, ...]
    partitioned: tuple[str, ...] = ()
    mapping: str = ""
    features: tuple[str, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict[str, str])
    version: int = -1
    files: dict[str, File] = field(default_factory=dict[str, File])
    next_id: int = 100
    int96: bool = False

    def __post_init__(self) -> None:
        (self.root / "_delta_log").mkdir(parents=True)
        self.commit(self.protocol(), self.metadata())

    @property
    def log(self) -> Path:
        return self.root / "_delta_log"

    def protocol(self) -> dict[str, Any]:
        wanted = set(self.features) | ({"columnMapping"} if self.mapping else set())
        if not wanted:
            return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        names = sorted(wanted)
        return {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": names,
                "writerFeatures": names,
            }
        }

    def metadata(self) -> dict[str, Any]:
        schema = {"type": "struct", "fields": [each.json() for each in self.columns]}
        settings = dict(self.configuration)
        if self.mapping:
            settings["delta.columnMapping.mode"] = self.mapping
        return {
            "metaData": {
                "id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(self.root))),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": list(self.partitioned),
                "configuration": settings,
                "createdTime": 0,
            }
        }

    def commit(self, *actions: Mapping[str, Any]) -> Path:
        """Write the next version; what happened stands in front, as Spark writes it."""
        self.version += 1
        path = self.commit_file(self.version)
        path.write_text(
            "".join(json.dumps(each) + "\n" for each in ({"commitInfo": {"operation": "x"}}, *actions))
        )
        return path

    def commit_file(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def append(
        self, *tables: pa.Table, stats: Any = True, values: Mapping[str, str | None] | None = None
    ) -> list[str]:
        """Add a file for each table of rows, without the partition columns, in one commit; return their paths."""
        adds = [self._written(table, stats, values or {}) for table in tables]
        self.commit(*({"add": each} for each in adds))
        return [each["path"] for each in adds]

    def _written(self, table: pa.Table, stats: Any, values: Mapping[str, str | None]) -> dict[str, Any]:
        stored = {each.name: each for each in self.columns if each.name not in self.partitioned}
        of_files = pa.schema([stored[name].arrow(physical=True) for name in table.column_names])
        folder = "".join(
            f"{self._stored(name)}={quote(value or '', safe='')}/" for name, value in values.items()
        )
        name = f"{folder}part-{uuid.uuid4()}.parquet"
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        columns = [table.column(at).cast(each.type) for at, each in enumerate(of_files)]
        rows = pa.table(columns, schema=of_files)
        pq.write_table(rows, self.root / name, use_deprecated_int96_timestamps=self.int96)
        add: dict[str, Any] = {
            "path": quote(name, safe="/="),
            "partitionValues": {self._stored(name): value for name, value in values.items()},
            "size": (self.root / name).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }
        if stats is True:
            add["stats"] = json.dumps(statistics(table, stored))
        elif stats:
            add["stats"] = stats if isinstance(stats, str) else json.dumps(stats)
        self.files[add["path"]] = File(add, tuple(stored.values()))
        return add

    def _stored(self, name: str) -> str:
        return next(each.stored for each in self.columns if each.name == name)

    def remove(self, *paths: str) -> None:
        """Remove files in one commit."""
        self.commit(*({"remove": self._removed(self.files.pop(path).add)} for path in paths))

    def _removed(self, add: Mapping[str, Any]) -> dict[str, Any]:
        vector = {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}
        return {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, **vector}

    def delete(self, positions: Mapping[str, Iterable[int]], kind: str = "u") -> None:
        """Delete rows by vectors: in a file of the table (`u`), by its whole path (`p`) or in the log (`i`)."""
        actions: list[dict[str, Any]] = []
        file, data = uuid.uuid4(), bytearray(b"\x01")
        for path, rows in positions.items():
            held = self.files[path]
            held.deleted |= frozenset(rows)
            content = portable(held.deleted)
            if kind == "i":
                padded = content + b"\0" * (-len(content) % 4)
                place = {"storageType": "i", "pathOrInlineDv": z85(padded)}
            else:
                name = self.root / f"deletion_vector_{file}.bin"
                place = {
                    "storageType": kind,
                    "pathOrInlineDv": z85(file.bytes) if kind == "u" else name.as_uri(),
                    "offset": len(data),
                }
                data += struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
            vector = {**place, "sizeInBytes": len(content), "cardinality": len(held.deleted)}
            actions.append({"remove": self._removed(held.add)})
            stats = json.loads(held.add.get("stats", "{}")) | {"tightBounds": False}
            held.add = {**held.add, "deletionVector": vector, "stats": json.dumps(stats)}
            actions.append({"add": held.add})
        if kind != "i":
            (self.root / f"deletion_vector_{file}.bin").write_bytes(data)
        self.commit(*actions)

    def change(self, change: Callable[[tuple[Column, ...]], tuple[Column, ...]]) -> None:
        """Change the columns: names, types, new ones and dropped ones."""
        self.columns = change(self.columns)
        self.commit(self.metadata())

    def rename(self, old: str, new: str) -> None:
        self.change(
            lambda columns: tuple(replace(each, name=new) if each.name == old else each for each in columns)
        )

    def drop(self, name: str) -> None:
        self.change(lambda columns: tuple(each for each in columns if each.name != name))

    def add_column(self, name: str, type_: str) -> None:
        self.next_id += 1
        mapped = {"physical": f"col-{uuid.uuid4()}", "id": self.next_id} if self.mapping else {}
        self.change(lambda columns: (*columns, Column(name, type_, **mapped)))

    def widen(self, name: str, type_: str) -> None:
        self.change(
            lambda columns: tuple(
                replace(each, type=type_) if each.name == name else each for each in columns
            )
        )

    def actions(self) -> list[dict[str, Any]]:
        """What a checkpoint of this version holds."""
        return [self.protocol(), self.metadata(), *({"add": each.add} for each in self.files.values())]

    def rows(self) -> pa.Table:
        """What the table holds, by this account."""
        schema = pa.schema([each.arrow() for each in self.columns])
        tables: list[pa.Table] = [schema.empty_table()]
        for held in self.files.values():
            from urllib.parse import unquote

            table = pq.read_table(self.root / unquote(held.add["path"]), partitioning=None)
            keep = np.ones(table.num_rows, np.bool_)
            keep[list(held.deleted)] = False
            table = table.filter(pa.array(keep))
            tables.append(pa.table([self._as_now(each, table, held) for each in self.columns], schema=schema))
        return pa.concat_tables(tables)

    def _as_now(self, column: Column, table: pa.Table, held: File) -> Any:
        type_ = column.arrow().type
        if column.name in self.partitioned:
            text = held.add["partitionValues"].get(column.stored)
            return pa.array([text] * table.num_rows, pa.string()).cast(type_)
        if column.stored not in table.column_names:
            return pa.nulls(table.num_rows, type_)
        found = table.column(column.stored).combine_chunks()
        return _renamed(found, column) if column.fields else found.cast(type_)


def _renamed(array: Any, column: Column) -> Any:
    held = {each.name for each in array.type}
    children = [
        array.field(each.stored).cast(each.arrow().type)
        if each.stored in held
        else pa.nulls(len(array), each.arrow().type)
        for each in column.fields
    ]
    fields = [each.arrow() for each in column.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def portable(rows: Iterable[int]) -> bytes:
    """A deletion vector in its portable form."""
    return struct.pack("<i", 1_681_511_377) + pyroaring.BitMap64(rows).serialize()


def z85(data: bytes) -> str:
    return base64.b85encode(data).translate(_TO_Z85).decode()


def statistics(table: pa.Table, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Statistics as Spark writes them: bounds cut to milliseconds and to 32 characters, NaN the greatest number."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name in table.column_names:
        column = columns[name]
        found = _of_values(table.column(name).to_pylist(), column)
        for kind, value in zip((low, high, nulls), found, strict=True):
            if value is not None:
                kind[column.stored] = value
    return {
        "numRecords": table.num_rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
        "tightBounds": True,
    }


def _of_values(values: list[Any], column: Column) -> tuple[Any, Any, Any]:
    if column.fields:
        rows = [value or {} for value in values]
        parts = {
            each.stored: _of_values([row.get(each.name) for row in rows], each) for each in column.fields
        }
        low, high, nulls = ({name: part[at] for name, part in parts.items()} for at in range(3))
        return (
            {name: value for name, value in low.items() if value is not None},
            {name: value for name, value in high.items() if value is not None},
            nulls,
        )
    given = [value for value in values if value is not None]
    nulls = len(values) - len(given)
    if not given or column.type in ("boolean", "binary"):
        return None, None, nulls
    ordered = sorted(given, key=lambda value: (isinstance(value, float) and np.isnan(value), value))
    return _bound(ordered[0], high=False), _bound(ordered[-1], high=True), nulls


def _bound(value: Any, *, high: bool) -> Any:
    if isinstance(value, float):
        return (
            value if np.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        )
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}"
        return text.rjust(23, "0") + ("" if value.tzinfo is None else "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return _Number(value)
    if isinstance(value, str) and len(value) > 32:
        return value[:32] + ("\x7f" if high and value[32:33] < "\x7f" else "\U0010ffff" if high else "")
    return value


class _Number(float):
    """A decimal that JSON has with all of its digits."""

    def __new__(cls, value: Decimal) -> _Number:
        made = super().__new__(cls, value)
        made.text = str(value)  # pyright: ignore[reportAttributeAccessIssue]
        return made

    def __repr__(self) -> str:
        return self.text  # pyright: ignore[reportAttributeAccessIssue]


def moment(text: str) -> datetime:
    """A moment of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def write_checkpoint(table: DeltaLog, kind: str = "classic") -> None:
    """Write a checkpoint of the newest version: `classic`, `parts`, `v2_json`, `v2_parquet`."""
    stem, actions = f"{table.version:020d}.checkpoint", table.actions()
    small, adds = actions[:2], actions[2:]
    if kind == "classic":
        _parquet(table.log / f"{stem}.parquet", actions)
    elif kind == "parts":
        for part in range(3):
            _parquet(
                table.log / f"{stem}.{part + 1:010d}.{3:010d}.parquet",
                (small if not part else []) + adds[part::3],
            )
    else:
        sidecars: list[dict[str, Any]] = []
        for part in range(2):
            path = table.log / "_sidecars" / f"{uuid.uuid4()}.parquet"
            path.parent.mkdir(exist_ok=True)
            _parquet(path, adds[part::2])
            size = path.stat().st_size
            sidecars.append({"sidecar": {"path": path.name, "sizeInBytes": size, "modificationTime": 0}})
        top = [{"checkpointMetadata": {"version": table.version}}, *small, *sidecars]
        path = table.log / f"{stem}.{uuid.uuid4()}.{kind[3:]}"
        if kind == "v2_json":
            path.write_text("".join(json.dumps(each) + "\n" for each in top))
        else:
            _parquet(path, top)


_TEXTS = pa.map_(pa.string(), pa.string())
_ACTIONS = pa.schema(
    [
        pa.field("checkpointMetadata", pa.struct([("version", pa.int64())])),
        pa.field(
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        pa.field(
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        pa.field(
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    (
                        "deletionVector",
                        pa.struct(
                            [
                                ("storageType", pa.string()),
                                ("pathOrInlineDv", pa.string()),
                                ("offset", pa.int32()),
                                ("sizeInBytes", pa.int32()),
                                ("cardinality", pa.int64()),
                            ]
                        ),
                    ),
                ]
            ),
        ),
        pa.field(
            "sidecar",
            pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
        ),
    ]
)


def _parquet(path: Path, actions: list[dict[str, Any]]) -> None:
    def cell(action: Mapping[str, Any], name: str) -> Any:
        found = action.get(name)
        if found is None:
            return None
        return {
            key: list(value.items())
            if isinstance(value, dict) and key in ("partitionValues", "configuration")
            else {**value, "options": []}
            if key == "format"
            else value
            for key, value in found.items()
        }

    names: list[str] = _ACTIONS.names
    columns = [
        pa.array([cell(action, name) for action in actions], _ACTIONS.field(name).type) for name in names
    ]
    pq.write_table(pa.table(columns, schema=_ACTIONS), path)
