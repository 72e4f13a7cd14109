"""The indexes over expressions of one table, as binding finds them: by the expression, or by the index's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from pruner.errors import PrunerError
from pruner.expr.clock import nanoseconds
from pruner.expr.derived.canonical import Canonical, FindColumn, NotCanonical, canonical, parsed, shown
from pruner.expr.types import unit_of
from pruner.schema import Field

if TYPE_CHECKING:
    from pruner.expr.nodes import Expr
    from pruner.expr.semantics import Semantics

_UTC: Final = frozenset(
    {
        "utc",
        "etc/utc",
        "z",
        "zulu",
        "etc/zulu",
        "uct",
        "etc/uct",
        "universal",
        "etc/universal",
        "utc+0",
        "utc-0",
    }
    | {"gmt", "etc/gmt", "gmt0", "etc/gmt0", "+00:00", "-00:00", "+00", "greenwich", "etc/greenwich"}
)
"""Names of zones that are UTC at every moment, in small letters."""


class NotAnswered(Exception):  # noqa: N818 - binding makes an `Unknown` of it
    """There is an index over the expression, and it cannot answer this session; `str()` says why."""


def derived_field(found: Canonical) -> Field:
    """The field that stands for the values of an expression."""
    return Field(
        # No column of a file has an empty name above its own.
        path=("", shown(found.expression)),
        type=found.type,
        absent_is_null=all(each.absent_is_null for each in found.columns.values()),
        expression=found.text,
        sources=tuple(found.columns.values()),
    )


@dataclass(frozen=True)
class ExpressionIndexes:
    """Which expressions some index is over: names of indexes by the text of the form, and forms by the names."""

    names: Mapping[str, str]
    forms: Mapping[str, str]

    @classmethod
    def of(cls, indexes: Iterable[tuple[str, str]]) -> ExpressionIndexes:
        """Those of pairs of a name and a form."""
        pairs = list(indexes)
        return cls(
            {form: name for name, form in reversed(pairs)}, {name.casefold(): form for name, form in pairs}
        )

    def over(self, expression: Expr, find: FindColumn, semantics: Semantics) -> Field | None:
        """The field of an expression that an index is over; None where none is.

        Raises:
            NotAnswered: one is, and cannot answer an engine and session of these semantics.
        """
        if not self.names:
            return None
        try:
            found = canonical(expression, find, semantics.traits.name)
        except NotCanonical:
            return None
        name = self.names.get(found.text)
        if name is None:
            return None
        _require_compared(name, found, semantics)
        _require_clock(name, found, semantics)
        return derived_field(found)

    def named(self, name: str, find: FindColumn) -> Field | None:
        """The field of the expression that the index of a name is over; None where there is no such index."""
        form = self.forms.get(name.casefold())
        if form is None:
            return None
        try:
            return derived_field(canonical(parsed(form), find, None))
        except (NotCanonical, PrunerError, msgspec.DecodeError, msgspec.ValidationError):
            return None


NO_EXPRESSION_INDEXES: Final = ExpressionIndexes({}, {})


def _require_compared(name: str, found: Canonical, semantics: Semantics) -> None:
    """Refuse engines that were not compared with the evaluation of every function (trap I5)."""
    traits = semantics.traits
    for row in found.functions:
        if traits.name not in row.compared:
            raise NotAnswered(f"index {name}: the function {row.name} was not compared with {traits.title}")


def _require_clock(name: str, found: Canonical, semantics: Semantics) -> None:
    """Refuse sessions that read another clock than the evaluation, which is UTC's (traps S13, S18)."""
    if found.clocks and semantics.zone is None:
        raise NotAnswered(f"index {name} is evaluated in UTC, and the session's time zone is not known")
    if found.clocks and not is_utc(semantics.zone or ""):
        raise NotAnswered(
            f"index {name} is evaluated in UTC, and the session's time zone is {semantics.zone}"
        )
    if any(_is_rounded(each.type, semantics) for each in found.columns.values()):
        raise NotAnswered(f"index {name} is over moments that the engine rounds when it reads them")


def _is_rounded(type_: pa.DataType, semantics: Semantics) -> bool:
    unit = semantics.timestamp_unit
    if unit is None or not pa.types.is_timestamp(type_):
        return False
    return nanoseconds(unit) > nanoseconds(unit_of(type_))


def is_utc(zone: str) -> bool:
    """Tell whether a zone is UTC at every moment."""
    return zone.lower() in _UTC
