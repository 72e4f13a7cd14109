"""What no index may cover is kept, whatever is known about it (rule R4)."""

from __future__ import annotations

from pathlib import Path

import pruner
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.parquet.tables import write_file


def test_a_slice_with_a_running_write_stays_whatever_its_partition(tmp_path: Path) -> None:
    """The content of the write is unknown until it completes, so not even the partition's value excludes it."""
    made = SyntheticTable(tmp_path / "table", merge_on_read=True)
    made.insert(["city=a", "city=b", "city=c"])
    table = pruner.open_table(str(made.root))
    assert kept_partitions(table) == ["city=a"]
    made.start_log(key for key in made.groups if key[0] == "city=b")
    assert kept_partitions(table) == ["city=a", "city=b"]


def kept_partitions(table: pruner.Table) -> list[str]:
    return sorted(entry.partition_path for entry in table.plan("city = 'a'", dialect="spark").slices)


def test_a_damaged_index_is_reported_as_such_and_never_as_none(tmp_path: Path) -> None:
    """A user told that there is no index would create a second one; the damage and its remedy are reported instead."""
    root = tmp_path / "t"
    write_file(root / "a.parquet", x=[1, 2])
    pruner.open_table(root).create_index("i", on="x")
    [segment] = Path(f"{root}.pruner").glob("column_stats/*.pidx")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.chmod(0o644)
    segment.write_bytes(data)
    table = pruner.open_table(root)
    plan = table.plan("x = 7")
    [reason] = plan.fallbacks
    assert reason.startswith("index i: the segment ")
    assert reason.endswith("fails its checksum: drop the index and create it again")
    assert [step.note for step in plan.steps] == [reason]
    [index] = table.status().indexes
    assert (index.usable, index.note) == (False, reason.removeprefix("index i: "))
