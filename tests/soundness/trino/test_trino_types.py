"""The plugin loses no row that Trino finds, whatever Parquet types a column has from file to file.

Random tables of files that no single writer mixes × types that a table declares × sessions × predicates, on the real
server. The plain catalog is the oracle: it counts the rows of each file for which each predicate is true. The pruned
catalog returns the rows of every predicate, by plans that the plugin requests: many scans in one statement, each with
a path that no file has, which identifies its plan. Some predicates of each table also go through `preview`.
`PRUNER_PAIRS` sets the number of pairs (`make fuzz N=…` sets it too), `PRUNER_SEED` repeats the tables of some seeds.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from trino.exceptions import TrinoQueryError

import pruner
from pruner.service import Settings
from pruner.service.settings import Limits
from pruner_trino import preview
from tests.soundness.mixed_tables import (
    FILES,
    UNINDEXED,
    MixedTable,
    Tally,
    indexed,
    repeated_by,
    seeds,
    write_table,
)
from tests.soundness.old_types import OLD_FAMILIES
from tests.soundness.spark.spark_files import with_files_of_spark
from tests.soundness.trino.trino_types import DECLARED, draw_predicate
from tests.soundness.written_types import WRITTEN_FAMILIES, another_writer
from tests.support.running import profiles
from tests.support.service.planner import running_service
from tests.support.trino.server import STATIC, Trino, aged
from tools.trino.client import Rows

pytestmark = pytest.mark.trino

PREDICATES_PER_TABLE = 16 if profiles.IS_FIXED else 100
DEFAULT_PAIRS = {"quick": 176, "default": 352}.get(profiles.NAME, profiles.REQUESTED)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
SCANS_PER_STATEMENT = 40
PREVIEWS_PER_TABLE = 4 if profiles.IS_FIXED else 12
PATIENT = Limits(head_seconds=60, body_seconds=60, plan_seconds=60, concurrent=2 * SCANS_PER_STATEMENT)
"""All scans of a statement ask for plans at once, and a busy machine must not leave one of them without its plan."""
FAMILIES = with_files_of_spark((*WRITTEN_FAMILIES, *OLD_FAMILIES))
LEAST = {
    "moments": 0.1,
    "texts": 0.2,
    "narrow integers": 0.2,
    "days": 0.5,
    "sixteen bytes": 0.1,
    "fractions": 0.6,
    "old days": 0.2,
    "mixed old days": 0.2,
}
LEAST_OF_MANY = {
    **LEAST,
    "moments": 0.35,
    "texts": 0.4,
    "days": 0.6,
    "decimals": 0.5,
    "fractions": 0.7,
    "mixed old days": 0.35,
}
MANY = 5_000
"""Of the files that hold no matching row, the least share that plans drop, by what the column holds; from so many
predicates on, two thirds of what 25,187 of them measured (docs/testing.md has the figures).

INT96, unsigned integers, bytes declared as text, and types that the table's declared one turns into something else
prune nothing, as do most mixtures (docs/guarantee.md). They are among these tables.
"""
SCHEMA = "mixed_types"
WHOLE = {"parquet_ignore_statistics": "true"}
"""Trino's own pruning takes the table's type for the files'."""
CATALOGS = (("hive", "pruned_hive"), ("hive", "pruned_hive"), ("hive_millis", "pruned_millis"))
"""The plain catalog and its pruned twin, of microseconds and of Trino's own default."""
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")


Chosen: TypeAlias = "tuple[str, Counter[str]]"
"""A predicate, and the rows of each file for which it is true."""


