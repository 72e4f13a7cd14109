"""MERGE on Spark reads the file groups that hold a key of its source, and does what a plain MERGE does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from pruner_spark import key_lists
from pruner_spark import statements as merging
from tests.engines.spark.spark_tables import new_scans, rows_of, unordered
from tests.support.hudi.writer import HudiWriter, trips
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.hudi.writer import TableType

pytestmark = pytest.mark.spark

COLUMNS = ("id", "city", "seats", "fare", "ts")
GROUPS, EACH = 6, 10
VALUES = (
    "(SELECT id, 'berlin' AS city, 8 AS seats, CAST(id AS DOUBLE) AS fare, 9L AS ts "
    "FROM VALUES (3), (14), (900), (CAST(NULL AS INT)) AS v (id))"
)
MERGES = (
    "MERGE INTO {table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seats = s.seats, fare = s.fare "
    "WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {table} t USING {source} s ON t.ts < s.ts AND s.id = t.id "
    "WHEN MATCHED AND s.id = 14 THEN DELETE WHEN MATCHED THEN UPDATE SET seats = -1",
)


def _write(spark: SparkSession, path: Path, kind: TableType) -> Path:
    """A Hudi table without a record key, of some file groups."""
    options = HudiWriter(spark, path, 9, kind, partition_by="").all_options("bulk_insert")
    for name in ("recordkey", "precombine"):
        del options[f"hoodie.datasource.write.{name}.field"]
    rows = trips(spark, range(GROUPS * EACH)).repartitionByRange(GROUPS, "id")
    unsorted = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.bulkinsert.shuffle.parallelism": str(GROUPS)}
    rows.write.format("hudi").options(**{**options, **unsorted}).mode("append").save(str(path))
    return path


def _merged(spark: SparkSession, path: Path, run: Any, statements: list[str]) -> list[tuple[Any, ...]]:
    spark.sql(f"CREATE TABLE merged_t USING hudi LOCATION '{path.as_uri()}'")
    try:
        for statement in statements:
            run(statement.format(table="merged_t", source=VALUES))
    finally:
        spark.sql("DROP TABLE merged_t")
    return unordered(rows_of(spark_snapshot(spark, path).select(*COLUMNS)))


def _groups_with_keys(spark: SparkSession, path: Path) -> int:
    """Count the file groups with a key of the source. Hudi puts an inserted key into a group of its choice."""
    rows = spark_snapshot(spark, path).where("id IN (3, 14, 900)")
    return len({name.split("_")[0] for (name,) in rows.select("_hoodie_file_name").collect()})


@pytest.mark.parametrize(("kind", "statements"), [("COPY_ON_WRITE", 2), ("MERGE_ON_READ", 1)])
def test_merge_into_reads_the_groups_with_keys_of_its_source(
    spark: SparkSession, tmp_path: Path, kind: TableType, statements: int
) -> None:
    path = _write(spark, tmp_path / "t", kind)
    plain = Path(shutil.copytree(path, tmp_path / "plain" / "t"))
    expected = _merged(spark, plain, spark.sql, list(MERGES[:statements]))
    table = pruner.open_table(path)
    assert len(table.snapshot().slices) == GROUPS
    table.create_index("keys", on="id", using="record_index")
    kept: list[int | None] = []
    holding: list[int] = []

    def run(statement: str) -> None:
        holding.append(_groups_with_keys(spark, path))
        before = pruner_spark.last_plans(spark)
        pruner_spark.sql(spark, statement)
        scans = new_scans(spark, before)
        assert {scan.reason for scan in scans} == {None}
        kept.append(max(scan.kept or 0 for scan in scans))
        table.refresh()

    assert _merged(spark, path, run, list(MERGES[:statements])) == expected
    assert kept == holding
    assert holding[0] == 2
    assert max(holding) < GROUPS
    assert {row[0] for row in expected} >= {900, None}
    assert {row[2] for row in expected if row[0] == 3} == {8 if statements == 1 else -1}


def test_merge_into_says_why_it_reads_its_target_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(spark, tmp_path / "t", "COPY_ON_WRITE")
    pruner.open_table(path).create_index("keys", on="id", using="record_index")
    reasons: list[str | None] = []

    def run(statement: str) -> None:
        before = pruner_spark.last_plans(spark)
        pruner_spark.sql(spark, statement)
        reasons.extend(scan.reason for scan in new_scans(spark, before) if scan.plan is None)
        monkeypatch.setattr(merging, "MOST_SOURCE_BYTES", 0)

    merge = "MERGE INTO {{table}} t USING {{source}} s ON t.id {} s.id WHEN MATCHED THEN UPDATE SET seats = 7"
    _merged(spark, path, run, [merge.format("<"), merge.format("=")])
    assert [str(reason).removeprefix("MERGE INTO reads its target whole: ") for reason in reasons] == [
        "its condition compares no column of it with one of the source",
        "its source may be larger than 10 MiB",
    ]


@pytest.fixture(scope="module")
def flat(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of Parquet files with a record index."""
    root = tmp_path_factory.mktemp("merging") / "t"
    for number in range(GROUPS):
        _rows(spark, range(number, 100 * GROUPS, GROUPS)).write.mode("append").parquet(str(root))
    pruner.open_table(root).create_index("keys", on=["id", "name"], using="record_index")
    return root


