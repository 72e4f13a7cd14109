"""Each version of real Delta tables against Spark: schema, files, rows, and what the log says of each file."""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import pruner
import pruner_duckdb
from pruner.expr.nodes import Column, Compare, Expr, IsNull, Literal, Operator
from pruner.expr.semantics import Semantics
from pruner_duckdb.types import quote, quote_text
from pruner_spark.relations.agreement import differing, spark_columns
from tests.support.delta.tables import BUILDERS, delta_states
from tests.support.delta.writer import FILE, DeltaState
from tests.support.duckdb.plain import keep, session
from tests.support.running import profiles

if TYPE_CHECKING:
    from pruner import PinnedSnapshot, Table
    from tests.support.kept.tables import AllTables

pytestmark = pytest.mark.spark

MOST_VALUES = 6
"""Values of a column that each state is queried with, from each end of their order."""


def test_there_are_enough_states(delta_tables: AllTables) -> None:
    assert sum(len(delta_states(delta_tables, name)) for name in BUILDERS) >= 80


@cache
def _rows(state: DeltaState) -> pa.Table:
    """The rows of a state, which each test asks for."""
    return state.rows()


@pytest.mark.parametrize("name", BUILDERS)
def test_schema_and_files(delta_tables: AllTables, name: str) -> None:
    for state in delta_states(delta_tables, name):
        snapshot = _opened(state)[1]
        fields = state.told()["schema"]["fields"]
        partitioned = state.told()["metadata"]["partitionColumns"]
        nothing = {"fields": [field for field in fields if field["name"] in partitioned]}
        columns = spark_columns({"fields": fields}, nothing)
        assert [field["name"] for field in fields] == [entry.path[0] for entry in snapshot.schema.columns], (
            state.id
        )
        collections = {
            entry.path[0].lower()
            for entry in snapshot.schema.columns
            if pa.types.is_nested(entry.type) and not pa.types.is_struct(entry.type)
        }
        assert differing(columns, snapshot.schema, paths_matter=True) - collections == set(), state.id
        expected = state.files()
        data: Any = snapshot.data.columns
        paths = [uri.removeprefix(f"{state.root}/") for uri in data.column("base_file").to_pylist()]
        assert sorted(paths) == sorted(expected), state.id
        assert data.column("base_size").to_pylist() == [expected[path]["size"] for path in paths], state.id
        _check_vectors(state, snapshot, [expected[path].get("deletionVector") for path in paths])


def _opened(state: DeltaState) -> tuple[Table, PinnedSnapshot]:
    table = pruner.open_table(state.root)
    return table, table.snapshot(str(state.version))


def _check_vectors(state: DeltaState, snapshot: PinnedSnapshot, vectors: list[dict[str, Any] | None]) -> None:
    """Each vector removes as many rows as the log says."""
    deletes = snapshot.data.deletes
    marked = [] if deletes is None else [place for place, is_ in enumerate(deletes.slices) if is_]
    assert marked == [place for place, vector in enumerate(vectors) if vector is not None], state.id
    for place in marked:
        vector = vectors[place]
        assert deletes is not None
        assert vector is not None
        (positions,) = deletes.positions(_ordinals(place))
        assert len(positions) == vector["cardinality"], state.id


def _ordinals(place: int) -> Any:
    import numpy as np

    return np.array([place], np.intp)


@pytest.mark.parametrize("name", BUILDERS)
def test_rows_in_duckdb(delta_tables: AllTables, name: str) -> None:
    """The rows of each version, value for value as Spark reads them."""
    states = delta_states(delta_tables, name)
    given = {f"v{each.version}": {"uri": str(each.root), "as_of": str(each.version)} for each in states}
    with pruner_duckdb.connect(given) as con:
        con.execute("SET TimeZone = 'UTC'")
        for state in states:
            expected = _rows(state).drop_columns([FILE])
            found: Any = con.sql(f"SELECT * FROM v{state.version}").to_arrow_table()
            assert found.column_names == expected.column_names, state.id
            padded = _padded(state)
            told = _texts(found.cast(_like(expected.schema, found.schema)), padded)
            assert told == _texts(expected, padded), state.id


