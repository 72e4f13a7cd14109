"""Lookups in Hudi's record index: how much of it is read for one key and for many.

Ten million keys are written in a minute: the cells of an HFile are built as arrays, each of the same number of bytes.
"""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as Grid

from pruner.storage.opening import open_store
from pruner.tables.hudi.hfile.reader import Stored
from pruner.tables.hudi.metadata.indexes import RECORD_INDEX, HudiIndexes, StatCache
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.made_up.files import Group, SyntheticTable
from tests.support.hudi.made_up.hfiles import HFileWriter, row_key
from tests.support.hudi.made_up.keys import SCHEMA_TEXT, location
from tests.support.hudi.made_up.metadata import INITIAL, SyntheticMetadata

GROUPS = 10
"""File groups of the record index: as many as Hudi makes for up to some ten million keys."""

PARTITIONS = 100
KEY_BYTES = 16
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@contextmanager
def counted_reads() -> Generator[list[int]]:
    """Collect the bytes of each read of an HFile."""
    sizes: list[int] = []
    plain = Stored.read

    def read(self: Stored, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        sizes.append(sum(length for _, length in ranges))
        return plain(self, ranges)

    with mock.patch.object(Stored, "read", read):
        yield sizes


def key_grid(root: Path, keys: int) -> Grid:
    """Lookups of random keys in a record index of `keys` keys, each with a newly opened index."""
    groups = write_keys(root, keys)
    stored = sum(path.stat().st_size for path in root.glob(".hoodie/metadata/record_index/*.hfile"))
    grid = Grid("keys looked up", "of", "index MB", "requests", "KB read", "share of the index", "CPU ms")
    rng = random.Random(1)
    for what, numbers in (
        ("1", [rng.randrange(keys)]),
        ("10", rng.sample(range(keys), 10)),
        ("1,000", rng.sample(range(keys), 1_000)),
        ("1,000 neighbours", _neighbours(keys, rng.randrange(keys // 2), 1_000)),
    ):
        wanted = {bytes(text).decode(): number for text, number in zip(_texts(numbers), numbers, strict=True)}
        with counted_reads() as sizes:
            started = time.process_time()
            indexes = HudiIndexes(str(root), {}, read_timeline(open_store(str(root), {})), StatCache())
            found = indexes.locations.find(wanted)
            counted = indexes.locations.count()
            spent = time.process_time() - started
        assert counted == keys
        assert all(
            found[text].file_id == groups[number % len(groups)].file_id for text, number in wanted.items()
        )
        grid.add_row(
            what,
            f"{keys:,}",
            f"{stored / 1e6:.1f}",
            str(len(sizes)),
            f"{sum(sizes) / 1e3:.0f}",
            f"{sum(sizes) / stored:.2%}",
            f"{spent * 1000:.0f}",
        )
    return grid


def write_keys(root: Path, keys: int) -> list[Group]:
    """Write a table whose record index has this many keys; key `n` is in group `n` modulo the returned groups."""
    table = SyntheticTable(root)
    table.insert(f"city=c{number:03}" for number in range(PARTITIONS))
    metadata = SyntheticMetadata(root, partitions="column_stats,files,record_index")
    metadata.create([])
    places = {group: location(group.partition, group.file_id) for group in table.groups.values()}
    (size, _), *_ = Counter(map(len, places.values())).most_common(1)
    chosen = {group: value for group, value in places.items() if len(value) == size}
    values = np.frombuffer(b"".join(chosen.values()), np.uint8).reshape(len(chosen), size)
    folder = metadata.root / RECORD_INDEX
    folder.mkdir()
    (folder / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")
    texts = _texts(np.arange(keys))
    order = np.argsort(_mixed(np.arange(keys)))  # that of the texts: all have as many digits
    number_of = _hashed(texts) % GROUPS
    for number in range(GROUPS):
        of_group = order[number_of[order] == number]
        blocks = _blocks(texts[of_group], values, of_group)
        data = HFileWriter(info={b"schema": SCHEMA_TEXT.encode()}).write_blocks(blocks)
        (folder / f"record-index-{number:04}-0_0-1-1_{INITIAL}.hfile").write_bytes(data)
    return list(chosen)


def _texts(numbers: Any) -> NDArray[np.uint8]:
    """The keys of some numbers, scattered: 16 hexadecimal digits each."""
    halves = _mixed(numbers).astype(">u8").view(np.uint8).reshape(-1, 8)
    digits = np.stack([halves >> 4, halves & 15], axis=2).reshape(-1, KEY_BYTES)
    return np.ascontiguousarray(_HEX[digits])


def _mixed(numbers: Any) -> NDArray[np.uint64]:
    return np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _neighbours(keys: int, first: int, count: int) -> list[int]:
    """The numbers of consecutive keys, like those of keys that begin with a time."""
    ordered: list[int] = np.argsort(_mixed(np.arange(keys)))[first : first + count].tolist()
    return ordered


def _hashed(texts: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Java's hash of each key, without its sign: see `keys.hashed_group`."""
    found = np.zeros(len(texts), np.int32)
    for at in range(KEY_BYTES):
        found = found * np.int32(31) + texts[:, at].astype(np.int32)
    return np.abs(found.astype(np.int64))


def _blocks(
    texts: NDArray[np.uint8], values: NDArray[np.uint8], numbers: NDArray[np.int64]
) -> Iterator[tuple[bytes, bytes, int]]:
    """The data blocks of some keys in order: cells as `tests.support.hudi.made_up.hfiles.cell` makes them."""
    size = values.shape[1]
    head = struct.pack(">ii", KEY_BYTES + 12, size) + row_key(bytes(KEY_BYTES))[:2]
    between = b"\0" + struct.pack(">qB", 2**63 - 1, 4)
    a_cell = len(head) + KEY_BYTES + len(between) + size + 1
    in_block = -(-HFileWriter().block_bytes // (KEY_BYTES + size))
    for start in range(0, len(texts), in_block):
        rows = texts[start : start + in_block]
        cells = np.zeros((len(rows), a_cell), np.uint8)
        at = 0
        for part in (
            np.frombuffer(head, np.uint8),
            rows,
            np.frombuffer(between, np.uint8),
            values[numbers[start : start + in_block] % len(values)],
        ):
            cells[:, at : at + part.shape[-1]] = part
            at += part.shape[-1]
        yield cells.tobytes(), rows[0].tobytes(), len(rows)
