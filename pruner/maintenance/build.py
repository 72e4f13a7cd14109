"""Defining, building and dropping indexes: the changes that a table makes to its metadata table.

A refresh takes a snapshot, finds for each definition the slices without a record, runs the kernel over them, writes the
segments and commits once. Nothing is visible before the commit; the next refresh commits what a killed build had
finished.

If a build ends early, a note of the exception says what remains of it, and no empty index is left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from pruner.errors import ConflictError, IndexDefinitionError, PrunerError, TableError
from pruner.expr.identifier import render_column_path
from pruner.indexes.registry import index_type
from pruner.maintenance.columns import ALL_COLUMNS, chosen, fields_of, gained
from pruner.maintenance.commit import Publisher
from pruner.maintenance.estimate import SMALL_TABLE_BYTES, IndexEstimate, estimate
from pruner.maintenance.expressions import check_where, slices_where, why_outdated
from pruner.metadata import receipts
from pruner.metadata.definitions import FieldBinding, IndexDefinition, define
from pruner.pipeline.batches import BuildJob, Target, work_table
from pruner.pipeline.requests import BuildRequest, Failure
from pruner.showing.words import FILE, are, counted
from pruner.tables.slice_keys import locate

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from pruner.indexes.base import IndexType
    from pruner.metadata.last_snapshot import LastSnapshot
    from pruner.metadata.receipts import Receipt
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.metadata.table import MetadataTable
    from pruner.pipeline.batches import BuildRunner
    from pruner.pipeline.requests import Progress
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


JOB_SLICES = 1 << 20
"""Most slices that a runner is given at once."""


@contextmanager
def what_stands(metadata: MetadataTable, created: IndexDefinition | None = None) -> Generator[None]:
    """Add a note on what remains when a build is interrupted or fails.

    Args:
        metadata: the metadata table.
        created: the index that was defined for this build: it is dropped again unless some of it was finished.
    """
    try:
        yield
    except IndexDefinitionError:
        raise  # a refusal: nothing was started
    except (KeyboardInterrupt, PrunerError) as ended:
        try:
            note = _of_new_index(metadata, created) if created is not None else _of_refresh(metadata)
        except PrunerError:
            note = "what stands cannot be read now: see pruner status"
        if note is not None:
            ended.add_note(note)
        raise


def _of_refresh(metadata: MetadataTable) -> str | None:
    waiting = sum(receipt.indexed for receipt in receipts.receipts(metadata.store))
    if not waiting:
        return None
    return f"{counted(waiting, 'record')} {are(waiting)} finished: the next refresh takes them up"


def _of_new_index(metadata: MetadataTable, definition: IndexDefinition) -> str:
    name, state = definition.name, metadata.state()
    if all(each.uuid != definition.uuid for each in state.definitions):
        return f"index {name} was not created"
    if state.segments_of(definition):
        return f"index {name} was created"
    finished = (entry for receipt in receipts.receipts(metadata.store) for entry in receipt.records)
    if any(entry.definition == definition.uuid for entry in finished):
        return f"index {name} is defined: refresh it to go on, or drop it"
    try:
        metadata.commit(lambda newest: newest.without_definition(definition))
    except PrunerError:
        return f"index {name} is defined and has no records: refresh it, or drop it"
    return f"index {name} was not created"


FORCE = "force"
"""Option of every index type: create the index however large it will be."""


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did, or with `dry_run` would do.

    `indexed` slices got records; `declined` counts, by index name, those of them for which the index only stored the
    reason why it cannot take them. `already` were covered by every index that takes them (a WHERE excludes slices),
    `uncoverable` are not settled or cannot be read; `problems` has one sentence for each that cannot be read, by the
    URI of the file. `files` and `bytes` are the number and total size of the files to read; `bytes_read` is how much of
    them was read, which for ranges is their footers. Each failure names a slice that stays uncovered.
    `resumed` slices had been recorded by a build that ended before its commit; they count as covered. `refused` has one
    sentence for each index, by name, that this pruner cannot refresh; the others were refreshed. `estimate` is what a
    new index would cost. `gained` names for each index on all columns, by name, the columns that the table has gained
    since it was built, for which every file is read. `gone` names, by index name, the columns of each index of which
    the table no longer has any: nothing is indexed for it.
    """

    indexed: int
    already: int
    uncoverable: int
    files: int
    bytes: int
    failures: tuple[Failure, ...] = ()
    dry_run: bool = False
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    resumed: int = 0
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    estimate: IndexEstimate | None = None
    declined: Mapping[str, int] = field(default_factory=dict[str, int])
    bytes_read: int = 0
    noun: str = FILE
    gained: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class _Target:
    """One field of one definition to index, its slices, and those of them that lack a record of it."""

    target: Target
    taken: NDArray[np.bool_]
    missing: NDArray[np.bool_]


