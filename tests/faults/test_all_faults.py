"""`make faults`: each fault of `faults.txt` is applied to a copy of the code, and its tests must notice."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.faults import Fault, fails_without_a_fault, is_noticed, read_faults


@pytest.mark.faults
def test_without_a_fault_the_tests_pass(tmp_path: Path) -> None:
    suites = tuple(dict.fromkeys(suite for fault in read_faults() for suite in fault.noticed_by))
    assert not fails_without_a_fault(suites, tmp_path / "copy")


@pytest.mark.faults
def test_every_fault_is_noticed(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    faults = read_faults()

    def noticed(numbered: tuple[int, Fault]) -> bool:
        try:
            return is_noticed(numbered[1], tmp_path / str(numbered[0]))
        except AssertionError as error:  # reported with the survivors, once all were tried
            print(f"{numbered[1].title}: {error}")
            return False

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(noticed, enumerate(faults)))
    survivors = [fault.title for fault, was_noticed in zip(faults, found, strict=True) if not was_noticed]
    record_property(
        "figure", f"{sum(found)} of {len(faults)} faults noticed; survivors: {survivors or 'none'}"
    )
    assert survivors == []
