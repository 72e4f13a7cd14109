"""Iceberg tables that Spark writes, read by Trino: each state is what Spark and the stock connector read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pruner
from tests.engines.iceberg.test_iceberg_spark import CONDITIONS, DELETES, SPECS, delete_equal, history
from tests.support.service.planner import running_service
from tests.support.trino.server import STATIC, Trino
from tools.spark_sessions import iceberg_session
from tools.trino.client import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.trino]

SCHEMA = "spark"
AT_ONCE = 2
"""Conditions per state: after a few states, all of them have been used."""


@dataclass(frozen=True)
class Both:
    """A Spark session whose tables Trino reads in place."""

    ice: SparkSession
    trino: Trino
    warehouse: Path
    services: ExitStack
    registered: set[str]

    def root(self, name: str) -> Path:
        """A table's location."""
        return self.warehouse / "ns" / name

    def know(self, name: str) -> None:
        """Point the gate at a service that knows a table by its folder."""
        config = self.warehouse / f"{name}.toml"
        config.write_text(f'[tables.{name}]\nuri = "{self.root(name)}"\n', encoding="utf-8")
        self.trino.gate.target = self.services.enter_context(running_service(config))

    def register(self, name: str) -> None:
        """Register a table with Trino in its current state."""
        if name in self.registered:
            self.run(f"CALL iceberg.system.unregister_table('{SCHEMA}', '{name}')", "iceberg")
        version = (self.root(name) / "metadata/version-hint.text").read_text(encoding="ascii").strip()
        place, file = f"file:{self.root(name)}", f"v{version}.metadata.json"
        self.run(f"CALL iceberg.system.register_table('{SCHEMA}', '{name}', '{place}', '{file}')", "iceberg")
        self.registered.add(name)

    def run(self, sql: str, catalog: str = "pruned_iceberg") -> Result:
        """Run a statement."""
        return self.trino.run(sql, catalog=catalog, schema=SCHEMA, session=STATIC)

    def check(self, name: str, conditions: Mapping[str, str]) -> list[tuple[int, int]]:
        """Compare the rows of conditions, by Spark's and Trino's text; return the kept and total files of each plan."""
        self.register(name)
        spark, stock = (
            ", ".join(f"({text})" for text in texts) for texts in (conditions, conditions.values())
        )
        rows = [tuple(row) for row in self.ice.sql(f"SELECT id, {spark} FROM ice.ns.{name}").collect()]
        assert sorted(self.run(f"SELECT id, {stock} FROM {name}", "iceberg").rows) == sorted(rows)
        counted: list[tuple[int, int]] = []
        for number, text in enumerate(conditions.values(), 1):
            self.trino.gate.forget()
            found = self.run(f"SELECT id FROM {name} WHERE {text}")
            assert sorted(row[0] for row in found.rows) == sorted(row[0] for row in rows if row[number]), text
            (answer,) = self.trino.gate.answers
            assert sum(self.trino.splits_by_scan(found.query_id).values()) <= max(answer["kept"], 1), text
            counted.append((answer["kept"], answer["total"]))
        return counted


