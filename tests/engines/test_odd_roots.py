"""Tables below folders with odd names: line breaks, tabs, quotes, and characters special to URIs, globs and SQL."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.kept.tables import KeptTables

NAMES = (
    "a\nb",
    "\n",
    "a\tb\rc",
    "\x01 \x7f",
    " a b ",
    "50% a%20b%2Fc",
    "a#b?c=d&e",
    "a'b\"c`d\\e",
    "[a]*{b}?",
    "$a;b,c|d<e>",
    "Zürich 東京 😀 \u2028",
)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_a_parquet_tree(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    parquet: Any = pq  # its stubs leave types open
    for number in range(3):
        parquet.write_table(pa.table({"id": [2 * number, 2 * number + 1]}), root / f"{number}.parquet")
    table = pruner.open_table(str(root))
    table.create_index("stats", on="id")
    assert [Path(file).parent for file in table.plan("id = 3").files] == [root]
    with pruner_duckdb.connect({"t": str(root)}) as con:
        assert con.execute("SELECT id FROM t WHERE id = 3").fetchall() == [(3,)]
        assert con.last_plans[-1].kept == 1
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)]


@pytest.mark.spark
@pytest.mark.parametrize("table", ["cow_v6", "mor_v9"])
@pytest.mark.parametrize("name", NAMES)
def test_a_hudi_table(hudi_tables: KeptTables, tmp_path: Path, name: str, table: str) -> None:
    """hudi-rs refuses control characters; the rows are those of the same table at a plain path."""
    plain, root = hudi_tables.path(table), tmp_path / name / table
    shutil.copytree(plain, root)
    pruner.open_table(str(root)).create_index("ids", on="id", using="bitmap")
    found: list[Any] = []
    for each in (plain, root):
        options = {"uri": str(each), "index_uri": str(tmp_path / "index")} if each == plain else str(each)
        with pruner_duckdb.connect({"t": options}) as con:
            found.append(con.execute("SELECT * FROM t ORDER BY id").fetchall())
            found.append(con.execute("SELECT * FROM t WHERE id = 3").fetchall())
            plan = con.last_plans[-1]
    assert found[:2] == found[2:]
    assert len(found[1]) == 1
    assert plan.kept == 1
