"""Log entries: what was written is read back, and nothing else ever is (R10)."""

from __future__ import annotations

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import FormatError, StorageError
from pruner.metadata import FieldBinding, IndexDefinition, NewerFormatError, SegmentEntry, State, define, log
from pruner.storage.opening import open_store
from tests.unit.metadata.samples import a_table, an_index

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_PATH = st.lists(_TEXT, min_size=1, max_size=3).map(tuple)
_HEX = st.binary(min_size=16, max_size=16).map(bytes.hex)
_FIELD = st.builds(FieldBinding, path=_PATH, type=_TEXT, field_id=st.none() | st.integers(-1, 9))
_DEFINITION = st.builds(
    IndexDefinition,
    uuid=_HEX,
    name=_TEXT,
    using=_TEXT,
    fields=st.lists(_FIELD, max_size=2).map(tuple),
    all_columns=st.booleans(),
    options=st.dictionaries(_TEXT, _TEXT, max_size=2),
    where=st.none() | _TEXT,
    expression=st.none() | _TEXT,
    record_version=st.integers(1, 9),
)


@st.composite
def _states(draw: st.DrawFn) -> State:
    unique = st.lists(_DEFINITION, max_size=3, unique_by=(lambda d: d.uuid, lambda d: d.name.casefold()))
    definitions = draw(unique)
    entries: list[SegmentEntry] = []
    for number, definition in enumerate(definitions):
        batch = SegmentEntry(
            id=f"{2 * number:032x}", partition="files", path="", size=1, checksum=draw(_HEX), rows=1
        )
        records = msgspec.structs.replace(
            batch,
            id=f"{2 * number + 1:032x}",
            partition="bitmap_index",
            definition=definition.uuid,
            field=draw(_PATH),
            batch=batch.id,
        )
        entries += [batch, records]
    named = [msgspec.structs.replace(entry, path=f"{entry.partition}/{entry.id}.pidx") for entry in entries]
    return State(version=draw(st.integers(0, 10**19)), definitions=tuple(definitions), segments=tuple(named))


@given(state=_states())
def test_a_state_comes_back(state: State) -> None:
    decoded, checksum = log.decode(log.encode(state), state.version, "here")
    assert decoded == state
    assert checksum == log.checksum_of_state(state)


def _sample() -> tuple[State, bytes]:
    table, _ = a_table(open_store(f"memory://{uuid.uuid4()}"))
    return table.state(), log.encode(table.state())


def test_no_changed_byte_goes_unnoticed() -> None:
    state, data = _sample()
    assert log.decode(data, state.version, "here")[0] == state
    for position in range(len(data)):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            with pytest.raises(FormatError, match=r"the log entry here (fails|is damaged)"):
                log.decode(bytes(damaged), state.version, "here")


_SAMPLE = _sample()


@given(data=st.data())
def test_no_damage_goes_unnoticed(data: st.DataObject) -> None:
    state, stored = _SAMPLE
    start = data.draw(st.integers(0, len(stored)))
    end = data.draw(st.integers(start, len(stored)))
    damaged = stored[:start] + data.draw(st.binary(max_size=20)) + stored[end:]
    try:
        decoded, _ = log.decode(damaged, state.version, "here")
    except FormatError:
        return
    # Only white space around the tokens of the envelope can be added.
    assert decoded == state


def test_truncated_empty_and_foreign_content() -> None:
    state, data = _SAMPLE
    contents = [data[:length] for length in range(0, len(data), 7)]
    contents += [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"checksum":"","state":{}}',
        data * 2,
    ]
    for content in contents:
        with pytest.raises(FormatError, match="the log entry here"):
            log.decode(content, state.version, "here")


def _sealed(content: object) -> bytes:
    payload = msgspec.json.encode(content)
    return b'{"checksum":"%s","state":%s}' % (log.checksum_of(payload).encode(), payload)


def test_an_entry_under_another_number_is_refused() -> None:
    state, data = _SAMPLE
    with pytest.raises(FormatError, match=f"is that of version {state.version}"):
        log.decode(data, state.version + 1, "here")


@pytest.mark.parametrize(
    "change",
    [
        {"version": -1},
        {"min_reader": 0},
        {"definitions": [{"uuid": "short", "name": "n", "using": "u", "fields": []}]},
        {"segments": [{"id": "x"}]},
        {"segments": "none"},
        {"parent": "ABC"},
    ],
)
def test_a_sealed_entry_of_wrong_content_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        log.decode(_sealed(msgspec.to_builtins(State(version=3)) | change), 3, "here")


def test_states_that_contradict_themselves_are_refused() -> None:
    one = an_index("one")
    batch = SegmentEntry(id="0" * 32, partition="files", path="files/a", size=1, checksum="0" * 32, rows=1)
    other = msgspec.structs.replace(batch, id="1" * 32, path="files/b")
    records = msgspec.structs.replace(
        batch, id="2" * 32, path="c/d", partition="column_stats", definition=one.uuid, batch=batch.id
    )
    replace = msgspec.structs.replace
    wrong = {
        "index name twice": State(definitions=(one, an_index("ONE"))),
        "index UUID twice": State(definitions=(one, replace(one, name="two"))),
        "segment twice": State(segments=(batch, replace(other, id=batch.id))),
        "path twice": State(segments=(batch, replace(other, path=batch.path))),
        "an index that does not exist": State(segments=(batch, records)),
        "a slice batch that does not exist": State(definitions=(one,), segments=(other, records)),
    }
    for says, state in wrong.items():
        with pytest.raises(FormatError, match=says):
            log.decode(log.encode(state), 0, "here")
    State(definitions=(one,), segments=(batch, other, records)).check()


def test_a_newer_format_is_told_apart_from_damage() -> None:
    newer = {"format_version": 7, "min_reader": 2, "everything": "else is different"}
    with pytest.raises(NewerFormatError, match=r"format 7.*newer pruner.*upgrade"):
        log.decode(_sealed(newer), 1, "here")


def test_fields_that_a_newer_pruner_added_do_not_matter() -> None:
    later = msgspec.to_builtins(State(version=4)) | {"added_later": [1, 2], "format_version": 2}
    state, _ = log.decode(_sealed(later), 4, "here")
    assert (state.version, state.format_version) == (4, 2)


def test_an_entry_that_readers_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LOG_ENTRY_BYTES", 1000)
    with pytest.raises(StorageError, match="compact it"):
        log.encode(State(definitions=tuple(define(f"i{n}", "x", (), all_columns=True) for n in range(20))))


def test_names_of_entries_sort_as_their_numbers() -> None:
    numbers = [0, 1, 9, 10, 99_999_999_999, 10**19]
    paths = [log.entry_path(number) for number in numbers]
    assert paths == sorted(paths)
    assert [log.version_of(path) for path in paths] == numbers
    assert all(
        log.version_of(path) is None for path in ("log/1.json", "log/x.json", paths[0] + "~", "x" + paths[0])
    )
