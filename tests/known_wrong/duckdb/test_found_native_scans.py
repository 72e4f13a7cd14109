"""Native scans of DuckDB that returned other rows than the same files read together (rule R12, trap N6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb


def _tree(root: Path, folders: tuple[Any, Any], values: tuple[Any, Any]) -> Path:
    """Two files whose column `p` is also the key of their folders, with values that no folder has."""
    for number, folder in enumerate(folders):
        place = root / f"p={folder}"
        place.mkdir(parents=True)
        columns = {"k": [10 * number, 10 * number + 1], "p": list(values)}
        pq.write_table(pa.table(columns), place / "f.parquet")
    return root


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("folders", "values"),
    [((3, 4), (7, 9)), (("a", "b"), ("x", "y")), (("a", "b"), (7, 9))],
    ids=["numbers", "texts", "numbers in files, texts in folders"],
)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k FROM {} WHERE p = (SELECT max(p) FROM {} WHERE k < 5)",
        "SELECT k FROM {} WHERE p = (SELECT min(p) FROM {}) AND k < 5",
        "SELECT max(p) FROM {} WHERE k < 5",
    ],
)
def test_a_column_of_path_and_file_in_the_one_file_that_is_left(
    tmp_path: Path, folders: tuple[Any, Any], values: tuple[Any, Any], statement: str
) -> None:
    """For one such file DuckDB 2.0 takes the statistics of the file's column for those of the folder's value."""
    root = _tree(tmp_path / "t", folders, values)
    table = pruner.open_table(str(root))
    table.create_index("s", on="*")
    connection = pruner_duckdb.connect({"t": table})
    all_files = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
    expected = plain_duckdb.session().execute(statement.format(all_files, all_files)).fetchall()
    assert connection.sql(statement.format("t", "t")).fetchall() == expected
    assert expected
    assert any(scan.kept == 1 for scan in connection.last_plans)


@pytest.mark.parametrize("temporary", ["", "TEMP "])
def test_a_macro_of_the_users_named_read_parquet(tmp_path: Path, temporary: str) -> None:
    pq.write_table(pa.table({"k": [0, 1]}), tmp_path / "f.parquet")
    connection = pruner_duckdb.connect({"t": str(tmp_path)})
    connection.execute(
        f"CREATE {temporary}MACRO read_parquet(a, hive_partitioning := false, binary_as_string := false) "
        "AS TABLE SELECT 77 AS k"
    )
    assert connection.sql("SELECT k FROM t ORDER BY k").fetchall() == [(0,), (1,)]
    assert connection.execute("SELECT k FROM t ORDER BY k").fetchall() == [(0,), (1,)]
