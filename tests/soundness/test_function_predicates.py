"""Random predicates over functions against full scans: no file with a row for which one is true is dropped.

Hundreds of them are computed as columns of one query grouped by file, so that none is pushed down. The plans come
from their text and from what the engine's optimizer makes of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
from pruner.expr.nodes import Expr
from pruner.expr.semantics import Semantics
from tests.support.functions.predicates import FILES, KIND_OF, drawn, functions_of, write_files
from tests.support.running.profiles import examples, seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pruner.planning.pinned import PinnedSnapshot
    from tests.support.trino.tables import TrinoTables

AT_ONCE = 100
Found = list[set[str]]
"""For each predicate, the names of the files with a row for which it is true."""


def indexed(root: Path, columns: Sequence[str]) -> PinnedSnapshot:
    """The snapshot of a new table with these columns."""
    write_files(root, columns)
    table = pruner.open_table(str(root))
    if not table.indexes():
        table.create_index("stats", on="*")
    return table.snapshot()


def held(
    pinned: PinnedSnapshot, semantics: Semantics, predicates: Sequence[str | Expr], matching: Found
) -> int:
    """Plan with each predicate; returns how many files were dropped."""
    left_out = 0
    for predicate, files in zip(predicates, matching, strict=True):
        kept = {Path(file).name for file in pinned.plan(predicate, semantics=semantics).files}
        assert files <= kept, f"{predicate} by {semantics} loses {files - kept}"
        left_out += FILES - len(kept)
    return left_out


def batches(predicates: Sequence[str], answer: Callable[[Sequence[str]], Iterable[Any]]) -> Found:
    """The files for which each predicate holds, from rows of a name and the predicates' answers."""
    found: Found = []
    for start in range(0, len(predicates), AT_ONCE):
        some = predicates[start : start + AT_ONCE]
        rows = [tuple(row) for row in answer([f"({each})" for each in some])]
        found += [{Path(str(row[0])).name for row in rows if row[k + 1]} for k in range(len(some))]
    return found


def test_duckdb(tmp_path: Path, record_property: Callable[[str, object], None]):
    columns = tuple(KIND_OF)
    pinned = indexed(tmp_path / "lake", columns)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'Europe/Berlin'")
    source = f"read_parquet('{tmp_path}/lake/*.parquet', filename = true)"
    rng = random.Random(seed())

    def shown(text: str) -> list[str | None]:
        return [
            row[0] for row in connection.execute(f"SELECT CAST({text} AS VARCHAR) FROM {source}").fetchall()
        ]

    def quote(text: str, result: str) -> str:
        prefix = {"date": "DATE ", "wall": "TIMESTAMP ", "instant": "TIMESTAMPTZ ", "text": ""}
        return f"({text})" if result == "number" else prefix[result] + "'" + text.replace("'", "''") + "'"

    predicates = drawn(rng, functions_of("duckdb", columns), shown, quote, examples(400))
    matching = batches(
        predicates,
        lambda some: connection.execute(
            f"SELECT filename, {', '.join(f'bool_or({each})' for each in some)} FROM {source} GROUP BY ALL"
        ).fetchall(),
    )
    left_out = held(pinned, Semantics(zone="Europe/Berlin"), predicates, matching)
    record_property("figure", f"DuckDB: {len(predicates)} predicates left out {left_out} files")
    assert left_out > len(predicates)


