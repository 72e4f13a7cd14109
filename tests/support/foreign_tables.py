"""Tables that are not read as plain files, as their writers lay them out: two files, of which one is superseded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ForeignTable(NamedTuple):
    """A layout: where its two data files lie, and the other files with their content."""

    what: str
    name: str
    data: tuple[str, str]
    beside: Mapping[str, str]
    is_read: bool = False  # by its own root; these here have no schema

    @property
    def folders(self) -> list[str]:
        """The folders of the first data file below the root, the highest first."""
        parts = self.data[0].split("/")[:-1]
        return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


_COMMIT = '{"commitInfo":{"operation":"WRITE"}}\n{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'

FOREIGN_TABLES = {
    "delta": ForeignTable(
        "a Delta table",
        "the Delta table",
        (
            "k=1/part-00000-2c3a.c000.snappy.parquet",
            "k=1/part-00000-9f1b.c000.snappy.parquet",
        ),
        {
            "_delta_log/00000000000000000000.json": _COMMIT,
            "_delta_log/00000000000000000001.json": _COMMIT,
        },
        is_read=True,
    ),
    "delta_random_prefix": ForeignTable(
        "a Delta table",
        "the Delta table",
        ("aB/part-00000-2c3a.c000.snappy.parquet", "x9/part-00000-9f1b.c000.snappy.parquet"),
        {"_delta_log/00000000000000000010.checkpoint.parquet": "PAR1", "_delta_log/_last_checkpoint": "{}"},
        is_read=True,
    ),
    "iceberg": ForeignTable(
        "an Iceberg table",
        "the Iceberg table",
        ("data/k=1/00000-0-2c3a-00001.parquet", "data/k=1/00000-1-9f1b-00001.parquet"),
        {
            "metadata/00000-5e1f.metadata.json": "{}",
            "metadata/00001-77aa.metadata.json": "{}",
            "metadata/2c3a-m0.avro": "Obj",
            "metadata/snap-81-1-2c3a.avro": "Obj",
        },
        is_read=True,
    ),
    "iceberg_of_folders": ForeignTable(
        "an Iceberg table",
        "the Iceberg table",
        ("data/00000-0-2c3a-00001.parquet", "data/00000-1-9f1b-00001.parquet"),
        {"metadata/v1.gz.metadata.json": "{}", "metadata/version-hint.text": "1"},
        is_read=True,
    ),
    "iceberg_migrated": ForeignTable(
        "an Iceberg table",
        "the Iceberg table",
        ("k=1/000000_0", "k=1/000001_0"),
        {"metadata/00000-5e1f.metadata.json": "{}"},
        is_read=True,
    ),
    "paimon": ForeignTable(
        "a Paimon table",
        "the Paimon table",
        ("k=1/bucket-0/data-2c3a-0.parquet", "k=1/bucket-0/data-9f1b-0.parquet"),
        {
            "schema/schema-0": "{}",
            "snapshot/snapshot-2": "{}",
            "snapshot/LATEST": "2",
            "manifest/manifest-2c3a-0": "Obj",
        },
    ),
    "stream": ForeignTable(
        "the output of a Spark streaming query",
        "the output of a Spark streaming query,",
        ("k=1/part-00000-2c3a.c000.snappy.parquet", "k=1/part-00000-9f1b.c000.snappy.parquet"),
        {"_spark_metadata/0": 'v1\n{"path":"file:///t/k=1/part-00000-2c3a.c000.snappy.parquet"}'},
    ),
}
