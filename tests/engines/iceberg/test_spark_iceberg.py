"""Iceberg tables in Spark: what is scanned, and what is left to Iceberg itself.

`_file` of an unpruned read names a file that holds a matching row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from pruner.errors import TableError
from pruner_spark.jvm import JavaSide
from tests.engines.spark.spark_tables import iceberg_files, iceberg_tasks, new_scans, rows_of, unordered
from tests.support.spark.catalyst import settings
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MERGE_ON_READ = (
    "'format-version'='{}', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read', 'write.delete.granularity'='file'"
)
ROW = "id, concat('n', id * 7 % 80) AS name, id * 7 % 80 AS number, CAST(id DIV 10 AS INT) AS part"
"""Eight files of ten rows; in each, names and numbers span nearly the whole range."""


@dataclass(frozen=True)
class Ice:
    """A table's name, and the session that knows the table."""

    spark: SparkSession
    warehouse: Path
    name: str

    @property
    def path(self) -> Path:
        """The table's location."""
        return self.warehouse / self.name.removeprefix("ice.").replace(".", "/")

    def sql(self, *statements: str) -> Ice:
        """Run statements; `{t}` is the table."""
        for statement in statements:
            self.spark.sql(statement.format(t=self.name))
        return self

    def create(self, partitioned: str = "PARTITIONED BY (part)", version: int = 3, more: str = "") -> Ice:
        """Create the table with its eight files, and an index."""
        self.sql(
            f"CREATE TABLE {{t}} (id BIGINT, name STRING, number BIGINT, part INT) USING iceberg {partitioned} "
            f"TBLPROPERTIES ({MERGE_ON_READ.format(version)}{more})",
            f"INSERT INTO {{t}} SELECT {ROW} FROM range(0, 80, 1, 8)",
        )
        pruner.open_table(str(self.path)).create_index("names", on=["name", "number"], using="bitmap")
        return self

    def snapshots(self) -> list[int]:
        """The ids of its snapshots, oldest first."""
        found = self.spark.sql(f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at")
        return [row[0] for row in found.collect()]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def ice(spark: SparkSession, warehouse: Path) -> SparkSession:
    return iceberg_session(spark, warehouse)


@pytest.fixture
def named(
    ice: SparkSession, warehouse: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Ice]]:
    """Give out tables with names that no other test has; they are dropped after the test."""
    made: list[Ice] = []
    test = "".join(each if each.isalnum() else "_" for each in request.node.name)

    def give(name: str) -> Ice:
        made.append(Ice(ice, warehouse, f"ice.{test}.{name}"))
        return made[-1]

    yield give
    for table in made:
        table.sql("DROP TABLE IF EXISTS {t} PURGE")


@pytest.fixture
def table(named: Callable[[str], Ice]) -> Ice:
    return named("numbers").create()


@dataclass(frozen=True)
class Reading:
    """Rows of a pruned DataFrame, its scans, and the number of files left to each."""

    rows: list[tuple[Any, ...]]
    scans: list[pruner_spark.Scan]
    read: list[int]


def _read(frame: DataFrame) -> Reading:
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    rows = unordered(rows_of(frame))
    return Reading(rows, new_scans(spark, before), [len(files) for files in iceberg_files(frame)])


def _same(pruned: DataFrame, plain: DataFrame) -> Reading:
    """What a pruned DataFrame reads, which must be what Iceberg reads by itself."""
    found = _read(pruned)
    assert found.rows == unordered(rows_of(plain))
    assert all(scan.reason is None and scan.plan is not None for scan in found.scans), found.scans
    assert all(scan.files_unknown in (0, None) for scan in found.scans)
    return found


