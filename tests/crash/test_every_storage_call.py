"""Each command fails at each of its storage calls, one after the other: no row is lost, and a retry sets it right."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import pruner
from pruner.errors import PrunerError
from pruner.metadata import MetadataTable, receipts
from pruner.pipeline import batches, slices
from pruner.storage.opening import open_store
from tests.crash.builders import write_files
from tests.crash.failing_store import FailingStore, How, Killed
from tests.support.profiles import examples

pytestmark = pytest.mark.load

COUNT = 6

COMMANDS: Mapping[str, Callable[[pruner.Table], object]] = {
    "create": lambda table: table.create_index("new", on=["x", "s"], using="bitmap", if_not_exists=True),
    "refresh": lambda table: table.refresh(),
    "compact": lambda table: table.compact(),
    "vacuum": lambda table: table.vacuum(grace_seconds=0),
    "drop": lambda table: table.drop_index("old", if_exists=True),
}


@dataclass(frozen=True)
class Made:
    """A table, and the objects of a metadata table that holds something for every command to do."""

    root: Path
    objects: Mapping[str, bytes]

    def place(self) -> str:
        """A copy of the metadata table."""
        place = f"memory://{uuid.uuid4()}/t.pruner"
        store = open_store(place)
        for path, data in self.objects.items():
            store.put_new(path, data)
        return place

    def open(self, place: str) -> pruner.Table:
        """The table as a new process opens it."""
        return pruner.open_table(self.root, index_uri=place)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two batches of an index, segments that nothing refers to, and files that are not indexed yet."""
    root = tmp_path_factory.mktemp("lake") / "t"
    place = f"memory://{uuid.uuid4()}/t.pruner"
    write_files(root, range(2))
    table = pruner.open_table(root, index_uri=place)
    table.create_index("old", on=["x", "s"])
    table.create_index("gone", on="x", using="bloom_filter")
    write_files(root, range(2, 4))
    table.refresh()
    table.drop_index("gone")
    write_files(root, range(4, COUNT))
    store = open_store(place)
    return Made(root, {info.path: store.get(info.path, 1 << 30) for info in store.list()})


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of all files has two batches, so that it can end between them."""
    monkeypatch.setattr(slices, "CHUNK_SLICES", COUNT // 2)
    monkeypatch.setattr(batches, "BATCH_SLICES", COUNT // 2)


def assert_sound(table: pruner.Table) -> None:
    """Whatever is covered, the file that holds a value is kept, and what is stored is whole."""
    for number in range(COUNT):
        assert f"{number:04}.parquet" in [Path(uri).name for uri in table.plan(f"x = {2 * number}").files]
    assert table.verify() == []


def assert_not_empty(table: pruner.Table, name: str) -> None:
    """An index that is defined has records, or records that the next refresh takes up."""
    metadata = MetadataTable(open_store(table.index_uri))
    definition = metadata.state().definition(name)
    waiting = [entry for receipt in receipts.receipts(metadata.store) for entry in receipt.records]
    found = {entry.definition for entry in (*metadata.state().segments, *waiting)}
    assert definition is None or definition.uuid in found


def assert_right_after(command: str, table: pruner.Table) -> None:
    """The command and a refresh leave what they leave when nothing fails, and a vacuum frees the rest."""
    COMMANDS[command](table)
    result = table.refresh()
    assert result.failures == ()
    names = {"create": {"old", "new"}, "drop": set[str]()}.get(command, {"old"})
    assert {index.name for index in table.indexes()} == names
    assert all((index.covered, index.uncovered) == (COUNT, {}) for index in table.status().indexes)
    if names:
        assert [table.plan(f"x = {2 * number}").kept for number in range(COUNT)] == [1] * COUNT
        assert table.plan("x = -1").kept == 0
    table.vacuum(grace_seconds=0)
    store = open_store(table.index_uri)
    metadata = MetadataTable(store)
    assert metadata.unreferenced() == []
    assert receipts.receipts(store) == []
    known = {entry.path for entry in metadata.state().stored()}
    assert {info.path for info in store.list() if not info.path.startswith("log/")} == known
    assert table.verify() == []


@pytest.mark.parametrize("how", How, ids=lambda how: how.name.lower())
@pytest.mark.parametrize("command", COMMANDS)
def test_a_failure_at_every_storage_call(command: str, how: How, made: Made) -> None:
    # Of the others every call in a soak; where they differ from the first, they do so at most calls alike.
    stride = 1 if how is How.KILLED else max(1, 160 // examples(40))
    at = 0
    while True:
        place = made.place()
        table = made.open(place)
        store = FailingStore(open_store(place), at, how)
        table._metadata.store = store
        ended, calls = _outcome(COMMANDS[command], table), store.calls
        after = made.open(place)
        assert_sound(after)
        if how is How.INTERRUPTED and command == "create":
            assert_not_empty(after, "new")
        if how is not How.KILLED:
            # The same process goes on, once there is room again.
            store.make_room()
            assert_sound(table)
            after = table
        assert_right_after(command, after)
        if ended is None and calls <= at:
            break
        at += stride
    print(f"{command}: {how.name} at every {stride}. of {at} storage calls")
    assert at >= 4


def _outcome(command: Callable[[pruner.Table], object], table: pruner.Table) -> BaseException | None:
    """How a command ended; a failure that is told is told in one sentence."""
    try:
        command(table)
    except (Killed, KeyboardInterrupt) as ended:
        return ended
    except PrunerError as error:
        told = error
    else:
        return None
    assert 20 < len(str(told)) < 400
    assert "\n" not in str(told)
    return told
