"""Rows that statements of the DuckDB adapter have read wrongly because facts about one statement were applied to
another, or because fewer columns were shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner_duckdb
from pruner_duckdb.shadow.shadow import Shadow
from pruner_duckdb.sql.select import NotSelect
from tests.support.losses import indexed, write_files
from tests.support.running.profiles import examples


def test_found_a_table_whose_name_is_another_ones_but_for_digits(tmp_path: Path) -> None:
    """A sign outside Python's `\\w` can begin a name: `€77` was parsed as `€65`, and that table was read."""
    tables = {
        "€65": indexed(write_files(tmp_path / "a", pa.table({"x": [1]}))),
        "€77": indexed(write_files(tmp_path / "b", pa.table({"x": [2], "😀70": [3]}))),
    }
    with pruner_duckdb.connect(tables) as con:
        assert con.execute("SELECT x FROM €77").fetchall() == [(2,)]
        assert con.execute("SELECT 😀70 FROM €77").fetchall() == [(3,)]
        assert con.execute("SELECT x FROM €65").fetchall() == [(1,)]


NAMES = ["€77", "a77", "a$77", "😀7", "é77", "_77", "²77", "٣77", '"77"', '"decimal(77)"', "t.a77", "77€"]
NUMBERS = [
    "7",
    "77",
    "128",
    "7.",
    ".7",
    "7.7",
    "7_7",
    "7e",
    "0x77",
    "077",
    "?",
    "?77",
    "$77",
    "#7",
    "\u00a077",
]
TEXTS = [
    "'77'",
    "'a''77'",
    "e'\\'77'",
    "E'\\\\77'",
    "x'77'",
    "$$77$$",
    "$a$77$a$",
    "$€$77$€$",
    "\u00a0e'\\'77'",
]
TYPES = ["DECIMAL(18,3)", "INTEGER[7]", "TIMESTAMP(7)", "::"]
OTHERS = ["(", ")", ",", "=", "+", "-", "[", "]", "AS", "IN", "f(", "OVER(", "--7\n", "/*7*/", "\u00a0"]
PIECES = [*NAMES, *NUMBERS, *TEXTS, *TYPES, *OTHERS]


@pytest.fixture(scope="module")
def shadow() -> Shadow:
    return Shadow()


def require_own_parse(shadow: Shadow, text: str) -> None:
    """Whatever was parsed before, a text is parsed as if it were the first one."""

    def outcome(parse: Callable[[str], object]) -> object:
        try:
            return parse(text)
        except NotSelect as refusal:
            return refusal.syntax

    own = shadow._parse(text)  # pyright: ignore[reportPrivateUsage]
    assert outcome(shadow.parse) == (own.syntax if isinstance(own, NotSelect) else own)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT €77$$77$$\xa077 FROM t77",
        "SELECT ? 77 FROM t77",
        "SELECT x::FLOAT(54) FROM t77",
        "SELECT a77$$77$$ FROM t77",
        "SELECT t77. 77 FROM t77",
        "SELECT 77 AS e'77' FROM t77",
        "SELECT u&'77' FROM t77",
        "SELECT x'77' FROM t77",
    ],
)
def test_found_columns_of_another_statements_parse(shadow: Shadow, text: str) -> None:
    """A tokenizer of ours took digits for a number that DuckDB took for part of a name."""
    require_own_parse(shadow, text)


@settings(max_examples=examples(300))
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), gap=st.sampled_from(["", " "]))
def test_found_a_shared_parse_that_is_not_the_statements_own(
    shadow: Shadow, pieces: list[str], gap: str
) -> None:
    require_own_parse(shadow, f"SELECT {gap.join(pieces)} FROM t77")


SIGNS = st.sampled_from(
    [*" \t\n\r\xa0\u200b()[]{},.;:?!=<>+-*/%|&^~@#$\\`'\"_eExXuU79€é٣²\x00\x0b\x0c\x1f\x7f"]
)


@settings(max_examples=examples(300))
@given(st.lists(st.one_of(SIGNS, st.sampled_from(["77", "'77'", '"77"', "$$", "/*", "*/", "--", "a77"]))))
def test_found_nothing_shared_among_hostile_texts(shadow: Shadow, signs: list[str]) -> None:
    require_own_parse(shadow, f"SELECT x {''.join(signs)} FROM t77 WHERE x = 77")


