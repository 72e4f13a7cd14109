"""A statement that fails for a value over fewer files runs where DuckDB alone would run it over all files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

FAILS = "the pruned statement failed"


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """Days by folder; files that differ in their columns, so they are read by name."""
    root = tmp_path / "t"
    con = plain_duckdb.session()
    for number in range(6):
        folder = root / f"p=2024-01-0{number % 3 + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        more = ", 'x' || i AS late" if number else ""
        rows = f"range({number * 10}, {number * 10 + 10}) t(i)"
        con.execute(
            f"COPY (SELECT i::INTEGER AS c0, i::BIGINT AS c1, (i * 3)::DECIMAL(38, 0) AS c2, i % 2 = 0 AS c3, "
            f"NULL::INTEGER AS c9{more} FROM {rows}) TO '{folder}/{number}.parquet'"
        )
    opened = pruner.open_table(root, index_uri=str(tmp_path / "index"))
    opened.create_index("stats", on="c0")
    return opened


def view(table: pruner.Table, option: str) -> duckdb.DuckDBPyConnection:
    plain = plain_duckdb.session()
    scan = f"read_parquet('{table.uri}/**/*.parquet', hive_partitioning = true{option})"
    plain.execute(f"CREATE OR REPLACE TEMP VIEW t AS FROM {scan}")
    return plain


IRRELEVANT = [
    "c0 != c0 AND p IS NOT DISTINCT FROM '__HIVE_DEFAULT_PARTITION__'",
    "c0 > 35 AND c9 IS NOT NULL AND p = 'x'",
    "c0 > 35 AND c9 = c9 AND c1 > 'x'",
    "list_contains([NULL], c1) AND c2 >= 8::DECIMAL(10, 2)",
    "c0 BETWEEN 10 AND 12 AND c3 != c3 AND p = -1",
    # The native scan does not run such a statement again.
    pytest.param("NOT (c0 > 35 AND c9 IS NOT NULL AND p = 'x')", marks=pytest.mark.rewriting),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("condition", IRRELEVANT)
def test_conditions_that_another_one_makes_irrelevant(table: pruner.Table, condition: str) -> None:
    sql = f"SELECT c0, p FROM t WHERE {condition} ORDER BY ALL"
    ran: list[list[tuple[Any, ...]]] = []
    for option in ("", ", union_by_name = true"):
        try:
            ran.append(view(table, option).execute(sql).fetchall())
        except duckdb.Error:
            continue
    con = pruner_duckdb.connect({"t": table})
    if not ran:
        assert duckdb.__version__.startswith("1."), "only old versions run this in no way"
        with pytest.raises(duckdb.Error):
            con.execute(sql).fetchall()
        return
    assert con.execute(sql).fetchall() == ran[0]
    assert con.sql(sql).fetchall() == ran[0]
    assert con.sql(f"SELECT * FROM t WHERE {condition}").order("c0").project("c0, p").fetchall() == ran[0]
    assert con.sql("FROM t").filter(condition).project("c0, p").order("c0").fetchall() == ran[0]


@pytest.mark.rewriting
def test_what_was_read_as_a_whole_is_told(table: pruner.Table) -> None:
    con = pruner_duckdb.connect({"t": table})
    assert con.execute("SELECT c0 FROM t WHERE c0 > 35 AND c9 IS NOT NULL AND p = 'x'").fetchall() == []
    first, last = con.last_plans[0], con.last_plans[-1]
    assert first.reason is None
    assert first.kept < first.total
    assert (last.reason or "").startswith(f"{FAILS} (Conversion Error: ")
    assert last.kept == last.total


@pytest.mark.sampled(2)
def test_a_value_that_fails_in_every_way_fails_as_it_did(table: pruner.Table) -> None:
    con = pruner_duckdb.connect({"t": table})
    with pytest.raises(
        duckdb.ConversionException, match="LINE 1: SELECT c0 FROM t WHERE c0 > 35 AND p = 'x'"
    ):
        con.execute("SELECT c0 FROM t WHERE c0 > 35 AND p = 'x'").fetchall()
    relation = con.sql("SELECT c0 FROM t WHERE c0 > 35 AND p = 'x'")
    with pytest.raises(duckdb.ConversionException):
        relation.fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(60,)]


@pytest.mark.sampled(2)
def test_in_a_transaction_the_first_error_stands(table: pruner.Table) -> None:
    """The error has ended the transaction, as every DuckDB error does."""
    con = pruner_duckdb.connect({"t": table})
    con.begin()
    with pytest.raises(duckdb.ConversionException):
        con.execute("SELECT c0 FROM t WHERE c0 > 35 AND p = 'x'").fetchall()
    with pytest.raises(duckdb.TransactionException):
        con.execute("SELECT 1").fetchall()
    con.rollback()
    assert con.execute("SELECT count(*) FROM t WHERE c0 > 35").fetchall() == [(24,)]


@pytest.mark.sampled(2)
def test_nothing_is_written_twice(table: pruner.Table) -> None:
    con = pruner_duckdb.connect({"t": table})
    con.execute("CREATE TABLE found AS SELECT c0 FROM t WHERE false")
    con.execute("INSERT INTO found SELECT c0 FROM t WHERE c0 > 57 OR (c9 IS NOT NULL AND p = 'x')")
    assert con.execute("FROM found ORDER BY ALL").fetchall() == [(58,), (59,)]
