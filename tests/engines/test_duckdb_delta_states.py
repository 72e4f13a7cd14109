"""Delta tables as Spark wrote them, each version of each: the files of the log, and the rows that Spark reads.

For conditions over the values that a version holds, no file with a matching row may be left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from pruner.tables.delta.source import DeltaSource
from tests.support.delta_tables import BUILDERS, delta_states
from tests.support.delta_writer import FILE, DeltaState
from tests.support.hudi_tables import AllTables

if TYPE_CHECKING:
    from pruner import PinnedSnapshot

NAMES = pytest.mark.parametrize("name", sorted(BUILDERS))
CONDITIONS = 6
"""Conditions over each column of a version."""


def files_of(state: DeltaState, uris: list[Any]) -> set[str]:
    return {uri.removeprefix(f"{state.root}/") for uri in uris}


@NAMES
def test_the_log_names_the_files_that_spark_reads(delta_tables: AllTables, name: str):
    states = delta_states(delta_tables, name)
    assert states
    source = DeltaSource(str(states[-1].root))
    for state in states:
        snapshot = source.snapshot_at(str(state.version))
        assert files_of(state, snapshot.columns.column("base_file").to_pylist()) == set(state.files()), (
            state.id
        )


@NAMES
def test_duckdb_shows_the_rows_that_spark_reads(delta_tables: AllTables, name: str):
    for state in delta_states(delta_tables, name):
        t = state.rows().drop_columns([FILE])
        plain = duckdb.connect()
        plain.execute("SET TimeZone = 'UTC'")
        assert t is not None
        spec = {"uri": str(state.root), "as_of": str(state.version)}
        with pruner_duckdb.connect({"t": spec}) as con:
            con.execute("SET TimeZone = 'UTC'")
            shown, wanted = con.execute("SELECT * FROM t"), plain.execute("SELECT * FROM t")
            assert [each[:2] for each in shown.description or ()] == [
                each[:2] for each in wanted.description or ()
            ]
            assert sorted(map(repr, shown.fetchall())) == sorted(map(repr, wanted.fetchall())), state.id
            count = con.execute("SELECT count(*) FROM t").fetchall()
            assert count == [(t.num_rows,)], state.id


@NAMES
@pytest.mark.parametrize("indexed", [False, True])
def test_no_file_with_a_matching_row_is_left_out(
    delta_tables: AllTables, name: str, indexed: bool, tmp_path: Any
):
    of, dropped, asked = random.Random(name), 0, 0
    states = delta_states(delta_tables, name)
    opened = pruner.open_table(str(states[-1].root), index_uri=str(tmp_path / "index"))
    if indexed:
        opened.create_index("i", on="*")
    for state in states:
        t = state.rows()
        plain = duckdb.connect()
        plain.execute("SET TimeZone = 'UTC'")
        assert t is not None
        pinned = opened.snapshot(str(state.version))
        for condition in conditions(of, t):
            try:
                rows = plain.execute(f'SELECT DISTINCT "{FILE}" FROM t WHERE {condition}').fetchall()
            except duckdb.Error:
                continue
            kept = kept_files(state, pinned, condition)
            assert {row[0] for row in rows} <= kept, (state.id, condition)
            asked += 1
            dropped += len(state.files()) - len(kept)
    assert not asked or dropped or name in WITHOUT_PRUNING


WITHOUT_PRUNING: frozenset[str] = frozenset({"nothing", "without_statistics"})
"""Tables of which nothing can be dropped by what the log says."""


def kept_files(state: DeltaState, pinned: PinnedSnapshot, condition: str) -> set[str]:
    plan = pinned.plan(condition, semantics=pruner.Semantics(engine="duckdb", zone="UTC"))
    uris: list[Any] = plan.snapshot.columns.column("base_file").take(pa.array(plan.ordinals)).to_pylist()
    return files_of(state, uris)


def conditions(of: random.Random, table: pa.Table) -> Iterator[str]:
    for name in table.column_names:
        literal = _LITERALS.get(str(table.schema.field(name).type).partition("[")[0].partition("(")[0])
        if name == FILE or literal is None:
            continue
        held: list[Any] = table.column(name).to_pylist()
        yield f'"{name}" IS NULL'
        yield f'"{name}" IS NOT NULL'
        for _ in range(CONDITIONS):
            value = of.choice([*held, None]) if held else None
            if value is not None:
                sign = of.choice(["=", "<", ">", "<=", ">=", "<>"])
                yield f'"{name}" {sign} {literal(value)}'


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _cast(kind: str) -> Callable[[Any], str]:
    return lambda value: f"CAST({_text(value)} AS {kind})"


_LITERALS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), str),
    "string": _text,
    "double": _cast("DOUBLE"),
    "float": _cast("FLOAT"),
    "date32": _cast("DATE"),
    "timestamp": lambda value: _cast("TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ")(value),
    "decimal128": str,
    "bool": str,
}
