"""An event lake generated from a seed, after GH Archive and New York's taxi trips, in each table format.

Rows arrive in time order, except for some late ones. Actors, repositories and zones are skewed; keys are spread over
all files; the payload is nested. All formats hold the same Parquet files, except for Hudi, which Spark writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START: Final = datetime(2024, 3, 1, tzinfo=UTC)
DAYS: Final = 30
TYPES: Final = {
    "PushEvent": 0.52,
    "CreateEvent": 0.14,
    "PullRequestEvent": 0.1,
    "WatchEvent": 0.08,
    "IssueCommentEvent": 0.06,
    "DeleteEvent": 0.05,
    "IssuesEvent": 0.025,
    "ForkEvent": 0.02,
    "ReleaseEvent": 0.005,
}
ZONES: Final = 263
LATE: Final = 0.01
"""The share of rows that arrive late, by six hours on average."""

_ACTORS: Final = 200_000
_WORDS: Final = np.array(
    [
        "fix",
        "add",
        "test",
        "merge",
        "bump",
        "docs",
        "build",
        "lint",
        "refactor",
        "release",
        "revert",
        "remove",
        "cache",
    ]
)

FileFormat = Literal["parquet", "delta", "iceberg", "hudi"]
WITHOUT_SPARK: Final[tuple[FileFormat, ...]] = ("parquet", "delta", "iceberg")
"""Formats whose tables are written here; Spark writes those of Hudi."""


def _field(number: int, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


SCHEMA: Final = pa.schema(
    [
        _field(1, "event_id", pa.int64()),
        _field(2, "key", pa.int64()),
        _field(3, "created_at", pa.timestamp("us", tz="UTC")),
        _field(4, "type", pa.string()),
        _field(5, "actor_id", pa.int64()),
        _field(6, "repo", pa.string()),
        _field(7, "zone", pa.int32()),
        _field(8, "distance", pa.float64()),
        _field(9, "fare_cents", pa.int64()),
        _field(10, "tip_cents", pa.int64()),
        _field(11, "message", pa.string()),
        _field(
            12,
            "payload",
            pa.struct([_field(13, "size", pa.int32()), _field(14, "action", pa.string())]),
        ),
    ]
)


@dataclass(frozen=True)
class Events:
    """The rows of a lake: `files` files of `rows` rows each, the same for the same seed."""

    files: int
    rows: int
    seed: int = 20240301
    share: int = 0
    """The number of files across which the days are spread; 0 for all. A lake that grows continues after its days."""

    def batch(self, number: int) -> pa.Table:
        """The rows of one file."""
        rng = np.random.default_rng([self.seed, number])
        count = self.rows
        event_id = np.arange(number * count, (number + 1) * count, dtype=np.int64)
        fares = np.round(rng.lognormal(7.1, 0.6, count)).astype(np.int64)
        owner, name = rng.zipf(1.4, count) % 50_000, rng.zipf(1.6, count) % 400
        words = _WORDS[rng.integers(0, len(_WORDS), (count, 6))]
        payload = pa.StructArray.from_arrays(
            [
                pa.array(rng.geometric(0.4, count), pa.int32()),
                pa.array(
                    np.array(["opened", "closed", "created"])[rng.integers(0, 3, count)],
                    mask=rng.random(count) < 0.5,
                ),
            ],
            fields=list(SCHEMA.field("payload").type),
        )
        columns: list[Any] = [
            event_id,
            spread(event_id),
            self._moments(rng, number),
            np.array(list(TYPES))[rng.choice(len(TYPES), count, p=list(TYPES.values()))],
            rng.zipf(1.3, count) % _ACTORS,
            [f"user{o}/repo{n}" for o, n in zip(owner, name, strict=True)],
            1 + rng.zipf(1.5, count) % ZONES,
            np.round(rng.exponential(2.9, count), 2),
            fares,
            pa.array(
                np.round(fares * rng.random(count) * 0.3).astype(np.int64), mask=rng.random(count) < 0.35
            ),
            [" ".join(line) for line in words],
            payload,
        ]
        kinds = zip(columns, SCHEMA, strict=True)
        return pa.table(
            [each if isinstance(each, pa.Array) else pa.array(each, field.type) for each, field in kinds],
            schema=SCHEMA,
        )

    def batches(self) -> Iterator[pa.Table]:
        """The rows of all files, in order."""
        return (self.batch(number) for number in range(self.files))

    @property
    def span(self) -> timedelta:
        """The time between the first rows of two files, in whole seconds."""
        return timedelta(seconds=max(1, DAYS * 86_400 // (self.share or self.files)))

    def _moments(self, rng: np.random.Generator, number: int) -> pa.Array:
        """Whole seconds, so that no format has to round a bound."""
        span = int(self.span.total_seconds())
        seconds = int(START.timestamp()) + number * span + np.sort(rng.integers(0, span, self.rows))
        late = rng.random(self.rows) < LATE
        seconds[late] -= rng.exponential(6 * 3600, int(late.sum())).astype(np.int64)
        return pa.array(
            seconds.astype("datetime64[s]").astype("datetime64[us]"), SCHEMA.field("created_at").type
        )


def spread(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct keys for numbers, in no order (the finalizer of splitmix64, without the sign)."""
    mixed = numbers.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


