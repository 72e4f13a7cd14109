"""Whole statements over pruned tables: the rows of a full read, from as few files as can be proven.

Flights: twelve files of fifty ids each (file n holds ids 50n to 50n+49, day n, carriers of n % 6), three
partitions (region of n is n % 3), no delay in files 3, 7 and 11. Airports: four files of ten rows,
flight = 5 * row number.
"""

# ruff: noqa: E501 - one statement, one line: they are read as a table

from __future__ import annotations

import pytest

import pruner_duckdb
from pruner_duckdb.scans import LEFT_OUT
from tests.engines.duckdb.duckdb_tables import (
    BEFORE_2,
    Compared,
    indexed,
    oracle,
    write_airports,
    write_flights,
)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("queries")
    flights, airports = write_flights(base / "flights"), write_airports(base / "airports")
    pruned = pruner_duckdb.connect({"flights": indexed(flights), "airports": indexed(airports)})
    compared = Compared(pruned, oracle({"flights": flights, "airports": airports}))
    compared.both("SET TimeZone = 'UTC'")
    compared.both("CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS flight_id")
    compared.both("CREATE VIEW wanted_few AS SELECT * FROM wanted WHERE flight_id < 61")
    return compared


ONE_TABLE = {
    # comparisons
    "SELECT * FROM flights WHERE id = 5": 1,
    "SELECT id, ts FROM flights WHERE 5 = id": 1,
    "SELECT count(*) FROM flights WHERE id < 100": 2,
    "SELECT count(*) FROM flights WHERE id <= 100": 3,
    "SELECT count(*) FROM flights WHERE id > 549": 1,
    "SELECT count(*) FROM flights WHERE id >= 549.5": 1,
    "SELECT count(*) FROM flights WHERE id BETWEEN 99 AND 150": 3,
    "SELECT count(*) FROM flights WHERE NOT id < 500": 2,
    "SELECT count(*) FROM flights WHERE id = 5.5": 0,
    "SELECT count(*) FROM flights WHERE id = -1": 0,
    "SELECT * FROM flights WHERE id > 100000": 0,
    "SELECT count(*) FROM flights WHERE price < 62.5": 1,
    "SELECT count(*) FROM flights WHERE day = '2024-01-03'": 1,
    "SELECT count(*) FROM flights WHERE ts >= '2024-01-11 00:00:00'": 2,
    "SELECT count(*) FROM flights WHERE ts::DATE = DATE '2024-01-04'": 1,
    "SELECT count(*) FROM flights WHERE date_trunc('day', ts) = TIMESTAMP '2024-01-04'": 1,
    "SELECT count(*) FROM flights WHERE seen < TIMESTAMPTZ '2024-01-02 00:00:00+00'": 1,
    "SELECT count(*) FROM flights WHERE seen::TIMESTAMP < '2024-01-02'": 1,
    # partitions
    "SELECT count(*) FROM flights WHERE region = 'de'": 4,
    "SELECT count(*) FROM flights WHERE region IN ('de', 'fr x') AND id < 100": 2,
    "SELECT region, count(*) FROM flights WHERE region > 'e' GROUP BY region": 8,
    # IN, OR, NOT
    "SELECT count(*) FROM flights WHERE id IN (1, 2, 120)": 2,
    "SELECT count(*) FROM flights WHERE id IN (1, NULL)": 1,
    "SELECT count(*) FROM flights WHERE id NOT IN (1, 2, NULL)": 0,
    "SELECT count(*) FROM flights WHERE id < 10 OR id > 590": 2,
    "SELECT count(*) FROM flights WHERE id < 10 OR region = 'us' AND day > '2024-01-09'": 2,
    "SELECT count(*) FROM flights WHERE NOT (id >= 50 OR price > 1000)": 1,
    "SELECT count(*) FROM flights WHERE NOT (id >= 50 AND carrier <> 'C00a')": 2,
    "SELECT count(*) FROM flights WHERE id < 10 OR length(carrier) = 99": 12,
    # NULL
    "SELECT count(*) FROM flights WHERE delay IS NULL": 12,
    "SELECT count(*) FROM flights WHERE delay IS NOT NULL": 9,
    "SELECT count(*) FROM flights WHERE delay > 0": 9,
    "SELECT count(*) FROM flights WHERE delay > 60": 1,
    "SELECT count(*) FROM flights WHERE id IS NULL": 0,
    "SELECT count(*) FROM flights WHERE delay = NULL": 12,
    "SELECT count(*) FROM flights WHERE id IS NOT DISTINCT FROM 5": 1,
    "SELECT count(*) FROM flights WHERE id IS DISTINCT FROM 5": 12,
    # text
    "SELECT count(*) FROM flights WHERE carrier = 'C03a'": 2,
    "SELECT count(*) FROM flights WHERE carrier LIKE 'C03%'": 2,
    "SELECT count(*) FROM flights WHERE carrier LIKE 'C0_a'": 12,
    "SELECT count(*) FROM flights WHERE starts_with(carrier, 'C05')": 2,
    "SELECT count(*) FROM flights WHERE carrier LIKE '%a'": 12,
    "SELECT count(*) FROM flights WHERE carrier NOT LIKE 'C%'": 0,
    "SELECT count(*) FROM flights WHERE carrier ILIKE 'c03%'": 6,
    "SELECT count(*) FROM flights WHERE upper(carrier) = 'C03A'": 2,
    "SELECT count(*) FROM flights WHERE upper(carrier) = 'C03A' AND id < 200": 1,
    # booleans and nested columns
    "SELECT count(*) FROM flights WHERE early": 6,
    "SELECT count(*) FROM flights WHERE NOT early AND id < 100": 2,
    "SELECT count(*) FROM flights WHERE extra.code = 4": 1,
    "SELECT count(*) FROM flights f WHERE f.extra.code IN (4, 5)": 2,
    # shapes
    "FROM flights WHERE id = 5": 1,
    "SELECT flights.id FROM flights WHERE flights.id = 5": 1,
    "SELECT F.id FROM Flights AS F WHERE f.ID = 5": 1,
    'SELECT * FROM "flights" x(a, b) WHERE x.a = 5 OR false': 1,
    "SELECT max(id) FROM flights WHERE id < 70 GROUP BY carrier HAVING max(id) > 3 ORDER BY 1": 2,
    "SELECT id FROM flights WHERE id < 70 ORDER BY ts DESC, id LIMIT 3": 2,
    "SELECT id FROM (SELECT * FROM flights ORDER BY id LIMIT 7) WHERE id = 5": 12,
    "SELECT DISTINCT carrier FROM flights WHERE id < 70": 2,
    "SELECT id, row_number() OVER (ORDER BY id) FROM flights WHERE id < 70": 2,
    "SELECT * FROM (SELECT id, sum(id) OVER (PARTITION BY day) FROM flights) WHERE id = 5": 12,
    "SELECT count(*) FILTER (WHERE id = 5) FROM flights": 12,
    "SELECT count(*) FROM flights TABLESAMPLE 100% WHERE id = 5": 12,
    "WITH flights AS (SELECT * FROM flights WHERE id < 50) SELECT count(*) FROM flights": 1,
    "WITH f AS MATERIALIZED (SELECT * FROM flights) SELECT count(*) FROM f WHERE id < 50": 1,
    "SELECT count(*) FROM flights WHERE true": 12,
    "SELECT count(*) FROM flights WHERE false": 12,
    "SELECT count(*) FROM flights WHERE id = 1 AND id = 60": 12,
    "SELECT * FROM wanted JOIN flights ON flight_id = id WHERE flight_id = 60": 1,
    "SELECT * FROM wanted_few JOIN flights ON flight_id = id WHERE id < 50": 1,
    "SELECT * FROM flights WHERE id IN (SELECT flight_id FROM wanted) AND id < 50": 1,
    "SELECT id, t FROM flights, unnest(extra.tags) u(t) WHERE id = 5": 1,
    "SELECT id FROM flights, range(3) r(n) WHERE id = 5 AND n = 1": 1,
}


