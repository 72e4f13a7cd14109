"""Conditions over functions of `tests.support.functions.forms`, and what a bound form of each rules out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pruner.expr.binding.bind import bind
from pruner.expr.nodes import Expr
from pruner.expr.semantics import Semantics
from pruner.schema import Field, TableSchema
from tests.support.functions.forms import ARROW_TYPES
from tests.unit.expr.outcomes import ANYTHING, Outcomes, outcomes

Quote = Callable[[str, str], str]
"""Writes a result that the engine has shown as text, and what it is, as a constant of the engine's SQL."""


def conditions(function: str, literals: Sequence[str]) -> list[str]:
    """Conditions over a function with three constants each."""
    found: list[str] = []
    for one, two, three in zip(*[iter(literals)] * 3, strict=True):
        found += [f"{function} {operator} {one}" for operator in ("=", "<>", "<", "<=", ">", ">=")]
        found += [
            f"{two} < {function}",
            f"{function} IN ({one}, {two})",
            f"{function} NOT IN ({one}, {three})",
        ]
        found += [f"{function} BETWEEN {min(one, two)} AND {max(one, two)}", f"NOT ({function} > {three})"]
        if one.startswith("'"):
            found += _patterns(function, one.strip("'"), two.strip("'"))
    return [*found, f"({function}) IS NULL", f"({function}) IS NOT NULL"]


def _patterns(function: str, one: str, two: str) -> list[str]:
    """Conditions on how a text begins."""
    return [
        f"{function} LIKE '{one}%'",
        f"{function} NOT LIKE '{two[:1]}%'",
        f"{function} LIKE '{two[:2]}_%'",
        f"{function} LIKE '{one[:1]}%{two[-1:]}'",
        f"{function} LIKE '{two}'",
    ]


def constants(
    rng: random.Random, shown: Sequence[str | None], result: str, quote: Quote, count: int
) -> list[str]:
    """Constants among the results of a function that the engine has shown as text."""
    plain = sorted({each for each in shown if each is not None and _is_plain(each, result)})
    return [quote(rng.choice(plain), result) for _ in range(3 * count)] if plain else []


def guarded(text: str, places: set[int], count: int) -> str:
    """An expression that is evaluated for the values at the places alone, which `n` numbers from 0 to `count` - 1."""
    others = set(range(count)) - places
    if not others:
        return f"({text})"
    test, listed = ("NOT IN", others) if len(others) < len(places) else ("IN", places)
    return f"IF(n {test} ({', '.join(map(str, sorted(listed)))}), {text}, NULL)"


def _is_plain(text: str, result: str) -> bool:
    if result in ("date", "wall", "instant"):
        return len(text.partition("-")[0]) == 4 and "BC" not in text
    return True


@dataclass(frozen=True)
class Claim:
    """What a form of a condition, bound to a column of one type, says of each value of it."""

    condition: str
    source: str
    expression: Expr
    kind: str
    semantics: Semantics
    values: Sequence[Any]

    @cached_property
    def possible(self) -> dict[Any, Outcomes]:
        """The answers that it leaves possible for each value."""
        schema = TableSchema((Field(("c",), ARROW_TYPES[self.kind]),))
        bound = bind(self.expression, schema, self.semantics, strict=False)
        return {value: outcomes(bound, value) for value in self.values}

    @property
    def spoken_of(self) -> set[int]:
        """The places of the values of which it rules out an answer."""
        return {place for place, value in enumerate(self.values) if self.possible[value] != ANYTHING}

    @property
    def drops(self) -> bool:
        """Whether it rules out that the condition is true of a value."""
        return any(True not in each for each in self.possible.values())

    def check(self, place: int, answer: bool | None) -> None:
        """Hold the engine's answer about one value against it."""
        value = self.values[place]
        assert answer in self.possible[value], (
            f"{self.source}: {self.condition}, {self.semantics.zone}, ANSI {self.semantics.ansi}: "
            f"c = {value!r} gives {answer}, and {set(self.possible[value])} was claimed"
        )