def _named_columns(definition: IndexDefinition) -> tuple[str, ...]:
    """The columns on which an index was created, or its expression; empty for an index on all columns."""
    if definition.expression is not None:
        return (definition.expression,)
    return (
        () if definition.all_columns else tuple(render_column_path(each.path) for each in definition.fields)
    )


class Indexing:
    """Changes the indexes of one table."""

    def __init__(
        self,
        source: TableSource,
        metadata: MetadataTable,
        segments: SegmentCache,
        last_snapshot: LastSnapshot,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._segments = segments
        self._snapshot = snapshot
        self._publisher = Publisher(source, metadata, segments, last_snapshot)

    def create(
        self,
        name: str,
        on: str | Sequence[str],
        using: str,
        options: dict[str, str],
        *,
        if_not_exists: bool,
        where: str | None = None,
        dialect: str | None = None,
        force: bool = False,
    ) -> IndexDefinition | None:
        """Register an index; returns it if it is new.

        Raises:
            IndexDefinitionError: the name is taken, or a column cannot be indexed this way, or the index would be too
                large and is not forced.
            SchemaError: there is no such column.
        """
        kind = index_type(using)
        snapshot = self._snapshot()
        fields, over = chosen(snapshot.schema, on, kind, options, dialect)
        if where is not None:
            check_where(where, snapshot.schema)
        known = self._metadata.state().definition(name) is not None
        if not force and not known and _is_judged(snapshot):
            taken = self._taken(snapshot, where)
            cost = self._estimated(snapshot, taken, name, fields, kind, options, seconds_count=False)
            if cost is not None and cost.refused is not None:
                raise IndexDefinitionError(cost.refused)
        definition = define(
            name,
            kind.name,
            tuple(FieldBinding(f.path, str(f.type), f.field_id, f.stored) for f in fields),
            all_columns=on == ALL_COLUMNS,
            options=options,
            where=where,
            over=over,
            record_version=kind.version,
        )
        created = False

        def add(state: State) -> State:
            nonlocal created
            created = not (if_not_exists and state.definition(name) is not None)
            return self._publisher.of_this_table(state).with_definition(definition) if created else state

        with what_stands(self._metadata, definition):
            self._metadata.commit(add)
        return definition if created else None

    def estimate(
        self,
        name: str,
        on: str | Sequence[str],
        using: str,
        options: dict[str, str],
        where: str | None,
        dialect: str | None,
    ) -> RefreshResult:
        """Estimate what an index would cost, without creating it; raises as `create` does."""
        kind = index_type(using)
        snapshot = self._snapshot()
        fields, _ = chosen(snapshot.schema, on, kind, options, dialect)
        taken = self._taken(snapshot, where)
        cost = self._estimated(snapshot, taken, name, fields, kind, options, seconds_count=True)
        if cost is not None and not _is_judged(snapshot):
            cost = replace(cost, refused=None)
        return RefreshResult(
            indexed=int(np.count_nonzero(taken)),
            already=0,
            uncoverable=int(np.count_nonzero(~snapshot.coverable)),
            files=int(np.count_nonzero(taken)),
            bytes=snapshot.size_of(taken),
            dry_run=True,
            problems=dict(snapshot.problems),
            estimate=cost,
        )

    def _taken(self, snapshot: Snapshot, where: str | None) -> NDArray[np.bool_]:
        if where is None:
            return snapshot.coverable
        check_where(where, snapshot.schema)
        return snapshot.coverable & slices_where(where, snapshot, self._segments)

    def _estimated(
        self,
        snapshot: Snapshot,
        taken: NDArray[np.bool_],
        name: str,
        fields: Sequence[Field],
        kind: IndexType,
        options: dict[str, str],
        *,
        seconds_count: bool,
    ) -> IndexEstimate | None:
        requests = [BuildRequest(kind, each, options, name) for each in fields]
        return estimate(snapshot, taken, requests, self._source.storage_options, seconds_count=seconds_count)

    def drop(self, name: str, *, if_exists: bool) -> bool:
        """Drop an index by name; returns whether there was one.

        Raises:
            IndexDefinitionError: there is no such index and `if_exists` is False.
        """
        state = self._metadata.state()
        if if_exists and state.definition(name) is None:
            return False
        definition = state.required(name, self._source.root)
        self._metadata.commit(lambda newest: newest.without_definition(definition))
        return True

    def refresh(
        self,
        only: str | None,
        partitions: Sequence[str],
        runner: BuildRunner,
        *,
        dry_run: bool,
        progress: Progress | None,
    ) -> RefreshResult:
        """Index uncovered slices, in one commit.

        Raises:
            IndexDefinitionError: there is no index of the name `only`, or this pruner cannot refresh it.
            TableError: there is no partition with one of these paths.
            ConflictError: an index was dropped while it was being built; the others were committed.
        """
        _chosen_definitions(self._metadata.state(), only, self._source.root)
        snapshot = self._snapshot()
        in_scope = in_partitions(snapshot, partitions)
        resumed = 0 if dry_run else self._publisher.take_up(snapshot)
        state = self._publisher.of_this_table(self._metadata.state())
        if dry_run:
            state, resumed = self._publisher.waiting(state, snapshot)
        targets: list[_Target] = []
        refused: dict[str, str] = {}
        new_columns: dict[str, tuple[str, ...]] = {}
        gone_columns: dict[str, tuple[str, ...]] = {}
        for definition in _chosen_definitions(state, only, self._source.root):
            try:
                outdated = self._targets(state, definition, snapshot, in_scope)
                targets += outdated
                if not outdated and (names := _named_columns(definition)):
                    gone_columns[definition.name] = names
                fields = [target.target.request.field for target in outdated if target.missing.any()]
                if names := gained(definition, state.segments_of(definition), fields):
                    new_columns[definition.name] = names
            except IndexDefinitionError as error:
                if only is not None:
                    raise
                refused[definition.name] = str(error)
        to_read, taken = np.zeros(len(snapshot), np.bool_), np.zeros(len(snapshot), np.bool_)
        for target in targets:
            to_read |= target.missing
            taken |= target.taken
        counts = RefreshResult(
            indexed=0 if not dry_run else int(np.count_nonzero(to_read)),
            already=int(np.count_nonzero(taken & ~to_read)),
            uncoverable=int(np.count_nonzero(in_scope & ~snapshot.coverable)),
            files=int(np.count_nonzero(to_read)),
            bytes=snapshot.size_of(to_read),
            dry_run=dry_run,
            problems=dict(snapshot.problems),
            resumed=resumed,
            refused=refused,
            noun=snapshot.noun,
            gained=new_columns,
            gone=gone_columns,
        )
        if dry_run or not to_read.any():
            return counts
        return self._build(state, snapshot, targets, counts, runner, progress)

    def _targets(
        self, state: State, definition: IndexDefinition, snapshot: Snapshot, in_scope: NDArray[np.bool_]
    ) -> list[_Target]:
        kind = _type_to_refresh(definition)
        if definition.record_version != kind.version:
            raise IndexDefinitionError(
                f"index {definition.name!r} has records of version {definition.record_version} and this pruner writes "
                f"version {kind.version}: use the version of pruner that made it, or drop it and create it anew"
            )
        outdated = why_outdated(definition)
        if outdated is not None:
            raise IndexDefinitionError(outdated)
        if definition.where is not None:
            in_scope = in_scope & slices_where(definition.where, snapshot, self._segments)
        targets: list[_Target] = []
        fields = fields_of(definition, snapshot.schema, kind)
        of_these = {about.recorded for about in fields}
        entries = [entry for entry in state.segments_of(definition) if entry.field in of_these]
        recorded = self._segments.recorded(state, entries, snapshot)
        nothing = np.zeros(len(snapshot), np.bool_)
        for about in fields:
            covered = recorded.get(about.recorded, nothing)
            request = BuildRequest(kind, about, definition.options, definition.name)
            taken = in_scope & snapshot.coverable
            targets.append(_Target(Target(definition, request), taken, taken & ~covered))
        return targets

    def _build(
        self,
        state: State,
        snapshot: Snapshot,
        targets: list[_Target],
        counts: RefreshResult,
        runner: BuildRunner,
        progress: Progress | None,
    ) -> RefreshResult:
        """Run the kernel once for each slice, over all targets that lack it; commit once."""
        identity, believed = self._source.identity(), self._source.believed()
        built: list[Receipt] = []
        asked: list[NDArray[np.intp]] = []
        failures, done = list[Failure](), 0
        for ordinals, lacking in _jobs(targets):
            job = BuildJob(
                self._metadata,
                identity,
                self._source.storage_options,
                lacking,
                work_table(snapshot, ordinals),
            )
            step = None if progress is None else partial(_advance, progress, done, counts.files)
            built += runner.run(job, step)
            done += len(ordinals)
            asked.append(ordinals)
        failures += [Failure(*failure) for receipt in built for failure in receipt.failures]
        now = self._source.look_again(snapshot, believed, np.concatenate(asked))
        if now is not snapshot:
            failures += _changed(snapshot, now, targets)
        dropped = self._publisher.publish(built, state, snapshot, now)
        if dropped:
            names = sorted(d.name for d in state.definitions if d.uuid in dropped)
            raise ConflictError(
                f"index {', '.join(names)} was dropped while it was being built; the other indexes were refreshed"
            )
        indexed = sum(receipt.indexed for receipt in built)
        declined = sum((Counter(receipt.declined) for receipt in built), Counter[str]())
        read = sum(receipt.read for receipt in built)
        return replace(counts, indexed=indexed, failures=tuple(failures), declined=declined, bytes_read=read)


def is_forced(options: dict[str, str]) -> bool:
    """Remove the option `force` from those of an index type, and tell whether it is true.

    Raises:
        IndexDefinitionError: it is neither true nor false.
    """
    text = options.pop(FORCE, "false").lower()
    if text not in ("true", "false"):
        raise IndexDefinitionError(f"option {FORCE} is {text[:40]!r}: give true or false")
    return text == "true"


def _is_judged(snapshot: Snapshot) -> bool:
    """Tell whether a table is large enough for an index to hurt."""
    return snapshot.total_size > SMALL_TABLE_BYTES


def _type_to_refresh(definition: IndexDefinition) -> IndexType:
    try:
        return index_type(definition.using)
    except IndexDefinitionError as error:
        raise IndexDefinitionError(
            f"index {definition.name!r} cannot be refreshed: {error}; "
            "install the package that provides the type, or drop the index"
        ) from error


def _advance(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _alike(targets: list[_Target]) -> Iterator[tuple[NDArray[np.intp], tuple[Target, ...]]]:
    """Groups of slices that lack the same targets, with these targets. Usually all slices lack all of them."""
    missing = np.stack([target.missing for target in targets], axis=1)
    ordinals = np.flatnonzero(missing.any(axis=1))
    patterns, which = np.unique(np.packbits(missing[ordinals], axis=1), axis=0, return_inverse=True)
    for number in range(len(patterns)):
        alike = ordinals[which.reshape(-1) == number]
        yield alike, tuple(t.target for t, lacks in zip(targets, missing[alike[0]], strict=True) if lacks)


def _jobs(targets: list[_Target]) -> Iterator[tuple[NDArray[np.intp], tuple[Target, ...]]]:
    """The same in runs of at most `JOB_SLICES`, which bounds the rows of a work table."""
    for ordinals, lacking in _alike(targets):
        for start in range(0, len(ordinals), JOB_SLICES):
            yield ordinals[start : start + JOB_SLICES], lacking


def _changed(snapshot: Snapshot, now: Snapshot, targets: list[_Target]) -> Iterator[Failure]:
    """Name each slice that was read and is not in the table any more, for each index."""
    gone = locate(now.keys, snapshot.keys) < 0
    for each in {target.target.definition.uuid: target for target in targets}.values():
        for ordinal in np.flatnonzero(each.missing & gone):
            uri = snapshot.value("base_file", int(ordinal))
            reason = "the file changed while it was read: refresh the index again"
            yield Failure(uri, each.target.definition.name, reason)


def in_partitions(snapshot: Snapshot, wanted: Sequence[str]) -> NDArray[np.bool_]:
    """Tell for each slice whether its partition path is in `wanted` or below one of them; all slices if it is empty.

    Raises:
        TableError: there is no partition with one of these paths.
    """
    if not wanted:
        return np.ones(len(snapshot), np.bool_)
    paths = cast("list[str]", snapshot.partitions.paths.to_pylist())
    chosen = np.zeros(len(paths), np.bool_)
    for text in wanted:
        path = text.strip("/")
        matching = np.array([each == path or each.startswith(path + "/") for each in paths], np.bool_)
        if not matching.any():
            known = ", ".join(repr(path) for path in paths[:5]) + (", …" if len(paths) > 5 else "")
            raise TableError(
                f"{snapshot.root} has no partition {text!r}: its partitions are {known or 'none'}"
            )
        chosen |= matching
    return chosen[snapshot.partition_ordinals]


def _chosen_definitions(state: State, only: str | None, where: str) -> tuple[IndexDefinition, ...]:
    if only is None:
        return state.definitions
    return (state.required(only, where),)
