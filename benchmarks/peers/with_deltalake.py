"""delta-rs over a Delta table whose log has the same statistics: `get_add_actions`, and a filter over its columns."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable  # pyright: ignore[reportMissingImports]
from harness import CARRIER, Plans, answer_questions

# Its functions accept more than their types say.
pc: Any = importlib.import_module("pyarrow.compute")

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "event", "type": "long", "nullable": True, "metadata": {}},
        {"name": "carrier", "type": "string", "nullable": True, "metadata": {}},
    ],
}
ROWS = 1000
BOUNDS = ("min.event", "max.event", "min.carrier", "max.carrier")


def _write_log(statistics: Path, folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(SCHEMA),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for row in pq.read_table(statistics).to_pylist():
        stats = {
            "numRecords": ROWS,
            "minValues": {"event": row["event_min"], "carrier": row["carrier_min"]},
            "maxValues": {"event": row["event_max"], "carrier": row["carrier_max"]},
            "nullCount": {"event": 0, "carrier": 0},
        }
        add = {
            "path": row["path"],
            "partitionValues": {},
            "size": 1000,
            "modificationTime": 0,
            "dataChange": True,
        }
        actions.append({"add": {**add, "stats": json.dumps(stats)}})
    lines = "\n".join(json.dumps(action) for action in actions)
    (folder / "_delta_log" / "00000000000000000000.json").write_text(lines + "\n", encoding="utf-8")


def prepare(statistics: Path, folder: Path) -> Plans:
    """Write the log, and load it with its statistics as columns of Arrow."""
    _write_log(statistics, folder)
    actions = pa.table(DeltaTable(str(folder)).get_add_actions(flatten=True)).combine_chunks()
    paths = actions.column("path")
    bounds = {name: actions.column(name) for name in BOUNDS}

    def plan(kind: str, values: list[int]) -> int:
        if kind == "conjunction":
            low, high = bounds["min.carrier"], bounds["max.carrier"]
            carrier = pc.and_(pc.less_equal(low, CARRIER), pc.greater_equal(high, CARRIER))
            kept = pc.and_(carrier, pc.greater(bounds["max.event"], values[0]))
        else:
            later = pc.greater_equal(bounds["max.event"], values[0])
            kept = pc.and_(later, pc.less_equal(bounds["min.event"], values[1]))
        return len(paths.filter(kept).to_pylist())

    return plan


answer_questions(prepare)
