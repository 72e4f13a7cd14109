"""The columns or expression of an index in an engine's SQL, to order rows by it so that few files hold each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pruner.errors import IndexDefinitionError
from pruner.expr.derived.in_sql import NotInSpark, in_duckdb, in_spark
from pruner.expr.engines import SqlEngine
from pruner.maintenance.expressions import field_of

if TYPE_CHECKING:
    from pruner.metadata.definitions import IndexDefinition
    from pruner.schema import Field, TableSchema

_QUOTES: Final = {SqlEngine.DUCKDB: '"', SqlEngine.SPARK: "`"}


def order_by(
    indexes: Iterable[IndexDefinition], name: str, schema: TableSchema, dialect: str
) -> list[str] | None:
    """The columns of an index, or its expression, as an ORDER BY list; None without an index of that name.

    Args:
        indexes: the indexes of a table.
        name: the name of one of them.
        schema: the schema of the table.
        dialect: the SQL dialect: `duckdb` or `spark`.

    Raises:
        IndexDefinitionError: it is over every column or over one that is gone, or the dialect cannot express it.
    """
    for definition in indexes:
        if definition.name.casefold() == name.casefold():
            return _order_by(definition, schema, dialect)
    return None


def _order_by(definition: IndexDefinition, schema: TableSchema, dialect: str) -> list[str]:
    name = f"index {definition.name!r}"
    if definition.all_columns:
        raise IndexDefinitionError(f"{name} is over every column: name a column or an expression")
    if dialect not in _QUOTES:
        raise IndexDefinitionError(
            f"an index is written for {' and '.join(sorted(_QUOTES))}, not for {dialect}"
        )
    quote = _QUOTES[SqlEngine(dialect)]
    if definition.form is None:
        return [_quoted(schema.shown(binding.recorded), quote) for binding in definition.fields]
    field = field_of(definition, schema)
    if field is None:
        raise IndexDefinitionError(f"{name} is over a column that is gone or has another type now")
    try:
        return [_WRITERS[SqlEngine(dialect)](field)]
    except NotInSpark as reason:
        raise IndexDefinitionError(f"{name}: {reason}: give a Spark expression to order by") from None


def _quoted(path: Sequence[str], quote: str) -> str:
    return ".".join(quote + part.replace(quote, 2 * quote) + quote for part in path)


def _in_duckdb(field: Field) -> str:
    """A value for which the expression fails is not in the index, and may be anywhere in the order."""
    return f"TRY({in_duckdb(field)})"


_WRITERS: Final[dict[SqlEngine, Callable[[Field], str]]] = {
    SqlEngine.DUCKDB: _in_duckdb,
    SqlEngine.SPARK: in_spark,
}
