"""Random counts, extremes, first rows and joins through the Trino plugin have the rows of a full scan.

The plugin prunes these tables by conditions and dynamic filters (docs/adr/0044-trino-plugin-answers-nothing.md), so
it answers nothing by itself: the requirement is that no statement misses a row. The oracle reads all rows once through
the plain catalog, with the conditions as columns. PRUNER_ANSWER_QUERIES=3000 runs more; a failure names its seed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import pruner
from tests.soundness.answer_statements import Query, draw_query
from tests.support.cases.statement_tables import DEFINITIONS, TABLES, statement_tables, write_parquet
from tests.support.service.planner import running_service
from tests.support.trino.server import (
    STATIC,
    Trino,
    aged,
    index_all,
    register_statement_tables,
    statement_configuration,
)
from tools.trino.client import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.trino

QUERIES = int(os.environ.get("PRUNER_ANSWER_QUERIES", "60"))
PER_READ = 20
"""Conditions evaluated by one read of all rows."""
SCHEMA = "answers"
COLUMNS = [name for name in DEFINITIONS["flights"].schema.names if name != "version"]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
VALUES = {
    "id": ("-1", "104", "500", "1100", "1e3", "DECIMAL '777.5'"),
    "carrier": ("'AA'", "'BA'", "'LZ'", "''"),
    "dest": ("'JFK'", "'MUC'", "'A'", "'ZZZ'"),
    "day": ("DATE '2024-01-01'", "DATE '2024-01-05'", "DATE '2024-01-12'", "DATE '2030-01-01'"),
    "delay": ("0e0", "33e0", "nan()", "1e300", "-infinity()"),
    "price": ("DECIMAL '130.00'", "DECIMAL '700.25'", "1e3", "0"),
    "distance": ("10000000104", "10000000999", "0"),
    "note": ("'a_b'", "''", "'zzz'"),
    "region": ("'de'", "'fr'", "'xx'"),
}
JOINS = (
    "SELECT count(*), min(f.id), max(f.ts) FROM {f} JOIN carriers c ON f.carrier = c.code AND c.fleet {small}",
    "SELECT f.id, a.city FROM {f} JOIN airports a ON f.dest = a.code AND a.altitude {small}",
    "SELECT count(*) FROM {f} WHERE f.dest IN (SELECT code FROM airports WHERE altitude {small})",
    "SELECT count(*) FROM {f} WHERE EXISTS (SELECT 1 FROM airports a WHERE a.code = f.dest AND a.altitude {small})",
    "SELECT count(*) FROM {f} WHERE f.dest NOT IN (SELECT code FROM airports WHERE altitude {small})",
    "SELECT f.id FROM {f} WHERE f.day = (SELECT max(day) FROM flights WHERE id {small})",
    "SELECT count(*), count(c.code) FROM {f} LEFT JOIN carriers c ON f.carrier = c.code AND c.fleet {small}",
    "SELECT count(*), count(f.id) FROM {f} RIGHT JOIN airports a ON f.dest = a.code AND a.altitude {small}",
    "SELECT c.country, count(*) FROM {f} JOIN carriers c ON f.carrier = c.code"
    " JOIN airports a ON f.dest = a.code AND a.altitude {small} GROUP BY c.country",
    "SELECT id, r FROM (SELECT id, rank() OVER (PARTITION BY dest ORDER BY id DESC) AS r FROM {f})"
    " WHERE r <= 2 AND id {small}",
    "SELECT region, max_by(id, ts), count_if(id {small}), bool_or(cancelled) FROM {f} GROUP BY region",
)
"""`{f}` stands for the flights that meet a condition, `{small}` for a comparison."""


@dataclass(frozen=True)
class Lake:
    """The tables through one pair of catalogs."""

    trino: Trino
    plain: str
    schema: str

    def read(self, sql: str) -> Rows:
        """Read through the plain catalog, without the connector's own use of statistics and dynamic filters."""
        session = {**STATIC, **({"hive.parquet_ignore_statistics": "true"} if self.plain == "hive" else {})}
        return self.trino.run(sql, catalog=self.plain, schema=self.schema, session=session).rows

    def read_pruned(self, sql: str, rng: random.Random) -> Rows:
        """Read through the plugin, with or without dynamic filters."""
        session = STATIC if rng.random() < 0.3 else None
        catalog = f"pruned_{self.plain}"
        return self.trino.run(sql, catalog=catalog, schema=self.schema, session=session).rows


