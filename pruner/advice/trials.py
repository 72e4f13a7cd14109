"""Trial indexes: built in memory over some slices, and used by the real planner to see what they leave to read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.evidence.snapshot import SnapshotEvidence
from pruner.evidence.sources import Sources, of_records
from pruner.indexes.optional import ArrangingIndexType, CountingIndexType, ListedEvidence, SpreadingIndexType
from pruner.indexes.registry import index_type
from pruner.metadata.segments import SLICE_COLUMN, SLICE_FIELD
from pruner.pipeline.requests import BuildRequest
from pruner.pipeline.slices import run_slices
from pruner.planning.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pruner.advice.questions import Question
    from pruner.expr.bound.fields import Path
    from pruner.indexes.base import Evidence
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

RANGES = "column_stats"
"""The index type that needs only footers, so that it can be tried on many files."""


@dataclass(frozen=True)
class Candidate:
    """An index that could be created, or that exists already (`existing`)."""

    using: str
    fields: tuple[Field, ...]
    name: str
    existing: bool = False

    @property
    def paths(self) -> frozenset[Path]:
        """The columns of the index."""
        return frozenset(field.path for field in self.fields)

    def __hash__(self) -> int:
        return hash((self.using, self.name))


def subset(snapshot: Snapshot, ordinals: NDArray[np.intp]) -> Snapshot:
    """Some slices of a snapshot, as a snapshot."""
    columns = snapshot.rows(ordinals)
    keys = snapshot.keys.take(ordinals)
    return replace(
        snapshot, columns=columns.combine_chunks(), keys=keys, file_schemas=None, unsettled_because={}
    )


class Trial:
    """Some slices, with the evidence that candidates would have about them."""

    def __init__(
        self,
        snapshot: Snapshot,
        segments: SegmentCache,
        evidence: Mapping[tuple[str, Path], Evidence],
        values: Mapping[tuple[str, Path], float] | None = None,
    ) -> None:
        """`evidence` and `values` are by index type and column: see `TrialEvidence`."""
        self.snapshot = snapshot
        self.values = values or {}
        self._in_paths = SnapshotEvidence(snapshot, None, segments)
        self._evidence = evidence
        self._answers: dict[tuple[int, frozenset[tuple[str, Path]]], NDArray[np.bool_]] = {}

    def kept(self, question: Question, chosen: Iterable[Candidate]) -> NDArray[np.bool_]:
        """The slices that a question keeps with these indexes, and with the values in paths."""
        parts = frozenset(
            (candidate.using, path)
            for candidate in chosen
            for path in candidate.paths
            if path in question.fields and (candidate.using, path) in self._evidence
        )
        key = (id(question), parts)
        kept = self._answers.get(key)
        if kept is None:
            planner = Planner(self.snapshot, _Chosen(self._in_paths, self._evidence, parts))
            plan = planner.plan(question.predicate, question.text, question.semantics)
            kept = self._answers[key] = plan.kept_mask
        return kept


class _Chosen:
    """What is known about fields with some indexes and no others: see `pruner.evidence.sources.KnowsFields`."""

    def __init__(
        self,
        in_paths: SnapshotEvidence,
        evidence: Mapping[tuple[str, Path], Evidence],
        parts: frozenset[tuple[str, Path]],
    ) -> None:
        self._in_paths = in_paths
        self._evidence = evidence
        self._parts = parts

    def sources(self, about: Field) -> Sources:
        """See `KnowsFields.sources`."""
        known = self._in_paths.sources(about)
        tried = [
            of_records(using, using, self._evidence[using, path])
            for using, path in sorted(self._parts)
            if path == about.path
        ]
        return Sources([*known.usable, *tried], [])


class TrialEvidence(NamedTuple):
    """Evidence about the first `slices` of a snapshot, by index type and column.

    `values` has, for index types that store each value, the number of distinct values per row, over all these slices.
    """

    slices: int
    evidence: dict[tuple[str, Path], Evidence]
    values: dict[tuple[str, Path], float]


def recorded(
    snapshot: Snapshot,
    wanted: Mapping[tuple[str, Path], Field],
    storage_options: Mapping[str, str],
    pieces: Iterable[tuple[int, int]] | None = None,
) -> TrialEvidence:
    """Evidence about the slices of a snapshot, from the kernel, which reads the files once for everything in `wanted`.

    Args:
        snapshot: the slices.
        wanted: fields by index type and column.
        storage_options: options of the store.
        pieces: ranges (start, stop) of slices, processed in order; all slices at once unless given.
    """
    requests = [BuildRequest(index_type(using), field, {}, using) for (using, _), field in wanted.items()]
    if not requests or not len(snapshot):
        return TrialEvidence(len(snapshot), {}, {})
    gathered: list[list[pa.Table]] = [[] for _ in requests]
    slices, done = snapshot.to_read(np.arange(len(snapshot))), 0
    for start, stop in pieces or ((0, len(snapshot)),):
        for result in run_slices(slices.slice(start, stop - start), storage_options, requests):
            for tables, table in zip(gathered, result.tables, strict=True):
                if table is not None:
                    tables.append(_moved(table, start))
        done = stop
    found: dict[tuple[str, Path], Evidence] = {}
    distinct: dict[tuple[str, Path], float] = {}
    for key, request, tables in zip(wanted, requests, gathered, strict=True):
        if tables:
            records = pa.concat_tables(tables).combine_chunks()
            evidence = found[key] = loaded(request, records, done)
            if isinstance(request.kind, CountingIndexType) and isinstance(evidence, ListedEvidence):
                _, rows = request.kind.values_and_rows(records)
                distinct[key] = evidence.entry_count / max(rows, 1)
    return TrialEvidence(done, found, distinct)


def _moved(records: pa.Table, by: int) -> pa.Table:
    """Records with their slice numbers shifted."""
    if by == 0:
        return records
    at = records.schema.get_field_index(SLICE_COLUMN)
    positions: Any = records.column(at)
    return records.set_column(at, SLICE_FIELD, pa.array(positions.to_numpy() + by, pa.int32()))


def loaded(request: BuildRequest, records: pa.Table, count: int) -> Evidence:
    """The evidence in records, as an index would store them."""
    kind = request.kind
    # A type that spreads stored records loads them spread, which is how they come from the kernel.
    if isinstance(kind, ArrangingIndexType) and not isinstance(kind, SpreadingIndexType):
        records = kind.arrange(records, request.field)
    return kind.load(records, count, request.field)
