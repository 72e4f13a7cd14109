"""The registry of functions: one row for each, whatever serves it (`pruner.expr.functions.function`).

A function that is not here is opaque. A new one is a row, and a form in `tests/support` by which engines are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pruner.expr.engines import SqlEngine
from pruner.expr.functions.function import Argument
from pruner.expr.functions.of_conditions import CONDITION_ROWS
from pruner.expr.functions.of_moments import MOMENT_ROWS
from pruner.expr.functions.of_numbers import NUMBER_ROWS
from pruner.expr.functions.of_texts import TEXT_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.expr.functions.function import Cast, Evaluation, Function

REGISTRY_VERSION: Final = 2
"""Counted up when an evaluation changes what it means or where it holds; it then names the new version as `changed`.

2: Trino rounds moments to milliseconds; text that is no UTF-8 lies in no domain.
"""

FUNCTIONS: Final[Mapping[str, Function]] = {
    row.name: row for row in (*MOMENT_ROWS, *TEXT_ROWS, *NUMBER_ROWS, *CONDITION_ROWS)
}
"""Every function by its name in the canonical form."""

_CALLED: Final = {name: row for row in FUNCTIONS.values() for name in (row.form, *row.called) if name}
_OWN: Final[Mapping[str, Mapping[str, Function]]] = {
    engine: {name: row for row in FUNCTIONS.values() for name in row.own.get(engine, ())}
    for engine in SqlEngine
}


def called(name: str, engine: str) -> Function | None:
    """The function that the decoder of an engine gives a name to; None where no row is of it."""
    return _OWN.get(engine, {}).get(name) or _CALLED.get(name)


def form_name(name: str, engine: SqlEngine) -> str:
    """What the expression form calls a function of an engine's: the engine's own name where no row has another."""
    row = _OWN.get(engine, {}).get(name)
    return name if row is None else row.form or name


def names_of(asking: SqlEngine, *types: pa.DataType) -> frozenset[str]:
    """What an engine calls the functions that were compared with it, of values of any of these types."""
    of_types = [Argument(each) for each in types]
    return frozenset(
        name
        for name, row in _OWN.get(asking, {}).items()
        if any(
            asking in each.compared and any(accepts(value) for accepts in each.accepts for value in of_types)
            for each in row.evaluations
        )
    )


def row_for(name: str, arguments: Sequence[Argument]) -> Evaluation | None:
    """The evaluation of a function for arguments of these types; None where there is none."""
    row = FUNCTIONS.get(name)
    return None if row is None else row.evaluation_of(arguments)


def cast_of_column(source: pa.DataType, target: pa.DataType) -> Function | None:
    """The function that a cast is of which a condition says something of a column."""
    return next((row for row, _ in _casts(source, target) if row.preimages), None)


def cast_of_index(source: pa.DataType, target: pa.DataType) -> Function | None:
    """The function that a cast is that an index may be over."""
    return next((row for row, cast in _casts(source, target) if row.evaluations and not cast.of_column), None)


def _casts(source: pa.DataType, target: pa.DataType) -> Iterator[tuple[Function, Cast]]:
    for row in FUNCTIONS.values():
        for cast in row.casts:
            if cast.source(source) and cast.target(target):
                yield row, cast
