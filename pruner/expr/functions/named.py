"""From the calls that an engine's decoder and its SQL text give to the names of the registry.

One name can mean different things: `dayofweek` counts from 0 in DuckDB, from 1 in Spark and from Monday in Trino. What
no row names for a dialect is not known.
"""

from __future__ import annotations

from typing import Final

from pruner.expr.functions.function import SPARK, TRINO
from pruner.expr.functions.of_bytes import of_bytes
from pruner.expr.functions.registry import FUNCTIONS, called
from pruner.expr.functions.shapes import not_known
from pruner.expr.nodes import Call, Literal

_PARTS_OF: Final = frozenset({"date_part", "datepart", "extract"})
"""Functions that name another one, a part of a moment, in their first argument."""

_PARTS: Final = frozenset(
    {
        "year",
        "quarter",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "doy",
        "dayofyear",
        "week",
        "isodow",
        "dow",
        "yearofweek",
    }
)
"""Parts of `date_part` that are whole numbers in DuckDB and Trino; in Spark a second has its fraction."""


def named(call: Call, dialect: str | None) -> Call | str:
    """A call by its name in the canonical form, or one sentence that says why there is none.

    Args:
        call: as a decoder gave it.
        dialect: whose decoder; None for a call that is in the canonical form.
    """
    if dialect is None:
        row = FUNCTIONS.get(call.function)
        known = row is not None and row.evaluations
        return call if known else f"the function {call.function} is not in the registry"
    bytes_ = of_bytes(call) if dialect == TRINO else None
    if bytes_ is not None:
        return bytes_
    if call.function in _PARTS_OF:
        return _part(call, dialect)
    row = called(call.function, dialect)
    if row is None or not row.evaluations:
        return not_known(call.function)
    return Call(row.name, call.arguments) if row.shape is None else row.shape(call, dialect)


def _part(call: Call, dialect: str) -> Call | str:
    match call.arguments:
        case (Literal(value=str(part)), operand) if part.lower() in _PARTS:
            if part.lower() == "yearofweek":
                return (
                    Call("year of week", (operand,)) if dialect == SPARK else f"the part {part} of a moment"
                )
            if dialect == SPARK and part.lower() in ("second", "dow"):
                return f"the part {part} of a moment"
            return named(Call(part.lower(), (operand,)), dialect)
        case _:
            return "a part of a moment that is not in the registry of functions that indexes may be over"
