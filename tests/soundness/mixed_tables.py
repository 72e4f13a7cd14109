"""Random tables whose files hold one column in several Parquet types, and a tally of what plans over them drop."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pruner
from tests.soundness.parquet_type_kinds import FAMILIES, Family, Way
from tests.support.running import profiles

FILES = 5
TELLING_TABLES = 4
"""Tables of a kind whose share means something: of fewer, most may have types that prune nothing."""
MIXED = "mixed "
UNINDEXED = " without an index"
Finish = Callable[[random.Random, Path], object]


@dataclass(frozen=True)
class MixedTable:
    """A table on disk: its files hold the column `name` in these ways."""

    root: Path
    name: str
    family: Family
    ways: tuple[Way, ...]
    numbers: tuple[int, ...]

    @property
    def uniform(self) -> bool:
        """Whether all files hold the column in one way."""
        return len(set(self.ways)) == 1

    @property
    def kind(self) -> str:
        """What the column holds, for tallies, and whether its files hold it in several ways."""
        return self.family.name if self.uniform else f"{MIXED}{self.family.name}"


def seeds(config: pytest.Config, tables: int) -> list[int]:
    """Seeds for the given number of tables, or those that `PRUNER_SEED` repeats."""
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(seed) for seed in given.split(",")]
    base = int(config.option.hypothesis_seed)
    return [(base * 1_000_003 + number) % 2**32 for number in range(max(1, tables))]


def repeated_by(seed: int, test: str) -> str:
    """The command that repeats the table of a seed, with as many predicates."""
    return f"repeat: PRUNER_TEST_PROFILE={profiles.NAME} PRUNER_SEED={seed} .venv/bin/python -m pytest {test}"


def write_table(
    rng: random.Random,
    root: Path,
    families: Sequence[Family] = FAMILIES,
    finish: Finish = lambda _, __: None,
    *,
    turn: int | None = None,
) -> MixedTable:
    """Write a table of five files; `finish` may change each one after it is written.

    `turn` selects the family, and whether files may differ: tables with consecutive turns cover all of these.
    """
    root.mkdir()
    if turn is None:
        family, most = rng.choice(families), rng.choice([1, 1, 2, 3])
    else:
        rounds, place = divmod(turn, len(families))
        family, most = families[place], 1 if rounds % 2 == 0 else rng.choice([2, 3])
    few = rng.sample(family.ways, min(len(family.ways), most))
    nested = rng.random() < 0.25 and not any(way.kept for way in few)
    drawn: list[int] = []
    ways: list[Way] = []
    for number in range(FILES):
        way = rng.choice(few)
        numbers = [family.draw(rng, number) for _ in range(rng.choice([1, 2, 5]))]
        values = way.values(numbers)
        if rng.random() < 0.2:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        column: pa.Array[Any] = pa.StructArray.from_arrays([values], ["y"]) if nested else values
        path = root / f"{number}.parquet"
        way.write(path, column, "y" if nested else "x")
        finish(rng, path)
        drawn += way.kept or numbers
        ways.append(way)
    return MixedTable(root, "x.y" if nested else "x", family, tuple(ways), tuple(drawn))


def indexed(rng: random.Random, table: MixedTable) -> pruner.Table:
    """Open a table with column statistics, a bitmap or both over its column."""
    opened = pruner.open_table(str(table.root))
    for number, using in enumerate(rng.choice([("column_stats",), ("bitmap",), ("column_stats", "bitmap")])):
        try:
            opened.create_index(f"i{number}", on=table.name, using=using)
        except pruner.PrunerError:
            continue  # a type that the index does not support, or files that disagree
    return opened


@dataclass
class Tally:
    """How many of the files without a matching row plans have dropped, by what a column holds."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    tables: dict[str, set[Path]] = field(default_factory=dict[str, "set[Path]"])
    pairs: int = 0

    def add(self, kind: str, table: MixedTable, *, without: int, dropped: int) -> None:
        """Count one predicate over a table."""
        self.pairs += 1
        self.counts["without", kind] += without
        self.counts["dropped", kind] += dropped
        self.tables.setdefault(kind, set()).add(table.root)

    def share(self, *kinds: str) -> float:
        """The share over some kinds; over all tables with uniform files where none is named."""
        chosen = kinds or [
            kind for what, kind in self.counts if what == "without" and not kind.startswith(MIXED)
        ]
        without, dropped = (
            sum(self.counts[what, kind] for kind in chosen) for what in ("without", "dropped")
        )
        return dropped / max(1, without)

    def blunt(self, least: Mapping[str, float]) -> list[str]:
        """The kinds for which plans dropped less than they should, where enough tables count.

        A fixed run always has the same tables and drops the same files: there one table is enough.
        """
        telling = 1 if profiles.is_same_everywhere() else TELLING_TABLES
        return [
            f"{self._told(kind)}, at least {expected:.0%}"
            for kind, expected in least.items()
            if len(self.tables.get(kind, ())) >= telling and self.share(kind) < expected
        ]

    def _told(self, kind: str) -> str:
        return (
            f"{kind} {self.counts['dropped', kind]}/{self.counts['without', kind]} = {self.share(kind):.0%}"
        )

    def __str__(self) -> str:
        listed = map(self._told, sorted(self.tables))
        return f"{self.pairs:,} pairs; dropped of files without a match: {', '.join(listed)}"


def draw_over_column(
    rng: random.Random, column: str, literal: Callable[[], str], shapes: Sequence[str], null_safe: str
) -> str:
    """A predicate on a column, of one or two conditions.

    Args:
        rng: what it is drawn from.
        column: the column's name.
        literal: draws a constant.
        shapes: conditions with the places `x`, `op`, `literal` and `letter`.
        null_safe: the operator that treats NULL as a value.
    """

    def leaf() -> str:
        operator = rng.choice(["=", "=", "<", "<=", ">", ">=", "!=", null_safe])
        match rng.randrange(8):
            case 0:
                return f"{column} IN ({', '.join(literal() for _ in range(rng.choice([1, 2, 3, 12])))})"
            case 1:
                return f"{column} BETWEEN {literal()} AND {literal()}"
            case 2:
                shape, letter = rng.choice(shapes), chr(97 + rng.randrange(26))
                return shape.format(x=column, op=operator, literal=literal(), letter=letter)
            case 3 if rng.random() < 0.3:
                return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
            case _:
                return f"{column} {operator} {literal()}"

    match rng.randrange(6):
        case 0:
            return f"({leaf()}) OR ({leaf()})"
        case 1:
            return f"NOT ({leaf()})"
        case 2:
            return f"({leaf()}) AND ({leaf()})"
        case _:
            return leaf()
