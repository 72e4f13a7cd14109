"""An index over the hour of day beside one on a column that holds that hour: plans, builds, and a query of DuckDB.

The hour of each file is also stored as a column, so that both indexes have the same values and drop the same files.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.timing import medians

HOURS = 500
ROWS = 2_000
LARGE_ROWS = 2_000_000
RUNS = 9
PLANS = 200
AIM_PLAN = 1.5
AIM_BUILD = 2.0
_START = 1_640_995_200_000_000
_HOUR = 3_600_000_000
EXPRESSION = "strftime(ts, '%H')"


def run(console: Console) -> None:
    """Measure planning, building and a query."""
    with tempfile.TemporaryDirectory() as folder:
        root, large = Path(folder) / "events", Path(folder) / "large"
        for hour in range(HOURS):
            _write(root / f"{hour}.parquet", _START + hour * _HOUR + np.arange(ROWS) * (_HOUR // ROWS))
        _write(large / "one.parquet", _START + np.arange(LARGE_ROWS) * 1_000_000)
        table = pruner.open_table(root, max_staleness=3600)
        table.create_index("stored", on="hour", using="bitmap")
        table.create_index("computed", on=EXPRESSION, using="bitmap")
        grid = Grid("", "column, ms", "expression, ms", "ratio", "aim")
        _add(grid, "plan", medians(_plans(table), RUNS), PLANS, AIM_PLAN)
        _add(grid, "build, 2 M rows of one file", medians(_builds(large), 5), 1, AIM_BUILD)
        console.print(grid)
        query = Grid("DuckDB, hour of day", "plain, ms", "pruned, ms", "files read")
        con = pruner_duckdb.connect({"events": table})
        text = f"SELECT count(*), max(ts) FROM {{}} WHERE {EXPRESSION} = '09'"
        contenders: dict[str, Callable[[], Any]] = {
            "plain": lambda: duckdb.execute(text.format(f"'{root}/*.parquet'")).fetchall(),
            "pruned": lambda: con.execute(text.format("events")).fetchall(),
        }
        assert contenders["plain"]() == contenders["pruned"]()
        times = medians(contenders, RUNS)
        kept = f"{con.last_plans[-1].kept} of {HOURS}"
        query.add_row("", f"{times['plain'] * 1e3:.1f}", f"{times['pruned'] * 1e3:.1f}", kept)
        console.print(query)


def _write(file: Path, moments: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    ts = pa.array(moments, pa.timestamp("us"))
    hours = np.array([f"{hour:02}" for hour in range(24)])[(np.asarray(moments) // _HOUR) % 24]
    pq.write_table(pa.table({"ts": ts, "hour": pa.array(hours.tolist())}), file)


def _plans(table: pruner.Table) -> dict[str, Callable[[], Any]]:
    """Texts take turns, so that the literals of consecutive plans differ."""
    hours = itertools.cycle(range(24))

    def plans(subject: str) -> Callable[[], None]:
        def make() -> None:
            for _ in range(PLANS):
                hour = next(hours)
                assert table.plan(f"{subject} = '{hour:02}'").kept in (20, 21)

        return make

    return {"column": plans("hour"), "expression": plans(EXPRESSION)}


def _builds(root: Path) -> dict[str, Callable[[], Any]]:
    """Both indexes are new each time."""
    table = pruner.open_table(root)

    def build(on: str) -> Callable[[], None]:
        def make() -> None:
            table.create_index("i", on=on, using="bitmap", force=True)
            table.drop_index("i")

        return make

    return {"column": build("hour"), "expression": build(EXPRESSION)}


def _add(grid: Grid, name: str, times: dict[str, float], each: int, aim: float) -> None:
    column, expression = (times[key] / each * 1e3 for key in ("column", "expression"))
    grid.add_row(name, f"{column:.3f}", f"{expression:.3f}", f"{expression / column:.2f}", f"{aim:.1f}")
