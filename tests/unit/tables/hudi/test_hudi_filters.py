"""Plans from made-up bloom filters of Hudi's over record keys, and the format of such a filter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.blooms import bloom_filter, murmur
from tests.support.hudi.made_up.groups import EVERYTHING, KEY, Keyed
from tests.support.hudi.made_up.keys import hadoop_filter
from tests.support.running.profiles import examples
from tests.unit.tables.hudi.test_hfile import MUTATIONS, mutated


@pytest.fixture
def filtered(tmp_path: Path) -> Keyed:
    """A table with bloom filters of both layouts, but for its last file."""
    found = Keyed(tmp_path / "table", partitions="bloom_filters", merge_on_read=True)
    found.keys.filter(
        {
            found.groups[0]: ("SIMPLE", hadoop_filter(map(str, range(10)))),
            found.groups[1]: ("DYNAMIC_V0", hadoop_filter(map(str, range(10, 20)), rows=1)),
            found.groups[2]: ("DYNAMIC_V0", hadoop_filter(map(str, range(20, 30)), rows=3)),
        }
    )
    return found


@pytest.mark.slow
def test_filters_are_asked(filtered: Keyed) -> None:
    for id_ in range(0, 40, 7):
        assert filtered.kept(f"id = {id_}") == sorted({id_ // 10, 3})
    assert filtered.kept(f"{KEY} IN ('3', '25')") == [0, 2, 3]
    assert "hudi.bloom_filters" in filtered.open().plan("id = 15").explain()
    assert filtered.kept("id != 15") == EVERYTHING


def test_rows_in_log_files_are_in_no_filter(filtered: Keyed) -> None:
    filtered.table.log([(filtered.groups[0].partition, filtered.groups[0].file_id)])
    assert filtered.kept("id = 15") == [0, 1, 3]


def test_a_filter_of_an_older_file_is_not_asked(filtered: Keyed) -> None:
    filtered.table.update([(filtered.groups[0].partition, filtered.groups[0].file_id)])
    assert filtered.kept("id = 15") == [0, 1, 3]


def test_filters_that_are_gone_keep_everything(filtered: Keyed) -> None:
    """The commit that wrote them did not complete, or a copy of the table lacks their files."""
    for file in (filtered.metadata.root / "bloom_filters").glob("*.hfile"):
        file.unlink()
    assert filtered.kept("id = 15") == EVERYTHING
    assert "has no partition bloom_filters" in filtered.notes("id = 15")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("hashes", [1, 30])
def test_no_key_that_was_put_in_is_denied(rows: int, hashes: int) -> None:
    rng = random.Random(rows)
    keys = ["".join(rng.choices("aäé😀\uffff0", k=rng.randrange(1, 12))) for _ in range(200)]
    kind = "DYNAMIC_V0" if rows else "SIMPLE"
    found = bloom_filter(kind, hadoop_filter(keys, rows=rows, hashes=hashes, bits=8191))
    assert all(map(found.may_hold, keys))
    assert found.may_hold("")
    others = [f"other {number}" for number in range(1000)]
    assert sum(map(found.may_hold, others)) < 350


@pytest.mark.parametrize(
    ("text", "seed", "expected"),
    [
        ("", 0, 0),
        ("a", 0, -1838653602),
        ("ab", 7, 1643560620),
        ("abc", -1, -1465591341),
        ("abcd", 2147483647, 912298519),
        ("id:35,city:paris", -2147483648, -1934285403),
        ("abé", 1, 83471033),
        ("a😀", 0, -1516659557),
        ("\uffff\uffff", 5, -38489966),
    ],
)
def test_the_hash_of_filters_is_hadoops(text: str, seed: int, expected: int) -> None:
    """Results of Hudi's own `MurmurHash`; bytes after the last whole word are signed in Java."""
    assert murmur(text.encode(), seed) == expected


@settings(max_examples=examples(300))
@given(rows=st.integers(0, 2), mutations=MUTATIONS)
def test_a_damaged_filter_is_refused_or_a_filter(
    rows: int, mutations: Sequence[tuple[str, int, int]]
) -> None:
    """Bits have no checksum of their own: the block of the HFile has one."""
    kind = "DYNAMIC_V0" if rows else "SIMPLE"
    stored = mutated(hadoop_filter(["a", "b"], rows=rows, bits=64), mutations)
    try:
        found = bloom_filter(kind, stored)
    except FormatError:
        return
    found.may_hold("a")
