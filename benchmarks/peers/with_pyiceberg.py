"""pyiceberg over an Iceberg table whose manifests have the same statistics; each of its plans reads the manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from harness import CARRIER, Plans, answer_questions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import And
from pyiceberg.expressions import EqualTo as _EqualTo
from pyiceberg.expressions import GreaterThan as _GreaterThan
from pyiceberg.expressions import GreaterThanOrEqual as _GreaterThanOrEqual
from pyiceberg.expressions import LessThanOrEqual as _LessThanOrEqual
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

EVENT, CARRIER_ID = 1, 2

# The types of these declare no arguments.
EqualTo: Any = _EqualTo
GreaterThan: Any = _GreaterThan
GreaterThanOrEqual: Any = _GreaterThanOrEqual
LessThanOrEqual: Any = _LessThanOrEqual
ROWS = 1000


def prepare(statistics: Path, folder: Path) -> Plans:
    """Write one manifest with an entry for each file."""
    folder.mkdir(parents=True)
    catalog = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("lake")
    schema = Schema(
        NestedField(EVENT, "event", LongType(), required=False),
        NestedField(CARRIER_ID, "carrier", StringType(), required=False),
    )
    table = catalog.create_table("lake.events", schema)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for row in pq.read_table(statistics).to_pylist():
            append.append_data_file(_data_file(folder, row))
    table = catalog.load_table("lake.events")

    def plan(kind: str, values: list[int]) -> int:
        if kind == "conjunction":
            condition = And(EqualTo("carrier", CARRIER), GreaterThan("event", values[0]))
        else:
            condition = And(GreaterThanOrEqual("event", values[0]), LessThanOrEqual("event", values[1]))
        return len([task.file.file_path for task in table.scan(row_filter=condition).plan_files()])

    return plan


def _data_file(folder: Path, row: dict[str, Any]) -> DataFile:
    bounds = [
        {
            EVENT: to_bytes(LongType(), row[f"event_{end}"]),
            CARRIER_ID: to_bytes(StringType(), row[f"carrier_{end}"]),
        }
        for end in ("min", "max")
    ]
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{folder}/{row['path']}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=1000,
        value_counts={EVENT: ROWS, CARRIER_ID: ROWS},
        null_value_counts={EVENT: 0, CARRIER_ID: 0},
        lower_bounds=bounds[0],
        upper_bounds=bounds[1],
    )
    found.spec_id = 0
    return found


answer_questions(prepare)
