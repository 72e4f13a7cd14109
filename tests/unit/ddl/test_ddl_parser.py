"""Statements: the meaning of each spelling, and where the error points if one cannot be parsed."""

from __future__ import annotations

import pytest

from pruner.ddl import (
    CreateIndex,
    DropIndex,
    IndexedItem,
    RefreshIndex,
    ShowIndexes,
    StatementError,
    parse_statement,
)
from pruner.limits import STATEMENT_CHARACTERS


def column(text: str) -> IndexedItem:
    return IndexedItem(text, is_expression=False)


def expression(text: str) -> IndexedItem:
    return IndexedItem(text, is_expression=True)


UNDERSTOOD = {
    "CREATE INDEX i ON t (c)": CreateIndex("i", "t", "column_stats", (column("c"),)),
    "create index I on T (C);": CreateIndex("I", "T", "column_stats", (column("C"),)),
    "CREATE INDEX IF NOT EXISTS i ON t (c)": CreateIndex(
        "i", "t", "column_stats", (column("c"),), if_not_exists=True
    ),
    "CREATE INDEX i ON flights USING bitmap (carrier)": CreateIndex(
        "i", "flights", "bitmap", (column("carrier"),)
    ),
    "CREATE INDEX i USING bitmap ON t (c)": CreateIndex("i", "t", "bitmap", (column("c"),)),
    "CREATE INDEX i ON t USING COL_STATS (a, b.c)": CreateIndex(
        "i", "t", "column_stats", (column("a"), column("b.c"))
    ),
    "CREATE INDEX i ON t (*)": CreateIndex("i", "t", "column_stats", ()),
    'CREATE INDEX i ON t ("*")': CreateIndex("i", "t", "column_stats", (column('"*"'),)),
    # From the documents that started this project.
    "create index idx using bitmap on hive.hindex.users (gender) where regionkey in (3, 1);": CreateIndex(
        "idx", "hive.hindex.users", "bitmap", (column("gender"),), where="regionkey in (3, 1)"
    ),
    "CREATE FUNCTION INDEX datestr ON hudi_table (DATE_FORMAT(ts, '%Y-%m-%d')); -- stats": CreateIndex(
        "datestr", "hudi_table", "column_stats", (expression("DATE_FORMAT(ts, '%Y-%m-%d')"),)
    ),
    "CREATE FUNCTION INDEX income_idx ON employees (salary + (salary*commission_pct));": CreateIndex(
        "income_idx", "employees", "column_stats", (expression("salary + (salary*commission_pct)"),)
    ),
    "CREATE INDEX datestr ON hudi_table USING col_stats (DATE_FORMAT(ts, '%Y-%m-%d'));": CreateIndex(
        "datestr", "hudi_table", "column_stats", (expression("DATE_FORMAT(ts, '%Y-%m-%d')"),)
    ),
    "DROP INDEX last_name_idx;": DropIndex("last_name_idx", None),
    # Quotes of every kind, doubled quotes, other scripts.
    'CREATE INDEX "my index" ON `a b`."c""d" ("x.y".`z``z`, größe)': CreateIndex(
        "my index", 'a b.c"d', "column_stats", (column('"x.y"."z`z"'), column("größe"))
    ),
    "CREATE INDEX i ON t ('text', 1, f((a), [b]))": CreateIndex(
        "i", "t", "column_stats", (expression("'text'"), expression("1"), expression("f((a), [b])"))
    ),
    # Locations.
    "CREATE INDEX i ON 's3://lake/it''s' (c)": CreateIndex(
        "i", "s3://lake/it's", "column_stats", (column("c"),)
    ),
    "CREATE INDEX i ON s3://lake/year=2013/x-1 (c)": CreateIndex(
        "i", "s3://lake/year=2013/x-1", "column_stats", (column("c"),)
    ),
    "CREATE INDEX i ON /data/flights(c)": CreateIndex("i", "/data/flights", "column_stats", (column("c"),)),
    "SHOW INDEXES ON ./flights;": ShowIndexes("./flights"),
    "SHOW INDEXES ON ~/lake/flights": ShowIndexes("~/lake/flights"),
    "SHOW INDEXES ON lake/flights": ShowIndexes("lake/flights"),
    "SHOW INDEXES ON TABLE flights": ShowIndexes("flights"),
    "SHOW INDEXES ON TABLE /data/flights": ShowIndexes("/data/flights"),
    'SHOW INDEXES ON "table"': ShowIndexes("table"),
    "show indexes from lake.flights": ShowIndexes("lake.flights"),
    "SHOW INDEXES IN t": ShowIndexes("t"),
    # WHERE and OPTIONS.
    "CREATE INDEX i ON t (c) WHERE a = ')' AND (b = 1) OPTIONS (p = .01, 'a b' = x, n.m = -3)": CreateIndex(
        "i",
        "t",
        "column_stats",
        (column("c"),),
        where="a = ')' AND (b = 1)",
        options=(("p", ".01"), ("a b", "x"), ("n.m", "-3")),
    ),
    "CREATE INDEX i ON t (c) WHERE a = 'x;y';": CreateIndex(
        "i", "t", "column_stats", (column("c"),), where="a = 'x;y'"
    ),
    # Comments and line breaks.
    "-- first\nDROP /* this\none */ INDEX i -- of\n ON t;": DropIndex("i", "t"),
    "DROP INDEX IF EXISTS i ON a.b.c": DropIndex("i", "a.b.c", if_exists=True),
    "REFRESH INDEX i ON t": RefreshIndex("i", "t"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "meant"), UNDERSTOOD.items(), ids=UNDERSTOOD.keys())
