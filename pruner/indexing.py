"""Defining, building and dropping indexes: the changes that a table makes to its metadata table.

A refresh takes a snapshot, finds for each definition the slices without a record, runs the kernel over them,
writes the segments and commits once. Nothing is visible before the commit, so a killed build leaves only
files that `vacuum` removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import IndexDefinitionError, SchemaError
from pruner.expr.identifier import parse_column_path
from pruner.indexes.registry import index_type
from pruner.metadata.definitions import FieldBinding, IndexDefinition, define
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.pipeline.local import build
from pruner.pipeline.requests import BuildRequest, Failure

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.evidence import SegmentCache
    from pruner.indexes.base import IndexType
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.pipeline.requests import Progress
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

ALL_COLUMNS = "*"


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did, or with `dry_run` would do.

    `indexed` slices got records, `already` were covered, `uncoverable` have log files, are not settled or
    cannot be read; `problems` names the last by the URI of the file, with one sentence each. `files` and
    `bytes` say what was to be read. Each failure names a slice that stays uncovered.
    """

    indexed: int
    already: int
    uncoverable: int
    files: int
    bytes: int
    failures: tuple[Failure, ...] = ()
    dry_run: bool = False
    problems: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Target:
    """One field of one definition that is to be indexed, and the slices that lack a record of it."""

    definition: IndexDefinition
    kind: IndexType
    field: Field
    missing: NDArray[np.bool_]


