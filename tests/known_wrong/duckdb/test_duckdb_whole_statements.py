"""The traps of logic, of names and of values, through whole DuckDB statements: the rows of a full read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import BEFORE_2, Compared, indexed, oracle, write_flights, write_tree


@pytest.fixture
def flights(tmp_path: Path) -> Compared:
    root = write_flights(tmp_path / "flights")
    compared = Compared(pruner_duckdb.connect({"flights": indexed(root)}), oracle({"flights": root}))
    compared.both("SET TimeZone = 'UTC'")
    return compared


def of_files(folder: Path, files: Mapping[str, str]) -> Compared:
    """A table `t` with one file for each query."""
    root = write_tree(folder / "t", files)
    return Compared(pruner_duckdb.connect({"t": indexed(root)}), oracle({"t": root}))


@pytest.mark.rewriting
def test_l1_not_over_what_is_not_understood(flights: Compared) -> None:
    """NOT over a predicate that was widened flips the approximation (HUDI-7315, SPARK-12218)."""
    assert flights.kept("SELECT count(*) FROM flights WHERE NOT (id < 50 AND reverse(carrier) = 'a00C')") == (
        12,
    )
    assert flights.kept("SELECT count(*) FROM flights WHERE NOT (id >= 50 OR reverse(carrier) = 'a00C')") == (
        1,
    )
    assert flights.kept(
        "SELECT count(*) FROM flights f ANTI JOIN flights g ON f.id = g.id AND g.id < 50"
    ) == (
        12,
        1,
    )


def test_l2_or_of_an_indexed_and_a_complex_column(flights: Compared) -> None:
    """AND/OR of an indexed and an unindexed or complex column returned nothing (HUDI-7246)."""
    assert flights.kept("SELECT count(*) FROM flights WHERE id = 5 OR extra.tags = [60]") == (12,)
    assert flights.kept("SELECT count(*) FROM flights WHERE id < 100 AND extra.tags = [60]") == (2,)


@pytest.mark.rewriting
def test_l3_null_in_lists_and_anti_joins(flights: Compared) -> None:
    """`!=`, NOT IN and NULL inside a list (trino#30087)."""
    assert flights.kept("SELECT count(*) FROM flights WHERE delay NOT IN (1, NULL)") in [(0,), (12,)]
    assert flights.kept(
        "SELECT count(*) FROM flights WHERE NOT (delay <> 0) OR delay IS NULL AND id < 50"
    ) == (9,)
    no_rows = "SELECT count(*) FROM flights WHERE id NOT IN (SELECT delay FROM flights WHERE id < 50)"
    assert flights.kept(no_rows) == (12, 1)


def test_l5_a_narrowing_cast(tmp_path: Path) -> None:
    """A narrowing cast keeps no order: TRY_CAST and a modulus bring 4294967297 near 1 (hudi#19445)."""
    compared = of_files(
        tmp_path,
        {"a.parquet": "SELECT 4294967297::BIGINT AS x", "b.parquet": "SELECT 1::BIGINT AS x"},
    )
    assert compared.kept("SELECT count(*) FROM t WHERE TRY_CAST(x AS INTEGER) = 1") in [(1,), (2,)]
    assert compared.kept("SELECT count(*) FROM t WHERE (x % 4294967296)::INTEGER = 1") == (2,)


def test_l8_periodic_functions(flights: Compared) -> None:
    """`x % 8` and `hour(ts)` are not monotone (duckdb-iceberg#1052)."""
    assert flights.kept("SELECT count(*) FROM flights WHERE id % 50 = 7") == (12,)
    assert flights.kept("SELECT count(*) FROM flights WHERE hour(ts) = 0") == (2,)


def test_l9_literals_of_another_type(flights: Compared) -> None:
    """A literal's type differs from the column's, or it is out of range (questdb#7320)."""
    assert flights.kept("SELECT count(*) FROM flights WHERE id < 49.5") == (1,)
    assert flights.kept("SELECT count(*) FROM flights WHERE id < 99999999999") == (12,)
    assert flights.kept("SELECT count(*) FROM flights WHERE day = '2024-01-03 00:00:00'::TIMESTAMP") == (1,)
    assert flights.kept("SELECT count(*) FROM flights WHERE id = ?", ["5"]) == (1,)


def test_l10_limit_counts_rows_that_do_match(flights: Compared) -> None:
    """A proof that rows may match is no proof that all do (pyiceberg's strict evaluator)."""
    assert flights.kept("SELECT id FROM (SELECT id FROM flights WHERE delay > 20 ORDER BY id LIMIT 5)") == (
        6,
    )
    assert flights.kept("SELECT id FROM (SELECT id FROM flights ORDER BY id LIMIT 5) WHERE id > 100") == (12,)


def test_l11_conditions_that_fail_for_other_rows(flights: Compared) -> None:
    """What is evaluated while planning must not fail for rows that the query never touches (ClickHouse#112231)."""
    sql = "SELECT count(*) FROM flights WHERE CASE WHEN id < 50 THEN 100 / (id + 1) > 1 ELSE false END"
    assert flights.kept(sql) == (1,)
    with pytest.raises(Exception, match="nope"):
        flights.pruned.execute(
            "SELECT count(*) FROM flights WHERE id < 50 AND 'nope'::INTEGER = id"
        ).fetchall()


def test_l12_collations(flights: Compared) -> None:
    """Case-insensitive comparison (delta#3068, trino#8655)."""
    # DuckDB 1.5 writes lower(carrier) for it, which the function registry knows.
    found = flights.kept("SELECT count(*) FROM flights WHERE carrier COLLATE NOCASE = 'c03A'")
    assert found == ((2,) if BEFORE_2 else (12,))
    flights.both("CREATE TABLE mine (c VARCHAR COLLATE NOCASE)")
    flights.both("INSERT INTO mine VALUES ('c03A')")
    assert flights.kept("SELECT count(*) FROM flights JOIN mine ON carrier = c WHERE c = 'C03a'") == (12,)
    flights.both("SET default_collation = 'NOCASE'")
    assert flights.kept("SELECT count(*) FROM flights WHERE carrier = 'c03A'") == (12,)


def test_l13_session_state_in_views_and_prepared_statements(flights: Compared) -> None:
    """The current session decides, not the one in which a view or statement was made (measured)."""
    flights.both("CREATE VIEW early AS SELECT id FROM flights WHERE seen < '2024-01-03'::TIMESTAMPTZ")
    flights.both("PREPARE early AS SELECT count(*) FROM flights WHERE seen <= ?::TIMESTAMPTZ")
    assert flights.kept("SELECT count(*) FROM early") == (2,)
    assert flights.kept("EXECUTE early('2024-01-03')") == (3,)
    flights.both("SET TimeZone = 'America/New_York'")
    assert flights.kept("SELECT count(*) FROM early") == (3,)
    flights.both("SET TimeZone = 'Asia/Tokyo'")
    assert flights.kept("EXECUTE early('2024-01-03')") == (2,)
    flights.both("CREATE VIEW named AS SELECT id FROM flights WHERE upper(carrier) = 'C03A' AND id < 100")
    assert flights.kept("SELECT count(*) FROM named") == (0,)
    flights.both("CREATE MACRO upper(x) AS 'C03A'")
    assert flights.kept("SELECT count(*) FROM named") in [(2,), (12,)]


@pytest.mark.rewriting
def test_l14_views_and_merges_that_become_several_scans(flights: Compared) -> None:
    """One reference that becomes several scans keeps what any of them needs (measured in DuckDB)."""
    flights.both("CREATE VIEW f AS SELECT id, day FROM flights")
    assert flights.kept("SELECT count(*) FROM f a, f b WHERE a.id = 5 AND b.id = 155") == (1, 1)
    twice = "WITH g AS NOT MATERIALIZED (FROM f) SELECT count(*) FROM g a, g b WHERE a.id = 5"
    assert flights.kept(f"{twice} AND b.id = 155") == (2,)
    assert flights.kept(twice) == (12,)
    assert flights.kept(
        "WITH f2 AS (FROM f) SELECT (SELECT max(id) FROM f2), count(*) FROM f2 WHERE id < 5"
    ) == (12,)


def test_n1_values_in_paths(tmp_path: Path) -> None:
    """Partition values with a space, `%`, `=` and `+`, decoded once (HUDI-7484)."""
    values = {"a b": "a b", "100%25": "100%", "x%3Dy": "x=y", "p+q": "p+q", "%252F": "%2F"}
    compared = of_files(
        tmp_path,
        {f"r={path}/f.parquet": f"SELECT {number} AS n" for number, path in enumerate(values)},
    )
    for value in values.values():
        assert compared.kept("SELECT n, r FROM t WHERE r = ?", [value]) == (1,)


def test_n2_partition_values_that_look_like_something_else(tmp_path: Path) -> None:
    """`__HIVE_DEFAULT_PARTITION__`, `01`, `1e3` and `true` (SPARK-24879)."""
    paths = ["__HIVE_DEFAULT_PARTITION__", "de", "us"]
    files = {f"r={path}/f.parquet": f"SELECT {number} AS n" for number, path in enumerate(paths)}
    compared = of_files(tmp_path, files)
    assert compared.kept("SELECT n FROM t WHERE r IS NULL") == (1,)
    assert compared.kept("SELECT n FROM t WHERE r <> 'de'") == (1,)
    # Months and quarters are text to every engine; they used to keep all files.
    periods = ["2023-12", "2024-03", "2024-Q1", "2024W05", "2024"]
    files = {f"r={path}/f.parquet": f"SELECT {number} AS n" for number, path in enumerate(periods)}
    compared = of_files(tmp_path / "periods", files)
    assert compared.kept("SELECT n, r FROM t WHERE r = '2024-03'") == (1,)
    assert compared.kept("SELECT n, r FROM t WHERE r BETWEEN '2024' AND '2024-03'") == (2,)
    assert compared.kept("SELECT n, r FROM t WHERE r LIKE '2024-%'") == (2,)
    # Engines read different values from these paths, so they are no evidence.
    numbers = ["01", "1e3", "true"]
    files = {f"r={path}/f.parquet": f"SELECT {number} AS n" for number, path in enumerate(numbers)}
    compared = of_files(tmp_path / "numbers", files)
    for condition in ("r = '01'", "r = '1'", "r::VARCHAR LIKE '1%' OR r = 'true'"):
        assert compared.kept(f"SELECT n FROM t WHERE {condition}") == (3,)


def test_n8_the_schema_in_views_and_writes(tmp_path: Path) -> None:
    """A pruned list of files changes no type: a late column stays, a partition value stays text (measured)."""
    compared = of_files(
        tmp_path,
        {
            "r=1/a.parquet": "SELECT 1::INTEGER AS n",
            "r=abc/b.parquet": "SELECT 2::BIGINT AS n, 'late' AS extra",
        },
    )
    compared.both("CREATE VIEW v AS SELECT * FROM t")
    assert compared.kept("SELECT * FROM v WHERE n = 1") == (1,)
    compared.both("CREATE TABLE made AS SELECT * FROM t WHERE r = '1'")
    assert (
        compared.kept("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'made'") == ()
    )


def test_s4_a_column_that_was_added(tmp_path: Path) -> None:
    """An unknown null count read as 0: IS NULL pruned the files older than the column (hudi#19645)."""
    compared = of_files(
        tmp_path,
        {"a.parquet": "SELECT 1 AS n", "b.parquet": "SELECT 2 AS n, 5 AS added"},
    )
    assert compared.kept("SELECT n FROM t WHERE added IS NULL") == (1,)
    assert compared.kept("SELECT n FROM t WHERE added IS NOT DISTINCT FROM NULL") == (1,)
    assert compared.kept("SELECT n FROM t LEFT JOIN (SELECT 5 AS x) ON added = x WHERE x IS NULL") == (2,)


def test_s6_signed_zeros(tmp_path: Path) -> None:
    """-0.0 and 0.0 are equal (databend#20520)."""
    compared = of_files(
        tmp_path,
        {
            f"{name}.parquet": f"SELECT {value}::DOUBLE AS x"
            for name, value in zip("abc", (-0.0, 0.0, 1.0), strict=True)
        },
    )
    for condition in ("x = 0.0", "x = -0.0", "x IN (-0.0)", "x <= -0.0", "x < 0.5"):
        assert compared.kept(f"SELECT count(*) FROM t WHERE {condition}") == (2,)
