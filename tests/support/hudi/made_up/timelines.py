"""Made-up Hudi tables of versions 6, 8 and 9 with random timelines: writes that overlap, run, failed or were archived.

Only what a listing looks at is made: names, sizes, completed commits. Data files are some bytes that no reader opens.
"""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.hudi.made_up.files import SCHEMA

PARTITIONS = ("city=b", "city=a", "city=a b", "city=ä", "city=c/x=1", "city=c/x=10")
KINDS = ("insert", "insert into logs", "update", "log", "compact", "replace", "drop partition")
ENDS = ("done", "done", "done", "late", "inflight", "requested", "rolled back", "left behind")
"""How writes end; one that was rolled back and `left behind` files has a task that ran on."""


def _optional(type_: Any) -> list[Any]:
    return ["null", type_]


def _map(values: Any) -> list[Any]:
    return _optional({"type": "map", "values": values})


_STAT_TEXTS = ("fileId", "path", "prevCommit", "partitionPath")
_STAT: Any = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *({"name": name, "type": _optional("string")} for name in _STAT_TEXTS),
        {"name": "fileSizeInBytes", "type": _optional("long")},
    ],
}
_COMMIT: Any = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "partitionToWriteStats", "type": _map({"type": "array", "items": _STAT})},
        {"name": "partitionToReplaceFileIds", "type": _map({"type": "array", "items": "string"})},
        {"name": "extraMetadata", "type": _map("string")},
        {"name": "operationType", "type": _optional("string")},
    ],
}


@dataclass
class _Write:
    """A write that has been requested: its files are there, its end is not."""

    instant: str
    action: str
    stats: dict[str, list[dict[str, Any]]]
    gone: dict[str, list[str]]
    files: list[Path]
    groups: set[tuple[str, str]]


