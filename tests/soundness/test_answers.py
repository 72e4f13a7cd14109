"""Answers from metadata equal a full scan, and what is proved is what the metadata can prove.

The random tables and predicates are those of the other soundness tests. Each answer is assembled as an engine would:
the proved value, and what DuckDB with its optimizer off finds in the files that are left to read.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner import Plan
from pruner.planning.first_rows import Order
from tests.soundness.predicates import draw_predicate
from tests.soundness.tables import DuckDBScan, RandomTable, write_table
from tests.support.running.profiles import IS_BRIEF

ENOUGH = 6
"""Tables from which on the shares of what is proved mean something."""
TABLES = int(os.environ.get("PRUNER_ANSWER_TABLES", "1" if IS_BRIEF else ENOUGH))
PREDICATES = 30
SEMANTICS = pruner.Semantics(engine="duckdb", zone="UTC")
REPEAT = "repeat: PRUNER_ANSWER_SEED={} .venv/bin/python -m pytest -n0 tests/soundness/test_answers.py"


def _seeds(config: pytest.Config) -> list[int]:
    given = os.environ.get("PRUNER_ANSWER_SEED")
    if given:
        return [int(given)]
    base = int(config.option.hypothesis_seed)
    return [(base * 1_000_003 + 77 + number) % 2**32 for number in range(TABLES)]


def test_answers_equal_a_full_scan(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    scan = DuckDBScan()
    tally: Counter[str] = Counter()
    seeds = _seeds(pytestconfig)
    for seed in seeds:
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed), file_count=10, column_count=5)
        opened = _indexed(rng, table)
        pinned = opened.snapshot()
        for _ in range(PREDICATES):
            where = "true" if rng.random() < 0.15 else draw_predicate(rng, table.columns, table.values).sql()
            column = rng.choice(list(table.columns))
            plan = pinned.plan(where, semantics=SEMANTICS)
            asked = _Asked(scan, plan, where, column, f"\npredicate: {where}\n{REPEAT.format(seed)}")
            asked.check(tally)
            asked.check_order(rng, tally)
            asked.check_firsts(rng, tally)
    shares = {
        name: tally[name] / tally[f"{name} of"] for name in ("count", "min", "max", "count of a column", "by")
    }
    record_property("figure", ", ".join(f"{name} {share:.0%} exact" for name, share in shares.items()))
    if len(seeds) >= ENOUGH:
        assert tally["count of"] >= 100
        assert shares["count"] > 0.25, shares
        assert min(shares.values()) > 0.05, shares
        assert tally["fewer by top"] > 4, tally
        assert tally["fewer by limit"] > 10, tally
        assert tally["fewer by group"] > 4, tally
        assert tally["fewer by groups"] > 0, tally
        assert tally["fewer by values"] > 4, tally
        assert tally["fewer with a value"] > 4, tally


def _indexed(rng: random.Random, table: RandomTable) -> pruner.Table:
    """Statistics of all columns or of some, bitmaps of some, and a file that no index covers."""
    late = table.root / "part-999.parquet"
    last = table.root / "part-009.parquet"
    hidden = rng.random() < 0.3
    content = last.read_bytes()
    if hidden:
        last.unlink()
    opened = pruner.open_table(str(table.root))
    names = [name for name in table.columns if rng.random() < 0.6]
    if rng.random() < 0.8:
        opened.create_index("stats", on="*")
    elif names:
        opened.create_index("stats", on=[f'"{name}"' for name in names])
    for name, kind in table.columns.items():
        if rng.random() < 0.5 and "binary" not in kind.name and "uuid" not in kind.name:
            try:
                opened.create_index(f"rows of {name}", on=f'"{name}"', using="bitmap")
            except pruner.IndexDefinitionError:
                continue
    if hidden:
        late.write_bytes(content)
    return pruner.open_table(str(table.root))


class _Asked:
    """One plan, and what scans of all files and of the remaining files return."""

    def __init__(self, scan: DuckDBScan, plan: Plan, where: str, column: str, repeat: str) -> None:
        self.plan, self.where, self.column, self.repeat = plan, where, column, repeat
        self._scan = scan
        self._all = [str(each) for each in plan.snapshot.base_files.to_pylist()]

    def rows(self, select: str, files: list[str], tail: str = "") -> list[Any]:
        if not files:
            return []
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
        return self._scan.connection.execute(
            f"SELECT {select} FROM read_parquet([{listed}], filename = true) WHERE ({self.where}) {tail}"
        ).fetchall()

    def check(self, tally: Counter[str]) -> None:
        name = '"' + self.column.replace('"', '""') + '"'
        count = self.plan.count()
        self._same("count", count.value + self._first("count(*)", count.files, 0), "count(*)")
        of_column = self.plan.count(name)
        rest = self._first(f"count({name})", of_column.files, 0)
        self._same("count of a column", of_column.value + rest, f"count({name})")
        for which, answer in (("min", self.plan.min(name)), ("max", self.plan.max(name))):
            self._check_extreme(which, name, answer)
            tally[which] += answer.exact
            tally[f"{which} of"] += 1
        by = self.plan.count_by(name)
        self._check_groups(name, by)
        self._check_extremes_by_group(name)
        for which, answer in (("count", count), ("count of a column", of_column), ("by", by)):
            tally[which] += answer.exact
            tally[f"{which} of"] += 1

    def _first(self, select: str, files: list[str], default: Any) -> Any:
        found = self.rows(select, files)
        return found[0][0] if found else default

    def _same(self, what: str, told: Any, select: str) -> None:
        truth = self._first(select, self._all, 0)
        assert told == truth, f"{what} is {told}, not {truth}{self.repeat}"

    def _check_extreme(self, which: str, name: str, answer: pruner.Answer) -> None:
        values = [answer.proved.column("value").combine_chunks()]
        column = self.plan.schema.find((self.column,)).type
        read = self._scan.connection.execute(
            f"SELECT {which}(v) FROM (SELECT NULL AS v UNION ALL SELECT {name} FROM "
            f"{_listing(answer.files)} WHERE ({self.where}))"
            if answer.files
            else "SELECT NULL"
        ).fetchall()[0]
        whole = self._first(f"{which}({name})", self._all, None)
        proved = self._scan.connection.execute("SELECT ?", [values[0][0].as_py()]).fetchall()[0]
        candidates = [each for (each,) in (read, proved) if each is not None]
        order = max if which == "max" else min
        told = order(candidates, key=_key) if candidates else None
        assert _key(told) == _key(whole), (
            f"{which}({name}) is {told!r}, not {whole!r} ({column}){self.repeat}"
        )

    def _check_groups(self, name: str, answer: pruner.Answer) -> None:
        found: Counter[Any] = Counter()
        for value, count in answer.value.items():
            assert count > 0
            found[_key(value)] += count
        for value, count in self.rows(f"{name}, count(*)", answer.files, "GROUP BY 1"):
            found[_key(value)] += count
        truth: Counter[Any] = Counter()
        for value, count in self.rows(f"{name}, count(*)", self._all, "GROUP BY 1"):
            truth[_key(value)] += count
        assert found == truth, f"counts by {name}{self.repeat}"

    def _check_extremes_by_group(self, name: str) -> None:
        calls = [("count", None), ("count", name), ("min", name), ("max", name)]
        answer, rest = self.plan.grouped(name, calls)
        select = f"{name}, count(*), count({name}), min({name}), max({name})"
        found: dict[Any, list[Any]] = {}
        proved = [answer.proved.column(each).to_pylist() for each in answer.proved.column_names[1:3]]
        extremes = [answer.proved.column(each).combine_chunks() for each in ("value", "call_2", "call_3")]
        shown = [self._scan.connection.execute("SELECT ?", [each.as_py()]).fetchone() for each in extremes[0]]
        for row, value in enumerate(shown):
            assert value is not None
            found[_key(value[0])] = [proved[0][row], proved[1][row]]
            assert extremes[1][row] == extremes[2][row] == extremes[0][row]
        for value, rows, values, _, _ in self.rows(select, list(rest.files), "GROUP BY 1"):
            before = found.get(_key(value), [0, 0])
            found[_key(value)] = [before[0] + rows, before[1] + values]
        truth = {_key(row[0]): [row[1], row[2]] for row in self.rows(select, self._all, "GROUP BY 1")}
        assert found == truth, f"aggregates by {name}{self.repeat}"

    def check_order(self, rng: random.Random, tally: Counter[str]) -> None:
        """First rows in any order of the column, with ties: as values, those of the whole table."""
        name = '"' + self.column.replace('"', '""') + '"'
        rows = rng.choice([1, 2, 5, 20])
        descending, nulls_first = rng.random() < 0.5, rng.random() < 0.3
        narrowed = self.plan.top(name, rows, descending=descending, nulls_first=nulls_first)
        order = (
            f"ORDER BY {name} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
        )
        tail = f"{order} LIMIT {rows}"
        told = [_key(each) for (each,) in self.rows(name, list(narrowed.files), tail)]
        truth = [_key(each) for (each,) in self.rows(name, self._all, tail)]
        assert told == truth, f"{tail}: {told} and not {truth}{self.repeat}"
        # Every row that ties with the last one stays, for any further order.
        ties = f"QUALIFY rank() OVER ({order}) <= {rows}"
        assert len(self.rows(name, list(narrowed.files), ties)) == len(self.rows(name, self._all, ties)), (
            f"{ties}{self.repeat}"
        )
        tally["fewer by top"] += narrowed.kept < self.plan.kept
        valued = self.plan.first_values(name, rows, descending=descending, nulls_first=nulls_first)
        dense = f"QUALIFY dense_rank() OVER ({order}) <= {rows}"
        assert len(self.rows(name, list(valued.files), dense)) == len(self.rows(name, self._all, dense)), (
            f"{dense}{self.repeat}"
        )
        tally["fewer by values"] += valued.kept < self.plan.kept
        limited = self.plan.limited(rows)
        assert list(limited.files) == list(self.plan.files)[: limited.kept]
        if limited.kept < self.plan.kept:
            tally["fewer by limit"] += 1
            assert len(self.rows("1", list(limited.files))) >= rows, f"too few rows{self.repeat}"

    def check_firsts(self, rng: random.Random, tally: Counter[str]) -> None:
        """First rows of each value of a column, or of two; rows without a value in another one are skipped or not."""
        name, other, third = (
            '"' + rng.choice(list(self.plan.schema)).name.replace('"', '""') + '"' for _ in range(3)
        )
        rows, descending, nulls_first = rng.choice([1, 1, 2, 5]), rng.random() < 0.5, rng.random() < 0.3
        within = other if rng.random() < 0.7 else None
        with_value = third if rng.random() < 0.5 else None
        self._check_first(Order(name, rows, descending, nulls_first, with_value, within), other, tally)
        several = Order(name, rows, descending, nulls_first, with_value, (other, third))
        self._check_first(several, other, tally)

    def _check_first(self, order: Order, shown: str, tally: Counter[str]) -> None:
        narrowed = self.plan.first_of([order])
        if narrowed.kept == self.plan.kept:
            return
        several = isinstance(order.within, tuple)
        tally["fewer by groups"] += several
        tally["fewer by group"] += order.within is not None and not several
        tally["fewer with a value"] += order.with_value is not None
        by = ", ".join(order.within) if isinstance(order.within, tuple) else order.within
        window = (
            f"{f'PARTITION BY {by} ' if by else ''}ORDER BY {order.column} {'DESC' if order.descending else 'ASC'} "
            f"NULLS {'FIRST' if order.nulls_first else 'LAST'}"
        )
        valued = f"AND {order.with_value} IS NOT NULL " if order.with_value else ""
        tail = f"{valued}QUALIFY rank() OVER ({window}) <= {order.rows}"
        items = f"{order.column}, {shown}, filename"
        told = Counter(map(repr, self.rows(items, list(narrowed.files), tail)))
        assert told == Counter(map(repr, self.rows(items, self._all, tail))), f"{tail}{self.repeat}"


def _listing(files: list[str]) -> str:
    listed = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
    return f"read_parquet([{listed}], filename = true)"


def _key(value: Any) -> Any:
    """Equal values have one key, NaN above all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value
