"""A glob stands for a table if it matches all of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

import pruner
import pruner_duckdb
from pruner.catalog.names import Catalog, folder_of, settings_in_place
from pruner.errors import TableError
from tests.support.parquet.tables import write_file


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two months with two files each."""
    monkeypatch.chdir(tmp_path)
    for month in ("2024-01", "2024-02"):
        for number in range(2):
            write_file(tmp_path / "lake" / month / f"{number}.parquet", x=[number])
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "glob",
    ["lake/**", "lake/**/*.parquet", "lake/*/*.parquet", "lake/2024-*/*", "lake/2024-0[12]/?.parquet"],
)
def test_a_glob_for_all_files_is_the_table(lake: Path, glob: str) -> None:
    table = Catalog().open(glob)
    assert table.uri == str(lake)
    assert len(table.snapshot().slices) == 4


@pytest.mark.parametrize(
    ("glob", "taken"), [("lake/2024-*1/*.parquet", 2), ("lake/*.parquet", 0), ("lake/*/0*", 2), ("lake/*", 0)]
)
def test_a_glob_for_some_files_is_refused(lake: Path, glob: str, taken: int) -> None:
    with pytest.raises(
        TableError, match=f"matches {taken} of the 4 files of lake, but a table has all of them"
    ):
        Catalog().open(glob)


def test_a_glob_below_a_folder_of_the_lake_is_a_table_of_that_folder(lake: Path) -> None:
    assert Catalog().open("lake/2024-01/*.parquet").uri == str(lake / "2024-01")


def test_a_glob_where_nothing_is_says_what_a_table_is(lake: Path) -> None:
    with pytest.raises(TableError, match="nothing"):
        Catalog().open("nothing/*")
    with pytest.raises(TableError, match=r"so give the one that the glob looks into"):
        pruner.open_table(["lake/*"])


def test_a_folder_may_be_named_like_a_glob(lake: Path) -> None:
    write_file(lake.parent / "a[1]" / "f.parquet", x=[1])
    assert Catalog().open("./a[1]").uri.endswith("/a[1]")


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("lake", None),
        ("lake/*.parquet", "lake"),
        ("/*", "/"),
        ("*.parquet", "."),
        ("s3://lake/t/**/*.parquet", "s3://lake/t"),
        ("a/b*c/d", "a"),
    ],
)
def test_the_folder_of_a_glob(place: str, folder: str | None) -> None:
    assert folder_of(place) == folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize("glob", ["lake/**/*.parquet", "lake/**"])
def test_a_glob_is_opened_by_programs_as_by_commands(lake: Path, glob: str) -> None:
    assert pruner.open_table(glob).uri == str(lake)
    found = pruner_duckdb.connect({"o": glob}).execute("SELECT count(*) FROM o").fetchone()
    assert found == (4,)


def test_a_glob_of_the_configuration_keeps_the_tables_options(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "pruner.toml").write_text('[tables.o]\nuri = "lake/**/*.parquet"\nindex_uri = "beside"\n')
    table = pruner.open_table("o")
    assert (table.uri, Path(table.index_uri).name) == (str(lake), "beside")
    assert Catalog().open("o").uri == str(lake)


def test_a_glob_for_some_files_is_refused_by_programs(lake: Path) -> None:
    with pytest.raises(TableError, match="matches 2 of the 4 files of lake, but a table has all of them"):
        pruner.open_table("lake/2024-*1/*.parquet")


def test_the_settings_of_a_glob_are_those_of_its_folder(lake: Path, tmp_path: Path) -> None:
    """An adapter that lets its engine list the files needs the location, not the table."""
    assert settings_in_place("lake/**/*.parquet").uris == settings_in_place("lake").uris
    (tmp_path / "pruner.toml").write_text(
        '[tables.l]\nuri = "lake/**"\nfiles = "immutable"\n', encoding="utf-8"
    )
    named = settings_in_place("l")
    assert (Path(named.uris[0]), named.files) == (lake, "immutable")
    with pytest.raises(TableError, match="matches 2 of the 4 files"):
        settings_in_place("lake/*/0.parquet")


@pytest.mark.parametrize("hidden", ["_old.parquet", ".x.parquet", "2024-01/_x.parquet", "_tmp/0.parquet"])
def test_a_glob_for_more_than_the_table_is_refused(lake: Path, hidden: str) -> None:
    """DuckDB reads such files by that glob; a table does not include them."""
    write_file(lake / hidden, x=[9])
    with pytest.raises(
        TableError,
        match=r"matches .*, which does not belong to the table because a name in its path begins with _ or",
    ):
        Catalog().open("lake/**/*.parquet")
    assert len(Catalog().open("lake/2024-*/[01].parquet").snapshot().slices) == 4
    assert len(Catalog().open("lake").snapshot().slices) == 4
