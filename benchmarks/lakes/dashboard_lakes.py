"""Lakes over which everyday statements are measured: hive-style, flat, evolved and Hudi tables, and users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.support.hudi.made_up import files as hudi_synthetic

FILES = 200
ROWS_PER_FILE = 5_000
USERS = 50_000

HUDI_FIELDS = {
    "id": "long",
    "uid": "int",
    "cat": "string",
    "amount": "double",
    "ts": "moment",
    "txt": "string",
}


@dataclass(frozen=True)
class Lake:
    """One table: its name, its location, and how plain DuckDB reads it."""

    name: str
    root: Path
    plain: str


def lakes(folder: Path, users: Path, *, files: int = FILES, narrow: bool = True) -> Iterator[Lake]:
    """Write the users' file, then the tables one after another.

    In the evolved table, the oldest third has no text and, if `narrow`, narrower ids, which Spark 3.5 does not read
    beside wide ones.
    """
    writer = duckdb.connect()
    users.parent.mkdir(parents=True, exist_ok=True)
    writer.execute(f"COPY (SELECT i::INTEGER AS uid, i % 200 AS seg FROM range({USERS}) r(i)) TO '{users}'")
    for name in ("hive", "flat", "evolved"):
        root = folder / name
        root.mkdir()
        for number in range(files):
            place = root / f"part={number % 50}" if name == "hive" else root
            place.mkdir(exist_ok=True)
            kind = number * 3 // files if name == "evolved" else 2
            query = _rows(number, kind, narrow=narrow)
            writer.execute(f"COPY ({query}) TO '{place}/f{number:04d}.parquet'")
        options = {"hive": ", hive_partitioning = true", "flat": "", "evolved": ", union_by_name = true"}[
            name
        ]
        yield Lake(name, root, f"read_parquet('{root}/**/*.parquet'{options})")
    root = folder / "hudi"
    _write_hudi(root, writer, files)
    yield Lake("hudi", root, f"read_parquet('{root}/city=x/*.parquet')")


def _write_hudi(root: Path, writer: duckdb.DuckDBPyConnection, files: int) -> None:
    """A copy-on-write table in one partition."""
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [
        {"name": name, "type": ["null", moment if kind == "moment" else kind], "default": None}
        for name, kind in (HUDI_FIELDS | {"city": "string"}).items()
    ]
    table = hudi_synthetic.SyntheticTable(root, schema=hudi_synthetic.SCHEMA | {"fields": fields})
    table.insert(["city=x"] * files)
    writer.execute("SET TimeZone = 'UTC'")
    for number, group in enumerate(table.groups.values()):
        path = root / group.partition / group.base
        path.unlink()
        query = f"SELECT * REPLACE (ts::TIMESTAMPTZ AS ts), 'x' AS city FROM ({_rows(number, 2)})"
        writer.execute(f"COPY ({query}) TO '{path}'")


def _rows(number: int, kind: int, *, narrow: bool = True) -> str:
    """Rows of one file; the kinds are those of the three thirds of an evolved table."""
    first = number * ROWS_PER_FILE
    text = f", 'text ' || hash(i * {number + 1}) AS txt" if kind else ""
    return f"""
        SELECT ({first} + i)::{"BIGINT" if kind == 2 or not narrow else "INTEGER"} AS id,
               ((i * 7919 + {number}) % {USERS})::INTEGER AS uid, 'c' || (i * 31 % 40) AS cat,
               (hash(i + {first}) % 100000 / 100.0)::DOUBLE AS amount,
               TIMESTAMP '2023-01-01' + to_days({number}) + to_seconds((i * 17)::BIGINT) AS ts{text}
        FROM range({ROWS_PER_FILE}) r(i)"""
