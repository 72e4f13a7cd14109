"""Commits whose writer does not learn at once whether they stand: lost answers, and what others did since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pruner.errors import StorageError
from pruner.metadata import MetadataTable, log
from pruner.storage.local import LocalStore
from pruner.storage.opening import open_store
from pruner.storage.store import ObjectInfo, RefusedError, Store
from tests.unit.metadata.s3_server import serve
from tests.unit.metadata.samples import a_table, add_index, an_index


def test_a_commit_stands_when_a_vacuum_took_the_entry_before_it(store: Store) -> None:
    """The writer slept between its put and its check, while others continued."""

    class Slow:
        def __init__(self) -> None:
            self.asleep = True

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            won = store.put_if_absent(path, data)
            if won and self.asleep:
                self.asleep = False
                for number in range(10):
                    add_index(MetadataTable.open(store), an_index(f"other {number}"))
                store.delete(log.entry_path(version) for version in (1, 2))
            return won

    a_table(store)
    slow: Any = Slow()
    assert add_index(MetadataTable.open(slow), an_index("mine")).version == 3
    assert MetadataTable.open(store).state().definition("mine") is not None


@pytest.mark.sampled(3)
def test_a_commit_of_which_nothing_is_left_to_see_is_unknown(store: Store) -> None:
    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            won = store.put_if_absent(path, data)
            for number in range(10):
                add_index(MetadataTable.open(store), an_index(f"other {number}"))
            store.delete(log.entry_path(version) for version in range(1, 6))
            return won

    a_table(store)
    slow: Any = Slow()
    with pytest.raises(
        StorageError, match=r"went on to version 13 meanwhile; whether the change was committed"
    ):
        add_index(MetadataTable.open(slow), an_index("mine"))


@pytest.mark.parametrize("version", [1, 3])
def test_the_entry_of_a_table_begun_anew_is_not_taken_back(store: Store, version: int) -> None:
    """The writer slept after its put; meanwhile the table was removed, and others put an entry where its own was."""

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            won = store.put_if_absent(path, data)
            store.delete([info.path for info in store.list()])
            for number in range(version):
                add_index(MetadataTable.open(store), an_index(f"other {number}"))
            return won

    for number in range(version - 1):
        add_index(MetadataTable.open(store), an_index(f"before {number}"))
    slow: Any = Slow()
    with pytest.raises(
        StorageError, match="started anew meanwhile; whether the change was committed is unknown"
    ):
        add_index(MetadataTable.open(slow), an_index("mine"))
    state = MetadataTable.open(store).state()
    assert [entry.name for entry in state.definitions] == [f"other {number}" for number in range(version)]


class Torn:
    """A store whose next listing of a growing log shows concurrent entries, except those of some versions."""

    def __init__(self, store: Store, others: int, unseen: set[int]) -> None:
        self._store = store
        self._others = others
        self._unseen = {log.entry_path(version) for version in unseen}
        self._grows = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._grows = True
        return self._store.put_if_absent(path, data)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        if not self._grows:
            return self._store.list(prefix, after=after)
        self._grows = False
        early = self._store.list(prefix, after=after)
        for number in range(self._others):
            add_index(MetadataTable.open(self._store), an_index(f"other {number}"))
        found = {info.path: info for info in (*early, *self._store.list(prefix, after=after))}
        return sorted(info for path, info in found.items() if path not in self._unseen)


def test_a_listing_that_misses_the_next_entry_is_no_proof_of_a_gap(store: Store) -> None:
    """Two others commit while the folder is listed; the listing shows only the second of them."""
    a_table(store)
    torn: Any = Torn(store, others=2, unseen={4})
    assert add_index(MetadataTable.open(torn), an_index("mine")).version == 3
    names = [entry.name for entry in MetadataTable.open(store).state().definitions]
    assert names == ["amount_idx", "mine", "other 0", "other 1"]
    assert MetadataTable.open(store).verify() == []


def test_a_listing_of_two_moments_is_no_proof_that_the_entry_before_is_anothers(store: Store) -> None:
    """While the folder is listed others commit, and a vacuum removes the entry before: one half shows neither."""
    a_table(store)
    torn: Any = Torn(store, others=3, unseen={2, 4, 5, 6})
    assert add_index(MetadataTable.open(torn), an_index("mine")).version == 3
    assert MetadataTable.open(store).state().version == 6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unseen", [{2}, {2, 3}])
def test_a_listing_with_a_gap_is_no_damage(store: Store, unseen: set[int]) -> None:
    """`verify` reads a log to which others are adding."""
    a_table(store)
    torn: Any = Torn(store, others=5, unseen=unseen)
    torn._grows = True
    assert MetadataTable.open(torn).verify() == []


@pytest.mark.parametrize("repeated", [False, True])
def test_a_first_entry_put_again_behind_the_log_is_no_proof_of_failure(store: Store, repeated: bool) -> None:
    """The first entry is put twice, to check the store.

    The writer slept between the two puts. Meanwhile others read the first one, committed on top of it and removed it;
    and the network may deliver the second request twice.
    """

    class Slow:
        puts = 0

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            self.puts += 1
            if self.puts == 2:
                for number in range(3):
                    add_index(MetadataTable.open(store), an_index(f"other {number}"))
                store.delete(log.entry_path(version) for version in range(1, 3))
            won = store.put_if_absent(path, data)
            return store.put_if_absent(path, data) if repeated and self.puts == 2 else won

    slow: Any = Slow()
    with pytest.raises(StorageError, match="went on meanwhile; whether the change was committed is unknown"):
        add_index(MetadataTable.open(slow), an_index("mine"))
    assert [info.path for info in store.list("log")] == [log.entry_path(version) for version in (3, 4)]
    names = [entry.name for entry in MetadataTable.open(store).state().definitions]
    assert names == ["mine", "other 0", "other 1", "other 2"]


def test_a_successor_proves_a_commit(store: Store) -> None:
    """Between our put and our check another writer commits on top of us: that is success, not a conflict."""

    class Busy:
        def __init__(self) -> None:
            self.done = False

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            won = store.put_if_absent(path, data)
            if won and not self.done:
                self.done = True
                add_index(MetadataTable.open(store), an_index("on top"))
            return won

    _, definition = a_table(store)
    table = MetadataTable.open(Busy())  # type: ignore[arg-type]
    assert table.commit(lambda state: state.without_definition(definition)).version == 3
    assert [entry.name for entry in table.state().definitions] == ["on top"]


class _Unreliable(LocalStore):
    """A store behind a network that loses requests and answers."""

    fault = ""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.fault == "rival vanished":
            self.fault = ""
            return False
        if self.fault == "request lost":
            raise StorageError("the connection broke")
        if self.fault == "refused":
            raise RefusedError("the store refuses")
        won = super().put_if_absent(path, data)
        if self.fault in ("answer lost", "cut off"):
            raise StorageError("the connection broke")
        return won and not self.fault.endswith("repeated by the client")

    def get(self, path: str, max_bytes: int) -> bytes:
        if self.fault.startswith("cut off") and self.exists(log.entry_path(3)):
            raise StorageError("no route")
        return super().get(path, max_bytes)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        if self.fault == "cut off after the put" and self.exists(log.entry_path(3)):
            raise StorageError("no route")
        return super().list(prefix, after=after)


@pytest.mark.parametrize(
    ("fault", "stands", "says"),
    [
        ("answer lost", True, None),
        ("answer lost, repeated by the client", True, None),
        ("rival vanished", True, None),
        ("request lost", False, "the connection broke; whether the change was committed is unknown"),
        ("refused", False, "the store refuses$"),
        ("cut off", True, "the connection broke; whether the change was committed is unknown"),
        ("cut off, repeated by the client", True, "no route; whether the change was committed is unknown"),
        ("cut off after the put", True, "no route; whether the change was committed is unknown"),
    ],
)
def test_lost_answers(tmp_path: Path, fault: str, stands: bool, says: str | None) -> None:
    store = _Unreliable(str(tmp_path))
    table, _ = a_table(store)
    store.fault = fault
    if says:
        with pytest.raises(StorageError, match=says):
            add_index(table, an_index("new"))
    else:
        add_index(table, an_index("new"))
    store.fault = ""
    assert (table.state().definition("new") is not None) is stands
    assert table.state().version == (3 if stands else 2)


def test_a_store_that_overwrites_is_refused_at_once() -> None:
    with serve(conditional=False) as (options, server):
        table = MetadataTable.open(open_store("s3://bucket/t.pruner", options))
        with pytest.raises(StorageError, match=r"overwrites existing objects.*index_uri"):
            add_index(table, an_index())
        assert server.objects == {}
