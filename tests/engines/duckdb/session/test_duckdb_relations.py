"""Orders, limits and conditions applied to a relation later: the rows of plain DuckDB, from fewer files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from tests.support.parquet.tables import write_file

pytestmark = pytest.mark.rewriting

FILES = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The numbers 0 to 59 in six files, and texts that repeat."""
    root = tmp_path_factory.mktemp("relations") / "t"
    root.mkdir()
    for number in range(FILES):
        numbers = range(10 * number, 10 * number + 10)
        path = write_file(
            root / f"{number}.parquet",
            a=pa.array(numbers, pa.int64()),
            b=pa.array([f"x{each % 7}" for each in numbers]),
            limit=pa.array([each % 3 for each in numbers], pa.int32()),
        )
        os.utime(path, (1_600_000_000, 1_600_000_000))
    pruner.open_table(str(root)).create_index("stats", on="*")
    return root


@pytest.fixture
def pruned(root: Path) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"t": str(root)}) as con:
        yield con


@pytest.fixture
def alone(root: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.sql(f"SELECT * FROM '{root}/*.parquet'").create_view("t")
        yield con


Chain = Callable[[Any], Any]


def _outcome(con: Any, chain: Chain) -> object:
    """Columns and rows of a chain's result; the error if it fails."""
    try:
        found = chain(con)
        return found.columns, [str(each) for each in found.types], found.fetchall()
    except duckdb.Error as error:
        # Which of several values fails first depends on threads.
        return type(error), re.sub(r"'x\d'", "'…'", str(error).splitlines()[0])


@pytest.mark.parametrize(
    ("chain", "files"),
    [
        (lambda con: con.sql("SELECT * FROM t").order("a DESC").limit(3), 1),
        (lambda con: con.sql("FROM t").order(order_expr="a DESC, b").limit(n=3), 1),
        (lambda con: con.table("t").order("a").limit(3, offset=8), 2),
        (lambda con: con.sql("SELECT * FROM t ORDER BY a DESC").limit(3, 10), 2),
        (lambda con: con.sql("SELECT * FROM t ORDER BY a DESC -- all\n").limit(3), 1),
        (lambda con: con.sql("SELECT a, b FROM t WHERE a < 30 ORDER BY a DESC;").limit(2).project("b"), 1),
        (lambda con: con.sql("FROM t").filter("a < 30").order("a DESC -- the last").limit(2), 1),
        (lambda con: con.sql("FROM t WHERE a < 30").order("a DESC").limit(2), 1),
        (lambda con: con.sql("FROM t WHERE a < 30 OR a = 57").filter("a > 10").limit(2), None),
        (lambda con: con.sql("FROM t").limit(2), 1),
        (lambda con: con.sql("SELECT a, b AS A, a + b FROM t").limit(2), None),
        (lambda con: con.sql("SELECT x.*, y.* FROM t x JOIN t y USING (a) WHERE a = 7").limit(9, 0), None),
        (lambda con: con.sql("FROM t").limit(0), None),
        (lambda con: con.sql("FROM t").limit(3).limit(2, offset=1), 1),
        (lambda con: con.sql("FROM t").order("a").limit(30).order("a DESC").limit(2), None),
        (lambda con: con.sql("FROM t LIMIT 20").limit(5, offset=18), None),
        (lambda con: con.sql("FROM t LIMIT 50%").limit(5, offset=28), None),
        (lambda con: con.sql("SELECT DISTINCT b FROM t ORDER BY b").limit(3), None),
        (lambda con: con.sql("SELECT b, count(*) AS n FROM t GROUP BY b").order("n DESC, b").limit(2), None),
        (lambda con: con.sql("SELECT a AS b, b AS a FROM t").order("a, b").limit(4), None),
        (lambda con: con.sql("SELECT * EXCLUDE (b) FROM t").order("a DESC").limit(2), None),
        (lambda con: con.sql("SELECT * REPLACE (-a AS a) FROM t").order("a").limit(2), None),
        (lambda con: con.sql("SELECT a FROM t UNION ALL SELECT -a FROM t").order("a").limit(3), None),
        (lambda con: con.sql("SELECT a FROM t UNION ALL SELECT -a FROM t ORDER BY a").limit(3), None),
        (lambda con: con.sql("WITH w AS (FROM t) SELECT * FROM w ORDER BY a DESC").limit(2), None),
        (lambda con: con.sql("FROM t AS u(z)").order("z DESC").limit(2), None),
        (lambda con: con.sql("FROM t").order("2, 1 DESC").limit(3), None),
        (lambda con: con.sql("FROM t").order("ALL").limit(3), None),
        (lambda con: con.sql("FROM t").order('"limit" DESC, a').limit(3), None),
        (lambda con: con.sql("FROM t").order("a % 7, a").limit(3).aggregate("sum(a)"), None),
        (lambda con: con.sql("FROM t WHERE a > $1", params=[50]).order("a").limit(2), 1),
        (lambda con: con.sql("FROM t", alias="u").order("u.a DESC").limit(2), None),
        (lambda con: con.sql("FROM t", alias="u").filter("u.a > 55").order("a").limit(2), 1),
        (lambda con: con.sql("FROM t").order("(SELECT 1), a DESC").limit(2), None),
        (lambda con: con.sql("FROM t JOIN t AS u USING (a)").order("a DESC").limit(2), None),
        (lambda con: con.sql("SELECT a FROM t TABLESAMPLE 100%").order("a DESC").limit(2), None),
    ],
)
def test_what_is_put_on_later_prunes(
    pruned: pruner_duckdb.Connection, alone: duckdb.DuckDBPyConnection, chain: Chain, files: int | None
) -> None:
    assert _outcome(pruned, chain) == _outcome(alone, chain)
    if files is not None:
        assert pruned.last_plans[-1].read == files


@pytest.mark.parametrize(
    "chain",
    [
        lambda con: con.sql("FROM t").order("a LIMIT 3"),
        lambda con: con.sql("FROM t").order("nothing"),
        lambda con: con.sql("FROM t").order("a; DROP TABLE t"),
        lambda con: con.sql("FROM t").order(""),
        lambda con: con.sql("FROM t").order("rowid").limit(2),
        lambda con: con.sql("FROM t").filter("file_row_number = 1"),
        lambda con: con.sql("FROM t").limit(-1),
        lambda con: con.sql("SELECT a AS z FROM t").order("a").limit(2),
        lambda con: con.sql("FROM t").order("CAST(b AS INT)").limit(2),
        lambda con: con.sql("FROM t").filter("a > 1 LIMIT 3"),
    ],
)
def test_what_duckdb_refuses_is_refused(
    pruned: pruner_duckdb.Connection, alone: duckdb.DuckDBPyConnection, chain: Chain
) -> None:
    assert _outcome(pruned, chain) == _outcome(alone, chain)


def test_a_relation_with_a_limit_sees_later_files(root: Path, tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "0.parquet", a=[1, 2, 3])
    with pruner_duckdb.connect({"t": str(tmp_path / "t")}) as con:
        latest = con.sql("FROM t").order("a DESC").limit(1)
        assert latest.fetchall() == [(3,)]
        write_file(tmp_path / "t" / "1.parquet", a=[7])
        assert latest.fetchall() == [(7,)]
