"""Bloom filters and record indexes lose no matching row, alone and mixed: random tables × predicates.

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
from tests.soundness.kinds import KINDS
from tests.soundness.predicates import Predicate, draw_predicate
from tests.soundness.tables import DuckDBScan, RandomTable, write_table
from tests.soundness.test_parquet_tables import SEMANTICS, seeds
from tests.support.running import profiles

DEFAULT_PAIRS = {"quick": 5_000 // profiles.QUICK_SHARE, "default": 1_000}.get(
    profiles.NAME, max(2_000, profiles.REQUESTED)
)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
PAIRS_PER_TABLE = min(250 if profiles.IS_FIXED else 500, max(PAIRS, 1))
"""Writing and indexing a table takes most of the time."""

OPTIONS = {"bloom_filter": {"fpp": ["0.001", "0.01", "0.1"]}, "record_index": dict[str, list[str]]()}
"""The index types that are tested alone, with the choices for their options."""

LEAST_SHARE = 0.3
"""Least share of pairs in which some but not all files match: below it the run would show little."""


def test_no_matching_row_is_lost(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    scan = DuckDBScan()
    tally: Counter[str] = Counter()
    for seed in seeds(pytestconfig)[: max(1, PAIRS // PAIRS_PER_TABLE)]:
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed))
        predicates = [draw_predicate(rng, table.columns, table.values) for _ in range(PAIRS_PER_TABLE)]
        found = scan.matching_files(table, predicates)
        for using in (*OPTIONS, "mixed"):
            opened = pruner.open_table(str(table.root), index_uri=str(tmp_path / f"{seed} {using}"))
            _create_indexes(opened, rng, table, using)
            pinned = opened.snapshot()
            for predicate, matching in zip(predicates, found, strict=True):
                plan = pinned.plan(predicate.sql(), semantics=SEMANTICS)
                lost = matching - set(plan.files)
                assert not lost, f"LOST {sorted(lost)} by {using}{_repeat(seed, predicate)}"
                tally["pairs"] += 1
                tally["telling"] += 0 < len(matching) < len(table.files)
                tally[using] += plan.kept < plan.total
    alone = ", ".join(f"{using} alone in {tally[using]:,}" for using in OPTIONS)
    record_property("figure", f"{tally['pairs']:,} pairs; something is dropped by {alone}")
    assert tally["telling"] >= LEAST_SHARE * tally["pairs"]
    assert all(tally[using] >= 0.1 * tally["pairs"] / 3 for using in OPTIONS), tally


def _create_indexes(opened: pruner.Table, rng: random.Random, table: RandomTable, using: str) -> None:
    """Indexes of one type on all columns, or of all types, each on some."""
    mixed = using == "mixed"
    if mixed:
        opened.create_index("stats", on="*")
    for name, kind in table.columns.items():
        for each, choices in OPTIONS.items():
            if kind in KINDS and (each == using or (mixed and rng.random() < 0.5)):
                options = {option: rng.choice(values) for option, values in choices.items()}
                opened.create_index(f"{each} of {name}", on=f'"{name}"', using=each, options=options)
        if mixed and kind.name != "binary" and rng.random() < 0.3:
            opened.create_index(f"rows of {name}", on=f'"{name}"', using="bitmap")


def _repeat(seed: int, predicate: Predicate) -> str:
    return (
        f"\npredicate: {predicate.sql()}\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest "
        "tests/soundness/indexes/test_blooms.py"
    )
