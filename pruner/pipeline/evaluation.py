"""Evaluates an expression over the rows of one slice, by DuckDB, every timestamp a wall clock in UTC.

Of the rows it is told as well for which engines each value that goes in, or comes up between, lies where the engine
was compared with DuckDB (`pruner.expr.derived.rows`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import PrunerError, first_line
from pruner.expr.derived.function import ANYWHERE, Argument
from pruner.expr.derived.rows import row_for
from pruner.expr.engines import SqlEngine
from pruner.expr.nodes import Call, Column, Expr, Literal
from pruner.expr.types import integer_range, is_string, unit_of

if TYPE_CHECKING:
    from pruner.expr.derived.function import Function

_ROWS: Final = "pruner_rows"
_NARROWEST: Final = pa.int8()
_ENDS: Final = {
    "date": ("DATE '1900-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP '1900-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}
_TO_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NANOSECONDS: Final = 1_000

_own = threading.local()


class Evaluated(NamedTuple):
    """The values of the rows, and the engines that agree about each of them; no values where none does."""

    values: pa.Array[Any] | None
    agreed: tuple[str, ...]


def evaluator() -> str:
    """Name and version of what evaluates.

    Raises:
        PrunerError: it is not installed.
    """
    return f"duckdb {_duckdb().__version__}"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise PrunerError(
            "indexes over expressions are evaluated by DuckDB, which is not installed: "
            "pip install 'lake-pruner[duckdb]'"
        ) from error
    return duckdb


def _connection() -> Any:
    """A database of this thread's own, which holds nothing."""
    if not hasattr(_own, "connection"):
        connection = _duckdb().connect(":memory:", config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        _own.connection = connection
    return _own.connection


def evaluate(expression: Expr, columns: Mapping[tuple[str, ...], pa.ChunkedArray[Any]]) -> Evaluated:
    """Evaluate an expression in the canonical form.

    Args:
        expression: the expression.
        columns: the values of its columns, of equal length, in the types of the file.

    Raises:
        ValueError: the types of the columns do not fit the expression.
        PrunerError: DuckDB is not installed.
    """
    prepared = {path: _prepared(values) for path, values in columns.items()}
    names = {path: f"c{number}" for number, path in enumerate(prepared)}
    written = _Writer(names, {path: values.type for path, values in prepared.items()}).written(expression)
    arrays: list[Any] = list(prepared.values())
    conditions = _conditions(written)
    asked = [f"{each} AS d{number}" for number, each in enumerate(dict.fromkeys(conditions.values()))]
    connection = _connection()
    connection.register(_ROWS, pa.table(arrays, names=list(names.values())))
    try:
        # One query: in small files, to plan it costs more than to run it.
        found = connection.sql(f"SELECT {', '.join([f'TRY({written.sql}) AS value', *asked])} FROM {_ROWS}")
        table = found.to_arrow_table()
    except _duckdb().Error as error:
        raise ValueError(f"it could not be evaluated: {first_line(error)}") from error
    finally:
        connection.unregister(_ROWS)
    agreed = _agreed(table, conditions)
    return Evaluated(table.column("value").combine_chunks() if agreed else None, agreed)


def _conditions(written: _Written) -> dict[SqlEngine, str]:
    """What must hold of a row for each engine that was compared with every function."""
    return {
        asking: " AND ".join(f"coalesce({each}, true)" for each in dict.fromkeys(parts)) or ANYWHERE
        for asking, parts in written.domains.items()
    }


def _agreed(table: Any, conditions: Mapping[SqlEngine, str]) -> tuple[str, ...]:
    """The engines whose condition holds of every row."""
    holds = {
        each: compute.all(table.column(f"d{number}")).as_py() is not False
        for number, each in enumerate(dict.fromkeys(conditions.values()))
    }
    return tuple(sorted(str(asking) for asking, each in conditions.items() if holds[each]))


def _prepared(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Timestamps as microseconds of a wall clock.

    Raises:
        ValueError: some have no place there.
    """
    if not pa.types.is_timestamp(values.type):
        return values
    unit = unit_of(values.type)
    if unit == "ns":
        numbers: Any = values.cast(pa.int64()).combine_chunks()
        if np.any(np.asarray(numbers.fill_null(0)) % _NANOSECONDS):
            raise ValueError("timestamps of single nanoseconds, which engines round")
    return values.cast(pa.timestamp(unit)).cast(pa.timestamp("us"))


class _Written(NamedTuple):
    """A node as SQL: its type, constant and the engines' conditions on everything below it and on itself.

    `bits` is the narrowest type of integers that an engine may take the value for.
    """

    sql: str
    argument: Argument
    domains: dict[SqlEngine, list[str]]
    bits: pa.DataType


class _Writer:
    def __init__(
        self, names: Mapping[tuple[str, ...], str], types: Mapping[tuple[str, ...], pa.DataType]
    ) -> None:
        self._names = names
        self._types = types

    def written(self, node: Expr) -> _Written:
        match node:
            case Column(path):
                type_ = self._types[path]
                bits = type_ if pa.types.is_signed_integer(type_) else _NARROWEST
                return _Written(self._names[path], Argument(type_), _everywhere(), bits)
            case Literal(value, type_):
                return _Written(_constant(value), Argument(type_, value), _everywhere(), _NARROWEST)
            case Call(name, arguments):
                return self._call(name, [self.written(each) for each in arguments])
            case _:
                raise ValueError(f"{node} is no part of an expression")

    def _call(self, name: str, arguments: Sequence[_Written]) -> _Written:
        judged = [each.argument for each in arguments]
        row = row_for(name, judged)
        if row is None:
            types = ", ".join(str(each.type) for each in judged)
            raise ValueError(f"the function {name} of {types} in the file is not in the registry")
        bits = max((each.bits for each in arguments), key=lambda type_: type_.bit_width)
        # An argument that fails lies outside its own domain, which is asked for, too.
        safe = [f"TRY({each.sql})" if "(" in each.sql else each.sql for each in arguments]
        condition = _condition(row, safe, judged, bits)
        domains = {
            asking: [*(part for each in arguments for part in each.domains[asking]), condition]
            for asking in map(SqlEngine, row.compared)
            if all(asking in each.domains for each in arguments)
        }
        sql = row.sql.format(*(each.sql for each in arguments))
        return _Written(sql, Argument(row.result(judged)), domains, bits)


def _condition(row: Function, arguments: Sequence[str], judged: Sequence[Argument], bits: pa.DataType) -> str:
    least, greatest = integer_range(bits)
    moment = next((each.type for each in judged if not each.is_constant), pa.null())
    first, last = _ENDS["date" if pa.types.is_date(moment) else "timestamp"]
    places = {"least": least, "greatest": greatest, "first": first, "last": last}
    return f"({row.domain.format(*arguments, wide=row.wide.format(*arguments), **places)})"


def _everywhere() -> dict[SqlEngine, list[str]]:
    return {asking: [] for asking in SqlEngine}


def _constant(value: object) -> str:
    """A constant of the canonical form as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"{value!r}::DOUBLE" if isinstance(value, float) else f"({value})"


def plain_text(values: pa.Array[Any]) -> pa.Array[Any]:
    """Text in Arrow's usual type."""
    return values.cast(pa.string()) if is_string(values.type) else values
