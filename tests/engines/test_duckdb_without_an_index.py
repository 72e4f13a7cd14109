"""Random statements over Delta and Iceberg tables without a pruner index: what the tables' own statistics prune.

`PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=1000` tries that many statements over each format; a failure names its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pruner_duckdb
from tests.engines.random_answers import random_statement, shown
from tests.support.delta.random_tables import COLUMNS, random_table
from tests.support.iceberg.tables import SPECS, IcebergLake, changed
from tests.support.running import profiles

STATEMENTS = 40
"""Statements over one table."""

OF_DELTA = (
    "id >= 30",
    "number < 40",
    "real > 3.5",
    "price BETWEEN 2 AND 14",
    "text < 'M'",
    "late IS NOT NULL",
)
OF_ICEBERG = ("key_ >= 30", "number < 100", "x > 0", "price < 60", "name >= 'M'", "added IS NOT NULL", "flag")


@pytest.mark.slow
def test_delta_tables(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    seed = profiles.seed()
    random = Random(seed)
    tally: Counter[str] = Counter()
    for case in range(max(4, profiles.examples(200) // STATEMENTS)):
        table = random_table(random, tmp_path / str(case))
        names = [each.name for each in COLUMNS]
        compared(random, str(table.root), table.rows(), names, OF_DELTA, f"seed {seed}, case {case}", tally)
    record_property(
        "figure", f"{tally['all']} statements, {tally['fewer']} read fewer files than their conditions keep"
    )
    assert tally["fewer"] > tally["all"] / 20


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["unpartitioned", "months"])
def test_iceberg_tables(tmp_path: Path, spec: str) -> None:
    seed = profiles.seed() + list(SPECS).index(spec)
    random = Random(seed)
    tally: Counter[str] = Counter()
    table = changed(IcebergLake(tmp_path), spec, 2)
    rows = table.scan().to_arrow()
    for case in range(max(3, profiles.examples(200) // STATEMENTS)):
        repeat = f"seed {seed}, case {case}"
        compared(random, table.metadata_location, rows, rows.column_names, OF_ICEBERG, repeat, tally)
    assert tally["fewer"] > tally["all"] / 20


def compared(
    random: Random,
    place: str,
    rows: pa.Table,
    names: list[str],
    conditions: tuple[str, ...],
    repeat: str,
    tally: Counter[str],
) -> None:
    """Compare statements with what DuckDB finds in the rows themselves, with its optimizer off."""
    columns = [f'"{name}"' for name in names if not pa.types.is_nested(rows.schema.field(name).type)]
    plain = duckdb.connect()
    plain.register("t", rows)
    plain.execute("PRAGMA disable_optimizer")
    with pruner_duckdb.connect({"t": place}) as pruned:
        for each in (pruned, plain):
            each.execute("SET TimeZone = 'UTC'")
        for _ in range(STATEMENTS):
            statement = drawn(random, columns, conditions)
            wanted = plain.execute(statement).fetchall()
            told = pruned.execute(statement).fetchall()
            assert Counter(map(shown, told)) == Counter(map(shown, wanted)), f"{statement}\n{repeat}"
            tally["all"] += 1
            tally["fewer"] += any(scan.read < scan.kept for scan in list(pruned.last_plans)[-1:])


def drawn(random: Random, columns: list[str], conditions: tuple[str, ...]) -> str:
    """A statement whose rows do not depend on the row order of the table."""

    def condition() -> str:
        parts = [f"NOT ({text})" if random.random() < 0.2 else text for text in random.sample(conditions, 2)]
        return random.choice([parts[0], parts[0], f"({parts[0]} {random.choice(['AND', 'OR'])} {parts[1]})"])

    where = "" if random.random() < 0.5 else f"WHERE {condition()}"
    if random.random() < 0.5:
        return random_statement(random, columns, where, (condition(), []), in_order=False)
    column, other = random.choice(columns), random.choice(columns)
    order = f"ORDER BY {column} {random.choice(['ASC', 'DESC'])} {random.choice(['', 'NULLS FIRST', 'NULLS LAST'])}"
    rows = random.choice([1, 3, 12])
    choices: list[Any] = [
        f"SELECT {column} FROM t {where} {order} LIMIT {rows} OFFSET {rows - 1}",
        f"SELECT {column}, {other} FROM t {where} QUALIFY rank() OVER ({order}) <= {rows}",
        f"SELECT max({column}), min({column}), count({other}) FROM t {where}",
        f"SELECT max({column}) FROM t {where}",
        f"SELECT count(*) FROM t WHERE {column} IN (SELECT max({column}) FROM t {where})",
        f"SELECT {other} FROM t {where} QUALIFY rank() OVER (PARTITION BY {other} {order}) <= {rows}",
    ]
    return str(random.choice(choices))
