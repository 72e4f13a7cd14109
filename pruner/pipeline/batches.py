"""Gathers the records of chunks into batches, writes each batch as segments, and stores a receipt for it.

Batches are large, because plans read one segment for each. They are bounded in slices, bytes and time, so that
memory is bounded and a killed build loses only the work since its last batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from pruner.arrow import compute, positions
from pruner.errors import first_line
from pruner.indexes.optional import ArrangingIndexType, RefusingIndexType
from pruner.indexes.partition_stats import SliceBatch, write_records
from pruner.metadata import receipts
from pruner.metadata.receipts import Receipt
from pruner.metadata.segments import BATCH_SCHEMA, SLICE_COLUMN, batch_table
from pruner.metadata.state import FILES
from pruner.pipeline.requests import BuildRequest, Chunk, Failure, broken_rule, other_columns
from pruner.tables.snapshot import READ_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.state import SegmentEntry
    from pruner.metadata.table import MetadataTable
    from pruner.pipeline.requests import ChunkResult, Progress
    from pruner.tables.snapshot import Snapshot

BATCH_SLICES = 65_536
"""Most slices of a batch (the last chunk may exceed it)."""

BATCH_RECORD_BYTES = 256 * 1024**2
"""Most bytes of a batch's records in memory (the last chunk may exceed it)."""

BATCH_SECONDS = 60.0
"""Time after which a batch is written, however small: this much work a killed build has to repeat."""

_READ_PREFIX = "read:"
_ORDINAL = "ordinal"


@dataclass(frozen=True, slots=True)
class Target:
    """One field of one index to record."""

    definition: IndexDefinition
    request: BuildRequest


@dataclass(frozen=True, slots=True)
class BuildJob:
    """Slices that all lack the same records, and where the records go.

    `work` has a row for each slice: the columns of a slice batch, its `ordinal` in the snapshot, and with the prefix
    `read:` those that say what to read. `part` names the slices in receipts if they are part of a larger job.
    """

    metadata: MetadataTable
    identity: str
    storage_options: Mapping[str, str]
    targets: tuple[Target, ...]
    work: pa.Table
    part: str | None = None

    def of_slices(self, work: pa.Table, part: str | None = None) -> BuildJob:
        """The same job for other slices."""
        return replace(self, work=work, part=part)

    @property
    def slices(self) -> pa.Table:
        """`READ_COLUMNS` of each slice."""
        return self.work.select([_READ_PREFIX + name for name in READ_COLUMNS]).rename_columns(
            [*READ_COLUMNS]
        )

    @property
    def requests(self) -> list[BuildRequest]:
        """What to record of each slice."""
        return [target.request for target in self.targets]


class BuildRunner(Protocol):
    """Where a build runs."""

    def run(self, job: BuildJob, progress: Progress | None) -> Iterable[Receipt]:
        """Build and write the records of all slices of a job; return a receipt for each batch.

        Args:
            job: what to record of which slices.
            progress: called with the number of slices done and of all slices.

        Raises:
            PrunerError: the run failed as a whole; what it had finished is left for the next run.
        """
        ...


@runtime_checkable
class SharingRunner(Protocol):
    """A runner whose machines can also share other work, each doing parts of it."""

    def parts(self) -> int:
        """The best number of parts into which to cut work."""
        ...

    def share(self, task: Callable[[int], Iterable[bytes]], count: int) -> list[tuple[int, bytes]]:
        """Run a task for each number below `count`; return the numbers with their answers, in any order.

        Args:
            task: a module-level function, possibly with its first arguments bound: it is sent by name.
            count: the number of parts.

        Raises:
            Exception: whatever the machines raise.
        """
        ...


def work_table(snapshot: Snapshot, ordinals: NDArray[np.intp]) -> pa.Table:
    """Return `BuildJob.work` for some slices of a snapshot."""
    rows = snapshot.rows(positions(ordinals))
    table = batch_table(snapshot, ordinals, rows).append_column(_ORDINAL, pa.array(ordinals, pa.int64()))
    to_read = snapshot.to_read(ordinals, rows)
    for name in READ_COLUMNS:
        table = table.append_column(_READ_PREFIX + name, to_read.column(name))
    return table


def write_batches(
    job: BuildJob,
    results: Iterable[ChunkResult],
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Receipt]:
    """Write the records of chunks, which come in any order, as batches; yield the receipts, which are also in the
    store.

    Args:
        job: the job that the results belong to.
        results: the results of its chunks.
        progress: called with the number of slices done and of all slices, from this thread.
        clock: returns a time in seconds.

    Raises:
        StorageError: a segment cannot be written.
    """
    done = 0
    batch = _Batch(job, clock())
    for result in results:
        batch.add(result)
        done += result.slices
        if progress is not None:
            progress(done, job.work.num_rows)
        if batch.is_full(clock()):
            yield batch.write()
            batch = _Batch(job, clock())
    if batch.slices:
        yield batch.write()


