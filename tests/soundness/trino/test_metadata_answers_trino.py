"""Random counts, extremes and first rows of Iceberg tables: Trino with the plugin returns the stock connector's rows.

The statements are those that metadata answers, and some close to them, over tables with NULLs, NaN, ties, partitions,
deleted rows, files that an index does not know, and earlier snapshots.
PRUNER_ANSWER_QUERIES=1000 runs more; a failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import pruner
from tests.engines.iceberg.test_trino_iceberg import Ice
from tests.support.iceberg.tables import ROWS, IcebergLake, rows
from tests.support.trino.server import Trino
from tools.trino.client import Result

pytestmark = pytest.mark.trino

QUERIES = int(os.environ.get("PRUNER_ANSWER_QUERIES", "40"))
FILES = 6
ORDERED = ("id", "number", "day", '"at"', "wall", "name", "flag", "x", "small", "price", "clock", "raw")
"""Columns of all types that have an order, those answered more often first."""
CONDITIONS = {
    "unpartitioned": ("id >= 0", "number > 100", "x < 3"),
    "identity": ("number > 100", "number IS NULL", "number < 300", "number IN (-53, 150, 500)", "id < 90"),
    "months": (
        "day >= DATE '1970-03-01'",
        "day < DATE '1970-05-01'",
        "day >= DATE '1970-02-14'",
        "day IS NULL",
        "day IS NOT NULL",
    ),
    "years": (
        "flag",
        "NOT flag",
        "flag IS NULL",
        "wall >= TIMESTAMP '1970-01-01 00:00:00'",
        "wall < TIMESTAMP '1970-01-05 00:00:00'",
    ),
}
"""By how a table is partitioned: conditions, most of which Iceberg's connector handles entirely."""


class Tables:
    """The tables, each with its snapshots."""

    def __init__(self, ice: Ice) -> None:
        self.ice = ice
        self.snapshots: dict[str, list[int]] = {}

    def make(self, spec: str) -> None:
        """Write a table whose index knows only its first files, and some of whose rows are deleted."""
        name = f"random_{spec}"
        table = self.ice.lake.create(name, spec)
        for number in range(FILES):
            numbers = range(number * ROWS, (number + 1) * ROWS)
            table.append(rows(table, numbers))
            if number == FILES - 2:
                pruner.open_table(table.metadata_location).create_index("stats", on="*")
        self.ice.register(table, index=False)
        first = 10 * FILES * ROWS
        columns = 'id, number, small, x, price, day, "at", wall, clock, name, flag, raw'
        for sql in (
            # Ties with existing rows, in a file that Trino writes.
            f"INSERT INTO {name} ({columns}) SELECT id + {first}, {columns[4:]} FROM {name} WHERE id % 9 = 0",
            f"DELETE FROM {name} WHERE id IN ({FILES * ROWS - 1}, 5, 30)",
        ):
            self.ice.stock(sql)
        found = self.ice.stock(f'SELECT snapshot_id FROM "{name}$snapshots" ORDER BY committed_at').rows
        self.snapshots[name] = [row[0] for row in found]

    def know_all(self) -> None:
        """Start a service that knows all of them."""
        text = ""
        for name in self.snapshots:
            place = self.ice.lake.catalog.load_table(f"ns.{name}").metadata_location.removeprefix("file://")
            text += f'[tables.{name}]\nuri = "{place}"\n'
        self.ice.serve(text)


@pytest.fixture(scope="module")
def tables(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    folder = tmp_path_factory.mktemp("random_answers")
    with ExitStack() as services:
        made = Tables(Ice(trino, IcebergLake(folder), folder / "pruner.toml", services))
        for spec in CONDITIONS:
            made.make(spec)
        made.know_all()
        yield made


def _scan(rng: random.Random, tables: Tables) -> str:
    """FROM a table, perhaps in an earlier state, perhaps with a condition."""
    spec = rng.choice(list(CONDITIONS))
    name = f"random_{spec}"
    snapshots = tables.snapshots[name]
    version = f" FOR VERSION AS OF {rng.choice(snapshots)}" if rng.random() < 0.5 else ""
    condition = f" WHERE {rng.choice(CONDITIONS[spec])}" if rng.random() < 0.5 else ""
    return f"FROM {name}{version}{condition}"


def _aggregates(rng: random.Random, tables: Tables) -> str:
    def one() -> str:
        if rng.random() < 0.3:
            return "count(*)"
        column = rng.choice(ORDERED[: rng.choice([6, len(ORDERED)])])
        return f"{rng.choice(['count', 'min', 'max'])}({column})"

    selected = ", ".join(one() for _ in range(rng.choice([1, 1, 2, 3])))
    return f"SELECT {selected} {_scan(rng, tables)}"


def _first_rows(rng: random.Random, tables: Tables, select: str = "*") -> str:
    """Rows by a column and then by id, which makes them the same each time."""
    column = rng.choice(ORDERED[: rng.choice([6, len(ORDERED)])])
    direction = rng.choice(["", " DESC"]) + rng.choice(["", " NULLS FIRST", " NULLS LAST"])
    rows = rng.choice([1, 2, 10, 24, 25, 47, 60, 120, 200])
    inner = f"SELECT id, number, {column} AS k {_scan(rng, tables)}"
    order = column + direction + rng.choice([", id", ", id DESC"])
    return f"SELECT {select} FROM ({inner} ORDER BY {order} LIMIT {rows})"


def _statement(rng: random.Random, tables: Tables) -> str:
    match rng.randrange(8):
        case 0 | 1 | 2:
            return _aggregates(rng, tables)
        case 3:
            parts = [_first_rows(rng, tables, "id, number") for _ in range(2)]
            return " UNION ALL ".join(parts)
        case 4:
            parts = [_first_rows(rng, tables, "id") for _ in range(2)]
            return f"SELECT count(*), sum(a.id) FROM ({parts[0]}) a JOIN ({parts[1]}) b ON a.id = b.id"
        case 5:
            return f"SELECT count(*), max(k) FROM ({_first_rows(rng, tables)})"
        case _:
            return _first_rows(rng, tables)


def _seeds(config: pytest.Config) -> list[int]:
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(given)]
    rng = random.Random(f"{config.option.hypothesis_seed} answers of Iceberg")
    return [rng.randrange(2**32) for _ in range(QUERIES)]


def _shown(result: Result) -> list[str]:
    """The rows as texts; which of two zeros is the least depends on which worker comes first."""
    return sorted(
        repr([value + 0.0 if isinstance(value, float) else value for value in row]) for row in result.rows
    )


def test_random_answers_are_those_of_the_stock_connector(
    tables: Tables, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    ice = tables.ice
    seeds = _seeds(pytestconfig)
    before = ice.trino.counts()
    for seed in seeds:
        sql = _statement(random.Random(seed), tables)
        assert _shown(ice.pruned(sql)) == _shown(ice.stock(sql)), f"\n{sql}\nPRUNER_SEED={seed}"
    answers = (ice.trino.counts() - before)["Answers"]
    record_property("figure", f"Trino, Iceberg: {len(seeds)} statements, {answers} offers taken")
    if "PRUNER_SEED" not in os.environ:
        assert answers > len(seeds) / 4
