"""WITH over a semi-join that is joined and grouped, as in a quarter of TPC-DS's reports.

DuckDB 2.0 fails to plan such a WITH while few of its optimizers run. The rows are those of a full read, and each table
is read by the OR of what the uses of the WITH need from it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner_duckdb
from pruner_duckdb.shadow.shadow import Relation, Shadow
from tests.engines.duckdb.duckdb_tables import Compared, indexed, oracle, write_airports, write_flights
from tests.support.duckdb.ways import is_native
from tests.support.running.profiles import examples


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("with")
    flights, airports = write_flights(base / "flights"), write_airports(base / "airports")
    pruned = pruner_duckdb.connect({"flights": indexed(flights), "airports": indexed(airports)})
    compared = Compared(pruned, oracle({"flights": flights, "airports": airports}))
    compared.both("SET TimeZone = 'UTC'")
    return compared


def semi_join(where: str) -> str:
    return (
        "SELECT carrier, f.id, sum(price) AS total FROM flights f, airports a, airports b "
        "WHERE carrier IN (SELECT carrier FROM flights WHERE region = 'de') AND a.flight = f.id "
        f"AND b.flight = a.flight AND {where} GROUP BY carrier, f.id"
    )


REPORT = (
    f"WITH x AS ({semi_join('f.id < 120 AND a.zone_no = 1')}), y AS ({semi_join('f.id >= 50 AND a.zone_no = 2')}) "
    "SELECT carrier, sum(total) AS total FROM (FROM x UNION ALL FROM y) GROUP BY carrier ORDER BY total LIMIT 100"
)

PASSED_ON = f"WITH x AS ({semi_join('a.zone_no = 1')}) SELECT * FROM x WHERE id < 120"
USED_TWICE = (
    f"WITH x AS ({semi_join('a.zone_no = 1')}), y AS ({semi_join('a.zone_no = 2')}) "
    "SELECT count(*), sum(y.total) FROM x p, x q, y WHERE p.id < {} AND q.id > {} AND y.id < {}"
)

KEPT = {
    # Twice: flights by id, airports by zone_no, airports unfiltered, flights by region.
    REPORT: (3, 1, 4, 4, 11, 1, 4, 4),
    PASSED_ON: (3, 1, 4, 4),
    USED_TWICE.format(60, 300, 120): (8, 1, 4, 4, 3, 1, 4, 4),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sql", KEPT)
def test_each_table_is_read_by_what_the_report_wants(compared: Compared, sql: str) -> None:
    compared.reads(sql, KEPT[sql])


@settings(max_examples=examples(8))
@given(low=st.integers(-10, 610), high=st.integers(-10, 610))
def test_every_use_of_a_with_gets_its_rows(compared: Compared, low: int, high: int) -> None:
    flights, *_ = compared.kept(USED_TWICE.format(low, high, 120))
    wanted = {n for n in range(12) if n * 50 < low or n * 50 + 49 > high}
    # With the native scan, joins have learned more, and scans come in their own order.
    assert is_native() or flights == len(wanted)
    assert set(compared.reasons()) == {None}


@pytest.mark.sampled(2)
def test_the_optimizers_left_out_once_run_again() -> None:
    shadow = Shadow()
    (t,) = shadow.table_names([Relation((("k", "INTEGER"), ("v", "INTEGER")))])
    failing = (
        f"WITH x AS (SELECT a.k, b.v, sum(c.v) AS s FROM {t} a, {t} b, {t} c WHERE a.k IN (SELECT k FROM {t}) "
        "AND b.v = c.v AND a.v = b.v AND a.v < 7 GROUP BY a.k, b.v) SELECT * FROM x"
    )
    for keep_form in (True, False):
        before = shadow.optimized_plans(f"WITH x AS (FROM {t}) FROM x", "UTC", keep_form=keep_form)
        assert "LOGICAL_GET" in str(shadow.optimized_plans(failing, "UTC", keep_form=keep_form))
        after = shadow.optimized_plans(f"WITH x AS (FROM {t}) FROM x", "UTC", keep_form=keep_form)
        assert after == before
        assert "CTE" not in str(after), "inlined"
