"""The indexes over expressions of one table, as binding finds them: by the expression, or by the index's name.

Which indexed expressions are functions of one column that never fall (`pruner.expr.functions.rising`), and the
provenance of recorded values: from which columns, by which evaluator and where they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from pruner.errors import PrunerError, first_line
from pruner.expr.derived.canonical import Canonical, FindColumn, NotCanonical, canonical, parsed, shown
from pruner.expr.exact.clock import nanoseconds
from pruner.expr.functions.function import Argument, Evaluate
from pruner.expr.functions.registry import row_for
from pruner.expr.functions.rising import Rising, in_storage
from pruner.expr.nodes import Call, Column, Expr, Literal
from pruner.expr.types import unit_of
from pruner.schema import Field

if TYPE_CHECKING:
    from pruner.expr.semantics import Semantics
    from pruner.schema import TableSchema


def rising(expression: Expr, field: Field, column: Field) -> Rising | None:
    """An expression as a function of a column that never falls; None where it may fall or is over another column.

    Args:
        expression: in the canonical form.
        field: represents its values.
        column: as the engine reads it.
    """
    function = _function(expression, column)
    if function is None:
        return None
    evaluate, _ = function
    return Rising(field, in_storage(evaluate, column.type, field.type))


def _function(node: Expr, column: Field) -> tuple[Evaluate, pa.DataType] | None:
    match node:
        case Column(path):
            return (lambda value: value, column.type) if path == column.path else None
        case Call(name, arguments):
            return _call(name, arguments, column)
        case _:
            return None


def _call(name: str, arguments: tuple[Expr, ...], column: Field) -> tuple[Evaluate, pa.DataType] | None:
    inner: Evaluate | None = None
    judged: list[Argument] = []
    for argument in arguments:
        if isinstance(argument, Literal):
            judged.append(Argument(argument.type, argument.value))
            continue
        function = _function(argument, column)
        if function is None or inner is not None:
            return None
        inner, type_ = function
        judged.append(Argument(type_))
    row = row_for(name, judged)
    outer = None if row is None or row.rises is None else row.rises(judged)
    if row is None or outer is None or inner is None:
        return None
    return _composed(outer, inner), row.result(judged)


def _composed(outer: Evaluate, inner: Evaluate) -> Evaluate:
    return lambda value: outer(inner(value))


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
"""Names of zones that are UTC at every moment, in lower case."""


_MOST_KNOWN: Final = 512
"""Most expressions that are cached."""


class NotAnswered(Exception):  # noqa: N818 - binding makes an `Unknown` of it
    """An index over the expression exists but cannot answer this session; `str()` says why."""


def derived_field(form: Canonical) -> Field:
    """The field that represents the values of an expression."""
    since = [column.since for column in form.columns.values() if column.since is not None]
    # In a file without the columns, `coalesce(x, -1)` has a value, which no index has seen.
    absent_is_null = not any(function.evaluation.of_null for function in form.functions) and all(
        column.absent_is_null for column in form.columns.values()
    )
    return Field(
        # No column of a file has a parent with an empty name.
        path=("", shown(form.expression)),
        type=form.type,
        absent_is_null=absent_is_null,
        since=max(since, key=lambda each: each.instant, default=None),
        expression=form.text,
        sources=tuple(form.columns.values()),
    )


class ExpressionIndexes:
    """The expressions of a table that are indexed.

    The field of an expression, or the reason why it is not answered, is cached: statements repeat.
    """

    def __init__(self, indexes: Iterable[tuple[str, str]] = (), schema: TableSchema | None = None) -> None:
        """Pairs of an index's name and form, over the columns of a schema."""
        pairs = list(indexes)
        self.names: Mapping[str, str] = {form: name for name, form in reversed(pairs)}
        self._forms = {name.casefold(): form for name, form in pairs}
        self._schema = schema
        self._known: dict[tuple[Expr, Semantics], Field | str | None] = {}
        self._rising: dict[Field, tuple[Rising, ...]] = {}

    def over(
        self, expression: Expr, find: FindColumn, semantics: Semantics, schema: TableSchema
    ) -> Field | None:
        """The field of an indexed expression; None where no index is over it.

        Args:
            expression: what is compared.
            find: resolves columns in `schema`, as the engine reads them.
            semantics: whose rules hold.
            schema: the plan's schema.

        Raises:
            NotAnswered: an index is, but cannot answer an engine and session of these semantics.
        """
        if not self.names:
            return None
        if schema is not self._schema:
            field = self._over(expression, find, semantics)
        else:
            key = (expression, semantics)
            if key not in self._known:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[key] = self._over(expression, find, semantics)
            field = self._known[key]
        if isinstance(field, str):
            raise NotAnswered(field)
        return field

    def _over(self, expression: Expr, find: FindColumn, semantics: Semantics) -> Field | str | None:
        try:
            form = canonical(expression, find, semantics.traits.name)
            name = self.names.get(form.text)
            if name is None:
                return None
            _require_compared(name, form, semantics)
            _require_clock(name, form, semantics)
        except NotCanonical:
            return None
        except NotAnswered as reason:
            return str(reason)
        return derived_field(form)

    def rising_over(self, column: Field, semantics: Semantics) -> tuple[Rising, ...]:
        """Indexed functions of a column that never fall, as the kernel evaluates them.

        The engine only reads the column and computes none of them, so neither its zone nor its spelling matters.

        Args:
            column: as the engine reads it.
            semantics: whose rules hold.
        """
        if not self.names or column.expression is not None or _is_rounded(column.type, semantics):
            return ()
        if column not in self._rising:
            if len(self._rising) >= _MOST_KNOWN:
                self._rising.clear()
            risings = (_rising_over(form, column) for form in self.names)
            self._rising[column] = tuple(rising for rising in risings if rising is not None)
        return self._rising[column]

    def named(self, name: str, find: FindColumn) -> Field | None:
        """The field of the expression of a named index; None where there is no such index."""
        form = self._forms.get(name.casefold())
        if form is None:
            return None
        try:
            return derived_field(canonical(parsed(form), find, None))
        except (NotCanonical, PrunerError, msgspec.DecodeError, msgspec.ValidationError):
            return None


