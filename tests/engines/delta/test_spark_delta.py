"""Delta tables in Spark: what is scanned, and what is left to Delta itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

import pruner
import pruner_duckdb
import pruner_spark
from pruner.errors import TableError
from pruner.tables.footers.file_schemas import FIELD_ID
from pruner_spark.jvm import JavaSide
from tests.engines.spark.spark_tables import (
    executed_scans,
    files_scanned,
    new_scans,
    rows_of,
    unordered,
)
from tests.support.delta.writer import DeltaWriter
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kept.tables import AllTables

pytestmark = pytest.mark.spark

TARGET = "Delta itself finds the files of the target"
ROW = ("id", "concat('n', id * 7 % 80)", "id * 7 % 80", "CAST(id DIV 40 AS INT)")
"""Eight files of ten rows; in each, names and numbers span nearly the whole range."""


def _made(spark: SparkSession, path: Path, **properties: object) -> DeltaWriter:
    table = DeltaWriter(spark, path)
    table.create("id BIGINT, name STRING, number BIGINT, part INT", "PARTITIONED BY (part)", **properties)
    return table.fill(0, 80, *ROW, files=8)


def _indexed(table: DeltaWriter) -> DeltaWriter:
    pruner.open_table(table.path).create_index("names", on=["name", "number"], using="bitmap")
    return table


@pytest.fixture(scope="module")
def written(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaWriter:
    """The original that tests copy: Spark takes seconds to write the table, and its log contains no absolute path."""
    return _made(delta, tmp_path_factory.mktemp("written") / "numbers", enableDeletionVectors=True)


def _copy(table: DeltaWriter, path: Path) -> DeltaWriter:
    return DeltaWriter(table.spark, Path(shutil.copytree(table.path, path)))


@pytest.fixture
def table(written: DeltaWriter, tmp_path: Path) -> DeltaWriter:
    return _indexed(_copy(written, tmp_path / "numbers"))


@dataclass(frozen=True)
class Reading:
    """Rows of a pruned DataFrame, and its scans."""

    rows: list[tuple[Any, ...]]
    scans: list[pruner_spark.Scan]
    read: list[int]


def _read(frame: DataFrame) -> Reading:
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    rows = unordered(rows_of(frame))
    return Reading(rows, new_scans(spark, before), files_scanned(frame))


def _same(pruned: DataFrame, plain: DataFrame) -> Reading:
    """What a pruned DataFrame reads, which must be what Delta reads by itself."""
    found = _read(pruned)
    assert found.rows == unordered(rows_of(plain))
    assert all(scan.reason is None and scan.plan is not None for scan in found.scans), found.scans
    return found


WAYS: dict[str, Callable[[DeltaWriter], DataFrame]] = {
    "read": lambda table: pruner_spark.read(table.spark, table.path),
    "prune": lambda table: pruner_spark.prune(table.spark.read.format("delta").load(str(table.path))),
    "sql": lambda table: pruner_spark.sql(table.spark, f"SELECT * FROM {table.name}"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_read_where_delta_s_statistics_leave_all(table: DeltaWriter, way: str) -> None:
    plain = table.spark.read.format("delta").load(str(table.path)).where("number = 33")
    assert len(rows_of(plain)) == 1
    assert files_scanned(plain) == [8]
    found = _same(WAYS[way](table).where("number = 33"), plain)
    assert found.read == [1]
    (scan,) = found.scans
    assert (scan.kept, scan.total, scan.files_listed, scan.files_unknown, scan.files_dropped) == (
        1,
        8,
        8,
        0,
        7,
    )


def test_a_scan_that_asks_for_more_than_was_prepared_gets_more(table: DeltaWriter) -> None:
    """Delta prepares files for given filters; a scan with fewer filters needs other files."""
    frame = WAYS["read"](table).where("id > 70")
    assert len(rows_of(frame)) == 9
    assert files_scanned(frame) == [1]
    (scan,) = executed_scans(frame, "FileSourceScanExec")
    nothing, index = scan.partitionFilters(), scan.relation().location()
    assert nothing.isEmpty()
    folders = index.listFiles(nothing, nothing)
    assert sum(folders.apply(place).files().size() for place in range(folders.size())) == 8


def test_names_of_the_catalog_and_of_views(table: DeltaWriter) -> None:
    spark = table.spark
    spark.sql(f"CREATE TABLE by_name USING delta LOCATION '{table.path}'")
    try:
        found = _same(
            pruner_spark.sql(spark, "SELECT id FROM by_name WHERE name = 'n33'"),
            spark.sql("SELECT id FROM by_name WHERE name = 'n33'"),
        )
        assert found.read == [1]
        pruner_spark.register(spark, "registered", table.path)
        spark.sql("CREATE OR REPLACE TEMP VIEW halves AS SELECT id % 2 AS half, name FROM registered")
        assert _read(spark.sql("SELECT half FROM halves WHERE name = 'n7'")).read == [1]
        spark.sql("CREATE OR REPLACE TEMP VIEW plain_view AS SELECT * FROM by_name WHERE part = 1")
        assert _read(pruner_spark.sql(spark, "SELECT id FROM plain_view WHERE name = 'n7'")).read in (
            [0],
            [1],
        )
    finally:
        spark.sql("DROP TABLE by_name")


def test_joins_and_subqueries(table: DeltaWriter) -> None:
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


def test_rows_that_vectors_delete_stay_deleted(table: DeltaWriter) -> None:
    """The record of a file covers more rows than it has left: the file is kept, and yields none of the deleted ones."""
    table.sql("DELETE FROM {t} WHERE number IN (33, 34)")
    assert any(file.name.startswith("deletion_vector") for file in table.path.iterdir())
    plain = table.spark.read.format("delta").load(str(table.path))
    for condition, read in (("number = 33", 1), ("number IN (33, 35)", 2), ("number > 1000", 0)):
        found = _same(pruner_spark.read(table.spark, table.path).where(condition), plain.where(condition))
        assert sum(found.read) == read


def test_a_scan_is_planned_as_of_the_version_that_it_reads(table: DeltaWriter) -> None:
    """Delta prepares a scan for one version, and the plan is for the same one, whatever was committed since."""
    spark = table.spark
    frame = pruner_spark.read(spark, table.path).where("number = 33")
    java_frame: Any = frame._jdf
    java_frame.queryExecution().optimizedPlan()  # from here on it reads the first version
    expected = unordered(rows_of(spark.read.format("delta").load(str(table.path)).where("number = 33")))
    table.sql("DELETE FROM {t} WHERE number = 33", "OPTIMIZE {t}")
    found = _read(frame)
    assert found.rows == expected
    assert found.read == [1]
    (scan,) = found.scans
    assert (scan.reason, scan.kept, scan.total, scan.files_unknown) == (None, 1, 8, 0)
    (made,) = spark.sql(f"DESCRIBE HISTORY {table.name}").where("version = 1").select("timestamp").collect()
    for as_of in ("1", f"{made[0].isoformat()}Z"):
        past = pruner_spark.read(spark, table.path, as_of=as_of).where("number = 33")
        assert _read(past).rows == expected
    past = pruner_spark.sql(spark, f"SELECT * FROM {table.name} VERSION AS OF 1 WHERE number = 33")
    assert _read(past).read == [1]
    assert _read(pruner_spark.read(spark, table.path).where("number = 33")).rows == []


def test_a_table_that_was_made_anew_is_not_pruned_by_the_other_s_files(
    table: DeltaWriter, tmp_path: Path
) -> None:
    spark = table.spark
    frame = pruner_spark.read(spark, table.path).where("number = 33")
    java_frame: Any = frame._jdf
    java_frame.queryExecution().optimizedPlan()
    other = _made(spark, tmp_path / "other")
    log, aside = table.path / "_delta_log", tmp_path / "aside"
    log.rename(aside)
    (other.path / "_delta_log").rename(log)
    found = _read(frame)
    assert len(found.rows) == 1
    assert [scan.reason for scan in found.scans] == [
        "planning failed: Spark scans a table that lay here before, which is not the one that lies here now"
    ]


def test_renamed_and_exchanged_columns(delta: SparkSession, tmp_path: Path) -> None:
    """Files and statistics use the log's physical names; a name can later belong to another column."""
    table = _indexed(_made(delta, tmp_path / "mapped", columnMapping_mode="name"))
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN number TO former",
        "ALTER TABLE {t} RENAME COLUMN id TO number",
        "ALTER TABLE {t} RENAME COLUMN former TO id",
        "ALTER TABLE {t} DROP COLUMN name",
        "ALTER TABLE {t} ADD COLUMN name STRING",
    )
    plain = delta.read.format("delta").load(str(table.path))
    for condition, most in (("id = 33", 8), ("number = 33", 1), ("name = 'n33'", 8), ("name IS NULL", 8)):
        found = _same(pruner_spark.read(delta, table.path).where(condition), plain.where(condition))
        assert sum(found.read) <= most, condition
    past = pruner_spark.read(delta, table.path, as_of="1").where("name = 'n33'")
    assert len(_read(past).rows) == 1


