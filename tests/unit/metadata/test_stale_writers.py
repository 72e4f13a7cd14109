"""Writers that start from a base which others have superseded: the others' commits survive (R9).

The first four are the scenarios of linkedin/openhouse#620, each of which once lost a commit there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pruner.errors import ConflictError
from pruner.metadata import IndexDefinition, MetadataTable, SegmentEntry, State
from pruner.storage.store import Store
from tests.unit.metadata.samples import a_table, add_index, an_index, write_records

Change = Callable[[State], State]


def commit_late(table: MetadataTable, change: Change, others: Callable[[], object]) -> list[int]:
    """Commit a change while others commit between its read and its write; return the versions that it was made from."""
    bases: list[int] = []

    def late(state: State) -> State:
        bases.append(state.version)
        changed = change(state)
        if len(bases) == 1:
            others()
        return changed

    table.commit(late)
    return bases


def add_records(table: MetadataTable, index: IndexDefinition, numbers: range) -> tuple[SegmentEntry, ...]:
    """Commit records of more slices, and return what was added."""
    written = write_records(table, index, numbers)
    table.commit(lambda state: state.with_segments(written))
    return written


def test_two_writers_race_for_the_first_commit(store: Store) -> None:
    mine, theirs = an_index("mine"), an_index("theirs")
    table, other = MetadataTable(store), MetadataTable(store)
    bases = commit_late(table, lambda state: state.with_definition(mine), lambda: add_index(other, theirs))
    assert bases == [0, 1]
    assert MetadataTable(store).state().definitions == (theirs, mine)


def test_segments_are_merged_while_others_are_added(store: Store) -> None:
    table, index = a_table(store)
    other = MetadataTable(store)
    old = table.state().segments
    merged = write_records(table, index, range(5))
    added: list[SegmentEntry] = []
    bases = commit_late(
        table,
        lambda state: state.without_segments([entry.id for entry in old]).with_segments(merged),
        lambda: added.extend(add_records(other, index, range(5, 9))),
    )
    assert bases == [2, 3]
    assert set(MetadataTable(store).state().segments) == {*merged, *added}


def test_a_change_without_records_while_some_are_added(store: Store) -> None:
    table, index = a_table(store)
    other = MetadataTable(store)
    old = table.state().segments
    added: list[SegmentEntry] = []
    new = an_index("new")
    bases = commit_late(
        table,
        lambda state: state.with_definition(new),
        lambda: added.extend(add_records(other, index, range(5, 9))),
    )
    assert bases == [2, 3]
    state = MetadataTable(store).state()
    assert (state.definitions, set(state.segments)) == ((index, new), {*old, *added})


def test_two_writers_add_records_to_a_table_that_has_some(store: Store) -> None:
    table, index = a_table(store)
    other = MetadataTable(store)
    old = table.state().segments
    mine = write_records(table, index, range(9, 12))
    added: list[SegmentEntry] = []
    bases = commit_late(
        table,
        lambda state: state.with_segments(mine),
        lambda: added.extend(add_records(other, index, range(5, 9))),
    )
    assert bases == [2, 3]
    assert set(MetadataTable(store).state().segments) == {*old, *added, *mine}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("grace", [7 * 24 * 3600, 0])
def test_a_writer_that_sleeps_through_fifty_commits_and_a_vacuum(store: Store, grace: int) -> None:
    """Its segments are too young for a vacuum; a vacuum without grace deletes them, and the writer gets an error."""
    table, index = a_table(store)
    mine = write_records(table, index, range(5, 9))

    def others() -> None:
        other = MetadataTable(store)
        for number in range(50):
            add_index(other, an_index(f"other {number}"))
        other.vacuum(grace)

    def change(state: State) -> State:
        return state.with_segments(mine)

    if grace:
        assert commit_late(table, change, others) == [2, 52]
    else:
        with pytest.raises(ConflictError, match="refresh again|went on meanwhile"):
            commit_late(table, change, others)
    state = MetadataTable(store).state()
    assert len(state.definitions) == 51
    assert set(mine) <= set(state.segments) if grace else not set(mine) & set(state.segments)
    assert MetadataTable(store).verify() == []
