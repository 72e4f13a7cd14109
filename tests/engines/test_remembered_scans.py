"""`last_plans` and the other caches of scans hold few snapshots of a large table that changes all the time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner import adapters
from pruner.adapters import Newest
from pruner.tables.snapshot import Snapshot
from pruner_duckdb.scans import Scan
from pruner_duckdb.shadow import shadow
from pruner_duckdb.shadow.shadow import NewestValues
from pruner_python.datasets import PrunedDataset
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION

FILES = 10
SCANS = 20


@pytest.fixture
def few_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit remembered slices to about as many as three snapshots of the table have."""
    for module in (adapters, shadow):
        monkeypatch.setattr(module, "REMEMBERED_SLICES", 4 * FILES)


def write(root: Path, number: int) -> None:
    pq.write_table(pa.table({"x": [number]}), root / f"{number:03}.parquet")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    for number in range(FILES):
        write(tmp_path / "t", number)
    return tmp_path / "t"


def held() -> int:
    """The number of snapshots still referenced."""
    gc.collect()
    return sum(isinstance(each, Snapshot) for each in gc.get_objects())


def duckdb_rewriting(table: pruner.Table) -> tuple[Any, Callable[[], object]]:
    con = pruner_duckdb.connect({"t": table}, native="off")
    return con, lambda: con.execute("SELECT x FROM t WHERE x >= 5").fetchall()


def duckdb_native(table: pruner.Table) -> tuple[Any, Callable[[], object]]:
    con = pruner_duckdb.connect({"t": table}, native="on")
    return con, lambda: con.execute("SELECT x FROM t WHERE x >= 5").fetchall()


def python_dataset(table: pruner.Table) -> tuple[Any, Callable[[], object]]:
    dataset = PrunedDataset(table)
    return dataset, lambda: dataset.to_table(filter=pc.field("x") >= 5)


@pytest.mark.slow
@pytest.mark.usefixtures("few_slices")
@pytest.mark.parametrize(
    "opened", [duckdb_rewriting, pytest.param(duckdb_native, marks=NEEDS_EXTENSION), python_dataset]
)
def test_a_table_that_changes_before_each_statement_is_held_a_few_times(
    root: Path, opened: Callable[[pruner.Table], tuple[Any, Callable[[], object]]]
) -> None:
    con, run = opened(pruner.open_table(str(root)))
    run()
    before = held()
    for number in range(FILES, FILES + SCANS):
        write(root, number)
        run()
        assert con.last_plans[-1].plan.total == number + 1
    # At most four snapshots of ten to thirty slices, besides those of the table and of the statement.
    assert held() <= before + 6
    assert 1 <= len(con.last_plans) <= 4


@pytest.mark.slow
@pytest.mark.usefixtures("few_slices")
def test_scans_of_one_snapshot_are_remembered_whatever_it_holds(root: Path) -> None:
    for number in range(FILES, 5 * FILES):
        write(root, number)
    con = pruner_duckdb.connect({"t": pruner.open_table(str(root))}, native="off")
    for least in range(SCANS):
        con.execute(f"SELECT x FROM t WHERE x >= {least}").fetchall()
    assert [scan.kept for scan in con.last_plans] == [5 * FILES] * SCANS


@pytest.mark.usefixtures("few_slices")
def test_the_oldest_scans_are_forgotten_first(root: Path) -> None:
    table = pruner.open_table(str(root))
    scans: Newest[Scan] = Newest(maxlen=64)
    for number in range(8):
        scans.append(Scan(f"{number}", table.plan(f"x = {number}"), None))
    assert len(scans) == 8
    write(root, FILES)
    for number in range(8, 16):
        scans.append(Scan(f"{number}", table.plan(f"x = {number}"), None))
    assert [scan.table for scan in scans] == [f"{number}" for number in range(16)]
    for number in range(16, 19):
        write(root, number)
        scans.append(Scan(f"{number}", table.plan(f"x = {number}"), None))
    # 14, 13 and 12 slices add up to 39; with the eleven of the scans before them, to 50.
    assert [scan.table for scan in scans] == ["16", "17", "18"]


@pytest.mark.usefixtures("few_slices")
def test_values_hold_few_snapshots(root: Path) -> None:
    table = pruner.open_table(str(root))
    values: NewestValues[int, pruner.Plan] = NewestValues(6, lambda plan: plan.snapshot)
    first = table.plan("x = 1")
    for number in range(9):
        assert values.put(number, first) is first
        assert values.put(number, table.plan("x = 2")) is first
    assert [values.get(number) for number in range(9)] == [None] * 3 + [first] * 6
    for number in range(FILES, FILES + 4):
        write(root, number)
        values.put(number, table.plan("x = 1"))
    # As many as threads may be asking about, however many slices they hold.
    assert [number for number in range(20) if values.get(number)] == [10, 11, 12, 13]


@pytest.mark.usefixtures("few_slices")
def test_threads_share_the_newest_scans(root: Path) -> None:
    """Cursors of one connection do: the sequence changed while another thread iterated over it."""
    table = pruner.open_table(str(root))
    plans: list[pruner.Plan] = []
    for number in range(FILES, FILES + 6):
        write(root, number)
        plans.append(table.plan("x = 1"))
    scans: Newest[Scan] = Newest(maxlen=64)

    def remember(_: int) -> None:
        for plan in plans * 300:
            scans.append(Scan("t", plan, None))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(remember, range(8))) == [None] * 8
    finally:
        sys.setswitchinterval(before)
    assert 1 <= len(scans) <= 64
