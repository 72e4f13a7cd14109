"""The native scan over files of several schemas, in typed folders, and over Hudi tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import answer, indexed, write_tree
from tests.engines.duckdb.files.test_duckdb_mixed_kinds import KINDS, QUERIES
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native
from tests.support.delta.logs import Column, DeltaLog
from tests.support.duckdb import plain as plain_duckdb
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import KeptTables

pytestmark = NEEDS_EXTENSION


@pytest.mark.sampled(24)
@pytest.mark.parametrize("later_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_types_and_nulls_are_those_of_the_union_by_name(tmp_path: Path, kind: str, later_first: bool) -> None:
    for number, table in enumerate(reversed(KINDS[kind]) if later_first else KINDS[kind]):
        numbered = table.append_column("id", pa.array([number] * table.num_rows))
        pq.write_table(numbered, tmp_path / f"{number}.parquet")
    con: Any = pruner_duckdb.connect({"t": indexed(tmp_path)}, native="on")
    assert list(con.unserved.values()) == (
        ["not all files have the struct x alike"] if "without the struct" in kind else []
    )
    judge = plain_duckdb.session()
    plain = f"read_parquet('{tmp_path}/*.parquet', union_by_name = true)"
    for query in QUERIES:
        con.last_plans.clear()
        try:
            right: Any = judge.execute(query.format(t=plain)).fetchall()
        except duckdb.Error as error:
            with pytest.raises(type(error)):
                con.execute(query.format(t="t")).fetchall()
            continue
        assert con.execute(query.format(t="t")).fetchall() == right, query
        if "id =" in query:
            assert [scan.kept for scan in con.last_plans] == [1], query


EVOLVED = {
    f"day=2024-01-0{day}/n={n}/{name}.parquet": f"SELECT {columns} FROM range({50 * place}, {50 * place + 50}) r(i)"
    for place, (day, n, name, columns) in enumerate(
        [
            (1, 1, "a", "i::INTEGER AS id, i::INTEGER AS x, 'a' AS old"),
            (1, 2, "b", "i::INTEGER AS id, i::INTEGER AS x"),
            (2, 1, "c", "i::BIGINT AS x, i::INTEGER AS id, i * 0.5::DOUBLE AS y"),
            (2, 2, "d", "i::BIGINT AS id, i::BIGINT AS x, 'z' || i AS text"),
            (3, 10, "e", "i::BIGINT AS id, DATE '2020-01-01' AS day, i / 2 AS y"),
        ]
    )
}
EVOLVED_KEPT = {
    "SELECT * FROM t WHERE id = 60": 1,
    "SELECT * FROM t WHERE x BETWEEN 95 AND 105": 2,
    "SELECT * FROM t WHERE day = DATE '2024-01-02'": 2,
    "SELECT * FROM t WHERE n > 5": 1,
    "SELECT * FROM t WHERE day < DATE '2024-01-02' AND n = 2": 1,
    "SELECT id FROM t WHERE y = 60": 1,
    "SELECT id FROM t WHERE old = 'a' AND id > 40": 1,
    "SELECT id FROM t WHERE text IS NOT NULL": 1,
    "SELECT id, y FROM t WHERE y IS NULL AND id > 145": 1,
    "SELECT * FROM t JOIN wanted USING (id)": 2,
    "SELECT * FROM t WHERE x IN (SELECT id FROM wanted)": 2,
    "SELECT t.* FROM t JOIN days USING (day)": 2,
    "SELECT id FROM t WHERE id = (SELECT max(id) FROM wanted)": 1,
    "SELECT count(*), max(n), min(day) FROM t WHERE id < 60": 2,
    "SELECT count(*) FROM (SELECT * FROM t WHERE id >= 240 ORDER BY id LIMIT 3)": 1,
    "SELECT t FROM t WHERE id = 155": 1,
}
EVOLVED_ROWS = [
    "SELECT * FROM t",
    "SELECT day, n, count(*), max(x), min(y), count(old) FROM t GROUP BY ALL",
    "SELECT max(day), min(n), max(id) FROM t",
    "SELECT count(*) FROM t",
    "SELECT max(x), min(x) FROM t WHERE id >= 200",
    "SELECT * FROM t ORDER BY id DESC LIMIT 7",
    "SELECT * FROM t ORDER BY text DESC NULLS LAST, id LIMIT 5",
    "SELECT a.id, b.n FROM t a JOIN t b ON a.id = b.x AND a.day = b.day",
    "SELECT id FROM t WHERE day = DATE '2020-01-01'",
    "SELECT id FROM t WHERE x = 10.0 OR text LIKE 'z15%'",
    "SELECT id FROM t WHERE x IS NULL OR y > 100",
    "SELECT id, x FROM t WHERE x::VARCHAR = '170'",
    "SELECT column_name, column_type FROM (DESCRIBE t)",
]


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, duckdb.DuckDBPyConnection]:
    root = write_tree(tmp_path_factory.mktemp("evolved") / "t", EVOLVED)
    con, plain = native({"t": indexed(root)}), plain_duckdb.session()
    plain.execute(
        f"CREATE VIEW t AS FROM read_parquet('{root}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
    )
    for each in (con, plain):
        each.execute("CREATE TABLE wanted AS SELECT unnest([7, 160, 161]) AS id")
        each.execute("CREATE TABLE days AS SELECT unnest([DATE '2024-01-02', DATE '2025-01-01']) AS day")
    return con, plain


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sql", [*EVOLVED_KEPT, *EVOLVED_ROWS])
def test_evolved_files_in_typed_folders(evolved: tuple[Any, Any], sql: str) -> None:
    con, plain = evolved
    con.last_plans.clear()
    assert con.sql(sql).types == plain.sql(sql).types
    assert answer(con, sql) == answer(plain, sql)
    if sql in EVOLVED_KEPT:
        assert [scan.kept for scan in con.last_plans][-1:] == [EVOLVED_KEPT[sql]]


STRUCTS = {
    "in another order": ("{'x': 1, 'y': 2}", "{'y': 3, 'x': 4}"),
    "one lacks a field": ("{'x': 1, 'y': 2}", "{'y': 3}"),
    "a further field in front": ("{'x': 1, 'y': 2}", "{'z': 'q', 'x': 4, 'y': 3}"),
    "of other types": ("{'x': 1, 'y': 2::TINYINT}", "{'x': 4::BIGINT, 'y': 3::DOUBLE}"),
    "in other letters": ("{'x': 1, 'y': 2}", "{'Y': 3, 'X': 4}"),
    "in structs": ("{'x': 1, 'y': {'b': 2, 'c': 0}}", "{'y': {'c': 7, 'b': 3}, 'x': 4}"),
    "in lists": ("{'x': 1, 'y': [{'b': 2, 'c': 0}]}", "{'y': [{'c': 7}, NULL, {'c': 8}], 'x': 4}"),
    "no struct at all": ("{'x': 1, 'y': 2}", "NULL::STRUCT(y INTEGER)"),
}
STRUCT_QUERIES = (
    "SELECT * FROM t ORDER BY a",
    "SELECT a, s FROM t WHERE a = 20",
    "SELECT a, s.x FROM t ORDER BY a",
    "SELECT a, s.x FROM t WHERE s.x = 4 ORDER BY a",
    "SELECT a FROM t WHERE s.x IS NULL ORDER BY a",
    "SELECT a, s.y FROM t WHERE a > 11",
    "SELECT count(*) FROM t WHERE s IS NULL",
    "SELECT any_value(typeof(s)), count(s.y) FROM t",
    "SELECT a FROM t WHERE s.x IN (SELECT unnest([4, 9]))",
    "SELECT s.y, count(*) FROM t GROUP BY ALL ORDER BY ALL",
)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("later_first", [False, True])
@pytest.mark.parametrize("case", STRUCTS)
def test_fields_of_structs_are_found_by_their_names(tmp_path: Path, case: str, later_first: bool) -> None:
    files = [
        f"SELECT 10 * {n} AS a, {s} AS s UNION ALL SELECT 10 * {n} + 1, NULL"
        for n, s in enumerate(STRUCTS[case], start=1)
    ]
    named = reversed(files) if later_first else files
    root = write_tree(tmp_path / "t", {f"f{n}.parquet": each for n, each in enumerate(named)})
    con, plain = native({"t": indexed(root)}), duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet', union_by_name = true)")
    for sql in STRUCT_QUERIES:
        con.last_plans.clear()
        assert con.execute(sql).fetchall() == plain.execute(sql).fetchall(), sql
        if "a = 20" in sql:
            assert [scan.kept for scan in con.last_plans] == [1]


NOT_BY_NAMES = {
    "in a map": ("MAP {'k': {'x': 1, 'y': 2}}", "MAP {'k': {'y': 3, 'x': 4}}", "m['k'].y", [2, 3]),
    "a struct in it is missing": (
        "{'x': 1, 'y': {'b': 2}}",
        "{'x': 4}",
        "m",
        [{"x": 1, "y": {"b": 2}}, {"x": 4, "y": None}],
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", NOT_BY_NAMES)
def test_what_has_not_the_same_structs_is_read_the_other_way(tmp_path: Path, case: str) -> None:
    """DuckDB's reader matches fields in maps by position, and fails for a missing field of a struct."""
    *files, read, right = NOT_BY_NAMES[case]
    root = write_tree(
        tmp_path / "t", {f"f{n}.parquet": f"SELECT {n} AS a, {each} AS m" for n, each in enumerate(files)}
    )
    con: Any = pruner_duckdb.connect({"t": indexed(root)}, native="on")
    assert con.unserved == {"t": "not all files have the struct m alike"}
    assert con.execute(f"SELECT a, {read} FROM t ORDER BY a").fetchall() == list(enumerate(right))


