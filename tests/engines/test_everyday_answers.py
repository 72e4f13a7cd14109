"""Everyday statements over tables of each format: plain DuckDB's answers, and the files that are read for them.

Expected rows come from DuckDB over the rows themselves, with its optimizer off.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import pruner
import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import BEFORE_2, described, is_left_to_1_5
from tests.engines.random_answers import random_statement, shown
from tests.support.cases.statement_tables import arrow_rows, statement_tables, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = (
    "parquet",
    "delta",
    "iceberg",
    pytest.param("cow_v9", marks=pytest.mark.spark),
    pytest.param("mor_v9", marks=pytest.mark.spark),
)
FILES = 12
ROWS_PER_FILE = 50

STATEMENTS = (
    # Counts.
    ("SELECT count(*) FROM flights", 0, 4),
    ("SELECT count(*) AS n FROM flights WHERE region = 'de'", 0, 1),
    ("SELECT count(*) FROM flights WHERE day >= DATE '2024-01-10'", 0, 1),
    ("SELECT count(*) FROM flights WHERE day BETWEEN '2024-01-03' AND '2024-01-05'", 0, 1),
    ("SELECT count(*) FROM flights WHERE ts >= TIMESTAMPTZ '2024-01-04 12:00:00+00'", 1, 3),
    ("SELECT count(delay), count(*) - count(delay) AS missing FROM flights", 0, 4),
    ("SELECT count(*) FROM flights WHERE note IS NOT NULL", 0, 0),
    ("SELECT count(*) FROM flights WHERE carrier = 'AA'", 0, 0),
    ("SELECT count(*) FROM flights WHERE carrier IN ('AA', 'LH') AND region = 'fr'", 0, 0),
    ("SELECT count(DISTINCT carrier) FROM flights", 0, 4),
    ("SELECT count(DISTINCT region), count(DISTINCT day) FROM flights", 0, 12),
    ("SELECT count(*) > 0 FROM flights WHERE id = 101", 1, 1),
    ("SELECT count(*) FILTER (WHERE delay > 30) FROM flights", 12, 12),
    ("SELECT count(*) FILTER (WHERE region = 'de'), count(*) FROM flights", 0, 4),
    (
        "SELECT count(*) FILTER (carrier = 'AA') AS n, count(delay) FILTER (WHERE day < '2024-01-04') FROM flights",
        0,
        2,
    ),
    ("SELECT max(ts) FILTER (WHERE region = 'us') FROM flights WHERE day > DATE '2024-01-02'", 0, 0),
    ("SELECT sum(CASE WHEN carrier = 'AA' THEN 1 ELSE 0 END) FROM flights", 12, 12),
    # Minima and maxima.
    ("SELECT min(day), max(day) FROM flights", 0, 0),
    ("SELECT max(ts) FROM flights", 0, 0),
    ("SELECT max(ts) FROM flights WHERE region = 'us'", 0, 0),
    ("SELECT min(id), max(id), max(delay) FROM flights", 0, 0),
    ("SELECT max(price) FROM flights", 1, 1),
    ("SELECT min(carrier), max(carrier) FROM flights", 0, 0),
    ("SELECT min(carrier) FROM flights WHERE carrier > 'AA' AND carrier <> 'LH'", 0, 0),
    ("SELECT avg(delay), sum(distance) FROM flights", 12, 12),
    ("SELECT bool_and(cancelled), bool_or(cancelled) FROM flights", 0, 1),
    ("SELECT region, bool_or(cancelled) FROM flights GROUP BY region", 0, 4),
    ("SELECT id FROM flights WHERE ts = (SELECT max(ts) FROM flights)", *((12, 12) if BEFORE_2 else (1, 1))),
    # Per group.
    ("SELECT region, count(*) FROM flights GROUP BY region", 0, 4),
    ("SELECT region, count(*) AS n FROM flights GROUP BY 1 ORDER BY n DESC, region LIMIT 2", 0, 4),
    ("SELECT day, count(*), min(id), max(ts) FROM flights GROUP BY day", 0, 4),
    ("SELECT carrier, count(*) FROM flights GROUP BY carrier HAVING count(*) > 10 ORDER BY carrier", 0, 4),
    ("SELECT dest, max(ts), count(delay) FROM flights WHERE day > DATE '2024-01-06' GROUP BY dest", 0, 1),
    ("SELECT region, count(*) FROM flights WHERE carrier = 'BA' GROUP BY region", 0, 3),
    ("SELECT region, avg(delay) FROM flights GROUP BY region", 12, 12),
    ("SELECT region, dest, count(*) FROM flights GROUP BY region, dest", 0, 4),
    ("SELECT region, carrier, count(*) AS n FROM flights GROUP BY region, carrier ORDER BY n, 1, 2", 0, 4),
    ("SELECT region, day, max(ts), count(delay) FROM flights GROUP BY region, day", 0, 4),
    ("SELECT region, dest, max(ts), count(*) FROM flights GROUP BY 2, 1 HAVING count(*) > 20", 0, 4),
    ("SELECT carrier, max(ts) FROM flights GROUP BY carrier", 4, 7),
    ("SELECT region, arg_max(id, ts) FROM flights GROUP BY region", 3, 7),
    # Distinct values and existence.
    ("SELECT DISTINCT region FROM flights", 0, 4),
    ("SELECT DISTINCT carrier FROM flights ORDER BY carrier", 0, 4),
    ("SELECT DISTINCT day FROM flights WHERE region = 'fr' ORDER BY day DESC", 0, 1),
    ("SELECT DISTINCT dest FROM flights WHERE id < 300", 0, 2),
    ("SELECT DISTINCT region, dest FROM flights", 0, 4),
    ("SELECT DISTINCT region, day, carrier FROM flights", 0, 4),
    ("SELECT EXISTS (SELECT 1 FROM flights WHERE carrier = 'AA')", 1, 1),
    ("SELECT EXISTS (SELECT 1 FROM flights WHERE id = 101)", 1, 1),
    ("SELECT NOT EXISTS (SELECT 1 FROM flights WHERE day > DATE '2025-01-01')", 0, 0),
    ("SELECT CASE WHEN EXISTS (FROM flights WHERE region = 'us') THEN 'yes' ELSE 'no' END", 1, 1),
    # The first rows.
    ("SELECT id, ts FROM flights ORDER BY ts DESC LIMIT 10", 1, 1),
    ("SELECT id, ts FROM flights ORDER BY ts LIMIT 10 OFFSET 45", 2, 4),
    ("SELECT id FROM flights WHERE carrier = 'AA' ORDER BY ts DESC LIMIT 3", 1, 1),
    ("SELECT id FROM flights ORDER BY day DESC, id LIMIT 5", 1, 1),
    ("SELECT id, delay FROM flights ORDER BY delay DESC NULLS LAST, id LIMIT 5", 1, 1),
    ("SELECT id FROM flights ORDER BY -id LIMIT 5", 12, 12),
    ("SELECT id FROM flights ORDER BY date_trunc('day', ts) DESC, id LIMIT 5", 12, 12),
    ("SELECT count(*) FROM (SELECT id FROM flights LIMIT 20)", 1, None),
    ("SELECT count(*) FROM (SELECT id FROM flights WHERE region = 'us' LIMIT 60)", 2, None),
    ("SELECT arg_max(id, ts), max_by(dest, ts) FROM flights", 1, 1),
    # The latest row of each group.
    ("SELECT id FROM flights QUALIFY row_number() OVER (PARTITION BY region ORDER BY ts DESC) = 1", 3, 7),
    ("SELECT id FROM flights QUALIFY row_number() OVER (PARTITION BY carrier ORDER BY ts DESC) <= 2", 4, 7),
    ("SELECT id FROM flights QUALIFY rank() OVER (PARTITION BY region, dest ORDER BY ts DESC) = 1", 12, 12),
    ("SELECT id FROM flights QUALIFY rank() OVER (PARTITION BY region, carrier ORDER BY ts) = 1", 12, 12),
    ("SELECT id FROM flights QUALIFY rank() OVER (PARTITION BY region, version ORDER BY ts DESC) = 1", 6, 7),
    (
        "SELECT count(*) FROM (SELECT id FROM flights QUALIFY dense_rank() OVER (ORDER BY day DESC) <= 2)",
        2,
        2,
    ),
    (
        "WITH latest AS (SELECT *, row_number() OVER (PARTITION BY region ORDER BY ts DESC) AS place FROM flights)"
        " SELECT id, region, ts FROM latest WHERE place = 1",
        3,
        7,
    ),
    (
        "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY ts DESC) AS place FROM flights) WHERE place <= 3",
        1,
        1,
    ),
    (
        "WITH totals AS (SELECT region, count(*) AS n FROM flights GROUP BY region) SELECT max(n) FROM totals",
        0,
        4,
    ),
    (
        "SELECT f.id FROM flights f JOIN (SELECT max(day) AS d FROM flights) m ON f.day = m.d"
        " WHERE f.region = 'us'",
        *((4, 4) if BEFORE_2 else (1, 1)),
    ),
)
"""Statements, and how many files all their scans read; the last number is that of merge-on-read tables, of which four
files have logs; None where it depends on the files' names."""


