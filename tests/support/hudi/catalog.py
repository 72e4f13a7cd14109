"""What the fixture tables are: one builder for each state of a Hudi table that a reader must get right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.support.hudi.timeline import complete_last, completed, make_inflight
from tests.support.hudi.writer import (
    CITIES,
    CLEAN,
    CLUSTER,
    COMPACT,
    SCHEDULE_CLUSTERING,
    SCHEDULE_COMPACTION,
    HudiWriter,
    TableVersion,
    rows_of,
    trips,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS: tuple[TableVersion, ...] = (6, 8, 9)
BUILDERS: dict[str, Callable[[SparkSession, Path], None]] = {}


class VersionedBuilder(Protocol):
    """A builder that works for several table versions."""

    def __call__(self, spark: SparkSession, path: Path, *, version: TableVersion) -> None:
        """Write the table."""
        ...


def fixture_table(*versions: TableVersion) -> Callable[[VersionedBuilder], VersionedBuilder]:
    """Register a builder as `<its name>_v<version>` for each version."""

    def register(build: VersionedBuilder) -> VersionedBuilder:
        for version in versions:
            name = getattr(build, "__name__")  # noqa: B009  (a protocol's call has no name of its own)
            BUILDERS[f"{name}_v{version}"] = partial(build, version=version)
        return build

    return register


@fixture_table(*VERSIONS)
def cow(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Copy-on-write with old slices: two inserts, an upsert and a delete, with Hudi's metadata table."""
    table = HudiWriter(spark, path, version, metadata=True)
    table.insert(trips(spark, range(12)))
    table.insert(trips(spark, range(12, 24), fare=100))
    table.upsert(trips(spark, range(3), ts=2, fare=1000))
    table.delete(trips(spark, [12, 13], ts=3))


@fixture_table(*VERSIONS)
def mor(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Merge-on-read: some groups with updates and deletes in logs, some without logs."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ", metadata=True)
    table.insert(trips(spark, range(12)))
    table.insert(trips(spark, range(12, 24), fare=100))
    table.upsert(trips(spark, [0, 3], ts=2, fare=1000))
    table.delete(trips(spark, [1], ts=3))