WAYS: dict[str, Callable[[Ice], DataFrame]] = {
    "read": lambda table: pruner_spark.read(table.spark, table.path),
    "prune": lambda table: pruner_spark.prune(table.spark.table(table.name)),
    "sql": lambda table: pruner_spark.sql(table.spark, f"SELECT * FROM {table.name}"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_read_where_iceberg_s_metrics_leave_all(table: Ice, way: str) -> None:
    plain = table.spark.table(table.name).where("number = 33")
    assert len(rows_of(plain)) == 1
    assert [len(files) for files in iceberg_files(plain)] == [8]
    found = _same(WAYS[way](table).where("number = 33"), plain)
    assert found.read == [1]
    (scan,) = found.scans
    counted = (scan.kept, scan.total, scan.files_listed, scan.files_unknown, scan.files_dropped)
    assert counted == (1, 8, 8, 0, 7)


def test_conditions_on_whole_partitions_are_iceberg_s(table: Ice) -> None:
    """They are gone from the filter above the scan; the rest of it prunes the files that Iceberg left."""
    found = _same(
        pruner_spark.sql(
            table.spark, f"SELECT * FROM {table.name} WHERE part < 5 AND number IN (33, 34, 35)"
        ),
        table.spark.sql(f"SELECT * FROM {table.name} WHERE part < 5 AND number IN (33, 34, 35)"),
    )
    assert found.read == [2]
    assert [(scan.kept, scan.files_listed, scan.files_dropped) for scan in found.scans] == [(3, 5, 3)]


def test_views_and_registered_names(table: Ice) -> None:
    spark = table.spark
    pruner_spark.register(spark, "registered", table.path)
    spark.sql("CREATE OR REPLACE TEMP VIEW halves AS SELECT id % 2 AS half, name FROM registered")
    assert _read(spark.sql("SELECT half FROM halves WHERE name = 'n7'")).read == [1]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW plain_view AS SELECT * FROM {table.name} WHERE id >= 0")
    assert _read(pruner_spark.sql(spark, "SELECT id FROM plain_view WHERE name = 'n7'")).read == [1]


def test_joins_and_subqueries(table: Ice) -> None:
    spark, name = table.spark, table.name
    for query, most in (
        (f"SELECT a.id, b.id FROM {name} a JOIN {name} b ON a.id = b.number WHERE a.name = 'n7'", 9),
        (
            f"SELECT id FROM {name} WHERE number = (SELECT max(id) FROM {name} WHERE name = 'n7') AND name <> ''",
            9,
        ),
        (f"SELECT id FROM {name} WHERE name = 'n7' UNION ALL SELECT number FROM {name} WHERE name = 'n9'", 2),
        (
            f"SELECT id FROM {name} a WHERE EXISTS (SELECT 1 FROM {name} b WHERE b.name = 'n8' AND b.id = a.id)",
            9,
        ),
        (f"WITH w AS (SELECT * FROM {name} WHERE name = 'n7') SELECT * FROM w x JOIN w y USING (id)", 2),
    ):
        found = _same(pruner_spark.sql(spark, query), spark.sql(query))
        assert sum(found.read) <= most, query


def test_subqueries_that_spark_makes_one_keep_the_files_of_both(table: Ice) -> None:
    """Iceberg takes scans with equal pushed filters for equal: one of them is read, under both filters."""
    spark, name = table.spark, table.name
    query = (
        f"SELECT (SELECT max(id) FROM {name} WHERE number % 80 = 33), "
        f"(SELECT min(id) FROM {name} WHERE number % 80 = 34), (SELECT count(*) FROM {name} WHERE upper(name) = 'N7')"
    )
    found = _same(pruner_spark.sql(spark, query), spark.sql(query))
    assert found.rows == [(39, 62, 1)]


def test_a_scan_that_is_planned_again_for_another_filter_has_all_its_files(table: Ice) -> None:
    """However two parts of a plan come to share a scan, the second filter finds the files that the first left out."""
    spark = table.spark
    frame = pruner_spark.read(spark, table.path).where("number = 33")
    java_frame: Any = frame._jdf
    logical = java_frame.queryExecution().optimizedPlan()
    planner = java_frame.sparkSession().sessionState().planner()
    first = planner.plan(logical).next()
    assert _left(first) == 1
    again = planner.plan(logical).next()
    assert _left(again) == 1
    leaf = logical.collectLeaves().head()
    whole = planner.plan(leaf).next()
    assert _left(whole) == 8


def _left(plan: Any) -> int:
    return int(iceberg_tasks(plan.collectLeaves().head().scan()).size())


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_deleted_stay_deleted(named: Callable[[str], Ice], version: int) -> None:
    """Iceberg applies position deletes and vectors; the record of a file covers more rows than it has left."""
    table = named("numbers").create(version=version).sql("DELETE FROM {t} WHERE number IN (33, 34)")
    suffix = ".puffin" if version == 3 else "-deletes.parquet"
    assert any(each.name.endswith(suffix) for each in table.path.rglob("*"))
    for condition, read in (("number = 33", 1), ("number IN (33, 35)", 2), ("number > 1000", 0)):
        plain = table.spark.table(table.name).where(condition)
        found = _same(pruner_spark.read(table.spark, table.path).where(condition), plain)
        assert sum(found.read) == read, condition


def test_counts_and_extremes_see_no_deleted_rows(table: Ice) -> None:
    table.sql("DELETE FROM {t} WHERE number IN (33, 34) OR id = 79")
    for query in (
        "SELECT count(*), max(id), min(number) FROM {t}",
        "SELECT count(*), max(id) FROM {t} WHERE number IN (33, 35)",
        "SELECT part, count(*), max(id) FROM {t} GROUP BY part",
        "SELECT id FROM {t} ORDER BY id DESC LIMIT 1",
        "SELECT count(*) FROM {t} WHERE number = 33",
    ):
        spoken = query.format(t=table.name)
        _same(pruner_spark.sql(table.spark, spoken), table.spark.sql(spoken))


def test_iceberg_s_own_answers_stay(table: Ice) -> None:
    query = f"SELECT count(*), max(id) FROM {table.name}"
    assert _read(pruner_spark.sql(table.spark, query)) == Reading([(80, 79)], [], [])


def test_time_travel_branches_and_tags(table: Ice) -> None:
    spark, name = table.spark, table.name
    (first,) = table.snapshots()
    (moment,) = spark.sql(f"SELECT committed_at FROM {name}.snapshots").collect()[0]
    table.sql(
        "ALTER TABLE {t} CREATE TAG old",
        "ALTER TABLE {t} CREATE BRANCH side",
        "DELETE FROM {t} WHERE number = 33",
        "INSERT INTO {t}.branch_side VALUES (1000, 'n33', 33, 77)",
        "CALL ice.system.rewrite_data_files(table => '"
        + name.removeprefix("ice.")
        + "', options => map('rewrite-all', 'true'))",
    )
    pruner.open_table(str(table.path)).refresh()
    for told, rows, read in (
        (f"VERSION AS OF {first}", 1, 1),
        ("VERSION AS OF 'old'", 1, 1),
        ("VERSION AS OF 'side'", 2, 2),
        ("", 0, 0),
    ):
        query = f"SELECT * FROM {name} {told} WHERE number = 33"
        found = _same(pruner_spark.sql(spark, query), spark.sql(query))
        assert (len(found.rows), found.read) == (rows, [read]), told
    query = f"SELECT * FROM {name}.branch_side WHERE number = 33"
    assert _same(pruner_spark.sql(spark, query), spark.sql(query)).read == [2]
    for as_of, rows in ((str(first), 1), ("old", 1), ("side", 2), (f"{moment.isoformat()}", 1)):
        with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
            past = pruner_spark.read(spark, table.path, as_of=as_of).where("number = 33")
            assert len(_read(past).rows) == rows, as_of
    with pytest.raises(TableError, match="is no snapshot id, branch or tag"):
        pruner_spark.read(spark, table.path, as_of="nowhere")


def test_a_scan_is_planned_as_of_the_snapshot_that_it_reads(table: Ice) -> None:
    spark = table.spark
    frame = pruner_spark.read(spark, table.path).where("number = 33")
    java_frame: Any = frame._jdf
    java_frame.queryExecution().optimizedPlan()
    expected = unordered(rows_of(spark.table(table.name).where("number = 33")))
    table.sql("DELETE FROM {t} WHERE number = 33", "INSERT INTO {t} VALUES (81, 'n33', 33, 8)")
    found = _read(frame)
    assert found.rows == expected
    assert found.read == [1]
    (scan,) = found.scans
    assert (scan.reason, scan.kept, scan.total, scan.files_unknown) == (None, 1, 8, 0)


def test_renamed_and_exchanged_columns_and_new_specs(table: Ice) -> None:
    """A name can later be another column's; columns are found by field ids, in scans of old schemas too."""
    spark, name = table.spark, table.name
    (first,) = table.snapshots()
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN number TO former",
        "ALTER TABLE {t} RENAME COLUMN id TO number",
        "ALTER TABLE {t} RENAME COLUMN former TO id",
        "ALTER TABLE {t} DROP COLUMN name",
        "ALTER TABLE {t} ADD COLUMN name STRING",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
        "INSERT INTO {t} (number, id, part, name) VALUES (500, 501, 9, 'new')",
    )
    pruner.open_table(str(table.path)).refresh()
    for condition, most in (
        ("id = 33", 1),
        ("number = 33", 1),
        ("number = 500", 1),
        ("name = 'n33'", 9),
        ("name = 'new'", 9),
        ("name IS NULL", 9),
    ):
        found = _same(
            pruner_spark.read(spark, table.path).where(condition), spark.table(name).where(condition)
        )
        assert sum(found.read) <= most, condition
    for condition in ("name = 'n33'", "number = 33", "id = 33"):
        query = f"SELECT * FROM {name} VERSION AS OF {first} WHERE {condition}"
        assert len(_same(pruner_spark.sql(spark, query), spark.sql(query)).rows) == 1
    table.sql("ALTER TABLE {t} CREATE BRANCH late", "ALTER TABLE {t} RENAME COLUMN number TO third")
    table.sql("ALTER TABLE {t} RENAME COLUMN id TO number")
    for place in (f"{name}.branch_late", f"{name} VERSION AS OF 'late'", name):
        query = f"SELECT * FROM {place} WHERE number = 33 AND third = 39"
        assert len(_same(pruner_spark.sql(spark, query), spark.sql(query)).rows) == 1


@pytest.fixture
def exchanged(named: Callable[[str], Ice]) -> Ice:
    """Two columns that have exchanged their names since the last commit of a branch, which is read by the new ones."""
    table = named("exchanged").sql(
        "CREATE TABLE {t} (id BIGINT, low BIGINT) USING iceberg",
        "INSERT INTO {t} SELECT id, id DIV 10 FROM range(0, 80, 1, 8)",
        "ALTER TABLE {t} CREATE BRANCH late",
        "ALTER TABLE {t} RENAME COLUMN id TO other",
        "ALTER TABLE {t} RENAME COLUMN low TO id",
        "ALTER TABLE {t} RENAME COLUMN other TO low",
        "INSERT INTO {t} (low, id) VALUES (1000, 1000)",
    )
    pruner.open_table(str(table.path)).create_index("stats", on="*")
    return table


def test_conditions_on_columns_that_exchanged_their_names(exchanged: Ice) -> None:
    """Records of a branch's snapshot are of the column that had the name then: they would leave out Iceberg's file."""
    spark, name = exchanged.spark, exchanged.name
    for place in (f"{name}.branch_late", f"{name} VERSION AS OF 'late'", name):
        for condition in ("low = 33", "id = 3 AND low > 37", "low = 70 OR id IN (7, 9) AND low > 77"):
            query = f"SELECT * FROM {place} WHERE {condition}"
            found = _same(pruner_spark.sql(spark, query), spark.sql(query))
            assert found.rows, query
            assert found.read == [1], query


def test_first_rows_by_columns_that_exchanged_their_names(exchanged: Ice) -> None:
    """Ten rows have 0 in the column that had the name, and one in the column that has it now."""
    spark, name = exchanged.spark, exchanged.name
    for place in (f"{name}.branch_late", f"{name} VERSION AS OF 'late'", name):
        for order in ("low", "low DESC", "id, low", "id DESC, low"):
            query = f"SELECT low, id FROM {place} ORDER BY {order} LIMIT 3"
            assert rows_of(pruner_spark.sql(spark, query)) == rows_of(spark.sql(query)), query


def test_what_is_no_scan_of_a_snapshot_is_left_as_it_is(table: Ice) -> None:
    spark, name = table.spark, table.name
    first = table.snapshots()[0]
    table.sql("INSERT INTO {t} VALUES (81, 'n33', 33, 8)", "DELETE FROM {t} WHERE id = 39")
    second = table.snapshots()[1]
    reader = spark.read.format("iceberg").option("start-snapshot-id", str(first))
    added = reader.option("end-snapshot-id", str(second)).load(str(table.path)).where("number = 33")
    pruned = _read(pruner_spark.prune(added))
    assert pruned.rows == unordered(rows_of(added)) == [(81, "n33", 33, 8)]
    for part in ("files", "snapshots", "all_data_files", "position_deletes"):
        query = f"SELECT count(*) FROM {name}.{part}"
        found = _read(pruner_spark.sql(spark, query))
        assert (found.rows, found.scans) == (unordered(rows_of(spark.sql(query))), [])
    query = f"SELECT id, _deleted FROM {name} WHERE number = 33"
    before = pruner_spark.last_plans(spark)
    assert unordered(rows_of(pruner_spark.sql(spark, query))) == [(39, True), (81, False)]
    assert [scan.reason for scan in new_scans(spark, before)] == [
        "it shows rows that are deleted, of which no index tells"
    ]


def test_columns_about_files_prune_nothing_and_lose_nothing(table: Ice) -> None:
    spark, name = table.spark, table.name
    file = rows_of(spark.sql(f"SELECT _file FROM {name} WHERE number = 33"))[0][0]
    for query in (
        f"SELECT id, _pos FROM {name} WHERE _file = '{file}' AND number = 33",
        f"SELECT id, _partition FROM {name} WHERE _pos = 3 AND number > 40",
        f"SELECT id, _spec_id FROM {name} WHERE _spec_id = 0 AND number IN (33, 34)",
        f"SELECT id, _row_id FROM {name} WHERE _row_id >= 0 AND number IN (33, 34)",
    ):
        _same(pruner_spark.sql(spark, query), spark.sql(query))


def test_dynamic_pruning_and_partitioned_joins(named: Callable[[str], Ice]) -> None:
    left, right = named("l").create(), named("r").create()
    spark = left.spark
    spark.createDataFrame([(1, "x")], "part INT, label STRING").createOrReplaceTempView("labels")
    query = (
        f"SELECT /*+ BROADCAST(l) */ t.id FROM {left.name} t JOIN labels l ON t.part = l.part "
        "WHERE l.label = 'x' AND t.number < 60 AND t.name <> 'n3'"
    )
    found = _same(pruner_spark.sql(spark, query), spark.sql(query))
    assert found.read == [1]
    switches = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
    }
    query = (
        f"SELECT a.id, b.id FROM {left.name} a JOIN {right.name} b ON a.part = b.part AND a.id = b.id "
        "WHERE a.number IN (33, 34, 35) AND b.number < 35"
    )
    for values in ("true", "false"):
        with settings(spark, {**switches, "spark.sql.sources.v2.bucketing.pushPartValues.enabled": values}):
            found = _same(pruner_spark.sql(spark, query), spark.sql(query))
            assert sorted(found.read)[0] == 3
            assert len(found.rows) == 2


