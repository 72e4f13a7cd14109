"""The first rows of a table in some order, with a filter on what a scan computes from a file's number."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pruner_duckdb
from tests.support.losses import indexed, write_files

PLAIN = pa.table({"id": [1, 2], "n": [10, 20], "s": ["a", "b"], "x": [0.5, 1.5]})
NESTED = PLAIN.append_column("st", pa.array([{"f": 3}, None], pa.struct([("f", pa.int64())])))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "condition", ["region <> 'a'", "region = region", "region > 'a' AND n > 5", "st.f = 3"]
)
def test_found_top_rows_of_some_partitions(tmp_path: Path, condition: str) -> None:
    """`WHERE region <> 'a' ORDER BY id LIMIT 3` over two partitions: "Attempted to access index
    -9223372036854775806 within vector of size 9".

    DuckDB 2.0 reads the wanted columns of the first rows later, and looks for a filter's virtual column
    (`file_index`) among those of the file.
    """
    root = tmp_path / "t"
    for region, table in (("a", PLAIN), ("b", NESTED), ("c", PLAIN)):
        write_files(root / f"region={region}", table)
    statement = f"SELECT * FROM t WHERE {condition} ORDER BY id, region"
    with pruner_duckdb.connect({"t": indexed(root)}) as connection:
        every = connection.execute(statement).fetchall()
        assert every
        assert connection.execute(f"{statement} LIMIT 1").fetchall() == every[:1]
        assert connection.execute(f"{statement} LIMIT 3 OFFSET 1").fetchall() == every[1:4]