def test_maps_that_are_alike_are_served(tmp_path: Path) -> None:
    files = ("MAP {'k': {'x': 1, 'y': 2}}",)
    same = write_tree(
        tmp_path / "same",
        {f"f{n}.parquet": f"SELECT {n}{c} AS a, {files[0]} AS m" for n, c in enumerate(("", "::BIGINT"))},
    )
    alike = native({"t": indexed(same)})
    assert alike.execute("SELECT a, m['k'].y FROM t ORDER BY a").fetchall() == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_rows_are_estimated_as_of_files_that_are_alike(tmp_path: Path) -> None:
    """For each file left, as many rows as the first file has."""
    files = {
        f"f{n}.parquet": f"SELECT i AS id, {n} AS c{n % 2} FROM range({n}000, {n}000 + 1000) r(i)"
        for n in range(5)
    }
    con = native({"t": indexed(write_tree(tmp_path / "t", files))})
    plan = con.execute("EXPLAIN SELECT * FROM t").fetchall()[0][1]
    assert "5,000 rows" in plan or "~5000 rows" in plan, plan
    plan = con.execute("EXPLAIN SELECT * FROM t WHERE id > 3999").fetchall()[0][1]
    assert "1,000 rows" in plan or "~1000 rows" in plan or "~200 rows" in plan, plan


