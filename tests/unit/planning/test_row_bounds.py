"""What row counts alone settle: the same files and rows as with every bitmap read, and hardly any bitmap is read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import pruner
from pruner.indexes.bitmap.evidence import BitmapEvidence
from pruner.indexes.bitmap.focused import FocusedBitmap
from pruner.indexes.row_sets import slices_in
from pruner.planning.plan import Plan
from pruner.planning.row_level import RowLevel
from pruner.planning.rows import RowBounds
from tests.soundness.kinds import KINDS
from tests.soundness.predicates import draw_predicate
from tests.soundness.tables import write_table
from tests.support.paging import page_everything
from tests.support.running.profiles import examples

SETS = st.lists(st.sets(st.integers(0, 9)), min_size=2, max_size=4)


@settings(max_examples=examples(300))
@given(SETS, st.lists(st.booleans(), min_size=3, max_size=3))
def test_bounds_hold_for_sets_of_rows(sets: list[set[int]], unions: list[bool]) -> None:
    rows = 10
    bounds = [_bounds(len(each), rows) for each in sets]
    found, expected = bounds[0], sets[0]
    for other, bound, union in zip(sets[1:], bounds[1:], unions, strict=False):
        found = found | bound if union else found & bound
        expected = expected | other if union else expected & other
    assert int(found.least[0]) <= len(expected)
    assert bool(found.can[0]) or not expected


def _bounds(size: int, rows: int) -> RowBounds:
    return RowBounds(np.array([size > 0]), np.array([size]), np.array([rows]))


def test_rows_that_cannot_miss_each_other_are_counted() -> None:
    seven, six, three = (_bounds(size, 10) for size in (7, 6, 3))
    assert int((seven & six).least[0]) == 3
    assert int((seven & three).least[0]) == 0
    assert int((seven & six & six).least[0]) == 0
    assert int((six | seven).least[0]) == 7
    assert int((_bounds(10, 10) & three).least[0]) == 3
    nothing = RowBounds.of_all(np.array([False]), np.array([10]))
    assert int((nothing | three).least[0]) == 3
    assert not (nothing & seven).can[0]


@settings(max_examples=examples(200))
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 70_000))), st.sampled_from([0, 1, 1000]))
def test_slices_with_a_row_of_a_set(rows: set[tuple[int, int]], asked: int) -> None:
    """Few rows are listed, many are skipped over."""
    found = slices_in(BitMap64([number << 32 | row for number, row in rows]), asked)
    assert found.tolist() == sorted({number for number, _ in rows})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("paged", [False, True])
def test_plans_are_those_of_every_bitmap_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paged: bool
) -> None:
    """With and without row counts: the same files, rows and reports, and each file is dropped by the same step."""
    rng = random.Random(f"{paged} 11")
    kinds = [kind for kind in KINDS if kind.name != "binary"]
    pairs = settled = 0
    for number in range(examples(40) // 8 + 1):
        table = write_table(rng, tmp_path / str(number), kinds=kinds)
        with monkeypatch.context() as patched:
            if paged:
                page_everything(patched, records=rng.randint(1, 8))
            opened = pruner.open_table(str(table.root), index_uri=str(tmp_path / f"{number} index"))
            opened.create_index("stats", on="*")
            for name in list(table.columns)[: rng.randint(3, 6)]:
                opened.create_index(f"rows of {name}", on=f'"{name}"', using="bitmap")
            pinned = opened.snapshot()
            for _ in range(30):
                text = draw_predicate(rng, table.columns, table.values).sql()
                counted = pinned.plan(text, dialect="duckdb")
                with monkeypatch.context() as every:
                    _ask_again(every)
                    read = pinned.plan(text, dialect="duckdb")
                assert _told(counted) == _told(read), text
                pairs += 1
                settled += bool(counted.kept)
    assert settled > pairs // 4


def _ask_again(patched: pytest.MonkeyPatch) -> None:
    for evidence in (BitmapEvidence, FocusedBitmap):
        patched.setattr(evidence, "rows_in", lambda self, entries, slices: np.zeros(len(slices), np.int64))
    patched.setattr(RowLevel, "_conjuncts", ())


def _told(plan: Plan) -> Any:
    rows = None if plan.rows is None else {uri: _listed(rows) for uri, rows in plan.rows.pairs()}
    return list(plan.files), rows, plan.rows_exact, plan.steps, plan.dropped_by.tolist(), plan.fallbacks


def _listed(rows: Any) -> list[int] | None:
    return None if rows is None else rows.tolist()


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """20 files of 40 rows: `n` has 0 to 39 in each, `s` has two values in turn, and "none" in every fifth file."""
    (tmp_path / "t").mkdir()
    for number in range(20):
        rows = np.arange(40)
        texts = np.where(rows % 2 == 0, "even", "odd") if number % 5 else np.full(40, "none")
        columns: dict[str, Any] = {"n": (rows + number) % 40, "s": texts}
        pq.write_table(pa.table(columns), tmp_path / "t" / f"part-{number:02}.parquet")
    return tmp_path / "t"


@pytest.mark.sampled(15)
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    ("predicate", "kept", "read"),
    [
        # Every row has such a number: a file with an even row holds a match.
        ("s = 'even' AND n >= 0", 16, 0),
        ("s = 'even' AND n >= 0 AND s != 'none'", 16, 0),
        # 20 even rows and 30 of these numbers: at least ten are both.
        ("s = 'even' AND n < 30", 16, 0),
        ("s != 'even' AND NOT (n < 10)", 20, 0),
        # 20 and 20 of 40 rows may be different ones; files with "none" alone have no odd row.
        ("s = 'odd' AND n < 20", 16, 16),
        ("(s = 'odd' AND n < 2) OR s = 'even'", 16, 0),
        ("s = 'even' AND n = 0", 8, 16),
    ],
)
def test_bitmaps_are_read_of_files_alone_that_numbers_leave_open(
    dense: Path, monkeypatch: pytest.MonkeyPatch, paged: bool, predicate: str, kept: int, read: int
) -> None:
    if paged:
        page_everything(monkeypatch, records=64)
    table = pruner.open_table(str(dense))
    table.create_index("bits", on=["n", "s"], using="bitmap")
    asked: set[int] = set()
    for evidence in (BitmapEvidence, FocusedBitmap):
        monkeypatch.setattr(evidence, "rows", _watched(evidence.rows, asked))
    plan = table.plan(predicate, dialect="duckdb")
    assert plan.kept == kept
    assert len(asked) == read
    assert plan.rows_exact
    expected = {str(file): _matching(file, predicate) for file in sorted(dense.glob("*.parquet"))}
    assert plan.rows is not None
    told = {uri: _listed(rows) for uri, rows in plan.rows.pairs()}
    assert told == {uri: rows for uri, rows in expected.items() if rows}


def _watched(rows: Any, asked: set[int]) -> Any:
    def watched(self: Any, entries: Any, slices: Any) -> Any:
        asked.update(slices.tolist())
        return rows(self, entries, slices)

    return watched


def _matching(file: Path, predicate: str) -> list[int]:
    scan = f"SELECT file_row_number FROM read_parquet('{file}', file_row_number = true) WHERE {predicate} ORDER BY 1"
    return [number for (number,) in duckdb.connect().execute(scan).fetchall()]