@pytest.fixture(scope="module", params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def both(
    kind: str, tmp_path_factory: pytest.TempPathFactory, start_session: Callable[[], SparkSession]
) -> Iterator[tuple[Any, duckdb.DuckDBPyConnection]]:
    """A pruned connection, and a plain one with its optimizer off."""
    folder = tmp_path_factory.mktemp(kind)
    indexes = str(folder / "indexes")
    if kind in ("cow_v9", "mor_v9"):
        table = pruner.open_table(
            str(statement_tables(start_session).path(kind) / "flights"), index_uri=indexes
        )
    else:
        table = pruner.open_table(_written(kind, folder), index_uri=indexes)
    table.create_index("stats", on="*")
    table.create_index("carriers", on="carrier", using="bitmap")
    plain = duckdb.connect()
    plain.register("flights", arrow_rows("flights"))
    plain.execute("PRAGMA disable_optimizer")
    with pruner_duckdb.connect({"flights": table}) as pruned:
        for each in (pruned, plain):
            each.execute("SET TimeZone = 'UTC'")
        yield pruned, plain


def _written(kind: str, folder: Path) -> str:
    if kind == "parquet":
        return str(write_parquet(folder) / "flights")
    rows = arrow_rows("flights")
    files = [rows.slice(number * ROWS_PER_FILE, ROWS_PER_FILE) for number in range(FILES)]
    if kind == "delta":
        for each in files:
            write_deltalake(str(folder / "t"), each, mode="append", partition_by=["region"])
        return str(folder / "t")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    made = catalog.create_table("ns.flights", rows.schema)
    with made.update_spec() as spec:
        spec.add_identity("region")
    for each in files:
        made.append(each)
    return str(made.metadata_location)


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("statement", "files", "merged"), STATEMENTS)
def test_what_people_write_every_day(
    both: tuple[Any, duckdb.DuckDBPyConnection], kind: str, statement: str, files: int, merged: int | None
) -> None:
    pruned, plain = both
    wanted = plain.execute(statement)
    names, rows = described(wanted.description), wanted.fetchall()
    before = set(map(id, pruned.last_plans))
    found = pruned.execute(statement)
    assert described(found.description) == names
    assert Counter(map(repr, found.fetchall())) == Counter(map(repr, rows))
    read = sum(scan.read for scan in pruned.last_plans if id(scan) not in before)
    wanted_reads = merged if kind == "mor_v9" else files
    assert wanted_reads is None or read == wanted_reads or is_left_to_1_5(statement)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["", "WHERE region = 'us'", "WHERE delay > 30"])
