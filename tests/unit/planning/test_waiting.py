"""Bitmaps in pages: what is read for a predicate, in which order indexes are used, and the bounds on both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.metadata.segment_cache import SegmentCache
from pruner.planning import row_level
from pruner.planning.plan import Plan
from tests.support.paging import page_everything

FILES = 20
ROWS = 50
SCATTERED = 617
"""Row i of the table has the number i * 617 modulo the number of rows: each number once, scattered."""


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pruner.Table:
    """`id` in no order, with a bitmap in pages of 32 records; `day` ascends with the files and has statistics."""
    page_everything(monkeypatch, 32)
    _write(tmp_path / "t", range(FILES))
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("ids", on="id", using="bitmap")
    table.create_index("days", on="day")
    return pruner.open_table(str(tmp_path / "t"))


def _write(root: Path, files: range) -> None:
    root.mkdir(exist_ok=True)
    total = FILES * ROWS
    for number in files:
        rows = np.arange(number * ROWS, (number + 1) * ROWS)
        columns = {"id": rows * SCATTERED % total, "day": np.full(ROWS, number), "text": ["x" * 20] * ROWS}
        pq.write_table(pa.table(columns), root / f"part-{number:02}.parquet")


def _read_pages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The pages that are read from now on, and whether for their bitmaps."""
    read: list[tuple[int, bool]] = []
    whole: Any = SegmentCache.read_page

    def watched(self: SegmentCache, entry: Any, page: int, *args: Any, **options: Any) -> Any:
        read.append((page, options.get("deferred", False)))
        return whole(self, entry, page, *args, **options)

    monkeypatch.setattr(SegmentCache, "read_page", watched)
    return read


def _holders(low: int, high: int) -> list[int]:
    rows = np.arange(FILES * ROWS)
    return np.unique(
        rows[(rows * SCATTERED % len(rows) >= low) & (rows * SCATTERED % len(rows) <= high)] // ROWS
    ).tolist()


def _kept(plan: Plan) -> list[int]:
    return [int(Path(uri).stem.removeprefix("part-")) for uri in plan.files]


