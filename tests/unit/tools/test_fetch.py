"""Tests' downloads are fetched in advance: each part is tried, whatever happens to the others."""

from __future__ import annotations

import subprocess

import pytest

from tests.engines.test_dbt import LOCK as DBT
from tools import fetch
from tools.pages import browser


def test_the_environments_that_tests_start_processes_in_are_fetched() -> None:
    assert {browser.LOCK.name, DBT.name} < set(fetch.LOCKS)
    assert all((fetch.ROOT / lock).is_file() for lock in fetch.LOCKS)
    assert set(fetch.LOCKS) < set(fetch.PARTS)


def test_a_part_that_fails_is_told_and_the_others_are_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[str] = []

    def fails() -> None:
        raise RuntimeError("no JDK 25 here")

    def ends() -> None:
        subprocess.run(["false"], check=True)

    monkeypatch.setattr(fetch, "PARTS", {"a": fails, "b": ends, "c": lambda: fetched.append("c")})
    assert fetch.main() == 1
    assert fetched == ["c"]
    assert capsys.readouterr().err.splitlines() == [
        "Could not fetch a: no JDK 25 here",
        "Could not fetch b: Command '['false']' returned non-zero exit status 1.",
    ]
    monkeypatch.setattr(fetch, "PARTS", {"c": lambda: None})
    assert fetch.main() == 0
