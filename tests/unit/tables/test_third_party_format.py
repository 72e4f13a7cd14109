"""The table format of another distribution, as `examples/listed_format` ships it: installed, found, indexed, read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parquet_tables import write_file
from tests.support.patience import PATIENCE

EXAMPLE = Path(__file__).parents[3] / "examples" / "listed_format"

SCRIPT = """
import json, sys
from pathlib import Path
import pruner, pruner_duckdb
root = Path(sys.argv[1])
name = lambda files: (root / "_files.json").write_text(json.dumps({"files": files}))
name(["a.parquet", "b.parquet"])
table = pruner.open_table(root)
print(table.format, len(table.snapshot().data), table.create_index("x", on="x").indexed)
con = pruner_duckdb.connect({"t": root})
asked = "SELECT s, x FROM t WHERE x >= 3 ORDER BY x"
print(con.execute(asked).fetchall(), con.last_plans[-1].kept, con.last_plans[-1].total)
name(["b.parquet", "c.parquet"])
print(con.execute(asked).fetchall(), con.last_plans[-1].kept, con.last_plans[-1].total)
for files in (["gone.parquet"], ["../t/a.parquet"]):
    name(files)
    try:
        pruner.open_table(root)
    except pruner.TableError as error:
        print(str(error).replace(str(root), "ROOT"))
"""


@pytest.mark.processes
def test_a_table_format_of_another_distribution(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        site,
    ]
    subprocess.run(
        [sys.executable, *map(str, install), str(EXAMPLE)], check=True, capture_output=True, timeout=PATIENCE
    )
    root = tmp_path / "t"
    write_file(root / "a.parquet", s=["a", "b"], x=[1, 2])
    write_file(root / "b.parquet", s=["c", "d"], x=[3, 4])
    write_file(root / "c.parquet", s=["e", "f"], x=[5, 6])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "listed 2 2",
        "[('c', 3), ('d', 4)] 1 2",  # of a.parquet it is known that no row matches
        "[('c', 3), ('d', 4), ('e', 5), ('f', 6)] 2 2",  # a.parquet is there still, and no part of the table
        "ROOT/_files.json names gone.parquet, which is not there",
        "ROOT/_files.json names ../t/a.parquet, which leads out of the table",
    ]
