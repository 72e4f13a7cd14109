"""What a Spark executor runs: tasks by number, most of which run the kernel over one part of the slices and write the
segments.

Only plain data is sent to it: a description of the job, and numbers of parts. The slices of a part are staged in the
metadata table, so that a task is small however many slices there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
import pyarrow as pa

from pruner.errors import IndexDefinitionError, PrunerError
from pruner.indexes.registry import index_type
from pruner.metadata.definitions import IndexDefinition
from pruner.metadata.table import MetadataTable
from pruner.pipeline.batches import BuildJob, Target, write_batches
from pruner.pipeline.requests import request_json, request_of, table_of
from pruner.pipeline.slices import chunks_of, run_chunk
from pruner.pipeline.workers import run_in_workers
from pruner.storage.opening import open_for_arrow, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pruner.pipeline.requests import ChunkResult

Task: TypeAlias = Callable[[int], Iterable[bytes]]
"""Runs the part with a number and yields answers. It is sent by its name and its bound arguments."""

PART_BYTES = 1 << 30
"""Largest description of a part that is read, in bytes."""

RESULT_SCHEMA = pa.schema([pa.field("part", pa.int64()), pa.field("answer", pa.binary())])
"""What tasks return: a row for each answer."""

RESULT_COLUMNS = "part bigint, answer binary"
"""`RESULT_SCHEMA` in Spark's syntax."""


class _SentTarget(msgspec.Struct, frozen=True):
    definition: IndexDefinition
    request: msgspec.Raw


class SparkJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is sent: where the metadata table is, what to record, and the staged slices of each part.

    `isolated` runs the kernel in a separate process, which may die without killing the task.
    """

    store: str
    options: dict[str, str]
    identity: str
    targets: tuple[_SentTarget, ...]
    parts: tuple[str, ...]
    isolated: bool

    @classmethod
    def of(cls, job: BuildJob, parts: tuple[str, ...], *, isolated: bool) -> SparkJob:
        """Describe a job whose slices were staged at `parts`."""
        targets = tuple(
            _SentTarget(target.definition, msgspec.Raw(msgspec.json.encode(request_json(target.request))))
            for target in job.targets
        )
        return cls(
            store=job.metadata.store.uri,
            options=dict(job.storage_options),
            identity=job.identity,
            targets=targets,
            parts=parts,
            isolated=isolated,
        )

    def part(self, number: int) -> BuildJob:
        """The job for the slices of one part.

        Raises:
            StorageError: the part cannot be read.
        """
        store = open_store(self.store, self.options)
        targets = tuple(
            Target(sent.definition, request_of(msgspec.json.decode(sent.request))) for sent in self.targets
        )
        work = table_of(store.get(self.parts[number], PART_BYTES))
        return BuildJob(
            MetadataTable(store), self.identity, self.options, targets, work, part=self.parts[number]
        )


def run_tasks(task: Task, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a task for each incoming number; the function that `mapInArrow` calls.

    Args:
        task: is called with each number.
        rows: have numbers of parts in the first column.
    """
    for batch in rows:
        for number in cast("list[int]", batch.column(0).to_pylist()):
            for answer in task(number):
                row: dict[str, list[Any]] = {"part": [number], "answer": [answer]}
                yield pa.RecordBatch.from_pydict(row, schema=RESULT_SCHEMA)


def build_part(sent: bytes, number: int) -> Iterator[bytes]:
    """Build one part: yield a receipt (JSON) for each batch that was written.

    Args:
        sent: a `SparkJob` as JSON.
        number: number of the part.

    Raises:
        PrunerError: the part cannot be read, or a segment cannot be written: Spark retries the task.
    """
    job = msgspec.json.decode(sent, type=SparkJob)
    part = job.part(number)
    for receipt in write_batches(part, _results(part, isolated=job.isolated)):
        yield msgspec.json.encode(receipt)


def _results(part: BuildJob, *, isolated: bool) -> Iterator[ChunkResult]:
    chunks = chunks_of(part.slices)
    if isolated:
        yield from run_in_workers(chunks, part.storage_options, part.requests, 1, run_chunk)
    else:
        for chunk in chunks:
            yield run_chunk(chunk, part.storage_options, part.requests)


def missing_types(kinds: Mapping[str, int]) -> list[str]:
    """Name the index types that are not available here in the wanted version."""
    missing: list[str] = []
    for name, version in kinds.items():
        try:
            if index_type(name).version != version:
                missing.append(f"version {version} of the index type {name}")
        except IndexDefinitionError:
            missing.append(f"the package of the index type {name}")
    return missing


def unreachable(sent: bytes) -> str | None:
    """Return what of a job this machine cannot reach, the metadata table or the table's files; None if it can."""
    job = msgspec.json.decode(sent, type=SparkJob)
    try:
        if not open_store(job.store, job.options).exists(job.parts[0]):
            return f"see the metadata table at {job.store}: give it a location that every node can read (index_uri)"
        file = next(iter(next(chunks_of(job.part(0).slices))))
        source = open_for_arrow(file.name, file.base_size or file.log_size, job.options)
        if isinstance(source, str) and not Path(source).exists():
            return f"read {source}: the table must lie where every node sees it"
    except PrunerError as error:
        return f"use the store: {error}"
    return None
