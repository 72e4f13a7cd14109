"""Rows that statements of the DuckDB adapter have lost, or read wrongly, by what a session had seen before."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from pruner.errors import PrunerError
from pruner_duckdb.shadow.shadow import Shadow
from tests.support.duckdb.ways import is_native
from tests.support.losses import indexed, write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """0 to 5 as a number and a text, each row in its own file; indexed. No test writes here."""
    files = [pa.table({"x": [value], "s": [f"v{value}"]}) for value in range(6)]
    root = write_files(tmp_path_factory.mktemp("sessions") / "t", *files)
    indexed(root)
    return root


@pytest.fixture
def con(folder: Path) -> Iterator[pruner_duckdb.Connection]:
    """Two names for one table."""
    table = pruner.open_table(str(folder))
    with pruner_duckdb.connect({"t": table, "u": table}) as connection:
        yield connection


def rows(connection: pruner_duckdb.Connection, sql: str, parameters: object = None) -> list[object]:
    """All rows, sorted."""
    return sorted(connection.execute(sql, parameters).fetchall())


def kept(connection: pruner_duckdb.Connection) -> int:
    """Files that the newest scan read."""
    return connection.last_plans[-1].kept


def test_found_the_predicate_of_another_table_of_the_same_shape(con: pruner_duckdb.Connection) -> None:
    """The same text over tables of the same shape: `t` was given the predicate derived for `u`."""
    sql = "SELECT t.x, u.x FROM t, u WHERE t.x = 1 AND u.x = 2"
    con.execute("CREATE TEMP TABLE u AS FROM t")
    assert rows(con, sql) == [(1, 2)]
    assert kept(con) == 1
    con.execute("DROP TABLE u")
    con.execute("CREATE TEMP TABLE t AS FROM u")
    assert rows(con, sql) == [(1, 2)]
    assert kept(con) == 1


def test_found_a_macro_behind_something_that_is_not_compared(con: pruner_duckdb.Connection) -> None:
    """`rowid` failed in both compared texts: two equal errors were taken for one meaning."""
    con.execute("CREATE TABLE n AS SELECT 1 AS k")
    con.execute("CREATE MACRO upper(a) AS 'v3'")
    assert rows(con, "SELECT t.x, n.rowid FROM t, n WHERE t.s = upper('v1')") == [(3, 0)]


PIVOTED = "WITH t AS (PIVOT (SELECT 7 AS k, 'a' AS n) ON n USING sum(k)) "


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", ["FROM t", "SELECT a FROM t WHERE a > 6", "(FROM t)", "FROM t AS x"])
def test_found_a_with_that_pivots_hides_a_table(con: pruner_duckdb.Connection, sql: str) -> None:
    """json_serialize_sql refuses such a WITH; what followed it was read as if there were none."""
    assert rows(con, PIVOTED + sql) == [(7,)]
    con.execute(f"CREATE TABLE made AS {PIVOTED}{sql}")
    con.execute(f"INSERT INTO made {PIVOTED}{sql}")
    assert rows(con, "FROM made") == [(7,), (7,)]
    assert len(con.last_plans) == 0


def test_found_a_with_that_pivots_beside_a_table(con: pruner_duckdb.Connection) -> None:
    """DuckDB splits it into several statements, which take no parameters: the files are written out."""
    sql = PIVOTED.replace("WITH t", "WITH p") + "SELECT t.x FROM t, p WHERE t.x < p.a - 5"
    assert rows(con, sql) == [(0,), (1,)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["v", "main.v"])
def test_found_a_temporary_table_hides_a_view(con: pruner_duckdb.Connection, name: str) -> None:
    """The view's rows were read."""
    con.execute("CREATE VIEW v AS SELECT x FROM t WHERE x < 2")
    con.execute("CREATE TEMP TABLE v AS SELECT 42 AS x")
    assert rows(con, f"FROM {name}") == [(42,)]
    assert rows(con, "FROM memory.main.v") == [(0,), (1,)]
    assert kept(con) == 2
    con.execute("DROP TABLE v")
    con.execute("CREATE TEMP VIEW v AS SELECT x FROM u WHERE x = 5")
    assert rows(con, f"FROM {name}") == [(5,)]
    assert kept(con) == 1
    assert rows(con, "FROM memory.main.v") == [(0,), (1,)]
    assert kept(con) == 2


def test_found_a_view_of_another_schema_by_the_name_of_its_database(con: pruner_duckdb.Connection) -> None:
    """`memory.v` is `memory.main.v`, never a view of that name in another schema."""
    con.execute("CREATE SCHEMA s; CREATE TABLE main.v AS SELECT 42 AS x")
    con.execute("CREATE VIEW s.v AS SELECT x FROM t WHERE x < 2")
    assert rows(con, "FROM memory.v") == [(42,)]


def test_found_values_of_a_relation_that_changed_later(con: pruner_duckdb.Connection) -> None:
    """The relation runs later, with the values from when it was made, as DuckDB's does."""
    values, named = [1], {"a": 1}
    relations = [
        con.sql("SELECT x FROM t WHERE x = ?", params=values),
        con.sql("SELECT x FROM t WHERE x = $a", params=named),
    ]
    values[0] = named["a"] = 2
    assert [each.fetchall() for each in relations] == [[(1,)], [(1,)]]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("argument", ["random()", "uuid()", "nextval('numbers')"])
def test_found_an_argument_has_one_value(con: pruner_duckdb.Connection, argument: str) -> None:
    """Inlined into the statement, it had another value for each row."""
    con.execute("CREATE SEQUENCE numbers")
    con.execute("PREPARE p AS SELECT count(DISTINCT $1), count(*) FROM t")
    assert rows(con, f"EXECUTE p({argument})") == [(1, 6)]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("argument", ["1", "'1'", "DATE '2020-01-02' - DATE '2020-01-01'", "abs(-1)"])