def test_delta_s_own_answers_and_dynamic_pruning_stay(delta: SparkSession, tmp_path: Path) -> None:
    table = _indexed(_made(delta, tmp_path / "numbers", enableDeletionVectors=False))
    counted = pruner_spark.sql(delta, f"SELECT count(*), max(id) FROM {table.name}")
    assert _read(counted) == Reading([(80, 79)], [], [])
    delta.createDataFrame([(1, "x")], "part INT, label STRING").createOrReplaceTempView("labels")
    query = (
        f"SELECT /*+ BROADCAST(l) */ t.id FROM {table.name} t JOIN labels l ON t.part = l.part "
        "WHERE l.label = 'x' AND t.number < 60"
    )
    found = _same(pruner_spark.sql(delta, query), delta.sql(query))
    assert found.read == [4]
    (scan,) = found.scans
    last = pruner_spark.last_plans(delta)[-1]
    assert (scan.kept, last.files_left, last.files_read) == (8, 8, 4)


def test_statements_that_change_rows(written: DeltaWriter, tmp_path: Path) -> None:
    """Their sources are pruned; Delta itself finds the files of the target to change, and the scan says so."""
    delta, pruned = written.spark, _indexed(_copy(written, tmp_path / "pruned"))
    plain = _copy(written, tmp_path / "plain")
    source = _indexed(_made(delta, tmp_path / "source"))
    before = pruner_spark.last_plans(delta)
    for statement in (
        "DELETE FROM {t} WHERE name = 'n33'",
        "UPDATE {t} SET name = 'changed' WHERE number IN (1, 40)",
        "MERGE INTO {t} t USING (SELECT * FROM {s} WHERE name IN ('n7', 'n9')) s ON t.number = s.number + 1 "
        "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT *",
        "INSERT INTO {t} SELECT id + 1000, name, number, part FROM {s} WHERE name = 'n7'",
    ):
        delta.sql(statement.format(t=plain.name, s=source.name))
        pruner_spark.sql(delta, statement.format(t=pruned.name, s=source.name))
    rows = [unordered(rows_of(delta.read.format("delta").load(str(each.path)))) for each in (pruned, plain)]
    assert rows[0] == rows[1]
    scans = new_scans(delta, before)
    targets = [scan for scan in scans if scan.table == str(pruned.path)]
    assert len(targets) == 3
    assert all(scan.plan is None and (scan.reason or "").startswith(TARGET) for scan in targets)
    sources = [scan for scan in scans if scan.table == str(source.path)]
    assert sources
    assert {(scan.reason, scan.kept) for scan in sources} == {(None, 2), (None, 1)}


