"""Any predicate text to the common expression form, by the SQL parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.expr.text.dialects import dialect_of, parse_condition
from pruner.expr.text.literals import plain_list
from pruner.expr.text.scan import ScannedText, scan
from pruner.expr.text.translate import Translator

if TYPE_CHECKING:
    from pruner.expr.nodes import Expr, Literal
    from pruner.expr.semantics import Semantics


def parsed(text: str, semantics: Semantics) -> Expr:
    """Parse one boolean SQL expression in the dialect of the engine, whatever it is.

    Raises:
        PredicateError: as `pruner.expr.text.sql.parse_predicate` does.
    """
    dialect = dialect_of(semantics)
    scanned = scan(text, dialect.tokens)
    lists: dict[str, tuple[Literal, ...]] = {}
    for taken in scanned.lists:
        literals = plain_list(taken.body, semantics)
        if literals is None:
            return _parse_whole(text, semantics, scanned.nesting)
        lists[taken.name] = literals
    translator = Translator(semantics, lists)
    expression = translator.predicate(parse_condition(scanned, dialect))
    # Each name stands once in the text; one that is no IN list there was in a string or comment after all.
    if translator.lists_used != len(lists):
        return _parse_whole(text, semantics, scanned.nesting)
    return expression


def _parse_whole(text: str, semantics: Semantics, nesting: int) -> Expr:
    """Give the parser the lists as well: one of them holds more than plain constants, or is not one of IN."""
    whole = ScannedText(text, text, (), nesting)
    whole.check_length()
    return Translator(semantics, {}).predicate(parse_condition(whole, dialect_of(semantics)))
