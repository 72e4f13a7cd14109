"""The table of Parquet types on a real Trino: types, values and errors through the plugin are the plain catalog's.

Every way in which a file can hold a column × the types that a table may declare for it. `make test` tries a fixed
sample; `make fuzz` tries all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from trino.exceptions import TrinoQueryError

import pruner
from tests.soundness.parquet_type_kinds import Family, Way
from tests.soundness.trino.trino_types import DECLARED, literals, sql_type
from tests.soundness.written_types import WRITTEN_FAMILIES
from tests.support.running import profiles
from tests.support.service.planner import running_service
from tests.support.trino.server import Trino, aged

pytestmark = pytest.mark.trino

SCHEMA = "type_table"
SOME = 12
NUMBERS = (19_723, 19_730)
"""A number for each of the two files: a day, a moment of 1970, a decimal of two digits."""


@dataclass(frozen=True)
class Cell:
    """A way of writing and a declared type, with the table that has both."""

    name: str
    family: Family
    way: Way
    declared: str

    def write(self, root: Path) -> None:
        """Write two files and index them, if their type can be indexed."""
        root.mkdir()
        for number in NUMBERS:
            self.way.write(root / f"{number}.parquet", self.way.values([number, number + 1]), "x")
        aged(root)
        table = pruner.open_table(str(root))
        try:
            table.create_index("i", on="x")
        except pruner.PrunerError:
            return  # a type that no index supports

    def statements(self) -> Iterator[str]:
        """All values with their type, and those of predicates that may hold only in the first file."""
        yield f"SELECT typeof(x), x FROM {self.name}"
        for literal in dict.fromkeys(literals(sql_type(self.declared))(NUMBERS[0])):
            yield f"SELECT x FROM {self.name} WHERE x = {literal}"


def _cells() -> list[Cell]:
    every = [
        (family, way, declared)
        for family in WRITTEN_FAMILIES
        for way in family.ways
        for declared in dict.fromkeys(DECLARED[family.name])
    ]
    chosen = random.Random(14).sample(every, SOME) if profiles.IS_FIXED else every
    return [Cell(f"t{number}", *parts) for number, parts in enumerate(chosen)]


def _outcome(trino: Trino, sql: str, catalog: str) -> tuple[str, list[str]]:
    """How a statement ends: its rows in any order, or the name of its error."""
    session = {f"{catalog}.parquet_ignore_statistics": "true"}
    try:
        return "rows", sorted(map(repr, trino.run(sql, catalog=catalog, schema=SCHEMA, session=session).rows))
    except TrinoQueryError as error:
        return "error", [str(error.error_name)]


def test_types_values_and_errors_are_the_plain_catalogs(trino: Trino, tmp_path: Path) -> None:
    cells = _cells()
    trino.metastore.ensure_schema(SCHEMA)
    entries: list[str] = []
    for cell in cells:
        root = tmp_path / cell.name
        cell.write(root)
        trino.metastore.add_table(SCHEMA, cell.name, root, {"x": cell.declared})
        entries.append(
            f'[tables.{cell.name}]\nuri = "{root}"\naliases = ["pruned_hive.{SCHEMA}.{cell.name}"]'
        )
    config = tmp_path / "pruner.toml"
    config.write_text("\n".join(entries), encoding="utf-8")
    different: list[str] = []
    with ExitStack() as services:
        trino.gate.target = services.enter_context(running_service(config))
        trino.gate.forget()
        for cell in cells:
            for sql in cell.statements():
                plain, pruned = (_outcome(trino, sql, catalog) for catalog in ("hive", "pruned_hive"))
                # A file that Trino cannot read with the declared type fails no statement that leaves it out.
                spared = plain[0] == "error" and pruned == ("rows", []) and " WHERE " in sql
                if plain != pruned and not spared:
                    different.append(f"{cell.declared} over {cell.way.name}: {sql}: {plain}, pruned {pruned}")
        assert any(answer["kept"] < answer["total"] for answer in trino.gate.answers)
    assert not different
