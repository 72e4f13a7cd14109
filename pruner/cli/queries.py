"""`pruner query`: a SELECT in DuckDB that reads only the files which its predicates leave."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.options import (
    IndexUriOption,
    NamedTables,
    Output,
    OutputOption,
    StorageOption,
    catalog,
    pairs,
)
from pruner.cli.output import megabytes, print_columns, print_json, printable
from pruner.errors import PredicateError, PrunerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.catalog import Catalog
    from pruner.plan import Plan

ADAPTERS = "pruner.adapters"
"""Entry point group in which adapters register; nothing here imports one."""

FETCHED_ROWS = 10_000
"""Rows that are fetched and printed at a time."""

QueryArgument = Annotated[str, typer.Argument(metavar="SELECT", help="A query in DuckDB's SQL.")]


def query(
    select: QueryArgument,
    table: NamedTables = None,
    index_uri: IndexUriOption = None,
    option: StorageOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Run a query in DuckDB, pruned."""
    duckdb = _duckdb_adapter()
    tables = catalog(pairs(table, "--table"), index_uri, option)
    connection = duckdb.connect({name: tables.open(name) for name in _mentioned(tables, select)})
    try:
        result = connection.sql(select)
        columns = [(entry[0], str(entry[1])) for entry in result.description]
        if output is Output.JSON:
            rows = list(_rows(result))
            scans = [plan.to_json() for plan in connection.last_plans]
            print_json(_answer(columns, rows, scans))
        else:
            print_columns([name for name, _ in columns], _rows(result))
            _report_scans(connection.last_plans)
    except PrunerError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
            raise
        if type(error).__name__ == "ParserException":
            raise PredicateError(str(error)) from error
        raise PrunerError(f"DuckDB: {error}") from error


def _duckdb_adapter() -> Any:
    found = entry_points(group=ADAPTERS, name="duckdb")
    try:
        return next(iter(found)).load()
    except (StopIteration, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in ("duckdb", "pruner_duckdb"):
            raise
        raise PrunerError("pruner query needs DuckDB: pip install 'lake-pruner[duckdb]'") from error


def _mentioned(tables: Catalog, select: str) -> list[str]:
    """The known tables whose name can stand in the query; no others have to be opened."""
    folded = select.casefold()
    return [name for name in tables.names(aliases=True) if name.rpartition(".")[2].casefold() in folded]


def _rows(result: Any) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(FETCHED_ROWS):
        yield from rows


def _answer(columns: list[tuple[str, str]], rows: list[tuple[Any, ...]], scans: list[str]) -> dict[str, Any]:
    import msgspec

    return {
        "columns": [{"name": name, "type": type_name} for name, type_name in columns],
        "rows": rows,
        "scans": [msgspec.Raw(scan.encode()) for scan in scans],
    }


def _report_scans(plans: list[Plan]) -> None:
    """Say on standard error what was pruned: standard output holds nothing but the rows."""
    for plan in plans:
        sys.stderr.write(
            f"{printable(plan.snapshot.root)}: {plan.kept:,} of {plan.total:,} slices read, "
            f"{megabytes(plan.bytes_kept)} of {megabytes(plan.bytes_total)}\n"
        )
