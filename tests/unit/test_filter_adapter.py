"""The adapter for a fourth engine, from `examples/filter_adapter`: it returns the same rows as the engine alone."""

from __future__ import annotations

import itertools
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.adapters import Adapter, load_adapter
from pruner.plugins import load_plugin
from tests.support.parquet.tables import write_file
from tests.support.running.profiles import examples

EXAMPLE = Path(__file__).parents[2] / "examples" / "filter_adapter"
FILTERS = examples(120)
NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "n": [-(2**63), -1, 0, 1, 5, 2**53 + 1, 2**63 - 1, None],
    "f": [-0.0, 0.0, 1.5, -1.5, 1e300, NAN, float("inf"), None],
    "s": ["", "a", "ab", "b", "é", "z" * 70, None],
    "b": [True, False, None],
}
LITERALS: dict[str, list[Any]] = {
    "n": [-1, 0, 1, 5, 2**53 + 1, 2**53, 2**63 - 1, 0.5, 9007199254740992.0],
    "f": [0.0, -0.0, 1.5, 1, 1e300, NAN, float("-inf")],
    "s": ["", "a", "aa", "ab", "é", "z" * 70, "zz"],
    "b": [True, False],
}


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example, installed by its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "pruner_filters-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"]["pruner.adapters"]
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pruner.adapters]", *lines, ""]))
    monkeypatch.syspath_prepend(info.parent)
    monkeypatch.syspath_prepend(EXAMPLE)
    load_plugin.cache_clear()
    import pruner_filters  # pyright: ignore[reportMissingImports]

    yield pruner_filters
    load_plugin.cache_clear()


def lake(tmp_path: Path, files: list[dict[str, list[Any]]]) -> Path:
    """A table of these files with statistics of every column."""
    root = tmp_path / "t"
    types = {"n": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_()}
    for number, columns in enumerate(files):
        arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
        write_file(root / f"{number:02}.parquet", **arrays)
    pruner.open_table(root).create_index("stats", on="*")
    return root


def test_it_is_an_adapter(adapter: ModuleType) -> None:
    registered: Adapter = load_adapter("pyarrow_filters")
    assert registered is adapter
    assert pruner.Semantics.of("pyarrow_filters").nan_order is pruner.NanOrder.UNORDERED


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([("n", "=", 11)], 1),
        ([("n", ">", 11), ("n", "<", 25)], 2),
        ([[("n", "=", 1)], [("s", "=", "s31")]], 2),
        ([("n", "in", [1, 35])], 2),
        ([("n", "not in", [1, 35])], 4),
        ([("n", "!=", 1)], 4),
        ([("n", "like", 1), ("n", "=", 11)], 1),
        ([("n", "=", "11")], 4),
        ([("n", "=", NAN)], 4),
        ([], 4),
    ],
)
def test_what_filters_keep(adapter: ModuleType, tmp_path: Path, filters: list[Any], kept: int) -> None:
    """Files of ten numbers each; an unknown condition keeps them all, and the other conditions still prune."""
    files = [
        {"n": [10 * file + row for row in range(10)], "s": [f"s{file}{row}" for row in range(10)]}
        for file in range(4)
    ]
    plan = pruner.open_table(lake(tmp_path, files)).plan(
        adapter.decode(filters), semantics=pruner.Semantics.of("pyarrow_filters")
    )
    assert (plan.kept, plan.total) == (kept, 4), plan.explain()


@pytest.mark.slow
def test_rows_are_those_that_the_engine_finds_by_itself(adapter: ModuleType, tmp_path: Path) -> None:
    """Random filters over files with NULL, NaN, both zeros and numbers beyond 2^53."""
    rng = random.Random(13)
    files: list[dict[str, list[Any]]] = []
    for _ in range(12):
        few = {name: rng.sample(values, 2) for name, values in VALUES.items()}
        files.append({name: [rng.choice(few[name]) for _ in range(4)] for name in VALUES})
    root = lake(tmp_path, files)
    whole = sorted(str(path) for path in root.glob("*.parquet"))
    pruned = 0
    for filters in itertools.islice(_filters(rng), FILTERS):
        try:
            expected = pq.read_table(whole, filters=filters)
        except (pa.ArrowException, ValueError):
            continue  # a filter that the engine refuses has no rows to lose
        found = adapter.read(str(root), filters)
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), filters
        pruned += adapter.last_plans[-1].plan.kept < len(files)
    assert pruned > FILTERS // 3


def _filters(rng: random.Random) -> Iterator[list[Any]]:
    while True:
        yield [[_condition(rng) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 2))]


def _condition(rng: random.Random) -> tuple[str, str, Any]:
    name = rng.choice(list(VALUES))
    operator = rng.choice(["=", "==", "!=", "<", "<=", ">", ">=", "in", "not in"])
    literals = LITERALS[name]
    value = rng.sample(literals, rng.randint(1, 2)) if operator.endswith("in") else rng.choice(literals)
    return name, operator, value


def test_switched_off_and_misspelt_read_everything(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(lake(tmp_path, [{"n": [1]}, {"n": [2]}]))
    with monkeypatch.context() as off:
        off.setenv("PRUNER_DISABLED", "1")
        assert adapter.read(root, [("n", "=", 1)]).num_rows == 1
    last = adapter.last_plans[-1]
    assert (last.plan.kept, last.reason) == (2, "switched off by PRUNER_DISABLED=1")
    assert adapter.read(root, [("n", "=", 3)]).num_rows == 0
    assert adapter.last_plans[-1].plan.kept == 0
