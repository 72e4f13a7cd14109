"""Parameters of the statement as it runs: the user's own and the lists of files, in one style."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import count
from typing import Any, cast

from pruner.errors import PrunerError
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.sql.forms import with_numbers
from pruner_duckdb.sql.literals import NoLiteral, sql_literal
from pruner_duckdb.sql.select import Select, Span, splice
from pruner_duckdb.sql.tokens import tokens
from pruner_duckdb.types import quote_text

_OWN = re.compile(r"\$(pruner_\d+)\b")

_numbers = count()
"""Unique within a process: DuckDB rejects a join of two relations with parameters of the same name."""


class Markers:
    """Adds parameters to those of the user; since DuckDB rejects a mix of styles, question marks get numbers.

    With `literal`, values are written out instead, for statements that take no parameters.
    """

    def __init__(self, select: Select, parameters: Parameters, *, literal: bool = False) -> None:
        self._select = select
        self._literal = literal
        self._named: dict[str, Any] | None = None
        self._numbered: dict[int, Any] = {}
        numbers = [
            int(parameter.identifier) for parameter in select.parameters if parameter.identifier.isdecimal()
        ]
        if isinstance(parameters, Mapping):
            self._named = dict(parameters)
        elif parameters or numbers:
            self._numbered = dict(enumerate(parameters or (), 1))
        else:
            self._named = {}
        self._last = max([*numbers, *self._numbered], default=0)
        """The user's highest number: one without a value stays free, so that DuckDB reports it as missing."""

    def bind(self, value: Any) -> str:
        """Add a parameter and return its marker.

        Raises:
            PrunerError: the value must be written out and has no literal.
        """
        if self._literal:
            return _written_out(value)
        if self._named is not None:
            name = f"pruner_{next(_numbers)}"
            while name in self._named:
                name += "_"
            self._named[name] = value
            return f"${name}"
        self._last += 1
        self._numbered[self._last] = value
        return f"${self._last}"

    def edits(self) -> list[tuple[Span, str]]:
        """Replacements that give each question mark its number."""
        text = self._select.text
        return [
            (parameter.span, f"${parameter.identifier}")
            for parameter in self._select.parameters
            if text[parameter.span.start : parameter.span.stop] == b"?"
        ]

    @property
    def values(self) -> dict[str, Any] | list[Any] | None:
        """All parameters, for DuckDB."""
        if self._named is not None:
            return self._named or None
        if len(self._numbered) == self._last:
            return list(self._numbered.values())
        return {str(number): value for number, value in self._numbered.items()}


def named_values(parameters: Parameters) -> Mapping[str, object]:
    """The values of parameters by their names or numbers."""
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    return {str(number): value for number, value in enumerate(parameters or (), 1)}


def renamed(sql: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Give each of our parameters another name that is unique within the process.

    Returns:
        None if it is not certain which parts of the text are our markers.
    """
    numbers = _OWN.findall(sql)
    own = {name for name in parameters if _OWN.fullmatch(f"${name}")}
    if len(numbers) != len(own) or set(numbers) != own or sql.count("$pruner_") != len(own):
        return None
    names = {name: f"pruner_{next(_numbers)}" for name in numbers}
    text = _OWN.sub(lambda marker: f"${names[marker.group(1)]}", sql)
    return text, {names.get(name, name): value for name, value in parameters.items()}


def _written_out(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_written_out(each) for each in cast('list[Any]', value))}]"
    # Metadata can answer with these, too (`max(x)` of infinite numbers); no predicate has them as constants.
    if isinstance(value, float) and not math.isfinite(value):
        return f"('{value}'::DOUBLE)"
    if isinstance(value, str) and "\0" in value:
        return f"({' || system.main.chr(0) || '.join(map(quote_text, value.split(chr(0))))})"
    try:
        return sql_literal(value)
    except NoLiteral as reason:
        raise PrunerError(
            f"a statement without parameters cannot hold {reason}: name the values of PIVOT with IN (…)"
        ) from None


def without_gone(text: str, before: str, parameters: Parameters) -> tuple[str, Parameters]:
    """A text that replaces another one, with the values of the parameters that are left: DuckDB rejects more values
    than a statement has parameters. The remaining numbers are made consecutive.

    Args:
        text: the new text, without question marks where `before` has other parameters than it.
        before: the statement as requested.
        parameters: its values.
    """
    if not parameters:
        return text, parameters
    marks = [token for token in tokens(text.encode()) if token.kind == "mark"]
    left = {token.text[1:].lower() for token in marks}
    asked = {token.text[1:].lower() for token in with_numbers(before.encode())[1] if token.kind == "mark"}
    gone = asked - left
    if not gone or any(token.text == "?" for token in marks):
        return text, parameters
    if isinstance(parameters, Mapping):
        return text, {name: value for name, value in parameters.items() if name.lower() not in gone} or None
    kept = [number for number in range(1, len(parameters) + 1) if str(number) not in gone]
    numbers = {str(number): f"${place}" for place, number in enumerate(kept, 1)}
    edits = [(Span(token.start, token.stop), numbers.get(token.text[1:], token.text)) for token in marks]
    return splice(text.encode(), edits), [parameters[number - 1] for number in kept] or None