def test_pages_without_an_order_show_each_row_once(
    both: tuple[Any, duckdb.DuckDBPyConnection], kind: str, where: str
) -> None:
    """Early pages are read from few files, late ones from all; each of merged rows, which have no order, from all."""
    pruned, plain = both
    if kind == "mor_v9":
        pruned.execute("SELECT id FROM flights LIMIT 41").fetchall()
        assert list(pruned.last_plans)[-1].read == 12
        return
    wanted = plain.execute(f"SELECT id FROM flights {where}").fetchall()
    found: list[Any] = []
    while len(found) < len(wanted):
        page = pruned.execute(f"SELECT id FROM flights {where} LIMIT 41 OFFSET {len(found)}").fetchall()
        if not found:
            assert list(pruned.last_plans)[-1].read < 12
        assert page
        found += page
    assert Counter(found) == Counter(wanted)


CONDITIONS = (
    *(
        "region = 'de'",
        "carrier = 'AA'",
        "carrier > 'BA'",
        "day >= DATE '2024-01-05'",
        "day <> DATE '2024-01-02'",
    ),
    *(
        "delay > 30",
        "note IS NULL",
        "note IS NOT NULL",
        "id < 300",
        "id % 2 = 0",
        "cancelled",
        "dest LIKE 'B%'",
    ),
    *("ts < TIMESTAMPTZ '2024-01-06 12:00:00+00'", "region IN ('fr', 'us')", "distance BETWEEN 100 AND 900"),
)


@pytest.mark.slow
def test_random_statements_over_each_format(
    both: tuple[Any, duckdb.DuckDBPyConnection], kind: str, pytestconfig: pytest.Config
) -> None:
    pruned, plain = both
    rng = random.Random(f"{pytestconfig.option.hypothesis_seed} {kind}")
    names = ["region", "day", "carrier", "dest", "id", "ts", "delay", "note", "cancelled", "version", "price"]

    def condition() -> str:
        parts = [f"NOT ({text})" if rng.random() < 0.2 else text for text in rng.sample(CONDITIONS, 2)]
        return rng.choice([parts[0], parts[0], f"({parts[0]} {rng.choice(['AND', 'OR'])} {parts[1]})"])

    fewer = 0
    statements = int(os.environ.get("PRUNER_ANSWER_STATEMENTS", "60"))
    for _ in range(statements):
        where = "" if rng.random() < 0.3 else f"WHERE {condition()}"
        statement = random_statement(
            rng, names, where, (condition(), ["cancelled"]), table="flights", in_order=False
        )
        wanted = plain.execute(statement)
        columns, rows = [each[:2] for each in wanted.description or ()], wanted.fetchall()
        found = pruned.execute(statement)
        assert [each[:2] for each in found.description] == columns, statement
        assert Counter(map(shown, found.fetchall())) == Counter(map(shown, rows)), statement
        fewer += any(scan.read < scan.kept for scan in list(pruned.last_plans)[-1:])
    assert fewer > statements / 10
