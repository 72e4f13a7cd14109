"""Statements, or parts of them, that metadata answers: less is read, and proved results become constants.

An aggregate over a table becomes the aggregate of two parts, the proved one as constants and the other over what is
left to read, with the same names and types. A SELECT of first rows reads the files that hold them. Both require that
the whole condition of the SELECT is known, which is more than pruning needs: see `Predicates.whole`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner import Answer
from pruner_duckdb.read.native import folded
from pruner_duckdb.rewrite.blocks import AggregateCall, Aggregation, Condition, Extremes, SelectBlock, TopN
from pruner_duckdb.sql.engine_faults import MISREADS_BEHIND_NULLS_FIRST
from pruner_duckdb.sql.queries import nodes_below
from pruner_duckdb.sql.select import Select, Span, splice
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner import Plan
    from pruner_duckdb.read.scan import Bind
    from pruner_duckdb.read.shape import ScanShape
    from pruner_duckdb.shadow.predicates import ReferenceColumn

Edits = list[tuple[Span, str]]

MOST_GROUPS = 10_000
"""Most groups that are written into a statement as constants."""

DEFAULT_ORDER = (
    "SELECT system.main.current_setting('default_order'), system.main.current_setting('default_null_order')"
)

_SHOWN = frozenset(
    [
        *(
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "VARCHAR",
            "DATE",
            "TIMESTAMP",
        ),
        "TIMESTAMP WITH TIME ZONE",
    ]
)
"""Types of columns whose values can be written as constants of exactly the same type."""

_MERGED = {
    "count": "coalesce(system.main.sum({}), 0)::BIGINT",
    "distinct": "system.main.count(DISTINCT {})",
    "min": "system.main.min({})",
    "max": "system.main.max({})",
}
"""How two parts of an aggregate are combined; a number of distinct values, from the values."""

_ONE = "system.main.max({})"
"""The value of a constant."""


@dataclass(frozen=True, slots=True)
class ProvedValues:
    """What is proved about an aggregation: `values` has one value for each aggregate, or, with `groups`, an array with
    one value for each group; without groups, that of a distinct count is an array of the distinct values. `groups` has
    the values of the grouping columns. `kinds` says how each aggregate is combined with the rest.
    """

    values: Sequence[Any]
    kinds: Sequence[str]
    groups: Sequence[pa.Array[Any]] = ()


@dataclass(frozen=True, slots=True)
class BlockShortcut:
    """A part of a statement that reads less: the plan of what is left to read, and what is already proved."""

    block: SelectBlock
    plan: Plan
    constants: ProvedValues | None = None


def shortcut(
    block: SelectBlock,
    plan: Plan,
    only: Sequence[Plan],
    shape: ScanShape,
    order: Callable[[], Sequence[Any]],
) -> BlockShortcut | None:
    """What metadata answers about a part of a statement; None if nothing is gained.

    Args:
        block: the part.
        plan: the plan for its whole condition.
        only: for each of its aggregates, the plan for that condition and the one of its FILTER; empty if no aggregate
            has a FILTER.
        shape: how the columns are read.
        order: queries the session with `DEFAULT_ORDER`.
    """
    if not plan.kept:
        return None
    asks = block.asks
    if isinstance(asks, TopN):
        narrowed = _first_rows(asks, plan, shape, order)
        return None if narrowed.kept == plan.kept else BlockShortcut(block, narrowed)
    types = {name: data_type for name, data_type, _ in shape.columns}
    if any(
        aggregate.of_truth is not None and types.get(aggregate.column or "") != "BOOLEAN"
        for aggregate in asks.aggregates
    ):
        return None
    proved = None
    if isinstance(asks, Aggregation):
        columns = [
            *asks.groups,
            *(aggregate.column for aggregate in asks.aggregates if aggregate.kind != "count"),
        ]
        if all(name is None or _is_shown(name, types, shape) for name in columns):
            proved = _proved_part(asks, plan, only)
    if proved is not None and proved[1].kept < plan.kept:
        return BlockShortcut(block, proved[1], proved[0])
    if (
        not asks.aggregates
        or any(aggregate.kind not in ("min", "max") for aggregate in asks.aggregates)
        or only
    ):
        return None
    narrowed = _of_extremes(asks, plan, shape)
    return None if narrowed.kept == plan.kept else BlockShortcut(block, narrowed)


def _proved_part(asks: Aggregation, plan: Plan, only: Sequence[Plan]) -> tuple[ProvedValues, Plan] | None:
    if asks.groups:
        return _grouped(asks, plan)
    if not only:
        return _whole(asks, plan)
    return _whole(asks, only[0]) if all(each is only[0] for each in only) else _counted(asks, plan, only)


def _is_shown(name: str, types: Mapping[str, str], shape: ScanShape) -> bool:
    return types.get(name) in _SHOWN and name not in shape.hidden


def _first_rows(asks: TopN, plan: Plan, shape: ScanShape, order: Callable[[], Sequence[Any]]) -> Plan:
    if asks.column is None:
        if not asks.of_any and plan.snapshot.merges and plan.snapshot.has_logs[plan.ordinals].any():
            return plan  # merged rows come after all others: pages of fewer files would have another order
        return plan.limited(asks.rows, fewest=asks.of_any)
    if asks.column in shape.hidden:
        return plan
    descending, nulls_first = asks.descending, asks.nulls_first
    if descending is None or nulls_first is None:
        by_default, nulls = (str(key).upper() for key in order())
        descending = by_default.startswith("DESC") if descending is None else descending
        # Some settings depend on the direction: NULLs that may come first are assumed to.
        nulls_first = nulls != "NULLS_LAST" if nulls_first is None else nulls_first
        # The plan of a statement, which is checked for this fault, does not show the session's defaults.
        if nulls_first and MISREADS_BEHIND_NULLS_FIRST and not asks.within:
            return plan
    if not shape.hidden.isdisjoint(asks.within):
        return plan
    if asks.of_values:
        return plan.first_values(
            quote(asks.column), asks.rows, descending=descending, nulls_first=nulls_first
        )
    within = tuple(map(quote, asks.within)) or None
    return plan.first_of([(quote(asks.column), asks.rows, descending, nulls_first, None, within)])


def _of_extremes(asks: Aggregation | Extremes, plan: Plan, shape: ScanShape) -> Plan:
    """The files with the rows of extremes. Rows without the requested value are skipped."""
    within = tuple(map(quote, asks.groups)) or None
    orders: list[tuple[str, int, bool, bool, str | None, str | tuple[str, ...] | None]] = []
    for aggregate in asks.aggregates:
        assert aggregate.column is not None
        by, value = (
            (aggregate.column, None) if aggregate.by is None else (aggregate.by, quote(aggregate.column))
        )
        if not shape.hidden.isdisjoint([by, aggregate.column, *asks.groups]):
            return plan
        orders.append((quote(by), 1, aggregate.kind == "max", False, value, within))
    return plan.first_of(orders)


def _whole(asks: Aggregation, plan: Plan) -> tuple[ProvedValues, Plan] | None:
    """The aggregates over all rows."""
    wanted = [
        (
            "by" if aggregate.kind == "distinct" else aggregate.kind,
            None if aggregate.column is None else quote(aggregate.column),
        )
        for aggregate in asks.aggregates
    ]
    answers, rest = plan.answers(wanted)
    kinds = [aggregate.kind for aggregate in asks.aggregates]
    values: list[Any] = []
    for kind, answer in zip(kinds, answers, strict=True):
        column: Any = answer.proved.column("value")
        values.append(column.combine_chunks().drop_null() if kind == "distinct" else column[0])
    if "distinct" in kinds and rest.kept and len(kinds) > 1:
        return None
    if "distinct" in kinds and not rest.kept:
        values = [
            len(value) if kind == "distinct" else value for kind, value in zip(kinds, values, strict=True)
        ]
        kinds = ["one" if kind == "distinct" else kind for kind in kinds]
    if any(
        kind == "distinct" and len(value) > MOST_GROUPS for kind, value in zip(kinds, values, strict=True)
    ):
        return None
    return ProvedValues(values, kinds), rest


def _counted(asks: Aggregation, plan: Plan, only: Sequence[Plan]) -> tuple[ProvedValues, Plan] | None:
    """Row counts, each with its own condition. Files that one of them leaves unanswered are read for all of them."""
    if any(aggregate.kind != "count" for aggregate in asks.aggregates):
        return None
    wanted = [
        ("count", None if aggregate.column is None else quote(aggregate.column))
        for aggregate in asks.aggregates
    ]
    rest = np.zeros(plan.total, np.bool_)
    for each, call in zip(only, wanted, strict=True):
        rest |= each.answers([call])[1].kept_mask
    values: list[Any] = []
    for each, call in zip(only, wanted, strict=True):
        (answer,), left = each.among(~rest).answers([call])
        column: Any = answer.proved.column("value")
        values.append(column[0])
        if left.kept:
            return None
    read = Answer(None, np.flatnonzero(rest & plan.kept_mask), plan.snapshot, pa.table({}))
    return ProvedValues(values, ["count"] * len(values)), plan.unanswered(read)


def _grouped(asks: Aggregation, plan: Plan) -> tuple[ProvedValues, Plan] | None:
    """Aggregates by columns; row counts alone can also come from bitmaps."""
    kinds = [aggregate.kind for aggregate in asks.aggregates]
    if len(asks.groups) > 1 or any(aggregate.column is not None for aggregate in asks.aggregates):
        calls = [
            (aggregate.kind, None if aggregate.column is None else quote(aggregate.column))
            for aggregate in asks.aggregates
        ]
        answer, rest = plan.grouped([quote(group) for group in asks.groups], calls)
        values: list[Any] = [
            answer.proved.column(f"call_{number}").combine_chunks() for number in range(len(kinds))
        ]
    else:
        (answer,), rest = plan.answers([("by", quote(group)) for group in asks.groups])
        values = [answer.proved.column("rows").combine_chunks()] * len(kinds)
    names = ["value", *(f"value_{number}" for number in range(1, len(asks.groups)))]
    groups: list[Any] = [answer.proved.column(name).combine_chunks() for name in names]
    return None if len(groups[0]) > MOST_GROUPS else (ProvedValues(values, kinds, groups), rest)


def edits(
    shortcut: BlockShortcut, select: Select, shape: ScanShape, bind: Bind, source: str | None, marks: Edits
) -> Edits:
    """Edits that replace an aggregation in a statement.

    Args:
        shortcut: a shortcut with constants.
        select: the statement.
        shape: how the columns are read.
        bind: adds a value as one more parameter.
        source: what is left to read; None for nothing.
        marks: edits of the statement's own parameters.
    """
    block, constants = shortcut.block, shortcut.constants
    assert constants is not None
    assert isinstance(block.asks, Aggregation)
    inside = [] if block.where is None else _within(block.where, marks)
    types = {name: data_type for name, data_type, _ in shape.columns}
    parts = [_proved(block.asks, constants, types, bind)]
    if source is not None:
        calls = [
            _call(aggregate, _only_text(aggregate, select, marks)) for aggregate in block.asks.aggregates
        ]
        parts.append(_rest(block, constants, source, _text(select.text, block.where, inside), calls))
    together = " UNION ALL ".join(f"({part})" for part in parts)
    made: Edits = [(block.clause, f"({together}) AS {quote(block.reference.shown_as)}")]
    for number, (aggregate, kind) in enumerate(zip(block.asks.aggregates, constants.kinds, strict=True)):
        merged = _MERGED.get(kind, _ONE).format(_own(number))
        made.append((aggregate.span, f"({merged})"))
    return made


def extreme_of(shortcut: BlockShortcut, column: ReferenceColumn) -> Any:
    """The value of an aggregate known from metadata, as plans write it; None if it is unknown, or NULL."""
    asks, constants = shortcut.block.asks, shortcut.constants
    if not isinstance(asks, Aggregation) or asks.groups or constants is None or shortcut.plan.kept:
        return None
    for aggregate, value in zip(asks.aggregates, constants.values, strict=True):
        named = (aggregate.kind, aggregate.column) == (column.aggregate, column.column)
        if named and aggregate.only is None and aggregate.of_truth is None:
            return _as_in_plans(value, column.data_type)
    return None


def _as_in_plans(value: Any, data_type: str) -> Any:
    if not value.is_valid or not pa.types.is_temporal(value.type):
        return value.as_py()
    if data_type == "DATE":
        return value.cast(pa.date32()).value
    if data_type == "TIMESTAMP":
        return value.cast(pa.timestamp("us")).value
    return value.cast(pa.timestamp("us", "UTC")).value


def calls_of(shortcuts: Iterable[BlockShortcut]) -> list[int]:
    """Where the replaced aggregates begin."""
    asked = (block.block.asks for block in shortcuts if block.constants is not None)
    return [
        aggregate.span.start
        for asks in asked
        if isinstance(asks, Aggregation)
        for aggregate in asks.aggregates
    ]


def _own(number: int) -> str:
    return f"pruner_{number}"


def _proved(asks: Aggregation, constants: ProvedValues, types: Mapping[str, str], bind: Bind) -> str:
    """A query for the proved part: one row, or one for each group, or one for each distinct value."""
    shown: list[str] = []
    for group, values in zip(asks.groups, constants.groups, strict=True):
        shown.append(f"{_listed(values, types[group], bind)} AS {quote(group)}")
    for number, (aggregate, kind, value) in enumerate(
        zip(asks.aggregates, constants.kinds, constants.values, strict=True)
    ):
        data_type = (
            types[aggregate.column] if aggregate.column and kind in ("min", "max", "distinct") else "BIGINT"
        )
        if kind == "distinct" or constants.groups:
            written = _listed(value, data_type, bind)
        else:
            plain = _plain(value)
            written = f"NULL::{data_type}" if plain is None else f"{bind(plain)}::{data_type}"
        shown.append(f"{written} AS {_own(number)}")
    return f"SELECT {', '.join(shown)}"


def _listed(values: pa.Array[Any], data_type: str, bind: Bind) -> str:
    plain = [_plain(value) for value in values]
    return f"system.main.unnest({bind(plain)}::{data_type}[])"


def _plain(value: Any) -> Any:
    """A value as a parameter: dates and timestamps as text, which casts to all of their types."""
    if not hasattr(value, "as_py"):
        return value
    if value.is_valid and pa.types.is_temporal(value.type):
        return value.cast(pa.string()).as_py()
    return value.as_py()


def _rest(
    block: SelectBlock, constants: ProvedValues, source: str, where: str | None, calls: Sequence[str]
) -> str:
    """A query for the same aggregates over what is left to read."""
    asks = block.asks
    assert isinstance(asks, Aggregation)
    named_groups = [quote(group) for group in asks.groups]
    shown = [*named_groups, *(f"{call} AS {_own(number)}" for number, call in enumerate(calls))]
    distinct = "DISTINCT " if "distinct" in constants.kinds else ""
    condition = "" if where is None else f" WHERE ({where}\n)"
    groups = f" GROUP BY {', '.join(named_groups)}" if named_groups else ""
    named = f"{source} AS {quote(block.reference.shown_as)}"
    return f"SELECT {distinct}{', '.join(shown)} FROM {named}{condition}{groups}"


def _call(aggregate: AggregateCall, only: str | None) -> str:
    column = "*" if aggregate.column is None else quote(aggregate.column)
    if aggregate.kind == "distinct":
        return column
    name = "count" if aggregate.column is None else f"system.main.{aggregate.of_truth or aggregate.kind}"
    return f"{name}({column})" + ("" if only is None else f" FILTER (WHERE {only}\n)")


def _only_text(aggregate: AggregateCall, select: Select, marks: Edits) -> str | None:
    if aggregate.only is None:
        return None
    return _text(select.text, aggregate.only.span, _within(aggregate.only.span, marks))


def _text(text: bytes, span: Span | None, inside: Edits) -> str | None:
    """A part of a statement with edits applied."""
    if span is None:
        return None
    moved = [(Span(each.start - span.start, each.stop - span.start), new) for each, new in inside]
    return splice(text[span.start : span.stop], moved)


def _within(span: Span, made: Edits) -> Edits:
    return [edit for edit in made if span.start <= edit[0].start and edit[0].stop <= span.stop]


def loses_nan(block: SelectBlock, shape: ScanShape) -> bool:
    """Tell whether DuckDB may skip rows with NaN that meet the condition, because statistics of files leave out NaN.

    Then neither proved counts nor thresholds may include such rows: the answer must be that of plain DuckDB.
    """
    floats = {folded(name) for name, data_type, _ in shape.columns if data_type in ("FLOAT", "DOUBLE")}
    conditions = [block.condition, *(each.node for each in conditions_of(block))]
    named = (node for node in nodes_below(conditions) if node.get("class") == "COLUMN_REF")
    return any(folded(node["column_names"][-1]) in floats for node in named)


def conditions_of(block: SelectBlock) -> list[Condition]:
    """The conditions of its aggregates' FILTERs."""
    asked: Sequence[AggregateCall] = () if isinstance(block.asks, TopN) else block.asks.aggregates
    return [each.only for each in asked if each.only is not None]