CHANGES = (
    "DELETE FROM {t} WHERE number IN (SELECT number + 1 FROM {s} WHERE name = 'n7')",
    "UPDATE {t} SET name = 'changed' WHERE number IN (1, 40)",
    "MERGE INTO {t} t USING (SELECT * FROM {s} WHERE name IN ('n7', 'n9')) s ON t.id = s.id + 20 "
    "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT * "
    "WHEN NOT MATCHED BY SOURCE AND t.number = 50 THEN UPDATE SET name = 'lone'",
    "INSERT INTO {t} SELECT id + 1000, name, number, part FROM {s} WHERE name = 'n7'",
)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_statements_that_change_rows(named: Callable[[str], Ice], mode: str) -> None:
    """Their sources are pruned, and their targets get the same rows as without pruner."""
    more = "".join(f", 'write.{each}.mode'='{mode}'" for each in ("delete", "update", "merge"))
    properties = more if mode == "copy-on-write" else ""
    pruned, plain, source = named("pruned"), named("plain"), named("source").create()
    for each in (pruned, plain):
        each.create()
        if properties:
            each.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties.removeprefix(', ')})")
    spark = pruned.spark
    for statement in CHANGES:
        before = pruner_spark.last_plans(spark)
        spark.sql(statement.format(t=plain.name, s=source.name))
        pruner_spark.sql(spark, statement.format(t=pruned.name, s=source.name))
        scans = [scan for scan in new_scans(spark, before) if scan.table == str(source.path)]
        assert bool(scans) == ("{s}" in statement), statement
        assert all(scan.reason is None and (scan.kept or 8) < 8 for scan in scans), (statement, scans)
    rows = [unordered(rows_of(spark.table(each.name))) for each in (pruned, plain)]
    assert rows[0] == rows[1]
    assert {"merged", "lone", "changed"} <= {row[1] for row in rows[0]}