def test_create_table_as_select(table: DeltaWriter, tmp_path: Path) -> None:
    spark, target = table.spark, tmp_path / "target"
    before = pruner_spark.last_plans(spark)
    pruner_spark.sql(
        spark, f"CREATE TABLE delta.`{target}` USING delta AS SELECT * FROM {table.name} WHERE number = 33"
    )
    assert len(rows_of(spark.read.format("delta").load(str(target)))) == 1
    assert {scan.kept for scan in new_scans(spark, before)} == {1}


def test_a_shallow_clone_reads_files_of_the_other_table(table: DeltaWriter, tmp_path: Path) -> None:
    clone = DeltaWriter(table.spark, tmp_path / "clone")
    clone.sql("CREATE TABLE {t} SHALLOW CLONE {source}", source=table.name)
    clone.sql("DELETE FROM {t} WHERE number = 34").fill(80, 82, *ROW)
    _indexed(clone)
    plain = table.spark.read.format("delta").load(str(clone.path))
    for condition, read in (("number = 33", 1), ("number IN (34, 35)", 2), ("id = 81", 1)):
        found = _same(pruner_spark.read(table.spark, clone.path).where(condition), plain.where(condition))
        assert sum(found.read) <= read, condition


def test_no_pruning_while_delta_s_skipping_is_off(table: DeltaWriter) -> None:
    """Delta prepares no scan then, so there is none to prune."""
    with settings(table.spark, {"spark.databricks.delta.stats.skipping": "false"}):
        before = pruner_spark.last_plans(table.spark)
        pruner_spark.read(table.spark, table.path)
        (scan,) = new_scans(table.spark, before)
    assert scan.reason == (
        "spark.databricks.delta.stats.skipping is off, and Delta prepares no scan that could be pruned: set it to true"
    )