class Indexing:
    """Changes the indexes of one table."""

    def __init__(
        self,
        source: TableSource,
        metadata: MetadataTable,
        segments: SegmentCache,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._segments = segments
        self._snapshot = snapshot

    def create(
        self,
        name: str,
        on: str | Sequence[str],
        using: str,
        options: dict[str, str],
        *,
        if_not_exists: bool,
    ) -> bool:
        """Register an index; returns whether it is new.

        Raises:
            IndexDefinitionError: the name is taken, or a column cannot be indexed this way.
            SchemaError: there is no such column.
        """
        kind = index_type(using)
        schema = self._snapshot().schema
        fields = _chosen_fields(schema, on, kind, options)
        definition = define(
            name,
            kind.name,
            tuple(FieldBinding(f.path, str(f.type), f.field_id) for f in fields),
            all_columns=on == ALL_COLUMNS,
            options=options,
            record_version=kind.version,
        )
        created = False

        def add(state: State) -> State:
            nonlocal created
            created = not (if_not_exists and state.definition(name) is not None)
            return self._of_this_table(state).with_definition(definition) if created else state

        self._metadata.commit(add)
        return created

    def drop(self, name: str, *, if_exists: bool) -> bool:
        """Drop an index by name; returns whether there was one.

        Raises:
            IndexDefinitionError: there is none and `if_exists` is False.
        """
        state = self._metadata.state()
        definition = state.definition(name)
        if definition is None:
            if if_exists:
                return False
            raise IndexDefinitionError(f"no index {name!r} on {self._source.root}: it has {_names(state)}")
        self._metadata.commit(lambda newest: newest.without_definition(definition))
        return True

    def refresh(self, only: str | None, *, dry_run: bool, progress: Progress | None) -> RefreshResult:
        """Index what is not covered, in one commit.

        Raises:
            IndexDefinitionError: there is no index of the name `only`.
            ConflictError: an index was dropped while it was being built.
        """
        state = self._of_this_table(self._metadata.state())
        chosen = _chosen_definitions(state, only, self._source.root)
        snapshot = self._snapshot()
        targets = [t for definition in chosen for t in self._targets(state, definition, snapshot)]
        to_read = np.zeros(len(snapshot), np.bool_)
        for target in targets:
            to_read |= target.missing
        counts = RefreshResult(
            indexed=0 if not dry_run else int(np.count_nonzero(to_read)),
            already=int(np.count_nonzero(snapshot.coverable & ~to_read)),
            uncoverable=int(np.count_nonzero(~snapshot.coverable)),
            files=int(np.count_nonzero(to_read)),
            bytes=int(snapshot.sizes[to_read].sum()),
            dry_run=dry_run,
            problems=dict(snapshot.problems),
        )
        if dry_run or not to_read.any():
            return counts
        return self._build(snapshot, targets, counts, progress)

    def _targets(self, state: State, definition: IndexDefinition, snapshot: Snapshot) -> list[_Target]:
        kind = index_type(definition.using)
        if definition.record_version != kind.version:
            raise IndexDefinitionError(
                f"index {definition.name!r} has records of version {definition.record_version} and this pruner writes "
                f"version {kind.version}: use the pruner that made it, or drop it and create it anew"
            )
        targets: list[_Target] = []
        for about in _fields_of(definition, snapshot.schema, kind):
            covered = np.zeros(len(snapshot), np.bool_)
            for entry in state.segments_of(definition):
                if entry.field == about.path:
                    covered[self._segments.recorded(state, entry, snapshot)] = True
            targets.append(_Target(definition, kind, about, snapshot.coverable & ~covered))
        return targets

    def _build(
        self,
        snapshot: Snapshot,
        targets: list[_Target],
        counts: RefreshResult,
        progress: Progress | None,
    ) -> RefreshResult:
        """Run the kernel once for each set of targets that lack the same slices; write segments; commit once."""
        groups: dict[bytes, list[_Target]] = {}
        for target in targets:
            if target.missing.any():
                groups.setdefault(np.packbits(target.missing).tobytes(), []).append(target)
        entries: list[SegmentEntry] = []
        failures: list[Failure] = []
        indexed = np.zeros(len(snapshot), np.bool_)
        for group in groups.values():
            ordinals = np.flatnonzero(group[0].missing)
            requests = [BuildRequest(t.kind, t.field, t.definition.options, t.definition.name) for t in group]
            result = build(self._source, snapshot, ordinals, requests, progress)
            failures += result.failures
            entries += self._write(snapshot, ordinals, group, result.records)
            for records in result.records:
                indexed[ordinals[np.unique(records.column("__slice").to_numpy())]] = True
        self._metadata.commit(lambda newest: self._of_this_table(newest).with_segments(entries))
        return replace(counts, indexed=int(np.count_nonzero(indexed)), failures=tuple(failures))

    def _write(
        self,
        snapshot: Snapshot,
        ordinals: NDArray[np.intp],
        group: list[_Target],
        records: Sequence[pa.Table],
    ) -> list[SegmentEntry]:
        batch = self._metadata.write_segment(FILES, batch_table(snapshot, ordinals))
        entries = [batch]
        for target, recorded in zip(group, records, strict=True):
            if recorded.num_rows:
                entries.append(
                    self._metadata.write_segment(
                        target.kind.name,
                        recorded,
                        definition=target.definition,
                        field=target.field.path,
                        batch=batch,
                    )
                )
        return entries if len(entries) > 1 else []

    def _of_this_table(self, state: State) -> State:
        """The state without the coverage of a table that stood here before (R10)."""
        identity = self._source.identity()
        return state if state.matches(identity) else state.without_coverage(identity)


def _chosen_fields(
    schema: TableSchema, on: str | Sequence[str], kind: IndexType, options: dict[str, str]
) -> list[Field]:
    if on == ALL_COLUMNS:
        return _supported(schema, kind, options)
    fields = [schema.find(parse_column_path(text)) for text in ([on] if isinstance(on, str) else on)]
    for chosen in fields:
        if chosen.conflict:
            raise IndexDefinitionError(f"column {chosen.name!r} cannot be indexed: {chosen.conflict}")
        kind.check(chosen, options)
    if len({chosen.path for chosen in fields}) != len(fields):
        raise IndexDefinitionError("a column is named twice in one index: name it once")
    return fields


def _supported(schema: TableSchema, kind: IndexType, options: dict[str, str]) -> list[Field]:
    found: list[Field] = []
    for candidate in schema:
        if candidate.conflict or not candidate.in_file:
            continue
        try:
            kind.check(candidate, options)
        except IndexDefinitionError:
            continue
        found.append(candidate)
    return found


def _fields_of(definition: IndexDefinition, schema: TableSchema, kind: IndexType) -> list[Field]:
    """The fields that a definition covers in the table as it is now; those that are gone are left out."""
    if definition.all_columns:
        return _supported(schema, kind, definition.options)
    found: list[Field] = []
    for binding in definition.fields:
        try:
            about = schema.find(binding.path, case_sensitive=True)
        except SchemaError:
            continue
        if about.conflict is None:
            found.append(about)
    return found


def _chosen_definitions(state: State, only: str | None, where: str) -> tuple[IndexDefinition, ...]:
    if only is None:
        return state.definitions
    definition = state.definition(only)
    if definition is None:
        raise IndexDefinitionError(f"no index {only!r} on {where}: it has {_names(state)}")
    return (definition,)


def _names(state: State) -> str:
    return ", ".join(definition.name for definition in state.definitions) or "no index"