def loses_parameters(shortcut: BlockShortcut, select: Select) -> bool:
    """Tell whether removing the conditions removes parameters: DuckDB rejects values without a parameter."""
    if shortcut.constants is None or shortcut.plan.kept:
        return False
    spans = [each.span for each in conditions_of(shortcut.block)]
    spans += [] if shortcut.block.where is None else [shortcut.block.where]
    return any(
        where.start <= parameter.span.start < where.stop for parameter in select.parameters for where in spans
    )


def condition_of(select: Select, block: SelectBlock, where: Span | None) -> str:
    """A SELECT of constants from the table with a condition of a part; its parameters are numbered."""
    assert block.reference.whole is not None
    marks = [(parameter.span, f"${parameter.identifier}") for parameter in select.parameters]
    inside = [] if where is None else _within(where, marks)
    told = _text(select.text, where, inside)
    table = select.text[block.reference.whole.start : block.reference.whole.stop].decode()
    return f"SELECT 1 FROM {table}" + ("" if told is None else f" WHERE ({told}\n)")


def names_columns(shape: ScanShape) -> bool:
    """Tell whether each name means one column, and none is a name of ours."""
    names = [folded(name) for name, _, _ in shape.columns]
    return len(set(names)) == len(names) and not any(name.startswith("pruner_") for name in names)


def without_covered(made: Edits, covered: Edits) -> Edits:
    """The edits that are not within the span of another one in `covered`."""
    return [edit for edit in made if not any(span.start <= edit[0].start < span.stop for span, _ in covered)]
