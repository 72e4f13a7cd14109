"""Iceberg tables through Trino: the rows of the stock connector, from the files that the planner keeps.

pyiceberg and Trino itself write the tables. Trino's catalog alone knows their newest metadata; the service is told of
it with each scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import types as iceberg

import pruner
from tests.support.gate import Behaviour
from tests.support.iceberg_tables import ROWS, SPECS, IcebergLake, rows
from tests.support.service import running_service
from tests.support.trino import STATIC, Trino
from tools.trino_client import Result, Rows

pytestmark = pytest.mark.trino

FILES = 4
CONDITIONS = (
    "id = 30",
    "id IN (3, 40, 55)",
    "number < -20",
    "number IS NULL",
    "number IS NOT NULL AND number % 2 = 0",
    "small = REAL '0'",
    "small > 3",
    "x > 5",
    "is_nan(x)",
    "NOT x < 3",
    "price BETWEEN 0 AND 1.5",
    "day < DATE '1970-01-01'",
    "day >= DATE '1970-05-01'",
    "year(day) = 1970 AND month(day) = 3",
    "\"at\" < TIMESTAMP '1970-01-02 00:00:00 UTC'",
    "\"at\" > TIMESTAMP '1970-01-12 03:00:00 Asia/Kathmandu'",
    "wall >= TIMESTAMP '1970-01-10 00:00:00'",
    "clock > TIME '20:00:00'",
    "name LIKE 'Ä%'",
    "name >= 'z'",
    "name = 'Zlang und breit lang und breit lang und breit 002'",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "raw = X'05FF05'",
    "box.a > 60",
    "box.b IS NULL",
    "box.a > 60 OR id = 3",
    "id > 20 OR number IS NULL",
    "lower(name) = 'zlang und breit lang und breit lang und breit 002'",
    "many IS NULL",
    "cardinality(many) = 3",
)
SCHEMA = "lake"


@dataclass
class Ice:
    """The tables of one folder, which a service knows by their places, and a server that reads them."""

    trino: Trino
    lake: IcebergLake
    config: Path
    services: ExitStack

    def register(self, table: Any, *, index: bool = True) -> str:
        """Make a table known to Trino as pyiceberg has left it, and to a service as it stands now."""
        name = str(table.name()[-1])
        if index:
            opened = pruner.open_table(table.metadata_location)
            opened.create_index("names", on="name", using="bitmap")
        place = table.location()
        self.stock("CREATE SCHEMA IF NOT EXISTS lake")
        self.stock(f"CALL iceberg.system.register_table('{SCHEMA}', '{name}', '{place}')")
        self.know(name, table.metadata_location)
        return name

    def know(self, name: str, metadata: str, alias: str | None = None) -> None:
        """Point the gate at a service that knows a table by a metadata file."""
        aliases = f'aliases = ["pruned_iceberg.{SCHEMA}.{alias}"]\n' if alias else ""
        text = f'[tables.{name}]\nuri = "{metadata.removeprefix("file://")}"\n{aliases}'
        self.config.write_text(text, encoding="utf-8")
        self.services.close()
        self.trino.gate.target = self.services.enter_context(running_service(self.config))
        self.trino.gate.forget()

    def stock(self, sql: str) -> Result:
        """Run a statement through the stock connector."""
        return self.trino.run(sql, catalog="iceberg", schema=SCHEMA)

    def pruned(self, sql: str, catalog: str = "pruned_iceberg", **session: str) -> Result:
        """Run a statement through the pruned one; dynamic filters come when they come, so there are none."""
        return self.trino.run(sql, catalog=catalog, schema=SCHEMA, session={**STATIC, **session})

    def splits(self, result: Result) -> list[int]:
        """How many splits each scan of a query has read."""
        return sorted(self.trino.splits_by_scan(result.query_id).values())

    def same(self, sql: str) -> tuple[Rows, int]:
        """Rows of a query with one scan that asks for a plan, and how many files that keeps.

        They are those of the stock connector; the splits are those of the plan, and of no more files than Iceberg's
        own planning leaves.
        """
        self.trino.gate.forget()
        plain, found = self.stock(sql), self.pruned(sql)
        assert sorted(map(repr, found.rows)) == sorted(map(repr, plain.rows)), sql
        (answer,) = self.trino.gate.answers
        (splits,), (own,) = self.splits(found), self.splits(plain)
        assert splits <= max(own, 1), sql
        assert splits <= max(answer["kept"], 1), sql
        return found.rows, answer["kept"]


@pytest.fixture(scope="module")
def ice(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ice]:
    folder = tmp_path_factory.mktemp("iceberg")
    with ExitStack() as services:
        yield Ice(trino, IcebergLake(folder), folder / "pruner.toml", services)


def _written(ice: Ice, name: str, spec: str = "unpartitioned", version: int = 2) -> Any:
    table = ice.lake.create(name, spec, version)
    for start in range(0, FILES * ROWS, ROWS):
        table.append(rows(table, range(start, start + ROWS)))
    return table


@pytest.fixture
def table(ice: Ice, request: pytest.FixtureRequest) -> str:
    """Four files: row n is in file n / 24."""
    name = "".join(each if each.isalnum() else "_" for each in request.node.name.removeprefix("test_")).lower()
    return ice.register(_written(ice, name))


@pytest.mark.parametrize("spec", SPECS)
def test_rows_are_those_of_the_stock_connector(ice: Ice, spec: str) -> None:
    """Whatever the partitions are; what manifests do not prove, an index of names does."""
    written = _written(ice, spec, spec)
    written.delete("id = 7 or id = 50")
    name = ice.register(written)
    for condition in CONDITIONS:
        sql = f"SELECT id, name FROM {name} WHERE {condition}"
        ice.trino.gate.forget()
        plain, found = ice.stock(sql), ice.pruned(sql)
        assert sorted(map(repr, found.rows)) == sorted(map(repr, plain.rows)), condition
        (splits,), (own,) = ice.splits(found), ice.splits(plain)
        assert splits <= own, condition
        assert len(ice.trino.gate.answers) == 1, condition
