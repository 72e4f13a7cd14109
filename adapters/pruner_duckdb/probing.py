"""What `pruner doctor` asks of DuckDB: whether it reads the table, and whether its version is understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from pruner.errors import StorageError
from pruner_duckdb.connection import connect, self_test_of_this_process
from pruner_duckdb.shadow.selftest import TESTED_VERSIONS

if TYPE_CHECKING:
    from pruner import Plan, Table

_NAME = "probed"

installed_version: str = duckdb.__version__
tested_versions: tuple[str, ...] = tuple(sorted(TESTED_VERSIONS))


def probe(table: Table, plan: Plan) -> None:
    """Read a row of a table as statements do: see `pruner.adapters.ProbingAdapter`."""
    con = connect({_NAME: table})
    try:
        con.execute(f"SELECT * FROM {_NAME} LIMIT 1").fetchmany(1)
    except StorageError as error:  # the name is none that the user has given
        raise StorageError(str(error).removeprefix(f"table {_NAME}: ")) from None
    finally:
        con.close()


def self_test() -> str | None:
    """Whether plans of the installed version are understood: see `pruner.adapters.VersionedAdapter`."""
    return self_test_of_this_process()
