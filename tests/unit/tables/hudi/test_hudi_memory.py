"""The memory used to list a large Hudi table goes back to the system, once for each full listing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pruner import arrow
from pruner.tables.hudi import source as hudi
from tests.support.hudi.made_up.files import SyntheticTable


@pytest.mark.parametrize(("many", "times"), [(3, 1), (4, 0)])
def test_memory_is_given_back_after_a_large_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, times: int
) -> None:
    given: list[int] = []

    def give() -> None:
        given.append(1)
        arrow.give_back_memory()

    monkeypatch.setattr(hudi, "MANY_SLICES", many)
    monkeypatch.setattr(hudi, "give_back_memory", give)
    made = SyntheticTable(tmp_path / "t")
    made.insert(f"city={number}" for number in range(3))
    source = hudi.HudiSource(str(made.root))
    assert len(source.snapshot()) == 3
    assert len(given) == times
    made.update(list(made.groups)[:1])
    assert len(source.snapshot()) == 3
    assert len(given) == times, "followed, not listed"
