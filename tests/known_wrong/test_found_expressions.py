"""Rows that plans have lost to indexes over expressions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from pruner.errors import IndexDefinitionError
from tests.support.losses import kept, matching, write_files


@pytest.mark.parametrize(
    "predicate",
    [
        "a * 0.1 = 0.3",
        "a * 0.1 IN (0.6, 0.7)",
        "a * 0.1 + 0.1 = 0.7",
        "a * 0.1::FLOAT >= 0.7",
        "(a + 1) * 0.1::FLOAT = 0.7",
    ],
)
def test_found_integers_times_a_decimal_constant(tmp_path: Path, predicate: str) -> None:
    """`0.1` was taken for a double beside an integer, too, where engines reckon in decimals, or in floats of 32 bits.

    3 * 0.1 is 0.3 exactly there, and 0.30000000000000004 was recorded.
    """
    folder = write_files(tmp_path / "t", *(pa.table({"a": pa.array([n], pa.int32())}) for n in range(8)))
    table = pruner.open_table(str(folder))
    for refused in ("a * 0.1", "a * 0.1::FLOAT", "(a + 1) * 0.1::FLOAT"):
        with pytest.raises(IndexDefinitionError, match="a decimal constant or a float of 32 bits"):
            table.create_index("refused", on=refused)
    # These are doubles, and no other expressions than theirs.
    table.create_index("tenth", on="a * 1e-1")
    table.create_index("more", on="a * 1e-1 + 1e-1")
    assert matching(folder, predicate), "a row is at stake"
    assert matching(folder, predicate) <= kept(folder, predicate)
    assert kept(folder, "a * 1e-1 = 5e-1") == matching(folder, "a * 1e-1 = 5e-1") == {"5.parquet"}


def test_found_a_decimal_constant_beside_doubles_still_prunes(tmp_path: Path) -> None:
    """There every engine takes the constant for a double, which was meant."""
    folder = write_files(tmp_path / "t", *(pa.table({"x": [float(n)]}) for n in range(8)))
    pruner.open_table(str(folder)).create_index("tenth", on="x * 0.1")
    predicate = "x * 0.1 > 0.55"
    assert kept(folder, predicate) == matching(folder, predicate) == {"6.parquet", "7.parquet"}