class _Batch:
    """Results of chunks that become one batch."""

    def __init__(self, job: BuildJob, started: float) -> None:
        self._job = job
        self._started = started
        self._results: list[ChunkResult] = []
        self._bytes = 0
        self.slices = 0

    def add(self, result: ChunkResult) -> None:
        self._results.append(result)
        self._bytes += sum(table.nbytes for table in result.tables if table is not None)
        self.slices += result.slices

    def is_full(self, now: float) -> bool:
        return (
            self.slices >= BATCH_SLICES
            or self._bytes >= BATCH_RECORD_BYTES
            or now - self._started >= BATCH_SECONDS
        )

    def write(self) -> Receipt:
        """Write the slice batch, a segment for each target that has records, and the receipt."""
        self._results.sort(key=lambda result: result.start)
        metadata = self._job.metadata
        slices, ordinals = self._slice_batch()
        batch = metadata.write_segment(FILES, slices)
        about = SliceBatch(batch, slices, ordinals)
        records: list[SegmentEntry] = []
        failures = [failure for result in self._results for failure in result.failures]
        indexed = np.zeros(self.slices, np.bool_)
        declined: dict[str, NDArray[np.bool_]] = {}
        for number, target in enumerate(self._job.targets):
            table = self._records(number, failures)
            if table is None:
                continue
            kind, field = target.request.kind, target.request.field.recorded
            try:
                written = write_records(metadata, kind, table, about, target.definition, field)
            except pa.ArrowException as error:
                failures += self._broken(number, table, first_line(error))
                continue
            records.append(written)
            indexed[table.column(SLICE_COLUMN).to_numpy()] = True
            if isinstance(kind, RefusingIndexType):
                of_index = declined.setdefault(target.definition.name, np.zeros(self.slices, np.bool_))
                of_index[_declined(table, kind)] = True
        receipt = Receipt(
            identity=self._job.identity,
            batch=batch,
            records=tuple(records),
            indexed=int(np.count_nonzero(indexed)),
            failures=tuple(_plain(failure) for failure in failures),
            read=sum(result.read for result in self._results),
            part=self._job.part,
            declined={name: int(np.count_nonzero(mask)) for name, mask in declined.items() if mask.any()},
        )
        receipts.put(metadata.store, receipt)
        return receipt

    def _slice_batch(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """The slice batch, and the ordinals of its slices in the snapshot."""
        work = self._job.work.select([*BATCH_SCHEMA.names, _ORDINAL])
        joined = pa.concat_tables([work.slice(result.start, result.slices) for result in self._results])
        return joined.select(BATCH_SCHEMA.names).cast(BATCH_SCHEMA), joined.column(_ORDINAL).to_numpy()

    def _records(self, number: int, failures: list[Failure]) -> pa.Table | None:
        """The records of one target, with `__slice` counted within the batch, in the order of chunks unless the index
        type arranges them.

        Chunks with other columns than the first one are omitted and added to `failures`.
        """
        tables: list[pa.Table] = []
        offset = 0
        for result in self._results:
            table = result.tables[number]
            if table is not None and table.num_rows:
                shifted = _shifted(table, offset - result.start)
                why = other_columns(shifted, tables[0]) if tables else None
                if why is None:
                    tables.append(shifted)
                else:
                    failures += self._broken(number, shifted, why)
            offset += result.slices
        if not tables:
            return None
        request = self._job.targets[number].request
        joined = pa.concat_tables(tables).combine_chunks()
        kind = request.kind
        return kind.arrange(joined, request.field) if isinstance(kind, ArrangingIndexType) else joined

    def _broken(self, number: int, records: pa.Table, why: str) -> list[Failure]:
        """A failure for each slice whose records cannot be kept."""
        files = [uri for result in self._results for uri in self._files_of(result)]
        request = self._job.targets[number].request
        at: list[int] = np.unique(records.column(SLICE_COLUMN).to_numpy()).tolist()
        return [broken_rule(files[position], request, why) for position in at]

    def _files_of(self, result: ChunkResult) -> list[str]:
        return [each.name for each in Chunk(0, self._job.slices.slice(result.start, result.slices))]


def _declined(records: pa.Table, kind: RefusingIndexType) -> NDArray[np.int32]:
    """The slices whose record only says why they cannot be indexed."""
    usable, _ = kind.refusal
    refused: Any = records.filter(compute.equal(records.column(usable), False))
    return refused.column(SLICE_COLUMN).to_numpy()


def _shifted(table: pa.Table, by: int) -> pa.Table:
    schema: Any = table.schema  # its stubs leave types open
    position = schema.get_field_index(SLICE_COLUMN)
    ordinals = (table.column(position).to_numpy() + by).astype(np.int32)
    return table.set_column(position, schema.field(position), pa.array(ordinals, pa.int32()))


def _plain(failure: Failure) -> tuple[str, str, str]:
    slice_, index, reason = astuple(failure)
    return slice_, index, reason
