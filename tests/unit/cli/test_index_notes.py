"""A note about several indexes is printed once."""

from __future__ import annotations

import os
from pathlib import Path

import pruner
from tests.support.parquet.tables import write_file
from tests.unit.cli.conftest import Run


def test_a_note_that_is_true_of_several_indexes_names_them_all(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "t"
    os.utime(write_file(root / "0.parquet", a=[1], b=[2], c=[3]), (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(root)
    for column in "abc":
        table.create_index(f"on_{column}", on=column)
    os.utime(write_file(root / "1.parquet", a=[1], b=[2], c=[3]), (1_600_000_000, 1_600_000_000))
    os.utime(write_file(root / "0.parquet", a=[1, 7], b=[2, 7], c=[3, 7]), (1_600_000_001, 1_600_000_001))
    table.drop_index("on_c")
    notes = [line for line in run("status", root).out.splitlines() if line.startswith("note: ")]
    assert notes == ["note: indexes on_a and on_b do not cover files: 1 not indexed yet, 1 rewritten since"]


def test_columns_that_are_gone_are_named_by_status_and_refresh(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "t"
    os.utime(write_file(root / "0.parquet", a=[1], b=[2]), (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(root)
    table.create_index("both", on=["a", "b"])
    table.create_index("lost", on="b")
    os.utime(write_file(root / "0.parquet", a=[1]), (1_600_000_000, 1_600_000_000))
    refreshed = run("refresh", root)
    assert refreshed.code == 0
    assert refreshed.out.rstrip().endswith(
        "; index lost serves no query, so drop it: the table no longer has b"
    )
    notes = [line for line in run("status", root).out.splitlines() if line.startswith("note: ")]
    assert notes == [
        "note: index both serves its other columns alone: the table no longer has b",
        "note: index lost serves no query: the table no longer has b",
    ]
