"""No matching row is lost, and what statistics prove is dropped: random tables × random predicates.

`PRUNER_PAIRS` sets the number of pairs of table and predicate (4,000 unless given, 20,000 or more with
`make fuzz N=…`); a failure prints the seed of its table and the command that repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import pruner
from tests.soundness.oracle import TRUE, can
from tests.soundness.predicates import Predicate, Test, draw_predicate, leaves
from tests.soundness.tables import DuckDBScan, RandomTable, write_table
from tests.support.running import profiles

PREDICATES_PER_TABLE = 250
DEFAULT_PAIRS = {"quick": 5_000 // profiles.QUICK_SHARE, "default": 4_000}.get(
    profiles.NAME, max(20_000, profiles.REQUESTED)
)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
LEAST_SHARE = 0.30
"""Least share of pairs in which some but not all files match: below it the run would show little."""
SEMANTICS = pruner.Semantics(engine="duckdb", zone="UTC")


def seeds(config: pytest.Config) -> list[int]:
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(seed) for seed in given.split(",")]
    base = int(config.option.hypothesis_seed)
    return [(base * 1_000_003 + number) % 2**32 for number in range(max(1, PAIRS // PREDICATES_PER_TABLE))]


def test_no_matching_row_is_lost_and_power_is_exact(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    scan = DuckDBScan()
    tally: Counter[tuple[str, str]] = Counter()
    telling: Counter[tuple[str, str]] = Counter()
    for seed in seeds(pytestconfig):
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed))
        predicates = [draw_predicate(rng, table.columns, table.values) for _ in range(PREDICATES_PER_TABLE)]
        opened = pruner.open_table(str(table.root))
        opened.create_index("stats", on="*")
        pinned = opened.snapshot()
        for predicate, matching in zip(predicates, scan.matching_files(table, predicates), strict=True):
            plan = pinned.plan(predicate.sql(), semantics=SEMANTICS)
            _check(seed, table, predicate, matching, set(plan.files))
            _count(predicate, matching, table, tally, telling)
    shares = {group: telling[group] / tally[group] for group in tally if tally[group] >= 50}
    listed = ", ".join(f"{what} {name} {share:.0%}" for (what, name), share in sorted(shares.items()))
    record_property(
        "figure", f"{tally['all', 'all']:,} pairs; share in which some but not all files match: {listed}"
    )
    assert shares["all", "all"] >= LEAST_SHARE
    if "PRUNER_SEED" not in os.environ:
        assert all(share >= LEAST_SHARE for share in shares.values()), shares


def _check(seed: int, table: RandomTable, predicate: Predicate, matching: set[str], kept: set[str]) -> None:
    repeat = (
        f"\npredicate: {predicate.sql()}\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest "
        "tests/soundness/test_parquet_tables.py"
    )
    lost = matching - kept
    assert not lost, f"LOST {sorted(lost)}{repeat}"
    provable = {name for name, of in table.files.items() if can(predicate, TRUE, of)}
    assert kept <= provable, f"kept without need {sorted(kept - provable)}{repeat}"
    assert provable <= kept, f"dropped though the oracle cannot prove it {sorted(provable - kept)}{repeat}"


def _count(
    predicate: Predicate,
    matching: set[str],
    table: RandomTable,
    tally: Counter[tuple[str, str]],
    telling: Counter[tuple[str, str]],
) -> None:
    groups = {("all", "all")}
    if isinstance(predicate, Test):
        groups |= {("type", predicate.kind.name), ("operator", predicate.operator)}
    else:
        groups.add(("operator", predicate.operator))
    groups |= {("type", leaf.kind.name) for leaf in leaves(predicate)}
    tally.update(groups)
    if 0 < len(matching) < len(table.files):
        telling.update(groups)
