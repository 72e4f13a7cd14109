"""A metadata table of a thousand segments: planned with as it is, and after compaction."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.metadata import MetadataTable
from pruner.pipeline import batches, slices
from pruner.storage.opening import open_store

pytestmark = pytest.mark.load

FILES = 500


def test_a_thousand_segments_before_and_after_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FILES):
        file = tmp_path / f"{number:03}.parquet"
        pq.write_table(pa.table({"x": [number]}), file)
        os.utime(file, ns=(10**18, 10**18))  # long settled
    place = f"memory://{uuid.uuid4()}/t.pruner"
    table = pruner.open_table(tmp_path, index_uri=place)
    monkeypatch.setattr(slices, "CHUNK_SLICES", 1)
    monkeypatch.setattr(batches, "BATCH_SLICES", 1)
    table.create_index("i", on="x")
    monkeypatch.undo()

    def segments() -> int:
        return len(MetadataTable(open_store(place)).state().segments)

    def kept() -> list[int]:
        table = pruner.open_table(tmp_path, index_uri=place)
        return [table.plan(f"x = {number}").kept for number in (0, 7, FILES - 1, FILES)]

    assert segments() == 2 * FILES, "one of slices and one of records for each file"
    assert kept() == [1, 1, 1, 0]
    pruner.open_table(tmp_path, index_uri=place).compact()
    assert segments() == 2
    assert kept() == [1, 1, 1, 0]
