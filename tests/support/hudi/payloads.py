"""Merge-on-read tables of the payloads that Hudi brings beside its two usual ones, which other fixtures have.

All are written alike: base files, then log files with updates of every column, updates of some columns (the others
NULL, or Debezium's mark of a value that was not sent), one that comes too late, a deleted row, and a row deleted by
the payload's own mark. What comes of that is for Spark to say; see `tests/soundness/hudi/test_hudi_merging.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import CITIES, HudiWriter, TableVersion, rows_of
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSIONS: tuple[TableVersion, ...] = (8, 9)
"""Payloads that combine rows are never covered in version 6, see `mor_partial_update_v6`."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium sends for a long value of PostgreSQL that did not change."""


Written = tuple[int, int | None, float | None, str | None, int]
"""A row before the payload's own columns: id, seats, fare, note, ts."""

Made = Callable[[int, bool], Any]


@dataclass(frozen=True)
class Payload:
    """A payload class, its ordering column, and the columns that it wants beside those of every table.

    `extra` gives each column's type and its value in a row, from the row's moment and whether the row is deleted.
    """

    name: str
    ordering: str = "ts"
    extra: Mapping[str, tuple[str, Made]] = field(default_factory=dict[str, tuple[str, Made]])
    package: str = "org.apache.hudi.common.model"
    ordering_from_9: str = ""
    """What version 9 orders by where that is something else."""

    @property
    def schema(self) -> str:
        """Columns and types as Spark writes them."""
        extra = [f"{column} {kind}" for column, (kind, _) in self.extra.items()]
        return ", ".join(["id INT, city STRING, seats INT, fare DOUBLE, note STRING, ts BIGINT", *extra])

    def row(self, written: Written) -> tuple[Any, ...]:
        """A row of the table; rows with the note `deleted` bear the payload's mark of a deleted row."""
        number, seats, fare, note, ts = written
        extra = [value(ts, note == "deleted") for _, value in self.extra.values()]
        return (number, CITIES[number % len(CITIES)], seats, fare, note, ts, *extra)


_OPERATION: tuple[str, Made] = ("STRING", lambda _, deleted: "d" if deleted else "u")
_DEBEZIUM = "org.apache.hudi.common.model.debezium"

PAYLOADS = {
    "overwrite_non_defaults": Payload("OverwriteNonDefaultsWithLatestAvroPayload"),
    "partial_update": Payload("PartialUpdateAvroPayload"),
    "event_time": Payload("EventTimeAvroPayload"),
    "aws_dms": Payload(
        "AWSDmsAvroPayload", extra={"Op": ("STRING", lambda _, deleted: "D" if deleted else "U")}
    ),
    "mysql_debezium": Payload(
        "MySqlDebeziumAvroPayload",
        "_event_seq",
        {
            "_change_operation_type": _OPERATION,
            "_event_bin_file": ("STRING", lambda ts, _: f"mysql-bin.{ts:06}"),
            "_event_pos": ("BIGINT", lambda ts, _: 100 + ts),
            "_event_seq": ("STRING", lambda ts, _: f"{ts:06}.{100 + ts}"),
        },
        _DEBEZIUM,
        "_event_bin_file,_event_pos",
    ),
    "postgres_debezium": Payload(
        "PostgresDebeziumAvroPayload",
        "_event_lsn",
        {"_change_operation_type": _OPERATION, "_event_lsn": ("BIGINT", lambda ts, _: ts)},
        _DEBEZIUM,
    ),
}
"""`FirstValueAvroPayload` is not among them: Hudi 1.2 for Spark does not bring it, so it is like any unknown class."""


INSERTED: tuple[Written, ...] = tuple((i, i, 10.0 * i, f"first {i}", 5) for i in range(12))
UPSERTED: tuple[tuple[Written, ...], ...] = (
    (
        (0, 100, 1000.0, "whole", 6),
        (1, 101, None, None, 6),
        (3, None, 2000.0, UNAVAILABLE, 6),
        (4, 200, 4000.0, "too late", 2),
        (6, 60, 60.0, "deleted", 8),
    ),
    ((0, None, 3000.0, None, 7), (1, None, 5000.0, UNAVAILABLE, 8), (9, 300, None, "alike", 5)),
)
"""What goes to log files: the group of rows 2, 5, 8 and 11 has none. A delete of row 7 stands between the two."""


def mor_payload(spark: SparkSession, path: Path, *, version: TableVersion, payload: Payload) -> None:
    """One table of one payload: three file groups of four rows, two of them with log files."""
    chosen = {"hoodie.datasource.write.payload.class": f"{payload.package}.{payload.name}"}
    ordering = payload.ordering_from_9 if version == 9 and payload.ordering_from_9 else payload.ordering
    writer = HudiWriter(spark, path, version, "MERGE_ON_READ", ordering=ordering, options=chosen)

    def rows(*written: Written) -> DataFrame:
        return rows_of(spark, [payload.row(row) for row in written], payload.schema)

    first, last = UPSERTED
    writer.insert(rows(*INSERTED))
    writer.upsert(rows(*first))
    writer.delete(rows((7, 7, 70.0, "first 7", 9)))
    writer.upsert(rows(*last))


BUILDERS: dict[str, Builder] = {
    f"mor_{name}_payload_v{version}": partial(mor_payload, version=version, payload=payload)
    for name, payload in PAYLOADS.items()
    for version in ((6, *VERSIONS) if name == "event_time" else VERSIONS)
}


def payload_tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """The tables of this module, built once per machine; read-only."""
    return kept_hudi_tables("hudi-payloads", start_spark, BUILDERS, __file__)
