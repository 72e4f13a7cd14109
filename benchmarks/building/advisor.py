"""Forecasts of `pruner advise` compared with measurements once its proposals are built, index by index.

Three lakes are those of the tests: real flights, a lineitem made by TPC-H's rules, and a skewed one. The fourth is
TPC-H's own lineitem in as many files, with the conditions that the 22 queries of TPC-H push to it, and the fifth is
the same in order of ship dates. Half of the files are sampled. Then the first three proposals are compared with the
best three of all candidates, by trying each three of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from pruner.advice.forecast import Estimator
from pruner.advice.proposals import Cost, chosen, possible
from pruner.advice.questions import Question, asked
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from tests.unit.advice.lakes import FILES, LAKES
from tools.tpc import tpc_data

SAMPLE = pruner.SampleLimits(data_files=FILES // 2)


def run(console: Console) -> None:
    """Measure all lakes."""
    with tempfile.TemporaryDirectory() as name:
        for lake, root, plans in _lakes(Path(name)):
            table = pruner.open_table(root, index_uri=f"{name}/{lake}.indexes")
            console.print(_compared(lake, table, plans))
            console.print(_best_three(table, plans, Path(name) / f"{lake}.none"))


def _lakes(folder: Path) -> Iterator[tuple[str, Path, list[pruner.Plan]]]:
    for lake, make in LAKES.items():
        made = make(folder / lake)
        table = pruner.open_table(made.root)
        yield lake, made.root, [table.plan(question) for question in made.questions]
    yield "TPC-H", *_tpch(folder / "tpch", None)
    yield "TPC-H by date", *_tpch(folder / "tpch-by-date", "l_shipdate")


def _tpch(root: Path, order: str | None) -> tuple[Path, list[pruner.Plan]]:
    """TPC-H's lineitem in its generator's order or by a column, and the plans of all queries."""
    data = tpc_data()
    rows = pq.read_table(data / "tpch" / "lineitem")
    rows = rows if order is None else rows.sort_by(order)
    each = -(-rows.num_rows // FILES)
    root.mkdir()
    for number in range(FILES):
        pq.write_table(rows.slice(number * each, each), root / f"{number:02}.parquet")
    others = {path.name: str(path) for path in (data / "tpch").iterdir() if path.name != "lineitem"}
    connection = pruner_duckdb.connect({**others, "lineitem": str(root)})
    plans: list[pruner.Plan] = []
    for query in sorted(data.glob("tpch-*.sql")):
        connection.last_plans.clear()
        connection.execute(query.read_text(encoding="utf-8")).fetchall()
        plans += [
            scan.plan
            for scan in connection.last_plans
            if scan.table == "lineitem" and scan.plan is not None and scan.plan.predicate
        ]
    return root, plans


def _compared(lake: str, table: pruner.Table, plans: list[pruner.Plan]) -> Grid:
    advice = table.advise(plans, limits=SAMPLE)
    grid = Grid(title=f"{lake}: {len(plans)} questions, {advice.sampled} of {FILES} files sampled")
    for heading in ("index", "kB", "built", "s", "took", "files saved", "saved", "MB saved", "saved"):
        grid.add_column(heading, justify="right")
    questions = asked(plans)
    kept, read = _read(table, questions)
    for each in advice.proposals:
        began = time.process_time()
        table.create_index(each.name, on=each.column.split(", "), using=each.using)
        took = time.process_time() - began
        size = next(index.bytes for index in table.status().indexes if index.name == each.name)
        before, (kept, read) = (kept, read), _read(table, questions)
        grid.add_row(
            each.name,
            f"{each.bytes / 1e3:.1f}",
            f"{size / 1e3:.1f}",
            f"{each.seconds:.2f}",
            f"{took:.2f}",
            f"{each.saved_files:.0f}",
            f"{before[0] - kept}",
            f"{each.saved_bytes / 1e6:.2f}",
            f"{(before[1] - read) / 1e6:.2f}",
        )
    for layout in advice.layouts[:1]:
        grid.add_row(f"(layout: {layout.kind} {layout.column})")
    forecast = sum(question.files_then * question.times for question in advice.questions)
    grid.caption = f"left to read: {forecast:.0f} files forecast, {kept} measured"
    return grid


def _read(table: pruner.Table, questions: list[Question]) -> tuple[int, int]:
    """Files and bytes that all queries read now."""
    planner = table.snapshot()._view.planner  # as bound: the text of a plan from an engine is for display
    plans = [(planner.plan(each.predicate, each.text, each.semantics, ()), each.times) for each in questions]
    return sum(plan.kept * times for plan, times in plans), sum(
        plan.bytes_kept * times for plan, times in plans
    )


def _best_three(table: pruner.Table, plans: list[pruner.Plan], nowhere: Path) -> str:
    questions = asked(plans)
    candidates = list(possible(questions, []))
    metadata = MetadataTable(open_store(str(nowhere), {}))
    segments = SegmentCache(lambda: metadata, 0)
    estimator = Estimator(table.snapshot().data, segments, candidates, {}, pruner.SampleLimits())
    today = estimator.total(questions, []).bytes
    picked = chosen(estimator, questions, [], candidates, lambda _: Cost(1, 0.0, None))[:3]
    best = max(today - estimator.total(questions, list(each)).bytes for each in combinations(candidates, 3))
    ours = today - estimator.total(questions, picked).bytes
    share = ours / best if best else 1.0
    return f"the first three save {share:.1%} of what the best three of {len(candidates)} candidates do\n"
