"""Log entries of a newer pruner, or damaged ones: reported in one sentence, and nothing else is affected (R10)."""

from __future__ import annotations

import msgspec
import pytest

from pruner.errors import FormatError
from pruner.metadata import MetadataTable, NewerFormatError, define, log
from pruner.storage.store import Store
from tests.unit.metadata.samples import a_table, add_index, an_index, write_records


def _beside(table: MetadataTable) -> MetadataTable:
    """Another writer at the same location, with nothing cached."""
    return MetadataTable.open(table.store)


def _write_raw(table: MetadataTable, version: int, changes: dict[str, object]) -> None:
    """Write a log entry like another version of pruner."""
    payload = msgspec.json.encode(msgspec.to_builtins(table.state()) | {"version": version} | changes)
    data = b'{"checksum":"%s","state":%s}' % (log.checksum_of(payload).encode(), payload)
    assert table.store.put_if_absent(log.entry_path(version), data)


def _contents(store: Store) -> dict[str, bytes]:
    return {info.path: store.get(info.path, info.size) for info in store.list()}


def test_a_newer_format_stops_readers_and_writers_in_one_sentence(store: Store) -> None:
    table, _ = a_table(store)
    _write_raw(table, 3, {"format_version": 2, "min_reader": 2, "min_writer": 2})
    before = _contents(store)
    for use in (table.state, lambda: add_index(table, an_index("x")), table.vacuum, table.uninstall):
        with pytest.raises(NewerFormatError, match="upgrade it"):
            use()
    assert any("upgrade it" in problem for problem in table.verify())
    assert _contents(store) == before


def test_a_format_for_newer_writers_is_still_read(store: Store) -> None:
    table, definition = a_table(store)
    _write_raw(table, 3, {"format_version": 2, "min_writer": 2, "later": "field"})
    before = _contents(store)
    assert table.state().definitions == (definition,)
    assert table.read_segment(table.state().segments[1]).num_rows == 5
    for use in (lambda: add_index(table, an_index("x")), table.vacuum, table.uninstall):
        with pytest.raises(NewerFormatError, match="this one writes up to format 1"):
            use()
    assert _contents(store) == before


def test_known_wrong_i4_what_is_not_known_here_is_kept_and_hinders_nobody(store: Store) -> None:
    """I4: one unusable index makes the other indexes or the query fail."""
    table, usable = a_table(store)
    newer = define("vectors", "vector", an_index().fields, options={"lists": "8"}, record_version=9)
    add_index(table, newer)
    written = write_records(table, newer, range(3))
    table.commit(lambda state: state.with_segments(written))
    known = {"column_stats": 1}
    state = add_index(_beside(table), an_index("third"))
    assert state.definition("vectors") == newer
    assert len(state.segments_of(newer)) == 1
    assert [bool(definition.why_unusable(known)) for definition in state.definitions] == [False, True, False]
    # A broken segment of one index leaves those of the others unchanged.
    broken = state.segments_of(newer)[0]
    store.delete([broken.path])
    store.put_new(broken.path, b"x" * broken.size)
    with pytest.raises(FormatError):
        table.read_segment(broken)
    assert table.read_segment(state.segments_of(usable)[0]).num_rows == 5
    assert [broken.path in problem for problem in table.verify()] == [True]


def test_a_damaged_newest_entry_is_reported_and_never_stepped_over(store: Store) -> None:
    table, definition = a_table(store)
    table.commit(lambda state: state.without_definition(definition))
    path = log.entry_path(3)
    data = store.get(path, 1 << 20)
    store.delete([path])
    store.put_new(path, data[: len(data) // 2])
    before = _contents(store)
    fresh = _beside(table)
    for use in (fresh.state, lambda: add_index(fresh, an_index("x")), fresh.vacuum, fresh.unreferenced):
        with pytest.raises(FormatError, match="delete it to go back to the version before"):
            use()
    assert _contents(store) == before
    assert len(fresh.verify()) == 1
    # The remedy in the message works.
    store.delete([path])
    assert fresh.state().definitions == (definition,)
    assert fresh.verify() == []
