"""Parsing statements: which names are tables, where they are, and what may depend on the session."""

from __future__ import annotations

import pytest

from pruner_duckdb.shadow.shadow import Shadow
from pruner_duckdb.sql.select import NotSelect, Select


@pytest.fixture(scope="module")
def shadow() -> Shadow:
    return Shadow()


def names(select: Select) -> list[str]:
    return [".".join(each.path) for each in select.references]


TABLES: dict[str, list[str]] = {
    "SELECT * FROM t": ["t"],
    "FROM t": ["t"],
    "SELECT * FROM a.t x, b.c.t": ["a.t", "b.c.t"],
    'SELECT * FROM "we ird"."na""me" AS n': ['we ird.na"me'],
    "SELECT * FROM t /* t */ AS u JOIN u USING (k)": ["t", "u"],
    "WITH t AS (SELECT * FROM t) SELECT * FROM t": ["t"],
    "WITH a AS (FROM t), b AS (FROM a) FROM b JOIN t USING (k)": ["t", "t"],
    "WITH b AS (FROM a), a AS (FROM t) FROM b": ["a", "t"],
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) FROM t": [],
    "WITH RECURSIVE a AS (FROM t), t AS (SELECT 1 AS n UNION ALL FROM t) FROM a": ["t"],
    "SELECT * FROM (WITH t AS (SELECT 1) FROM t) x, t": ["t"],
    "SELECT (SELECT max(i) FROM t) FROM u WHERE EXISTS (WITH u AS (SELECT 1) FROM u)": ["t", "u"],
    "SELECT * FROM t WHERE i IN (SELECT j FROM u WHERE u.k = t.k)": ["t", "u"],
    "SELECT * FROM range(3) r, read_csv('x.csv') c, t": ["range", "read_csv", "t"],
    "SELECT 1 UNION ALL (SELECT * FROM t) ORDER BY 1": ["t"],
}


@pytest.mark.parametrize("sql", TABLES)
def test_names_of_tables_differ_from_names_of_ctes(shadow: Shadow, sql: str) -> None:
    assert names(shadow.parse(sql)) == TABLES[sql]


PLACES = {
    "SELECT 'ü', t.x FROM  t  WHERE x": ("t", "t"),
    'SELECT * FROM "t"AS u': ('"t"', '"t"AS u'),
    "SELECT * FROM s . t TABLESAMPLE 10%": ("s . t", "s . t TABLESAMPLE 10%"),
    "SELECT * FROM s /* . */ . t u (a, b), v": ("s /* . */ . t", "s /* . */ . t u (a, b)"),
}


@pytest.mark.parametrize("sql", PLACES)
def test_places_count_bytes(shadow: Shadow, sql: str) -> None:
    select = shadow.parse(sql)
    name, whole = select.references[0].name, select.references[0].whole
    assert name is not None
    assert whole is not None
    found = tuple(select.text[span.start : span.stop].decode() for span in (name, whole))
    assert found == PLACES[sql]


def test_splicing_leaves_everything_else_as_it_was(shadow: Shadow) -> None:
    select = shadow.parse("SELECT 'ü', \"ü\".x FROM ü, ü AS z -- ü")
    first, second = (each.name for each in select.references)
    assert first is not None
    assert second is not None
    assert select.spliced([(second, "(B)"), (first, "(A)")]) == "SELECT 'ü', \"ü\".x FROM (A), (B) AS z -- ü"


@pytest.mark.parametrize(
    ("sql", "used"),
    [
        (
            "SELECT now(), current_date FROM t WHERE upper(a) = b || 'x'",
            {"now", "current_date", "upper", "||"},
        ),
        ("SELECT a FROM t WHERE a LIKE 'x%' AND NOT a ILIKE 'y'", {"~~", "~~*"}),
        ("SELECT t.current_date, extract(year FROM ts) FROM t", {"date_part"}),
        ("SELECT a FROM t WHERE a > 5 AND b IN (1, 2) OR c IS NULL", set()),
    ],
)
def test_functions_operators_and_session_values_are_seen(shadow: Shadow, sql: str, used: set[str]) -> None:
    assert {use.name for use in shadow.parse(sql).functions} == used


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        ("SELECT a FROM t WHERE a > 5 AND b IN (1, 2)", True),
        ("SELECT t.a FROM t", False),
        ("SELECT a::VARCHAR FROM t", False),
        ("SELECT -a FROM t", False),
        ("SELECT a FROM t, range(3)", False),
    ],
)
def test_plain_statements_hold_nothing_that_a_session_redefines(
    shadow: Shadow, sql: str, plain: bool
) -> None:
    assert shadow.parse(sql).plain is plain


def test_parameters_have_places_and_numbers(shadow: Shadow) -> None:
    select = shadow.parse("SELECT ? FROM t WHERE a = ? AND b = '?'")
    assert [each.identifier for each in select.parameters] == ["1", "2"]
    assert [select.text[each.span.start : each.span.stop] for each in select.parameters] == [b"?", b"?"]
    assert {each.identifier for each in shadow.parse("SELECT $b, $a").parameters} == {"a", "b"}


@pytest.mark.parametrize(
    ("sql", "syntax"),
    [
        ("SELECT 1; SELECT 2", False),
        ("CREATE TABLE x AS SELECT 1", False),
        ("SELEC 1", True),
        ("", False),
    ],
)
def test_anything_else_is_refused(shadow: Shadow, sql: str, syntax: bool) -> None:
    with pytest.raises(NotSelect) as refusal:
        shadow.parse(sql)
    assert refusal.value.syntax is syntax
