"""Everyday statements of analysts over plain Spark and Trino and through pruner, in turn in one process.

Most of them cannot be pruned: they show the cost of pruner being on. Each answer is compared. Timings in a JVM
are noisy, so each round runs both ways, in alternating order, and the ratios are those of the medians; a statement
that is slower by that is measured once more, with as many rounds again.

BENCH_FILES and BENCH_RUNS are the numbers of files and rounds, BENCH_LAKES names the lakes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.dashboard_lakes import FILES, ROWS_PER_FILE

LAKES = ("hive", "flat", "evolved", "hudi")
RUNS = 7
WARMUPS = 2
MOST_MEAN = 1.03
MOST_WORST = 1.15
TICKS = os.sysconf("SC_CLK_TCK")

STATEMENTS = {
    "point": "SELECT * FROM {t} WHERE id = 123456",
    "points": "SELECT * FROM {t} WHERE id IN (17, 312345, 499999)",
    "a day": "SELECT count(*), sum(amount) FROM {t} WHERE CAST(ts AS DATE) = DATE '2023-03-05'",
    "a week": "SELECT cat, sum(amount) FROM {t} WHERE ts >= TIMESTAMP '2023-02-01 00:00:00'"
    " AND ts < TIMESTAMP '2023-02-08 00:00:00' GROUP BY cat",
    "last hours": "SELECT max(ts), count(*) FROM {t} WHERE ts > TIMESTAMP '2023-04-09 20:00:00'",
    "newest of a range": "SELECT * FROM {t} WHERE id BETWEEN 70000 AND 70200 ORDER BY ts DESC LIMIT 5",
    "join of a week": "SELECT u.seg, sum(t.amount) FROM {t} t JOIN {users} u ON t.uid = u.uid"
    " WHERE t.ts >= TIMESTAMP '2023-02-01 00:00:00' AND t.ts < TIMESTAMP '2023-02-08 00:00:00' GROUP BY u.seg",
    "nothing": "SELECT count(*) FROM {t} WHERE id < 0",
    # No index helps these.
    "count": "SELECT count(*) FROM {t}",
    "count a column": "SELECT count(uid) FROM {t}",
    "totals": "SELECT sum(amount), avg(amount), min(ts), max(ts) FROM {t}",
    "group": "SELECT cat, count(*), sum(amount) FROM {t} GROUP BY cat",
    "many groups": "SELECT uid, sum(amount) AS s FROM {t} GROUP BY uid ORDER BY s DESC LIMIT 10",
    "month by month": "SELECT date_trunc('month', ts) AS m, sum(amount) FROM {t}"
    " GROUP BY date_trunc('month', ts) ORDER BY m",
    "distinct": "SELECT count(DISTINCT uid) FROM {t}",
    "top": "SELECT * FROM {t} ORDER BY amount DESC, id LIMIT 10",
    "top of two": "SELECT id, amount FROM {t} ORDER BY amount, id LIMIT 10",
    "newest": "SELECT * FROM {t} ORDER BY ts DESC LIMIT 20",
    "first rows": "SELECT * FROM {t} LIMIT 10",
    "first rows that match": "SELECT * FROM {t} WHERE amount >= 0 LIMIT 10",
    "text": "SELECT count(*) FROM {t} WHERE txt LIKE '%99%'",
    "all of a range": "SELECT count(*), sum(uid) FROM {t} WHERE amount >= 0 AND id >= 0",
    "expression": "SELECT sum(amount) FROM {t} WHERE uid % 7 = 3",
    "selective join": "SELECT count(*), sum(t.amount) FROM {t} t JOIN {users} u ON t.uid = u.uid WHERE u.seg = 7",
    "join of all": "SELECT u.seg, sum(t.amount) FROM {t} t JOIN {users} u ON t.uid = u.uid GROUP BY u.seg",
    "semi-join": "SELECT count(*) FROM {t} WHERE uid IN (SELECT uid FROM {users} WHERE seg = 3)",
    "above average": "SELECT count(*) FROM {t} WHERE amount > (SELECT avg(amount) FROM {t})",
    "window": "SELECT * FROM (SELECT cat, ts, row_number() OVER (PARTITION BY cat ORDER BY ts DESC) AS n"
    " FROM {t}) w WHERE n <= 2",
    "with": "WITH d AS (SELECT cat, count(*) AS n FROM {t} GROUP BY cat) SELECT max(n), min(n) FROM d",
    "union": "SELECT count(*) FROM (SELECT uid FROM {t} WHERE cat = 'c1'"
    " UNION ALL SELECT uid FROM {t} WHERE cat = 'c2') w",
}
"""By what they query; those up to "nothing" can be pruned."""

PRUNABLE = frozenset(list(STATEMENTS)[: list(STATEMENTS).index("nothing") + 1])
ANY_ROWS = frozenset({"first rows", "first rows that match"})
"""Statements whose rows an engine may choose; their number is compared."""

Rows = Sequence[Sequence[Any]]
Ask = Callable[[str], Rows]


class Asked(NamedTuple):
    """A lake, both ways of querying it, and what the names in statements stand for in each."""

    lake: str
    plain: Ask
    pruned: Ask
    kept: Callable[[], str]
    """How many files of how many the last pruned statement read."""
    processes: Sequence[int]
    """Processes whose CPU time counts."""


@dataclass
class Taken:
    """Wall time and CPU time of the rounds of one statement, plain and pruned."""

    clocks: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    processors: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    @property
    def ratios(self) -> tuple[float, float]:
        """The pruned way's wall time and CPU time relative to plain; CPU time counts as 10 ms at least."""
        least = (1e-9, 1 / TICKS)
        kinds = zip((self.clocks, self.processors), least, strict=True)
        return tuple(  # pyright: ignore[reportReturnType]
            max(statistics.median(pruned), floor) / max(statistics.median(plain), floor)
            for (plain, pruned), floor in kinds
        )


