"""Columns that Trino reads as another number than Arrow does (rule R11, trap S24), through the plugin on a real Trino.

Expected rows are those of the plain catalog of the same server with `parquet_ignore_statistics`: Trino's own pruning
takes the table's type for the files'.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from tests.support.parquet.types import converted, plain
from tests.support.trino.server import aged
from tests.support.trino.tables import Registered, TrinoTables

pytestmark = pytest.mark.trino

WHOLE = "parquet_ignore_statistics"


def check(table: Registered, expected: Mapping[str, tuple[int, int]]) -> None:
    """Compare rows and splits of predicates with the expected ones; rows also with the plain catalog's."""
    for where, (rows, splits) in expected.items():
        found = table.run(where, **{f"pruned_hive.{WHOLE}": "true"})
        plain_rows = table.run(where, "hive", **{f"hive.{WHOLE}": "true"}).rows
        assert found.rows == plain_rows == [(rows,)], where
        assert table.splits(found) == splits, where


@pytest.mark.parametrize("declared", ["int", "bigint"])
@pytest.mark.parametrize(("annotation", "value"), [("INT_8", 379), ("INT_16", 70_000)])
def test_s24_signed_numbers_that_do_not_fit(
    trino_tables: TrinoTables, tmp_path: Path, declared: str, annotation: str, value: int
) -> None:
    """Trino reads the 32 bits as stored; the file that holds such a number is always read."""
    root = tmp_path / "lake"
    root.mkdir()
    for number in (value, 5, 6):
        converted(root / f"{number}.parquet", pa.array([number], pa.int32()), annotation)
    table = trino_tables.register(root, {"x": declared})
    check(table, {f"x = {value}": (1, 1), "x = 5": (1, 2), "x > 100": (1, 1), "x < 6": (1, 2)})


@pytest.mark.parametrize("declared", ["int", "bigint"])
@pytest.mark.parametrize(("annotation", "value"), [("UINT_8", 300), ("UINT_8", -1), ("UINT_16", 70_000)])
def test_s24_unsigned_numbers_that_do_not_fit(
    trino_tables: TrinoTables, tmp_path: Path, declared: str, annotation: str, value: int
) -> None:
    """Trino has no unsigned types: the table declares a type, and such files are unknown."""
    root = tmp_path / "lake"
    root.mkdir()
    for number in (value, 5, 6):
        converted(root / f"{number}.parquet", pa.array([number], pa.int32()), annotation)
    table = trino_tables.register(root, {"x": declared})
    check(table, {f"x = {value}": (1, 3), "x = 5": (1, 3)})


def test_whole_numbers_whose_bits_are_fractions(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """A table that declares `float` over INT32 reads the bits as such: 1065353216 is 1.0."""
    root = tmp_path / "lake"
    root.mkdir()
    for number in (1_065_353_216, 1, 2):
        plain(root / f"{number}.parquet", pa.array([number], pa.int32()))
    table = trino_tables.register(root, {"x": "float"})
    check(table, {"x = REAL '1.0'": (1, 3), "x > REAL '0.5'": (1, 3), "x = REAL '1065353216.0'": (0, 3)})


@pytest.mark.parametrize("declared", ["varchar(3)", "char(9)"])
def test_found_text_that_is_cut_or_padded_below_coalesce(
    trino_tables: TrinoTables, tmp_path: Path, declared: str
) -> None:
    """An index over `coalesce(x, '-')` answered for a column that Trino truncates on read."""
    root = tmp_path / "lake"
    root.mkdir()
    for text in ("abcdef", "abc   ", "xy"):
        plain(root / f"{text.strip()}.parquet", pa.array([text]))
    index = pruner.open_table(aged(root))
    for number, expression in enumerate(("coalesce(x, '-')", "nullif(x, 'abc')")):
        index.create_index(f"i{number}", on=expression, using="bitmap")
    table = trino_tables.register(root, {"x": declared})
    cut = declared == "varchar(3)"
    wanted = {
        "coalesce(x, '-') = 'abc'": (2 if cut else 1, 3),
        "nullif(x, 'abc') IS NULL": (2 if cut else 1, 3),
    }
    check(table, wanted)
