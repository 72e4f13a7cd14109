"""Structs that differ between files: DuckDB 2.0 misreads their fields, or fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pruner_duckdb
from tests.support.losses import indexed, write_files

OLD = pa.table({"id": [1, 2]})
NARROW = pa.table({"id": [3], "st": pa.array([{"f": 3}], pa.struct([("f", pa.int64())]))})
WIDE = pa.table(
    {
        "id": [4, 5],
        "st": pa.array([{"f": 4, "g": "x"}, None], pa.struct([("f", pa.int64()), ("g", pa.string())])),
    }
)


def test_found_a_field_of_a_struct_that_files_lack(tmp_path: Path) -> None:
    """`WHERE st.f IS NULL` over a file without `st`: "Vector::Reference used on vector of different type".

    DuckDB then reads the field alone and takes the default of the whole struct for it; every later statement on the
    database failed as well ("database has been invalidated").
    """
    folder = write_files(tmp_path / "t", OLD, NARROW, WIDE)
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        for predicate, ids in (
            ("st.f IS NULL", [1, 2, 5]),
            ("st.f = 4", [4]),
            ("st.g IS NULL", [1, 2, 3, 5]),
            ("st IS NULL AND id < 5", [1, 2]),
        ):
            found = connection.execute(f"SELECT id FROM t WHERE {predicate} ORDER BY id").fetchall()
            assert found == [(id_,) for id_ in ids]
        assert connection.execute("SELECT st.f FROM t ORDER BY id").fetchall() == [
            (None,),
            (None,),
            (3,),
            (4,),
            (None,),
        ]


def test_found_structs_that_no_file_lacks_are_read_by_field(tmp_path: Path) -> None:
    """The detour is taken only where needed: the filter on the field still reaches the scan."""
    folder = write_files(tmp_path / "t", NARROW, WIDE)
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        connection.execute("SELECT id FROM t WHERE st.f = 4")
        assert connection.fetchall() == [(4,)]
        assert connection.last_plans[-1].plan.kept == 1


def test_found_fields_of_structs_in_another_order(tmp_path: Path) -> None:
    """DuckDB reads one field of a struct by its position in the table's struct: `st.g = 'x'` found no row."""
    turned = pa.struct([("g", pa.string()), ("f", pa.int64())])
    other = pa.table({"id": [6], "st": pa.array([{"f": 6, "g": "x"}], turned)})
    folder = write_files(tmp_path / "t", WIDE, other)
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        assert connection.execute("SELECT id FROM t WHERE st.g = 'x' ORDER BY id").fetchall() == [(4,), (6,)]
        assert connection.execute("SELECT id FROM t WHERE st.f > 4").fetchall() == [(6,)]
        assert connection.execute("SELECT st.g FROM t ORDER BY id").fetchall() == [("x",), (None,), ("x",)]
