"""Plans over a pinned snapshot: what they report besides the kept slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner


@pytest.mark.parametrize(
    ("zone", "known"), [(None, True), ("Europe/Berlin", True), ("+02:00", True), ("Mars/Olympus", False)]
)
def test_an_unknown_zone_is_reported(tmp_path: Path, zone: str | None, known: bool) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    plan = pruner.open_table(tmp_path).plan("x = 1", semantics=pruner.Semantics("spark", zone=zone))
    assert any("no time zone 'Mars/Olympus' is known here" in note for note in plan.fallbacks) is not known


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_a_column_that_an_engine_fills_in_where_a_file_lacks_it(tmp_path: Path, using: str) -> None:
    """The file without `y` stays whatever the predicate; the others are dropped by what is known about them."""
    columns = ({}, {"y": [7]}, {"y": [9]}, {"y": pa.array([None], pa.int64())})
    for number, extra in enumerate(columns):
        pq.write_table(pa.table({"x": [number], **extra}), tmp_path / f"{number}.parquet")
    table = pruner.open_table(tmp_path)
    table.create_index("i", on="*", using=using)
    plain = table.snapshot()
    filled = plain.with_filled_in({"y"})
    kept = {
        "y = 7": ([1], [0, 1]),
        "y IS NULL": ([0, 3], [0, 3]),
        "y IS NOT NULL": ([1, 2], [0, 1, 2]),
        "NOT (y = 9)": ([1], [0, 1]),
        "x = 1": ([1], [1]),
    }
    for _ in range(2):
        for predicate, (by_null, by_default) in kept.items():
            for snapshot, expected in ((plain, by_null), (filled, by_default)):
                assert list(snapshot.plan(predicate).kept_mask.nonzero()[0]) == expected, predicate


def test_semantics_by_an_engines_name_are_refused_in_one_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    name: Any = "duckdb"
    with pytest.raises(pruner.PredicateError, match="not 'duckdb': name an engine by dialect="):
        pruner.open_table(tmp_path).plan("x = 1", semantics=name)


HINT = "double quotes hold a name, text stands in single quotes"


@pytest.mark.parametrize("predicate", ['city = "Lima"', '"Lima" = city', 'n = 1 AND NOT (city <> "Lima")'])
def test_text_in_double_quotes_is_refused_with_what_to_write(tmp_path: Path, predicate: str) -> None:
    pq.write_table(pa.table({"city": ["Lima"], "n": [1]}), tmp_path / "a.parquet")
    table = pruner.open_table(tmp_path)
    with pytest.raises(pruner.SchemaError, match=f"no column 'Lima': the table has city, n; {HINT}"):
        table.plan(predicate)
    with pytest.raises(pruner.SchemaError) as error:
        table.plan("city = 'Lima' AND Lima = 1")
    assert HINT not in str(error.value)
    assert table.plan("\"city\" = 'Lima'").kept == 1
    assert table.plan('city = "Lima"', dialect="spark").kept == 1, "Spark's double quotes hold text"


@pytest.mark.parametrize("predicate", ['city IN ("Lima", "Oslo")', 'city LIKE "L%"'])
def test_what_keeps_all_files_for_double_quotes_says_so(tmp_path: Path, predicate: str) -> None:
    pq.write_table(pa.table({"city": ["Lima"], "n": [1]}), tmp_path / "a.parquet")
    [note] = pruner.open_table(tmp_path).plan(predicate).fallbacks
    assert HINT in note
