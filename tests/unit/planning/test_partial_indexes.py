"""Partial indexes: indexed partitions prune whatever the query asks; others stay unless their folder excludes them."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner import Semantics
from pruner.errors import IndexDefinitionError
from tests.support.duckdb.plain import judge
from tests.support.running.profiles import examples, seed

REGIONS = ("de", "fr", "uk", "__HIVE_DEFAULT_PARTITION__")
FILES = 4
"""In each region: one file for each of the hours 0, 6, 12 and 18, each with its own city."""


def add(root: Path, region: str, number: int, city: str = "") -> None:
    """One file."""
    folder = root / f"region={region}"
    folder.mkdir(parents=True, exist_ok=True)
    start = datetime.datetime(2024, 5, 1, 6 * number)
    moments = [start + datetime.timedelta(minutes=row) for row in range(3)]
    rows = {"ts": pa.array(moments, pa.timestamp("us")), "city": [city or f"C{number}"] * 3}
    pq.write_table(pa.table({**rows, "id": pa.array(range(3))}), folder / f"f{number}.parquet")


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """Four regions with an index of two of them over a city, and one of another region over the hour."""
    root = tmp_path_factory.mktemp("partial") / "t"
    for region in REGIONS:
        for number in range(FILES):
            add(root, region, number)
    table = pruner.open_table(root)
    table.create_index("city_idx", on="city", using="bitmap", where="region IN ('de', 'fr')")
    table.create_index("hour_idx", on="hour(ts)", using="bitmap", where="NOT region IN ('de', 'fr')")
    return table


def kept(table: pruner.Table, predicate: str) -> list[str]:
    """Region and number of each file that is read, the region without a name as `-`."""
    paths = [Path(file) for file in table.plan(predicate, semantics=Semantics(zone="UTC")).files]
    names = [
        each.parent.name.removeprefix("region=").replace("__HIVE_DEFAULT_PARTITION__", "-") for each in paths
    ]
    return sorted(f"{name}{each.stem[1:]}" for name, each in zip(names, paths, strict=True))


def of(*regions: str) -> list[str]:
    """All files of regions."""
    return [f"{region}{number}" for region in regions for number in range(FILES)]


QUERIES = {
    "region = 'de' AND city = 'C2'": ["de2"],
    "region IN ('fr', 'de') AND city IN ('C2', 'C3')": ["de2", "de3", "fr2", "fr3"],
    "city = 'C2'": [*of("-"), "de2", "fr2", *of("uk")],
    "region = 'uk' AND city = 'C2'": of("uk"),
    "region <> 'uk' AND city = 'C2'": ["de2", "fr2"],
    "NOT (region = 'uk' OR city <> 'C2')": ["de2", "fr2"],
    "region = 'de' AND city = 'C2' OR region = 'uk' AND hour(ts) = 6": ["de2", "uk1"],
    "city = 'nowhere' AND hour(ts) = 5": of("-"),
    "city = 'C1' AND hour(ts) = 6": [*of("-"), "de1", "fr1", "uk1"],
    "region IS NULL AND hour(ts) = 6": of("-"),
    "region = 'it' AND city = 'C1'": [],
    "hour_idx = 6 AND region = 'uk'": ["uk1"],
}


@pytest.mark.parametrize("predicate", QUERIES)
def test_covered_files_are_pruned_whatever_is_asked(partial: pruner.Table, predicate: str) -> None:
    assert kept(partial, predicate) == QUERIES[predicate]


def test_coverage_is_what_was_indexed(partial: pruner.Table) -> None:
    covered = {each.name: each.covered for each in partial.status().indexes}
    assert covered == {"city_idx": 8, "hour_idx": 4}, "of a region without a name NOT (… IN …) is NULL"
    [step] = partial.plan("city = 'C2'").steps
    assert (step.index, step.uncovered, step.dropped) == ("city_idx", 8, 6)


@pytest.mark.slow
def test_new_files_and_folders_are_indexed_by_the_same_rule(tmp_path: Path) -> None:
    for region in ("de", "uk"):
        add(tmp_path / "t", region, 0)
    table = pruner.open_table(tmp_path / "t")
    statement = "CREATE INDEX city_idx ON t USING bitmap (upper(city)) WHERE region IN ('de', 'fr')"
    assert pruner.sql(statement, tables={"t": table.uri}).changed
    for region in ("de", "fr", "uk"):
        add(tmp_path / "t", region, 1)
    assert kept(table, "upper(city) = 'C0'") == ["de0", "de1", "fr1", "uk0", "uk1"], (
        "new files are not indexed yet"
    )
    assert table.refresh().indexed == 2
    assert kept(table, "upper(city) = 'C0'") == ["de0", "uk0", "uk1"]
    assert kept(table, "upper(city) = 'C0' AND region = 'fr'") == []
    add(tmp_path / "t", "de", 0, city="C9-moved")
    assert kept(table, "upper(city) = 'C9-MOVED'") == ["de0", "uk0", "uk1"], "changed in place"


def test_a_condition_on_anything_but_folders_is_refused(partial: pruner.Table) -> None:
    for where in ("city = 'C1'", "region = 'de' OR id > 3", "upper(region) = city"):
        with pytest.raises(IndexDefinitionError, match="WHERE of an index"):
            partial.create_index("i", on="id", where=where)


def _condition(tape: random.Random, depth: int = 2) -> str:
    if depth == 0 or tape.random() < 0.35:
        return tape.choice(
            [
                f"region = '{tape.choice(['de', 'fr', 'uk', 'it'])}'",
                f"region IN ('de', '{tape.choice(['uk', 'fr'])}')",
                "region IS NULL",
                f"city = 'C{tape.randrange(6)}'",
                f"city > 'C{tape.randrange(4)}'",
                f"hour(ts) = {tape.choice([0, 5, 6, 12, 18])}",
                f"hour(ts) < {tape.choice([1, 6, 7])}",
                "id = 1",
            ]
        )
    one, other = _condition(tape, depth - 1), _condition(tape, depth - 1)
    return tape.choice([f"NOT ({one})", f"({one} OR {other})", f"({one} AND {other})", f"({one}) IS NULL"])


@pytest.mark.slow
def test_no_row_is_lost(partial: pruner.Table) -> None:
    tape = random.Random(f"{seed()} partial")
    conditions = [_condition(tape) for _ in range(max(100, examples(200)))]
    asked = ", ".join(f"bool_or(coalesce({each}, false))" for each in conditions)
    scan = f"read_parquet('{partial.uri}/*/*.parquet', filename = true, hive_partitioning = true)"
    rows = judge("UTC").execute(f"SELECT filename, {asked} FROM {scan} GROUP BY filename").fetchall()
    could = went = 0
    for number, text in enumerate(conditions):
        holding = {Path(row[0]) for row in rows if row[number + 1]}
        left = {Path(file) for file in partial.plan(text, semantics=Semantics(zone="UTC")).files}
        assert holding <= left, (text, sorted(holding - left))
        could += len(REGIONS) * FILES - len(holding)
        went += len(REGIONS) * FILES - len(left)
    assert went >= 0.6 * could, (went, could)
