"""The recipe of docs/record_index.md for MERGE: only files that hold a key of the source are read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import pruner

FILES, ROWS = 10, 50


def _write(root: Path) -> None:
    root.mkdir()
    for number in range(FILES):
        ids = list(range(number, FILES * ROWS, FILES))
        columns: dict[str, Any] = {"id": ids, "amount": [float(each) for each in ids]}
        pq.write_table(pa.table(columns), root / f"{number}.parquet")


def merge(root: Path, table: pruner.Table, source: pa.Table) -> list[str]:
    """Put the rows of the source in the place of those with their keys, and add those that are new."""
    located = table.tag_location(source.select(["id"]))
    changed = {(row["partition_path"], row["file_id"]) for row in located.to_pylist()}
    slices = table.snapshot().slices
    files = [each.base_file for each in slices if (each.partition_path, each.file_id) in changed]
    with duckdb.connect() as con:
        con.register("source", source)
        con.register("located", located)
        for uri in filter(None, files):
            old = uri.removeprefix("file://")
            rows = f"SELECT id, coalesce(s.amount, t.amount) FROM '{old}' t LEFT JOIN source s USING (id)"
            con.execute(
                f"COPY (SELECT * FROM ({rows}) AS merged (id, amount)) TO '{old}.new' (FORMAT parquet)"
            )
            Path(f"{old}.new").replace(old)
        new = "SELECT source.* FROM source JOIN located USING (id) WHERE file_id IS NULL"
        con.execute(f"COPY ({new}) TO '{root / 'new.parquet'}' (FORMAT parquet)")
    table.refresh()
    return sorted(Path(each).stem for each in files if each)


def test_a_merge_writes_the_files_that_it_changes(tmp_path: Path) -> None:
    root = tmp_path / "t"
    _write(root)
    table = pruner.open_table(root)
    table.create_index("keys", on="id", using="record_index")
    source = pa.table({"id": [13, 203, 44, 9_000, 9_001], "amount": [-1.0, -2.0, -3.0, -4.0, -5.0]})
    before = {each.stem: each.stat().st_mtime_ns for each in root.glob("*.parquet")}
    expected = {each: float(each) for each in range(FILES * ROWS)}
    expected |= dict(zip(source.column("id").to_pylist(), source.column("amount").to_pylist(), strict=True))
    assert merge(root, table, source) == ["3", "4"]
    merged: Any = duckdb.sql(f"SELECT id, amount FROM '{root}/*.parquet'")
    assert dict(merged.fetchall()) == expected
    after = {each.stem: each.stat().st_mtime_ns for each in root.glob("*.parquet")}
    assert {name for name in after if before.get(name) != after[name]} == {"3", "4", "new"}
    again = table.tag_location(source.select(["id"]))
    assert again.column("file_id").null_count == 0
    assert table.plan("id = 9001").kept == 1