@pytest.fixture(scope="module")
def both(spark: SparkSession, trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    ice = iceberg_session(spark, warehouse)
    # Trino reads local files by this scheme alone.
    ice.conf.set("spark.sql.catalog.ice.warehouse", f"file:{warehouse}")
    ice.conf.set("spark.sql.session.timeZone", "UTC")
    ice.conf.set("spark.sql.iceberg.executor-cache.enabled", "false")
    with ExitStack() as services:
        made = Both(ice, trino, warehouse, services, set())
        made.run(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}", "iceberg")
        yield made


def _conditions(both: Both, name: str, step: int) -> dict[str, str]:
    """Some of the conditions, in Spark's and Trino's syntax, by the columns' current names."""
    renamed = "cost" in both.ice.table(f"ice.ns.{name}").columns
    found: dict[str, str] = {}
    for each in [CONDITIONS[1:][(step * AT_ONCE + k) % (len(CONDITIONS) - 1)] for k in range(AT_ONCE)]:
        text = (each.replace("price", "cost") if renamed else each).replace("TIMESTAMPTZ", "TIMESTAMP")
        found[text.replace("Z'", "'")] = text.replace("Z'", " UTC'")
    return found


@pytest.mark.parametrize(("deletes", "spec"), [("positions", "in buckets"), ("vectors", "by days")])
def test_each_state_is_what_spark_reads(both: Both, deletes: str, spec: str) -> None:
    name = f"{deletes}_{spec}".replace(" ", "_")
    steps = history(both.ice, f"ns.{name}", SPECS[spec], DELETES[deletes])
    steps.pop(0)()
    opened = pruner.open_table(str(both.root(name)))
    both.know(name)
    left = 0
    for number, step in enumerate(steps):
        step()
        if number == 0:
            opened.create_index("ids", "id", "bloom_filter")
            opened.create_index("kinds", "kind", "bitmap")
        left += sum(total - kept for kept, total in both.check(name, _conditions(both, name, number)))
    assert left > 0


def test_equality_deletes_stay_trino_s(both: Both) -> None:
    name = "equal"
    steps: list[Callable[[], Any]] = [
        lambda: both.ice.sql(
            f"CREATE TABLE ice.ns.{name} (id BIGINT, b STRING) USING iceberg TBLPROPERTIES ('format-version'='2')"
        ),
        lambda: both.ice.sql(f"INSERT INTO ice.ns.{name} SELECT id, concat('n', id) FROM range(0, 40, 1, 4)"),
        lambda: _delete(both, name, [3, 35]),
        lambda: both.ice.sql(f"INSERT INTO ice.ns.{name} VALUES (3, 'again'), (50, 'new')"),
        lambda: _delete(both, name, [12]),
        lambda: both.ice.sql(f"ALTER TABLE ice.ns.{name} RENAME COLUMN b TO c"),
    ]
    steps.pop(0)()
    both.know(name)
    conditions = {text: text for text in ("id = 3", "id = 12", "id IN (4, 35)")}
    for number, step in enumerate(steps):
        step()
        expected = [(1, 4), (1, 4), (2, 4)] if number < 2 else [(2, 6), (1, 6), (2, 6)]
        assert both.check(name, conditions) == expected, number


def _delete(both: Both, name: str, ids: list[int]) -> None:
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    delete_equal(both.ice, f"ice.ns.{name}", [field], [[each] for each in ids])


def test_fields_of_structs_prune(both: Both) -> None:
    """Spark writes bounds of fields in structs; their names change, and they are found by their ids."""
    name = "structs"
    both.ice.sql(
        f"CREATE TABLE ice.ns.{name} (id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>) USING iceberg"
    )
    both.ice.sql(
        f"INSERT INTO ice.ns.{name} SELECT id, named_struct('a', CAST(id AS INT), 'b', named_struct('c', "
        "concat('n', id DIV 10), 'd', CAST(100 - id AS INT))) FROM range(0, 40, 1, 4)"
    )
    both.know(name)
    first = ("s.a > 35", "s.b.c = 'n2'", "s.a < 5 OR s.b.d < 65")
    assert both.check(name, {text: text for text in first}) == [(1, 4), (1, 4), (2, 4)]
    for old, new in (("s.a", "e"), ("s.b.d", "a"), ("s.b.c", "d"), ("s.b.a", "c")):
        both.ice.sql(f"ALTER TABLE ice.ns.{name} RENAME COLUMN {old} TO {new}")
    both.ice.sql(f"ALTER TABLE ice.ns.{name} ADD COLUMN s.a INT")
    second = ("s.e > 35", "s.b.c < 65", "s.b.d = 'n2'", "s.a IS NULL")
    assert both.check(name, {text: text for text in second}) == [(1, 4), (1, 4), (1, 4), (4, 4)]
