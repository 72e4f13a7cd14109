"""The last snapshot in the metadata table: writers save it there, and processes that open the table start from it.

It never changes an answer. A source that starts from it arrives at the same snapshot as one that lists the whole
table. If it is missing, damaged or of another version, the table is listed.

A large one is not rewritten after each change. Additions and removals since then are stored beside it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from pruner.arrow import arrow
from pruner.errors import ConflictError, FormatError, StorageError, TableError
from pruner.metadata import segments
from pruner.metadata.ranged import Blocks
from pruner.metadata.state import FILES, SavedSnapshot
from pruner.tables.source import (
    SAVED_METADATA,
    BlockSource,
    ChangesSource,
    ComparedLook,
    SavedLook,
    SharedSource,
    StoredLook,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pruner.metadata.ranged import RangedSegment
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.source import JoinedBlocks, Piece, TableSource

_log = logging.getLogger("pruner")

CHANGES_FROM: Final = 16_384
"""Fewest rows of a stored listing beside which changes are stored."""

SEGMENT_ROWS: Final = 1 << 23
"""Most rows of a listing in blocks that go into one segment: at most half of the bytes that a segment may have."""

LEAST_KEPT: Final = 64
"""Changes are stored only if the stored listing has at least this many times more rows."""

SLICE_KEY: Final = "slice_key"
"""The first column of a stored listing."""


class _Stored(NamedTuple):
    """The id of a segment that holds a whole listing, and the data with which changes are found."""

    segment: str
    look: StoredLook


class _Started(NamedTuple):
    """The snapshot in blocks from which the source reads, and its blocks."""

    saved: SavedSnapshot
    blocks: JoinedBlocks


class Written(NamedTuple):
    """A snapshot that was written for a later commit. If `rests_on` is not None, it refers to segments of the snapshot
    that consists of these, and is usable only while that one is stored.
    """

    saved: SavedSnapshot
    rests_on: tuple[str, ...] | None = None


class LastSnapshot:
    """Saves the snapshot of one table in its metadata table, and loads it from there."""

    def __init__(self, source: TableSource, metadata: MetadataTable) -> None:
        self._source = source
        self._metadata = metadata
        self._stored: _Stored | None = None
        self._listed: SavedSnapshot | None = None
        self._started_from: _Started | None = None

    def resume(self) -> State | None:
        """Let the source start from the saved snapshot if it can be read; return the state that was read for this."""
        state: State | None = None
        try:
            state = self._metadata.state()
            saved = state.last_snapshot
            if saved is not None and state.matches(self._source.identity()):
                self._take_up(saved)
        except (FormatError, StorageError) as error:
            _log.debug("%s is listed from scratch: %s", self._source.root, error)
        return state

    def _take_up(self, saved: SavedSnapshot) -> None:
        store = self._metadata.store
        if saved.segment.tail is not None and saved.changes is None and isinstance(self._source, BlockSource):
            blocks = segments.saved_blocks(store, saved)
            self._source.resume_blocks(saved.id, blocks)
            self._started_from = _Started(saved, blocks)
        else:
            self._source.resume(self._read(saved))

    def _read(self, saved: SavedSnapshot) -> SavedLook:
        store = self._metadata.store
        try:
            return SavedLook(saved.last_id, segments.read_saved(store, saved))
        except (FormatError, StorageError) as error:
            if saved.changes is None:
                raise
            # A pruner that does not know changes vacuums them. The snapshot before them still saves most of the work.
            _log.debug("of %s an earlier snapshot is taken up: %s", self._source.root, error)
            return SavedLook(saved.id, segments.read_part(store, saved.segment))

    def put_together(self, sent: bytes, parts: Sequence[SegmentEntry]) -> None:
        """Let the source start from a listing that machines shared, if its parts fit together.

        Args:
            sent: what the machines that listed the parts were sent.
            parts: the segments that they wrote, in the order of the parts.

        Raises:
            FormatError: a part is damaged.
            StorageError: a part cannot be read, or the whole cannot be written.
        """
        store, source, unused = self._metadata.store, self._source, list(parts)
        try:
            if not isinstance(source, SharedSource):
                return
            look = source.joined(sent, [segments.block_segment(store, part) for part in parts])
            if look is not None and look.table.num_rows:
                source.resume(look)
            elif look is not None:
                segment = self._metadata.write_segment(FILES, look.table, layout=Blocks(()))
                unused.append(segment)
                saved = SavedSnapshot(id=look.id, segment=segment, parts=tuple(parts))
                blocks = segments.saved_blocks(store, saved)
                source.resume_blocks(look.id, blocks)
                self._listed, self._started_from = saved, _Started(saved, blocks)
                unused.clear()
        finally:
            store.delete(entry.path for entry in unused)

    def keep_listed(self) -> None:
        """Commit a shared listing, so that an interrupted build need not repeat it.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be written.
        """
        listed, self._listed = self._listed, None
        if listed is None:
            return
        identity = self._source.identity()
        try:
            self._metadata.commit(
                lambda newest: with_snapshot(newest, Written(listed)) if newest.matches(identity) else newest
            )
        except ConflictError as error:
            _log.debug("the listing of %s is not stored: %s", self._source.root, error)

    def forget_listed(self) -> None:
        """Delete a shared listing that is not committed, because no index was created."""
        listed, self._listed = self._listed, None
        if listed is not None:
            try:
                self._metadata.store.delete(entry.path for entry in listed.files())
            except StorageError as error:
                _log.debug("a vacuum is to delete the listing of %s: %s", self._source.root, error)

    def keep(self) -> None:
        """Save the source's last listing in the metadata table, unless it is there already or there are no indexes.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be written.
            ConflictError: other writers kept changing it.
        """
        state = self._metadata.state()
        if state.definitions and state.matches(self._source.identity()):
            written = self.written(state)
            if written is not None:
                self._metadata.commit(lambda newest: with_snapshot(newest, written))

    def mend(self) -> None:
        """Write the last listing again if the stored one is damaged: a part that is reused may stay for long.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be written.
            ConflictError: other writers kept changing it.
        """
        stored = self._metadata.state().last_snapshot
        if stored is None:
            return
        try:
            segments.read_saved(self._metadata.store, stored)
        except (FormatError, StorageError) as error:
            _log.debug("the snapshot of %s is stored anew: %s", self._source.root, error)
            written = self._written_whole(None)
            if written is not None:
                self._metadata.commit(lambda newest: _in_place_of(stored, newest, written.saved))

    def written(self, state: State) -> Written | None:
        """Write the source's last listing for a later commit.

        None if `state` has it already, or if what it rests on is gone: then the table is listed from scratch next time.

        Raises:
            StorageError: it cannot be written.
        """
        before = state.last_snapshot
        try:
            return (
                self._written_changes(before)
                or self._written_new_blocks(before)
                or self._written_whole(before)
            )
        except TableError as error:
            _log.debug("the snapshot of %s is not stored: %s", self._source.root, error)
            return None

    def _written_new_blocks(self, before: SavedSnapshot | None) -> Written | None:
        """Write the blocks that the last listing does not share with the stored one; None if the source does not report
        them, or started from another listing.
        """
        source, stored = self._source, self._started_from
        if stored is None or before is None or _held_by(before) != _held_by(stored.saved):
            return None
        if not isinstance(source, BlockSource):
            return None
        try:
            look = source.saved_blocks(before.id, stored.blocks)
            saved = None if look is None else self._with_new_blocks(look, stored.blocks)
        except (FormatError, StorageError) as error:
            _log.debug("the snapshot of %s is stored anew: %s", source.root, error)
            return None
        if saved is None:
            return None
        self._rest_on(saved)
        return Written(saved, _held_by(before))

    def _rest_on(self, saved: SavedSnapshot) -> None:
        """Let the source read from what was just stored, as another process would, instead of holding it in memory."""
        source, self._started_from = self._source, None
        if isinstance(source, BlockSource):
            try:
                blocks = segments.saved_blocks(self._metadata.store, saved)
                source.rest_on(saved.id, blocks)
                self._started_from = _Started(saved, blocks)
            except (FormatError, StorageError) as error:
                _log.debug("the snapshot of %s stays in memory: %s", source.root, error)

    def _with_new_blocks(self, look: SavedLook, stored: JoinedBlocks) -> SavedSnapshot | None:
        """Write the new blocks of a listing, and with them those of old segments that are no larger or mostly out of
        use: so a listing has few segments, and each block is rewritten only a few times.

        None if that is the whole listing.
        """
        of_stored = [number for is_stored, number in look.order if is_stored]
        live: dict[SegmentEntry, int] = {}
        for number in of_stored:
            entry = _entry_of(stored.pieces[number])
            live[entry] = live.get(entry, 0) + stored.rows[number]
        rows = sum(look.blocks)
        taken: set[SegmentEntry] = set()
        for entry in sorted(live, key=lambda entry: live[entry]):
            if (entry.rows <= rows or 2 * live[entry] <= entry.rows) and rows + live[entry] <= SEGMENT_ROWS:
                taken.add(entry)
                rows += live[entry]
        kept = [entry for entry in live if entry not in taken]
        if not kept:
            return None
        moved = [number for number in of_stored if _entry_of(stored.pieces[number]) in taken]
        table = arrow.concat_tables([look.table, stored.read(look.table.column_names, moved)])
        place = {number: len(look.blocks) + at for at, number in enumerate(moved)}
        order: list[tuple[int, int]] = []
        for is_stored, number in look.order:
            if not is_stored or number in place:
                order.append((0, place[number] if is_stored else number))
            else:
                order.append((1 + kept.index(_entry_of(stored.pieces[number])), stored.pieces[number][1]))
        layout = Blocks((*look.blocks, *(stored.rows[number] for number in moved)))
        described = table.replace_schema_metadata(look.table.schema.metadata)
        segment = self._metadata.write_segment(FILES, segments.in_order(described, order), layout=layout)
        return SavedSnapshot(id=look.id, segment=segment, parts=tuple(kept))

    def _written_whole(self, before: SavedSnapshot | None) -> Written | None:
        look = self._source.saved(None if before is None else before.last_id)
        if look is None:
            return None
        if look.blocks:
            return Written(self._written_blocks(look))
        segment = self._metadata.write_segment(FILES, look.table)
        if isinstance(self._source, ChangesSource):
            self._stored = _Stored(segment.id, _stored_look(look.table))
        return Written(SavedSnapshot(id=look.id, segment=segment))

    def _written_blocks(self, look: SavedLook) -> SavedSnapshot:
        """Write a listing in blocks, to as many segments as needed."""
        segment, *parts = [
            self._metadata.write_segment(FILES, some, layout=Blocks(rows)) for some, rows in _cut(look)
        ]
        saved = SavedSnapshot(id=look.id, segment=segment, parts=tuple(parts))
        self._rest_on(saved)
        return saved

    def _written_changes(self, before: SavedSnapshot | None) -> Written | None:
        """Write how the last listing differs from the stored one; None if that does not pay."""
        source = self._source
        if before is None or before.segment.rows < CHANGES_FROM or not isinstance(source, ChangesSource):
            return None
        rows, read = before.segment.rows, partial(self._stored_by, before.segment)
        try:
            changes = source.saved_changes(before.last_id, ComparedLook(rows, rows // LEAST_KEPT, read))
        except (FormatError, StorageError) as error:
            _log.debug("the snapshot of %s is stored anew: %s", source.root, error)
            return None
        if changes is None:
            return None
        segment = self._metadata.write_segment(FILES, segments.changes_table(changes.table, changes.gone))
        saved = msgspec.structs.replace(before, changes=segment, changed_id=changes.id)
        return Written(saved, _held_by(before))

    def _stored_by(self, segment: SegmentEntry) -> StoredLook | None:
        """The content of a segment that was written here, or that is read now; None if it has no slice keys."""
        held = self._stored
        if held is None or held.segment != segment.id:
            table = segments.read_part(self._metadata.store, segment, (SLICE_KEY,))
            if SLICE_KEY not in table.column_names:
                return None
            held = self._stored = _Stored(segment.id, _stored_look(table))
        return held.look


def _entry_of(piece: Piece) -> SegmentEntry:
    return cast("RangedSegment", piece[0]).entry


def _cut(look: SavedLook) -> Iterator[tuple[pa.Table, tuple[int, ...]]]:
    """The rows of each segment of a listing in blocks, and its blocks; the first has the metadata of the whole."""
    start, first, table = 0, 0, look.table
    while first < len(look.blocks):
        behind, rows = first + 1, look.blocks[first]
        while behind < len(look.blocks) and rows + look.blocks[behind] <= SEGMENT_ROWS:
            rows += look.blocks[behind]
            behind += 1
        yield table.slice(start, rows), look.blocks[first:behind]
        start, first, table = start + rows, behind, table.replace_schema_metadata(None)


def _stored_look(table: pa.Table) -> StoredLook:
    return StoredLook(segments.slice_keys(table), (table.schema.metadata or {}).get(SAVED_METADATA, b""))


def with_snapshot(state: State, written: Written | None) -> State:
    """The state with the written snapshot, if there is one, it is new, and there are indexes to serve."""
    if written is None or not state.definitions:
        return state
    last = state.last_snapshot
    if last is not None and last.last_id == written.saved.last_id:
        return state
    if written.rests_on is not None and (last is None or _held_by(last) != written.rests_on):
        return state  # another writer has replaced it meanwhile, and what this one refers to may be deleted
    return state.with_snapshot(written.saved)


def _held_by(saved: SavedSnapshot) -> tuple[str, ...]:
    """The segments of a snapshot, without those of later changes."""
    return tuple(entry.id for entry in (saved.segment, *saved.parts))


def _in_place_of(stored: SavedSnapshot, state: State, saved: SavedSnapshot) -> State:
    """The state with a snapshot instead of another one, if that is still the last one."""
    return state.with_snapshot(saved) if state.last_snapshot == stored else state
