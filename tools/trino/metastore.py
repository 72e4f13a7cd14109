"""Trino's metastore of files, written by hand: Hudi tables have no CREATE TABLE in Trino."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

_HOODIE_FORMAT = {
    "serde": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "inputFormat": "org.apache.hudi.hadoop.HoodieParquetInputFormat",
    "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
}


HIVE_TYPES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamp",
}


def hive_type(arrow: pa.DataType) -> str:
    """Return what the Hive metastore calls a type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return HIVE_TYPES[arrow]


@dataclass(frozen=True)
class Metastore:
    """A metastore in a folder."""

    folder: Path

    def add_schema(self, name: str) -> None:
        """Make a schema; its tables lie wherever they are registered."""
        (self.folder / name).mkdir(parents=True)
        content = {"writerVersion": "483", "ownerName": "here", "ownerType": "USER", "parameters": {}}
        _write_json(self.folder / f".{name}.trinoSchema", content)

    def ensure_schema(self, name: str) -> None:
        """Make a schema unless it is there."""
        if not (self.folder / name).is_dir():
            self.add_schema(name)

    def add_table(
        self,
        schema: str,
        name: str,
        root: Path | str,
        columns: Mapping[str, str],
        *,
        partition_by: str = "",
        hudi: bool = False,
    ) -> None:
        """Register a table with all partitions that its folder has; a partition that is not registered has no rows.

        `root` is the URI of a table in a store, which has no partitions here, or a folder of this machine.
        """
        location = root if isinstance(root, str) else f"local://{root}"
        folder = self.folder / schema / name
        folder.mkdir()
        data = [_column(key, kind) for key, kind in columns.items() if key != partition_by]
        form = {"originalStorageFormat": _HOODIE_FORMAT} if hudi else {"storageFormat": "PARQUET"}
        common = {"parameters": {"EXTERNAL": "TRUE"}, **form, "serdeParameters": {}, "columnStatistics": {}}
        table = {
            "writerVersion": "483",
            "owner": "here",
            "tableType": "EXTERNAL_TABLE",
            "dataColumns": data,
            "partitionColumns": [_column(partition_by, columns[partition_by])] if partition_by else [],
            "externalLocation": location,
            **common,
        }
        _write_json(folder / ".trinoSchema", table)
        for place in sorted(Path(root).glob(f"{partition_by}=*")) if partition_by else ():
            partition = folder / place.name
            partition.mkdir()
            content = {"columns": data, "externalLocation": f"{location}/{place.name}", **common}
            _write_json(partition / ".trinoSchema", content)


def _column(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "properties": {}}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