NEVER_TRUE = {
    "SELECT count(*) FROM flights WHERE delay = NULL",
    "SELECT count(*) FROM flights WHERE false",
    "SELECT count(*) FROM flights WHERE id = 1 AND id = 60",
}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("sql", ONE_TABLE)
def test_one_scan(compared: Compared, sql: str) -> None:
    compared.reads(sql, (ONE_TABLE[sql],), reason=LEFT_OUT if sql in NEVER_TRUE else None)


SEVERAL = {
    # inner joins, and what they let the optimizer derive
    "SELECT * FROM flights f JOIN airports a ON f.id = a.flight WHERE a.zone_no = 1": (12, 1),
    "SELECT * FROM flights f JOIN airports a ON f.id = a.flight WHERE f.id = 60": (1, 4),
    "SELECT * FROM flights f, airports a WHERE f.id = a.flight AND a.flight < 50 AND f.region = 'de'": (1, 1),
    "SELECT count(*) FROM flights a JOIN flights b ON a.id = b.id WHERE a.id < 60 AND b.id > 20": (2, 2),
    "SELECT count(*) FROM flights a, flights b WHERE a.id = 5 AND b.id = 77": (1, 1),
    "SELECT count(*) FROM flights JOIN airports ON id = flight AND zone_no = 3 WHERE id > 150": (9, 1),
    # outer joins: only the side whose rows must match
    "SELECT count(*) FROM flights f LEFT JOIN airports a ON f.id = a.flight AND a.zone_no = 1 WHERE f.id < 50": (
        1,
        1,
    ),
    "SELECT count(*) FROM flights f LEFT JOIN airports a ON f.id = a.flight AND f.id < 50": (12, 4),
    "SELECT count(*) FROM flights f LEFT JOIN airports a ON f.id = a.flight WHERE a.zone_no = 1": (12, 1),
    "SELECT count(*) FROM flights f LEFT JOIN airports a ON f.id = a.flight WHERE a.zone_no IS NULL": (12, 4),
    "SELECT count(*) FROM flights f RIGHT JOIN airports a ON f.id = a.flight AND f.id < 50": (1, 4),
    "SELECT count(*) FROM flights f FULL JOIN airports a ON f.id = a.flight AND f.id < 50": (12, 4),
    # semi and anti joins, subqueries
    "SELECT count(*) FROM flights WHERE id IN (SELECT flight FROM airports WHERE zone_no = 1)": (12, 1),
    "SELECT count(*) FROM flights f WHERE EXISTS (SELECT 1 FROM airports a WHERE a.flight = f.id AND zone_no = 2)": (
        12,
        1,
    ),
    "SELECT count(*) FROM flights f WHERE id < 50 AND NOT EXISTS (FROM airports a WHERE a.flight = f.id)": (
        1,
        4,
    ),
    "SELECT count(*) FROM flights ANTI JOIN airports ON id = flight WHERE id < 50": (1, 4),
    "SELECT count(*) FROM flights WHERE id = (SELECT max(flight) FROM airports WHERE zone_no = 0)": (
        12 if BEFORE_2 else 1,
        1,
    ),
    "SELECT (SELECT count(*) FROM airports WHERE zone_no = 0), count(*) FROM flights WHERE id < 50": (1, 1),
    # CTEs: one reference that becomes several scans serves all of them
    "WITH f AS (FROM flights) SELECT * FROM f a, f b WHERE a.id = 5 AND b.id = 155": (2,),
    "WITH f AS (FROM flights) SELECT count(*) FROM f a, f b WHERE a.id = 5": (12,),
    "WITH f AS NOT MATERIALIZED (FROM flights) SELECT 1 FROM f WHERE id = 5 UNION ALL SELECT 2 FROM f WHERE id > 560": (
        2,
    ),
    "WITH airports AS (FROM flights WHERE id < 50) SELECT count(*) FROM airports, (SELECT 1 FROM flights WHERE id = 60)": (
        1,
        1,
    ),
    # set operations, lateral
    "SELECT id FROM flights WHERE id = 5 UNION ALL SELECT flight FROM airports WHERE flight > 150": (1, 1),
    "SELECT id FROM flights WHERE id < 60 EXCEPT SELECT flight FROM airports WHERE zone_no = 0": (2, 1),
    "SELECT * FROM (SELECT id FROM flights UNION ALL SELECT flight FROM airports) WHERE id = 5": (1, 1),
    "SELECT count(*) FROM airports a, LATERAL (SELECT * FROM flights f WHERE f.id = a.flight AND f.id < 40)": (
        4,
        1,
    ),
    "SELECT count(*) FROM airports a ASOF JOIN flights f ON a.flight >= f.id WHERE a.zone_no = 0": (1, 12),
}
"""Kept counts that DuckDB's optimizer makes possible; both orders of a join may be right, the rows always are."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sql", SEVERAL)
def test_several_scans(compared: Compared, sql: str) -> None:
    compared.reads(sql, SEVERAL[sql])


PARAMETERS = {
    "SELECT count(*) FROM flights WHERE id = ?": ([5], (1,)),
    "SELECT ?, count(*) FROM flights WHERE id < ? AND carrier LIKE ?": (["x", 200, "C03%"], (1,)),
    "SELECT count(*) FROM flights WHERE id IN (?, ?)": ([1, 599], (2,)),
    "SELECT count(*) FROM flights WHERE id = $1 OR id = $1 + 100": ([5], (2,)),
    "SELECT count(*) FROM flights WHERE region = $region AND id > $id": ({"region": "us", "id": 400}, (2,)),
    "SELECT count(*) FROM flights WHERE price < ?": ([62.25], (1,)),
    "SELECT count(*) FROM flights WHERE id > ?": ([None], (12,)),
    "SELECT count(*) FROM flights f JOIN airports a ON f.id = a.flight WHERE f.id = ? AND a.name = ?": (
        [60, "A12"],
        (1, 2),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", PARAMETERS)
def test_parameters(compared: Compared, sql: str) -> None:
    parameters, kept = PARAMETERS[sql]
    compared.reads(sql, kept, parameters, reason=LEFT_OUT if parameters == [None] else None)


def test_a_parameter_of_an_unknown_kind_runs_unpruned_with_the_reason(compared: Compared) -> None:
    compared.reads(
        "SELECT count(*) FROM flights WHERE id IN (SELECT unnest(?))",
        (12,),
        [[1.5, 2.0]],
        reason="a list of other values than integers, dates, or texts without quotes and backslashes",
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.load)])
def test_thousands_of_values_prune(compared: Compared, count: int) -> None:
    values = ", ".join(str(value) for value in range(100_000, 100_000 + count))
    assert compared.kept(f"SELECT count(*) FROM flights WHERE id IN (3, {values})") == (1,)


@pytest.mark.slow
def test_deep_nesting_runs(compared: Compared) -> None:
    nested = "(" * 60 + "id = 5" + ")" * 60
    assert compared.kept(f"SELECT count(*) FROM flights WHERE {nested}") == (1,)
    ors = " OR ".join(f"(id = {value} AND price > {value})" for value in range(300))
    assert compared.kept(f"SELECT count(*) FROM flights WHERE {ors}") == (6,)
