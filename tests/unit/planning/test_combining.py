"""What no index may cover is kept, whatever is known of it (rule R4)."""

from __future__ import annotations

from pathlib import Path

import pruner
from tests.support.hudi_synthetic import SyntheticTable


def test_a_slice_with_a_running_write_stays_whatever_its_partition(tmp_path: Path) -> None:
    """What the write brings is not known before it completes, so that not even the partition's value excludes it."""
    made = SyntheticTable(tmp_path / "table", merge_on_read=True)
    made.insert(["city=a", "city=b", "city=c"])
    table = pruner.open_table(str(made.root))
    assert kept_partitions(table) == ["city=a"]
    made.start_log(key for key in made.groups if key[0] == "city=b")
    assert kept_partitions(table) == ["city=a", "city=b"]


def kept_partitions(table: pruner.Table) -> list[str]:
    return sorted(entry.partition_path for entry in table.plan("city = 'a'", dialect="spark").slices)
