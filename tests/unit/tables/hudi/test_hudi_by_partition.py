"""Hudi's column statistics, read only for the queried partitions: the same slices stay, and fewer bytes are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

import pruner
from pruner.evidence.hudi import own_indexes
from pruner.tables.hudi.hfile.reader import Stored
from tests.support.hudi.made_up.files import SCHEMA, Group, SyntheticTable
from tests.support.hudi.made_up.keys import deletions
from tests.support.hudi.made_up.metadata import INITIAL, Stat, SyntheticMetadata, log_block
from tests.support.running.profiles import examples, seed

PARTITIONS = 24
GROUPS = 96
COLUMNS = ("id", "other")
WITH_OTHER = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], {"name": "other", "type": ["null", "long"], "default": None}],
}


class Lake:
    """A table of many partitions, whose metadata table has small blocks; file `n` has the ids from `10 n` on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        table = SyntheticTable(root, schema=WITH_OTHER)
        table.insert(f"city=c{number % PARTITIONS:02}" for number in range(GROUPS))
        self.groups: list[Group] = list(table.groups.values())
        self.metadata = SyntheticMetadata(root, groups=1, how={"block_bytes": 256})
        self.metadata.create([self.stat(number, column) for number in range(GROUPS) for column in COLUMNS])

    def stat(self, number: int, column: str = "id", *, low: int | None = None, **more: bool) -> Stat:
        group = self.groups[number]
        first = number * 10 if low is None else low
        return Stat(group.partition, group.base, column, first, first + 9, values=10, **more)

    def change(self, rng: Random) -> None:
        """Add a log block: records that widen, replace or delete, or keys that are deleted."""
        chosen = rng.sample(range(GROUPS), 8)
        if rng.random() < 0.3:
            keys = [self.stat(number).key.decode() for number in chosen]
            self.metadata.append_block(log_block(1, {0: INITIAL}, deletions(keys)))
            return
        stats = [
            self.stat(
                number, low=rng.randrange(GROUPS * 10), tight=rng.random() < 0.5, deleted=rng.random() < 0.2
            )
            for number in chosen
        ]
        self.metadata.append(INITIAL, stats)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "table")


@contextmanager
def apart(*, few: float = own_indexes.FEW) -> Iterator[list[int]]:
    """Read partitions separately in tables of any size; yields the bytes of each read of an HFile."""
    sizes: list[int] = []
    plain = Stored.read

    def read(self: Stored, ranges: list[tuple[int, int]]) -> list[bytes]:
        sizes.append(sum(length for _, length in ranges))
        return plain(self, ranges)

    with (
        patch.object(own_indexes, "LARGE", 1),
        patch.object(own_indexes, "FEW", few),
        patch.object(Stored, "read", read),
    ):
        yield sizes


def kept(table: pruner.Table, predicate: str) -> list[str]:
    return [entry.file_id for entry in table.plan(predicate, dialect="spark").slices]


@pytest.mark.slow
def test_random_predicates_keep_the_same_slices_however_the_statistics_are_read(lake: Lake) -> None:
    rng = Random(seed())
    pruned = 0
    for _ in range(4):
        lake.change(rng)
        whole = pruner.open_table(lake.root)
        with apart(few=rng.choice([0.1, 0.25, 1.0])):
            table = pruner.open_table(lake.root)
            for _ in range(examples(40)):
                predicate = _predicate(rng)
                found = kept(table, predicate)
                assert found == kept(whole, predicate), predicate
                pruned += len(found) < len(kept(table, predicate.partition(" AND ")[0]))
    assert pruned > examples(40) / 4


def _predicate(rng: Random) -> str:
    cities = [f"'c{number:02}'" for number in rng.sample(range(PARTITIONS), rng.choice([1, 2, 3, 6]))]
    where = rng.choice([f"city IN ({', '.join(cities)})", f"city = {cities[0]}", f"city >= {cities[0]}"])
    column = rng.choice(COLUMNS)
    at = rng.randrange(GROUPS * 10)
    leaf = rng.choice(
        [
            f"{column} = {at}",
            f"{column} BETWEEN {at} AND {at + 50}",
            f"{column} > {at}",
            f"{column} IS NULL",
            f"NOT {column} < {at}",
            f"({column} < {at} OR other > {at})",
        ]
    )
    return f"{where} AND {leaf}"


def test_of_few_partitions_few_blocks_are_read(lake: Lake) -> None:
    file = lake.groups[30]
    city = file.partition.partition("=")[2]
    with apart() as sizes:
        table = pruner.open_table(lake.root)
        assert kept(table, "city = 'nowhere' AND id = 1") == []
        sizes.clear()
        assert kept(table, f"city = '{city}' AND id = 305") == [file.file_id]
        of_one = sum(sizes)
        sizes.clear()
        assert kept(table, f"city = '{city}' AND id = 306") == [file.file_id]
        assert sizes == [], "what was read is kept"
        assert kept(table, "city = 'c07' AND id = 75") == [lake.groups[7].file_id]
        assert 0 < sum(sizes) < 2 * of_one, "and what was read before is not read again"
        sizes.clear()
        assert kept(table, "id = 305") == [file.file_id]
        of_all = sum(sizes)
        assert kept(table, "city = 'c08' AND id = 85") == [lake.groups[8].file_id]
    assert of_one < of_all / 4


def test_files_that_cannot_be_read_keep_their_slices(lake: Lake) -> None:
    for path in lake.root.glob(".hoodie/metadata/column_stats/*.hfile"):
        data = bytearray(path.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)
        path.write_bytes(bytes(data))
    with apart():
        plan = pruner.open_table(lake.root).plan("city = 'c05' AND id = 55", dialect="spark")
    assert plan.kept == GROUPS / PARTITIONS
    assert "cannot be read" in plan.explain()


def test_a_small_table_is_read_at_once(lake: Lake) -> None:
    table = pruner.open_table(lake.root)
    assert kept(table, "city = 'c05' AND id = 55") == [lake.groups[5].file_id]
    with patch.object(Stored, "read", side_effect=AssertionError("nothing is left to read")):
        assert kept(table, "city = 'c06' AND id = 65") == [lake.groups[6].file_id]