def test_create_table_as_select(table: Ice, named: Callable[[str], Ice]) -> None:
    target = named("target")
    before = pruner_spark.last_plans(table.spark)
    pruner_spark.sql(
        table.spark,
        f"CREATE TABLE {target.name} USING iceberg AS SELECT * FROM {table.name} WHERE number = 33",
    )
    assert len(rows_of(table.spark.table(target.name))) == 1
    assert {scan.kept for scan in new_scans(table.spark, before)} == {1}


def test_cached_rows_and_keys(table: Ice) -> None:
    spark = table.spark
    cached = pruner_spark.read(spark, table.path).where("number = 33").cache()
    try:
        assert len(rows_of(cached)) == 1
        assert len(rows_of(pruner_spark.read(spark, table.path))) == 80
        assert len(rows_of(pruner_spark.read(spark, table.path).where("number IN (33, 34)"))) == 2
    finally:
        cached.unpersist()
    keys = spark.createDataFrame([(33,)], "number BIGINT")
    before = pruner_spark.last_plans(spark)
    assert len(rows_of(pruner_spark.read_with_keys(spark, table.path, keys))) == 80
    assert [
        (scan.reason or "").startswith("Spark would take a scan") for scan in new_scans(spark, before)
    ] == [True]


def test_a_table_that_pruner_refuses_is_read_and_the_reason_is_said(table: Ice) -> None:
    table.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'orc')",
        "INSERT INTO {t} VALUES (100, 'n33', 33, 9)",
    )
    with pytest.raises(TableError, match="has files of format ORC"):
        pruner.open_table(str(table.path)).plan("number = 33")
    stock = table.spark.sql(f"SELECT * FROM {table.name} WHERE number = 33")
    before = pruner_spark.last_plans(table.spark)
    frame = pruner_spark.sql(table.spark, f"SELECT * FROM {table.name} WHERE number = 33")
    assert unordered(rows_of(frame)) == unordered(rows_of(stock))
    assert {row[0] for row in rows_of(frame)} >= {100}
    (scan, *_) = new_scans(table.spark, before)
    assert scan.plan is None
    assert "has files of format ORC" in str(scan.reason)
    assert iceberg_files(frame) == iceberg_files(stock), "all that Iceberg itself reads are read"


