"""The cases of `referee/`, which judge readers of other projects, hold for pruner as well.

DuckDB decides what a condition means, over the same rows in files that allow no skipping.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
from referee.conditions import sql
from referee.run import CASES, SCRATCH

NAMES = sorted(file.parent.name for file in CASES.glob("*/case.json"))
INDEXES = (None, "column_stats", "bitmap", "bloom_filter")


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; PRAGMA disable_optimizer")
    return connection


def _read(
    connection: duckdb.DuckDBPyConnection, files: list[str], condition: str, *, hive: bool
) -> list[int]:
    """Rows of files that meet a condition, with the types that a table of these files has."""
    source = (
        f"read_parquet({files!r}, union_by_name = true, hive_partitioning = {hive}, "
        "hive_types_autocast = false)"
    )
    return sorted(
        row[0] for row in connection.execute(f"SELECT id FROM {source} WHERE {condition}").fetchall()
    )


def _opened(case: str, table_format: str, tmp_path: Path) -> Path:
    """A copy of the table; an Iceberg table's is at the path that its metadata names."""
    if table_format != "iceberg":
        return Path(shutil.copytree(CASES / case / "table", tmp_path / "table"))
    place = SCRATCH / case / "table"
    shutil.copytree(CASES / case / "table", place, dirs_exist_ok=True)
    return max(place.glob("metadata/*.metadata.json"))


@pytest.mark.sampled(64)
@pytest.mark.parametrize("name", NAMES)
def test_no_plan_leaves_out_a_row(name: str, tmp_path: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    case: dict[str, Any] = json.loads((CASES / name / "case.json").read_text("utf-8"))
    blind = sorted(map(str, (CASES / name / "blind").rglob("*.parquet")))
    hive = any("=" in file for file in blind) and case["format"] == "parquet"
    table = pruner.open_table(_opened(name, case["format"], tmp_path), index_uri=str(tmp_path / "indexes"))
    semantics = pruner.Semantics("duckdb", zone="UTC")
    asked = 0
    for using in INDEXES:
        if using is not None:
            table.create_index(using, on="*", using=using)
        for condition in case["conditions"]:
            text = sql(condition)
            expected = _read(oracle, blind, text, hive=hive)
            kept = list(table.plan(text, semantics=semantics).files)
            found = _read(oracle, kept, "true", hive=hive) if kept else []
            assert set(expected) <= set(found), (using, text)
            asked += 1
    assert asked == len(INDEXES) * len(case["conditions"]) > 0
