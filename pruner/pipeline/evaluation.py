"""Values of an expression over the rows of one slice, evaluated by DuckDB, as one more column for every index type.

The evaluation also reports for which engines all input and intermediate values are in the domain on which the engine
was compared with DuckDB (`pruner.expr.functions.registry`).

Every index type records the values of an expression like those of any other column of a slice.

If a source column is unknown, so is the expression. Over several columns nothing is known in a slice with log files:
the merge decides which of their values are in one row (rule R5, trap T12).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.errors import PrunerError, first_line
from pruner.expr.derived.canonical import parsed
from pruner.expr.derived.indexed import Provenance, SourceColumn
from pruner.expr.engines import SqlEngine
from pruner.expr.functions.function import ANYWHERE, Argument
from pruner.expr.functions.registry import REGISTRY_VERSION, row_for
from pruner.expr.nodes import Call, Column, Expr, Literal
from pruner.expr.types import integer_range, is_string, unit_of
from pruner.indexes.base import ChunkStatistics, LeafColumn, UndecodableError
from pruner.indexes.columns.reading import reading_of, why_unknown
from pruner.indexes.columns.trust import zone_is_open
from pruner.plugins import DUCKDB_EXTRA, installing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.expr.functions.function import Evaluation
    from pruner.indexes.base import ParquetFooter, SliceReader
    from pruner.schema import Field

_MOST_QUERIES: Final = 100
"""Most statements that a thread keeps prepared."""
_NARROWEST: Final = pa.int8()
_ENDS: Final = {
    "date": ("DATE '1900-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP '1900-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}
_NANOSECONDS: Final = 1_000


class _Own(threading.local):
    """The state of a thread."""

    connection: Any = None
    queries: dict[tuple[Any, ...], _Query] | None = None


_own = _Own()


class Evaluated(NamedTuple):
    """The values of the rows, and the engines that agree about each of them; no values if no engine does."""

    values: pa.Array[Any] | None
    agreed: tuple[str, ...]


def evaluator() -> str:
    """Name and version of the evaluator.

    Raises:
        PrunerError: it is not installed.
    """
    return f"duckdb {_duckdb().__version__}"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise PrunerError(
            f"indexes over expressions are evaluated by DuckDB, which is not installed: {installing(DUCKDB_EXTRA)}"
        ) from error
    return duckdb


def _prepared_queries(*, anew: bool = False) -> tuple[Any, dict[tuple[Any, ...], _Query]]:
    """An empty database of this thread's own, and the statements that are prepared in it."""
    if anew or _own.queries is None:
        _own.connection = _duckdb().connect(":memory:", config={"threads": 1})
        _own.connection.execute("SET TimeZone = 'UTC'")
        _own.queries = {}
    return _own.connection, _own.queries


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
    query = _query(expression, {path: values.type for path, values in prepared.items()})
    arrays: list[Any] = list(prepared.values())
    try:
        table = query.run(pa.table(arrays, names=[f"c{number}" for number in range(len(arrays))]))
    except _duckdb().Error as error:
        if isinstance(error, _duckdb().InternalException | _duckdb().FatalException):
            _own.queries = None  # the database no longer answers
        raise ValueError(f"it could not be evaluated: {first_line(error)}") from error
    agreed = _agreed(table, query.conditions)
    return Evaluated(table.column("value").combine_chunks() if agreed else None, agreed)


class _Rows:
    """The rows of the current slice, which DuckDB reads whenever the statement runs."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def forget(self) -> None:
        """Release the rows until the next slice."""
        self.rows = self.rows.slice(0, 0)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return cast("Any", self.rows).__arrow_c_stream__(requested_schema)


class _Query:
    """A statement that evaluates an expression and its conditions over rows of some types.

    It is prepared once. For small files, registering rows and planning a statement took two thirds of the time.
    """

    def __init__(self, connection: Any, number: int, written: _Written) -> None:
        self.conditions = _conditions(written)
        self._connection = connection
        self._number = number
        self._value = written.sql
        self._source: _Rows | None = None

    def run(self, rows: pa.Table) -> Any:
        """Return the values of the rows, and whether each condition holds."""
        try:
            if self._source is None:
                self._prepare(rows)
            else:
                self._source.rows = rows
            return self._connection.sql(f"EXECUTE q{self._number}").to_arrow_table()
        finally:
            if self._source is not None:
                self._source.forget()

    def _prepare(self, rows: pa.Table) -> None:
        source = _Rows(rows)
        name = f"pruner_rows_{self._number}"
        asked = [
            f"{condition} AS d{number}"
            for number, condition in enumerate(dict.fromkeys(self.conditions.values()))
        ]
        self._connection.register(name, source)
        selected = ", ".join([f"TRY({self._value}) AS value", *asked])
        self._connection.execute(f"PREPARE q{self._number} AS SELECT {selected} FROM {name}")
        self._source = source


def _query(expression: Expr, types: Mapping[tuple[str, ...], pa.DataType]) -> _Query:
    """The thread's statement for an expression over columns of these types."""
    connection, known = _prepared_queries()
    key = (expression, tuple(types.items()))
    if key not in known:
        names = {path: f"c{number}" for number, path in enumerate(types)}
        written = _Writer(names, types).written(expression)
        if len(known) >= _MOST_QUERIES:
            connection, known = _prepared_queries(anew=True)
        known[key] = _Query(connection, len(known), written)
    return known[key]