def test_spark_builds_what_a_process_builds(table: Ice) -> None:
    """In each file, numbers span nearly the whole range, so only the index tells which file has one."""
    opened = pruner.open_table(str(table.path))
    opened.drop_index("names")
    assert opened.plan("number = 33").kept == 8
    assert opened.create_index("built", on=["number", "name"], using="bitmap", run=table.spark) is not None
    assert opened.plan("number = 33").kept == 1
    table.sql("DELETE FROM {t} WHERE number = 34", "INSERT INTO {t} VALUES (200, 'n33', 33, 20)")
    followed = opened.plan("number = 33")
    assert followed.kept == 2, "the new file is not indexed yet"
    assert opened.plan("number = 35").kept == 1, "what the new file's own bounds rule out"
    done = opened.refresh(run=table.spark)
    assert (done.failures, opened.plan("name = 'n34'").kept) == ((), 1), (
        "a file keeps what its deleted rows had"
    )
    anew = pruner.open_table(str(table.path))
    assert anew.plan("number = 33").kept_mask.tolist() == opened.plan("number = 33").kept_mask.tolist()
    assert anew.plan("number = 33").kept == 2
    found = pruner_spark.read(table.spark, table.path).where("number = 33")
    assert {row[0] for row in rows_of(found)} == {
        row[0] for row in rows_of(table.spark.sql(f"SELECT * FROM {table.name} WHERE number = 33"))
    }


def test_without_iceberg_it_is_said_what_to_add(table: Ice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JavaSide, "has_class", lambda *_: False)
    with pytest.raises(TableError, match="is a iceberg table, .* no classes for: add org.apache.iceberg:"):
        pruner_spark.read(table.spark, table.path)