@dataclass(frozen=True)
class Declared:
    """A table as Trino knows it: by a name, with a declared type; and the session that reads it."""

    table: MixedTable
    name: str
    type: str
    seed: int
    opened: pruner.Table
    plain: str
    pruned: str
    zone: str

    @property
    def hive_type(self) -> str:
        """The type of the column `x`."""
        return f"struct<y:{self.type}>" if "." in self.table.name else self.type

    @property
    def kind(self) -> str:
        """What the column holds, for tallies, and whether no index could be built on it."""
        return f"{self.table.kind}{'' if self.opened.indexes() else UNINDEXED}"

    @property
    def files(self) -> list[str]:
        """The files, by Trino's paths."""
        return [f"local://{path}" for path in sorted(self.table.root.glob("*.parquet"))]

    def __str__(self) -> str:
        ways = [way.name for way in self.table.ways]
        return f"{self.type} over {ways} by {self.pruned} in {self.zone}\n{repeated_by(self.seed, __file__)}"


class TrinoTypes:
    """The property over the tables of one test."""

    def __init__(self, trino: Trino, tally: Tally) -> None:
        self._trino = trino
        self._tally = tally

    def check(self, declared: Declared) -> None:
        """Compare what the pruned catalog reads with what is in the files."""
        rng = random.Random(declared.seed + 1)
        readable = self._readable(declared)
        if not readable:
            return
        drawn = [draw_predicate(rng, declared.table, declared.type) for _ in range(PREDICATES_PER_TABLE)]
        pairs = list(self._counted(declared, readable, list(dict.fromkeys(drawn))).items())
        for start in range(0, len(pairs), SCANS_PER_STATEMENT):
            self._read(declared, readable, pairs[start : start + SCANS_PER_STATEMENT])
        self._preview(declared, readable, rng.sample(pairs, min(len(pairs), PREVIEWS_PER_TABLE)))

    def _readable(self, declared: Declared) -> list[str]:
        """The files that Trino can read by the declared type."""
        if self._reads(declared, declared.files):
            return declared.files
        return [file for file in declared.files if self._reads(declared, [file])]

    def _reads(self, declared: Declared, files: Sequence[str]) -> bool:
        column = declared.table.name
        try:
            self._run(f"SELECT {column} FROM {declared.name} WHERE {_in(files)}", declared, declared.plain)
        except TrinoQueryError:
            return False
        return True

    def _counted(
        self, declared: Declared, readable: Sequence[str], predicates: Sequence[str]
    ) -> dict[str, Counter[str]]:
        """Rows of each file for which each predicate is true; failing predicates are left out."""
        if not predicates:
            return {}
        counts = ", ".join(f"count_if({text})" for text in predicates)
        sql = f'SELECT "$path", {counts} FROM {declared.name} WHERE {_in(readable)} GROUP BY 1'
        try:
            rows = self._run(sql, declared, declared.plain)
        except TrinoQueryError:
            if len(predicates) == 1:
                return {}
            half = len(predicates) // 2
            return {
                **self._counted(declared, readable, predicates[:half]),
                **self._counted(declared, readable, predicates[half:]),
            }
        assert sorted(row[0] for row in rows) == readable, declared
        return {
            text: Counter({row[0]: row[k + 1] for row in rows if row[k + 1]})
            for k, text in enumerate(predicates)
        }

    def _read(self, declared: Declared, readable: Sequence[str], chosen: Sequence[Chosen]) -> None:
        """Read the rows of several predicates through the plugin."""
        self._trino.gate.forget()
        rows = self._run(" UNION ALL ".join(_scans(declared, readable, chosen)), declared, declared.pruned)
        gate = self._trino.gate
        assert len(gate.exchanges) == len(gate.requests), f"a plan was not answered: {declared}"
        kept = {_number(request): answer["kept"] for request, answer in gate.exchanges}
        for k, (text, matching) in enumerate(chosen):
            read = Counter(row[1] for row in rows if row[0] == k)
            assert read == matching, f"LOST {matching - read}, too many {read - matching}: {text}, {declared}"
            if len(readable) == FILES and k in kept:
                without = FILES - len(matching)
                self._tally.add(declared.kind, declared.table, without=without, dropped=FILES - kept[k])

    def _preview(self, declared: Declared, readable: Sequence[str], chosen: Sequence[Chosen]) -> None:
        """Check the previews of several predicates, each as Trino explains a scan of its own."""
        if not chosen:
            return
        sql = " UNION ALL ".join(_scans(declared, readable, chosen))
        tables = {f"{declared.plain}.{SCHEMA}.{declared.name}": declared.opened}
        for each in preview(self._connection(declared, declared.plain), sql, tables=tables):
            if each.plan is None or each.filter is None:
                continue
            number = _number(each.filter)
            text, matching = chosen[number]
            lost = {Path(file).name for file in matching} - {Path(file).name for file in each.plan.files}
            assert not lost, f"preview LOST {lost}: {text}, {declared}"

    def _connection(self, declared: Declared, catalog: str) -> Any:
        session = {**STATIC, **{f"{catalog}.{key}": value for key, value in WHOLE.items()}}
        return self._trino.client.connect(catalog=catalog, schema=SCHEMA, session=session, zone=declared.zone)

    def _run(self, sql: str, declared: Declared, catalog: str) -> Rows:
        session = {**STATIC, **{f"{catalog}.{key}": value for key, value in WHOLE.items()}}
        return self._trino.client.run(
            sql, catalog=catalog, schema=SCHEMA, session=session, zone=declared.zone
        ).rows


