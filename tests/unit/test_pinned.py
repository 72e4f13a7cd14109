"""Plans over a pinned snapshot: what they say besides which slices stay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner


@pytest.mark.parametrize(
    ("zone", "known"), [(None, True), ("Europe/Berlin", True), ("+02:00", True), ("Mars/Olympus", False)]
)
def test_a_zone_that_is_not_known_here_is_said(tmp_path: Path, zone: str | None, known: bool) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    plan = pruner.open_table(tmp_path).plan("x = 1", semantics=pruner.Semantics("spark", zone=zone))
    assert any("no time zone 'Mars/Olympus' is known here" in note for note in plan.fallbacks) is not known
