"""A table refreshed again and again equals the same table indexed from scratch: its files, fingerprints, plans."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner
from pruner import arrow
from pruner.metadata import last_snapshot
from pruner.metadata.segments import read_saved
from pruner.metadata.table import MetadataTable
from pruner.storage.local import LocalStore
from pruner.tables.listing import folders
from pruner.tables.listing.files import CLOCK_TICK_NS
from pruner.tables.parquet.source import ParquetSource
from tests.support.running.profiles import examples

TICK = 1.5 * CLOCK_TICK_NS / 1e9
FOLDERS = ("k=1", "k=2", "k=3")
STEPS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "rewrite", "stamped", "remove", "touch", "back", "look"]),
            st.integers(0, 8),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)


def _put(file: Path, value: int) -> None:
    """Put a whole new file under a name that may have existed before."""
    scratch = file.parent.parent / "_scratch"
    pq.write_table(pa.table({"x": [value]}), scratch)
    scratch.replace(file)


def _change(root: Path, kind: str, which: int, value: int, aside: dict[Path, bytes]) -> None:
    files = sorted(root.rglob("*.parquet"))
    file = files[which % len(files)]
    match kind:
        case "add":
            _put(root / FOLDERS[which % 3] / f"{which}-{value}.parquet", value)
        case "rewrite":
            _put(file, value)
        case "stamped":
            stat = file.stat()
            _put(file, value)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        case "remove" if len(list(file.parent.glob("*.parquet"))) > 1:
            aside[file] = file.read_bytes()
            file.unlink()
        case "touch":
            file.chmod(0o600 + which)
        case _ if aside:
            old, content = aside.popitem()
            scratch = root / "_scratch"
            scratch.write_bytes(content)
            scratch.replace(old)


def _stored(index: Path) -> pa.Table:
    metadata = MetadataTable.open(LocalStore(str(index)))
    saved = metadata.state().last_snapshot
    assert saved is not None
    return read_saved(metadata.store, saved)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["slice_key"])


@pytest.mark.parametrize("waits", [False, True])
@settings(max_examples=examples(25), deadline=None)
@given(steps=STEPS, most_runs=st.sampled_from([0, 4096]), least_kept=st.sampled_from([None, 1, 2]))
def test_a_chain_of_refreshes_is_the_table_indexed_anew(
    tmp_path_factory: pytest.TempPathFactory,
    waits: bool,
    steps: list[Any],
    most_runs: int,
    least_kept: int | None,
) -> None:
    base = tmp_path_factory.mktemp("chain")
    root = base / "t"
    for number in range(6):
        (root / FOLDERS[number % 3]).mkdir(parents=True, exist_ok=True)
        _put(root / FOLDERS[number % 3] / f"{number}.parquet", number)
    aside: dict[Path, bytes] = {}
    time.sleep(TICK)
    with (
        patch.object(arrow, "MOST_RUNS", most_runs),
        patch.object(folders, "_WAITED_FOR", 0 if waits else 4096),
        patch.object(last_snapshot, "CHANGES_FROM", 0 if least_kept is not None else 1 << 30),
        patch.object(last_snapshot, "LEAST_KEPT", least_kept or 1),
    ):
        table = pruner.open_table(root, files="immutable", index_uri=str(base / "i"))
        table.create_index("stats", on="x")
        for step, changes in enumerate(steps):
            for kind, which, value in changes:
                if kind == "look":
                    # Then two snapshots follow one another, and the first of them is not stored.
                    time.sleep(TICK)
                    table.plan("x = 0")
                else:
                    _change(root, kind, which, value, aside)
            time.sleep(TICK)
            table.refresh()
            opened = ParquetSource([str(root)])
            opened.snapshot()
            anew = opened.saved()
            assert anew is not None
            if not any(
                kind == "touch" for kind, _, _ in (each for done in steps[: step + 1] for each in done)
            ):
                assert _rows(_stored(base / "i")) == _rows(anew.table)
            plain = pruner.open_table(root, index_uri=str(base / "j"))
            plain.create_index("stats", on="x")
            for value in range(6):
                assert sorted(table.plan(f"x = {value}").files) == sorted(plain.plan(f"x = {value}").files)
            shutil.rmtree(base / "j")
