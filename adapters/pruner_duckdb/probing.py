"""What `pruner doctor` asks of DuckDB: whether it reads the table, and whether its version is understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from pruner_duckdb.connection import connect, self_test_of_this_process
from pruner_duckdb.shadow.selftest import TESTED_VERSIONS

if TYPE_CHECKING:
    from pruner import Plan, Table

installed_version: str = duckdb.__version__
tested_versions: tuple[str, ...] = tuple(sorted(TESTED_VERSIONS))


def probe(table: Table, plan: Plan) -> None:
    """Read a row of a table as statements do: see `pruner.adapters.ProbingAdapter`."""
    con = connect({"probed": table})
    try:
        con.execute("SELECT * FROM probed LIMIT 1").fetchmany(1)
    finally:
        con.close()


def self_test() -> str | None:
    """Whether plans of the installed version are understood: see `pruner.adapters.VersionedAdapter`."""
    return self_test_of_this_process()
