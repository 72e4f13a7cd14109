"""The table format of another distribution, as in `examples/listed_format`: installed, found, indexed, read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parquet.tables import write_file
from tests.support.plugin_examples import run_with_example

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
    root = tmp_path / "t"
    write_file(root / "a.parquet", s=["a", "b"], x=[1, 2])
    write_file(root / "b.parquet", s=["c", "d"], x=[3, 4])
    write_file(root / "c.parquet", s=["e", "f"], x=[5, 6])
    printed = run_with_example("listed_format", tmp_path / "site", SCRIPT, str(root))
    assert printed == [
        "listed 2 2",
        "[('c', 3), ('d', 4)] 1 2",  # of a.parquet it is known that no row matches
        "[('c', 3), ('d', 4), ('e', 5), ('f', 6)] 2 2",  # a.parquet still exists, but is no part of the table
        "ROOT/_files.json names gone.parquet, which is not there",
        "ROOT/_files.json names ../t/a.parquet, which leads out of the table",
    ]