def _rows(spark: SparkSession, ids: range) -> DataFrame:
    rows = [(each, f"k{each}", float(each)) for each in ids]
    return spark.createDataFrame(rows, "id BIGINT, name STRING, amount DOUBLE").coalesce(1)


def _files(frame: DataFrame) -> list[str]:
    return [row.file_path for row in frame.select("_metadata.file_path").distinct().collect()]


@pytest.mark.parametrize("most", [key_lists.MOST_LISTED, 1], ids=["listed", "range"])
def test_rows_with_keys_are_there(
    spark: SparkSession, flat: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(key_lists, "MOST_LISTED", most)
    keys = spark.createDataFrame([(7, "k7"), (13, "k13"), (None, "k1"), (9_999, "k9")], "id INT, name STRING")
    found = pruner_spark.read_with_keys(spark, flat, keys)
    whole = spark.read.parquet(str(flat))
    wanted = unordered(rows_of(whole.join(keys, ["id", "name"])))
    assert len(wanted) == 2
    assert unordered(rows_of(found.join(keys, ["id", "name"]))) == wanted
    assert len(_files(found)) == (1 if most > 1 else GROUPS), "7 and 13 are in one file"
    assert rows_of(found.where("id = 600")) == []
    assert rows_of(found.where("id = 19").select("name")) == [("k19",)], "another row of a file with keys"
    nothing = pruner_spark.read_with_keys(spark, flat, keys.where("id IS NULL"))
    assert rows_of(nothing) == []


def test_what_keys_leave_out_is_left_out_nowhere_else(spark: SparkSession, flat: Path) -> None:
    """Spark takes scans of one path for one scan: it would reuse an exchange, or cached rows."""
    keys = spark.createDataFrame([(7,)], "id BIGINT")
    some, whole = pruner_spark.read_with_keys(spark, flat, keys), pruner_spark.read(spark, flat)
    other = pruner_spark.read_with_keys(spark, flat, spark.createDataFrame([(8,)], "id BIGINT"))
    both = [(frame.repartition(2, "id").groupBy("id").count()) for frame in (some, whole, other)]
    counted = both[0].unionAll(both[1]).unionAll(both[2]).count()
    assert counted == 100 + 100 * GROUPS + 100
    some.cache()
    try:
        assert some.count() == 100
        assert spark.read.parquet(str(flat)).count() == 100 * GROUPS
        assert pruner_spark.read(spark, flat).count() == 100 * GROUPS
        assert other.where("id = 8").count() == 1
    finally:
        some.unpersist()


def test_keys_of_other_columns_and_types_are_refused(spark: SparkSession, flat: Path) -> None:
    for keys, message in (
        ("CAST(1 AS STRING) AS id", "'id' is of type string, in the table of bigint: cast it"),
        ("1 AS nothing", "the table has no column 'nothing'"),
        ("1D AS amount", "'amount' of type double cannot be a key"),
    ):
        with pytest.raises(pruner.SchemaError, match=message):
            pruner_spark.read_with_keys(spark, flat, spark.sql(f"SELECT {keys}"))


def test_the_recipe_for_files(spark: SparkSession, tmp_path: Path) -> None:
    """docs/record_index.md: files with a key of the source are replaced, all others stay."""
    from pyspark.sql import functions

    root = tmp_path / "t"
    for number in range(GROUPS):
        _rows(spark, range(number, 100 * GROUPS, GROUPS)).write.mode("append").parquet(str(root))
    table = pruner.open_table(root)
    table.create_index("keys", on="id", using="record_index")
    whole = {row.id: row.amount for row in spark.read.parquet(str(root)).collect()}
    before = {path.name for path in root.glob("*.parquet")}
    rows = [(7, "", -1.0), (13, "", -2.0), (20, "", -3.0), (9_000, "k9000", -4.0)]
    source = spark.createDataFrame(rows, "id LONG, name STRING, changed DOUBLE")

    def put(rows: DataFrame, file: Path) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "beside"))
        (written,) = (tmp_path / "beside").glob("*.parquet")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        written.replace(file)

    found = pruner_spark.read_with_keys(spark, root, source.select("id"))
    old = _files(found)
    new = source.join(found, "id", "left_anti").selectExpr("id", "name", "changed AS amount")
    amount = functions.coalesce("changed", "amount").alias("amount")
    new.cache().count()
    for path in old:
        target = spark.read.parquet(path).join(source.select("id", "changed"), "id", "left")
        put(target.select("id", "name", amount), Path(path.removeprefix("file:")))
    put(new, root / "new.parquet")
    new.unpersist()
    table.refresh()

    assert len(old) == 2, "7 and 13 are in one file, 20 in another"
    now = {row.id: row.amount for row in spark.read.parquet(str(root)).collect()}
    assert now == whole | {7: -1.0, 13: -2.0, 20: -3.0, 9_000: -4.0}
    assert {path.name for path in root.glob("*.parquet")} == before | {"new.parquet"}
    assert all(table.plan(f"id = {key}").kept == 1 for key in (7, 13, 20, 9_000))
