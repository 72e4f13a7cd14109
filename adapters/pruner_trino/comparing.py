r"""Comparisons with Trino's semantics: of values with constants, and of text whose type has a length.

For text columns whose type has a length, Trino truncates the values in files, and pads CHAR. A `varchar(n)` column
reads the first n characters of each value; a `char(n)` column reads them without trailing spaces and compares as if
they were followed by infinitely many spaces, so that 'a\x1f' comes before 'a'. The predicates built here are about the
values in files. Sources: Trino's `ValueDecoders`, `Chars.compareChars`; trinodb/trino#30187.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pruner.expr.exact.patterns import split_pattern
from pruner.expr.nodes import (
    Compare,
    Expr,
    In,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    conjunction,
    disjunction,
)
from pruner_trino.values import NotUnderstood, TrinoType

_STRING = pa.string()
_FIRST_PRINTABLE = " "


def compare_text(column: Expr, kind: TrinoType, operator: Operator, text: str) -> Expr:
    """Return `column operator text` as a predicate on the values in files.

    Args:
        column: the column, as stored in the files.
        kind: its type in Trino, a text type.
        operator: the comparison.
        text: a value of that type; for `char(n)`, without trailing spaces.

    Raises:
        NotUnderstood: the order of such a text is not certain.
    """
    if kind.name == "char":
        return _compare_char(column, operator, text)
    if _is_stored_as_is(text, kind):
        return Compare(operator, column, Literal(text, _STRING))
    # Every value that starts with the text is truncated to it.
    return _split(
        operator, below=Compare(Operator.LT, column, Literal(text, _STRING)), equal=_starts(column, text)
    )


def _is_stored_as_is(text: str, kind: TrinoType) -> bool:
    """Tell whether a value is neither padded nor the result of truncating longer values in files."""
    return kind.name == "varchar" and (kind.length is None or len(text) < kind.length)


def text_in(column: Expr, kind: TrinoType, texts: Sequence[str]) -> Expr:
    """Return `column IN (texts)` as a predicate on the values in files."""
    plain = [text for text in texts if _is_stored_as_is(text, kind)]
    others = [text for text in texts if not _is_stored_as_is(text, kind)]
    listed: tuple[Expr, ...] = (In(column, tuple(Literal(text, _STRING) for text in plain)),) if plain else ()
    return disjunction((*listed, *(compare_text(column, kind, Operator.EQ, text) for text in others)))


def text_like(column: Expr, kind: TrinoType, pattern: str, escape: str | None) -> Expr:
    """Return `column LIKE pattern [ESCAPE escape]` as a predicate on the values in files.

    Raises:
        NotUnderstood: it is not certain which values match.
    """
    split = split_pattern(pattern, escape)
    if kind.length is None or split is None:
        return Like(column, pattern, escape)
    if kind.name == "char":
        # LIKE sees the padding, which files may not have.
        starts = split.prefix.rstrip(" ")
        return conjunction((_starts(column, starts), _padded(column, f"LIKE {pattern!r}")))
    if len(split.prefix) > kind.length:
        raise NotUnderstood("a pattern that is longer than the column's values")
    if split.is_text:
        return compare_text(column, kind, Operator.EQ, split.prefix)
    return Like(column, pattern, escape)


def _compare_char(column: Expr, operator: Operator, text: str) -> Expr:
    """Values that do not start with the text are ordered by their bytes; of the others, only the text itself is
    certain.
    """
    literal = Literal(text, _STRING)
    starts, padded = _starts(column, text), _padded(column, f"{operator.value} {text!r}")
    same = Compare(Operator.EQ, column, literal)
    if operator in (Operator.EQ, Operator.NE):
        equal = disjunction((same, conjunction((starts, padded))))
        return equal if operator is Operator.EQ else Not(equal)
    if any(character < _FIRST_PRINTABLE for character in text):
        raise NotUnderstood("an order of CHAR values by characters below the space")
    below = Compare(Operator.LT, column, literal)
    longer = conjunction((starts, Not(same), padded))
    return _split(
        operator, below=disjunction((below, longer)), equal=disjunction((same, conjunction((starts, padded))))
    )


def _split(operator: Operator, *, below: Expr, equal: Expr) -> Expr:
    """A comparison built from the predicates for below and equal."""
    match operator:
        case Operator.EQ:
            return equal
        case Operator.NE:
            return Not(equal)
        case Operator.LT:
            return below
        case Operator.GE:
            return Not(below)
        case Operator.LE:
            return disjunction((below, equal))
        case Operator.GT:
            return Not(disjunction((below, equal)))


def _starts(column: Expr, text: str) -> Expr:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return Like(column, f"{escaped}%", None if escaped == text else "\\")


def _padded(column: Expr, text: str) -> Opaque:
    return Opaque((), f"padded {text[:60]}", "CHAR values are padded where they are read")


@dataclass(frozen=True, slots=True)
class TypedExpr:
    """A value in the expression form with its type in Trino, None for a type on which predicates are never decided.

    `stored` tells that it is a column as the files hold it, whose text Trino may still truncate or pad.
    """

    expr: Expr
    type: TrinoType | None
    stored: bool = False

    @property
    def known(self) -> TrinoType:
        """The type.

        Raises:
            NotUnderstood: it is unknown.
        """
        if self.type is None:
            raise NotUnderstood("a value of a type that is not supported")
        return self.type


def compare(operator: Operator, left: TypedExpr, right: Literal) -> Expr:
    """Return `left operator right`, with `right` of the type of `left`.

    Raises:
        NotUnderstood: its meaning for the values in files is not certain.
    """
    if left.known.is_text and isinstance(right.value, str) and left.stored:
        return compare_text(left.expr, left.known, operator, right.value)
    return Compare(operator, left.expr, right)


def equals_any(left: TypedExpr, options: Sequence[Literal]) -> Expr:
    """Return `left IN (options)`, with options of the type of `left`.

    Raises:
        NotUnderstood: its meaning for the values in files is not certain.
    """
    if left.known.is_text and left.stored and left.known.length is not None:
        texts = [option.value for option in options if isinstance(option.value, str)]
        if len(texts) < len(options):
            raise NotUnderstood("NULL in a list of text that is cut or padded")
        return text_in(left.expr, left.known, texts)
    if len(options) == 1:
        return Compare(Operator.EQ, left.expr, options[0])
    return In(left.expr, tuple(options))
