"""How many keys a record index has, and where they are, whichever of them are in base files and in log files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pruner.tables.hudi.metadata.locations as module
from pruner.storage.opening import open_store
from pruner.tables.hudi.hfile.reader import Held, HFile
from pruner.tables.hudi.metadata import counting
from pruner.tables.hudi.metadata.counting import count_keys
from pruner.tables.hudi.metadata.indexes import HudiIndexes, StatCache
from pruner.tables.hudi.metadata.locations import RecordLocations
from pruner.tables.hudi.metadata.partition import FileGroup, MetadataLogBlock
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.made_up.groups import EVERYTHING, KEY, Keyed
from tests.support.hudi.made_up.hfiles import HFileWriter
from tests.support.hudi.made_up.keys import SCHEMA_TEXT, entry, location
from tests.support.hudi.made_up.metadata import INITIAL, Stat
from tests.unit.tables.hudi.test_hfile import Counting

LATER = "20260101000000002"
PARTITIONS = ("city=a", "city=b", "city=c")
_ID = "00000000-0000-4000-8000-000000000000-0"
KEYS = st.integers(0, 12).map(str)
PUTS = st.dictionaries(KEYS, st.sampled_from(PARTITIONS), max_size=8)
DELETIONS = st.frozensets(KEYS, max_size=3)


@pytest.fixture
def logged(tmp_path: Path) -> Keyed:
    """A table whose record index is unchanged since its first commit: all keys are in log files."""
    found = Keyed(tmp_path / "table")
    found.keys.begin()
    found.keys.log(INITIAL, found.places())
    return found


def counted(keyed: Keyed, most: int) -> int | None:
    root = str(keyed.table.root)
    indexes = HudiIndexes(root, {}, read_timeline(open_store(root, {})), StatCache())
    return count_keys(indexes.groups("record_index"), most=most)


def hfile(cells: Mapping[str, bytes], *, block_bytes: int = 1 << 16) -> HFile:
    writer = HFileWriter(info={b"schema": SCHEMA_TEXT.encode()}, block_bytes=block_bytes)
    return HFile(Held("made up", writer.write(sorted((key.encode(), cells[key]) for key in cells))))


def group(
    base: Mapping[str, str] | None, layers: Iterable[Mapping[str, str] | frozenset[str]], number: int = 0
) -> FileGroup:
    """A file group of keys in partitions, and of deleted keys."""

    def located(places: Mapping[str, str]) -> HFile:
        return hfile({key: location(partition, _ID) for key, partition in places.items()}, block_bytes=60)

    blocks = [
        MetadataLogBlock(str(place), None, frozenset(key.encode() for key in layer))
        if isinstance(layer, frozenset)
        else MetadataLogBlock(str(place), located(layer), frozenset())
        for place, layer in enumerate(layers)
    ]
    return FileGroup(
        f"record-index-{number:04}-0", "", None if base is None else located(base), tuple(blocks)
    )


@given(base=st.none() | PUTS, layers=st.lists(PUTS | DELETIONS, max_size=5), asked=st.lists(KEYS))
def test_keys_are_counted_and_found_as_the_layers_say(
    base: Mapping[str, str] | None, layers: Sequence[Mapping[str, str] | frozenset[str]], asked: Sequence[str]
) -> None:
    expected = dict(base or {})
    for layer in layers:
        if isinstance(layer, frozenset):
            expected = {key: place for key, place in expected.items() if key not in layer}
        else:
            expected |= layer
    made = group(base, layers)
    assert count_keys([made]) == len(expected)
    locations = RecordLocations([made])
    for _ in range(2):  # read, then cached
        found = {key: place.partition for key, place in locations.find(asked).items()}
        assert found == {key: expected[key] for key in asked if key in expected}


@pytest.mark.slow
def test_an_index_in_log_files_alone_is_believed(logged: Keyed) -> None:
    """Nothing of it is read to count it."""
    assert counted(logged, most=0) == 40
    assert [logged.kept(f"id = {id_}") for id_ in (3, 15, 77)] == [[0], [1], []]
    assert logged.kept("id IN (3, 35)") == [0, 3]


@pytest.mark.slow
def test_keys_above_the_first_log_files_are_read_to_be_counted(logged: Keyed) -> None:
    logged.metadata.complete(LATER)
    logged.keys.log(LATER, {"15": logged.groups[2], "88": logged.groups[0]}, deleted=["7"])
    assert counted(logged, most=2) is None
    assert counted(logged, most=3) == 40
    assert [logged.kept(f"id = {id_}") for id_ in (15, 88, 7)] == [[2], [0], []]


def test_a_large_first_log_file_is_not_gone_through(logged: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are counted by its trailer; keys above it would have to be looked up in it."""
    monkeypatch.setattr(counting, "MOST_COMPARED", 2)
    assert counted(logged, most=0) == 40
    logged.keys.log(INITIAL, {"15": logged.groups[2]})
    assert counted(logged, most=9) is None
    assert logged.kept("id = 15") == EVERYTHING
    assert "too many of its keys are in log files" in logged.notes("id = 15")


