"""What the adapter reuses from one statement for another must hold for both.

Statements that differ only in integers share a parse, and the comparison of how session and shadow read them; a SELECT
shows DuckDB only the columns that it may read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pruner_duckdb
from pruner_duckdb.shadow.shadow import Shadow, with_typical_integers
from tests.engines.duckdb.duckdb_tables import FLIGHTS_FILES, Compared, indexed, oracle, write_flights

ALL = (FLIGHTS_FILES,)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flights(tmp_path_factory.mktemp("shared") / "flights")


@pytest.fixture
def compared(flights: Path) -> Iterator[Compared]:
    with pruner_duckdb.connect({"flights": indexed(flights)}) as pruned:
        compared = Compared(pruned, oracle({"flights": flights}))
        compared.both("SET TimeZone = 'UTC'")
        yield compared


@pytest.fixture(scope="module")
def reading(flights: Path) -> Iterator[Compared]:
    """For statements that change nothing in the session."""
    with pruner_duckdb.connect({"flights": indexed(flights)}) as pruned:
        compared = Compared(pruned, oracle({"flights": flights}))
        compared.both("SET TimeZone = 'UTC'")
        yield compared


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '77' FROM t WHERE \"77\" = $77 AND a77 = 0.77 AND b = .77 AND c = 7.7e7",
        "SELECT #77, e'\\'77', $$77$$, $a$77$a$ FROM ü77 -- 77",
        "SELECT 77 /* 77 /* 77 */ 77 */",
        "SELECT ?77",
        "SELECT 0x77",
        "SELECT 7_7",
        "SELECT 077, 9999999999999999999, 7.7, 7e7",
        "SELECT x::DECIMAL(77, 7), x::MINE( 77 ), x::INTEGER[77]",
    ],
)
def test_what_is_no_integer_stays(text: str) -> None:
    assert with_typical_integers(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t WHERE id >= 77 AND id<77+7 OR x IN (77, 7) OR y IN(77)",
        "SELECT a.\"77\", x::INTEGER, 'Q77', -77 % 7 FROM s.t AS a WHERE ts > now() - INTERVAL 77 DAY LIMIT 77",
        "SELECT a || 'it''s', list[1] FROM t WHERE b != 77 AND c = ? AND d = 'ok' ORDER BY 77;",
    ],
)
def test_everyday_statements_share_what_is_learned(text: str) -> None:
    typical = with_typical_integers(text)
    assert re.sub(r"\b77\b", "65", text).replace('"65"', '"77"') == re.sub(r"\b5\b", "7", typical)


@given(st.lists(st.integers(1, 10**18 - 1), min_size=1, max_size=4))
@example([127, 128, 129, 255])
@example([32767, 32768, 2147483647, 2147483648])
def test_an_integer_gives_way_to_one_of_the_same_types(values: list[int]) -> None:
    text = f"SELECT {', '.join(map(str, values))}, {', '.join(f'-{value}' for value in values)} FROM t"
    typical = with_typical_integers(text)
    assert len(typical) == len(text)
    assert with_typical_integers(typical) == typical
    for value, other in zip(values, map(int, re.findall(r"\d+", typical)), strict=False):
        for bits in (7, 8, 15, 16, 31, 32):
            assert (value < 2**bits) == (other < 2**bits)
            assert (value <= 2**bits) == (other <= 2**bits)


@pytest.mark.slow
def test_a_shared_parse_keeps_the_text_and_the_places() -> None:
    shadow = Shadow()
    template = "SELECT 'ü', a + {0} FROM t AS x WHERE b IN ({0}, {1}) AND c = ? ORDER BY {0}"
    selects = {numbers: shadow.parse(template.format(*numbers)) for numbers in ((77, 999), (65, 514))}
    first, second = selects.values()
    assert {numbers: each.text.decode() for numbers, each in selects.items()} == {
        numbers: template.format(*numbers) for numbers in selects
    }
    assert (first.references, first.functions, first.parameters) == (
        second.references,
        second.functions,
        second.parameters,
    )
    assert shadow.parse(template.format(7, 8)).references != first.references


@pytest.mark.slow
def test_values_of_shared_statements_prune_each_by_itself(reading: Compared) -> None:
    for low in (65, 70, 100, 127, 128, 129, 255, 300, 511):
        rows = f"SELECT count(*), min(id) FROM flights WHERE id BETWEEN {low} AND {low} + 5"
        (kept,) = reading.kept(rows)
        assert kept < FLIGHTS_FILES
        assert reading.reasons() == [None]


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_macro_made_after_a_shared_comparison_is_seen(compared: Compared) -> None:
    statement = "SELECT count(*) FROM flights WHERE id = abs({})"
    for number in (70, 77):
        assert compared.kept(statement.format(number)) == (1,)
    compared.full.execute("CREATE MACRO abs(x) AS CASE WHEN x = 77 THEN 70 ELSE 0 END")
    compared.pruned.native.cursor().execute("CREATE MACRO abs(x) AS CASE WHEN x = 77 THEN 70 ELSE 0 END")
    for number in (70, 77):
        assert compared.kept(statement.format(number)) == ALL


def test_a_macro_that_is_the_function_for_one_integer_only(compared: Compared) -> None:
    """`round` reads its second argument when it is bound: such a macro passes for it with 5 and not with 7."""
    compared.both("CREATE MACRO round(x, n) AS system.main.round(x, CASE WHEN n = 7 THEN -9 ELSE n END)")
    for digits in (5, 7):
        statement = f"SELECT count(*) FROM flights WHERE round(id::DECIMAL(18, 9), {digits}) = 0"
        compared.kept(statement)
        assert compared.full.execute(statement).fetchall() == [(1 if digits == 5 else 600,)]


@pytest.mark.sampled(26)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM flights WHERE id < 3",
        "FROM flights WHERE id < 3",
        "SELECT f FROM flights f WHERE id < 3",
        "SELECT COLUMNS('i.*') FROM flights WHERE id < 3",
        "SELECT * EXCLUDE (ts) FROM flights WHERE id < 3",
        "SELECT count(*) FROM flights",
        "SELECT 1 FROM flights WHERE 1 = 1 LIMIT 2",
        "SELECT count(*) FROM flights a JOIN flights b USING (id) WHERE a.id < 3",
        "SELECT count(*) FROM flights NATURAL JOIN (SELECT id FROM flights WHERE id < 3)",
        "SELECT a.x FROM flights AS a(x, y) WHERE x IS NOT NULL ORDER BY ALL LIMIT 3",
        "SELECT id, (SELECT max(carrier) FROM flights WHERE id = outermost.id) FROM flights outermost WHERE id < 3",
        "WITH f AS (SELECT * FROM flights) SELECT carrier FROM f WHERE id < 3",
        "SELECT id FROM flights WHERE id < 3 UNION ALL BY NAME SELECT carrier, id FROM flights WHERE id = 4",
        "UNPIVOT (SELECT id, day::VARCHAR AS d FROM flights WHERE id < 3) ON d",
        "PIVOT (SELECT id, carrier FROM flights WHERE id < 3) ON carrier IN ('C00A') USING count(*)",
        "SELECT * FROM (SELECT id, carrier FROM flights WHERE id < 3)",
        "SELECT * FROM (FROM flights) WHERE id < 3",
        "SELECT * FROM (SELECT * FROM flights) f JOIN (SELECT 1 AS id) USING (id)",
        "SELECT * FROM (SELECT 2 AS id) f JOIN flights USING (id)",
        "SELECT f.* FROM (SELECT 2 AS id) g, flights f WHERE f.id = g.id",
        "SELECT COLUMNS('c.*') FROM (SELECT id, carrier FROM flights WHERE id < 3)",
        "WITH flights AS (SELECT id FROM main.flights WHERE id < 3) SELECT * FROM flights",
        "WITH f AS (SELECT id FROM flights WHERE id < 3) SELECT * FROM f, flights g WHERE f.id = g.id",
        "WITH f AS (SELECT id FROM flights WHERE id < 3) SELECT *, (SELECT ts FROM flights WHERE id = f.id) c FROM f",
        "SELECT id FROM flights f WHERE id < 3 AND EXISTS (SELECT * FROM flights g WHERE g.carrier = f.carrier)",
        "SELECT id FROM flights f WHERE id < 3 AND NOT EXISTS (SELECT g.* FROM flights g WHERE g.id = f.id - 1)",
        "SELECT id FROM flights f WHERE id < 3 AND EXISTS (FROM flights)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT DISTINCT * FROM flights WHERE id < 2 LIMIT 1 OFFSET 1)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT DISTINCT ON (region) * FROM flights LIMIT 1 OFFSET 2)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT * FROM flights GROUP BY ALL OFFSET 599)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT * FROM flights UNION SELECT * FROM flights OFFSET 599)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT * FROM flights QUALIFY row_number() OVER () = 2)",
        "SELECT id FROM flights WHERE id < 3 AND EXISTS (SELECT * FROM (SELECT day FROM flights) WHERE day > 'epoch')",
        "SELECT count(*) FROM flights WHERE (id, ts) IN (SELECT id, ts FROM (FROM flights) WHERE id < 3)",
        "SELECT * FROM (VALUES (1)) v(n), LATERAL (SELECT id, day FROM flights WHERE id = n)",
        "SELECT * FROM unnest([1, 2]) u(n) JOIN flights ON id = n",
        "SELECT * FROM (SELECT id FROM flights WHERE id < 3) POSITIONAL JOIN (SELECT ts FROM flights WHERE id < 3)",
    ],
)
def test_every_column_that_a_statement_needs_is_shown(reading: Compared, statement: str) -> None:
    reading.kept(statement)
    # A name that looks like one of those that DuckDB adds to a scan: a query replaces the table.
    reading.kept(f"{statement} -- file_")


@pytest.mark.slow
def test_a_question_of_ours_is_not_read_by_a_parser_of_the_users() -> None:
    shadow = Shadow()
    session = duckdb.connect()
    session.execute("CREATE MACRO json_serialize_plan(x) AS 'mine'")
    question = shadow.question("SELECT system.main.json_serialize_plan(?)")
    for text in ("SELECT 1", "SELECT 2"):
        (plan,) = session.execute(question, [text]).fetchall()[0]
        assert plan == shadow.bound_plan(text, "UTC")
