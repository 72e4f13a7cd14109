"""`pruner_spark.sql` follows changes between two statements: of the catalog, the files, indexes and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from pruner.errors import PrunerError
from tests.engines.spark.spark_tables import (
    Rows,
    everything_read,
    files_scanned,
    indexed_numbers,
    new_scans,
    rows_of,
    unordered,
    write_numbers,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INT, file_name STRING, half INT"
QUERY = "SELECT id, file_name, half FROM follows.t WHERE id IN (5, 42) ORDER BY id"


@dataclass(frozen=True)
class Asked:
    """Run the same statement plain and pruned."""

    spark: SparkSession
    folder: Path

    def ask(self, query: str = QUERY) -> tuple[Rows, list[tuple[int | None, int | None]]]:
        """The rows, which must be those without pruner, and the kept and total files of each scan."""
        with everything_read(self.spark):
            expected = rows_of(self.spark.sql(query))
        before = pruner_spark.last_plans(self.spark)
        found = pruner_spark.sql(self.spark, query)
        assert unordered(rows_of(found)) == unordered(expected)
        scans = new_scans(self.spark, before)
        assert [scan.reason for scan in scans if scan.reason] == []
        return expected, [(scan.kept, scan.total) for scan in scans]

    def create(self, root: Path, *, name: str = "follows.t") -> None:
        """A partitioned catalog table over a folder."""
        self.spark.sql(
            f"CREATE TABLE {name} ({COLUMNS}) USING parquet PARTITIONED BY (half) LOCATION '{root.as_uri()}'"
        )
        self.spark.sql(f"MSCK REPAIR TABLE {name}")


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path) -> Iterator[Asked]:
    spark.sql("CREATE DATABASE follows")
    yield Asked(spark, tmp_path)
    spark.sql("DROP DATABASE follows CASCADE")


def _write(file: Path, ids: list[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"id": pa.array(ids, pa.int32()), "file_name": pa.array([f"new {each}" for each in ids])}
    pq.write_table(pa.table(content), file)


def test_a_recreated_table_is_another_table(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask() == ([(5, "f5", 0), (42, "f42", 0)], [(2, 8)])
    asked.spark.sql("DROP TABLE follows.t")
    _write(asked.folder / "second" / "half=1" / "a.parquet", [42, 43])
    _write(asked.folder / "second" / "half=1" / "b.parquet", [1, 2])
    asked.create(asked.folder / "second")
    assert asked.ask() == ([(42, "new 42", 1)], [])
    pruner.open_table(asked.folder / "second").create_index("stats", on="*")
    assert asked.ask() == ([(42, "new 42", 1)], [(1, 2)])


def test_a_table_at_another_location_is_another_table(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask()[1] == [(2, 8)]
    _write(asked.folder / "second" / "half=0" / "a.parquet", [5, 6])
    _write(asked.folder / "second" / "half=0" / "b.parquet", [8])
    pruner.open_table(asked.folder / "second").create_index("stats", on="*")
    place = (asked.folder / "second").as_uri()
    asked.spark.sql("ALTER TABLE follows.t DROP PARTITION (half=0), PARTITION (half=1)")
    asked.spark.sql(f"ALTER TABLE follows.t SET LOCATION '{place}'")
    asked.spark.sql("MSCK REPAIR TABLE follows.t")
    assert asked.ask() == ([(5, "new 5", 0)], [(1, 2)])


def test_a_partition_with_another_location_is_not_the_table_s(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask()[1] == [(2, 8)]
    _write(asked.folder / "other" / "a.parquet", [42])
    asked.spark.sql(
        f"ALTER TABLE follows.t PARTITION (half=0) SET LOCATION '{(asked.folder / 'other').as_uri()}'"
    )
    rows, [(kept, total)] = asked.ask()
    assert rows == [(42, "new 42", 0)]
    assert (kept, total) == (2, 8)


def test_files_that_come_and_go_are_seen_when_spark_sees_them(asked: Asked) -> None:
    root = indexed_numbers(asked.folder / "first")
    asked.create(root)
    assert asked.ask() == ([(5, "f5", 0), (42, "f42", 0)], [(2, 8)])
    _write(root / "half=1" / "late.parquet", [42])
    _write(root / "half=0" / "later.parquet", [1000])
    asked.ask()
    asked.spark.sql("REFRESH TABLE follows.t")
    # What no index covers yet is read.
    assert asked.ask() == ([(5, "f5", 0), (42, "f42", 0), (42, "new 42", 1)], [(4, 10)])
    pruner.open_table(root).refresh()
    assert asked.ask()[1] == [(3, 10)]
    (root / "half=1" / "late.parquet").unlink()
    asked.spark.sql("REFRESH TABLE follows.t")
    assert asked.ask() == ([(5, "f5", 0), (42, "f42", 0)], [(2, 9)])


def test_rows_that_are_inserted_are_found(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask()[1] == [(2, 8)]
    pruner_spark.sql(asked.spark, "INSERT INTO follows.t VALUES (42, 'inserted', 1)")
    rows, [(kept, total)] = asked.ask()
    assert (42, "inserted", 1) in rows
    assert (kept, total) == (3, 9)


def test_a_file_that_is_rewritten_in_place_is_read(asked: Asked) -> None:
    root = indexed_numbers(asked.folder / "first")
    asked.create(root)
    assert asked.ask()[1] == [(2, 8)]
    file = root / "half=1" / "00001.parquet"
    before = file.stat()
    content = pq.ParquetFile(file).read()
    ids = pa.array([42, *range(11, 20)], pa.int32())
    pq.write_table(content.set_column(0, "id", ids), file)
    assert file.stat().st_size == before.st_size, "of the same size, so that only the time tells"
    assert asked.ask() == ([(5, "f5", 0), (42, "f42", 0), (42, "f10", 1)], [(3, 8)])


def test_an_index_that_comes_and_goes(asked: Asked) -> None:
    root = write_numbers(asked.folder / "first")
    asked.create(root)
    assert asked.ask()[1] == []
    pruner_spark.sql(asked.spark, "CREATE INDEX i ON follows.t USING column_stats (id)")
    assert asked.ask()[1] == [(2, 8)]
    pruner_spark.sql(asked.spark, "DROP INDEX i ON follows.t")
    assert asked.ask()[1] == []
    # As by another process.
    other = pruner.open_table(root)
    other.create_index("i", on="id")
    assert asked.ask()[1] == [(2, 8)]
    other.drop_index("i")
    assert asked.ask()[1] == []
    other.create_index("i", on="file_name", build=False)
    assert asked.ask()[1] == [(8, 8)]
    other.uninstall()
    assert asked.ask()[1] == []


def test_the_configuration_is_read_again(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_numbers(asked.folder / "first")
    indexes = [asked.folder / "index", asked.folder / "none"]
    pruner.open_table(root, index_uri=str(indexes[0])).create_index("stats", on="id")
    asked.create(root)
    config = asked.folder / "pruner.toml"
    monkeypatch.chdir(asked.folder)
    assert asked.ask()[1] == []
    entry = f'[tables.far]\nuri = "{root}"\nindex_uri = "%s"\n'
    config.write_text(entry % indexes[0])
    assert asked.ask()[1] == [(2, 8)]
    config.write_text(entry % indexes[1])
    assert asked.ask()[1] == [(8, 8)]
    config.write_text("nonsense")
    with pytest.raises(PrunerError, match="not valid TOML"):
        pruner_spark.sql(asked.spark, QUERY)
    config.unlink()
    assert asked.ask()[1] == []
    named = asked.folder / "named.toml"
    named.write_text(f'[tables.far]\nuri = "/nowhere"\nindex_uri = "{indexes[0]}"\naliases = ["follows.t"]\n')
    monkeypatch.setenv("PRUNER_CONFIG", str(named))
    before = pruner_spark.last_plans(asked.spark)
    assert rows_of(pruner_spark.sql(asked.spark, QUERY)) == [(5, "f5", 0), (42, "f42", 0)]
    assert [scan.table for scan in new_scans(asked.spark, before)] == ["far"]


def test_settings_of_the_session_are_those_of_each_statement(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    spark = asked.spark
    by_case = "SELECT id FROM follows.t WHERE FILE_NAME = 'f42'"
    assert asked.ask(by_case) == ([(42,)], [(2, 8)])
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(Exception, match="FILE_NAME"):
            pruner_spark.sql(spark, by_case)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(Exception, match=r"(?i)divi"):
            pruner_spark.sql(spark, "SELECT id / 0 FROM follows.t WHERE id = 5").collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert rows_of(pruner_spark.sql(spark, "SELECT id / 0 FROM follows.t WHERE id = 5")) == [(None,)]


def test_a_statement_is_read_by_the_settings_of_its_own_session(asked: Asked) -> None:
    """Another session may have been used last, and Spark's parser follows the active one."""
    asked.create(indexed_numbers(asked.folder / "first"))
    other = asked.spark.newSession()
    for key in ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers"):
        other.conf.set(key, "true")
    query = 'SELECT "id" FROM follows.t WHERE "id" = 5'
    assert rows_of(other.sql(query)) == [(5,)]
    assert rows_of(asked.spark.sql('SELECT "id" FROM follows.t WHERE id = 5')) == [("id",)]
    assert rows_of(pruner_spark.sql(other, query)) == [(5,)]
    assert rows_of(pruner_spark.sql(asked.spark, 'SELECT "id" FROM follows.t WHERE id = 5')) == [("id",)]
    assert [scan.kept for scan in pruner_spark.last_plans(other)] == [1]


