"""DuckDB over tables of other formats: they are refused with one sentence, and never return deleted rows (D8)."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import pruner
import pruner_duckdb
from pruner.errors import PrunerError, TableError
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.parquet.tables import write_file


def put(root: Path, kind: str, *, data: bool, signs: bool) -> None:
    """The data of a table of another format, two versions of a row, and the signs of that format."""
    table = FOREIGN_TABLES[kind]
    for number, path in enumerate(table.data if data else ()):
        write_file(root / path, id=[1], v=[number])
    for path, text in table.beside.items() if signs else ():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_d8_a_folder_of_another_formats_table_gives_no_rows(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "t", kind, data=True, signs=True)
    for folder in ("t", *(f"t/{each}" for each in FOREIGN_TABLES[kind].folders)):
        for place in (tmp_path / folder, f"{tmp_path / folder}/**/*.parquet"):
            with pytest.raises(
                TableError, match=f"{FOREIGN_TABLES[kind].what[3:]}|{FOREIGN_TABLES[kind].name}"
            ):
                pruner_duckdb.connect({"t": str(place)}).execute("SELECT v FROM t WHERE id = 1").fetchall()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_r8_a_connection_notices_that_its_table_became_another_formats(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "t", kind, data=True, signs=False)
    folder = FOREIGN_TABLES[kind].folders[0]
    connection = pruner_duckdb.connect({"whole": tmp_path / "t", "part": tmp_path / "t" / folder})
    statements = [f"SELECT v FROM {name} WHERE id = 1 ORDER BY v" for name in ("whole", "part")]
    expected = [[(0,), (1,)], [(0,), (1,)] if folder in FOREIGN_TABLES[kind].data[1] else [(0,)]]
    for _ in range(2):
        assert [connection.execute(each).fetchall() for each in statements] == expected
    put(tmp_path / "t", kind, data=False, signs=True)
    for statement in statements:
        # An error in a callback of DuckDB can only be a DuckDB error.
        with pytest.raises(
            (PrunerError, duckdb.IOException), match="whose files are not all part of the data"
        ):
            connection.execute(statement).fetchall()


@pytest.mark.slow
def test_two_tables_below_one_folder_are_named(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "x.parquet", id=[1])
    write_file(tmp_path / "b" / "x.parquet", city=["rome"])
    with pytest.raises(
        TableError, match=f"files in {tmp_path}/a and in {tmp_path}/b have no column in common"
    ):
        pruner_duckdb.connect({"t": tmp_path}).execute("SELECT * FROM t").fetchall()
    both = pruner.open_table([tmp_path / "a", tmp_path / "b"])
    assert pruner_duckdb.connect({"t": both}).execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.slow
def test_what_duckdbs_own_glob_takes_and_a_table_does_not(tmp_path: Path) -> None:
    """As docs/parquet.md states: hidden files, and neither other endings nor what is behind a link."""
    root = tmp_path / "t"
    hidden = ["_x.parquet", ".x.parquet", "_dir/f.parquet", ".dir/g.parquet"]
    both = ["a.parquet", "sub/e.parquet", "_k=1/h.parquet"]
    ours = ["b.PARQUET", "c.parq", "d.pq", "000000_0", "link/l.parquet"]
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    for name in (*hidden, *both, *ours):
        write_file(root / name, name=[name])
    query = f"SELECT name FROM read_parquet('{root}/**/*.parquet', hive_partitioning = false)"
    assert sorted(row[0] for row in duckdb.connect().execute(query).fetchall()) == sorted(hidden + both)
    table = pruner_duckdb.connect({"t": root}).execute("SELECT name FROM t").fetchall()
    assert sorted(row[0] for row in table) == sorted(both + ours)
    said = [finding.found for finding in pruner.open_table(root).diagnose() if finding.probe == "files"]
    assert [text.split(" (")[0] for text in said] == ["4 files", "4 files"], (
        "what lies behind a link is not looked for"
    )
