"""Answers to the extension: the files of tables, and those that filters leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pruner.adapters import switched_off
from pruner.errors import TableError
from pruner.expr.build import any_of
from pruner.expr.functions.now import is_moment
from pruner.expr.nodes import TRUE, Column, Compare, Expr, In, Opaque, Operator, conjunction
from pruner.expr.semantics import Semantics
from pruner.expr.walk import nodes_of
from pruner_duckdb.catalog.tables import SEMANTICS, Pinned
from pruner_duckdb.decode.calls import UndecodablePart, constants, function_name
from pruner_duckdb.decode.decode import all_of, decode_expression, decode_value
from pruner_duckdb.native_scan.library import Numbers
from pruner_duckdb.native_scan.serving import TableDescription, pin, serving, whole_sql
from pruner_duckdb.scans import Scan
from pruner_duckdb.session.session import MEANING_SETTINGS
from pruner_duckdb.shadow.shadow import NewestValues
from pruner_duckdb.sql.engine_faults import nan_option
from pruner_duckdb.sql.queries import Node, nodes_below

if TYPE_CHECKING:
    from pruner import PinnedSnapshot
    from pruner.adapters import Newest
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.shadow.shadow import Shadow

# Conversion of filters as the extension writes them to one predicate.

_OWN_CATALOG = "system"
"""The catalog of DuckDB's own functions."""


def static_predicates(columns: Sequence[str | None], filters: Sequence[Any]) -> Iterable[Expr]:
    """The filters of a scan during optimization, all of which must hold.

    Args:
        columns: names of the scanned columns, None for those that are no plain columns.
        filters: expressions over them; one that could not be serialized is a text.
    """

    def column_of(node: Node) -> Column | None:
        place = node.get("binding", {}).get("column_index", -1)
        name = columns[place] if isinstance(place, int) and 0 <= place < len(columns) else None
        return None if name is None else Column((name,))

    return (_predicate(filter_, column_of) for filter_ in filters)


def dynamic_predicates(filters: Sequence[Mapping[str, Any]]) -> Iterable[Expr]:
    """The filters that DuckDB learned before a scan starts, each over one column."""
    return map(_learned, filters)


def _learned(filter_: Mapping[str, Any]) -> Expr:
    """The predicate of an expression, or of the keys of a join: each key, or the bounds of ranges that contain them."""

    def column_of(_: Node) -> Column:
        return Column((filter_["column"],))

    if "expression" in filter_:
        return _predicate(filter_["expression"], column_of)
    try:
        operand = decode_value(filter_["input"], column_of)
        keys = constants(filter_["type"], filter_["keys" if "keys" in filter_ else "ends"])
    except UndecodablePart as reason:
        return Opaque((column_of({}),), "the keys of a join", str(reason))
    if "keys" in filter_:
        return In(operand, tuple(keys))
    ranges = list(zip(keys[::2], keys[1::2], strict=True))
    single = tuple(low for low, high in ranges if low == high)
    wide = [
        conjunction((Compare(Operator.GE, operand, low), Compare(Operator.LE, operand, high)))
        for low, high in ranges
        if low != high
    ]
    return any_of((*((In(operand, single),) if single else ()), *wide))


def _predicate(filter_: Any, column_of: Callable[[Node], Column | None]) -> Expr:
    if not isinstance(filter_, dict):
        return Opaque((), str(filter_), "DuckDB cannot write it as JSON")
    node = cast("Node", filter_)
    foreign = next((name for name in map(_foreign_function, nodes_below(node)) if name), None)
    if foreign is not None:
        return Opaque((), foreign, f"function {foreign} is not DuckDB's own")
    return decode_expression(node, column_of)


def _foreign_function(node: Node) -> str | None:
    """The name of a user's function that hides one of DuckDB's; None for anything else."""
    if node.get("expression_class") != "BOUND_FUNCTION":
        return None
    path: list[str] = node.get("qname", {}).get("path") or []
    return function_name(node) if len(path) > 1 and path[0] != _OWN_CATALOG else None