def chosen_lakes() -> tuple[str, ...]:
    """The lakes to measure."""
    named = os.environ.get("BENCH_LAKES", "")
    return tuple(named.split(",")) if named else LAKES


def files() -> int:
    """How many files each lake has."""
    return int(os.environ.get("BENCH_FILES", str(FILES // 2)))


def report(console: Console, engine: str, asked: Iterable[Asked]) -> None:
    """Measure every statement over every lake and print the table, and what cannot be pruned in two lines."""
    runs = int(os.environ.get("BENCH_RUNS", str(RUNS)))
    title = f"{engine}: {files()} files of {ROWS_PER_FILE:,} rows; medians of {runs} in turn"
    grid = Grid(title=title)
    for heading in (
        "table",
        "statement",
        "plain, ms",
        "pruned, ms",
        "ratio",
        "of processor time",
        "files read",
    ):
        grid.add_column(heading, justify="right")
    unpruned: dict[str, tuple[float, float]] = {}
    prunable: list[float] = []
    for each in asked:
        for name in STATEMENTS:
            taken = Taken()
            _measure(taken, each, name, runs, WARMUPS)
            if name not in PRUNABLE and max(taken.ratios) > MOST_WORST:
                _measure(taken, each, name, runs, 0)
            if name in PRUNABLE:
                prunable.append(taken.ratios[0])
            else:
                unpruned[f"{each.lake}, {name}"] = taken.ratios
            times = (f"{statistics.median(clock) * 1e3:.0f}" for clock in taken.clocks)
            grid.add_row(each.lake, name, *times, *(f"{ratio:.2f}" for ratio in taken.ratios), each.kept())
    console.print(grid)
    console.print(f"what can be pruned, on the clock: median ratio {statistics.median(prunable):.2f}")
    for place, kind in enumerate(("on the clock", "of processor time")):
        worst = max(unpruned, key=lambda each: unpruned[each][place])
        mean = statistics.mean(ratios[place] for ratios in unpruned.values())
        console.print(
            f"what cannot be pruned, {kind}: mean ratio {mean:.3f} (aim {MOST_MEAN}), "
            f"worst {unpruned[worst][place]:.2f} (aim {MOST_WORST}): {worst}"
        )


def _measure(taken: Taken, asked: Asked, name: str, runs: int, warmups: int) -> None:
    ways = (asked.plain, asked.pruned)
    answers: list[Any] = [None, None]
    for number in range(-warmups, runs):
        for place in (0, 1) if number % 2 else (1, 0):
            began, busy = time.perf_counter(), _busy(asked.processes)
            answers[place] = ways[place](STATEMENTS[name])
            if number >= 0:
                taken.clocks[place].append(time.perf_counter() - began)
                taken.processors[place].append(_busy(asked.processes) - busy)
        plain, pruned = (len(rows) if name in ANY_ROWS else _alike(rows) for rows in answers)
        assert plain == pruned, f"{asked.lake}, {name}: {pruned} instead of {plain}"


def _busy(processes: Sequence[int]) -> float:
    """CPU seconds that processes of this machine have taken, including this one."""
    taken = time.process_time()
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        taken += (int(fields[11]) + int(fields[12])) / TICKS
    return taken


def _alike(rows: Rows) -> list[str]:
    """Rows as text in a fixed order; the last digits of a sum depend on the order in which files were read."""
    return sorted(
        repr([float(f"{value:.9g}") if isinstance(value, float) else value for value in row]) for row in rows
    )
