"""Random scripts through the native scan, and in plain DuckDB over the same files.

`python -m tests.engines.duckdb.native_scan.native_pair --scripts 4000 --seed 7` runs many of them; a seed and a number
identify a script.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed
from tests.engines.duckdb.random.random_scripts import SETUP, Script, Step, script, write_mixture
from tests.engines.duckdb.random.random_tables import without_sign_of_zero, write_random_tables
from tests.engines.duckdb.random.tape import BYTES, Tape

FAILED_INSIDE = "InternalException"
READS = ("SELECT", "WITH", "FROM", "EXECUTE", "(")
"""How statements that run twice begin: the second time the extension remembers what it asked."""

SCRIPTS_UNMOVED = 9
Outcome = tuple[Any, ...]


def write_tables(base: Path) -> dict[str, Path]:
    return {**write_random_tables(base), "mixture": write_mixture(base / "mixture")}


class NativePair:
    """A connection with the native scan and plain ones, all of which get the same statements."""

    def __init__(self, roots: Mapping[str, Path], **config: Any) -> None:
        self._config = {"threads": 1, **config}
        self._roots = roots
        self._tables = {name: indexed(root) for name, root in roots.items()}
        self.seen: Counter[str] = Counter()
        self._moved: Path | None = None
        self._connect()

    def _connect(self) -> None:
        self.native = pruner_duckdb.connect(self._tables, config=self._config, native="on")
        assert self.native.unserved == {}
        self.plain = duckdb.connect(config=self._config)
        for name, root in self._roots.items():
            scan = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
            self.plain.execute(f"CREATE VIEW {name} AS FROM {scan}")
        for statement in SETUP:
            for each in (self.native, self.plain):
                each.execute(statement)

    def close(self) -> None:
        self.native.close()
        self.plain.close()

    def difference(self, steps: Script) -> str | None:
        """Run a script on both sides; return what differs."""
        self.native.last_plans.clear()
        for step in steps:
            found, expected = _outcome(self.native, step), _outcome(self.plain, step)
            if FAILED_INSIDE in (found[0], expected[0]):
                self._connect()
            if found[0] == "rows" and (
                expected[0] == FAILED_INSIDE or (step.may_fail and expected[0] != "rows")
            ):
                # DuckDB fails on a value, or over files, that the native scan does not read.
                self.seen["run where plain DuckDB fails"] += 1
                return None
            # A database in which DuckDB had an internal error loses all that was prepared in it.
            repeats = found == expected and found[0] != FAILED_INSIDE and step.sql.startswith(READS)
            again = _outcome(self.native, step) if repeats else expected
            if found != expected or again != expected:
                self._connect()
                times = "" if found != expected else ", the second time"
                return f"{step}\n  native{times}: {_short(again if times else found)}\n  plain:  {_short(expected)}"
            self.seen["statements"] += 1
            self.seen["fail alike"] += found[0] != "rows"
            self.seen["have rows"] += found[0] == "rows" and bool(found[2])
            if found[0] != "rows":
                break
        self._undo(steps)
        scans = list(self.native.last_plans)
        self.seen["scripts"] += 1
        self.seen["prune"] += any(scan.kept < scan.total for scan in scans)
        self.seen["not planned"] += any(scan.reason is not None for scan in scans)
        return None

    def move(self, number: int) -> None:
        """Rename a file of a table, or undo it the next time: a change that no row shows."""
        if self._moved is None:
            files = sorted(path for root in self._roots.values() for path in root.rglob("*.parquet"))
            chosen = files[number % len(files)]
            self._moved = chosen.rename(chosen.with_name(f"moved-{chosen.name}"))
        else:
            self._moved.rename(self._moved.with_name(self._moved.name.removeprefix("moved-")))
            self._moved = None

    def _undo(self, steps: Script) -> None:
        if any(step.sql == "BEGIN" for step in steps):
            for each in (self.native, self.plain):
                try:
                    each.execute("ROLLBACK")
                except duckdb.Error:
                    continue


def _outcome(con: Any, step: Step) -> Outcome:
    try:
        if step.relation:
            found = con.sql(step.sql) if " " in step.sql else con.table(step.sql)
            for name, argument in step.relation:
                given = [int(argument)] if name == "limit" else [argument] if argument else []
                found = getattr(found, name)(*given)
            return (
                "rows",
                [*zip(found.columns, map(str, found.types), strict=True)],
                in_order(found.fetchall()),
            )
        found = con.execute(step.sql, list(step.parameters)) if step.parameters else con.execute(step.sql)
        shown = [(each[0], str(each[1])) for each in found.description or ()]
        return "rows", shown, in_order(found.fetchall() if shown else [])
    except duckdb.Error as error:
        return (type(error).__name__,)


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_plain, value)]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return without_sign_of_zero(value)


def _short(outcome: Outcome) -> str:
    text = repr(outcome)
    return text if len(text) < 1500 else f"{text[:1500]} … ({len(outcome[-1])} rows)"


def tape_of(seed: int, number: int) -> Tape:
    """The tape of one script of a run."""
    return Tape(random.Random(f"{seed}/{number}").randbytes(2 * BYTES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of DuckDB")
    parser.add_argument("--only", type=int, default=None, help="the number of one script")
    chosen = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        pair = NativePair(write_tables(Path(folder)), threads=chosen.threads)
        numbers = range(chosen.scripts) if chosen.only is None else [chosen.only]
        for number in numbers:
            if number % SCRIPTS_UNMOVED == 0:
                pair.move(number)
            told = pair.difference(script(tape_of(chosen.seed, number), folder))
            if told is not None:
                failed += 1
                print(f"--seed {chosen.seed} --only {number}: {told}", flush=True)
    print(f"seed {chosen.seed}: {failed} scripts differ; {dict(pair.seen)}", flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
