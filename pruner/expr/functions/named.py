"""From the calls that an engine's decoder and its SQL text give to the names of the registry.

One name can mean different things: `dayofweek` counts from 0 in DuckDB, from 1 in Spark and from Monday in Trino. What
no row names for a dialect is not known.

Trino's functions of bytes are known in the shapes that come to functions of text which others have. Others have digests
of a text as small letters: `lower(to_hex(md5(to_utf8(s))))` is their `md5(s)`. Plans have these names, the parser of
Trino's text gives some of them other names.
"""

from __future__ import annotations

from typing import Final

from pruner.expr.functions.function import SPARK, TRINO
from pruner.expr.functions.registry import FUNCTIONS, called
from pruner.expr.functions.shapes import not_known
from pruner.expr.nodes import Call, Expr, Literal

_HEX: Final = ("to_hex", "hex")


def of_bytes(call: Call) -> Call | None:
    """The function of text that a call is, whose bytes are those of a text; None where it is none."""
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
    """A digest in Trino's own spelling, as a part of what is not named yet."""
    [text] = digest.arguments
    return Call("lower", (Call("to_hex", (Call(digest.function, (Call("to_utf8", (text,)),)),)),))


def _text_of(node: Expr) -> Expr | None:
    """The text of which these are the bytes."""
    match node:
        case Call("to_utf8", (text,)) | Call("encode", (text, Literal(value="utf-8"))):
            return text
        case _:
            return None


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
