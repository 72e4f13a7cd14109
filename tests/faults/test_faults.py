"""For each rule, one fault is applied to a copy of the code: a test that needs no Java must notice.

`make faults` tries every fault of `faults.txt` (`test_all_faults.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faults import ROOT, SUITES, Fault, is_noticed, read_faults

RULES = [f"R{number}" for number in range(1, 14)]
ALL_FAULTS = read_faults()
OF_A_RULE = [fault for fault in ALL_FAULTS if fault.rule is not None]


@pytest.mark.parametrize("fault", ALL_FAULTS, ids=lambda fault: fault.title)
def test_each_fault_still_fits_the_code(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text().count(fault.old) == 1, (
        f"{fault.old!r} must occur once in {fault.file}"
    )


def test_each_rule_has_a_fault_of_its_own() -> None:
    assert sorted((fault.rule or "" for fault in OF_A_RULE), key=RULES.index) == RULES
    assert all(fault.noticed_by != SUITES for fault in OF_A_RULE), "these run in `make test`: name the tests"


def test_the_tests_that_faults_name_are_there() -> None:
    named = {suite.partition("::")[0] for fault in ALL_FAULTS for suite in fault.noticed_by}
    assert [suite for suite in sorted(named) if not (ROOT / suite).exists()] == []


@pytest.mark.faults
@pytest.mark.parametrize("fault", OF_A_RULE, ids=lambda fault: fault.rule)
def test_a_fault_of_each_rule_is_noticed(tmp_path: Path, fault: Fault) -> None:
    assert is_noticed(fault, tmp_path / "copy"), f"{fault.title}: survives {' '.join(fault.noticed_by)}"
