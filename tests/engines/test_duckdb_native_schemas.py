"""The native scan over files of several schemas, in typed folders, and over Hudi tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from tests.engines.duckdb_tables import answer, indexed, write_tree
from tests.engines.native_tables import NEEDS_EXTENSION, native
from tests.engines.test_duckdb_mixed_kinds import KINDS, QUERIES
from tests.support import plain_duckdb
from tests.support.hudi_tables import HudiTables, table_names
from tests.support.spark_reads import SparkReads

pytestmark = NEEDS_EXTENSION

ALIKE = [kind for kind in KINDS if "struct" not in kind]


@pytest.mark.parametrize("later_first", [False, True])
@pytest.mark.parametrize("kind", ALIKE)
def test_types_and_nulls_are_those_of_the_union_by_name(tmp_path: Path, kind: str, later_first: bool) -> None:
    for number, table in enumerate(reversed(KINDS[kind]) if later_first else KINDS[kind]):
        numbered = table.append_column("id", pa.array([number] * table.num_rows))
        pq.write_table(numbered, tmp_path / f"{number}.parquet")
    con, judge = native({"t": indexed(tmp_path)}), plain_duckdb.session()
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


@pytest.mark.parametrize("sql", [*EVOLVED_KEPT, *EVOLVED_ROWS])
def test_evolved_files_in_typed_folders(evolved: tuple[Any, Any], sql: str) -> None:
    con, plain = evolved
    con.last_plans.clear()
    assert con.sql(sql).types == plain.sql(sql).types
    assert answer(con, sql) == answer(plain, sql)
    if sql in EVOLVED_KEPT:
        assert [scan.kept for scan in con.last_plans][-1:] == [EVOLVED_KEPT[sql]]


def test_rows_are_estimated_as_of_files_that_are_alike(tmp_path: Path) -> None:
    """As many as the first file has, of each file that is left."""
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
def test_hudi_tables(spark_reads: SparkReads, hudi_tables: HudiTables, tmp_path: Path, name: str) -> None:
    """Copy-on-write, and the base files of merge-on-read tables where they are asked for: rows as by rewriting, which
    are compared with those of Spark.
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
def test_log_files_are_merged_the_other_way(hudi_tables: HudiTables, tmp_path: Path) -> None:
    root = hudi_tables.copy("mor_v6", tmp_path)
    con: Any = pruner_duckdb.connect({"t": str(root)}, native="on")
    assert con.unserved == {"t": "the native scan does not merge log files"}
    assert answer(con, "SELECT * FROM t") == answer(
        pruner_duckdb.connect({"t": str(root)}), "SELECT * FROM t"
    )
