"""delta-rs over a Delta table whose log has the same statistics; the table and its dataset are loaded once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable  # pyright: ignore[reportMissingImports]
from harness import CARRIER, Plans, answer_questions

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "event", "type": "long", "nullable": True, "metadata": {}},
        {"name": "carrier", "type": "string", "nullable": True, "metadata": {}},
    ],
}
ROWS = 1000


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
    """Write the log, and load it."""
    _write_log(statistics, folder)
    dataset = DeltaTable(str(folder)).to_pyarrow_dataset()

    def plan(kind: str, values: list[int]) -> int:
        event = ds.field("event")
        if kind == "conjunction":
            condition = (ds.field("carrier") == CARRIER) & (event > values[0])
        else:
            condition = (event >= values[0]) & (event <= values[1])
        return len([fragment.path for fragment in dataset.get_fragments(condition)])

    return plan


answer_questions(prepare)