def test_a_temporary_view_of_the_session_hides_the_table(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    asked.spark.sql("USE follows")
    try:
        assert asked.ask("SELECT id FROM t WHERE id = 5") == ([(5,)], [(1, 8)])
        asked.spark.sql("CREATE TEMP VIEW t AS SELECT 5 AS id, 'a view' AS txt")
        assert asked.ask("SELECT * FROM t WHERE id = 5") == ([(5, "a view")], [])
        asked.spark.catalog.dropTempView("t")
        assert asked.ask("SELECT id FROM t WHERE id = 5") == ([(5,)], [(1, 8)])
    finally:
        asked.spark.sql("USE default")


def test_what_is_cached_later_is_read_from_the_cache(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask()[1] == [(2, 8)]
    asked.spark.sql("CACHE TABLE follows.t")
    assert asked.ask()[1] == []
    asked.spark.sql("UNCACHE TABLE follows.t")
    assert asked.ask()[1] == [(2, 8)]


def test_columns_that_are_added_are_known(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    assert asked.ask()[1] == [(2, 8)]
    asked.spark.sql("ALTER TABLE follows.t ADD COLUMNS (extra INT DEFAULT 7)")
    # Spark fills the default in where files lack the column: nothing is known of such files.
    assert asked.ask("SELECT id FROM follows.t WHERE extra = 7 AND id < 15")[1] == [(2, 8)]
    assert asked.ask("SELECT id FROM follows.t WHERE extra = 8")[1] == [(8, 8)]


def test_a_frame_stays_what_it_was_and_prunes_whenever_it_runs(asked: Asked) -> None:
    root = write_numbers(asked.folder / "first")
    pruner.open_table(root).create_index("stats", on="file_name")
    asked.create(root)
    frame = pruner_spark.sql(asked.spark, QUERY)
    assert rows_of(frame) == [(5, "f5", 0), (42, "f42", 0)]
    assert files_scanned(frame) == [8]
    pruner.open_table(root).create_index("more", on="id")
    again = frame.where("id < 10")
    assert rows_of(again) == [(5, "f5", 0)]
    assert files_scanned(again) == [1]


def test_errors_are_spark_s_own(asked: Asked) -> None:
    asked.create(indexed_numbers(asked.folder / "first"))
    for query in (
        "SELEC id FROM follows.t",
        "SELECT nothing FROM follows.t",
        "SELECT id FROM follows.missing",
        "SELECT id FROM follows.t WHERE sum(id) > 1",
        "INSERT INTO follows.t VALUES (1)",
    ):
        errors: list[tuple[str, str]] = []
        for run in (asked.spark.sql, lambda sql: pruner_spark.sql(asked.spark, sql)):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it is
                run(query)
            errors.append((type(caught.value).__name__, str(caught.value)))
        assert errors[0] == errors[1]


def test_a_query_that_reads_nothing_of_ours_is_analysed_once(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.create(write_numbers(asked.folder / "first"))

    def again(*_: object) -> None:
        raise AssertionError("the statement was given to Spark once more")

    view = "CREATE OR REPLACE TEMP VIEW follows_pruned AS SELECT 1 AS id"
    pruner_spark.sql(asked.spark, view)
    with monkeypatch.context() as patched:
        patched.setattr(type(asked.spark), "sql", again)
        assert rows_of(pruner_spark.sql(asked.spark, QUERY)) == [(5, "f5", 0), (42, "f42", 0)]
        assert rows_of(pruner_spark.sql(asked.spark, "SELECT id FROM follows_pruned")) == [(1,)]
    asked.spark.catalog.dropTempView("follows_pruned")
