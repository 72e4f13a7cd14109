"""Layouts of filters for point lookups, compared (ADR 22): their cost per key, and what a lookup reads.

- blocks: split-block Bloom filters of each slice, which `bloom_filter` uses.
- fingerprints: an XOR filter of each slice, 8 bits in each of three positions (the layout of binary fuse filters,
  whose positions are closer together and which need 9 to 13 % fewer of them).
- map: one such structure for all slices, which yields for a value the number of its slice, followed by a few bits
  that say whether there is such a value at all.

Only this benchmark has fingerprints and map. They are built by peeling, with arrays: all keys that are alone in a
position are taken out together, and written in reverse order.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from pruner.indexes.columns.canonical import hash_words
from pruner.tables.footers.filters import WORDS, block_of, blocks_for, filter_of, masks_of

Hashes = NDArray[np.uint64]

SLICES, KEYS = 256, 6_000
PROBES = 2_000
PLACES = 3
LOAD = 1.23
"""Positions per key that peeling needs for many keys."""

SMALL_LOAD = 1.3
"""Positions per key of a slice: with its few keys peeling fails more often, and all slices share their positions."""


class Measured(NamedTuple):
    """Bits per key, share of slices that falsely seem to hold a value, and times."""

    layout: str
    bits: float
    rate: float
    build_ns: float
    probe_us: float
    read: str


def run(console: Console) -> None:
    """Measure every layout over the same keys and print a table."""
    rng = np.random.default_rng(1)
    slices = [np.unique(rng.integers(0, 2**64 - 1, KEYS, np.uint64)) for _ in range(SLICES)]
    probes = rng.integers(0, 2**64 - 1, PROBES, np.uint64)
    grid = Grid(title=f"{SLICES} slices of {KEYS:,} keys, {PROBES:,} values that none of them holds")
    for name in (
        "layout",
        "bits a key",
        "false",
        "build, ns a key",
        "probe, us",
        "a probe reads of S slices",
    ):
        grid.add_column(name, justify="left" if name == "layout" else "right")
    found = [
        *(_blocks(slices, probes, fpp) for fpp in (0.01, 0.004)),
        _fingerprints(slices, probes),
        *(_map(slices, probes, extra) for extra in (0, 4)),
    ]
    for each in found:
        grid.add_row(
            each.layout,
            f"{each.bits:.2f}",
            f"{each.rate:.4%}",
            f"{each.build_ns:.0f}",
            f"{each.probe_us:.1f}",
            each.read,
        )
    console.print(grid)


def _blocks(slices: list[Hashes], probes: Hashes, fpp: float) -> Measured:
    started = time.perf_counter()
    sizes = np.array([blocks_for(len(keys), fpp) for keys in slices], np.uint64)
    filters = [filter_of(keys, int(size)) for keys, size in zip(slices, sizes, strict=True)]
    build = time.perf_counter() - started
    words = np.frombuffer(b"".join(filters), "<u4").reshape(-1, WORDS)
    starts = np.cumsum(sizes.astype(np.int64)) - sizes.astype(np.int64)
    started = time.perf_counter()
    hits = 0
    for position in range(len(probes)):
        one = probes[position : position + 1]
        hits += int((words[starts + block_of(one, sizes)] & masks_of(one) != 0).all(axis=1).sum())
    return _measured(f"blocks, {fpp:.1%}", words.nbytes, slices, hits, build, started, "64 S bytes")


def _fingerprints(slices: list[Hashes], probes: Hashes) -> Measured:
    started = time.perf_counter()
    # One size for all, so that the same positions of all filters are side by side.
    size = int(SMALL_LOAD * max(map(len, slices))) + 32
    table = np.stack([_peeled(keys, keys & np.uint64(255), size) for keys in slices], axis=1).astype(np.uint8)
    build = time.perf_counter() - started
    started = time.perf_counter()
    hits = 0
    for position in range(len(probes)):
        one = probes[position : position + 1]
        rows = table[_places(one, size)[0]]
        hits += int((np.bitwise_xor.reduce(rows, axis=0) == (int(one[0]) & 255)).sum())
    return _measured(
        "fingerprints, 8 bits", table.nbytes, slices, hits, build, started, "3 S bytes, in 3 places"
    )


def _map(slices: list[Hashes], probes: Hashes, extra: int) -> Measured:
    started = time.perf_counter()
    keys = np.concatenate(slices)
    owners = np.repeat(np.arange(len(slices), dtype=np.uint64), [len(each) for each in slices])
    size = int(LOAD * len(keys)) + 32
    width = int(np.ceil(np.log2(len(slices)))) + extra
    values = (owners << np.uint64(extra)) | (keys & np.uint64((1 << extra) - 1))
    table = _peeled(keys, values, size)
    build = time.perf_counter() - started
    started = time.perf_counter()
    hits = 0
    for position in range(len(probes)):
        one = probes[position : position + 1]
        value = int(np.bitwise_xor.reduce(table[_places(one, size)[0]]))
        sure = (value ^ int(one[0])) & ((1 << extra) - 1) == 0
        hits += sure and value >> extra < len(slices)
    stored = size * width / 8
    return _measured(
        f"map, {extra} bits besides", stored, slices, hits, build, started, "3 places, whatever S"
    )


def _places(keys: Hashes, size: int) -> NDArray[np.int64]:
    """Three positions of each key, one in each third of a table."""
    third = np.uint64(size // PLACES)
    mixed = [hash_words(keys + np.uint64(number)) >> np.uint64(32) for number in range(PLACES)]
    found = [(part * third >> np.uint64(32)) + third * np.uint64(at) for at, part in enumerate(mixed)]
    return np.stack(found, axis=1).astype(np.int64)


def _peeled(keys: Hashes, values: Hashes, size: int) -> Hashes:
    """A table in which the three positions of each key together yield its value."""
    places = _places(keys, size)
    degrees = np.bincount(places.ravel(), minlength=size)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, places.ravel(), np.repeat(np.arange(len(keys)), PLACES))
    rounds: list[tuple[Any, Any]] = []
    left = len(keys)
    while left:
        alone = np.flatnonzero(degrees == 1)
        taken, first = np.unique(sums[alone], return_index=True)
        if not len(taken):
            raise ValueError("the keys cannot be peeled: another seed is needed")
        rounds.append((taken, alone[first]))
        np.subtract.at(degrees, places[taken].ravel(), 1)
        np.subtract.at(sums, places[taken].ravel(), np.repeat(taken, PLACES))
        left -= len(taken)
    table = np.zeros(size, np.uint64)
    for taken, at in reversed(rounds):
        table[at] = values[taken] ^ np.bitwise_xor.reduce(table[places[taken]], axis=1)
    return table


def _measured(
    layout: str, stored: float, slices: list[Hashes], hits: int, build: float, started: float, read: str
) -> Measured:
    count = sum(map(len, slices))
    probe = time.perf_counter() - started
    rate = hits / PROBES / len(slices)
    return Measured(layout, 8 * stored / count, rate, build / count * 1e9, probe / PROBES * 1e6, read)
