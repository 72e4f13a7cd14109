"""Values of Trino's expressions with their types, and what comparing them with constants means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.expr.nodes import Compare, Expr, In, Literal, Operator
from pruner_trino.text import compare_text, text_in
from pruner_trino.types import TrinoType
from pruner_trino.values import NotUnderstood


@dataclass(frozen=True, slots=True)
class Part:
    """A value in the expression form with its type in Trino, None for one that predicates are never decided on.

    `stored` tells that it is a column as the files hold it, whose text Trino may still cut or pad.
    """

    expr: Expr
    type: TrinoType | None
    stored: bool = False

    @property
    def known(self) -> TrinoType:
        """The type.

        Raises:
            NotUnderstood: it is not known.
        """
        if self.type is None:
            raise NotUnderstood("a value of a type that is not supported")
        return self.type


def compare(operator: Operator, left: Part, right: Literal) -> Expr:
    """Return `left operator right`, with `right` of the type of `left`.

    Raises:
        NotUnderstood: what it means for the values in files is not certain.
    """
    if left.known.is_text and isinstance(right.value, str) and left.stored:
        return compare_text(left.expr, left.known, operator, right.value)
    return Compare(operator, left.expr, right)


def equals_any(left: Part, options: Sequence[Literal]) -> Expr:
    """Return `left IN (options)`, with options of the type of `left`.

    Raises:
        NotUnderstood: what it means for the values in files is not certain.
    """
    if left.known.is_text and left.stored and left.known.length is not None:
        texts = [option.value for option in options if isinstance(option.value, str)]
        if len(texts) < len(options):
            raise NotUnderstood("NULL in a list of text that is cut or padded")
        return text_in(left.expr, left.known, texts)
    if len(options) == 1:
        return Compare(Operator.EQ, left.expr, options[0])
    return In(left.expr, tuple(options))