@dataclass
class RandomTimeline:
    """One table. `bases` is the instant at which the newest slice of each group began that a completed write made."""

    root: Path
    version: int
    merge_on_read: bool
    rng: random.Random
    bases: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _time: int = 20260101000000000
    _late: list[_Write] = field(default_factory=list[_Write])
    _busy: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _archived: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __post_init__(self) -> None:
        self.timeline.mkdir(parents=True)
        properties = {
            "hoodie.table.name": "made_up",
            "hoodie.table.version": str(self.version),
            "hoodie.timeline.layout.version": "1" if self.version < 8 else "2",
            "hoodie.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "city",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (self.root / ".hoodie" / "hoodie.properties").write_text(text)
        self.act("insert", "done")

    @property
    def timeline(self) -> Path:
        """The folder of the active timeline."""
        return self.root / ".hoodie" / ("timeline" if self.version >= 8 else "")

    def act(self, kind: str, end: str) -> None:
        """Do one write, and end it as is said."""
        write = self._start(kind)
        if end == "late":
            self._late.append(write)
        elif end == "done":
            self._complete(write)
            while self._late and self.rng.random() < 0.5:
                self._complete(self._late.pop(0))
        elif end in ("rolled back", "left behind"):
            self._roll_back(write, left=end == "left behind")
        elif end == "requested":
            (self.timeline / _running(write, "inflight")).unlink()
            self._remove(write)

    def write(self, group: tuple[str, str], *, log: bool) -> None:
        """Write a base file or a log file of one group, in a commit that completes."""
        write = self._begin("deltacommit" if log else "commit")
        (self._log if log else self._base)(write, group)
        self._complete(write)

    def now(self) -> str:
        """An instant after all that happened so far."""
        return self._tick()

    def finish(self) -> None:
        """Complete the writes that are late."""
        while self._late:
            self._complete(self._late.pop(0))

    def save(self, instant: str | None = None) -> None:
        """Make a savepoint of a completed write, of whatever age."""
        instant = instant or self.rng.choice(self.readable())
        (self.timeline / f"{instant}.savepoint.inflight").write_bytes(b"")
        done = f"_{self._tick()}" if self.version >= 8 else ""
        (self.timeline / f"{instant}{done}.savepoint").write_bytes(b"x")

    def saved(self) -> list[str]:
        """The instants of savepoints."""
        return sorted({path.name[:17] for path in self.timeline.glob("*.savepoint")})

    def readable(self) -> list[str]:
        """The completed writes of the active timeline: as of what is older hudi-rs finds no schema."""
        names = (path.name.split(".") for path in self.timeline.iterdir())
        writes = ("commit", "deltacommit", "replacecommit")
        return sorted(name[0][:17] for name in names if name[-1] in writes and len(name) == 2)

    def archive(self, count: int) -> None:
        """Archive the oldest completed instants, as far as no write before them is running, but for saved ones."""
        names = sorted(path.name for path in self.timeline.iterdir() if path.name[:4].isdecimal())
        instants = sorted({name[:17] for name in names} - set(self.saved()))
        for instant in instants[: min(count, len(instants) - 2)]:
            own = [name for name in names if name.startswith(instant)]
            done = [name for name in own if name.split(".")[-1] not in ("inflight", "requested")]
            if not done:
                break
            if self.version >= 8:
                stem, action = done[0].split(".")
                times = {"instantTime": instant, "completionTime": stem.split("_")[1]}
                content = (self.timeline / done[0]).read_bytes()
                self._archived.append({**times, "action": action, "metadata": content})
            for name in own:
                (self.timeline / name).unlink()
        if self._archived:
            history = self.timeline / "history"
            history.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(self._archived), history / "a_b_0.parquet")
            (history / "manifest_1").write_text(
                json.dumps({"files": [{"fileName": "a_b_0.parquet", "fileLen": 1}]})
            )

    def _start(self, kind: str) -> _Write:
        action = "commit" if kind == "compact" or not self.merge_on_read else "deltacommit"
        if kind in ("replace", "drop partition"):
            action = "replacecommit"
        write = self._begin(action)
        free = sorted(self.bases.keys() - self._busy)
        some = self.rng.sample(free, min(len(free), self.rng.randint(1, 3)))
        if kind == "drop partition":
            some = [group for group in free if group[0] == some[0][0]] if some else []
        if kind == "insert" or (kind == "replace" and self.rng.random() < 0.7):
            for partition in self.rng.choices(PARTITIONS, k=self.rng.randint(1, 3)):
                self._base(write, (partition, f"{self.rng.getrandbits(64):016x}-0"))
        if kind == "insert into logs" and self.merge_on_read:
            self._log(write, (self.rng.choice(PARTITIONS), f"{self.rng.getrandbits(64):016x}-0"))
        for group in some:
            if action == "replacecommit":
                write.gone.setdefault(group[0], []).append(group[1])
            elif kind == "log" and self.merge_on_read:
                self._log(write, group)
            elif kind in ("update", "compact", "log"):
                self._base(write, group)
            write.groups.add(group)
        self._busy |= write.groups
        return write

    def _begin(self, action: str) -> _Write:
        write = _Write(self._tick(), action, {}, {}, [], set())
        for state in ("requested", "inflight"):
            (self.timeline / _running(write, state)).write_bytes(b"")
        return write

    def _base(self, write: _Write, group: tuple[str, str]) -> None:
        write.groups.add(group)
        self._file(write, group, f"{group[1]}_0-1-{self.rng.randint(1, 9)}_{write.instant}.parquet")

    def _log(self, write: _Write, group: tuple[str, str]) -> None:
        write.groups.add(group)
        base = write.instant if self.version >= 8 else self.bases.get(group, write.instant)
        number = 1 + len(list((self.root / group[0]).glob(f".{group[1]}_{base}.log.*")))
        self._file(write, group, f".{group[1]}_{base}.log.{number}_0-{self.rng.randint(1, 9)}-1")

    def _file(self, write: _Write, group: tuple[str, str], name: str) -> None:
        folder = self.root / group[0]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")
        size = self.rng.randint(1, 50)
        (folder / name).write_bytes(b"x" * size)
        write.files.append(folder / name)
        stat = {
            "fileId": group[1],
            "path": f"{group[0]}/{name}",
            "partitionPath": group[0],
            "fileSizeInBytes": size,
        }
        write.stats.setdefault(group[0], []).append({**stat, "prevCommit": self.bases.get(group, "null")})

    def _complete(self, write: _Write) -> None:
        content: dict[str, Any] = {
            "partitionToWriteStats": write.stats,
            "partitionToReplaceFileIds": write.gone,
            "extraMetadata": {"schema": json.dumps(SCHEMA)},
            "operationType": "UNKNOWN",
        }
        done = f"_{self._tick()}" if self.version >= 8 else ""
        data = _avro(content) if self.version >= 8 else json.dumps(content).encode()
        (self.timeline / f"{write.instant}{done}.{write.action}").write_bytes(data)
        self._busy -= write.groups
        for path in write.files:
            group = str(path.parent.relative_to(self.root)), path.name.split("_")[0].removeprefix(".")
            if path.suffix == ".parquet" or group not in self.bases:
                self.bases[group] = write.instant
        for partition, file_ids in write.gone.items():
            for file_id in file_ids:
                self.bases.pop((partition, file_id), None)

    def _roll_back(self, write: _Write, *, left: bool) -> None:
        for state in ("requested", "inflight"):
            (self.timeline / _running(write, state)).unlink()
        if not left:
            self._remove(write)
        self._busy -= write.groups
        instant = self._tick()
        done = f"_{self._tick()}" if self.version >= 8 else ""
        (self.timeline / f"{instant}{done}.rollback").write_bytes(b"")

    def _remove(self, write: _Write) -> None:
        for path in write.files:
            path.unlink()

    def _tick(self) -> str:
        self._time += self.rng.randint(1, 3)
        return str(self._time)


def _running(write: _Write, state: str) -> str:
    action = "inflight" if (write.action, state) == ("commit", "inflight") else f"{write.action}.{state}"
    return f"{write.instant}.{action}"


def _avro(content: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(_COMMIT), [content])
    return out.getvalue()
