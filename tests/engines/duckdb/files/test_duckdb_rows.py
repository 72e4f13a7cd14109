"""Few rows of big files are read by their positions: the same results as without, and no doubtful positions."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner_duckdb.read import reading
from tests.support.duckdb.ways import is_native
from tests.support.kept.tables import KeptTables

ROWS = 400


def _write(root: Path) -> pruner.Table:
    """Three files; `k` is never NULL, `v` and `name` sometimes are; the same positions hold different values."""
    root.mkdir()
    rng = np.random.default_rng(3)
    for number in range(3):
        names = [f"n{value}" if value else None for value in rng.integers(0, 60, ROWS).tolist()]
        columns = {
            "k": pa.array(rng.integers(0, 150, ROWS)),
            "v": pa.array([float(v) if v else None for v in rng.integers(0, 90, ROWS).tolist()]),
            "name": pa.array(names),
            "file_row_number": pa.array([number] * ROWS),
        }
        pq.write_table(pa.table(columns), root / f"part-{number}.parquet", row_group_size=50)
    table = pruner.open_table(str(root))
    table.create_index("bits", on=["k", "v", "name"], using="bitmap")
    return table


_SELECTIVE = "SELECT v FROM t WHERE k = 17 AND name = 'n5'"
STATEMENTS = [
    "SELECT * FROM t WHERE k = 17 ORDER BY ALL",
    "SELECT count(*), sum(v), min(file_row_number) FROM t WHERE k = 17 AND name = 'n5'",
    "SELECT k, name FROM t WHERE name = 'n7' AND v > 80 ORDER BY ALL",
    "SELECT count(*) FROM t WHERE k = 3 AND NOT (v < 40)",
    "SELECT count(*) FROM t WHERE k = 3 AND v IS NULL",
    "SELECT count(*) FROM t WHERE k IN (1, 149) AND name LIKE 'n1%'",
    "SELECT count(*) FROM t WHERE k = 17 OR (k = 18 AND v = 3)",
    "SELECT a.k, b.name FROM t a JOIN t b ON a.k = b.k AND b.name = 'n5' WHERE a.name = 'n7' ORDER BY ALL",
    "SELECT a.k, b.v FROM t a LEFT JOIN t b ON a.k = b.k AND b.name = 'n5' WHERE a.k = 17 ORDER BY ALL",
    "SELECT a.k FROM t a ANTI JOIN t b ON a.k = b.k AND b.name = 'n5' ORDER BY ALL",
    "SELECT k, row_number() OVER (ORDER BY v, k, name) FROM t WHERE k = 20 ORDER BY ALL",
    "SELECT name, v FROM t WHERE k = 20 ORDER BY v DESC NULLS LAST, name LIMIT 2",
    "SELECT (SELECT max(v) FROM t WHERE k = 17) AS m, count(*) FROM t WHERE k = 4 AND v > 10",
    "SELECT count(*) FROM (SELECT * FROM t WHERE k = 8 UNION ALL SELECT * FROM t WHERE name = 'n9')",
]


class Three:
    """DuckDB alone, the adapter over files too small for positions, and the adapter with positions."""

    def __init__(self, root: Path) -> None:
        table = _write(root)
        self.plain = duckdb.connect()
        self.plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
        self.whole, self.by_position = (pruner_duckdb.connect({"t": table}) for _ in range(2))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Three:
    return Three(tmp_path_factory.mktemp("rows") / "t")


@pytest.mark.sampled(48)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_results_are_those_of_whole_files(
    three: Three, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    expected = three.plain.execute(statement).fetchall()
    whole = three.whole.sql(statement).fetchall()
    assert "file_row_number" not in str(three.whole.sql(f"EXPLAIN {_SELECTIVE}").fetchall())
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    by_position = three.by_position
    assert by_position.sql(statement).fetchall() == whole == expected
    shown = by_position.sql(f"EXPLAIN {_SELECTIVE}").fetchall()
    # The native scan gets no row positions.
    assert ("file_row_number" in str(shown)) != is_native()


FEW = "k = 20 AND v > 60"
"""Four rows: DuckDB joins longer lists of positions with the scan, which is another plan."""

FIRST_ROWS = [
    f"SELECT v, name FROM t WHERE {FEW} ORDER BY v, name LIMIT 5",
    f"SELECT * FROM t WHERE {FEW} ORDER BY v DESC NULLS LAST, name LIMIT 2",
    f"SELECT * FROM t WHERE {FEW} ORDER BY name, v LIMIT 1 OFFSET 1",
    f"SELECT * FROM t WHERE {FEW} QUALIFY row_number() OVER (PARTITION BY k ORDER BY v, name) = 1",
    f"SELECT * FROM (SELECT *, row_number() OVER (ORDER BY v) AS r FROM t WHERE {FEW}) WHERE r = 1",
    f"SELECT t.k FROM t JOIN (SELECT v AS q FROM t WHERE {FEW} ORDER BY v LIMIT 5) ON t.v = q ORDER BY ALL",
]


@pytest.mark.parametrize("statement", FIRST_ROWS)
@pytest.mark.parametrize("name", ["file_row_number", "number"])
def test_first_rows_are_those_of_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, name: str
) -> None:
    """DuckDB 2.0.0 fails with an INTERNAL error where it finds rows late of a scan with positions alone.

    Files with a column of DuckDB's name for a position are read by another scan.
    """
    root = tmp_path / "t"
    _write(root)
    for path in root.iterdir():
        rows = pq.read_table(path).rename_columns(["k", "v", "name", name])
        pq.write_table(rows, path, row_group_size=50)
    table = pruner.open_table(str(root))
    table.refresh()
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    pruned, plain = pruner_duckdb.connect({"t": table}), duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
    expected = plain.sql(statement).fetchall()
    assert pruned.sql(statement).fetchall() == expected
    assert pruned.execute(statement).fetchall() == expected
    if not is_native():
        assert "file_row_number = " in str(pruned.sql(f"EXPLAIN SELECT * FROM t WHERE {FEW}").fetchall())


@pytest.mark.sampled(2)
def test_positions_are_given_only_for_few_rows_of_few_big_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _write(tmp_path / "t")
    rare = table.plan("k = 17 AND name = 'n5'")
    assert reading.positions_to_read(rare, rare.ordinals) is None, "the files are small"
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    found = reading.positions_to_read(rare, rare.ordinals)
    assert found is not None
    assert rare.rows is not None
    assert found.tolist() == sorted({row for rows in rare.rows.values() if rows is not None for row in rows})
    dense = table.plan("k >= 17")
    assert reading.positions_to_read(dense, dense.ordinals) is None, "too many rows"
    unknown = table.plan("file_row_number = 1")
    assert reading.positions_to_read(unknown, unknown.ordinals) is None, "no index knows rows of that column"
    monkeypatch.setattr(reading, "MOST_FILES", 0)
    assert reading.positions_to_read(rare, rare.ordinals) is None, "too many files"


@pytest.mark.slow
def test_a_file_whose_rows_are_not_known_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap T8: a file written after the index was built is in the same list as those with positions."""
    table = _write(tmp_path / "t")
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    late = pa.table({"k": [5, 17], "v": [1.0, 2.0], "name": ["n5", "n5"], "file_row_number": [9, 9]})
    pq.write_table(late, tmp_path / "t/part-9.parquet")
    pruned = pruner_duckdb.connect({"t": table})
    assert pruned.sql("SELECT v FROM t WHERE k = 17 AND file_row_number = 9").fetchall() == [(2.0,)]
    # The same name with other content: positions in the indexed file mean nothing there.
    pq.write_table(late, tmp_path / "t/part-0.parquet")
    assert pruned.sql("SELECT v FROM t WHERE k = 17 AND file_row_number = 9").fetchall() == [(2.0,), (2.0,)]


def test_slices_with_log_files_have_no_positions(
    hudi_tables: KeptTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap T12: rows of a slice with log files are merged, so positions in the base file do not apply to the slice."""
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    path = hudi_tables.path("mor_pending_compaction_v6")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    column = next(
        f.name for f in table.snapshot().schema.columns if f.in_file and pa.types.is_integer(f.type)
    )
    table.create_index("bits", on=column, using="bitmap")
    plan = table.plan(f"{column} >= 0")
    with_logs = plan.snapshot.has_logs[plan.ordinals]
    assert with_logs.any()
    assert reading.positions_to_read(plan, plan.ordinals[with_logs]) is None
