"""DuckDB without pruner, for oracles and for writing files: one instance for all tests of a process.

To open an instance costs 20 ms, a session of one that is open next to nothing. Its time zone, its temporary tables and
whether its optimizer runs are a session's own. Other settings are not, nor are tables that are not temporary: what
changes those opens an instance for itself.
"""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa


def keep(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> duckdb.DuckDBPyConnection:
    """Give a connection a table `t` of its own with these rows, and return the connection.

    Where DuckDB 1.5 reads Arrow's own rows, Arrow applies conditions: rows with NaN are lost, and some
    comparisons are refused.
    """
    return connection.register("arrow", rows).execute("CREATE TABLE t AS FROM arrow")


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def session(zone: str = "UTC") -> duckdb.DuckDBPyConnection:
    """A session in a time zone; what it keeps, it keeps in temporary tables."""
    opened = _instance().cursor()
    opened.execute(f"SET TimeZone = '{zone}'")
    return opened


def judge(zone: str = "UTC") -> duckdb.DuckDBPyConnection:
    """A session whose optimizer is off: DuckDB's own pruning is wrong at times."""
    opened = session(zone)
    opened.execute("PRAGMA disable_optimizer")
    return opened
