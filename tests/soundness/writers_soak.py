"""Random statements on a real Spark and a real Trino over files of several writers, plain against pruned.

    python -m tests.soundness.writers_soak --count 300 [--seed 1] [--engines spark,trino]

Each condition of `engine_conditions` first runs by itself, on each writer's table in turn, to see which prune; then
`count` random statements follow. The exit status is 1 where rows differ, or only the pruned way raises an error. Files
of fastparquet are included where PRUNER_FASTPARQUET names a folder with it (`pip install --target`).
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pruner_spark
from tests.soundness.engine_conditions import conditions, statement
from tests.soundness.other_writers import FILES, HIVE, write
from tools.planner_service import planner_service
from tools.spark import hudi_session
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

SCHEMA = "written"
TRIES = 2
"""How many times each condition runs by itself."""

Run = Callable[[str], list[str]]


@dataclass
class Engine:
    """One engine: statements over `{t}` in its plain and its pruned form, and what the last one read."""

    name: str
    plain: Run
    pruned: Run
    names: Mapping[str, tuple[str, str]]
    """Plain and pruned name of each table."""
    files_read: Callable[[], int]
    statements: int = 0
    refused: int = 0
    spared: int = 0
    lost: list[str] = field(default_factory=list[str])
    pruning: dict[str, int] = field(default_factory=dict[str, int])

    def ask(self, table: str, sql: str) -> bool:
        """Compare one statement; tells whether it ran."""
        plain, pruned = self.names[table]
        expected, found = (
            _answer(run, sql.replace(table, name))
            for run, name in ((self.plain, plain), (self.pruned, pruned))
        )
        self.statements += 1
        if isinstance(expected, str) and not isinstance(found, str):
            # The row that raises the error is in a file without any row of the result.
            self.spared += 1
        elif found != expected:
            self.lost.append(f"{sql}\n    {_shown(found)} instead of {_shown(expected)}")
        self.refused += isinstance(expected, str)
        return not isinstance(expected, str)


def _answer(run: Run, sql: str) -> list[str] | str:
    """Sorted rows, or the kind of error where the engine refuses the statement."""
    try:
        return sorted(run(sql))
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'error_name', '')}".strip()


def _shown(answer: list[str] | str) -> str:
    return answer if isinstance(answer, str) else f"{len(answer)} rows {answer[:3]}"


def _soak(engine: Engine, columns: Mapping[str, Sequence[str]], count: int, seed: int) -> None:
    rng = random.Random(seed)
    tables = list(columns)
    names = sorted({each for table in tables for each in conditions(engine.name, columns[table])})
    for number, condition in enumerate(names):
        engine.pruning[condition] = 0
        for place in range(TRIES):
            table = tables[(number + place) % len(tables)]
            if condition in conditions(engine.name, columns[table]):
                sql = statement(rng, engine.name, table, columns[table], condition, alone=True)
                if engine.ask(table, sql):
                    engine.pruning[condition] += engine.files_read() < FILES * sql.count(f"FROM {table}")
    for _ in range(count):
        table = rng.choice(tables)
        engine.ask(table, statement(rng, engine.name, table, columns[table]))


@contextmanager
def _spark(spark: Any, folder: Path, columns: Mapping[str, Sequence[str]]) -> Iterator[Engine]:
    names: dict[str, tuple[str, str]] = {}
    for table in columns:
        names[table] = f"plain_{table}", f"pruned_{table}"
        spark.read.parquet(str(folder / table)).createOrReplaceTempView(names[table][0])
        pruner_spark.register(spark, names[table][1], folder / table)

    def run(sql: str) -> list[str]:
        return [repr(tuple(row)) for row in spark.sql(sql).collect()]

    last: list[Any] = [None]

    def files_read() -> int:
        scans = pruner_spark.last_plans(spark)
        new = scans[scans.index(last[0]) + 1 :] if last[0] in scans else scans
        last[0] = scans[-1] if scans else None
        return sum(scan.kept if scan.kept is not None else FILES for scan in new)

    yield Engine("spark", run, run, names, files_read)


@contextmanager
def _trino(folder: Path, columns: Mapping[str, Sequence[str]]) -> Iterator[Engine]:
    with ExitStack() as running:
        metastore = Metastore(folder / "metastore")
        metastore.add_schema(SCHEMA)
        lines: list[str] = []
        for table, names in columns.items():
            metastore.add_table(SCHEMA, table, folder / table, {name: HIVE[name] for name in names})
            lines += [f"[tables.{table}]", f'uri = "{folder / table}"']
            lines += [f'aliases = ["pruned_hive.{SCHEMA}.{table}"]']
        (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
        url = running.enter_context(planner_service(folder))
        common = {"hive.timestamp-precision": "MICROSECONDS"}
        ours = {"pruner.url": url, "pruner.timeout": "60s"}
        catalogs = {
            "hive": local_catalog("hive", metastore.folder, **common),
            "pruned_hive": local_catalog("pruned_hive", metastore.folder, **common, **ours),
        }
        server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()])
        running.callback(server.stop)
        client = TrinoClient(server.port)
        last = [""]

        def runner(catalog: str) -> Run:
            def run(sql: str) -> list[str]:
                found = client.run(sql, catalog=catalog, schema=SCHEMA)
                last[0] = found.query_id
                return [repr(row) for row in found.rows]

            return run

        same = {table: (table, table) for table in columns}
        yield Engine(
            "trino",
            runner("hive"),
            runner("pruned_hive"),
            same,
            lambda: sum(client.splits_by_scan(last[0]).values()),
        )


def _report(engine: Engine) -> None:
    kept = [name for name, times in engine.pruning.items() if not times]
    print(
        f"{engine.name}: {engine.statements} statements, {engine.refused} refused, {engine.spared} only plain"
    )
    print(
        f"{engine.name}: {len(engine.pruning) - len(kept)} of {len(engine.pruning)} conditions pruned; not:"
    )
    print("".join(f"    {name}\n" for name in kept), end="")
    print(f"{engine.name}: {len(engine.lost)} with other rows", *engine.lost, sep="\n", flush=True)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", default="spark,trino")
    options = parser.parse_args()
    engines = options.engines.split(",")
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        session = hudi_session(folder / "spark")
        try:
            columns = write(folder, session)
            if "spark" in engines:
                with _spark(session, folder, columns) as engine:
                    _soak(engine, columns, options.count, options.seed)
                    _report(engine)
                    lost += len(engine.lost)
        finally:
            session.stop()
        if "trino" in engines:
            with _trino(folder, columns) as engine:
                _soak(engine, columns, options.count, options.seed)
                _report(engine)
                lost += len(engine.lost)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
