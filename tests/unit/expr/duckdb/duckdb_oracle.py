"""DuckDB, optimizer off, as the oracle for predicates over one column `c`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import BoundExpr
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field, TableSchema
from tests.unit.expr.outcomes import outcomes


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """A connection of this process that evaluates exactly what is written."""
    opened = duckdb.connect(config={"threads": 1})
    opened.execute("PRAGMA disable_optimizer")
    return opened


def stored(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """An Arrow array of values of the storage domain."""
    if pa.types.is_date(data_type):
        return pa.array(values, pa.int32()).view(data_type)
    if pa.types.is_timestamp(data_type):
        return pa.array(values, pa.int64()).view(data_type)
    if pa.types.is_decimal(data_type):
        return pa.array(
            [None if each is None else unscaled(each, data_type.scale) for each in values], data_type
        )
    if pa.types.is_string(data_type):
        return pa.array([None if each is None else each.decode() for each in values], data_type)
    return pa.array(values, data_type)


def unscaled(value: int, scale: int) -> Decimal:
    """The decimal of an unscaled value, without rounding by a context."""
    return Decimal((int(value < 0), tuple(int(digit) for digit in str(abs(value))), -scale))


def answers(predicate: str, column: pa.Array, zone: str = "UTC") -> list[bool | None]:
    """DuckDB's answer for each value.

    Raises:
        duckdb.Error: DuckDB refuses the predicate, or fails on one of the values.
    """
    database = connection()
    database.execute(f"SET TimeZone = '{zone}'")
    database.register("t", pa.table({"c": column}))
    return [row[0] for row in database.execute(f"SELECT ({predicate}) FROM t").fetchall()]


def bound(predicate: str, data_type: pa.DataType, zone: str | None = "UTC") -> BoundExpr:
    """The predicate bound to a column `c` of that type, by DuckDB's rules, as an adapter binds it."""
    semantics = Semantics(engine="duckdb", zone=zone)
    schema = TableSchema((Field(("c",), data_type),))
    return bind(parse_predicate(predicate, semantics), schema, semantics, strict=False)


def check(
    predicate: str, values: Sequence[Any], data_type: pa.DataType, zone: str = "UTC", known: bool = True
) -> bool | None:
    """Assert that each answer of DuckDB is one that the bound predicate leaves possible.

    Returns:
        Whether anything was claimed (some outcome of some value excluded); None when DuckDB refuses the predicate.
    """
    claimed = bound(predicate, data_type, zone if known else None)
    try:
        found = answers(predicate, stored(values, data_type), zone)
    except duckdb.Error:
        return None
    claims = False
    for value, answer in zip(values, found, strict=True):
        possible = outcomes(claimed, value)
        assert answer in possible, (
            f"{predicate}: c = {value!r} gives {answer}, bound as {claimed} gives {possible}"
        )
        claims = claims or len(possible) < 3
    return claims