def test_a_value_is_one_page(numbers: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers.plan("id < 0").kept == 0  # what every plan needs is read
    read = _read_pages(monkeypatch)
    plan = numbers.plan("id = 500")
    assert _kept(plan) == _holders(500, 500)
    assert len(read) == 1
    assert dict(plan.rows or {}).keys() == set(plan.files)
    assert read[1:] == [(read[0][0], False), (read[0][0], True)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("predicate", "low", "high", "pages"),
    [
        ("id BETWEEN 300 AND 330", 300, 330, 2),
        ("id >= 960", 960, 999, 2),
        ("id < 40", 0, 39, 2),
        ("NOT (id > 20)", 0, 20, 1),
        ("id IN (1, 2, 900)", None, None, 2),
    ],
)
def test_a_range_is_the_pages_in_it(
    numbers: pruner.Table,
    monkeypatch: pytest.MonkeyPatch,
    predicate: str,
    low: int | None,
    high: int,
    pages: int,
) -> None:
    assert numbers.plan("id < 0").kept == 0
    read = _read_pages(monkeypatch)
    plan = numbers.plan(predicate)
    wanted = (
        _holders(low, high) if low is not None else sorted({n for v in (1, 2, 900) for n in _holders(v, v)})
    )
    assert _kept(plan) == wanted
    assert len({page for page, _ in read}) == pages


def test_the_complement_of_a_value_is_its_page_too(
    numbers: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert numbers.plan("id < 0").kept == 0
    read = _read_pages(monkeypatch)
    assert numbers.plan("id != 500").kept == FILES
    assert len({page for page, _ in read}) == 1
    plan = numbers.plan("id != 500")
    told = dict(plan.rows.pairs()) if plan.rows is not None else {}
    assert plan.rows_exact
    assert sorted(len(rows) for rows in told.values() if rows is not None) == [ROWS - 1] + [ROWS] * (
        FILES - 1
    )


def test_statistics_are_asked_first_and_the_report_tells_each(numbers: pruner.Table) -> None:
    plan = numbers.plan(f"id = 500 AND day <= {_holders(500, 500)[0]}")
    stats, bits = plan.steps[:2]
    assert (stats.index, bits.index) == ("days", "ids")
    assert bits.considered == stats.considered - stats.dropped
    assert plan.kept == 1


def test_where_nothing_is_left_no_page_is_read(
    numbers: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert numbers.plan("id < 0").kept == 0
    read = _read_pages(monkeypatch)
    plan = numbers.plan("id = 500 AND day = 99")
    assert plan.kept == 0
    assert read == []
    assert [step.index for step in plan.steps] == ["days"]


def test_files_smaller_than_the_pages_are_kept(
    numbers: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_level, "WORTH_READING", 0.0)
    plan = numbers.plan("id = 500")
    assert plan.kept == FILES
    assert "index ids is not asked" in plan.explain()


def test_what_index_memory_does_not_allow_is_kept(numbers: pruner.Table) -> None:
    small = pruner.open_table(numbers.uri, index_memory=1)
    plan = small.plan("id = 500")
    assert plan.kept == FILES
    assert "index_memory" in plan.explain()
    assert small.plan("id = 500").rows_exact is False


def test_several_leaves_on_one_column_and_others(numbers: pruner.Table) -> None:
    everywhere = numbers.plan("id = 3 OR id = 4 OR day = 19")
    assert _kept(everywhere) == sorted({*_holders(3, 4), 19})
    assert numbers.plan("id >= 10 AND id <= 12 AND id != 11 AND id != 10 AND id <> 12").kept == 0
    assert _kept(numbers.plan("NOT (id < 3 OR id > 4)")) == _holders(3, 4)


def test_all_rows_match_is_proven_from_pages(numbers: pruner.Table) -> None:
    assert numbers.plan("id >= 0").all_match.all()
    assert np.flatnonzero(~numbers.plan("id != 500").all_match).tolist() == _holders(500, 500)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compacted", [False, True], ids=["refreshed", "compacted"])
def test_refreshes_and_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacted: bool) -> None:
    """The second segment is small and has no directory, unless it was merged."""
    page_everything(monkeypatch, 32)
    _write(tmp_path / "t", range(15))
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("ids", on="id", using="bitmap")
    with monkeypatch.context() as patched:
        patched.setattr("pruner.indexes.partition_stats.PAGED_FROM", 1 << 20)
        _write(tmp_path / "t", range(15, FILES))
        table.refresh()
    if compacted:
        assert table.compact().after == 2
    fresh = pruner.open_table(str(tmp_path / "t"))
    for value in (0, 17, 500, 999):
        assert _kept(fresh.plan(f"id = {value}")) == _holders(value, value)
    (tmp_path / "t" / "part-03.parquet").unlink()
    assert set(_kept(fresh.plan("id >= 0 AND id < 2000"))) == set(range(FILES)) - {3}
    assert fresh.verify() == []
    assert [entry.key for entry in fresh.inspect("ids", "id$17$")] != []


@pytest.mark.slow
def test_damage_never_loses_a_file(numbers: pruner.Table, tmp_path: Path) -> None:
    """Each byte of the directory, and many of the segment: the file with the row is kept whichever byte is changed."""
    home = Path(numbers.index_uri)
    wanted = _holders(500, 500)
    for folder, step in (("pages", 7), ("bitmap_index", 13)):
        (path,) = (home / folder).iterdir()
        sound = path.read_bytes()
        for at in range(0, len(sound), max(step, len(sound) // 60)):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
            plan = pruner.open_table(numbers.uri).plan("id = 500")
            assert set(wanted) <= set(_kept(plan)), (folder, at)
            if folder == "pages":
                assert plan.kept == FILES, at
                assert "checksum" in plan.explain()
        path.write_bytes(sound)
    assert _kept(pruner.open_table(numbers.uri).plan("id = 500")) == wanted


def test_status_and_report_tell_what_an_index_costs_and_saves(numbers: pruner.Table) -> None:
    before = {each.name: each for each in numbers.status().indexes}
    assert (before["ids"].plans, before["ids"].dropped, before["ids"].load_seconds) == (0, 0, None)
    plan = numbers.plan("id = 500 AND day >= 0")
    after = {each.name: each for each in numbers.status().indexes}
    assert (after["ids"].plans, after["ids"].dropped) == (1, FILES - 1)
    assert (after["days"].plans, after["days"].dropped) == (1, 0)
    assert [(each.idle, each.name) for each in after.values()] == [(0, "ids"), (1, "days")]
    plan.count_again()
    counted = {each.name: (each.plans, each.dropped, each.idle) for each in numbers.status().indexes}
    assert counted == {"ids": (2, 2 * (FILES - 1), 0), "days": (2, 0, 2)}
    assert after["ids"].load_seconds is not None
    assert after["ids"].memory > 0
    assert "index ids: " in plan.explain()
    assert [each["index"] for each in json.loads(plan.to_json())["indexes"]] == ["days", "ids"]
