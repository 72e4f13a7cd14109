"""Which keys an answer's bits belong to: those of exactly the files that were planned on, in their order."""

from __future__ import annotations

import base64
import hashlib
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pruner
from pruner.service import Settings
from pruner.service.app import KEPT_SNAPSHOTS, KeyCache
from pruner.service.planning import slice_keys
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.running.patience import PATIENT
from tests.unit.service.conftest import Client, running

FOLDERS = ("city=a", "city=b", "city=c")


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """One Hudi table and a copy of it, both indexed and in one `pruner.toml`: their timelines are the same."""
    first, second = tmp_path / "first", tmp_path / "second"
    SyntheticTable(first).insert(FOLDERS)
    shutil.copytree(first, second)
    for root in (first, second):
        pruner.open_table(root).create_index("ids", on="id")
    (tmp_path / "pruner.toml").write_text('[tables.first]\nuri = "first"\n[tables.second]\nuri = "second"\n')
    monkeypatch.chdir(tmp_path)
    return first, second


def test_two_copies_of_one_table_have_keys_of_their_own(copies: tuple[Path, Path]) -> None:
    """Keys were cached by the snapshot's id, which copies share: with the keys of one, the other pruned nothing."""
    with running(Settings(limits=PATIENT)) as client:
        cached: dict[str, bytes] = {}
        for root in copies:
            answer = _planned(client, root.name)
            assert (answer["kept"], answer["total"]) == (0, len(FOLDERS))
            # A client caches keys by the id that the answer names, however it got them.
            keys = cached.setdefault(answer["snapshot_id"], base64.b64decode(answer["keys"]))
            assert _dropped(answer, keys) == _keys(root)
            assert client.get(f"/v1/snapshots/{answer['snapshot_id']}/keys").body == keys


def test_the_bits_of_another_order_are_no_bits_for_keys_that_are_known(copies: tuple[Path, Path]) -> None:
    """A restarted worker may list the files of the same snapshot in another order."""
    snapshot = pruner.open_table(copies[0]).snapshot().data
    turned = np.arange(len(snapshot))[::-1]
    other = replace(snapshot, columns=snapshot.rows(pa.array(turned, pa.int64())))
    cache = KeyCache()
    first, second = cache.of("first", snapshot), cache.of("first", other)
    assert first.id != second.id
    assert (cache.known(first.id), cache.known(second.id)) == (slice_keys(snapshot), slice_keys(other))
    assert cache.of("first", snapshot) == first
    assert cache.known("nothing") is None


def test_the_keys_of_snapshots_that_a_table_has_left_behind_are_forgotten(copies: tuple[Path, Path]) -> None:
    """A table of 10,000 slices that changes every five seconds took 4 MiB more each minute, up to 256 MiB."""
    snapshot = pruner.open_table(copies[0]).snapshot().data
    cache = KeyCache()

    def keys_id(table: str, number: int) -> str:
        return cache.of(table, replace(snapshot, id=f"snapshot {number}")).id

    shared = keys_id("other", 0)
    ids = [keys_id("busy", number) for number in range(3 * KEPT_SNAPSHOTS)]
    assert shared == ids[0]
    known = [cache.known(each) is not None for each in ids]
    assert known == [True] + [False] * (2 * KEPT_SNAPSHOTS - 1) + [True] * KEPT_SNAPSHOTS
    again = ids[-KEPT_SNAPSHOTS]
    assert keys_id("busy", 2 * KEPT_SNAPSHOTS) == again
    keys_id("busy", 999)
    assert cache.known(again) is not None
    assert cache.known(ids[1 - KEPT_SNAPSHOTS]) is None


def _planned(client: Client, table: str) -> dict[str, Any]:
    predicate = {"form": "sql", "text": "id = -1"}
    answer = client.post("/v1/plan", {"table": table, "session": {"engine": "trino"}, "predicate": predicate})
    assert answer.status == 200
    return answer.json


def _dropped(answer: dict[str, Any], keys: bytes) -> set[bytes]:
    bits = np.frombuffer(zlib.decompress(base64.b64decode(answer["drop"])), np.uint8)
    marked = np.unpackbits(bits, count=answer["total"], bitorder="little")
    return {keys[16 * i : 16 * i + 16] for i in np.flatnonzero(marked)}


def _keys(root: Path) -> set[bytes]:
    """Keys as docs/http.md defines them, of all files of a table."""
    return {
        hashlib.sha256(f"{file}\0{file.stat().st_size}".encode()).digest()[:16]
        for file in root.rglob("*.parquet")
    }
