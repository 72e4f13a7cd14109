"""Schemas of Hudi tables that hudi-rs does not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pruner
from tests.support import hudi_synthetic


def test_found_a_wall_clock_in_a_hudi_table_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's TIMESTAMP_NTZ ended in a panic of hudi-rs, with 40 lines on standard error and "not yet implemented"."""
    clock: dict[str, Any] = {
        "name": "at",
        "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}],
        "default": None,
    }
    fields: list[Any] = [*hudi_synthetic.SCHEMA["fields"], clock]
    monkeypatch.setitem(hudi_synthetic.SCHEMA, "fields", fields)
    hudi_synthetic.SyntheticTable(tmp_path / "t").insert(["p"])
    with pytest.raises(pruner.PrunerError, match="TIMESTAMP_NTZ"):
        pruner.open_table(str(tmp_path / "t")).snapshot()
    assert "panicked" not in capfd.readouterr().err
