"""No matching row of a real Hudi table is lost: every fixture table × random predicates, against Spark's snapshot read.

The oracle is Spark with Hudi's own data skipping off; `_hoodie_file_name` names the file group of each row, so the
test does not rely on our listing in any way.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
from tests.support.hudi.merging import merging_tables
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.hudi.timeline import completed
from tests.support.hudi.union_rows import union_rows
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

PREDICATES_PER_TABLE = 40
SEMANTICS = pruner.Semantics(engine="spark", zone="UTC")


MERGED_BY_TIME = [
    f"{name}_v{version}"
    for name in ("mor_event_time", "mor_deleted_by_column", "mor_archived")
    for version in (6, 9)
]
"""Tables with late updates and deletes, rows deleted by a column, blocks of archived instants."""

MODES = [
    *((name, optimized) for name in MERGED_BY_TIME for optimized in (False, True)),
    *((name, False) for name in table_names(".*")),
    *(
        (name, True)
        for name in table_names("mor_(v|compacted_v)[69]|mor_partial_update_v[689]|mor_late_delta_v9")
    ),
]


@pytest.fixture(scope="module")
def tables(hudi_tables: KeptTables, start_session: Callable[[], SparkSession]) -> Callable[[str], Path]:
    """The path of a table of either catalog; read-only."""
    merging = merging_tables(start_session)
    return lambda name: (merging if name in MERGED_BY_TIME else hudi_tables).path(name)


@pytest.mark.parametrize(("name", "read_optimized"), MODES)
def test_no_matching_row_is_lost(
    name: str,
    read_optimized: bool,
    spark_reads: SparkReads,
    tables: Callable[[str], Path],
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    path = tables(name)
    rows = spark_reads.read(path, read_optimized=read_optimized).rows
    rng = random.Random(f"{pytestconfig.option.hypothesis_seed} {name} {read_optimized}")
    texts = list(_predicates(rng, rows, PREDICATES_PER_TABLE))
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    pinned = table.snapshot()
    judgements = [f"({text}) AS p{i}" for i, text in enumerate(texts)]
    judged = spark_reads.read(
        path, "_hoodie_file_name AS file", *judgements, read_optimized=read_optimized
    ).rows
    groups = [{_file_id(row["file"]) for row in judged if row[f"p{i}"]} for i in range(len(texts))]
    semantics = dataclasses.replace(
        SEMANTICS, scan_mode="read_optimized" if read_optimized else SEMANTICS.scan_mode
    )
    for text, expected in zip(texts, groups, strict=True):
        plan = pinned.plan(text, semantics=semantics)
        kept = {entry.file_id for entry in plan.slices}
        assert expected <= kept, (
            f"LOST {expected - kept} of {name} for {text} (seed {pytestconfig.option.hypothesis_seed})"
        )
        for ordinal, entry in enumerate(pinned.slices):
            assert not (entry.log_files and plan.all_match[ordinal]), "claims all rows of a slice with logs"


@pytest.mark.parametrize("name", [*table_names("mor_.*"), *MERGED_BY_TIME])
def test_slices_with_logs_prune_by_what_their_files_hold(
    name: str, tables: Callable[[str], Path], tmp_path: Path
) -> None:
    """Plans keep exactly what the bounds of the union of base rows and log rows, by another reader, leave possible."""
    path = tables(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    built = table.create_index("stats", on="*")
    assert built is not None
    data = table.snapshot().data
    failed = {failure.slice for failure in built.failures}
    unknown = {
        entry.file_id
        for entry, coverable in zip(data.slices, data.coverable, strict=True)
        if not coverable or {entry.base_file, *entry.log_files} & failed
    }
    assert name in PARTLY_COVERED or not unknown, built
    known = [entry for entry in data.slices if entry.file_id not in unknown]
    if not known:
        assert table.plan("id > 1000000", semantics=SEMANTICS).kept == len(data)
        return
    contents = {entry.file_id: union_rows(path, entry) for entry in known}
    checked = 0
    for column in ("id", "seats", "fare", "ts"):
        bounds = {group: _bounds(rows, column) for group, rows in contents.items()}
        values = sorted(
            {row[column] for rows in contents.values() for row in rows if row[column] is not None}
        )
        for value in (-1, *values, 10**6):
            expectations = {
                f"{column} = {value}": lambda b, v=value: b is not None and b[0] <= v <= b[1],
                f"{column} < {value}": lambda b, v=value: b is not None and b[0] < v,
                f"{column} > {value}": lambda b, v=value: b is not None and b[1] > v,
            }
            for text, possible in expectations.items():
                expected = {group for group, found in bounds.items() if possible(found)} | unknown
                assert {
                    entry.file_id for entry in table.plan(text, semantics=SEMANTICS).slices
                } == expected, text
                checked += len(expected) < len(data)
        nulls = {group for group, rows in contents.items() if any(row[column] is None for row in rows)}
        kept = {entry.file_id for entry in table.plan(f"{column} IS NULL", semantics=SEMANTICS).slices}
        assert nulls | unknown <= kept
        # hudi-rs fills columns that a block of MERGE INTO lacks with NULL, too.
        assert kept == nulls | unknown
    assert checked, "nothing was pruned"


PARTLY_COVERED = {
    "mor_inflight_v6",
    "mor_pending_compaction_v6",
    "mor_partial_update_v6",
    "mor_rolled_back_v6",
}
"""Where slices stay uncovered: version 6 with a pending or a rolled-back write, mergers that are code."""


def _bounds(rows: list[dict[str, Any]], column: str) -> tuple[Any, Any] | None:
    values = [row[column] for row in rows if row[column] is not None]
    return (min(values), max(values)) if values else None


@pytest.mark.parametrize("name", table_names("mor_(v|compacted_v|commit_time_v|late_delta_v).*"))
def test_time_travel_plans_are_sound(
    name: str, spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    """T4: today's records serve the slices that an earlier instant shares; the others stay."""
    path = hudi_tables.path(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    for instant in completed(path, "commit", "deltacommit", "replacecommit"):
        rows = spark_reads.read(path, as_of=instant.requested).rows
        pinned = table.snapshot(as_of=instant.requested)
        for row in rows:
            for text in (
                f"id = {row['id']}",
                f"fare = {row['fare']}D",
                f"ts >= {row['ts']} AND seats IS NOT NULL",
            ):
                if "None" in text or (row["seats"] is None and "seats" in text):
                    continue
                kept = {entry.file_id for entry in pinned.plan(text, semantics=SEMANTICS).slices}
                assert _file_id(row["_hoodie_file_name"]) in kept, (instant.requested, text)


@pytest.mark.parametrize("name", ["cow_v6", "cow_v8", "cow_v9", "cow_clustered_v9"])
def test_statistics_drop_what_they_prove(
    name: str, spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    """A value beyond every base file leaves nothing; one that is in a single group leaves that group alone."""
    path = hudi_tables.path(name)
    rows = spark_reads.read(path).rows
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    assert table.plan("id > 1000000", semantics=SEMANTICS).kept == 0
    ranges: dict[str, tuple[int, int]] = {}
    for row in rows:
        low, high = ranges.get(_file_id(row["_hoodie_file_name"]), (row["id"], row["id"]))
        ranges[_file_id(row["_hoodie_file_name"])] = (min(low, row["id"]), max(high, row["id"]))
    for row in rows:
        plan = table.plan(f"id = {row['id']}", semantics=SEMANTICS)
        possible = {group for group, (low, high) in ranges.items() if low <= row["id"] <= high}
        assert {entry.file_id for entry in plan.slices} == possible


def _file_id(name: str) -> str:
    """The file group of a row: base files are named `<file id>_<token>_<instant>.parquet`, logs give the file id."""
    return name.split("_", maxsplit=1)[0]


def _predicates(rng: random.Random, rows: list[Row], count: int) -> Iterator[str]:
    columns = [name for name in rows[0].asDict() if _literal(_first(rows, name)) is not None]
    for _ in range(count):
        parts = [_leaf(rng, rows, rng.choice(columns)) for _ in range(rng.choice([1, 1, 2, 3]))]
        yield parts[0] if len(parts) == 1 else "(" + rng.choice([" AND ", " OR "]).join(parts) + ")"


def _leaf(rng: random.Random, rows: list[Row], column: str) -> str:
    literals = [_literal(rng.choice(rows)[column]) for _ in range(3)]
    present = [literal for literal in literals if literal is not None] or [_literal(_first(rows, column))]
    text = rng.choice(
        [
            f"`{column}` {rng.choice(['=', '=', '<', '<=', '>', '>=', '!='])} {present[0]}",
            f"`{column}` IN ({', '.join(str(literal) for literal in present)})",
            f"`{column}` IS NULL",
            f"`{column}` BETWEEN {present[0]} AND {present[-1]}",
        ]
    )
    return f"NOT ({text})" if rng.random() < 0.2 else text


def _first(rows: list[Row], column: str) -> Any:
    return next((row[column] for row in rows if row[column] is not None), None)


def _literal(value: Any) -> str | None:
    """A literal of Spark SQL of exactly the value's type; None for types that are not drawn."""
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}BD"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return None
