"""The memory used to load the records of a large index goes back to the system, once for each column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner import arrow
from pruner.evidence import loading


@pytest.mark.parametrize(("many", "times"), [(3, 1), (5, 0)])
def test_memory_is_given_back_after_records_were_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, times: int
) -> None:
    given: list[int] = []

    def give() -> None:
        given.append(1)
        arrow.give_back_memory()

    monkeypatch.setattr(loading, "MANY_RECORDS", many)
    monkeypatch.setattr(loading, "give_back_memory", give)
    root = tmp_path / "t"
    root.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"a": [number], "b": [number]}), root / f"{number}.parquet")
    pruner.open_table(str(root)).create_index("stats", on="*")
    table = pruner.open_table(str(root))
    for value in range(3):
        assert table.plan(f"a = {value}").kept == 1
    assert len(given) == times
    assert table.plan("a = 1 AND b = 2").kept == 0
    assert len(given) == 2 * times
