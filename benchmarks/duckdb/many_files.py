"""One key, and a thousand, among ten thousand files: DuckDB through pruner beside DuckDB over the right files by name.

BENCH_FILES is the number of files (default 10,000), of 100 keys each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb

FILES = 10_000
KEYS_A_FILE = 100
RUNS = 15
QUERY = "SELECT count(*), min(x) FROM {} WHERE id IN ({})"


def run(console: Console) -> None:
    """Measure each index type; every run looks up other keys."""
    count = int(os.environ.get("BENCH_FILES", str(FILES)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "events"
        ids = write(root, count)
        grid = Grid(title=f"keys among {count:,} files, medians of {RUNS} statements in one process")
        for heading in ("index", "keys", "files kept", "by name", "through pruner", "times"):
            grid.add_column(heading, justify="left" if heading == "index" else "right")
        for using in ("record_index", "bloom_filter"):
            uri = f"{root}.{using}"
            table = pruner.open_table(str(root), index_uri=uri, files="immutable")
            table.create_index(
                "keys", on="id", using=using, options={"fpp": "0.0001"} if "bloom" in using else {}
            )
            for keys in (1, 1000):
                grid.add_row(using, f"{keys:,}", *_measured(root, table, ids, keys))
        console.print(grid)


def write(root: Path, count: int, keys: int = KEYS_A_FILE) -> Any:
    """Write files of `keys` keys each, unordered; returns the keys, a row for each file."""
    root.mkdir()
    ids = np.random.default_rng(17).permutation(count * keys).reshape(count, keys)
    for number, own in enumerate(ids):
        columns: dict[str, Any] = {"id": own, "x": own * 2.0}
        pq.write_table(pa.table(columns), root / f"{number:05}.parquet")
    return ids


def _measured(root: Path, table: pruner.Table, ids: Any, keys: int) -> tuple[str, ...]:
    """Files kept, milliseconds by name and through pruner, and their ratio, run by run in turn."""
    plain: Any = duckdb.connect()
    pruned: Any = pruner_duckdb.attach(duckdb.connect(), {"t": table})
    rng = np.random.default_rng(keys)
    times: list[tuple[float, float]] = []
    kept = 0
    for _ in range(RUNS + 1):
        files = rng.choice(len(ids), max(1, keys // KEYS_A_FILE), replace=False)
        wanted = ids[files].ravel()[:keys].tolist() if keys > 1 else [int(ids[files[0], 7])]
        listed, names = ", ".join(map(str, wanted)), [str(root / f"{each:05}.parquet") for each in files]
        by_name = QUERY.format(f"read_parquet({names})", listed)
        expected = plain.execute(by_name).fetchall()
        assert pruned.sql(QUERY.format("t", listed)).fetchall() == expected
        times.append(
            (
                _seconds(lambda by_name=by_name: plain.execute(by_name).fetchall()),
                # Another text: none of these statements was seen before.
                _seconds(lambda listed=listed: pruned.sql(QUERY.format("t", listed + ", -1")).fetchall()),
            )
        )
        kept = table.plan(f"id IN ({listed})").kept
    own, ours = (median(each) for each in zip(*times[1:], strict=True))
    return f"{kept:,} of {len(ids):,}", f"{1e3 * own:.1f} ms", f"{1e3 * ours:.1f} ms", f"{ours / own:.1f}"


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
