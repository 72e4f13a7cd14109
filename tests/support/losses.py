"""Plans held against DuckDB's full scan: the files that a plan keeps and those that hold a matching row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.expr.text.sql import parse_predicate
from tests.support.duckdb import plain as plain_duckdb


def write_files(folder: Path, *files: pa.Array | pa.Table) -> Path:
    """Write `0.parquet`, `1.parquet`, …; an array becomes the one column `x`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(files):
        table = data if isinstance(data, pa.Table) else pa.table({"x": data})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def indexed(folder: Path) -> pruner.Table:
    """Open the table with column statistics over all columns, kept beside it."""
    table = pruner.open_table(str(folder))
    table.create_index("stats", on="*")
    return table


def kept(folder: Path, predicate: str, zone: str = "UTC") -> set[str]:
    """Names of the files that the plan keeps under DuckDB's rules."""
    table = pruner.open_table(str(folder))
    if not table.indexes():
        table = indexed(folder)
    plan = table.plan(predicate, semantics=pruner.Semantics(engine="duckdb", zone=zone))
    return {Path(file).name for file in plan.files}


def matching(folder: Path, predicate: str, zone: str = "UTC") -> set[str]:
    """Names of the files that hold a row for which the predicate is true, by DuckDB without its optimizer."""
    with plain_duckdb.judge(zone) as connection:
        rows = connection.execute(
            "SELECT DISTINCT filename FROM read_parquet($files, filename = true, union_by_name = true) "
            f"WHERE {predicate}",
            {"files": sorted(map(str, folder.rglob("*.parquet")))},
        ).fetchall()
    return {Path(row[0]).name for row in rows}


def kept_by(folder: Path, predicate: str, dialect: str, *, strict: bool = True) -> set[str]:
    """Names of the files that the plan keeps by an engine's default rules.

    Without `strict` a predicate that the engine would refuse is one that nothing is known about, as adapters have it.
    """
    table = pruner.open_table(str(folder))
    if not table.indexes():
        table = indexed(folder)
    text = predicate if strict else parse_predicate(predicate, pruner.Semantics.of(dialect))
    return {Path(file).name for file in table.plan(text, dialect=dialect).files}
