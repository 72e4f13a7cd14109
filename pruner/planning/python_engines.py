"""Hands a plan's files to a Python engine, by the adapter of that engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pruner.errors import PredicateError
from pruner.expr.text.sql import parse_predicate
from pruner.expr.walk import columns_of
from pruner.plugins import Group, load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.expr.semantics import Semantics
    from pruner.schema import TableSchema


def scan_with(
    engine: str,
    plan: object,
    columns: Sequence[str] | None,
    storage_options: Mapping[str, str],
    into: Any = None,
) -> Any:
    """The files of a plan (`pruner.Plan`) as a Python engine reads them: see `pruner.adapters.FileScanner.scan`.

    Raises:
        BrokenPluginError: the engine is not installed; says what to install.
        SchemaError, TableError: as `FileScanner.scan` does.
    """
    scanner: Any = load_plugin(Group.ADAPTERS, engine)
    return scanner.scan(plan, columns, storage_options, into)


def counted_by_reading(
    table: Any,
    opened_by: str,
    predicate: str,
    semantics: Semantics,
    schema: TableSchema,
    as_of: str | None = None,
) -> int:
    """Count the rows of a table (`pruner.Table`) for which a predicate is true, with the engine whose SQL it is.

    Args:
        table: the table.
        opened_by: the location or name by which it can be opened again.
        predicate: SQL that has already been parsed as a predicate.
        semantics: the engine whose SQL it is, and the time zone.
        schema: the schema of the rows to count.
        as_of: the past state whose rows to count; the newest unless given.

    Raises:
        PredicateError: it is in the SQL of an engine that does not run in this process.
        BrokenPluginError: the engine is not installed; says what to install.
    """
    adapter: Any = load_plugin(Group.ADAPTERS, semantics.engine)
    if not callable(getattr(adapter, "connect", None)):
        raise PredicateError(
            f"metadata alone does not answer this count, and {semantics.engine} does not run in this process: "
            f"count in {semantics.engine}, or write the predicate in the SQL of DuckDB"
        )
    past = {
        "uri": opened_by,
        "index_uri": table.index_uri,
        "storage_options": table.storage_options,
        "as_of": as_of,
    }
    connection = adapter.connect({"counted": table if as_of is None else past}, config={})
    if _reads_floats(predicate, semantics, schema):
        # DuckDB skips rows with NaN by file statistics, which do not count them (trap S1).
        connection.execute("SET disabled_optimizers = 'filter_pushdown,statistics_propagation'")
    if semantics.zone is not None:
        zone = semantics.zone.replace("'", "''")
        connection.execute(f"SET TimeZone = '{zone}'")
    # The line break ends a comment at the end of the predicate.
    return connection.execute(f"SELECT count(*) FROM counted WHERE ({predicate}\n)").fetchone()[0]


def _reads_floats(predicate: str, semantics: Semantics, schema: TableSchema) -> bool:
    """Tell whether a predicate is about a column that may hold NaN."""
    names = {column.path[0].lower() for column in columns_of(parse_predicate(predicate, semantics))}
    held = (str(entry.type) for entry in schema.columns if entry.path[0].lower() in names)
    return any("float" in data_type or "double" in data_type for data_type in held)
