"""Tables of other formats are not planned on, so that Trino reads what its own connector lists (trap D8)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pruner.service import Settings
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.parquet.tables import write_file
from tests.unit.service.conftest import running


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["t", "t/k=1"])
def test_d8_nothing_is_planned_over_another_formats_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    table = FOREIGN_TABLES["delta"]
    for path in table.data:
        write_file(tmp_path / "t" / path, id=[1])
    for path, text in table.beside.items():
        (tmp_path / "t" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / path).write_text(text)
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{place}"\naliases = ["hive.web.t"]\n')
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING, "pruner"), running(Settings()) as client:
        answer = client.post(
            "/v1/plan",
            {
                "table": "hive.web.t",
                "predicate": {"form": "sql", "text": "id = 1"},
                "session": {"engine": "trino"},
            },
        )
    assert (answer.status, set(answer.json)) == (503, {"error"})
    assert any("Delta table" in message for message in caplog.messages)
