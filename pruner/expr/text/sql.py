"""Predicate text to the common expression form, in the dialects of `pruner.expr.text.dialects`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pruner.errors import SchemaError
from pruner.expr.text.plain import TEXT_IN_SINGLE_QUOTES, PlainTexts, is_certain, read_plain

if TYPE_CHECKING:
    from pruner.expr.nodes import Expr
    from pruner.expr.semantics import Semantics

_REMEMBERED_CHARACTERS = 4096
_QUOTED_NAME = re.compile(r'"([^"]+)"')
_plain_texts = PlainTexts()


def parse_predicate(text: str, semantics: Semantics) -> Expr:
    """Parse one boolean SQL expression in the dialect of the engine.

    Time is linear in the length of the text: about 0.15 ms for two comparisons, 10 microseconds for a further
    one, and 1 microsecond a value for IN lists of plain constants.

    Raises:
        PredicateError: the text is no such expression (with line, column and the token at fault), holds a
            subquery or a parameter, or exceeds the bounds of `pruner.limits`.

    """
    if len(text) <= _REMEMBERED_CHARACTERS:
        return _remembered(text, semantics)
    return _parse(text, semantics)


@lru_cache(maxsize=512)
def _remembered(text: str, semantics: Semantics) -> Expr:
    plain = None if semantics.traits.dialect is None else read_plain(text, semantics.traits)
    if plain is not None and is_certain(plain):
        return plain.expression
    return _plain_texts.parse(text, semantics, lambda: _parse(text, semantics))


def with_hint(error: SchemaError, text: str) -> SchemaError:
    """The error of a column that does not exist, and what was probably meant where it is in double quotes."""
    missing = any(f"no column {name!r}:" in str(error) for name in _QUOTED_NAME.findall(text))
    return SchemaError(f"{error}; {TEXT_IN_SINGLE_QUOTES}") if missing else error


def _parse(text: str, semantics: Semantics) -> Expr:
    """Parse a condition of any form, by the SQL parser."""
    # Imported here: the parser takes longer to load than a plan to make, and plain comparisons are read without it.
    from pruner.expr.text.dialects import dialect_of, parse_condition
    from pruner.expr.text.literals import plain_list
    from pruner.expr.text.scan import scan
    from pruner.expr.text.translate import Translator

    dialect = dialect_of(semantics)
    scanned = scan(text, dialect.tokens)
    lists = {taken.name: plain_list(taken.body, semantics) for taken in scanned.lists}
    known = {name: literals for name, literals in lists.items() if literals is not None}
    if len(known) == len(lists):
        condition = parse_condition(scanned, dialect)
        translator = Translator(semantics, known)
        expression = translator.predicate(condition)
        # Each name stands once in the text; one that is no IN list there was in a string or comment after all.
        if translator.lists_used == len(lists):
            return expression
    # One of the lists holds more than plain constants, or is not one of IN: the parser gets them as well.
    return Translator(semantics, {}).predicate(parse_condition(scanned.whole(), dialect))