@pytest.fixture
def parted(tmp_path: Path) -> pruner_duckdb.Connection:
    """Files with columns named like DuckDB's own, below partitions."""
    for number in range(4):
        (tmp_path / f"t/region=r{number}").mkdir(parents=True)
        own = {"file_index": [3 - number], "file_row_number": [9], "pruner_0": [8], "v": [number]}
        pq.write_table(pa.table(own), tmp_path / f"t/region=r{number}/f.parquet")
    return pruner_duckdb.connect({"t": indexed(tmp_path / "t")})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT region FROM t", ["r0", "r1", "r2", "r3"]),
        ("SELECT region FROM t WHERE region > 'r1'", ["r2", "r3"]),
        ("SELECT region FROM t WHERE v = 2", ["r2"]),
        ("SELECT max(region) FROM t", ["r3"]),
        ("SELECT 1 FROM t", [1, 1, 1, 1]),
    ],
)
def test_found_partition_values_of_other_files(
    parted: pruner_duckdb.Connection, sql: str, rows: list[object]
) -> None:
    """Without a column of the files, DuckDB was told of none and showed the files' `file_index`."""
    assert sorted(parted.execute(sql).fetchall()) == [(each,) for each in rows]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t TABLESAMPLE 120 PERCENT",
        "SELECT x::TIMESTAMP(12) FROM t",
        "SELECT x::DECIMAL(40, 2) FROM t",
        "SELECT NULL::INTEGER[100001] FROM t",
        'SELECT "65" FROM (SELECT 77 FROM t)',
        'SELECT "(x + 65)" FROM (SELECT x + 77 FROM t)',
        "SELECT x FROM t ORDER BY 7",
    ],
)
def test_found_mistakes_by_value_that_were_told_late(tmp_path: Path, sql: str) -> None:
    """`sql` refuses what DuckDB's `sql` refuses, although a statement with another integer may be valid."""
    table = indexed(write_files(tmp_path / "t", pa.table({"x": [1]})))
    with pruner_duckdb.connect({"t": table}) as con:
        con.sql("SELECT x FROM t").fetchall()
        full = duckdb.connect()
        full.execute("CREATE TABLE t AS SELECT 1 AS x")
        with pytest.raises(duckdb.Error) as expected:
            full.sql(sql)
        with pytest.raises(type(expected.value)):
            con.sql(sql)


@pytest.mark.rewriting
def test_found_a_statement_that_ran_a_relation_which_it_does_not_name(tmp_path: Path) -> None:
    """The letter `r` anywhere in the text ran the relation in a variable `r`: here of a closed connection, in threads
    of a busy one.
    """
    table = indexed(write_files(tmp_path / "t", pa.table({"x": [1]})))
    other = pruner_duckdb.connect({"t": table})
    r = other.sql("FROM t")
    other.close()
    with pruner_duckdb.connect({"t": table}) as con:
        assert con.execute("SELECT x FROM t ORDER BY x").fetchall() == [(1,)]
        assert con.sql("SELECT x FROM t ORDER BY x").fetchall() == [(1,)]
        with pytest.raises(duckdb.ConnectionException):
            con.execute('FROM"r"')
        r = con.sql("SELECT x + 1 AS y FROM t")
        assert con.execute('SELECT y FROM"r",t').fetchall() == r.fetchall() == [(2,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT c1 FROM t WHERE st['c1'] IN (99, 127, NULL)", []),
        ("SELECT c1 FROM t WHERE st.c1 IN (99, ?, 127)", [None]),
        ("WITH a AS (SELECT c1 FROM t WHERE st['c1'] in (99, 127::TINYINT, null)) SELECT max(c1) FROM a", []),
    ],
)
def test_found_a_field_of_a_struct_in_a_list_with_null(
    tmp_path: Path, statement: str, values: list[object]
) -> None:
    """DuckDB 2.0 fails internally and invalidates the database when it reads the field alone by our schema."""
    rows = [
        pa.table({"c1": [n, n + 1], "st": [{"c1": n, "z": "q"}, {"c1": None, "z": "r"}]})
        for n in (98, 99, 127)
    ]
    with pruner_duckdb.connect({"t": indexed(write_files(tmp_path / "t", *rows))}) as con:
        found = sorted(con.execute(statement, values).fetchall())
        assert found == ([(127,)] if "max" in statement else [(99,), (127,)])
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)], "the database is still there"
