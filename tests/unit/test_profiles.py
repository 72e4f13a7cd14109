"""`make test` is the same run everywhere: earlier imports, a CI or an earlier failure change no example."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests import conftest
from tests.support.running import profiles
from tests.support.running.profiles import is_sampled


def _examples() -> list[tuple[int, str]]:
    drawn: list[tuple[int, str]] = []

    @seed(profiles.FIXED_SEED)
    @settings(max_examples=300)
    @given(st.integers(), st.text())
    def draw(number: int, text: str) -> None:
        drawn.append((number, text))

    draw()
    return drawn


@pytest.mark.slow
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


@pytest.mark.parametrize("one_of", [1, 2, 3, 4])
def test_one_of_each_row_is_sampled_at_every_place(one_of: int) -> None:
    rows = [[is_sampled(row * one_of + place, one_of) for place in range(one_of)] for row in range(one_of)]
    assert [row.count(True) for row in rows] == [1] * one_of
    assert sorted(row.index(True) for row in rows) == list(range(one_of))


@pytest.mark.parametrize("brief", [True, False])
def test_quick_leaves_cases_out_and_nothing_else_does(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, brief: bool
) -> None:
    """The items are reported to a configuration of their own: the report of this run does not include them."""
    monkeypatch.setattr(profiles, "IS_BRIEF", brief)
    left_out: list[pytest.Item] = []

    def deselected(items: list[pytest.Item]) -> None:
        left_out.extend(items)

    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=deselected))
    items = [item for number in range(9) for item in _collected(request.node.parent, number)]
    conftest.pytest_collection_modifyitems(config, items)
    assert _names(items) == {"sampled": 3 if brief else 9, "unmarked": 9}
    assert _names(left_out) == ({"sampled": 6} if brief else {})


@pytest.mark.parametrize(
    ("expression", "without"),
    [
        ("", set()),
        ("not spark", {"spark"}),
        ("not spark and not load", {"spark", "load"}),
        ("spark", set()),
        ("not spark or load", set()),
        ("not (spark and trino)", set()),
    ],
)
def test_files_of_which_the_marks_leave_nothing_are_not_imported(
    tmp_path: Path, expression: str, without: set[str]
) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    texts = {
        "spark": "pytestmark = pytest.mark.spark  # all of it\n",
        "load": "import pytest\n\npytestmark = pytest.mark.load\n",
        "both": "pytestmark = [pytest.mark.spark, pytest.mark.trino]\n",
        "one": "@pytest.mark.spark\ndef test_a(): ...\n",
    }
    ignored: set[str] = set()
    for name, text in texts.items():
        file = tmp_path / f"test_{name}.py"
        file.write_text(text)
        if conftest.pytest_ignore_collect(file, config):
            ignored.add(name)
    assert ignored == without


def _names(items: list[pytest.Item]) -> Counter[str]:
    return Counter(item.name.partition("[")[0] for item in items)


def _collected(module: pytest.Module, number: int) -> list[pytest.Item]:
    def empty() -> None:
        return

    found: list[pytest.Item] = []
    for name in ("sampled", "unmarked"):
        item = pytest.Function.from_parent(module, name=f"{name}[{number}]", callobj=empty)
        if name == "sampled":
            item.add_marker(pytest.mark.sampled(3))
        found.append(item)
    return found
