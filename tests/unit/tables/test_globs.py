"""The pattern that matches the files of a Parquet table in a store: all of them, and none with a hidden name."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pruner.tables.listing.files import is_hidden
from pruner.tables.parquet.building import glob_of
from tests.support.duckdb import plain

ROOT = "s3://lake/t"


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (["a.parquet", "b.parquet"], f"{ROOT}/[!._]*.parquet"),
        (["day=1/a.parquet", "day=2/a.parquet"], f"{ROOT}/day=*/[!._]*.parquet"),
        (["x/day=1/a.parquet", "y/day=2/b.parquet"], f"{ROOT}/[!._]*/day=*/[!._]*.parquet"),
        (["_day=1/a.parquet"], f"{ROOT}/_day=*/[!._]*.parquet"),
        ([], None),
        (["a.parquet", "x/b.parquet"], None),
        (["day=1/a.parquet", "hour=2/b.parquet"], None),
        (["day=1/a.parquet", "x/b.parquet"], None),
        (["a.parquet", "b.PARQUET"], None),
        (["a.parquet", "b"], None),
        (["_a=1.parquet"], None),
        (["d[1]=1/a.parquet"], None),
        (["d*y=1/a.parquet"], None),
    ],
)
def test_the_pattern_of_some_files(paths: list[str], pattern: str | None) -> None:
    assert glob_of(ROOT, paths) == pattern


@pytest.mark.parametrize("root", ["s3://lake/[t]", "s3://lake/t*", "s3://lake/t?", "s3://lake/{t}"])
def test_a_root_that_would_be_a_pattern_has_none(root: str) -> None:
    assert glob_of(root, ["a.parquet"]) is None


NAMES = st.text("ab_.=[]*?!-^ ö%", min_size=1, max_size=4).filter(
    lambda name: name.strip(".") and "/" not in name
)
PATHS = st.tuples(
    st.lists(st.one_of(NAMES, st.sampled_from(["day=1", "day=2", "x", "_temporary", "_x=1"])), max_size=2),
    st.tuples(NAMES, st.sampled_from([".parquet", ".parquet.crc", "", ".parquet.tmp"])).map("".join),
).map(lambda each: "/".join([*each[0], each[1]]))


@given(st.sets(PATHS, min_size=1, max_size=8))
@example({"day=1/a.parquet", "_temporary/a.parquet", "day=1/_a.parquet", "day=2/.a.parquet"})
@example({"x/a.parquet", "_temporary/a.parquet", ".x/a.parquet"})
def test_duckdb_finds_the_visible_files_by_it_and_no_others(paths: set[str]) -> None:
    """DuckDB's own pattern matching: patterns of stores are matched by the same function."""
    visible = {path for path in paths if not any(map(is_hidden, path.split("/")))}
    with tempfile.TemporaryDirectory() as folder:
        written: set[str] = set()
        for path in paths:
            place = Path(folder, path)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # a name is a file and a folder
            written.add(path)
        visible &= written
        pattern = glob_of(folder, sorted(path for path in visible if path.endswith(".parquet")))
        if pattern is None:
            return
        found = plain.session().execute("SELECT file FROM glob(?)", [pattern]).fetchall()
        matched = {str(Path(row[0]).relative_to(folder)) for row in found}
        assert matched == {path for path in visible if path.endswith(".parquet")}
