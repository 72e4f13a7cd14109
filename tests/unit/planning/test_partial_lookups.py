"""Lookups in indexes of a part of the partitions, through refreshes and compaction: soundness and the number kept."""

from __future__ import annotations

from pathlib import Path
from threading import get_ident

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.metadata.pages import PartialFile
from tests.support.paging import page_everything

OPTIONS = {"bloom_filter": {"fpp": "0.0001"}, "record_index": {}, "bitmap": {}}
PARTITIONS, FILES, ROWS = 3, 4, 20


def write(root: Path, partition: int, number: int) -> None:
    folder = root / f"p={partition}"
    folder.mkdir(parents=True, exist_ok=True)
    first = (partition * FILES + number) * ROWS
    # Neighboring files share a key, and one row has none.
    keys = [*range(first, first + ROWS), first + ROWS, None]
    pq.write_table(pa.table({"id": pa.array(keys, pa.int64())}), folder / f"{number}.parquet")


def expected(key: int, numbers: range, indexed: set[int]) -> set[str]:
    """The files that must be kept: those with the key, and those of partitions that are not indexed."""
    kept: set[str] = set()
    for partition in range(PARTITIONS):
        for number in numbers:
            first = (partition * FILES + number) * ROWS
            if partition not in indexed or first <= key <= first + ROWS:
                kept.add(f"p={partition}/{number}.parquet")
    return kept


def kept(table: pruner.Table, predicate: str) -> set[str]:
    return {"/".join(Path(uri).parts[-2:]) for uri in table.plan(predicate).files}


def check(table: pruner.Table, numbers: range, indexed: set[int]) -> None:
    for key in range(0, PARTITIONS * FILES * ROWS, 20):
        assert kept(table, f"id = {key}") == expected(key, numbers, indexed)
    among = expected(25, numbers, indexed) | expected(185, numbers, indexed)
    assert kept(table, "id IN (25, 185)") == among
    assert kept(table, "id = 25 AND p IN (0, 1)") == {
        each for each in expected(25, numbers, indexed) if each < "p=2"
    }


def test_only_the_thread_that_plans_reads_what_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Arrow that releases a Python file after Python has ended aborts the process (arrow#34314)."""
    readers: list[int] = []
    read = PartialFile.read

    def recorded(self: PartialFile, size: int = -1) -> bytes:
        readers.append(get_ident())
        return read(self, size)

    page_everything(monkeypatch, records=8)
    for partition in range(PARTITIONS):
        write(tmp_path, partition, 0)
    pruner.open_table(tmp_path).create_index("by_id", "id", using="bitmap")
    monkeypatch.setattr(PartialFile, "read", recorded)
    assert kept(pruner.open_table(tmp_path), "id = 5") == {"p=0/0.parquet"}
    assert set(readers) == {get_ident()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("using", list(OPTIONS))
def test_files_outside_the_part_are_kept_and_others_told_apart(
    using: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_everything(monkeypatch, records=8)
    root = tmp_path / "t"
    for partition in range(PARTITIONS):
        write(root, partition, 0)
    table = pruner.open_table(root)
    table.create_index("keys", on="id", using=using, options=OPTIONS[using], where="p IN (0, 2)")
    for number in range(1, FILES):
        for partition in range(PARTITIONS):
            write(root, partition, number)
        assert table.refresh().indexed == 2
        check(table, range(number + 1), {0, 2})
    table.compact()
    check(pruner.open_table(root), range(FILES), {0, 2})
    for partition in range(PARTITIONS):
        (root / f"p={partition}" / "3.parquet").unlink()
    table.compact()
    check(pruner.open_table(root), range(FILES - 1), {0, 2})
