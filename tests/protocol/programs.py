"""What the simulated processes do: operations of the real metadata table over the simulated store, one by one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pruner.errors import ConflictError, FormatError, IndexDefinitionError, StorageError
from pruner.metadata import MetadataTable, SegmentEntry, State
from pruner.metadata.log import checksum_of
from pruner.storage.store import NotFoundError
from tests.protocol.history import History, Known, Operation, known
from tests.unit.metadata.samples import AMOUNT, an_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pruner.metadata import IndexDefinition
    from tests.protocol.world import Process

KINDS = ("create", "create", "build", "build", "build", "drop", "compact", "vacuum", "read", "read")
_NAMES = ("a", "b", "c")


def a_program(history: History, kinds: Sequence[str], length: int) -> Callable[[Process], None]:
    """A process that does `length` operations of these kinds, each drawn when its turn comes."""

    def run(process: Process) -> None:
        table = MetadataTable.open(process.store)
        for _ in range(length):
            kind = history.world.chance.choice(kinds)
            _do(history, process, table, kind)

    return run


def _do(history: History, process: Process, table: MetadataTable, kind: str) -> None:
    operation = Operation(kind, history.world.calls)
    history.operations.append(operation)
    process.operation = operation
    try:
        _OPERATIONS[kind](history, table, operation)
        operation.outcome = "done"
    except (ConflictError, IndexDefinitionError) as error:
        operation.outcome, operation.says = "refused", str(error)
    except (StorageError, FormatError) as error:
        operation.says = str(error)
        operation.outcome = "unknown" if "unknown" in operation.says else "refused"
    operation.ended = history.world.calls


def _read(history: History, table: MetadataTable, operation: Operation) -> None:
    # What it reads was the newest when it looked, but may be old by the time it is read.
    looked_at = history.world.clock_ns
    state = table.state()
    operation.looked_ns = history.world.clock_ns - looked_at
    operation.commit = state.commit
    for entry in state.stored():
        try:
            table.store.get(entry.path, entry.size)
        except NotFoundError:
            operation.lost_ns = history.world.clock_ns - looked_at
            raise


def _create(history: History, table: MetadataTable, operation: Operation) -> None:
    index = an_index(history.world.chance.choice(_NAMES))
    operation.effect = lambda before: Known(before.indexes | {index.uuid}, before.segments)
    operation.commit = table.commit(lambda state: state.with_definition(index)).commit


def _some_index(history: History, table: MetadataTable, operation: Operation) -> IndexDefinition | None:
    """One of the indexes; if there is none, the operation only has read that."""
    state = table.state()
    if not state.definitions:
        operation.commit = state.commit
        return None
    return history.world.chance.choice(state.definitions)


def _build(history: History, table: MetadataTable, operation: Operation) -> None:
    index = _some_index(history, table, operation)
    if index is None:
        return
    written = _records(table, index)
    added = {entry.id for entry in written}
    operation.effect = lambda before: Known(before.indexes, before.segments | added)
    operation.commit = table.commit(lambda state: state.with_segments(written)).commit


def _drop(history: History, table: MetadataTable, operation: Operation) -> None:
    index = _some_index(history, table, operation)
    if index is None:
        return
    states: list[State] = []

    def change(newest: State) -> State:
        states.append(newest)
        return newest.without_definition(index)

    operation.effect = lambda before: known(
        next(each for each in reversed(states) if known(each) == before).without_definition(index)
    )
    operation.commit = table.commit(change).commit


def _compact(history: History, table: MetadataTable, operation: Operation) -> None:
    state = table.state()
    merged = {entry.batch for entry in state.segments if entry.batch is not None}
    if not merged:
        operation.commit = state.commit
        return
    gone = {entry.id for entry in state.segments if entry.batch in merged or entry.id in merged}
    index = state.definitions[0]
    written = _records(table, index)
    added = {entry.id for entry in written}
    operation.effect = lambda before: Known(before.indexes, before.segments - gone | added)
    operation.commit = table.commit(
        lambda newest: newest.without_segments(gone).with_segments(written)
    ).commit


def _vacuum(history: History, table: MetadataTable, operation: Operation) -> None:
    table.vacuum()


def _uninstall(history: History, table: MetadataTable, operation: Operation) -> None:
    table.uninstall()


def _records(table: MetadataTable, index: IndexDefinition) -> tuple[SegmentEntry, SegmentEntry]:
    """A slice batch and records of an index, whose bytes are no Parquet file: nothing here reads them."""
    batch = _segment(table, "files", None, None)
    return batch, _segment(table, "column_stats", index, batch)


def _segment(
    table: MetadataTable, partition: str, index: IndexDefinition | None, batch: SegmentEntry | None
) -> SegmentEntry:
    identifier = uuid.uuid4().hex
    data = identifier.encode()
    path = f"{partition}/{identifier}.pidx"
    table.store.put_new(path, data)
    return SegmentEntry(
        id=identifier,
        partition=partition,
        path=path,
        size=len(data),
        checksum=checksum_of(data),
        rows=1,
        definition=index.uuid if index else None,
        field=AMOUNT if index else None,
        batch=batch.id if batch else None,
    )


_OPERATIONS: dict[str, Callable[[History, MetadataTable, Operation], None]] = {
    "create": _create,
    "build": _build,
    "drop": _drop,
    "compact": _compact,
    "vacuum": _vacuum,
    "read": _read,
    "uninstall": _uninstall,
}
