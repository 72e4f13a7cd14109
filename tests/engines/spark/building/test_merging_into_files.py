"""The recipe of docs/record_index.md for MERGE: only files that hold a key of the source are read and written.

Each file is replaced as a whole. So a reader between two steps sees every key once, in its old or its new state, and a
merge that was stopped is finished by running it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb

FILES, ROWS = 10, 50
CHANGES = {13: -1.0, 203: -2.0, 44: -3.0, 9_000: -4.0, 9_001: -5.0}
SOURCE = pa.table({"id": list(CHANGES), "amount": list(CHANGES.values())})
BEFORE = {each: float(each) for each in range(FILES * ROWS)}
STEPS = 3
"""Two files are replaced, and one is added."""


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    root = tmp_path / "t"
    root.mkdir()
    for number in range(FILES):
        ids = list(range(number, FILES * ROWS, FILES))
        columns: dict[str, Any] = {"id": ids, "amount": [float(each) for each in ids]}
        pq.write_table(pa.table(columns), root / f"{number}.parquet")
    opened = pruner.open_table(root)
    opened.create_index("keys", on="id", using="record_index")
    return opened


def merge(root: Path, table: pruner.Table, source: pa.Table) -> Iterator[Path]:
    """Replace rows by those of the source with their keys, then add the new ones.

    Yields each file once it is in place.
    """
    located = table.tag_location(source.select(["id"]))
    changed = {(row["partition_path"], row["file_id"]) for row in located.to_pylist()}
    slices = table.snapshot().slices
    files = [each.base_file for each in slices if (each.partition_path, each.file_id) in changed]
    with duckdb.connect() as con:
        con.register("source", source)
        con.register("located", located)
        for uri in filter(None, files):
            old = Path(uri.removeprefix("file://"))
            rows = f"SELECT id, coalesce(s.amount, t.amount) AS amount FROM '{old}' t LEFT JOIN source s USING (id)"
            yield _put(con, rows, old)
        if not located.column("file_id").null_count:
            return
        rows = "SELECT source.* FROM source JOIN located USING (id) WHERE file_id IS NULL"
        yield _put(con, rows, root / f"{uuid.uuid4()}.parquet")


def _put(con: duckdb.DuckDBPyConnection, rows: str, file: Path) -> Path:
    """Write a file beside its final path, where no glob for Parquet files finds it, then move it there in one step."""
    unfinished = file.with_suffix(".unfinished")
    con.execute(f"COPY ({rows}) TO '{unfinished}' (FORMAT parquet)")
    return unfinished.replace(file)


def _rows(root: Path) -> list[tuple[int, float]]:
    found: Any = duckdb.sql(f"SELECT id, amount FROM '{root}/*.parquet'")
    return found.fetchall()


@pytest.mark.slow
def test_a_merge_writes_the_files_that_it_changes(table: pruner.Table) -> None:
    root = Path(table.uri.removeprefix("file://"))
    before = {each.stem: each.stat().st_mtime_ns for each in root.glob("*.parquet")}
    *replaced, added = merge(root, table, SOURCE)
    table.refresh()
    assert sorted(each.stem for each in replaced) == ["3", "4"]
    assert sorted(_rows(root)) == sorted({**BEFORE, **CHANGES}.items())
    after = {each.stem: each.stat().st_mtime_ns for each in root.glob("*.parquet")}
    assert {name for name in after if before.get(name) != after[name]} == {"3", "4", added.stem}
    again = table.tag_location(SOURCE.select(["id"]))
    assert again.column("file_id").null_count == 0
    assert table.plan("id = 9001").kept == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stopped", range(1, STEPS + 1))
def test_between_two_steps_every_key_is_there_once(table: pruner.Table, stopped: int) -> None:
    """Replaced files are no longer covered, so they are read."""
    root = Path(table.uri.removeprefix("file://"))
    steps = merge(root, table, SOURCE)
    for _ in range(stopped):
        next(steps)
    rows = _rows(root)
    seen = dict(rows)
    assert len(rows) == len(seen)
    assert BEFORE.keys() <= seen.keys() <= BEFORE.keys() | CHANGES.keys()
    assert all(seen[key] in (BEFORE.get(key), CHANGES.get(key)) for key in seen)
    with pruner_duckdb.connect({"t": pruner.open_table(root)}) as con:
        for key in CHANGES:
            found = con.execute("SELECT amount FROM t WHERE id = ?", [key]).fetchall()
            assert found == [(amount,) for amount in [seen.get(key)] if amount is not None]
    del steps  # as when a process is killed
    assert len(list(merge(root, table, SOURCE))) >= STEPS
    assert sorted(_rows(root)) == sorted({**BEFORE, **CHANGES}.items())
