"""`make test` is the same run everywhere: what is imported by then, a CI or an earlier failure change no example."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.support import profiles


def _examples() -> list[tuple[int, str]]:
    drawn: list[tuple[int, str]] = []

    @seed(profiles.FIXED_SEED)
    @settings(max_examples=300)
    @given(st.integers(), st.text())
    def draw(number: int, text: str) -> None:
        drawn.append((number, text))

    draw()
    return drawn


def test_an_import_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _examples()
    numbers = ", ".join(str(10**6 + number) for number in range(100))
    (tmp_path / "full_of_constants.py").write_text(f"NUMBERS = [{numbers}]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("full_of_constants")
    assert _examples() == before


def test_nothing_is_remembered_and_the_seed_counts_in_a_ci_too() -> None:
    chosen = settings.get_profile(profiles.NAME)
    assert not chosen.derandomize
    assert (chosen.database is None) is profiles.IS_FIXED


def test_a_run_has_the_fixed_seed_unless_it_looks_for_new_ones() -> None:
    assert (profiles.seed() == profiles.FIXED_SEED) is profiles.IS_FIXED