def _in(paths: Sequence[str]) -> str:
    listed = ", ".join(f"'{path}'" for path in paths)
    return f'"$path" IN ({listed})'


def _scans(declared: Declared, readable: Sequence[str], chosen: Sequence[Chosen]) -> list[str]:
    """A scan for each predicate. The path that no file has tells them apart, and restricts no file."""
    return [
        f'SELECT {k}, "$path" FROM {declared.name} WHERE ({text}) AND {_in([*readable, f"scan {k}."])}'
        for k, (text, _) in enumerate(chosen)
    ]


def _number(asked: object) -> int:
    """The number of the scan that a request, or a filter, is about."""
    found = re.search(r"scan (\d+)\.", asked if isinstance(asked, str) else json.dumps(asked))
    assert found is not None, asked
    return int(found[1])


def _tables(trino: Trino, root: Path, chosen: Sequence[int]) -> Iterator[Declared]:
    """Write and register tables."""
    trino.metastore.ensure_schema(SCHEMA)
    for seed in chosen:
        rng = random.Random(seed)
        table = write_table(rng, root / str(seed), FAMILIES, another_writer, turn=seed)
        aged(table.root)
        opened = indexed(rng, table)
        type_ = rng.choice(DECLARED[table.family.name])
        declared = Declared(table, f"t{seed}", type_, seed, opened, *rng.choice(CATALOGS), rng.choice(ZONES))
        trino.metastore.add_table(SCHEMA, declared.name, table.root, {"x": declared.hive_type})
        yield declared


def test_no_row_is_lost_whatever_types_the_files_have(
    trino: Trino,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    tally = Tally()
    checked = TrinoTypes(trino, tally)
    tables = list(_tables(trino, tmp_path, seeds(pytestconfig, PAIRS // PREDICATES_PER_TABLE)))
    config = tmp_path / "pruner.toml"
    entries = [
        f'[tables.{each.name}]\nuri = "{each.table.root}"\naliases = ["{each.pruned}.{SCHEMA}.{each.name}"]'
        for each in tables
    ]
    config.write_text("\n".join(entries), encoding="utf-8")
    with ExitStack() as services:
        trino.gate.target = services.enter_context(running_service(config, Settings(limits=PATIENT)))
        for each in tables:
            checked.check(each)
    record_property("figure", f"Trino: {tally}")
    if "PRUNER_SEED" not in os.environ:
        assert not tally.blunt(LEAST if tally.pairs < MANY else LEAST_OF_MANY), str(tally)
        assert tally.pairs >= PAIRS // 4, "most predicates were not tried"