def _padded(state: DeltaState) -> set[str]:
    """The columns of type CHAR(n): Spark pads the values that it reads, whatever the files hold."""
    return {
        field["name"]
        for field in state.told()["schema"]["fields"]
        if field["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "").startswith("char")
    }


def _like(expected: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The types of Spark's rows, where DuckDB's mean the same."""
    return pa.schema(
        [
            wanted if pa.types.is_timestamp(wanted.type) or pa.types.is_binary(wanted.type) else got
            for wanted, got in zip(expected, found, strict=True)
        ]
    )


def _texts(rows: pa.Table, padded: set[str]) -> list[str]:
    return sorted(
        repr([(value or "").rstrip(" ") if key in padded else _plain(value) for key, value in row.items()])
        for row in rows.to_pylist()
    )


def _plain(value: Any) -> Any:
    """A value in a canonical form: maps sorted, decimals without trailing zeros."""
    match value:
        case Decimal():
            return value.normalize()
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            parts = [_plain(each) for each in value]
            is_map = bool(parts) and all(isinstance(each, list) and len(each) == 2 for each in parts)
            return sorted(parts, key=repr) if is_map else parts
        case float() if value == 0:
            return str(value)
        case _:
            return value


@pytest.mark.parametrize("name", BUILDERS)
def test_no_file_is_left_out_that_holds_a_value(delta_tables: AllTables, name: str) -> None:
    """Statistics in the log never rule out a value, or a NULL, that Spark reads from the file."""
    rules = Semantics(engine="spark", version="3.5.9", zone="UTC", ansi=False)
    for state in delta_states(delta_tables, name):
        snapshot = _opened(state)[1]
        data: Any = snapshot.data.columns
        names = [uri.removeprefix(f"{state.root}/") for uri in data.column("base_file").to_pylist()]
        for predicate, files in _asked(state):
            plan = snapshot.plan(predicate, semantics=rules)
            kept = {names[place] for place, is_kept in enumerate(plan.kept_mask) if is_kept}
            assert files <= kept, f"{state.id}: {predicate} loses {sorted(files - kept)}"


@pytest.mark.parametrize("name", BUILDERS)
def test_indexes_of_earlier_versions_lose_nothing(delta_tables: AllTables, name: str, tmp_path: Path) -> None:
    """Indexes built some versions ago, and those refreshed in between, over each later version.

    A table that was opened at the first version and follows the others never keeps more files than a freshly opened
    one. It may keep fewer, because it remembers the statistics in commits where a checkpoint has none.
    """
    of = Random(f"{profiles.seed()} {name}")
    states = [each for each in delta_states(delta_tables, name) if each.files()]
    if not states:
        return
    root = tmp_path / "t"
    _advance(states[0], root)
    followed = pruner.open_table(root)
    for using in ("column_stats", "bitmap", of.choice(("bloom_filter", "record_index"))):
        followed.create_index(using, on="*", using=using)
    for number, state in enumerate(states):
        _advance(state, root)
        table = pruner.open_table(root)
        asked = _asked(state)
        if number % 2:
            _checked(table, root, state, of.sample(asked, min(len(asked), 12)))
            table.refresh()
        some = of.sample(asked, min(len(asked), 12))
        kept = _checked(table, root, state, some)
        of_followed = _checked(followed, root, state, some[:4])
        assert all(mine <= other for mine, other in zip(of_followed, kept, strict=False)), state.id


def _advance(state: DeltaState, root: Path) -> None:
    """Make `root` the table at the version when it was the newest."""
    for path in state.root.rglob("*"):
        relative = path.relative_to(state.root)
        is_log = relative.parts[0] == "_delta_log"
        if path.is_dir() or (is_log and not _is_of(relative.name, state.version)):
            continue
        if not (root / relative).exists():
            (root / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, root / relative)


def _is_of(name: str, version: int) -> bool:
    """Whether a log file existed at a version; sidecars lie in a subfolder, and their names carry no version."""
    first, *others = (
        each for each in name.split(".") if each.isdigit() or each.startswith("_") or "-" in each
    )
    return not first.isdigit() or all(int(each) <= version for each in (first, *others) if len(each) == 20)


def _checked(
    table: Table, root: Path, state: DeltaState, asked: list[tuple[Expr, set[str]]]
) -> list[set[str]]:
    """The files kept for each condition, after checking that they include all files with matching rows."""
    rules = Semantics(engine="spark", version="3.5.9", zone="UTC", ansi=False)
    snapshot = table.snapshot()
    data: Any = snapshot.data.columns
    names = [uri.removeprefix(f"{root}/") for uri in data.column("base_file").to_pylist()]
    assert sorted(names) == sorted(state.files()), state.id
    kept_of: list[set[str]] = []
    for predicate, files in asked:
        plan = snapshot.plan(predicate, semantics=rules)
        kept = {names[place] for place, is_kept in enumerate(plan.kept_mask) if is_kept}
        assert files <= kept, f"{state.id}: {predicate} loses {sorted(files - kept)}"
        kept_of.append(kept)
    return kept_of


@cache
def _asked(state: DeltaState) -> list[tuple[Expr, set[str]]]:
    """Conditions on single columns, and the files with rows for which they are true."""
    rows = _rows(state)
    files: list[Any] = rows.column(FILE).to_pylist()
    found: list[tuple[Expr, set[str]]] = []
    for field in rows.schema:
        if field.name == FILE or pa.types.is_nested(field.type):
            continue
        column = Column((field.name,))
        holders: dict[Any, set[str]] = defaultdict(set)
        for value, file in zip(rows.column(field.name).to_pylist(), files, strict=True):
            is_nan = isinstance(value, float) and math.isnan(value)
            holders["NaN" if is_nan else value].add(file)
        if None in holders:
            found.append((IsNull(column), holders.pop(None)))
        holders.pop("NaN", None) if pa.types.is_floating(field.type) else None
        values = sorted(holders, key=repr)
        for value in [*values[:MOST_VALUES], *values[-MOST_VALUES:]]:
            literal = Literal(_constant(value, field.type), field.type)
            equal = set(holders[value])
            other = {file for held_value, held in holders.items() if held_value != value for file in held}
            found += [
                (Compare(Operator.EQ, column, literal), equal),
                (Compare(Operator.NE, column, literal), other),
            ]
            greater = {file for other, held in holders.items() if other >= value for file in held}
            less = {file for other, held in holders.items() if other <= value for file in held}
            found += [
                (Compare(Operator.GE, column, literal), greater),
                (Compare(Operator.LE, column, literal), less),
            ]
    return found


@pytest.mark.parametrize("name", BUILDERS)
def test_rows_are_counted_as_spark_reads_them(delta_tables: AllTables, name: str) -> None:
    """Each proved count is that of Spark's rows, in each version; a record count in the log is always enough."""
    of = Random(name)
    with session() as plain:
        for state in delta_states(delta_tables, name):
            snapshot = _opened(state)[1]
            data: Any = snapshot.data.columns
            files = [uri.removeprefix(f"{state.root}/") for uri in data.column("base_file").to_pylist()]
            told = {path: json.loads(add.get("stats") or "{}") for path, add in state.files().items()}
            columns = _believed(state)
            conditions = ["true", *(_condition(of, columns, others=False) for _ in range(6) if columns)]
            plain.register("t", _rows(state))
            for condition in conditions:
                answer = snapshot.plan(condition, dialect="duckdb").count()
                rest = [files[place] for place in answer.rest.tolist()]
                counted = plain.execute(
                    f"SELECT count(*) FROM t WHERE ({condition}) AND NOT list_contains(?::VARCHAR[], {FILE})",
                    [rest],
                ).fetchall()
                assert [(answer.value,)] == counted, f"{state.id}: {condition}"
                if condition == "true":
                    assert [path for path in rest if "numRecords" in told[path]] == [], state.id


def _constant(value: Any, type_: pa.DataType) -> Any:
    """A value of a row in the form that constants have: timestamps are numbers."""
    return pa.scalar(value, type_).value if pa.types.is_timestamp(type_) else value


@pytest.mark.parametrize("name", BUILDERS)
def test_random_conditions_in_duckdb(delta_tables: AllTables, name: str) -> None:
    """As many rows as plain DuckDB finds among those that Spark read. `make fuzz` covers every state."""
    seed = profiles.seed()
    print(f"seed {seed}")
    of = Random(f"{seed} {name}")
    share = -(-profiles.examples(12 * len(BUILDERS)) // len(BUILDERS))
    found = delta_states(delta_tables, name)
    chosen = found if share > len(found) * 2 else [of.choice(found)]
    for state in chosen:
        columns = _columns_with_values(state)
        if not columns:
            continue
        given = {"t": {"uri": str(state.root), "as_of": str(state.version)}}
        t = _rows(state)
        with duckdb.connect() as plain, pruner_duckdb.connect(given) as con:
            for each in (plain, con):
                each.execute("SET TimeZone = 'UTC'")
            keep(plain, t)
            for _ in range(-(-share // len(chosen))):
                query = f"FROM t WHERE {_condition(of, columns)}"
                wanted = plain.execute(f"SELECT count(*) {query}").fetchone()
                rows = con.execute(f"SELECT * {query}").fetchall()
                assert (len(rows),) == wanted, f"{state.id}: {query}"
                assert con.execute(f"SELECT count(*) {query}").fetchone() == wanted, f"{state.id}: {query}"


@pytest.mark.parametrize("name", BUILDERS)
def test_no_file_is_kept_that_deltalake_leaves_out(delta_tables: AllTables, name: str) -> None:
    """Random conditions on the columns for which pruner believes everything that the log says."""
    of = Random(f"{profiles.seed()} {name}")
    for state in delta_states(delta_tables, name)[-2:]:
        columns = _believed(state)
        if not columns:
            continue
        theirs = DeltaTable(str(state.root), version=state.version)
        snapshot, t = _opened(state)[1], _rows(state)
        data: Any = snapshot.data.columns
        names = [Path(unquote(uri)).name for uri in data.column("base_file").to_pylist()]
        with session() as plain:
            plain.register("t", t)
            for _ in range(profiles.examples(12)):
                condition = _condition(of, columns, others=False)
                rows = plain.execute(f"SELECT DISTINCT {FILE} FROM t WHERE {condition}").fetchall()
                holders = {Path(file).name for (file,) in rows}
                mask = snapshot.plan(condition, dialect="duckdb").kept_mask
                kept = {file for file, is_kept in zip(names, mask, strict=True) if is_kept}
                uris = theirs.file_uris(file_pruning_predicate=condition)
                of_deltalake = {Path(unquote(unquote(uri))).name for uri in uris}
                assert holders <= kept, f"{state.id}: {condition}"
                assert kept <= of_deltalake or not holders <= of_deltalake, f"{state.id}: {condition}"


def _believed(state: DeltaState) -> dict[str, list[str]]:
    """Constants for the columns whose bounds are taken unchanged (docs/delta.md), and which deltalake compares.

    Excluded are floats (NaN), long texts (possibly truncated), decimals that do not fit a double, and old dates.
    """
    t, padded = _rows(state), _padded(state)
    found: dict[str, list[str]] = {}
    for field in t.schema:
        values: list[Any] = [value for value in t.column(field.name).to_pylist() if value is not None]
        types, type_ = pa.types, field.type
        if field.name == FILE or field.name in padded or not values:
            continue
        if types.is_integer(type_) or types.is_boolean(type_):
            found[quote(field.name)] = [str(value) for value in values]
        elif types.is_string(type_) and max(map(len, values)) < 32:
            found[quote(field.name)] = [quote_text(value) for value in values]
        elif types.is_decimal(type_) and type_.precision < 15:
            found[quote(field.name)] = [f"{value:f}" for value in values]
        elif types.is_date(type_) and min(values) >= date(1582, 10, 15):
            found[quote(field.name)] = [f"DATE '{value}'" for value in values]
    return found


def _columns_with_values(state: DeltaState) -> dict[str, list[str]]:
    """SQL constants for each column that is not nested: values that occur in its rows."""
    t, padded = _rows(state), _padded(state)
    found: dict[str, list[str]] = {}
    with session() as plain:
        plain.register("t", t)
        for name, type_ in plain.execute("SELECT column_name, column_type FROM (DESCRIBE t)").fetchall():
            if name == FILE or name in padded or any(sign in type_ for sign in "[<{") or "STRUCT" in type_:
                continue
            texts = plain.execute(f"SELECT DISTINCT {quote(name)}::VARCHAR AS v FROM t ORDER BY v").fetchall()
            found[quote(name)] = [
                f"{quote_text(text)}::{type_}" for (text,) in texts if text is not None
            ] or [f"NULL::{type_}"]
    return found


def _condition(of: Random, columns: dict[str, list[str]], depth: int = 2, *, others: bool = True) -> str:
    """A condition; without `others`, one that every SQL dialect has."""
    if depth and of.random() < 0.5:
        left, right = (_condition(of, columns, depth - 1, others=others) for _ in range(2))
        return of.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    name = of.choice(list(columns))
    one, other = of.choice(columns[name]), of.choice(columns[name])
    match of.randrange(8):
        case 0:
            return f"{name} IS {of.choice(('', 'NOT '))}NULL"
        case 1:
            return f"{name} {of.choice(('', 'NOT '))}IN ({one}, {other})"
        case 2:
            return f"{name} BETWEEN {one} AND {other}"
        case 3 if others:
            return f"{name} IS {of.choice(('', 'NOT '))}DISTINCT FROM {one}"
        case 4 if others and one.endswith("::VARCHAR"):
            return f"starts_with({name}, left({one}, {of.randrange(1, 4)}))"
        case _:
            return f"{name} {of.choice(('=', '<', '>', '<=', '>=', '<>'))} {one}"


def test_a_kept_table_is_where_it_says(delta_tables: AllTables) -> None:
    """A clone refers to the files of its source table by the location where they are kept."""
    for name in ("cloned", "cloned_past"):
        for state in delta_states(delta_tables, name):
            for path in state.files():
                assert Path(state.root, path).is_file(), state.id