_KEPT_BINDS = 4096
"""Number of table references that are kept until DuckDB asks about their filters."""

_KEPT_LISTS = 64

_SECONDS_SERVED = 600.0
_SECONDS_WITH_FALLBACKS = 5.0
"""How long an answer is reused: shorter if an index could not be read, which may be readable again."""

_NUMBERS = Numbers()
"""Numbers of binds, lists and plans: all databases of a process share the extension's memory."""


@dataclass(frozen=True)
class _Planned:
    """A plan with its predicates and semantics: predicates that are learned later are added to them."""

    scan: Scan
    parts: tuple[Expr, ...]
    reason: str | None
    semantics: Semantics


@dataclass(frozen=True)
class _Bound:
    """What a table is bound to until it changes, and the fields of the answer.

    `told` is the reason if no single scan can read the snapshot.
    """

    number: str
    pinned: Pinned
    told: TableDescription | str
    fields: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class TableAnswers:
    """Answers for the tables of one database; the scans that ran are added to `last_plans`."""

    def __init__(self, tables: Sequence[KnownTable], shadow: Shadow, last_plans: Newest[Scan]) -> None:
        self._tables = {table.name: table for table in tables}
        self._shadow = shadow
        self._last_plans = last_plans
        self._newest: dict[str, _Bound] = {}
        self._binds: NewestValues[str, Pinned] = NewestValues(
            _KEPT_BINDS, lambda pinned: pinned.snapshot.data
        )
        self._plans: NewestValues[str, _Planned] = NewestValues(
            _KEPT_BINDS, lambda planned: planned.scan.plan.snapshot
        )
        self._lists: NewestValues[tuple[str, str], tuple[str, TableDescription | str]] = NewestValues(
            _KEPT_LISTS
        )
        self._files: NewestValues[str, PinnedSnapshot] = NewestValues(
            _KEPT_LISTS, lambda snapshot: snapshot.data
        )

    def answer(self, question: Mapping[str, Any]) -> Sequence[str]:
        """The fields of an answer.

        Raises:
            PrunerError: a table cannot be listed.
        """
        match question["kind"]:
            case "bind":
                return self._bind(question)
            case "files":
                return self._list(question["list"])
            case "static":
                return self._static(question)
            case "dynamic":
                return self._dynamic(question)
            case "start":
                self._start(question)
                return ()
            case other:
                raise TableError(f"the extension asks for {other!r}, which nobody knows")

    def _bind(self, question: Mapping[str, Any]) -> Sequence[str]:
        known = self._tables[question["table"]]
        # A removed file cannot be handled by planning again: failures of statements are not visible here.
        known.look_again()
        snapshot = known.snapshot()
        bound = self._newest.get(known.name)
        if bound is None or not bound.pinned.snapshot.plans_as(snapshot):
            bound = self._newest[known.name] = self._bound_to(known, snapshot)
        if isinstance(bound.told, str):
            return "sql", bound.number, bound.told, whole_sql(bound.pinned, self._shadow)
        watched = [f"{folder.kind[0]}{folder.path}" for folder in snapshot.watched() or ()]
        return "files", bound.number, *bound.fields, str(len(watched)), *watched, *bound.names

    def _bound_to(self, known: KnownTable, snapshot: PinnedSnapshot) -> _Bound:
        pinned = pin(known, snapshot, self._shadow)
        key = known.name, snapshot.id
        numbered = self._lists.get(key)
        if numbered is None:
            numbered = self._lists.put(key, (_NUMBERS.next(), serving(pinned, self._shadow)))
            self._files.put(numbered[0], snapshot)
        listed, told = numbered
        number = _NUMBERS.next()
        self._binds.put(number, pinned)
        if isinstance(told, str):
            return _Bound(number, pinned, told)
        folders = [(path[0], data_type) for _, data_type, path in pinned.shape.columns if path is not None]
        names = tuple(text for column in (*folders, *told.columns) for text in column)
        form = "written" if snapshot.has_expression_indexes else ""
        form += " nan" if snapshot.data.hides_nan and nan_option(pinned.shape.columns) else ""
        return _Bound(number, pinned, told, (listed, str(told.rows), form, str(2 * len(folders))), names)

    def _list(self, number: str) -> Sequence[str]:
        # The extension may have dropped a list that is still current for its table.
        known = (bound.pinned.snapshot for bound in list(self._newest.values()) if number in bound.fields[:1])
        snapshot = self._files.get(number) or next(known, None)
        if snapshot is None:
            raise TableError("the list of files is no longer known: run the statement again")
        uris: list[Any] = snapshot.data.base_files.to_pylist()
        return [str(uri).removeprefix("file://") for uri in uris]

    def _static(self, question: Mapping[str, Any]) -> Sequence[str]:
        return self._planned(question, static_predicates(question["columns"], question["filters"]))

    def _dynamic(self, question: Mapping[str, Any]) -> Sequence[str]:
        return self._planned(question, dynamic_predicates(question["filters"]))

    def _planned(self, question: Mapping[str, Any], learned: Iterable[Expr]) -> Sequence[str]:
        before = self._plans.get(question["plan"])
        pinned = self._bound(question)
        reason = switched_off() or self._other_meaning(question["settings"])
        # A condition may arrive as it was written, and again as DuckDB pushes it.
        parts = tuple(dict.fromkeys((*(before.parts if before else ()), *learned)))
        if before is not None:
            reason = reason or before.reason
        semantics = replace(SEMANTICS, zone=question["settings"].get("TimeZone"), now=question["now"] * 1000)
        scan = pinned.plan(TRUE if reason else all_of(parts), reason, semantics)
        number = _NUMBERS.next()
        self._plans.put(number, _Planned(scan, parts, reason, semantics))
        kept = (
            "all" if scan.kept == scan.total else np.asarray(scan.plan.ordinals, dtype=">u4").tobytes().hex()
        )
        return number, kept, str(_seconds_served(scan, parts))

    def _bound(self, question: Mapping[str, Any]) -> Pinned:
        pinned = self._binds.get(question["bound"])
        if pinned is not None:
            return pinned
        # The extension keeps a bind for as long as its table does not change, whatever happens to other tables.
        for bound in list(self._newest.values()):
            if bound.number == question["bound"]:
                return bound.pinned
        raise TableError("the statement was bound too many statements ago")

    def _other_meaning(self, settings: Mapping[str, str]) -> str | None:
        """Why expressions mean something else in the session than here; None if they mean the same."""
        names = self._shadow.known_settings(MEANING_SETTINGS)
        for name, ours in zip(names, self._shadow.settings(names), strict=True):
            if settings.get(name) != ours:
                return f"the session's {name} is {settings.get(name)!r}"
        return None

    def _start(self, question: Mapping[str, Any]) -> None:
        planned = self._plans.get(question["plan"])
        pinned = self._bound(question)
        if planned is None or question["reason"]:
            semantics = SEMANTICS if planned is None else planned.semantics
            predicate = TRUE if planned is None else all_of(planned.parts)
            scan = pinned.plan(predicate, question["reason"] or switched_off(), semantics)
        else:
            scan = planned.scan
        self._record(scan)

    def _record(self, scan: Scan) -> None:
        self._last_plans.append(scan)
        scan.log()


def _seconds_served(scan: Scan, parts: Iterable[Expr]) -> float:
    """How long the extension may give the same answer to the same question about the same snapshot."""
    # DuckDB's binder makes a constant of now(), so the question differs each time; but nothing guarantees that.
    if any(is_moment(node) for part in parts for node in nodes_of(part)):
        return 0
    # The reason why a predicate could not be used may not recur.
    if scan.reason is not None:
        return 0
    return _SECONDS_WITH_FALLBACKS if scan.fallbacks else _SECONDS_SERVED
