"""How DuckDB leads a pruner astray: folded session state, scans that share a reference, inferred schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import (
    FLIGHTS_FILES,
    Compared,
    answer,
    indexed,
    oracle,
    write_flights,
    write_tree,
)


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    flights = write_flights(tmp_path / "flights")
    compared = Compared(pruner_duckdb.connect({"flights": indexed(flights)}), oracle({"flights": flights}))
    compared.both("SET TimeZone = 'UTC'")
    return compared


@pytest.mark.rewriting
def test_l13_folded_session_state(compared: Compared) -> None:
    """An engine's optimizer folds session state: `getvariable`, a literal cast in another zone,
    `current_localtimestamp`, a user's macro named like a built-in (measured in DuckDB)."""
    everything = (FLIGHTS_FILES,)
    compared.both("SET VARIABLE v = 'C03a'")
    assert compared.kept("SELECT count(*) FROM flights WHERE carrier = getvariable('v')") == everything
    assert compared.kept("SELECT count(*) FROM flights WHERE ts < current_localtimestamp()") == everything
    at_midnight = "SELECT count(*) FROM flights WHERE seen = '2024-01-04 00:00:00'::TIMESTAMPTZ"
    assert compared.kept(at_midnight) == (1,)
    compared.both("SET TimeZone = 'Asia/Tokyo'")
    assert compared.kept(at_midnight) == (0,)
    compared.both("SET TimeZone = 'UTC'")
    by_prefix = "SELECT count(*) FROM flights WHERE left(carrier, 3) = 'C03' AND id < 100"
    assert compared.kept(by_prefix) in [(0,), (2,)]
    compared.both("CREATE MACRO \"left\"(a, b) AS 'C03'")
    assert compared.kept(by_prefix) == everything
    assert compared.full.execute(by_prefix).fetchall() == [(100,)]
    # Power: what does not depend on the session still prunes.
    assert compared.kept("SELECT count(*) FROM flights WHERE ts < current_localtimestamp() AND id < 50") == (
        1,
    )


@pytest.mark.rewriting
def test_l14_one_reference_with_several_scans(compared: Compared) -> None:
    """One table reference becomes several scans (a CTE inlined twice): the file list must serve the OR of
    their predicates (measured in DuckDB)."""
    shared = "WITH f AS NOT MATERIALIZED (FROM flights) SELECT count(*) FROM f a, f b WHERE a.id = 5"
    assert compared.kept(f"{shared} AND b.id = 155") == (2,)
    assert compared.kept(shared) == (FLIGHTS_FILES,)


def test_n4_names_of_columns(tmp_path: Path) -> None:
    """Column names with dots, upper case, spaces, `$`, a quote, another script; nested fields
    (SPARK-25207, delta#6247, hudi#5804)."""
    root = write_tree(
        tmp_path / "names",
        {
            f"{n}.parquet": f"""SELECT {n} AS "a.b", {n} AS "UP per", {n} AS "q""u'o$te", {n} AS "名",
                {{'a.b': {n}, 'X y': {{'名': {n}}}}} AS st"""
            for n in range(3)
        },
    )
    compared = Compared(pruner_duckdb.connect({"t": indexed(root)}), oracle({"t": root}))
    for name in ('"a.b"', '"up PER"', '"q""u\'o$te"', '"名"', 'st."a.b"', 'st."X y"."名"'):
        assert compared.kept(f"SELECT count(*) FROM t WHERE t.{name} = 1") == (1,), name


def test_n8_a_pruned_list_infers_no_schema(tmp_path: Path) -> None:
    """A pruned file list changes the inferred schema: a partition column is BIGINT for `r=1` and VARCHAR for
    `r=abc`, a late column vanishes, int and bigint mixes fail by the first file (measured in DuckDB)."""
    root = write_tree(
        tmp_path / "t",
        {
            "r=1/a.parquet": "SELECT 1::INTEGER AS id",
            "r=abc/b.parquet": "SELECT 5000000000::BIGINT AS id, 'x' AS late",
        },
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    for condition, kept, rows in (
        ("id = 1", 1, [(1, None, "1")]),
        ("id > 1", 1, [(5000000000, "x", "abc")]),
        ("r = '1'", 1, [(1, None, "1")]),
        ("id < 0", 0, []),
    ):
        sql = f"SELECT id, late, r FROM t WHERE {condition}"
        relation = pruned.sql(sql)
        assert list(map(str, relation.types)) == ["BIGINT", "VARCHAR", "VARCHAR"]
        assert answer(pruned, sql) == rows
        assert pruned.last_plans[-1].kept == kept


def test_s2_nan_is_greatest(tmp_path: Path) -> None:
    """In DuckDB NaN is greatest and equals itself (trino#21922). Its own Parquet reader ignores that, so the test
    checks what is kept, not what DuckDB 2.0.0 then reads."""
    root = write_tree(
        tmp_path / "t",
        {
            "a.parquet": "SELECT unnest(['1.0', 'nan'])::DOUBLE AS x",
            "b.parquet": "SELECT unnest([1.0, 1.5])::DOUBLE AS x",
        },
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    pruned.execute("SELECT count(*) FROM t WHERE x > 2")
    (scan,) = pruned.last_plans
    assert [path.rsplit("/", 1)[-1] for path in scan.plan.files] == ["a.parquet"]
