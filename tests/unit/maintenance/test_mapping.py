"""Maps of tables: coverage of each index, and how far the ranges of a column overlap."""

from __future__ import annotations

import os
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pruner
from pruner.maintenance.mapping import DrawnRange, _holding, map_lines, map_page
from tests.support.parquet.tables import write_file
from tests.support.service.pages import Page, assert_stands_for_itself

FILES = 20


def column(number: int, type_name: str) -> Any:
    """Ten values of a file: files follow each other without gaps or overlaps."""
    values = range(number * 10, number * 10 + 10)
    match type_name:
        case "date":
            return [date(2024, 1, 1) + timedelta(days=value) for value in values]
        case "decimal":
            return pa.array([Decimal(value).scaleb(-1) for value in values], pa.decimal128(9, 1))
        case "wide":
            return pa.array([Decimal(value).scaleb(-1) for value in values], pa.decimal128(30, 1))
        case "text":
            return [f"{value:04}" for value in values]
        case "bytes":
            return [bytes([value]) for value in values]
        case "float":
            return [value / 2 for value in values]
        case _:
            return list(values)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """Sorted columns of several types; `mixed` has the same values in every file, `half` alternates between two."""
    root = tmp_path_factory.mktemp("map") / "t"
    names = ("int", "date", "decimal", "wide", "text", "bytes", "float")
    for number in range(FILES):
        columns = {name: column(number, name) for name in names}
        path = write_file(
            root / f"{number:02}.parquet",
            **columns,
            mixed=[0, 9] * 5,
            half=[number % 2] * 10,
            nulls=pa.nulls(10, pa.int64()),
        )
        os.utime(path, (1_600_000_000, 1_600_000_000))
    opened = pruner.open_table(root)
    opened.create_index("stats", on=["int", "mixed"])
    opened.create_index("registered", on="text", build=False)
    return opened


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int", "0", "9"),
        ("date", "2024-01-01", "2024-01-10"),
        ("decimal", "0.0", "0.9"),
        ("wide", "0.0", "0.9"),
        ("text", "0000", "0009"),
        ("bytes", "0x00", "0x09"),
        ("float", "0", "4.5"),
    ],
)
def test_ranges_that_follow_each_other(table: pruner.Table, name: str, low: str, high: str) -> None:
    (found,) = table.map(name).columns
    assert (found.depth, found.deepest, found.known) == (1.0, 1, FILES)
    assert found.verdict == "clustered: a search for one value reads about 1.0 of 20 files"
    assert found.drawn[0] == DrawnRange("00.parquet", 0, 1, low, high)
    assert found.overlaps == (1,) * (2 * FILES)
    assert found.source == ("index stats" if name == "int" else "the footers of 20 of 20 files")


def test_ranges_that_are_all_alike(table: pruner.Table) -> None:
    (found,) = table.map("mixed").columns
    assert found.verdict == "not clustered: a search for one value reads about 20.0 of 20 files"
    assert found.overlaps == (20, 20)


def test_ranges_of_two_values(table: pruner.Table) -> None:
    (found,) = table.map("half").columns
    assert found.verdict == "not clustered: a search for one value reads about 10.0 of 20 files"
    assert found.starts == ("0", "1")


def test_a_column_without_values_has_no_range(table: pruner.Table) -> None:
    (found,) = table.map("nulls").columns
    assert (found.known, found.verdict) == (0, "too few files have a known range to tell")
    assert "column nulls" in "\n".join(map_lines(table.map("nulls")))


def test_what_is_not_named_is_what_has_an_index_of_ranges(table: pruner.Table) -> None:
    assert [each.column for each in table.map().columns] == ["int", "text", "mixed"]
    with pytest.raises(pruner.SchemaError, match="nowhere"):
        table.map("nowhere")


def test_coverage_of_each_index(table: pruner.Table) -> None:
    assert [(each.name, each.strip) for each in table.map().indexes] == [
        ("stats", "C" * FILES),
        ("registered", "U" * FILES),
    ]


def test_the_page_reads_aloud(table: pruner.Table) -> None:
    page = Page(map_page(table.map(["int", "half"])))
    assert_stands_for_itself(page)
    assert page.rows("From least")[0] == ["00.parquet", "0", "9"]
    assert page.rows("Parts")[1] == ["9", "1"]
    assert [each.text for each in page.all("div", class_="strip")] == ["C" * FILES, "U" * FILES]


def test_lines_have_a_bar_for_each_range(table: pruner.Table) -> None:
    lines = list(map_lines(table.map("int")))
    assert "  " + "·" * 2 + "██" + "·" * 36 + "  10 to 19  01.parquet" in lines


@given(
    ends=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=30),
    at=st.integers(-1, 30),
)
def test_overlaps_against_counting(ends: list[tuple[int, int]], at: int) -> None:
    ranges = [(low, low + width) for low, width in ends]
    lows, highs = (np.sort(np.array(side)) for side in zip(*ranges, strict=True))
    point = np.array([at])
    assert _holding(point, point, lows, highs).tolist() == [sum(low <= at <= high for low, high in ranges)]


def test_slices_that_an_index_refused_are_not_drawn_as_covered(tmp_path: Any) -> None:
    """Engines disagree about letters beyond ASCII: such a file has a record without answers. Files are in folders."""
    for folder, city in (("k=1", "ROME"), ("k=2", "KÖLN")):
        path = write_file(tmp_path / "t" / folder / "0.parquet", city=[city], n=[1])
        os.utime(path, (1_600_000_000, 1_600_000_000))
    opened = pruner.open_table(tmp_path / "t")
    opened.create_index("low", on="lower(city)", using="bitmap")
    found = opened.map(["n"])
    assert [each.strip for each in found.indexes] == ["CU"]
    assert opened.status().indexes[0].covered == 1
    assert [each.file for each in found.columns[0].drawn] == ["k=1/0.parquet", "k=2/0.parquet"]


def test_a_partition_column_has_the_values_of_the_folders(tmp_path: Path) -> None:
    for number in range(6):
        write_file(tmp_path / "t" / f"year={2020 + number // 2}" / f"{number}.parquet", x=[number])
    (found,) = pruner.open_table(tmp_path / "t").map("year").columns
    assert (found.source, found.known, found.overlaps) == ("the names of folders", 6, (2, 2, 2))
    assert found.starts == ("2020", "2021", "2022")
    assert {(each.low, each.high) for each in found.drawn} == {
        (str(year),) * 2 for year in (2020, 2021, 2022)
    }


def test_a_partition_column_about_which_folders_disagree_has_no_ranges(tmp_path: Path) -> None:
    for folder in ("a=1", ""):
        write_file(tmp_path / "t" / folder / "f.parquet", x=[1])
    (found,) = pruner.open_table(tmp_path / "t").map("a").columns
    assert found.known == 0


def test_a_column_of_lists_cannot_be_drawn(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "0.parquet", tags=[["a"], ["b"]], n=[1, 2])
    with pytest.raises(
        pruner.IndexDefinitionError, match=r"^column tags has type list.* cannot be drawn.*boolean.*can$"
    ):
        pruner.open_table(tmp_path / "t").map(["tags"])


def test_a_column_of_lists_leaves_the_others_drawn(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "0.parquet", tags=[["a"], ["b"]], n=[1, 2])
    found = pruner.open_table(tmp_path / "t").map(["tags", "n"])
    assert [each.column for each in found.columns] == ["n"]
    (why,) = found.undrawn
    assert why.startswith("column tags has type list")
    assert "leave it out" in why
    assert list(map_lines(found))[-1] == why
    page = Page(map_page(found))
    assert why in [each.text for each in page.all("li")]
