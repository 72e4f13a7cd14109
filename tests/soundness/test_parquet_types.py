"""No matching row is lost, whatever Parquet types a column has from file to file; plans of uniform files are selective.

Random tables of files whose types no single writer mixes × random predicates, in random sessions. DuckDB over a copy of
all rows is the oracle. `PRUNER_PAIRS` sets the number of pairs (`make fuzz N=…` sets it too), `PRUNER_SEED` repeats the
tables of some seeds.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import pruner
from pruner.expr.text.sql import parse_predicate
from tests.soundness.mixed_tables import FILES, MixedTable, Tally, indexed, seeds, write_table
from tests.soundness.parquet_type_kinds import DUCKDB_FAMILIES
from tests.support.running import profiles

PREDICATES_PER_TABLE = 40
DEFAULT_PAIRS = {"quick": 200, "default": 800}.get(profiles.NAME, max(20_000, profiles.REQUESTED))
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
LEAST_DROPPED = 0.5
"""Of the files of uniform tables without a matching row, the least share that plans drop."""


class Copy:
    """All rows of a table in DuckDB, with the file of each."""

    def __init__(self, table: MixedTable, zone: str) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(f"SET TimeZone = '{zone}'; PRAGMA disable_optimizer")
        files = sorted(map(str, table.root.glob("*.parquet")))
        read = "read_parquet($files, filename = true, union_by_name = true)"
        self._connection.execute(f"CREATE TABLE copied AS SELECT * FROM {read}", {"files": files})

    def matching(self, predicate: str) -> set[str] | None:
        """Files with a row for which the predicate is true; None where DuckDB refuses it."""
        try:
            rows = self._connection.execute(
                f"SELECT DISTINCT filename FROM copied WHERE {predicate}"
            ).fetchall()
        except duckdb.Error:
            return None
        return {Path(row[0]).name for row in rows}


def draw_predicate(rng: random.Random, table: MixedTable) -> str:
    def literal() -> str:
        number = rng.choice(table.numbers) + rng.choice([0, 0, 0, -1, 1])
        return rng.choice(table.family.literals)(number)

    def leaf() -> str:
        match rng.randrange(6):
            case 0:
                return f"{table.name} IN ({', '.join(literal() for _ in range(rng.choice([1, 2, 3])))})"
            case 1:
                return f"{table.name} BETWEEN {literal()} AND {literal()}"
            case 2 if rng.random() < 0.3:
                return f"{table.name} IS NULL"
            case _:
                return f"{table.name} {rng.choice(['=', '=', '<', '<=', '>', '>=', '!='])} {literal()}"

    match rng.randrange(5):
        case 0:
            return f"({leaf()}) OR ({leaf()})"
        case 1:
            return f"NOT ({leaf()})"
        case _:
            return leaf()


def test_no_row_is_lost_whatever_types_the_files_have(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    for seed in seeds(pytestconfig, PAIRS // PREDICATES_PER_TABLE):
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed), DUCKDB_FAMILIES)
        zone = rng.choice(ZONES)
        try:
            copy = Copy(table, zone)
        except duckdb.Error:
            continue  # DuckDB does not read such a mix
        opened = indexed(rng, table)
        with contextlib.suppress(pruner.PrunerError):
            opened.create_index("looked_up", on=table.name, using="bloom_filter")
        pinned = opened.snapshot()
        semantics = pruner.Semantics(engine="duckdb", zone=zone)
        for _ in range(PREDICATES_PER_TABLE):
            predicate = draw_predicate(rng, table)
            matching = copy.matching(predicate)
            if matching is None:
                continue
            plan = pinned.plan(parse_predicate(predicate, semantics), semantics=semantics)
            kept = {Path(file).name for file in plan.files}
            assert matching <= kept, (
                f"LOST {sorted(matching - kept)}: {predicate} in {zone}, {table.family.name} as "
                f"{[way.name for way in table.ways]}\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest {__file__}"
            )
            tally.add(table.kind, table, without=FILES - len(matching), dropped=FILES - len(kept))
    record_property("figure", str(tally))
    if "PRUNER_SEED" not in os.environ:
        assert tally.share() >= LEAST_DROPPED, str(tally)