@fixture_table(*VERSIONS)
def mor_pending_compaction(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A compaction is planned and has not run, and logs were written before and after the plan."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000), also=SCHEDULE_COMPACTION)
    table.upsert(trips(spark, [0, 2], ts=3, fare=2000))


@fixture_table(*VERSIONS)
def mor_compacted(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A compaction ran, and the newest slice has logs again."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000), also=COMPACT)
    table.upsert(trips(spark, [0], ts=3, fare=2000))


@fixture_table(*VERSIONS)
def mor_inflight(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A delta commit is running: its log is there under its final name, its instant has not completed."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000))
    table.upsert(trips(spark, [0, 2], ts=3, fare=2000))
    make_inflight(path)


@fixture_table(*VERSIONS)
def cow_inflight(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A commit is running: its new base files are there and must not be read."""
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000))
    make_inflight(path)


@fixture_table(*VERSIONS)
def cow_late_commit_before(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Of two overlapping commits the later one has completed and the earlier one is still running."""
    _two_commits(spark, path, version)
    make_inflight(path, completed(path)[1])


@fixture_table(*VERSIONS)
def cow_late_commit_after(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """The earlier commit completed last: the newest instant is the one of `before`, the table is not."""
    _two_commits(spark, path, version)
    late = completed(path)[1]
    content = late.file.read_bytes()
    make_inflight(path, late)
    complete_last(path, late, content)


def _two_commits(spark: SparkSession, path: Path, version: TableVersion) -> None:
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(6)))
    table.insert(trips(spark, range(6, 9), fare=100))
    table.insert(trips(spark, range(9, 12), fare=200))


@fixture_table(*VERSIONS)
def mor_log_only(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Slices without a base file, beside some that have one."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    # An index that finds keys in logs lets inserts go there; it lives in memory only, so no upsert follows.
    into_logs = {"hoodie.index.type": "INMEMORY"}
    table.insert(trips(spark, range(6)), also=into_logs)
    table.insert(trips(spark, range(6, 9), fare=100))


LATEST_WINS = {
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
}


@fixture_table(*VERSIONS)
def mor_commit_time(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """The last commit wins, whatever the ordering column says; a deleted row was written once more."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ", options=LATEST_WINS)
    table.insert(trips(spark, range(9), ts=5))
    table.upsert(trips(spark, [0, 1], ts=9, fare=1000))
    table.upsert(trips(spark, [0, 2], ts=1, fare=2000))
    table.delete(trips(spark, [4], ts=1))
    table.upsert(trips(spark, [4], ts=1, fare=3000))


@fixture_table(*VERSIONS)
def mor_partial_update(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """NULL in an update keeps the old value, so that rows are read that no file holds (trap T12)."""
    partial = {
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    }
    table = HudiWriter(spark, path, version, "MERGE_ON_READ", options=partial)
    schema = "id INT, city STRING, seats INT, fare DOUBLE, ts BIGINT"
    old = [(0, "berlin", 1, 1.0, 1), (1, "paris", 1, 1.0, 1), (2, "rome", None, None, 1)]
    new = [(0, "berlin", 100, None, 2), (1, "paris", None, 100.0, 2)]
    table.insert(rows_of(spark, old, schema))
    table.upsert(rows_of(spark, new, schema))


@fixture_table(8, 9)
def mor_merge_into(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """MERGE INTO writes log blocks that hold the changed columns alone."""
    HudiWriter(spark, path, version, "MERGE_ON_READ").insert(trips(spark, range(9), fare=10))
    name = path.name
    quiet = ("hoodie.write.auto.upgrade", "hoodie.clean.automatic", "hoodie.compact.inline")
    for key in quiet:
        spark.conf.set(key, "false")
    try:
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path.as_uri()}'")
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT 1 AS id, 'paris' AS city, 77 AS seats, 5L AS ts) s "
            "ON t.id = s.id AND t.city = s.city WHEN MATCHED THEN UPDATE SET t.seats = s.seats, t.ts = s.ts"
        )
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for key in quiet:
            spark.conf.unset(key)


CONCURRENT = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
"""Write options: a write that is running is left alone by the next one."""


@fixture_table(8, 9)
def mor_late_delta(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A delta commit was requested before a compaction and completed after it: its log belongs to the new slice."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ", options=CONCURRENT)
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [1], ts=2, fare=1000))
    late = completed(path)[-1]
    content = late.file.read_bytes()
    make_inflight(path, late)
    table.upsert(trips(spark, [1, 2], ts=3, fare=2000), also=COMPACT)
    complete_last(path, late, content)


@fixture_table(6, 9)
def cow_plain_partitions(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Partition folders are bare values, without `city=`."""
    HudiWriter(spark, path, version, hive_style=False).insert(trips(spark, range(9)))


@fixture_table(6, 9)
def cow_unpartitioned(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """No partitions: the partition path is empty."""
    table = HudiWriter(spark, path, version, partition_by="")
    table.insert(trips(spark, range(6)))
    table.insert(trips(spark, range(6, 12), fare=100))
    table.upsert(trips(spark, [0], ts=2, fare=1000))


@fixture_table(9)
def cow_two_partition_columns(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Partitioned by a string and an integer, in two levels of folders."""
    HudiWriter(spark, path, version, partition_by="city,seats").insert(trips(spark, range(9)))


SPECIAL_VALUES = (
    "a b",
    "50%",
    "x=y",
    "p/q",
    "1+1",
    "12:30",
    "%252F",
    "Zürich 東京",
    "$d",
    "01",
    "1e3",
    "true",
    None,
)
"""Partition values that some system has mistaken for something else."""


@fixture_table(6, 9)
def cow_special_values(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Partition values with special characters and NULL, escaped in the path."""
    escaped = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = HudiWriter(spark, path, version, options=escaped)
    table.insert(trips(spark, range(2 * len(SPECIAL_VALUES)), cities=SPECIAL_VALUES))


RAW_VALUES = ("a b", "1+1", "12-30", "Zürich", "01", "1e3", "true", None)
"""Partition values that make a folder as they are."""


@fixture_table(9)
def cow_raw_values(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Partition values with special characters and NULL, not escaped in the path."""
    HudiWriter(spark, path, version).insert(trips(spark, range(2 * len(RAW_VALUES)), cities=RAW_VALUES))


DAYS = tuple(datetime(2013, 1, day, hour, tzinfo=UTC) for day in (1, 2, 3) for hour in (0, 9, 23))


@fixture_table(6, 9)
def cow_rounded_timestamp(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """The key generator rounds a timestamp to the day: `at > x` means `partition >= day(x)`."""
    generator = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    rows = [(i, int(day.timestamp() * 1000), 1.0 * i, 1) for i, day in enumerate(DAYS)]
    table = HudiWriter(spark, path, version, partition_by="at", options=generator)
    table.insert(rows_of(spark, rows, "id INT, at BIGINT, fare DOUBLE, ts BIGINT"))


@fixture_table(*VERSIONS)
def cow_widened(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Old files hold int and float where the table says bigint and double, and lack a column."""
    evolving = {"hoodie.write.set.null.for.missing.columns": "true"}
    table = HudiWriter(spark, path, version, options=evolving)
    old = [(i, CITIES[i % 3], i, 0.1 * i, 1) for i in range(6)]
    new = [(i, CITIES[i % 3], 3_000_000_000 + i, 0.1 * i, 1, f"note {i}") for i in range(6, 12)]
    table.insert(rows_of(spark, old, "id INT, city STRING, seats INT, fare FLOAT, ts BIGINT"))
    wide = "id INT, city STRING, seats BIGINT, fare DOUBLE, ts BIGINT, note STRING"
    table.insert(rows_of(spark, new, wide))


SCHEMA_ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
"""Session settings without which Spark neither renames nor drops a column, nor reads such a table rightly."""


@fixture_table(9)
def cow_renamed(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Schema-on-read evolution: `fare` became `price`, `seats` was dropped and added again.

    Files from before still hold `fare`, and old values of `seats` that are no longer the table's.
    """
    HudiWriter(spark, path, version).insert(trips(spark, range(6)))
    name = path.name
    for key, value in SCHEMA_ON_READ.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path.as_uri()}'")
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN fare TO price")
        spark.sql(f"ALTER TABLE {name} DROP COLUMN seats")
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (seats INT)")
        spark.sql(f"INSERT INTO {name} (id, ts, price, seats, city) VALUES (6, 1, 600.0, 60, 'berlin')")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for key in SCHEMA_ON_READ:
            spark.conf.unset(key)


@fixture_table(6, 9)
def cow_clustered(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Clustering replaced all file groups; the replaced files are still there."""
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(12)))
    table.insert(trips(spark, range(12, 24), fare=100), also=CLUSTER)


@fixture_table(6, 9)
def cow_pending_clustering(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A clustering is planned and has not run."""
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(12)))
    table.insert(trips(spark, range(12, 24), fare=100), also=SCHEDULE_CLUSTERING)


@fixture_table(6, 9)
def cow_overwritten_partition(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """One partition was overwritten: its old file groups are replaced and still there."""
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(12)))
    table.overwrite_partitions(trips(spark, [0, 3, 30], ts=2, fare=1000))


@fixture_table(6, 9)
def cow_cleaned(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """The files of old slices were deleted by a cleaner."""
    table = HudiWriter(spark, path, version)
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, range(6), ts=2, fare=1000))
    table.upsert(trips(spark, range(6), ts=3, fare=2000))
    table.upsert(trips(spark, [0], ts=4, fare=3000), also=CLEAN)


@fixture_table(6, 9)
def mor_rolled_back(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A delta commit died and the next writer rolled it back."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    table.insert(trips(spark, range(6)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000))
    make_inflight(path)
    table.upsert(trips(spark, [2], ts=3, fare=2000))


@fixture_table(9)
def cow_types(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Every type that indexes know, with NULLs, NaN, signed zeros and a struct."""
    schema = (
        "id INT, city STRING, flag BOOLEAN, small SMALLINT, big BIGINT, ratio FLOAT, fare DOUBLE, "
        "price DECIMAL(10,2), code BINARY, day DATE, at TIMESTAMP, "
        "place STRUCT<name: STRING, zip: INT>, ts BIGINT"
    )
    at = datetime(2013, 3, 31, 1, 59, 59, 999_999)
    full = (
        True,
        7,
        2**53 + 1,
        0.1,
        float("nan"),
        Decimal("12.30"),
        b"\x00\xff",
        date(1969, 12, 31),
        at,
        ("a", 1),
        1,
    )
    plain = (False, -1, -5, -0.0, -0.0, Decimal("-0.05"), b"", date(2013, 1, 1), at, (None, None), 1)
    empty = (*[None] * 10, 1)
    table = HudiWriter(spark, path, version)
    for start, rows in ((0, (full, plain)), (10, (plain, plain)), (20, (empty, empty)), (30, (full, empty))):
        table.insert(rows_of(spark, [(start + i, "rome", *row) for i, row in enumerate(rows)], schema))
