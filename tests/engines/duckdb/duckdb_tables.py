"""Small trees of Parquet files for the tests of the DuckDB adapter, and the oracle that reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from pruner_duckdb.rewrite import small_sides
from pruner_duckdb.rewrite.small_sides import SmallSides
from tests.support.cases import spec
from tests.support.duckdb import plain as plain_duckdb
from tests.support.duckdb.ways import is_native, native_reads_are

Rows = list[tuple[Any, ...]]

BEFORE_2 = duckdb.__version__.startswith("1.")
"""Whether this is the older of the two tested versions of DuckDB (`make check-matrix`)."""


def described(description: Any) -> list[tuple[str, str]]:
    """Names and types of a result. In names derived from subqueries, DuckDB 1.5 writes types in two ways."""
    return [
        (name.replace('"', "").replace(", ", ",") if BEFORE_2 else name, type_)
        for name, type_, *_ in description or ()
    ]


def is_left_to_1_5(statement: str) -> bool:
    """Whether metadata answers a statement in DuckDB 2.0 only: 1.5 does not tell where a call with FILTER ends."""
    return BEFORE_2 and "filter" in statement.lower()


@contextmanager
def every_side_is_read(seen: Counter[str] | None = None) -> Iterator[None]:
    """Read the keys of a join's side however little they may leave out; counts the statements for which it happens."""
    counted: Counter[str] = Counter() if seen is None else seen
    narrowed = SmallSides.narrowed

    def counting(*arguments: Any) -> Any:
        found = narrowed(*arguments)
        counted["keys are read"] += bool(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_sides, "LEAST_BYTES", 0)
        patch.setattr(small_sides, "TIMES_LARGER", 0)
        patch.setattr(small_sides, "_LONGEST_PAUSE", 0)
        patch.setattr(SmallSides, "narrowed", counting)
        yield


FLIGHTS_PER_FILE = 50
FLIGHTS_FILES = 12
REGIONS = ("de", "fr x", "us")


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write one Parquet file for each relative path, with the rows of its query."""
    writer = plain_duckdb.session()
    for name, query in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: COPY must not interpret a path with glob characters in it.
        writer.execute(f"COPY ({query}) TO '{root.parent}/part.tmp' (FORMAT parquet)")
        (root.parent / "part.tmp").rename(path)
    return root


def flights_query(number: int) -> str:
    """Rows of one file: ids, times and prices increase from file to file; delays have NULLs."""
    start = number * FLIGHTS_PER_FILE
    return f"""
        SELECT i::INTEGER AS id,
               'C' || lpad(({number} % 6)::VARCHAR, 2, '0') || chr(97 + (i % 3)::INTEGER) AS carrier,
               TIMESTAMP '2024-01-01' + to_days({number}) + to_minutes((i % 1000)::INTEGER) AS ts,
               (i * 1.25)::DECIMAL(10, 2) AS price,
               CASE WHEN {number} % 4 < 3 AND i % 5 > 0 THEN ((i % 7) * {number}.5)::DOUBLE END AS delay,
               i % 2 = 0 AND {number} < 6 AS early,
               TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_days({number}) AS seen,
               DATE '2024-01-01' + {number} AS day,
               {{'code': {number}, 'tags': [i]}} AS extra
        FROM range({start}, {start + FLIGHTS_PER_FILE}) r(i)"""


def write_flights(root: Path) -> Path:
    """Twelve files of fifty rows, in turn in one of three hive-style partitions."""
    for name, content in _flights().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@cache
def _flights() -> Mapping[str, bytes]:
    """The files of flights by path, made once per process: hundreds of tests begin with them."""
    queries = {
        f"region={REGIONS[n % 3]}/part-{n:02d}.parquet": flights_query(n) for n in range(FLIGHTS_FILES)
    }
    with TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "flights", queries)
        return {name: (root / name).read_bytes() for name in queries}


def write_airports(root: Path) -> Path:
    """Four flat files of ten rows; `flight` refers to flights of the first four files."""
    return write_tree(
        root,
        {
            f"a{n}.parquet": f"""
                SELECT (i * 5)::BIGINT AS flight, 'A' || i AS name, {n} AS zone_no
                FROM range({n * 10}, {n * 10 + 10}) r(i)"""
            for n in range(4)
        },
    )


def indexed(root: Path, **options: Any) -> pruner.Table:
    """Open a table and index every column."""
    table = pruner.open_table(str(root), **options)
    table.create_index("stats", on="*", if_not_exists=True)
    return table


def oracle(tables: Mapping[str, Path], setup: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """A connection whose tables are filled with all rows, with DuckDB's optimizer off."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, root in tables.items():
        files = sorted(str(path) for path in root.rglob("*.parquet"))
        connection.execute(
            f"CREATE TABLE {name} AS FROM read_parquet(?, union_by_name = true, hive_partitioning = true, "
            "hive_types_autocast = false)",
            [files],
        )
    for statement in setup:
        connection.execute(statement)
    connection.execute("PRAGMA disable_optimizer")
    return connection


def answer(connection: Any, sql: str, parameters: Any = None) -> Rows:
    """All rows, sorted independently of the plan: through `execute` with parameters, else through `sql`."""
    if parameters is not None:
        return sorted(connection.execute(sql, parameters).fetchall(), key=repr)
    # Through Arrow: DuckDB fetches timestamps with a zone through a package that may be missing.
    table = connection.sql(sql).to_arrow_table()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@cache
def native_kept() -> Mapping[str, tuple[int, ...]]:
    """How many files the scans of statements read with the native scan, where the number differs."""
    found = {_key(each.text): each.behind("=>") for each in spec.cases("native_scan.txt")}
    return {sql: tuple(map(int, kept.removeprefix("none").split())) for sql, kept in found.items()}


def _key(sql: str, parameters: Any = None) -> str:
    """A statement with its parameters on one line."""
    text = " ".join(sql.split())
    return text if parameters is None else f"{text} with {parameters!r}"


class Compared:
    """Runs statements on the pruned side and on the oracle."""

    def __init__(self, pruned: pruner_duckdb.Connection, full: duckdb.DuckDBPyConnection) -> None:
        self.pruned = pruned
        self.full = full

    def both(self, statement: str) -> None:
        """Change the session on both sides."""
        self.pruned.execute(statement)
        self.full.execute(statement)

    def kept(self, sql: str, parameters: Any = None) -> tuple[int, ...]:
        """Assert that both sides give the same rows; return how many files each scan read, in the order of the text."""
        self.pruned.last_plans.clear()
        assert answer(self.pruned, sql, parameters) == answer(self.full, sql, parameters), sql
        return tuple(scan.kept for scan in self.pruned.last_plans)

    def reads(
        self, sql: str, kept: tuple[int, ...], parameters: Any = None, reason: str | None = None
    ) -> None:
        """Assert that both sides give the same rows, how many files each scan reads, and the one reason for it.

        The native scan reports scans as they start, not in the order of the text. It does not report what DuckDB
        answers without a scan, and what DuckDB learns before a scan starts prunes: `tests/spec/native_scan.txt` lists
        the differences.
        """
        found = self.kept(sql, parameters)
        if is_native():
            expected = native_kept().get(_key(sql, parameters), kept)
            assert native_reads_are(found, expected, kept), sql
            assert set(self.reasons()) <= {None}, sql
        else:
            assert found == kept, sql
            assert set(self.reasons()) == {reason}, sql

    def reasons(self) -> list[str | None]:
        """Why the scans of the newest statement were not pruned."""
        return [scan.reason for scan in self.pruned.last_plans]
