"""Rows of a plan read with pyarrow: only the row groups with matching rows, only those rows."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.iceberg.tables import IcebergLake
from tests.support.iceberg.tables import rows as iceberg_rows
from tests.unit.metadata.s3_server import serve


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """Two files of 100 rows in row groups of 10; `x` is the position of the row modulo 25."""
    root = tmp_path / "t"
    root.mkdir()
    for name, start in (("a", 0), ("b", 1000)):
        columns = {"x": [i % 25 for i in range(100)], "id": list(range(start, start + 100))}
        pq.write_table(pa.table(columns), root / f"{name}.parquet", row_group_size=10)
    opened = pruner.open_table(str(root))
    opened.create_index("bits", on="x", using="bitmap")
    return opened


def test_only_the_row_groups_and_rows_that_match(table: pruner.Table) -> None:
    plan = table.plan("x = 7 AND x IS NOT NULL")
    assert [groups for _, groups in pruner.row_groups(plan)] == [[0, 3, 5, 8]] * 2
    read = pa.concat_tables(pruner.read_rows(plan, columns=["id"]))
    assert read.column("id").to_pylist() == [7, 32, 57, 82, 1007, 1032, 1057, 1082]


def test_files_without_known_rows_are_read_whole(table: pruner.Table) -> None:
    plan = table.plan("id >= 0")
    assert plan.rows is None
    assert [groups for _, groups in pruner.row_groups(plan)] == [list(range(10))] * 2
    assert sum(part.num_rows for part in pruner.read_rows(plan)) == 200


def test_nothing_is_read_where_nothing_matches(table: pruner.Table) -> None:
    assert list(pruner.read_rows(table.plan("x = 99"))) == []


def test_columns_that_are_not_there_are_refused_and_never_lose_rows(table: pruner.Table) -> None:
    plan = table.plan("x = 7")
    with pytest.raises(pruner.SchemaError, match="no column 'nope': the table has x, id"):
        pruner.read_rows(plan, columns=["id", "nope"])
    with pytest.raises(pruner.SchemaError, match="no columns are named"):
        pruner.read_rows(plan, columns=[])


def test_a_file_without_a_column_gives_null(tmp_path: Path) -> None:
    root = tmp_path / "t" / "day=1"
    root.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1, 2, 1]}), root / "old.parquet")
    pq.write_table(pa.table({"x": [1, 3], "added": ["a", "b"]}), root / "new.parquet")
    table = pruner.open_table(str(root.parent))
    table.create_index("bits", on="x", using="bitmap")
    plan = table.plan("x = 1")
    assert plan.rows_exact
    read = pa.concat_tables(pruner.read_rows(plan, columns=["ADDED"]))
    assert read.schema == pa.schema({"added": pa.string()})
    assert read.column("added").to_pylist() == ["a", None, None]
    with pytest.raises(pruner.SchemaError, match="'day' is only in the paths of the files"):
        pruner.read_rows(plan, columns=["day"])


@pytest.mark.slow
def test_rows_are_read_with_the_options_of_the_table() -> None:
    with serve() as (options, server):
        for number in range(3):
            written = io.BytesIO()
            pq.write_table(pa.table({"a": [number, number + 10]}), written)
            server.objects[f"t/{number}.parquet"] = written.getvalue()
        table = pruner.open_table("s3://bucket/t", storage_options=options)
        table.create_index("stats", on="a")
        plan = table.plan("a = 0")
        assert plan.kept == 1
        assert [part.to_pydict() for part in pruner.read_rows(plan)] == [{"a": [0, 10]}]
        assert [groups for _, groups in pruner.row_groups(plan)] == [[0]]
        assert plan.scan_pyarrow().to_table().to_pydict() == {"a": [0, 10]}


def test_a_file_that_is_gone_is_one_sentence(table: pruner.Table) -> None:
    plan = table.plan("x = 7")
    gone = Path(plan.files[0])
    gone.unlink()
    for read in (pruner.read_rows, pruner.row_groups):
        with pytest.raises(pruner.StorageError, match=f"cannot read {gone}: "):
            list(read(plan))


def test_a_column_that_files_know_by_a_mapping_is_refused(tmp_path: Path) -> None:
    """By its name a file would yield NULL, or the values of a column that was dropped."""
    lake = IcebergLake(tmp_path)
    written = lake.create("t")
    written.append(iceberg_rows(written, range(3)))
    with written.update_schema() as change:
        change.rename_column("id", "identity")
    plan = pruner.open_table(written.metadata_location).plan("identity = 1")
    with pytest.raises(pruner.SchemaError, match="column 'identity' is found by a mapping of columns"):
        next(pruner.read_rows(plan, ["identity"]))
    with pytest.raises(pruner.SchemaError, match="is found by a mapping of columns"):
        next(pruner.read_rows(plan))