def test_feeds_of_changes_are_read_as_they_are(delta: SparkSession, tmp_path: Path) -> None:
    table = _indexed(_made(delta, tmp_path / "fed", enableChangeDataFeed=True))
    table.sql("UPDATE {t} SET name = 'x' WHERE number = 33")
    reader = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "1")
    frame = reader.load(str(table.path)).where("number = 33")
    assert _read(pruner_spark.prune(frame)).rows == unordered(rows_of(frame))


def test_without_delta_it_is_said_what_to_add(table: DeltaWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JavaSide, "has_class", lambda *_: False)
    with pytest.raises(TableError, match="is a delta table, .* no classes for: add io.delta:delta-spark"):
        pruner_spark.read(table.spark, table.path)


@pytest.mark.parametrize("name", ["clustered", "vectors", "mapped_by_name", "widened", "cloned"])
def test_kept_tables_by_their_statistics(delta: SparkSession, delta_tables: AllTables, name: str) -> None:
    """As many files are left out as by Delta itself: its listing is the same with and without pruner."""
    root = delta_tables.path(name)
    plain = delta.read.format("delta").load(str(root))
    column = plain.columns[0]
    values = [row[0] for row in plain.select(column).distinct().limit(3).collect()]
    for value in values:
        condition = f"{column} = {value!r}" if isinstance(value, int) else f"{column} IS NOT NULL"
        found = _same(pruner_spark.read(delta, root).where(condition), plain.where(condition))
        for scan in found.scans:
            assert scan.kept is not None
            assert scan.files_listed is None or scan.kept <= scan.files_listed


REARRANGED = (
    "DELETE FROM {t} WHERE id IN (3, 44)",
    "MERGE INTO {t} t USING (SELECT 7 AS number, 'merged' AS name) s ON t.number = s.number "
    "WHEN MATCHED THEN UPDATE SET name = s.name",
    "OPTIMIZE {t} ZORDER BY (number)",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
)


def test_indexes_follow_a_table_that_is_rearranged(written: DeltaWriter, tmp_path: Path) -> None:
    """Spark builds the indexes; they are queried after each statement, before and after a refresh by Spark."""
    delta, table = written.spark, _copy(written, tmp_path / "numbers")
    ours = pruner.open_table(table.path)
    ours.create_index("names", on=["name", "number"], using="bitmap", run=delta)
    for statement in REARRANGED:
        table.sql(statement)
        _check_conditions(table)
        ours.refresh(run=delta)
        assert ours.verify() == [], statement
        # A file whose matching row a vector deletes still holds it, according to its record.
        doubtful = int(ours.snapshot().data.has_deletes.sum())
        for condition, files in _check_conditions(table).items():
            assert files <= ours.plan(condition).kept <= files + doubtful, (statement, condition)


def _check_conditions(table: DeltaWriter) -> dict[str, int]:
    """Check that DuckDB finds the rows that Delta does; return how many files hold some."""
    plain = table.spark.read.format("delta").load(str(table.path))
    rows = plain.selectExpr("*", "_metadata.file_path AS file").collect()
    files: dict[str, int] = {}
    for condition, is_true in (
        ("number = 7", lambda row: row.number == 7),
        ("name IN ('merged', 'n35')", lambda row: row.name in ("merged", "n35")),
    ):
        wanted = [row for row in rows if is_true(row)]
        with pruner_duckdb.connect({"t": str(table.path)}) as con:
            found = con.sql(f"SELECT id, name, number, part FROM t WHERE {condition}").fetchall()
        assert sorted(found, key=repr) == sorted((tuple(row)[:4] for row in wanted), key=repr), condition
        files[condition] = len({row.file for row in wanted})
    return files