@pytest.fixture(scope="module", params=["parquet", "mor_v9"])
def lake(
    request: pytest.FixtureRequest,
    trino: Trino,
    start_session: Callable[[], SparkSession],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    variant: str = request.param
    root = tmp_path_factory.mktemp(f"answers_{variant}")
    is_hudi = variant != "parquet"
    if is_hudi:
        source = statement_tables(start_session).path(variant)
        for name in TABLES:
            shutil.copytree(source / name, root / name)
    else:
        aged(write_parquet(root))
    index_all(root)
    flights = pruner.open_table(root / "flights")
    for column in ("carrier", "dest"):
        flights.create_index(f"rows of {column}", on=column, using="bitmap")
    plain, schema = "hudi" if is_hudi else "hive", f"{SCHEMA}_{variant}"
    register_statement_tables(trino.metastore, schema, root, hudi=is_hudi)
    with running_service(statement_configuration(root, schema, hudi=is_hudi)) as url:
        trino.gate.target = url
        yield Lake(trino, plain, schema)


def _condition(rng: random.Random, depth: int = 2) -> str:
    """A condition of any form over flights."""
    if depth and rng.random() < 0.4:
        parts = [_condition(rng, depth - 1) for _ in range(2)]
        return f"({parts[0]} {rng.choice(['AND', 'OR'])} {parts[1]})"
    if rng.random() < 0.15:
        return f"NOT ({_condition(rng, depth - 1 if depth else 0)})"
    column = rng.choice(list(VALUES))
    values = VALUES[column]
    match rng.randrange(6):
        case 0:
            return f"{column} {rng.choice(['IS NULL', 'IS NOT NULL'])}"
        case 1:
            listed = [*rng.sample(values, 2), *rng.choice([[], [], ["NULL"]])]
            return f"{column} {rng.choice(['IN', 'NOT IN'])} ({', '.join(listed)})"
        case 2:
            return f"{column} BETWEEN {rng.choice(values)} AND {rng.choice(values)}"
        case 3:
            return rng.choice(
                [
                    "cancelled",
                    "NOT cancelled",
                    "note LIKE 'a%'",
                    "dest LIKE '%F_'",
                    "id % 100 = 4",
                    "year(day) = 2024",
                ]
            )
        case _:
            return f"{column} {rng.choice(OPERATORS)} {rng.choice(values)}"


def _seeds(config: pytest.Config, schema: str) -> list[int]:
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(given)]
    rng = random.Random(f"{config.option.hypothesis_seed} {schema}")
    return [rng.randrange(2**32) for _ in range(max(1, QUERIES // 2 // PER_READ))]


def test_random_answers_equal_a_full_scan(
    lake: Lake, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    tally: Counter[str] = Counter()
    for seed in _seeds(pytestconfig, lake.schema):
        rng = random.Random(seed)
        conditions = ["" if rng.random() < 0.15 else _condition(rng) for _ in range(PER_READ)]
        _check_answers(lake, rng, conditions, seed, tally)
        _check_joins(lake, rng, conditions, seed, tally)
    record_property(
        "figure",
        f"Trino, {lake.schema}: {tally['all']} statements, {tally['pruned']} with a plan that keeps fewer files",
    )
    if "PRUNER_SEED" not in os.environ:
        assert tally["pruned"] > tally["all"] / 5


def _check_answers(
    lake: Lake, rng: random.Random, conditions: list[str], seed: int, tally: Counter[str]
) -> None:
    """Compare one statement for each condition with the rows that meet it."""
    shown = ", ".join([*COLUMNS, *(f"({text or 'true'})" for text in conditions)])
    rows = lake.read(f"SELECT {shown} FROM flights")
    for k, text in enumerate(conditions):
        matching: list[dict[str, Any]] = [
            dict(zip(COLUMNS, row, strict=False)) for row in rows if row[len(COLUMNS) + k]
        ]
        query: Query = draw_query(rng, COLUMNS, text)
        sql = query.sql("flights", str, offset_first=True)
        query.require(_pruned(lake, sql, rng, tally), matching, f"\n{sql}\nPRUNER_SEED={seed}")


def _check_joins(
    lake: Lake, rng: random.Random, conditions: list[str], seed: int, tally: Counter[str]
) -> None:
    """Compare joins and windows with the plain catalog."""
    for text in conditions[: PER_READ // 4]:
        small = f"{rng.choice(['<', '>', '=', '<>'])} {rng.choice([0, 200, 250, 700, 1000])}"
        sql = rng.choice(JOINS).format(f=f"(SELECT * FROM flights WHERE {text or 'true'}) f", small=small)
        wanted = Counter(map(repr, lake.read(sql)))
        assert Counter(map(repr, _pruned(lake, sql, rng, tally))) == wanted, f"\n{sql}\nPRUNER_SEED={seed}"


def _pruned(lake: Lake, sql: str, rng: random.Random, tally: Counter[str]) -> Rows:
    """Read through the plugin and note whether a scan was given fewer files."""
    lake.trino.gate.forget()
    rows = lake.read_pruned(sql, rng)
    tally["all"] += 1
    tally["pruned"] += any(answer["kept"] < answer["total"] for answer in lake.trino.gate.answers)
    return rows
