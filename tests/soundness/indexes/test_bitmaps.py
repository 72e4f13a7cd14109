"""Bitmaps keep exactly the files with a matching row, and report exactly which rows match: random tables × predicates.

`PRUNER_PAIRS` and `PRUNER_SEED` as in `test_parquet_tables`; a failure prints the command that repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import pruner
from pruner.planning.plan import Plan
from tests.soundness.kinds import KINDS
from tests.soundness.predicates import Predicate, draw_predicate
from tests.soundness.tables import DuckDBScan, RandomTable, write_table
from tests.soundness.test_parquet_tables import PAIRS, PREDICATES_PER_TABLE, SEMANTICS, seeds
from tests.support.paging import page_everything

PAIRS_PER_TABLE = min(2 * PREDICATES_PER_TABLE, max(PAIRS, PREDICATES_PER_TABLE))
"""Twice as many as of statistics alone, over half as many tables: writing and indexing a table is most of the time."""

INDEXED = [kind for kind in KINDS if kind.name != "binary"]


def test_rows_of_bitmaps_are_those_of_a_scan(
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alone: every column has a bitmap. Mixed: some have, all have statistics, so that rows may be a superset.

    Both ways answer for the same tables and predicates: a scan costs as much as the plans. Every other table has its
    bitmaps in pages of a few records, each read when a predicate needs it.
    """
    scan = DuckDBScan()
    tally: Counter[tuple[str, bool]] = Counter()
    for seed in seeds(pytestconfig)[:: PAIRS_PER_TABLE // PREDICATES_PER_TABLE]:
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed), kinds=INDEXED)
        predicates = [draw_predicate(rng, table.columns, table.values) for _ in range(PAIRS_PER_TABLE)]
        found = scan.matching_rows(table, predicates)
        with monkeypatch.context() as patched:
            if seed >> 1 & 1:
                page_everything(patched, records=rng.randint(1, 8))
            for mixed in (False, True):
                opened = pruner.open_table(str(table.root), index_uri=str(tmp_path / f"{seed} {mixed}"))
                _create_indexes(opened, rng, table, mixed)
                pinned = opened.snapshot()
                for predicate, matching in zip(predicates, found, strict=True):
                    plan = pinned.plan(predicate.sql(), semantics=SEMANTICS)
                    _check(plan, matching, mixed, _repeat(seed, predicate))
                    tally["pairs", mixed] += 1
                    tally["telling", mixed] += 0 < len(matching) < len(table.files)
                    tally["exact", mixed] += plan.rows_exact
    for mixed, name in ((False, "bitmaps alone"), (True, "mixed with statistics")):
        pairs, exact = tally["pairs", mixed], tally["exact", mixed]
        record_property("figure", f"{pairs:,} pairs, {name}; rows exact in {exact / pairs:.0%}")
        assert tally["telling", mixed] >= 0.3 * pairs
        assert exact >= (0.2 if mixed else 1.0) * pairs
        if "PRUNER_SEED" not in os.environ:
            assert pairs >= PAIRS


def _create_indexes(opened: pruner.Table, rng: random.Random, table: RandomTable, mixed: bool) -> None:
    if mixed:
        opened.create_index("stats", on="*")
    names = [
        name for name, kind in table.columns.items() if kind in INDEXED and (not mixed or rng.random() < 0.6)
    ]
    for name in names:
        opened.create_index(f"rows of {name}", on=f'"{name}"', using="bitmap")


def _check(plan: Plan, matching: dict[str, list[int]], mixed: bool, repeat: str) -> None:
    kept = set(plan.files)
    lost = set(matching) - kept
    assert not lost, f"LOST {sorted(lost)}{repeat}"
    if not mixed:
        assert kept == set(matching), f"kept without need {sorted(kept - set(matching))}{repeat}"
    rows = {} if plan.rows is None else dict(plan.rows.pairs())
    for uri, positions in rows.items():
        if positions is None:
            continue
        missing = set(matching.get(uri, [])) - set(positions.tolist())
        assert not missing, f"LOST rows {sorted(missing)} of {uri}{repeat}"
    if plan.rows_exact:
        told = {uri: None if positions is None else positions.tolist() for uri, positions in rows.items()}
        assert told == matching, f"rows differ from a scan's{repeat}"


def _repeat(seed: int, predicate: Predicate) -> str:
    return (
        f"\npredicate: {predicate.sql()}\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest "
        "tests/soundness/indexes/test_bitmaps.py"
    )
