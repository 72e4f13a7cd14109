"""Writers that run in processes of their own and die there."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from pruner.metadata import MetadataTable
from pruner.storage.opening import open_store
from tests.crash.dying import Fate
from tests.unit.metadata.samples import AMOUNT, IDENTITY, an_index, batch_records, statistics


def add_pair(table: MetadataTable, name: str) -> int:
    """Add two indexes with their records in one commit; return its version."""
    pair = [an_index(f"{name}.a"), an_index(f"{name}.b")]
    batch = table.write_segment("files", batch_records(range(4)))
    records = [
        table.write_segment("column_stats", statistics(4), definition=index, field=AMOUNT, batch=batch)
        for index in pair
    ]

    def change(state: Any) -> Any:
        state = state if state.matches(IDENTITY) else state.without_coverage(IDENTITY)
        for index in pair:
            state = state.with_definition(index)
        return state.with_segments([batch, *records])

    return table.commit(change).version


def keep_adding(place: str, writer: int, acknowledge: Connection, limit: int) -> None:
    """Add pair after pair, and report each committed one to the other side."""
    table = MetadataTable.open(open_store(place))
    acknowledge.send("ready")
    for number in range(limit):
        name = f"{writer}-{number}"
        add_pair(table, name)
        acknowledge.send(name)


def die_at(place: str, step: int, acknowledge: Connection) -> None:
    """Create, change and clean a metadata table, but die by SIGKILL before the disk change with this number."""
    fate = Fate(step)
    table = MetadataTable.open(open_store(place))

    def survive(action: Callable[[], object], what: str) -> None:
        with fate.meeting():
            action()
        acknowledge.send(what)

    survive(lambda: add_pair(table, "1"), "1")
    survive(lambda: add_pair(table, "2"), "2")
    first = table.state().definitions[0]
    survive(lambda: table.commit(lambda state: state.without_definition(first)), "drop")
    survive(lambda: table.vacuum(0), "vacuum")
    acknowledge.send("done")