@dataclass(frozen=True)
class Lake:
    """The tables of a lake in a folder: one for each format, all with the same rows."""

    folder: Path
    events: Events

    def data(self, kind: FileFormat) -> Path:
        """The folder of the data files of a format."""
        return self.folder / kind / "data" if kind == "iceberg" else self.folder / kind

    def location(self, kind: FileFormat) -> str:
        """How a reader names the table: Iceberg's by its newest metadata file."""
        if kind == "iceberg":
            return str(max((self.folder / kind / "metadata").glob("*.metadata.json")))
        return str(self.folder / kind)

    def write(self) -> None:
        """Write all tables except Hudi's."""
        for kind in WITHOUT_SPARK:
            self.data(kind).mkdir(parents=True)
        names = [self._write_file(number, WITHOUT_SPARK) for number in range(self.events.files)]
        _create_delta(self.data("delta"), names)
        table = _iceberg_catalog(self.folder).create_table(
            "lake.events", schema=iceberg_schema(), location=f"file://{self.folder / 'iceberg'}"
        )
        append_iceberg(table, f"file://{self.data('iceberg')}", names)

    def append(self, files: int, kind: FileFormat) -> Lake:
        """Commit more files to the table of one format; returns the lake as that table has it."""
        before = self.events
        grown = replace(
            self,
            events=replace(before, files=before.files + files, share=before.share or before.files),
        )
        names = [grown._write_file(number, (kind,)) for number in range(before.files, before.files + files)]
        if kind == "delta":
            _append_delta(self.data(kind), names)
        elif kind == "iceberg":
            table = _iceberg_catalog(self.folder).load_table("lake.events")
            append_iceberg(table, f"file://{self.data(kind)}", names)
        return grown

    def write_hudi(self, session: SparkSession) -> None:
        """Have Spark write a copy-on-write table with a file for each of Parquet's, and Hudi's own indexes."""
        options = {
            "hoodie.table.name": "events",
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.bulkinsert.sort.mode": "NONE",
            "hoodie.datasource.write.recordkey.field": "key",
            "hoodie.datasource.write.precombine.field": "event_id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
            "hoodie.metadata.index.column.stats.column.list": "event_id,key,created_at,zone,fare_cents,type",
            "hoodie.metadata.record.index.enable": "true",
            # The number of keys that filters in the files are sized for: 60,000 by default, half a megabyte a file.
            "hoodie.index.bloom.num_entries": str(self.events.rows),
        }
        session.conf.set("spark.sql.files.openCostInBytes", str(1 << 40))
        frame = session.read.parquet(str(self.data("parquet")))
        frame.write.format("hudi").options(**options).save(str(self.data("hudi")))

    def _write_file(self, number: int, kinds: Sequence[FileFormat]) -> str:
        name = f"part-{number:07}.parquet"
        written, *others = (self.data(kind) / name for kind in kinds)
        # Without a number of keys, each filter is made for a million, and then folded: 18 ms a file.
        pq.write_table(
            self.events.batch(number), written, bloom_filter_options={"key": {"ndv": self.events.rows}}
        )
        for other in others:
            os.link(written, other)
        return name


_IN_DELTA: Final = ("event_id", "key", "created_at", "type", "actor_id", "repo", "zone", "fare_cents")
"""Columns with bounds in Delta's log: those that Spark would write and that are queried."""


def _add_actions(folder: Path, names: list[str]) -> list[Any]:
    from deltalake.transaction import AddAction

    return [
        AddAction(
            path=name,
            size=(folder / name).stat().st_size,
            partition_values={},
            modification_time=int((folder / name).stat().st_mtime * 1000),
            data_change=True,
            stats=json.dumps(_statistics(folder / name)),
        )
        for name in names
    ]


def _statistics(file: Path) -> dict[str, Any]:
    """A footer's statistics in the form of Delta's log."""
    footer = pq.read_metadata(file)
    group = footer.row_group(0)
    columns: dict[str, Any] = {
        group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)
    }
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: _shown(columns[name].min) for name in _IN_DELTA},
        "maxValues": {name: _shown(columns[name].max) for name in _IN_DELTA},
        "nullCount": {name: columns[name].null_count for name in _IN_DELTA},
    }


def _shown(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.000Z") if isinstance(value, datetime) else value


def _delta_schema() -> Any:
    from deltalake import Schema

    plain = [
        pa.field(each.name, pa.struct([pa.field(inner.name, inner.type) for inner in each.type]))
        if pa.types.is_struct(each.type)
        else pa.field(each.name, each.type)
        for each in SCHEMA
    ]
    return Schema.from_arrow(pa.schema(plain))


def _create_delta(folder: Path, names: list[str]) -> None:
    from deltalake import DeltaTable
    from deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(str(folder), _delta_schema(), _add_actions(folder, names))
    DeltaTable(str(folder)).create_checkpoint()


def _append_delta(folder: Path, names: list[str]) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(folder)).create_write_transaction(
        _add_actions(folder, names), mode="append", schema=_delta_schema()
    )


def _iceberg_catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("lake")
    return catalog


def iceberg_schema() -> Any:
    """The schema of the lake, as PyIceberg has it."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    return pyarrow_to_schema(SCHEMA)


def append_iceberg(table: Any, folder: str, names: list[str]) -> None:
    """Commit files to a table of PyIceberg, by the URI of their folder."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for name in names:
            append.append_data_file(
                parquet_file_to_data_file(table.io, transaction.table_metadata, f"{folder}/{name}")
            )