def test_found_arguments_still_prune(con: pruner_duckdb.Connection, argument: str) -> None:
    """Literals unchanged, other expressions by their values; a column of the statement is not allowed."""
    con.execute("PREPARE p AS SELECT x FROM t WHERE x = $1")
    assert rows(con, f"EXECUTE p({argument})") == [(1,)]
    assert kept(con) == 1
    with pytest.raises(duckdb.BinderException, match='Referenced column "x"'):
        con.execute("EXECUTE p(x)")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sql", "values"),
    [("s = ? AND s <> ?", ["v1"]), ("x = ?", []), ("x = ?", None), ("x = $1 AND s = $3", [1])],
)
def test_found_a_list_of_files_as_the_users_value(
    con: pruner_duckdb.Connection, sql: str, values: list[object] | None
) -> None:
    """A parameter without a user's value was given the list of files, or mixed with named ones."""
    with pytest.raises(duckdb.InvalidInputException, match="Values were not provided for the following"):
        con.execute(f"SELECT x FROM t WHERE {sql}", values)


@pytest.mark.parametrize("hours", [14, -12])
def test_found_moments_at_the_ends_of_time(con: pruner_duckdb.Connection, hours: int) -> None:
    """`sql` failed with Python's OverflowError: Python has no such moment in UTC."""
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    end = datetime.datetime.min if hours > 0 else datetime.datetime.max
    relation = con.sql("SELECT count(*) FROM t WHERE $1 = $1", params=[end.replace(tzinfo=zone)])
    assert relation.fetchall() == [(6,)]


def test_found_bytes_that_look_like_escapes(tmp_path: Path) -> None:
    r"""With `binary_as_string`, the four bytes `\x41` came back as the one byte A."""
    root = write_files(tmp_path / "t", pa.array([rb"\x41"]))
    with pruner_duckdb.connect({"t": indexed(root)}) as connection:
        connection.execute("SET binary_as_string = true")
        assert connection.execute("SELECT x FROM t").fetchall() == [(rb"\x41",)]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t WHERE x = 1",
        "DELETE FROM main.t USING u WHERE t.x = u.x",
        "UPDATE t SET x = 1",
        "WITH c AS (FROM u) UPDATE t SET x = c.x FROM c",
        "MERGE INTO t USING u ON t.x = u.x WHEN MATCHED THEN DELETE",
    ],
)
def test_found_tables_are_read_only(con: pruner_duckdb.Connection, sql: str) -> None:
    """DuckDB reported a syntax error in a text that the user had not written."""
    # With the native scan they are views.
    told = r"Can only \w+ (from|into)? ?base table" if is_native() else "table (main[.])?t is read-only here"
    with pytest.raises((PrunerError, duckdb.Error), match=told):
        con.execute(sql)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT\u00a0x FROM t WHERE x = ?",
        "SELECT x FROM\u2003t WHERE s = lower(?) OR\u00a0s = 'V1\u00a0'",
        "/*\u00a0*/ SELECT x /*\u3000*/ FROM t -- \u00a0\nWHERE x = ?",
        '\ufeffSELECT x AS "\u00a0" FROM t WHERE\u200bx = $1',
    ],
)
def test_found_spaces_that_are_not_ascii(con: pruner_duckdb.Connection, sql: str) -> None:
    """DuckDB replaces them before it counts bytes, so every position after one was off."""
    assert rows(con, sql, ["v1" if "lower" in sql else 1]) == [(1,)]
    assert kept(con) == 1


def test_found_spaces_inside_of_quotes_stay(con: pruner_duckdb.Connection) -> None:
    """Only those outside quotes are spaces."""
    found = rows(con, "SELECT\u00a0'\u00a0', $a$\u00a0$a$ FROM t WHERE x = 1")
    assert found == [("\u00a0", "\u00a0")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "sql", ["SELECT * FROM t", "SELECT A FROM t", "SELECT a_1, k FROM t", "SELECT t FROM t"]
)
def test_found_columns_that_differ_in_case_alone(tmp_path: Path, sql: str) -> None:
    """Both showed the values of the first one. DuckDB renames the second to `a_1`, and so do pruned tables."""
    root = write_files(tmp_path / "t", pa.table({"A": [1], "a": [5], "k": [0]}))
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{root}/*.parquet', union_by_name = true)")
    expected = plain.execute(sql)
    with pruner_duckdb.connect({"t": indexed(root)}) as connection:
        assert rows(connection, "SELECT k FROM t") == [(0,)]
        found = connection.execute(sql)
        assert [each[0] for each in found.description] == [each[0] for each in expected.description]
        assert found.fetchall() == expected.fetchall()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT k FROM t", False),
        ("SELECT t.k FROM t", False),
        ("SELECT k FROM t AS d2", False),
        ("SELECT t FROM t", True),
        ("SELECT to_json(x) FROM main.t AS x", True),
        ("SELECT #2 FROM t", True),
        ("SELECT b FROM t AS x(a, b)", True),
        ("SELECT k FROM (PIVOT t ON k IN (1, 2) USING count(*))", True),
        ("SELECT COLUMNS('d') FROM t", True),
    ],
)
def test_found_columns_that_are_read_by_no_name_of_theirs(sql: str, read: bool) -> None:
    """Files that hold `float` for such a double were read by DuckDB's own widening (trap S19)."""
    assert Shadow().parse(sql).may_read("d") is read
