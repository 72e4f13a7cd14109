"""Three small trees of Parquet files for random statements, and the parts of statements that fit their columns.

Values advance from file to file, so statistics tell files apart; every kind of value has NULLs and edges (NaN,
infinities, both zeros, empty and long text, years before 1970).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tests.engines.duckdb.duckdb_tables import write_tree

EVENT_FILES, EVENTS_PER_FILE = 12, 10
PLACE_FILES, PLACES_PER_FILE = 5, 6
READING_FILES, READINGS_PER_FILE = 6, 5
REGIONS = ("de", "fr x", "it's")


@dataclass(frozen=True)
class TableShape:
    """A table with the kind of each column; `key` identifies its rows."""

    name: str
    key: str
    columns: tuple[tuple[str, str], ...]


EVENTS = TableShape(
    "events",
    "id",
    (
        ("id", "int"),
        ("place", "int"),
        ("kind", "text"),
        ("ts", "timestamp"),
        ("day", "date"),
        ("price", "decimal"),
        ("delay", "double"),
        ("early", "bool"),
        ("extra", "struct"),
        ("region", "text"),
    ),
)
PLACES = TableShape(
    "places",
    "no",
    (
        ("no", "int"),
        ("name", "text"),
        ("since", "date"),
        ("area", "double"),
        ("open", "bool"),
        ("zone", "int"),
    ),
)
READINGS = TableShape(
    "readings",
    "n",
    (
        ("n", "int"),
        ("x", "double"),
        ("s", "text"),
        ("at", "timestamp"),
        ("amount", "decimal"),
        ("small", "int"),
    ),
)
SHAPES = (EVENTS, PLACES, READINGS)

LITERALS = {
    "int": ("0", "1", "7", "23", "29", "42", "77", "119", "-1", "40000"),
    "text": ("'de'", "'fr x'", "'it''s'", "'k03b'", "'k07'", "'P11'", "''", "'ab%'", "'ß'", "'zz'"),
    "timestamp": (
        "TIMESTAMP '2024-01-03 00:00:00'",
        "TIMESTAMP '2024-01-07 13:30:00'",
        "TIMESTAMP '1969-12-31 23:59:59.5'",
        "TIMESTAMP '2024-01-12 09:59:59.999999'",
    ),
    "date": (
        "DATE '2024-01-04'",
        "DATE '2024-01-09'",
        "DATE '1969-12-30'",
        "DATE '2031-01-01'",
    ),
    "decimal": ("0", "12.5", "62.25", "148.75::DECIMAL(9, 2)", "-3.5", "1000"),
    "double": (
        "0::DOUBLE",
        "-0.0::DOUBLE",
        "1.5::DOUBLE",
        "20.5::DOUBLE",
        "1e308",
        "'inf'::DOUBLE",
    ),
    "bool": ("true", "false"),
}
NULLS = {
    "int": "NULL",
    "text": "NULL",
    "timestamp": "NULL::TIMESTAMP",
    "date": "NULL::DATE",
    "double": "NULL::DOUBLE",
    "decimal": "NULL::DECIMAL(9, 2)",
    "bool": "NULL::BOOLEAN",
}
PATTERNS = ("'k0%'", "'k03%'", "'P1_'", "'%b'", "'ab%'", "'%e%'", "'z%'", "''", "'%'", "'_'")


def write_random_tables(base: Path) -> dict[str, Path]:
    """Write the three trees; return their roots by table name."""
    return {
        "events": write_tree(
            base / "events",
            {
                f"region={REGIONS[n % 3].replace(chr(39), '%27')}/e{n:02d}.parquet": _events(n)
                for n in range(EVENT_FILES)
            },
        ),
        "places": write_tree(
            base / "places", {f"zone={n % 2}/p{n}.parquet": _places(n) for n in range(PLACE_FILES)}
        ),
        "readings": write_tree(
            base / "readings", {f"r{n}.parquet": _readings(n) for n in range(READING_FILES)}
        ),
    }


def everything(roots: Mapping[str, Path]) -> duckdb.DuckDBPyConnection:
    """A connection whose tables are filled with all rows, with DuckDB's optimizer off."""
    connection = duckdb.connect(config={"threads": 1})
    for name, root in roots.items():
        connection.execute(
            f"CREATE TABLE {name} AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
        )
    connection.execute("PRAGMA disable_optimizer")
    return connection


def without_sign_of_zero(value: Any) -> Any:
    """NaN as text, because it equals nothing; the zeros are equal to DuckDB, which may return either for both."""
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else value + 0.0


def _events(number: int) -> str:
    start = number * EVENTS_PER_FILE
    return f"""
        SELECT i::INTEGER AS id,
               CASE WHEN i % 4 > 0 THEN (i // 4 + {number} % 2)::INTEGER END AS place,
               CASE WHEN i % 7 > 0
                    THEN 'k' || lpad(({number} % 6 + i % 2)::VARCHAR, 2, '0') || chr(97 + (i % 3)::INTEGER)
                    END AS kind,
               CASE WHEN i % 5 > 0
                    THEN TIMESTAMP '2024-01-01' + to_days({number}) + to_minutes((i * 37 % 1000)::INTEGER)
                    END AS ts,
               DATE '2024-01-01' + {number} AS day,
               (i * 1.25)::DECIMAL(9, 2) AS price,
               CASE WHEN {number} % 4 < 3 AND i % 5 > 0 THEN (i % 7 * {number} + 0.5)::DOUBLE
                    WHEN {number} = 7 THEN 'nan'::DOUBLE END AS delay,
               CASE WHEN {number} <> 5 THEN i % 2 = 0 AND {number} < 6 END AS early,
               {{'code': {number}, 'tag': chr(97 + {number})}} AS extra
        FROM range({start}, {start + EVENTS_PER_FILE}) r(i)"""


def _places(number: int) -> str:
    start = number * PLACES_PER_FILE
    late = "NULL::DOUBLE" if number < 2 else f"(i * 10.5 - {number} * 100)::DOUBLE"
    return f"""
        SELECT i::BIGINT AS no, CASE WHEN i % 6 > 0 THEN 'P' || i END AS name,
               DATE '1969-12-28' + (i * {number + 1})::INTEGER AS since, {late} AS area, i % 3 = 0 AS open
        FROM range({start}, {start + PLACES_PER_FILE}) r(i)"""


def _readings(number: int) -> str:
    """Rows with edge values in every column, and NULL."""
    return f"""
        SELECT k + {number * READINGS_PER_FILE} AS n,
               [NULL, 'nan', '-0.0', '0.0', '1.5', 'inf', '-inf', '2', '1e308'][(k * {number}) % 9 + 1]::DOUBLE AS x,
               [NULL, '', 'a', 'ab', 'ab%', 'Ab', 'ß', repeat('z', 80)][(k + {number} * 2) % 8 + 1] AS s,
               TIMESTAMP '1969-12-31 23:59:59.5' + to_hours(k * {number + 1}) AS at,
               [NULL, -3.5, 0, 12.5][(k + {number}) % 4 + 1]::DECIMAL(9, 2) AS amount,
               [NULL, -1, 0, 7][(k + {number}) % 4 + 1]::SMALLINT AS small
        FROM (SELECT unnest(range({READINGS_PER_FILE}))::INTEGER AS k)"""
