"""Pages of one plan from processes that read a Delta table's log, and so number its files, in different ways."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from deltalake import DeltaTable, write_deltalake

import pruner
from pruner.service.rest_catalog import tasks
from tests.support.running.patience import PATIENCE
from tests.support.service.planner import running_service

FROM_40: dict[str, Any] = {"type": "gt-eq", "term": "id", "value": 40}


def _ask(url: str, what: str, **content: Any) -> dict[str, Any]:
    place = f"{url}/iceberg/v1/namespaces/default/tables/t/{what}"
    answer = requests.post(place, json=content, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _told(urls: list[str], **content: Any) -> list[tuple[str, int]]:
    """The files of a plan with their numbers of rows, each page from the next service."""
    page, told = _ask(urls[0], "plan", **content), []
    for turn in range(1, 100):
        files = [task["data-file"] for task in page["file-scan-tasks"]]
        told += [(file["file-path"].removeprefix("file:"), file["record-count"]) for file in files]
        if not page.get("plan-tasks"):
            break
        page = _ask(urls[turn % len(urls)], "tasks", **{"plan-task": page["plan-tasks"][0]})
    return sorted(told)


def _append(place: Path, at: int) -> None:
    """A file with the ids from `at` times ten on, and a unique number of rows."""
    write_deltalake(place, pa.table({"id": pa.array(range(at * 10, at * 10 + at + 1))}), mode="append")


def _expected(place: Path, least: int) -> list[tuple[str, int]]:
    """The files with an id from `least` on, with their numbers of rows, read from the files themselves."""
    read: Any = pq.read_table
    ids = {path: read(path).column("id").to_pylist() for path in DeltaTable(place).file_uris()}
    return sorted((path, len(each)) for path, each in ids.items() if max(each) >= least)


def _order(url: str) -> list[str]:
    return [task["data-file"]["file-path"] for task in _ask(url, "plan")["file-scan-tasks"]]


def _grown(place: Path, url: str) -> None:
    """Let a table grow to eleven files, while a service follows it, and write a checkpoint."""
    for at in range(1, 12):
        _append(place, at)
        _ask(url, "plan")
    table = DeltaTable(place)
    table.delete("id = 50")
    table.create_checkpoint()
    _append(place, 12)


def test_numbers_of_rows_are_those_of_the_files_whatever_the_log_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_FEW_FOOTERS", 1)
    place = tmp_path / "t"
    for at in range(1, 6):
        _append(place, at)
    for commit in (place / "_delta_log").glob("*.json"):
        text = commit.read_text(encoding="utf-8")
        commit.write_text(re.sub(r'(numRecords[\\": ]+)', r"\g<1>1", text), encoding="utf-8")
    assert DeltaTable(place).get_add_actions(flatten=True)["num_records"].to_pylist()[0] > 10
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        assert _told([url]) == _expected(place, 0)


@pytest.mark.slow
def test_pages_of_one_who_followed_the_log_and_one_who_read_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, config = tmp_path / "t", tmp_path / "pruner.toml"
    _append(place, 0)
    pruner.open_table(place).create_index("ids", "id")
    config.write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    with running_service(config) as left:
        _grown(place, left)
        with running_service(config) as right:
            assert _order(left) != _order(right)  # otherwise this test proves nothing
            for page in (1, 2, 5):
                monkeypatch.setattr(tasks, "PAGE", page)
                for urls in ([left], [left, right], [right, left]):
                    assert _told(urls) == _expected(place, 0)
                    assert _told(urls, filter=FROM_40) == _expected(place, 40)
            assert len(_expected(place, 40)) < len(_expected(place, 0))


@pytest.mark.slow
def test_rows_are_counted_anew_where_a_table_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is the same, but its files have other numbers."""
    place, config = tmp_path / "t", tmp_path / "pruner.toml"
    _append(place, 0)
    config.write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    with running_service(config) as url:
        _grown(place, url)
        before = _order(url)
        assert _told([url]) == _expected(place, 0)
        config.write_text(f'[tables.t]\nuri = "{place}"\nindex_memory = 1000000\n', encoding="utf-8")
        deadline = time.monotonic() + PATIENCE
        while _order(url) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _order(url) != before
        assert _told([url]) == _expected(place, 0)
        monkeypatch.setattr(tasks, "PAGE", 2)
        assert _told([url]) == _expected(place, 0)