def test_a_statement_is_understood(text: str, meant: object) -> None:
    assert parse_statement(text) == meant


REFUSED = {
    "": "line 1, column 1, where it ends: expected CREATE, DROP, REFRESH or SHOW",
    "select 1": "line 1, column 1, at 'select': expected CREATE, DROP, REFRESH or SHOW; pruner query runs queries",
    "CREAT INDEX i ON t (c)": "line 1, column 1, at 'CREAT': expected CREATE, DROP, REFRESH or SHOW",
    "CREATE TABLE t (c)": "line 1, column 8, at 'TABLE': expected INDEX",
    "CREATE INDEX ON t (c)": "line 1, column 14, at 'ON': expected a name for the index",
    "CREATE INDEX 'i' ON t (c)": "line 1, column 14, at \"'i'\": expected a name for the index",
    "CREATE INDEX i\n  ON t c": "line 2, column 8, at 'c': expected ( and what is to be indexed",
    "CREATE INDEX i ON t ()": "line 1, column 22, at ')': expected a column or an expression",
    "CREATE INDEX i ON t (a,)": "line 1, column 24, at ')': expected a column or an expression",
    "CREATE INDEX i ON t (*, a)": "line 1, column 23, at ',': expected ) after *",
    "CREATE INDEX i ON t (a": "line 1, column 23, where it ends: a closing bracket is missing",
    "CREATE INDEX i ON t ((a]))": "line 1, column 24, at ']': this bracket closes none",
    "CREATE INDEX i ON t (a) WHERE": "line 1, column 30, where it ends: expected a predicate after WHERE",
    "CREATE INDEX i ON t (a) WHERE (b": "line 1, column 33, where it ends: a closing bracket is missing",
    "CREATE INDEX i ON t (a) WHERE b)": "line 1, column 32, at ')': this bracket closes none",
    "CREATE INDEX i ON t (a) nonsense": "line 1, column 25, at 'nonsense': expected the end of the statement",
    "CREATE INDEX i ON t (a); DROP INDEX i": "line 1, column 26, at 'DROP': expected the end",
    "CREATE INDEX i ON t (a) OPTIONS ()": "line 1, column 34, at ')': expected the name of an option",
    "CREATE INDEX i ON t (a) OPTIONS (k 1)": "line 1, column 36, at '1': expected = and a value",
    "CREATE INDEX i ON t (a) OPTIONS (k = )": "line 1, column 38, at ')': expected a number, a word or",
    "CREATE INDEX i ON t (a) OPTIONS (k = 1; )": "line 1, column 39, at ';': expected , or )",
    "CREATE INDEX i ON t (a) OPTIONS (k = 1, k = 2)": "line 1, column 41, at 'k': option 'k' is given twice",
    "CREATE INDEX i ON t USING (a)": "line 1, column 27, at '(': expected the type of the index",
    "CREATE INDEX i ON a.b.c.d (x)": "line 1, column 24, at '.': the name of a table has at most 3 parts",
    "CREATE INDEX i ON a. (x)": "line 1, column 22, at '(': expected a part of the table's name",
    'CREATE INDEX i ON "" (x)': "expected a table: a name, or a URI or path in quotes",
    "DROP INDEX i ON t ('": "line 1, column 19, at '(': expected the end of the statement",
    "DROP INDEX IF i": "line 1, column 15, at 'i': expected EXISTS",
    'DROP INDEX "i': "line 1, column 12, at '\"': the closing \" is missing",
    "DROP INDEX i /* never closed": "line 1, column 14, at '/*': the comment has no end",
    "REFRESH INDEX i": "line 1, column 16, where it ends: expected ON",
    "SHOW INDEXES": "line 1, column 13, where it ends: expected ON or FROM or IN",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "problem"), REFUSED.items(), ids=REFUSED.keys())
def test_an_unreadable_statement_is_refused_with_the_position(text: str, problem: str) -> None:
    with pytest.raises(StatementError) as refused:
        parse_statement(text)
    sentence = str(refused.value)
    assert problem in sentence
    assert "\n" not in sentence


def test_nesting_does_not_recurse() -> None:
    deep = "(" * 10_000 + "c" + ")" * 10_000
    statement = parse_statement(f"CREATE INDEX i ON t ({deep})")
    assert isinstance(statement, CreateIndex)
    assert statement.items == (expression(deep),)


def test_a_statement_has_a_longest_length() -> None:
    fits = "DROP INDEX i -- " + "x" * (STATEMENT_CHARACTERS - 16)
    assert parse_statement(fits) == DropIndex("i", None)
    with pytest.raises(StatementError, match="at most 1,048,576 are read"):
        parse_statement(fits + "x")


def test_a_long_token_is_cut_in_the_error() -> None:
    with pytest.raises(StatementError, match="at 'x{40}…': expected CREATE"):
        parse_statement("x" * 1000)