Contradict = Callable[[pa.Schema], pa.Schema]


def _with_ids(change: Callable[[dict[str, int]], dict[str, int | None]]) -> Contradict:
    """Give the columns of a file other field ids; `change` gets the current ones."""

    def changed(schema: pa.Schema) -> pa.Schema:
        ids = change({field.name: int((field.metadata or {})[FIELD_ID]) for field in schema})
        fields = [
            field.with_metadata({} if ids[field.name] is None else {FIELD_ID: str(ids[field.name])})
            for field in schema
        ]
        return pa.schema(fields)

    return changed


def _renamed(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_name(f"x{at}") for at, field in enumerate(schema)])


def _swapped(ids: dict[str, int]) -> dict[str, int | None]:
    first, second, *others = ids
    return {first: ids[second], second: ids[first], **{name: ids[name] for name in others}}


def _other_inside(schema: pa.Schema) -> pa.Schema:
    at = len(schema) - 1
    inner: Any = schema.field(at).type
    fields = [field.with_metadata({FIELD_ID: str(90 + number)}) for number, field in enumerate(inner)]
    return schema.set(at, schema.field(at).with_type(pa.struct(fields)))


CONTRADICTIONS: dict[str, Contradict] = {
    "swapped ids": _with_ids(_swapped),
    "other ids": _with_ids(lambda ids: {name: 90 + id_ for name, id_ in ids.items()}),
    "no ids": _with_ids(dict.fromkeys),
    "one without an id": _with_ids(lambda ids: {**ids, next(iter(ids)): None}),
    "other names": _renamed,
    "other ids inside": _other_inside,
}


def _read_plainly(table: DeltaWriter) -> list[tuple[Any, ...]] | None:
    """What Spark reads, or None where it refuses."""
    table.forget()
    with settings(table.spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        try:
            return unordered(rows_of(table.spark.sql(f"SELECT * FROM {table.name}")))
        except Py4JJavaError as error:
            if "Parquet file schema doesn't contain any field Ids" not in str(error):
                raise
            return None


def test_field_ids_that_contradict_the_names_are_refused_in_duckdb(
    delta: SparkSession, tmp_path: Path
) -> None:
    """Spark uses the ids in the files, or refuses them; DuckDB and the indexes match columns by name."""
    table = DeltaWriter(delta, tmp_path / "t").create(
        "id BIGINT, number BIGINT, s STRUCT<a: INT, b: INT>", columnMapping_mode="id"
    )
    table.fill(0, 5, "id", "id * 10", "named_struct('a', CAST(id AS INT), 'b', 7)")
    rows = _read_plainly(table)
    (file,) = table.path.rglob("*.parquet")
    written: Any = pq.read_table(file)

    def found(statement: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
        with pruner_duckdb.connect({"t": str(table.path)}) as con:
            return unordered(con.execute(statement).fetchall())

    def replaced(change: Contradict) -> None:
        pq.write_table(pa.Table.from_arrays(written.columns, schema=change(written.schema)), file)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def as_duckdb(rows: list[tuple[Any, ...]] | None) -> list[tuple[Any, ...]]:
        assert rows is not None
        return unordered([(id_, number, {"a": s[0], "b": s[1]}) for id_, number, s in rows])

    replaced(lambda schema: schema)
    assert found() == as_duckdb(rows) == as_duckdb(_read_plainly(table))
    for name, change in CONTRADICTIONS.items():
        replaced(change)
        by_names = [(None, None, None)] * 5 if name == "other names" else rows
        assert _read_plainly(table) != by_names, name  # otherwise a reader by names would be right
        with pytest.raises(TableError, match="by its field ids than by its names") as caught:
            found()
        assert str(file) in str(caught.value), name
    replaced(CONTRADICTIONS["other ids inside"])
    assert found("SELECT id, number FROM t") == unordered([row[:2] for row in rows or ()])