def _rising_over(form: str, column: Field) -> Rising | None:
    def find(other: Column) -> Field | str:
        return column if other.path == column.path else "another column"

    try:
        canonical_form = canonical(parsed(form), find, None)
    except (NotCanonical, PrunerError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    return rising(canonical_form.expression, derived_field(canonical_form), column)


NO_EXPRESSION_INDEXES: Final = ExpressionIndexes()


def _require_compared(name: str, form: Canonical, semantics: Semantics) -> None:
    """Refuse engines that were not compared with the evaluation of every function (trap I5)."""
    traits = semantics.traits
    for function, evaluation in form.functions:
        if traits.name not in evaluation.compared:
            raise NotAnswered(f"index {name}: the function {function} was not compared with {traits.title}")


def _require_clock(name: str, form: Canonical, semantics: Semantics) -> None:
    """Refuse sessions that use another clock than the evaluation, which uses UTC (traps S13, S18)."""
    if form.clocks and semantics.zone is None:
        raise NotAnswered(f"index {name} is evaluated in UTC, and the session's time zone is not known")
    if form.clocks and not is_utc(semantics.zone or ""):
        raise NotAnswered(
            f"index {name} is evaluated in UTC, and the session's time zone is {semantics.zone}"
        )
    if any(_is_rounded(column.type, semantics) for column in form.columns.values()):
        raise NotAnswered(f"index {name} is over moments that the engine rounds when it reads them")


def _is_rounded(type_: pa.DataType, semantics: Semantics) -> bool:
    unit = semantics.timestamp_unit
    if unit is None or not pa.types.is_timestamp(type_):
        return False
    return nanoseconds(unit) > nanoseconds(unit_of(type_))


def is_utc(zone: str) -> bool:
    """Tell whether a zone is UTC at every moment."""
    return zone.lower() in _UTC


class SourceColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of the file: its type there as text, its Parquet type as text, and whether its numbers fit it."""

    type: str
    parquet: str | None
    in_range: bool


class Provenance(msgspec.Struct, frozen=True):
    """How the values of one slice were made.

    `agreed` are the engines that were compared with the evaluator on every input and intermediate value.
    """

    evaluator: str
    registry: int
    agreed: tuple[str, ...]
    sources: tuple[SourceColumn, ...]

    @property
    def text(self) -> str:
        """A text that `parse_made` parses back."""
        return msgspec.json.encode(self).decode()


@lru_cache(maxsize=4096)
def parse_made(text: str) -> Provenance | str:
    """Parse a text of `Provenance.text`; the reason where it is not one."""
    try:
        return msgspec.json.decode(text, type=Provenance)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return first_line(error)
