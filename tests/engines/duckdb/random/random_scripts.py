"""Random scripts for two connections: views, macros, parameters, joins with what only the database knows, changes.

A script is a list of statements. Its SELECT statements are those of `random_statements`; in them, views, macros and
queries replace some tables, parameters replace literals, and conditions with subqueries and macros are added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.engines.duckdb.duckdb_tables import write_tree
from tests.engines.duckdb.random.random_statements import (
    COMPARISONS,
    condition,
    filtered,
    misfitting,
    parts_of,
    statement,
)
from tests.engines.duckdb.random.random_statements import Relation as From
from tests.engines.duckdb.random.random_tables import EVENTS, SHAPES, TableShape
from tests.engines.duckdb.random.tape import Tape

MIXTURE_FILES, MIXED_ROWS = 8, 9

MIXTURE = {
    "tiny": ("3::UTINYINT", "40::UTINYINT"),
    "big": ("9007199254740993", "-5", "3::BIGINT"),
    "huge": ("1e3", "7::HUGEINT"),
    "thin": ("0.5::FLOAT", "'nan'::FLOAT", "2.25"),
    "wide": ("0", "12345678901234567890.1234::DECIMAL(30, 4)", "31.5::DECIMAL(30, 4)"),
    "bits": (r"'\x00'::BLOB", r"'\x05\xFF'::BLOB", "''::BLOB"),
    "token": ("'00000000-0000-0000-0000-000000000011'::UUID", "'ffffffff-0000-0000-0000-000000000002'"),
    "clock": ("TIME '00:07:00'", "TIME '23:59:59'"),
    "moment": ("TIMESTAMPTZ '2024-01-03 00:00:00+00'", "TIMESTAMPTZ '2024-01-05 12:00:00+02'"),
    "nanos": ("TIMESTAMP_NS '2024-01-02 00:00:00.000000007'", "TIMESTAMP '2024-01-04'"),
    "mood": ("'good'", "'bad'", "''"),
    "list": ("[3]", "[]::INTEGER[]", "[NULL, 21]"),
    "pairs": ("MAP {'a': 3}", "MAP {'b': 21}"),
    "p": ("1", "'2'", "2"),
    "q": ("'x'", "DATE '2024-01-02'", "'__HIVE_DEFAULT_PARTITION__'"),
}
"""Columns of every type that Parquet files have, with literals to compare them with."""

ORDERED = tuple(name for name in MIXTURE if name not in ("list", "pairs"))

VIEWS = {
    "events": (
        "(SELECT * FROM events)",
        "(SELECT * FROM (SELECT * FROM events WHERE id >= 20) WHERE NOT coalesce(early, false))",
        "all_events",
        "some_events",
        "dear_events",
        "events_from(30)",
        "events_of('de', 12.5)",
    ),
    "places": ("(FROM places)", "all_places", "open_places", "places_below(14)"),
    "readings": (
        "(SELECT * FROM readings LIMIT 1000)",
        "all_readings",
        "small_readings",
        "readings_of(NULL)",
    ),
}

SETUP = (
    "SET TimeZone = 'UTC'",
    "CREATE VIEW all_events AS SELECT * FROM events",
    "CREATE VIEW some_events AS SELECT * FROM all_events WHERE id % 3 > 0 AND day > '2024-01-02'",
    "CREATE VIEW dear_events AS FROM some_events WHERE price > 60 OR region = 'fr x'",
    "CREATE MACRO events_from(a) AS TABLE SELECT * FROM events WHERE id >= a",
    "CREATE MACRO events_of(r, cheapest) AS TABLE FROM all_events WHERE region = r AND price >= cheapest",
    "CREATE VIEW all_places AS FROM places",
    "CREATE VIEW open_places AS SELECT * FROM places WHERE open",
    "CREATE MACRO places_below(a) AS TABLE FROM places WHERE no < a AND zone::VARCHAR = '1'",
    "CREATE TEMP VIEW all_readings AS FROM readings",
    "CREATE VIEW small_readings AS SELECT * FROM readings WHERE small IN (-1, 0) OR isnan(x)",
    "CREATE MACRO readings_of(a) AS TABLE FROM readings WHERE a IS NULL OR n = a",
    "CREATE MACRO place_of(a) AS (SELECT max(place) FROM events WHERE id <= a)",
    "CREATE MACRO is_known(a) AS (a IN (SELECT no FROM open_places))",
    "CREATE MACRO next_of(a) AS a + 1",
    "CREATE TABLE wanted (k INTEGER, label VARCHAR, since DATE, weight DOUBLE)",
    "INSERT INTO wanted VALUES (3, 'k00a', '2024-01-03', 0.5), (71, 'P11', '2024-01-08', 'nan')",
    "INSERT INTO wanted VALUES (NULL, 'de', NULL, -0.0)",
    "CREATE TABLE many_wanted AS SELECT (i * 7 % 125)::BIGINT AS k FROM range(90) r(i)",
    "CREATE TABLE none_wanted AS SELECT 5 AS k WHERE false",
    "CREATE TABLE kept (k BIGINT, kind VARCHAR, day DATE, delay DOUBLE)",
)


@dataclass(frozen=True)
class Step:
    """One statement with its parameters, and the methods of a relation over it that are called in turn, if any.

    `may_fail` means that a condition fails for some values: whether DuckDB meets them depends on the files it reads.
    """

    sql: str
    parameters: tuple[Any, ...] | None = None
    relation: tuple[tuple[str, str], ...] = ()
    may_fail: bool = False


Script = tuple[Step, ...]


def write_mixture(root: Path) -> Path:
    """A tree of files with columns of every type, in two levels of folders, one of which may be NULL."""
    folders = ("x", "y%20z", "__HIVE_DEFAULT_PARTITION__", "2024-01-02")
    files = {f"p={n % 3}/q={folders[n % 4]}/m{n}.parquet": _mixture(n) for n in range(MIXTURE_FILES)}
    return write_tree(root, files)


def _mixture(number: int) -> str:
    values = f"""
        CASE WHEN i % 5 > 0 THEN (i % 200)::UTINYINT END AS tiny,
        CASE WHEN i % 7 > 0 THEN 9007199254740985 + i ELSE -i END::BIGINT AS big,
        (i * 100)::HUGEINT AS huge,
        CASE WHEN i % 6 = 0 THEN 'nan'::FLOAT WHEN i % 6 = 1 THEN NULL ELSE (i / 4)::FLOAT END AS thin,
        CASE WHEN i % 3 > 0 THEN (i * 1.5)::DECIMAL(30, 4) END AS wide,
        CASE WHEN {number} <> 2 THEN chr(1 + {number})::BLOB || 'b'::BLOB END AS bits,
        CASE WHEN i % 4 > 0
             THEN ('00000000-0000-0000-0000-0000000000' || lpad(i::VARCHAR, 2, '0'))::UUID END AS token,
        CASE WHEN i % 8 > 0 THEN TIME '00:00:00' + to_minutes(i::INTEGER) END AS clock,
        CASE WHEN i % 9 > 0 THEN TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours({number} * 12 + i % 5) END AS moment,
        (TIMESTAMP '2024-01-01' + to_days({number}))::TIMESTAMP_NS AS nanos,
        CASE WHEN i % 5 <> 2 THEN ['good', 'bad', ''][{number} % 3 + 1]::ENUM('good', 'bad', '') END AS mood,
        [i, NULL]::INTEGER[] AS list,
        MAP {{'a': i}} AS pairs"""
    start = number * MIXED_ROWS
    return f"SELECT i::INTEGER AS n, {values} FROM range({start}, {start + MIXED_ROWS}) r(i)"


def over_views(tape: Tape, sql: str) -> str:
    """The statement with views, macros and queries instead of some tables."""
    for table, others in VIEWS.items():
        if tape.number(0, 2):
            other = tape.one_of(others)
            sql = re.sub(
                rf"(FROM|JOIN|,) {table}(?= \w)", lambda found, other=other: f"{found[1]} {other}", sql
            )
    return sql


_LITERAL = re.compile(r"(?<=[=<>] )(?:(-?\d+(?:\.\d+)?)|'((?:[^']|'')*)')(?=[ )]|$)")


def with_parameters(tape: Tape, sql: str) -> tuple[str, tuple[Any, ...]]:
    """The statement with parameters instead of some literals."""
    values: list[Any] = []

    def taken(found: re.Match[str]) -> str:
        if tape.number(0, 2) == 0:
            return found[0]
        number, text = found.groups()
        values.append(
            text.replace("''", "'") if number is None else float(number) if "." in number else int(number)
        )
        return "?"

    return _LITERAL.sub(taken, sql), tuple(values)


def _literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _known_to_the_database(tape: Tape, relations: Sequence[From]) -> str:
    """A condition on a key that only the database can evaluate."""
    numbers = [name for relation in relations for name in relation.named("int")]
    number = tape.one_of(numbers)
    table = tape.one_of(("wanted", "many_wanted", "none_wanted", "wanted"))
    match tape.number(0, 8):
        case 0:
            return f"{number} {tape.one_of(('', 'NOT '))}IN (SELECT k FROM {table})"
        case 1:
            return (
                f"{number} {tape.one_of(COMPARISONS)} (SELECT {tape.one_of(('min', 'max'))}(k) FROM {table})"
            )
        case 2:
            return f"{tape.one_of(('', 'NOT '))}EXISTS (FROM {table} WHERE k = {number})"
        case 3:
            return f"{number} {tape.one_of(COMPARISONS)} place_of({tape.number(0, 120)})"
        case 4:
            return f"{tape.one_of(('', 'NOT '))}is_known({number})"
        case 5:
            return f"next_of({number}) = {tape.number(0, 125)}"
        case 6:
            return f"{number} = {tape.one_of(('ANY', 'ANY', 'ALL'))} (SELECT k FROM {table})"
        case 7:
            return f"{number} IN (SELECT k FROM {table} ORDER BY k LIMIT {tape.number(1, 60)})"
        case _:
            texts = [name for relation in relations for name in relation.named("text")]
            return f"{tape.one_of(texts)} IN (SELECT label FROM wanted)" if texts else f"{number} IS NOT NULL"


def joined(tape: Tape) -> str:
    """A SELECT whose keys come from tables of the database."""
    drawn, where = filtered(tape)
    if tape.number(0, 1):
        drawn = parts_of(tape)
        where = "true"
    keys = [f"{relation.alias}.{relation.key}" for relation in drawn.relations]
    if tape.number(0, 1):
        join = tape.one_of(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
        table = tape.one_of(("wanted", "many_wanted", "none_wanted"))
        equal = tape.one_of(("=", "=", "=", "IS NOT DISTINCT FROM", "<=", ">"))
        drawn = replace(drawn, source=f"{drawn.source} {join} {table} w ON {tape.one_of(keys)} {equal} w.k")
        if not join.startswith(("SEMI", "ANTI")):
            keys = [*keys, "w.k"]
    else:
        where = f"{where} AND {_known_to_the_database(tape, drawn.relations)}"
    shown = [*keys, *tape.some_of(drawn.columns(), 3)]
    match tape.number(0, 4):
        case 0:
            return drawn.select(f"count(*), min({shown[0]}), max({shown[-1]})", where)
        case 1:
            return drawn.select(
                ", ".join(dict.fromkeys(keys)), where, f" ORDER BY ALL LIMIT {tape.number(1, 30)}"
            )
        case _:
            return drawn.select(", ".join(dict.fromkeys(shown)), where)


def mixed(tape: Tape) -> str:
    """A SELECT over the table of all types: literals, and keys that a join or a subquery finds."""
    column = tape.one_of(ORDERED)
    literals = MIXTURE[column]
    other = f"SELECT {column} AS k FROM mixture WHERE n {tape.one_of(COMPARISONS)} {tape.number(0, 71)}"
    shown = f"m.n, m.{column}, m.{tape.one_of(tuple(MIXTURE))}"
    match tape.number(0, 8):
        case 0:
            where = f"m.{column} IN ({', '.join(tape.some_of(literals, 2))})"
        case 1:
            where = (
                f"m.{column} {tape.one_of(('', 'NOT '))}IN ({other} LIMIT 3)" if tape.number(0, 1) else "true"
            )
            where = where.replace(" LIMIT 3", " ORDER BY n LIMIT 3")
        case 2:
            return f"SELECT {shown} FROM mixture m JOIN ({other} ORDER BY n LIMIT 4) w ON m.{column} = w.k"
        case 3:
            join = tape.one_of(("SEMI", "ANTI", "LEFT", "FULL"))
            shown = shown if join in ("SEMI", "ANTI") else f"{shown}, w.k"
            return f"SELECT {shown} FROM mixture m {join} JOIN ({other}) w ON m.{column} IS NOT DISTINCT FROM w.k"
        case 4:
            where = f"m.{column} {tape.one_of(COMPARISONS)} (SELECT {tape.one_of(('min', 'max'))}(k) FROM ({other}))"
        case 5:
            where = f"m.{column} BETWEEN {tape.one_of(literals)} AND {tape.one_of(literals)}"
        case 6:
            return f"SELECT {column}, count(*), max(n) FROM mixture WHERE n > {tape.number(0, 71)} GROUP BY {column}"
        case 7:
            nested = tape.one_of(("list", "pairs"))
            where = f"m.{nested} {tape.one_of(COMPARISONS)} {tape.one_of(MIXTURE[nested])}"
        case _:
            where = f"m.{column} {tape.one_of(COMPARISONS)} {tape.one_of(literals)}"
    if tape.number(0, 2) == 0:
        where = f"{where} AND m.n {tape.one_of(COMPARISONS)} {tape.number(0, 71)}"
    return f"SELECT {shown} FROM mixture m WHERE {where}"


_EVENT = From("events", "t", EVENTS.columns, "id")


def changes(tape: Tape, folder: str) -> list[str]:
    """Statements that write, and one that shows what they wrote."""
    where = condition(tape, (_EVENT,), 1)
    rows = f"SELECT t.id AS k, t.kind, t.day, t.delay FROM events t WHERE {where}"
    also = condition(tape, (_EVENT,), 0)
    shows = "SELECT * FROM kept"
    match tape.number(0, 8):
        case 0:
            made = [f"INSERT INTO kept {rows}"]
        case 1:
            made = ["INSERT INTO kept SELECT k, label, since, weight FROM wanted"]
            made.append(
                f"UPDATE kept SET kind = t.region, delay = t.delay FROM events t WHERE t.id = kept.k AND {where}"
            )
        case 2:
            made = ["INSERT INTO kept SELECT i, 'old', NULL, i FROM range(0, 120, 9) r(i)"]
            made.append(f"DELETE FROM kept USING events t WHERE t.id = kept.k AND {where}")
        case 3:
            made = ["INSERT INTO kept SELECT i, 'old', NULL, i FROM range(0, 120, 9) r(i)"]
            made.append(
                f"MERGE INTO kept USING (SELECT * FROM events t WHERE {where}) t ON kept.k = t.id "
                "WHEN MATCHED AND t.early THEN DELETE WHEN MATCHED THEN UPDATE SET kind = t.kind, day = t.day "
                "WHEN NOT MATCHED THEN INSERT (k, kind, day, delay) VALUES (t.id, t.kind, t.day, t.delay)"
            )
        case 4:
            made = [f"CREATE OR REPLACE TABLE made AS {statement(tape)}"]
            shows = "SELECT * FROM made"
        case 5:
            made = [f"COPY ({rows}) TO '{folder}/copied.parquet'"]
            shows = f"SELECT * FROM read_parquet('{folder}/copied.parquet')"
        case 6:
            made = [
                f"INSERT INTO kept {rows} RETURNING k, day",
                f"DELETE FROM kept WHERE k IN (SELECT id FROM events t WHERE {also})",
            ]
        case 7:
            made = [f"CREATE OR REPLACE TEMP TABLE made AS SELECT DISTINCT k, kind FROM ({rows})"]
            shows = "SELECT * FROM made"
        case _:
            made = [
                f"UPDATE kept SET k = k + 1 WHERE k IN (SELECT t.id FROM events t WHERE {where})",
                f"INSERT INTO kept {rows}",
            ]
    if tape.number(0, 3) == 0:
        end = tape.one_of(("COMMIT", "ROLLBACK"))
        if made[0].startswith("COPY"):
            end = "COMMIT"
        made = ["BEGIN", *made, end]
        shows = "SELECT * FROM kept" if end == "ROLLBACK" else shows
    return ["DELETE FROM kept", *made, shows]


def _defining(tape: Tape) -> list[str]:
    """A new view or macro, and a statement that reads it."""
    shape: TableShape = tape.one_of(SHAPES)
    inner = From(shape.name, "i", shape.columns, shape.key)
    where = condition(tape, (inner,), 2, nesting=True)
    match tape.number(0, 2):
        case 0:
            made, name = (
                f"CREATE OR REPLACE TEMP VIEW own AS SELECT * FROM {inner.source} WHERE {where}",
                "own",
            )
        case 1:
            query = f"SELECT * FROM {inner.source} WHERE i.{shape.key} >= a AND {where}"
            made = f"CREATE OR REPLACE MACRO own_of(a) AS TABLE {query}"
            name = f"own_of({tape.number(0, 60)})"
        case _:
            made = f"CREATE OR REPLACE VIEW own_too AS WITH c AS (SELECT * FROM {inner.source} WHERE {where}) FROM c"
            name = "own_too"
    sql = re.sub(rf"(FROM|JOIN|,) {shape.name}(?= \w)", lambda found: f"{found[1]} {name}", statement(tape))
    return [made, sql]


def _related(tape: Tape) -> Step:
    """Method calls on a relation over a table or a statement."""
    shape: TableShape = tape.one_of(SHAPES)
    bare = From(shape.name, shape.name, shape.columns, shape.key)
    where = condition(tape, (bare,), 1)
    calls: list[tuple[str, str]] = [("filter", where)]
    match tape.number(0, 4):
        case 0:
            calls.append(("aggregate", f"count(*), max({shape.key})"))
        case 1:
            calls.append(("project", f"{shape.key}, {shape.columns[1][0]}"))
        case 2:
            calls.extend([("order", shape.key), ("limit", str(tape.number(1, 40)))])
        case 3:
            calls.append(("distinct", ""))
        case _:
            calls.append(("filter", f"{shape.key} > {tape.number(0, 60)}"))
    return Step(shape.name if tape.number(0, 1) else f"SELECT * FROM {shape.name}", None, tuple(calls))


def script(tape: Tape, folder: str) -> Script:
    """Statements that belong together."""
    match tape.number(0, 12):
        case 0 | 1:
            return (Step(over_views(tape, statement(tape))),)
        case 2 | 3:
            return (Step(joined(tape)),)
        case 4:
            return (Step(over_views(tape, joined(tape))),)
        case 5 | 6:
            return (Step(mixed(tape)),)
        case 7:
            return tuple(map(Step, changes(tape, folder)))
        case 8:
            return tuple(map(Step, _defining(tape)))
        case 9:
            sql, parameters = with_parameters(tape, over_views(tape, statement(tape)))
            return (Step(sql, parameters),)
        case 10:
            sql, parameters = with_parameters(tape, joined(tape))
            values = ", ".join(map(_literal, parameters))
            run = Step(f"EXECUTE own_statement({values})" if parameters else "EXECUTE own_statement")
            return (Step(f"PREPARE own_statement AS {sql}"), run, run)
        case 11:
            return (_related(tape),)
        case _:
            return (Step(misfitting(tape), may_fail=True),)
