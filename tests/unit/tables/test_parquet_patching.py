"""A snapshot patched from the previous one equals the snapshot of a full listing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.tables.feed.place import FeedSettings, announce
from pruner.tables.listing.files import CLOCK_TICK_NS
from pruner.tables.parquet import source as parquet
from pruner.tables.parquet.source import ParquetSource
from pruner.tables.snapshot import Snapshot
from tests.support.running.profiles import examples

TICK = 1.5 * CLOCK_TICK_NS / 1e9
FOLDERS = ("", "k=1", "k=2", "k=2/l=1", "k=3")
SCHEMAS = (pa.schema({"x": pa.int64()}), pa.schema({"y": pa.string(), "x": pa.int64()}))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of two schemas, and one that is not Parquet, to be linked into trees."""
    folder = tmp_path_factory.mktemp("sources")
    files = [folder / f"{number}.parquet" for number in range(len(SCHEMAS) + 1)]
    for file, schema in zip(files, SCHEMAS, strict=False):
        pq.write_table(schema.empty_table(), file)
    files[-1].write_bytes(b"PAR1 but no more of it")
    time.sleep(TICK)
    return files


def _same(found: Snapshot, expected: Snapshot) -> None:
    assert found.id == expected.id
    rows, as_expected = (each.rows(np.arange(len(each))) for each in (found, expected))
    assert rows.schema.equals(as_expected.schema)
    assert rows.equals(as_expected)
    assert found.keys.equals(expected.keys)
    assert found.schema == expected.schema
    assert found.partitions == expected.partitions
    assert found.problems.keys() == expected.problems.keys()
    assert found.file_schemas is not None
    assert expected.file_schemas is not None
    assert [str(each) for each in found.file_schemas.distinct] == [
        str(each) for each in expected.file_schemas.distinct
    ]
    assert np.array_equal(found.file_schemas.ordinals, expected.file_schemas.ordinals)


def _link(source: Path, target: Path) -> None:
    """Put a copy with its own mtime where a writer would put a new file: at once and whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.parent / f".{target.name}"
    shutil.copy(source, scratch)
    scratch.replace(target)


def _change(root: Path, random: Random, sources: list[Path], odd: bool) -> Path:
    """Change one file; return which."""
    files = sorted(path for path in root.rglob("*.parquet") if not path.name.startswith("."))
    match random.randrange(4):
        case 0 if len(files) > 3:
            changed = random.choice(files)
            changed.unlink()
        case 1:
            changed = random.choice(files)
            _link(random.choice(sources[:2]), changed)
        case 2 if odd:
            changed = root / f"k={random.randrange(9)}" / f"{random.random()}.parquet"
            _link(random.choice(sources), changed)
        case _:
            changed = root / random.choice(FOLDERS) / f"{random.random()}.parquet"
            _link(sources[0], changed)
    return changed


def _source(root: Path, mode: str) -> ParquetSource:
    feed = FeedSettings(f"{root}.feed") if "feed" in mode else None
    return ParquetSource([str(root)], immutable="immutable" in mode, feed=feed)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mode", "odd"), [("immutable", False), ("immutable", True), ("feed", False), ("immutable, feed", True)]
)
def test_it_is_the_snapshot_that_a_look_at_all_files_makes(
    tmp_path: Path, sources: list[Path], odd: bool, mode: str
) -> None:
    """Files are added, removed and replaced at random; a source that follows sees what a new one sees."""
    patches: list[bool] = []

    def noted(*arguments: Any) -> Snapshot | None:
        found = patched(*arguments)
        patches.append(found is not None)
        return found

    patched = parquet.patched
    rounds = 0
    for seed in range(max(2, examples(6))):
        random = Random(seed)
        root = tmp_path / f"{odd}-{seed}"
        for folder in FOLDERS:
            for number in range(3):
                _link(sources[random.randrange(2) if odd else 0], root / folder / f"{number}.parquet")
        _link(sources[1], root / "0.parquet")
        announce(f"{root}.feed", [str(root)], [])
        source = _source(root, mode)
        time.sleep(TICK)
        source.snapshot()
        time.sleep(TICK)
        source.snapshot()
        for _ in range(6):
            changed = [_change(root, random, sources, odd) for _ in range(random.randint(1, 3))]
            announce(f"{root}.feed", [str(root)], [str(path) for path in changed])
            time.sleep(TICK)
            rounds += 1
            with patch.object(parquet, "patched", noted):
                found = source.snapshot()
            _same(found, ParquetSource([str(root)]).snapshot())
            assert source.doubts() == ()
    assert sum(patches) >= (rounds * 6 // 10 if not odd else 1), (sum(patches), rounds)


def test_looks_in_between_and_failures_do_not_lose_a_change(tmp_path: Path, sources: list[Path]) -> None:
    """A listing for a build sees a change first, or a footer read fails once: the next listing has all changes."""
    root = tmp_path / "t"
    for number in range(3):
        _link(sources[0], root / "k=1" / f"{number}.parquet")
    source = ParquetSource([str(root)], immutable=True)
    time.sleep(TICK)
    first = source.snapshot()
    time.sleep(TICK)
    assert source.snapshot() is first
    _link(sources[0], root / "k=1" / "3.parquet")
    time.sleep(TICK)
    assert len(source.look_again(first, {})) == 4
    _link(sources[0], root / "k=1" / "4.parquet")
    time.sleep(TICK)
    assert len(source.snapshot()) == 5
    _link(sources[0], root / "k=1" / "5.parquet")
    time.sleep(TICK)
    with patch.object(parquet, "patched", side_effect=OSError("lost")), pytest.raises(OSError, match="lost"):
        source.snapshot()
    (root / "k=1" / "0.parquet").unlink()
    time.sleep(TICK)
    found = source.snapshot()
    assert len(found) == 5
    _same(found, ParquetSource([str(root)], immutable=True).snapshot())