@pytest.mark.spark
@pytest.mark.parametrize("name", [*table_names("cow_.*v6"), *table_names("mor_compacted_v6")])
def test_hudi_tables(spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path, name: str) -> None:
    """Copy-on-write, and read-optimized merge-on-read tables: the rows are those of rewriting, which are compared with
    Spark's.
    """
    spec = {"uri": str(hudi_tables.copy(name, tmp_path)), "read_optimized": name.startswith("mor")}
    if not name.startswith("mor"):
        indexed(Path(spec["uri"]))
    con: Any = pruner_duckdb.connect({"t": spec}, native="on")
    assert list(con.unserved.values()) == (
        ["a file holds floats of which Hudi makes doubles in a way of its own"] if "widened" in name else []
    )
    other = pruner_duckdb.connect({"t": spec})
    ids = [row[0] for row in other.execute("SELECT DISTINCT id FROM t").fetchall()]
    statements = [
        "SELECT * FROM t",
        "SELECT count(*) FROM t",
        "DESCRIBE t",
        *(f"SELECT * FROM t WHERE id = {i}" for i in ids),
    ]
    for sql in statements:
        con.last_plans.clear()
        other.last_plans.clear()
        assert answer(con, sql) == answer(other, sql), sql
        if "id =" in sql:
            assert [scan.kept for scan in con.last_plans] == [scan.kept for scan in other.last_plans], sql


@pytest.mark.spark
def test_log_files_are_merged_the_other_way(hudi_tables: KeptTables, tmp_path: Path) -> None:
    root = hudi_tables.copy("mor_v6", tmp_path)
    con: Any = pruner_duckdb.connect({"t": str(root)}, native="on")
    assert con.unserved == {"t": "the native scan does not merge log files"}
    assert answer(con, "SELECT * FROM t") == answer(
        pruner_duckdb.connect({"t": str(root)}), "SELECT * FROM t"
    )


@pytest.mark.slow
def test_nan_that_statistics_in_files_leave_out(tmp_path: Path) -> None:
    """NaN is greater than any number in DuckDB, and writers of Delta files omit it from their statistics."""
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("x", "double")))
    nan = float("nan")
    for at, values in enumerate(([1.0, nan], [2.0, 50.0], [nan, nan], [3.0, -1.0])):
        ids = pa.array([2 * at, 2 * at + 1], pa.int64())
        table.append(pa.table({"id": ids, "x": pa.array(values, pa.float64())}))
    pruner.open_table(str(table.root)).create_index("i", on=["id", "x"])
    con, plain = native({"t": str(table.root)}), duckdb.connect()
    plain.register("t", table.rows())
    for sql in (
        "SELECT id FROM t WHERE x > 10 ORDER BY id",
        "SELECT id FROM t WHERE x < 10 ORDER BY id",
        "SELECT id FROM t WHERE NOT (x < 10) ORDER BY id",
        "SELECT id FROM t WHERE x = 'nan'::DOUBLE ORDER BY id",
        "SELECT id FROM t WHERE isnan(x) ORDER BY id",
        "SELECT id FROM t WHERE id < 2 AND x > 10",
        "SELECT id FROM t WHERE id < 2 AND x < 10",
        "SELECT count(*) FROM t WHERE id IN (4, 5) AND x >= 5",
        "SELECT id FROM t ORDER BY x DESC, id LIMIT 4",
        "SELECT max(id) FROM t WHERE x >= (SELECT 40.0)",
        "SELECT count(DISTINCT x) FROM t",
        "SELECT count(*) FROM t WHERE x BETWEEN 0 AND 60",
    ):
        assert con.execute(sql).fetchall() == plain.execute(sql).fetchall(), sql
    con.last_plans.clear()
    assert con.execute("SELECT id FROM t WHERE id = 1 AND x > 10").fetchall() == [(1,)]
    assert [scan.kept for scan in con.last_plans] == [1]
