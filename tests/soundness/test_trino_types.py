"""No row that Trino finds is lost by the plugin, whatever Parquet types a column has from file to file.

Random tables of files that no single writer mixes × types that a table declares × predicates, on the real server. The
plain catalog is the oracle: it counts the rows of each file for which each predicate is true. Every predicate is
planned as the server explains it. For some of each table the pruned catalog returns the rows, by the plans that the
plugin asks for: a scan costs far more than its plan. `PRUNER_PAIRS` sets the number of pairs (`make fuzz N=…` sets it
too), `PRUNER_SEED` repeats the tables of some seeds.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
from trino.exceptions import TrinoQueryError

import pruner
from pruner_trino import preview
from tests.soundness.mixed_tables import FILES, MixedTable, Tally, indexed, seeds, write_table
from tests.soundness.trino_types import DECLARED, draw_predicate
from tests.soundness.written_types import WRITTEN_FAMILIES
from tests.support import profiles
from tests.support.service import running_service
from tests.support.trino import STATIC, Trino, aged
from tools.trino_client import Rows

pytestmark = pytest.mark.trino

PREDICATES_PER_TABLE = 100
DEFAULT_PAIRS = {"quick": 200, "default": 300}.get(profiles.NAME, profiles.REQUESTED)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
PLANS_PER_STATEMENT = 50
SCANS_PER_TABLE = 8
LEAST_DROPPED = 0.25
"""Of the files of uniform tables that hold no matching row, the least share that plans drop."""
SCHEMA = "mixed_types"
WHOLE = {"parquet_ignore_statistics": "true"}
"""Trino's own pruning takes the table's type for the files'."""


Chosen: TypeAlias = "tuple[str, Counter[str]]"
"""A predicate, and the rows of each file for which it is true."""


@dataclass(frozen=True)
class Declared:
    """A table as Trino knows it: by a name, with a declared type."""

    table: MixedTable
    name: str
    type: str
    seed: int
    opened: pruner.Table

    @property
    def hive_type(self) -> str:
        """The type of the column `x`."""
        return f"struct<y:{self.type}>" if "." in self.table.name else self.type

    def __str__(self) -> str:
        ways = [way.name for way in self.table.ways]
        repeat = f"PRUNER_SEED={self.seed} .venv/bin/python -m pytest {__file__}"
        return f"{self.type} over {ways}\nrepeat: {repeat}"


class TrinoTypes:
    """The property over the tables of one test."""

    def __init__(self, trino: Trino, tally: Tally) -> None:
        self._trino = trino
        self._tally = tally
        self.dropped = 0

    def check(self, declared: Declared) -> None:
        """Hold what the pruned catalog reads against what is in the files."""
        rng = random.Random(declared.seed + 1)
        predicates = [draw_predicate(rng, declared.table, declared.type) for _ in range(PREDICATES_PER_TABLE)]
        found = self._counted(declared, list(dict.fromkeys(predicates)))
        pairs = list(found.items())
        for start in range(0, len(pairs), PLANS_PER_STATEMENT):
            self._plan(declared, pairs[start : start + PLANS_PER_STATEMENT])
        self._read(declared, rng.sample(pairs, min(len(pairs), SCANS_PER_TABLE)))

    def _plan(self, declared: Declared, chosen: Sequence[Chosen]) -> None:
        """Plan several predicates, each as Trino explains a scan of its own."""
        name = f"hive.{SCHEMA}.{declared.name}"
        connection = self._trino.client.connect(catalog="hive", schema=SCHEMA, session=STATIC)
        previews = preview(
            connection, " UNION ALL ".join(_scans(declared, chosen)), tables={name: declared.opened}
        )
        plans = {
            k: each.plan
            for each in previews
            for k in range(len(chosen))
            if each.plan is not None and f"scan {k}." in str(each.filter)
        }
        for k, plan in plans.items():
            text, matching = chosen[k]
            kept = {Path(file).name for file in plan.files}
            wanted = {Path(file).name for file in matching}
            assert wanted <= kept, f"LOST {wanted - kept}: {text}, {declared}"
            self._tally.add(declared.table.kind, without=FILES - len(wanted), dropped=FILES - len(kept))

    def _counted(self, declared: Declared, predicates: Sequence[str]) -> dict[str, Counter[str]]:
        """Rows of each file for which each predicate is true; those that fail are left out."""
        if not predicates:
            return {}
        counts = ", ".join(f"count_if({text})" for text in predicates)
        try:
            rows = self._run(f'SELECT "$path", {counts} FROM {declared.name} GROUP BY 1', "hive")
        except TrinoQueryError:
            if len(predicates) == 1:
                return {}
            half = len(predicates) // 2
            return {
                **self._counted(declared, predicates[:half]),
                **self._counted(declared, predicates[half:]),
            }
        return {
            text: Counter({row[0]: row[k + 1] for row in rows if row[k + 1]})
            for k, text in enumerate(predicates)
        }

    def _read(self, declared: Declared, chosen: Sequence[Chosen]) -> None:
        """Read the rows of several predicates through the plugin."""
        self._trino.gate.forget()
        rows = self._run(" UNION ALL ".join(_scans(declared, chosen)), "pruned_hive") if chosen else []
        for k, (text, matching) in enumerate(chosen):
            read = Counter(row[1] for row in rows if row[0] == k)
            assert read == matching, f"LOST {matching - read}: {text}, {declared}"
        self.dropped += sum(answer["total"] - answer["kept"] for answer in self._trino.gate.answers)

    def _run(self, sql: str, catalog: str) -> Rows:
        session = {**STATIC, **{f"{catalog}.{key}": value for key, value in WHOLE.items()}}
        return self._trino.run(sql, catalog=catalog, schema=SCHEMA, session=session).rows


def _scans(declared: Declared, chosen: Sequence[Chosen]) -> list[str]:
    """A scan for each predicate. The path, which no file has, tells them apart, and says nothing of any file."""
    return [
        f'SELECT {k}, "$path" FROM {declared.name} WHERE ({text}) AND "$path" <> \'scan {k}.\''
        for k, (text, _) in enumerate(chosen)
    ]


def _tables(trino: Trino, root: Path, chosen: Sequence[int]) -> Iterator[Declared]:
    """Write and register tables."""
    trino.metastore.ensure_schema(SCHEMA)
    for seed in chosen:
        rng = random.Random(seed)
        table = write_table(rng, root / str(seed), WRITTEN_FAMILIES)
        aged(table.root)
        opened = indexed(rng, table)
        declared = Declared(table, f"t{seed}", rng.choice(DECLARED[table.family.name]), seed, opened)
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
        f'[tables.{each.name}]\nuri = "{each.table.root}"\naliases = ["pruned_hive.{SCHEMA}.{each.name}"]'
        for each in tables
    ]
    config.write_text("\n".join(entries), encoding="utf-8")
    with ExitStack() as services:
        trino.gate.target = services.enter_context(running_service(config))
        for each in tables:
            checked.check(each)
    record_property("figure", f"Trino: {tally}")
    if "PRUNER_SEED" not in os.environ:
        assert tally.share() >= LEAST_DROPPED, str(tally)
        assert checked.dropped > 0, "the plugin dropped no file"