def test_an_empty_base_file_is_not_the_lowest(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path / "table")
    keyed.keys.locate({})
    keyed.keys.log(INITIAL, keyed.places())
    assert counted(keyed, most=0) == 40
    assert keyed.kept("id = 15") == [1]


def test_a_key_that_two_commits_wrote_is_not_believed(logged: Keyed) -> None:
    """Both wrote a row with the key 15, into two files; the log files have as many cells as there are rows."""
    logged.keys.log(INITIAL, {"15": logged.groups[3]})
    logged.metadata.append(INITIAL, logged.stats(3, values=11))
    assert counted(logged, most=1) == 40
    assert logged.kept("id = 15") == EVERYTHING
    assert "it has 40 keys and the files have 41 rows" in logged.notes("id = 15")


def test_the_first_log_file_may_not_be_lost(logged: Keyed) -> None:
    logs = sorted((logged.metadata.root / "record_index").glob(".*.log.*"))
    stats = [
        {"fileId": f"record-index-{number:04}-0", "logFiles": [log.name]} for number, log in enumerate(logs)
    ]
    commit = logged.metadata.root / ".hoodie" / f"{INITIAL}.deltacommit"
    commit.write_text(json.dumps({"partitionToWriteStats": {"record_index": stats}}))
    assert logged.kept("id = 15") == [1]
    logs[0].unlink()
    assert logged.kept("id = 15") == EVERYTHING


def test_deletions_among_the_entries_of_a_log_file_are_counted() -> None:
    """The first log file is read only if its records can be marked as deleted."""
    cells = {"a$1": entry("1"), "b$2": entry("2", deleted=True)}
    block = MetadataLogBlock("", hfile(cells), frozenset())
    assert count_keys([FileGroup("", "", None, (block,))], marked=True) == 1
    assert count_keys([FileGroup("", "", None, (block,))], marked=True, most=1) is None
    assert count_keys([FileGroup("", "", hfile(cells), ())], marked=True, most=0) == 2


def test_known_locations_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_KEYS", 4)
    cells = {str(number).encode(): location("city=a", _ID) for number in range(10)}
    source = Counting(HFileWriter(info={b"schema": SCHEMA_TEXT.encode()}).write(sorted(cells.items())))
    locations = RecordLocations([FileGroup("record-index-0000-0", "", HFile(source), ())])

    def reads(*keys: str) -> int:
        source.ranges.clear()
        assert set(locations.find(keys)) == {key for key in keys if len(key) == 1}
        return len(source.ranges)

    assert [reads("1", "11"), reads("1", "11")] == [1, 0], "one look-up, and it is known that 11 is not there"
    assert [reads("2", "3"), reads("4"), reads("4", "3"), reads("1")] == [1, 1, 0, 1]
    assert reads(*map(str, range(10))) == 1
    assert len(locations._known) == 4  # pyright: ignore[reportPrivateUsage]


@pytest.mark.slow
def test_keys_that_java_sorts_differently_are_found(tmp_path: Path) -> None:
    """In a base file and in log files, among other keys and for counting."""
    keyed = Keyed(tmp_path / "table")
    wide = [Stat(each.partition, each.base, KEY, "0", "\U0010ffff", values=10) for each in keyed.groups]
    keyed.metadata.append(INITIAL, wide)
    odd = {"\U0001f600": 0, "\U0001f601": 1, "\ue000": 2, "！": 3, "！a": 0, "a！": 1, "a\U0001f600": 2}
    places = keyed.places()
    for number, (key, place) in enumerate(odd.items()):
        del places[str(number)]
        places[key] = keyed.groups[place]
    keyed.keys.locate(places)
    for _ in range(2):
        for key, place in odd.items():
            assert keyed.kept(f"{KEY} = '{key}'") == [place]
        assert keyed.kept(f"{KEY} IN ('15', '！', '\U0001f600')") == [0, 1, 3]
        assert keyed.kept(f"{KEY} = '！b'") == []
        keyed.keys.log(INITIAL, {key: places[key] for key in odd})