@pytest.mark.spark
@pytest.mark.parametrize(("ansi", "zone"), [("true", "Europe/Berlin"), ("false", "America/New_York")])
def test_spark(
    spark: SparkSession, tmp_path: Path, ansi: str, zone: str, record_property: Callable[[str, object], None]
):
    from pruner_spark.catalyst.decode import decode
    from pruner_spark.jvm import session_state
    from tests.engines.spark.conditions.test_functions_spark import quoted
    from tests.support.spark.catalyst import settings

    columns = tuple(KIND_OF)
    pinned = indexed(tmp_path / "lake", columns)
    rng = random.Random(f"{seed()} {ansi}")
    with settings(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
        state, frame = session_state(spark), spark.read.parquet(str(tmp_path / "lake"))
        functions = functions_of("spark", columns)
        texts = [f"CAST({each.text} AS STRING)" for each in functions]
        results = list(zip(*frame.selectExpr(*texts).collect(), strict=True))
        by_text = {each.text: column for each, column in zip(functions, results, strict=True)}
        predicates = drawn(rng, functions, by_text.__getitem__, quoted, examples(400))

        def answer(some: Sequence[str]) -> list[Any]:
            answers = [f"{each} AS x{k}" for k, each in enumerate(some)]
            rows = frame.selectExpr("_metadata.file_name AS f", *answers).createOrReplaceTempView
            rows("function_answers")
            asked = ", ".join(f"bool_or(x{k})" for k in range(len(some)))
            return spark.sql(f"SELECT f, {asked} FROM function_answers GROUP BY f").collect()

        matching = batches(predicates, answer)
        optimized: list[Expr] = []
        for start in range(0, len(predicates), AT_ONCE):
            some: Any = frame.selectExpr(*(f"({each}) AS x" for each in predicates[start : start + AT_ONCE]))
            listed = some._jdf.queryExecution().optimizedPlan().projectList()
            optimized += [decode(listed.apply(k).child(), state, pinned.schema) for k in range(listed.size())]
        by_words = held(pinned, state.semantics(), predicates, matching)
        by_plan = held(pinned, state.semantics(), optimized, matching)
    record_property(
        "figure", f"Spark: {len(predicates)} predicates left out {by_words} files, {by_plan} by plans"
    )
    assert min(by_words, by_plan) > len(predicates)


@pytest.mark.trino
def test_trino(trino_tables: TrinoTables, tmp_path: Path, record_property: Callable[[str, object], None]):
    from tests.engines.trino.test_functions_trino import KINDS, quoted
    from tests.support.trino.tables import SCHEMA

    columns = tuple(name for name in KIND_OF if KIND_OF[name] in KINDS)
    write_files(tmp_path / "lake", columns)
    registered = trino_tables.register(tmp_path / "lake", {name: KINDS[KIND_OF[name]] for name in columns})
    pinned = pruner.open_table(str(tmp_path / "lake")).snapshot()
    trino, semantics, rng = registered.trino, Semantics.of("trino"), random.Random(seed())
    functions = functions_of("trino", columns)
    texts = ", ".join(f"CAST({each.text} AS VARCHAR)" for each in functions)
    rows = trino.run(f"SELECT {texts} FROM {registered.name}", catalog="hive", schema=SCHEMA).rows
    by_text = {each.text: column for each, column in zip(functions, zip(*rows, strict=True), strict=True)}
    predicates = drawn(rng, functions, by_text.__getitem__, quoted, examples(400))

    def answer(some: Sequence[str]) -> list[Any]:
        asked = ", ".join(f"bool_or({each})" for each in some)
        sql = f'SELECT "$path", {asked} FROM {registered.name} GROUP BY 1'
        return trino.run(sql, catalog="hive", schema=SCHEMA).rows

    matching = batches(predicates, answer)
    by_words = held(pinned, semantics, predicates, matching)
    some = predicates[: len(predicates) // 4]
    by_plan = sum(
        _left_out_of_scan(registered, where, files) for where, files in zip(some, matching, strict=False)
    )
    record_property(
        "figure",
        f"Trino: {len(predicates)} predicates left out {by_words} files; {len(some)} scans {by_plan}",
    )
    assert by_words > len(predicates)
    assert by_plan > len(some)


def _left_out_of_scan(registered: Any, where: str, files: set[str]) -> int:
    """How many files the plugin dropped from a scan, whose rows are those of a full one."""
    from tests.support.trino.server import STATIC
    from tests.support.trino.tables import SCHEMA

    registered.trino.gate.forget()
    sql = f'SELECT DISTINCT "$path" FROM {registered.name} WHERE {where}'
    rows = registered.trino.run(sql, catalog="pruned_hive", schema=SCHEMA, session=STATIC).rows
    assert {Path(row[0]).name for row in rows} == files, where
    return sum(each["total"] - each["kept"] for each in registered.trino.gate.answers)
