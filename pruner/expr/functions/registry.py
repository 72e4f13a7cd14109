"""The registry of functions: one row for each, and the names that engines' calls have there.

A function that is not here is opaque. A new one is a row, and a form in `tests/support` by which engines are compared.

It maps calls from an engine's decoder and SQL text to the names of the registry.

One name can mean different things: `dayofweek` counts from 0 in DuckDB, from 1 in Spark and from Monday in Trino. What
no row names for a dialect is unknown.

Trino's functions of bytes are known in the forms that amount to functions of text in other engines. These return
digests of a text in lower case: `lower(to_hex(md5(to_utf8(s))))` is their `md5(s)`. Plans have these names; the parser
of Trino's text gives some of them other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pruner.expr.engines import SqlEngine
from pruner.expr.functions.function import SPARK, TRINO, Argument
from pruner.expr.functions.of_conditions import CONDITION_ROWS
from pruner.expr.functions.of_moments import MOMENT_ROWS
from pruner.expr.functions.of_numbers import NUMBER_ROWS
from pruner.expr.functions.of_texts import TEXT_ROWS
from pruner.expr.functions.shapes import not_known
from pruner.expr.nodes import Call, Expr, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.expr.functions.function import Cast, Evaluation, Function

REGISTRY_VERSION: Final = 2
"""Incremented when an evaluation changes in meaning or domain; its `changed` is then the new version.

2: Trino rounds moments to milliseconds; text that is not UTF-8 is in no domain.
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
    """The function for a name that an engine's decoder uses; None where no row has the name."""
    return _OWN.get(engine, {}).get(name) or _CALLED.get(name)


def form_name(name: str, engine: SqlEngine) -> str:
    """The name in the expression form of an engine's function: the engine's own name where no row has another."""
    row = _OWN.get(engine, {}).get(name)
    return name if row is None else row.form or name


def names_of(asking: SqlEngine, *types: pa.DataType) -> frozenset[str]:
    """An engine's names for the functions of any of these types that were compared with it."""
    of_types = [Argument(type_name) for type_name in types]
    return frozenset(
        name
        for name, row in _OWN.get(asking, {}).items()
        if any(
            asking in evaluation.compared
            and any(accepts(value) for accepts in evaluation.accepts for value in of_types)
            for evaluation in row.evaluations
        )
    )


def row_for(name: str, arguments: Sequence[Argument]) -> Evaluation | None:
    """The evaluation of a function for arguments of these types; None where there is none."""
    row = FUNCTIONS.get(name)
    return None if row is None else row.evaluation_of(arguments)


def cast_of_column(source: pa.DataType, target: pa.DataType) -> Function | None:
    """The function that a cast is, for conditions that imply something for a column."""
    return next((row for row, _ in _casts(source, target) if row.preimages), None)


def cast_of_index(source: pa.DataType, target: pa.DataType) -> Function | None:
    """The function that a cast is, for indexes over it."""
    return next((row for row, cast in _casts(source, target) if row.evaluations and not cast.of_column), None)


def _casts(source: pa.DataType, target: pa.DataType) -> Iterator[tuple[Function, Cast]]:
    for row in FUNCTIONS.values():
        for cast in row.casts:
            if cast.source(source) and cast.target(target):
                yield row, cast


_HEX: Final = ("to_hex", "hex")


def of_bytes(call: Call) -> Call | None:
    """The function of text that a call on a text's bytes amounts to; None where there is none."""
    match call.function, call.arguments:
        case "lower", (Call(name, (inner,)),) if name in _HEX:
            return _digest(inner)
        case "lower_hex", (inner,):
            return _digest(inner)
        case "to_hex" | "hex", (inner,):
            text = _text_of(inner)
            digest = _digest(inner)
            if text is not None:
                return Call("hex", (text,))
            return None if digest is None else Call("upper", (_named_again(digest),))
        case "length", (inner,):
            text = _text_of(inner)
            return None if text is None else Call("bytes", (text,))
        case _:
            return None


def _digest(node: Expr) -> Call | None:
    match node:
        case Call("md5" | "md5_digest", (inner,)):
            name = "md5"
        case Call("sha256", (inner,)) | Call("s_h_a2_digest", (inner, Literal(value=256))):
            name = "sha256"
        case _:
            return None
    text = _text_of(inner)
    return None if text is None else Call(name, (text,))


def _named_again(digest: Call) -> Call:
    """A digest in Trino's own spelling, as part of a call that is not named yet."""
    [text] = digest.arguments
    return Call("lower", (Call("to_hex", (Call(digest.function, (Call("to_utf8", (text,)),)),)),))


def _text_of(node: Expr) -> Expr | None:
    """The text whose bytes these are."""
    match node:
        case Call("to_utf8", (text,)) | Call("encode", (text, Literal(value="utf-8"))):
            return text
        case _:
            return None


_PARTS_OF: Final = frozenset({"date_part", "datepart", "extract"})
"""Functions whose first argument names another function, a part of a moment."""

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
"""Parts of `date_part` that are whole numbers in DuckDB and Trino; in Spark a second has a fraction."""


def named(call: Call, dialect: str | None) -> Call | str:
    """A call under its name in the canonical form, or one sentence that says why there is none.

    Args:
        call: as a decoder returned it.
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