def _conditions(written: _Written) -> dict[SqlEngine, str]:
    """The condition on a row for each engine that was compared on every function."""
    return {
        asking: " AND ".join(f"coalesce({part}, true)" for part in dict.fromkeys(parts)) or ANYWHERE
        for asking, parts in written.domains.items()
    }


def _agreed(table: Any, conditions: Mapping[SqlEngine, str]) -> tuple[str, ...]:
    """The engines whose condition holds for every row."""
    holds = {
        condition: compute.all(table.column(f"d{number}")).as_py() is not False
        for number, condition in enumerate(dict.fromkeys(conditions.values()))
    }
    return tuple(sorted(str(asking) for asking, condition in conditions.items() if holds[condition]))


def _prepared(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Timestamps as wall clock microseconds, other values unchanged.

    Raises:
        ValueError: a timestamp has no exact value in microseconds, or text is not UTF-8.
    """
    if is_string(values.type):
        _require_utf8(values)
    if not pa.types.is_timestamp(values.type):
        return values
    unit = unit_of(values.type)
    if unit == "ns":
        numbers: Any = values.cast(pa.int64()).combine_chunks()
        if np.any(np.asarray(numbers.fill_null(0)) % _NANOSECONDS):
            raise ValueError("timestamps of single nanoseconds, which engines round")
    return values.cast(pa.timestamp(unit)).cast(pa.timestamp("us"))


def _require_utf8(texts: pa.ChunkedArray[Any]) -> None:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError("text that is not UTF-8, whose characters engines count differently") from error


class _Written(NamedTuple):
    """A node as SQL: its type, constant and the engines' conditions on everything below it and on itself.

    `bits` is the narrowest integer type that an engine may use for the value.
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
                return self._call(name, [self.written(argument) for argument in arguments])
            case _:
                raise ValueError(f"{node} cannot be part of an expression")

    def _call(self, name: str, arguments: Sequence[_Written]) -> _Written:
        judged = [argument.argument for argument in arguments]
        row = row_for(name, judged)
        if row is None:
            types = ", ".join(str(argument.type) for argument in judged)
            raise ValueError(f"the function {name} of {types} in the file is not in the registry")
        bits = max((argument.bits for argument in arguments), key=lambda type_: type_.bit_width)
        # An argument that fails is outside its own domain, which is checked as well.
        safe = [f"TRY({argument.sql})" if "(" in argument.sql else argument.sql for argument in arguments]
        condition = _condition(row, safe, judged, bits)
        domains = {
            asking: [*(part for argument in arguments for part in argument.domains[asking]), condition]
            for asking in map(SqlEngine, row.compared)
            if all(asking in argument.domains for argument in arguments)
        }
        for asking, parts in domains.items():
            parts.extend(_rounding(row, asking, safe, judged))
        sql = row.sql.format(*(argument.sql for argument in arguments))
        return _Written(sql, Argument(row.result(judged)), domains, bits)


def _condition(
    row: Evaluation, arguments: Sequence[str], judged: Sequence[Argument], bits: pa.DataType
) -> str:
    least, greatest = integer_range(bits)
    moment = next((argument.type for argument in judged if not argument.is_constant), pa.null())
    first, last = _ENDS["date" if pa.types.is_date(moment) else "timestamp"]
    places = {"least": least, "greatest": greatest, "first": first, "last": last}
    return f"({row.domain.format(*arguments, wide=row.wide.format(*arguments), **places)})"


def _rounding(
    row: Evaluation, asking: SqlEngine, arguments: Sequence[str], judged: Sequence[Argument]
) -> list[str]:
    """Trino's `date_format` rounds to milliseconds: 23:59:59.999999 is the next day there, so outside the domain."""
    if asking is not SqlEngine.TRINO or not row.reads_clock:
        return []
    stamps = [
        text for text, argument in zip(arguments, judged, strict=True) if pa.types.is_timestamp(argument.type)
    ]
    return [f"((epoch_us({text}) % 1000000 + 1000000) % 1000000 < 999500)" for text in stamps]


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


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of the rows with their provenance, or the reason why they are unknown."""

    values: pa.Array[Any] | None
    made: Provenance | None
    reason: str = ""


class DerivedReader:
    """A slice with the values of one expression: see `pruner.indexes.base.SliceReader`."""

    def __init__(self, reader: SliceReader, field: Field, *, has_logs: bool) -> None:
        """`field` represents the expression; `has_logs` tells that rows of several files are not merged."""
        self._reader = reader
        self._field = field
        self._has_logs = has_logs
        self.name = reader.name
        self.footer = DerivedFooter(reader.footer, field, self)

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """The values of the expression: see `pruner.indexes.base.SliceReader`."""
        values = self.evaluated.values
        if values is None:
            raise UndecodableError(self.evaluated.reason)
        yield values

    def encoded(self, leaf: LeafColumn) -> Iterator[Any]:
        """The values of `batches`, dictionary-encoded."""
        return (cast("Any", part).dictionary_encode() for part in self.batches(leaf))

    @cached_property
    def evaluated(self) -> _Values:
        """The values, computed on first use."""
        leaves = [self._reader.footer.leaf(source.recorded) for source in self._field.sources]
        reason = self._why_not(leaves)
        if reason is not None:
            return _Values(None, None, reason)
        columns = {
            source.path: self._column(leaf)
            for leaf, source in zip(leaves, self._field.sources, strict=True)
            if leaf is not None
        }
        try:
            values, agreed = evaluate(parsed(self._field.expression or ""), columns)
        except (ValueError, UndecodableError, pa.ArrowException) as error:
            return _Values(None, None, str(error))
        if values is None:
            return _Values(None, None, "some value lies outside those on which engines are known to agree")
        made = Provenance(
            evaluator=evaluator(),
            registry=REGISTRY_VERSION,
            agreed=agreed,
            sources=tuple(_source(self._reader.footer, leaf) for leaf in leaves if leaf is not None),
        )
        return _Values(plain_text(values), made)

    def _column(self, leaf: LeafColumn) -> pa.ChunkedArray[Any]:
        return arrow.chunked_array(list(self._reader.batches(leaf)), leaf.type)

    def _why_not(self, leaves: Sequence[LeafColumn | None]) -> str | None:
        if self._has_logs and len(leaves) > 1:
            return "log files may combine values of several versions of a row"
        footer = self._reader.footer
        for leaf, source in zip(leaves, self._field.sources, strict=True):
            reason = why_unknown(footer, leaf, source.in_files())
            if reason is not None:
                return reason
            if leaf is None or leaf.type is None:
                return f"the file does not have column {source.name!r}"
            if zone_is_open(footer.created_by, leaf):
                return f"a setting of the session decides how column {source.name!r} is read"
        return None


class DerivedFooter:
    """The footer of a slice with the single column of an expression: see `pruner.indexes.base.ParquetFooter`.

    It claims nothing about the values, so the values themselves are read.
    """

    created_by = ""

    def __init__(self, footer: ParquetFooter, field: Field, reader: DerivedReader) -> None:
        self._footer = footer
        self._field = field
        self._reader = reader
        self.row_count: int = footer.row_count

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """Empty."""
        return {}

    def leaf(self, path: tuple[str, ...]) -> LeafColumn | None:
        """The column of the expression; None if the file has none of its source columns, so that it is NULL."""
        leaves = [self._footer.leaf(source.recorded) for source in self._field.sources]
        if all(leaf is None for leaf in leaves) and not self._alike():
            return None
        evaluated = self._reader.evaluated
        values, made = evaluated.values, evaluated.made
        return LeafColumn(
            path=path,
            position=-1,
            type=None if values is None else values.type,
            type_text=evaluated.reason if values is None else str(values.type),
            field_id=None,
            repeated=False,
            partly_absent=any(leaf is not None and leaf.partly_absent for leaf in leaves),
            made=made,
        )

    def alike(self, path: tuple[str, ...], field_id: int | None) -> tuple[LeafColumn, ...]:
        """Empty: a column that may be taken for a source column makes the expression unknown, with the reason."""
        return ()

    def _alike(self) -> bool:
        return any(self._footer.alike(source.recorded, source.field_id) for source in self._field.sources)

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """One chunk without statistics."""
        return [ChunkStatistics(self.row_count, self.row_count, None, None, None)]


def _source(footer: ParquetFooter, leaf: LeafColumn) -> SourceColumn:
    parquet, in_range = reading_of(footer, leaf)
    return SourceColumn(leaf.type_text, parquet, in_range)
