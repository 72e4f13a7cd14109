"""A folder of several tables is not a table (rule R8), and one table may have folders and change its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.errors import TableError
from tests.support.parquet.tables import write_file

USERS = {"user": ["a"], "city": ["rome"]}
ORDERS = {"number": [1], "amount": [2.0]}


def write(root: Path, files: dict[str, dict[str, Any]]) -> pruner.Table:
    for path, columns in files.items():
        write_file(root / path, **columns)
    return pruner.open_table(root)


@pytest.mark.parametrize(
    ("one", "other", "places"),
    [
        ("a/x.parquet", "b/x.parquet", ("a", "b")),
        ("a/x.parquet", "a-b/x.parquet", ("a", "a-b")),
        ("a/day=1/x.parquet", "b/day=1/x.parquet", ("a", "b")),
        ("a/2024/01/x.parquet", "b/2024/01/x.parquet", ("a", "b")),
        ("db/a/x.parquet", "db/b/x.parquet", ("db/a", "db/b")),
        ("x.parquet", "b/x.parquet", ("", "b")),
        ("a/x.parquet", "a/b/x.parquet", ("a", "a/b")),
        ("k=1/a/x.parquet", "k=2/b/x.parquet", ("k=1/a", "k=2/b")),
    ],
)
def test_two_tables_are_refused_and_named(tmp_path: Path, one: str, other: str, places: tuple[str, str]):
    table = write(tmp_path / "lake", {one: USERS, other: ORDERS})
    with pytest.raises(TableError) as caught:
        table.plan("amount > 1")
    named = [str(tmp_path / "lake" / place) for place in places]
    told = f"{tmp_path / 'lake'} holds at least two tables: files in"
    assert str(caught.value).startswith(told)
    assert {text.strip(",") for text in str(caught.value).split() if text.startswith("/")} >= set(named)


def test_two_tables_in_a_store(tmp_path: Path):
    from pruner.storage.opening import open_store

    store = open_store(f"memory://{tmp_path.name}/lake")
    for place, columns in (("a", USERS), ("b", ORDERS)):
        store.put_new(
            f"{place}/x.parquet", write_file(tmp_path / place / "x.parquet", **columns).read_bytes()
        )
    table = pruner.open_table(f"memory://{tmp_path.name}/lake")
    with pytest.raises(
        TableError, match=f"in memory://{tmp_path.name}/lake/a and in .*/lake/b have no column"
    ):
        table.plan("amount > 1")


def test_each_of_them_is_a_table(tmp_path: Path):
    write(tmp_path, {"a/x.parquet": USERS, "b/x.parquet": ORDERS})
    assert pruner.open_table(tmp_path / "a").plan("city = 'rome'").kept == 1
    assert pruner.open_table(tmp_path / "b").plan("amount > 1").kept == 1


def test_roots_that_are_given_together_are_one_table(tmp_path: Path):
    write(tmp_path, {"a/x.parquet": USERS, "b/x.parquet": ORDERS})
    assert pruner.open_table([tmp_path / "a", tmp_path / "b"]).plan("amount > 1").total == 2


def test_a_table_that_comes_beside_another_is_noticed(tmp_path: Path):
    table = write(tmp_path, {"a/x.parquet": USERS})
    assert table.plan("city = 'rome'").kept == 1
    write_file(tmp_path / "b" / "x.parquet", **ORDERS)
    with pytest.raises(TableError, match="holds at least two tables"):
        table.plan("city = 'rome'")


@pytest.mark.parametrize(
    "files",
    [
        {"2024/01/01/x.parquet": USERS, "2024/01/02/x.parquet": USERS},
        {"2023/x.parquet": {"a": [1], "b": [1]}, "2024/x.parquet": {"A": [1], "c": [1]}},
        # Every column was replaced, one after the other.
        {"1/x.parquet": {"a": [1], "b": [1]}, "2/x.parquet": {"b": [1], "c": [1]}, "3/x.parquet": {"c": [1]}},
        # Partitions and files of one folder are one table, whatever they contain.
        {"kind=user/x.parquet": USERS, "kind=order/x.parquet": ORDERS},
        {"a/kind=user/x.parquet": USERS, "a/kind=order/x.parquet": ORDERS},
        {"x.parquet": USERS, "y.parquet": ORDERS},
        {"a/x.parquet": USERS, "a/y.parquet": ORDERS, "b/x.parquet": USERS, "b/y.parquet": ORDERS},
    ],
)
def test_one_table_is_not_taken_for_two(tmp_path: Path, files: dict[str, dict[str, Any]]):
    table = write(tmp_path, files)
    assert len(table.snapshot().slices) == len(files)


def test_broken_and_empty_files_tell_nothing(tmp_path: Path):
    write_file(tmp_path / "a" / "x.parquet", **USERS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.parquet").write_bytes(b"no parquet at all")
    (tmp_path / "b" / "y.parquet").touch()
    assert len(pruner.open_table(tmp_path).snapshot().slices) == 2
