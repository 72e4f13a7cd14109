"""Hudi tables of table version 6 without a writer: the files that listings and timelines are made of.

Base files are one small Parquet file by many names, log files are some bytes; commits are the JSON that Hudi writes.
Tests make odd histories with it, benchmarks large ones.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = {
    "type": "record",
    "name": "made_up_record",
    "namespace": "hoodie.made_up",
    "fields": [
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}
MOST_LINKS = 60_000
"""ext4 gives one file 65,000 names at most."""


@dataclass(frozen=True)
class Group:
    """A file group and the instant and log files of its newest slice."""

    partition: str
    file_id: str
    instant: str
    base: str
    logs: tuple[str, ...] = ()


@dataclass
class SyntheticTable:
    """One table; `groups` is what its newest slices are. Each method is one completed commit."""

    root: Path
    merge_on_read: bool = False
    schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict[tuple[str, str], Group])
    _clock: itertools.count[int] = field(default_factory=lambda: itertools.count(20260101000000001))
    _links: itertools.count[int] = field(default_factory=itertools.count)
    _ids: random.Random = field(default_factory=lambda: random.Random(1))
    _source: Path | None = None

    def __post_init__(self) -> None:
        folder = self.root / ".hoodie"
        folder.mkdir(parents=True)
        kind = "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE"
        properties = {
            "hoodie.table.name": "made_up",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.type": kind,
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "city",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.populate.meta.fields": "true",
        }
        (folder / "hoodie.properties").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))

    def insert(self, partitions: Iterable[str]) -> None:
        """Write a new file group for each partition given."""
        instant = self._instant()
        made = [self._base(partition, self._file_id(), instant) for partition in partitions]
        self._commit(instant, self._write_action, [self._base_stat(group, None) for group in made], "INSERT")

    def update(self, keys: Iterable[tuple[str, str]], action: str | None = None) -> None:
        """Write a new base file for each group; with the action `compaction` that is one."""
        instant = self._instant()
        stats: list[dict[str, Any]] = []
        for key in keys:
            before = self.groups[key]
            stats.append(self._base_stat(self._base(*key, instant), before.instant))
        operation = "UNKNOWN" if action == "compaction" else "UPSERT"
        self._commit(instant, action or self._write_action, stats, operation)

    def log(self, keys: Iterable[tuple[str, str]]) -> None:
        """Write one more log file for each group."""
        instant = self._instant()
        stats: list[dict[str, Any]] = []
        for key in keys:
            group, name, size = self._append_log(key, len(stats))
            stats.append(self._stat(group, name, size, group.instant) | {"logFiles": list(group.logs)})
        self._commit(instant, "deltacommit", stats, "UPSERT")

    def start_log(self, keys: Iterable[tuple[str, str]]) -> None:
        """Write one more log file for each group in a commit that is not completed."""
        instant = self._instant()
        for number, key in enumerate(keys):
            self._append_log(key, number)
        self._start(instant, "deltacommit")

    def replace(self, keys: Iterable[tuple[str, str]], partitions: Iterable[str]) -> None:
        """Replace groups by new ones."""
        instant = self._instant()
        gone: dict[str, list[str]] = {}
        for key in keys:
            del self.groups[key]
            gone.setdefault(key[0], []).append(key[1])
        made = [self._base(partition, self._file_id(), instant) for partition in partitions]
        stats = [self._base_stat(group, None) for group in made]
        self._commit(instant, "replacecommit", stats, "INSERT_OVERWRITE", {"partitionToReplaceFileIds": gone})

    def act(self, action: str, rng: random.Random, partitions: Sequence[str], most: int = 5) -> None:
        """Do something by its name to one to three groups, or write up to `most` new ones in some of the partitions."""
        keys = sorted(self.groups)
        some = rng.sample(keys, min(len(keys), rng.randint(1, 3)))
        if action == "insert" or not keys:
            self.insert(rng.choices(partitions, k=rng.randint(1, most)))
        elif action == "update":
            self.update([key for key in some if not self.groups[key].logs])
        elif action == "log" and self.merge_on_read:
            self.log(some)
        elif action == "start" and self.merge_on_read:
            self.start_log(some)
        elif action == "compact" and self.merge_on_read:
            self.update(some, "compaction")
        elif action == "replace":
            self.replace(some, rng.choices(partitions, k=rng.randint(0, 2)))
        elif action == "drop partition":
            self.replace([key for key in keys if key[0] == some[0][0]], ())

    @property
    def _write_action(self) -> str:
        return "deltacommit" if self.merge_on_read else "commit"

    def _append_log(self, key: tuple[str, str], number: int) -> tuple[Group, str, int]:
        group = self.groups[key]
        name = f".{group.file_id}_{group.instant}.log.{len(group.logs) + 1}_0-{number}-1"
        size = 40 + len(group.logs)
        self._folder(group.partition).joinpath(name).write_bytes(b"x" * size)
        self.groups[key] = Group(
            group.partition, group.file_id, group.instant, group.base, (*group.logs, name)
        )
        return self.groups[key], name, size

    def _instant(self) -> str:
        return str(next(self._clock))

    def _file_id(self) -> str:
        return f"{uuid.UUID(int=self._ids.getrandbits(128), version=4)}-0"

    def _folder(self, partition: str) -> Path:
        folder = self.root / partition
        if not folder.is_dir():
            folder.mkdir(parents=True)
            (folder / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")
        return folder

    def _base(self, partition: str, file_id: str, instant: str) -> Group:
        name = f"{file_id}_0-1-{next(self._links)}_{instant}.parquet"
        path = self._folder(partition) / name
        if self._source is None or self._source.stat().st_nlink >= MOST_LINKS:
            pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "city": ["x"]}), path)
            self._source = path
        else:
            os.link(self._source, path)
        self.groups[partition, file_id] = Group(partition, file_id, instant, name)
        return self.groups[partition, file_id]

    def _base_stat(self, group: Group, before: str | None) -> dict[str, Any]:
        assert self._source is not None
        return self._stat(group, group.base, self._source.stat().st_size, before)

    def _stat(self, group: Group, name: str, size: int, before: str | None) -> dict[str, Any]:
        return {
            "fileId": group.file_id,
            "path": f"{group.partition}/{name}" if group.partition else name,
            "prevCommit": before or "null",
            "partitionPath": group.partition,
            "fileSizeInBytes": size,
            "numWrites": 1,
        }

    def _commit(
        self,
        instant: str,
        action: str,
        stats: list[dict[str, Any]],
        operation: str,
        also: dict[str, Any] | None = None,
    ) -> None:
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for stat in stats:
            by_partition.setdefault(stat["partitionPath"], []).append(stat)
        content = {
            "partitionToWriteStats": by_partition,
            "compacted": action == "compaction",
            "extraMetadata": {"schema": json.dumps(self.schema)},
            "operationType": operation,
            **(also or {}),
        }
        self._start(instant, action)
        done = "commit" if action == "compaction" else action
        (self.root / ".hoodie" / f"{instant}.{done}").write_text(json.dumps(content))

    def _start(self, instant: str, action: str) -> None:
        running = "inflight" if action == "commit" else f"{action}.inflight"
        for name in (f"{instant}.{action}.requested", f"{instant}.{running}"):
            (self.root / ".hoodie" / name).write_bytes(b"")
