"""What the extension is told: the files of tables, and those that are left of them by filters."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pruner.adapters import switched_off
from pruner.errors import TableError
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import Semantics
from pruner_duckdb.catalog.pinned import SEMANTICS, Pinned
from pruner_duckdb.decode.decode import all_of
from pruner_duckdb.native_scan.filters import dynamic_predicates, static_predicates
from pruner_duckdb.native_scan.serving import Told, pin, serving, whole_sql
from pruner_duckdb.native_scan.workers import Numbers
from pruner_duckdb.scans import Scan
from pruner_duckdb.session.session import MEANING_SETTINGS

if TYPE_CHECKING:
    from pruner import PinnedSnapshot
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.shadow.shadow import Shadow

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_KEPT_BINDS = 4096
"""References of statements that are remembered until DuckDB asks about their filters."""

_KEPT_LISTS = 64
_NO_QUERY = str((1 << 64) - 1)
"""The query that DuckDB names where there is no statement: a relation asks for its columns."""

_NUMBERS = Numbers()
"""Of binds, lists and plans: all databases of a process share the extension's memory."""


class _Newest(Generic[_Key, _Value]):
    """The values that were put last. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: _Key, value: _Value) -> _Value:
        """Keep a value; of two for one key the first one stays and is returned."""
        with self._lock:
            value = self._values.setdefault(key, value)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


@dataclass(frozen=True)
class _Planned:
    """A plan with the predicates and the rules by which it was made: what is learned later comes on top."""

    scan: Scan
    parts: tuple[Expr, ...]
    reason: str | None
    semantics: Semantics


class TableAnswers:
    """Answers for the tables of one database; the scans that ran go to `last_plans`."""

    def __init__(self, tables: Sequence[KnownTable], shadow: Shadow, last_plans: deque[Scan]) -> None:
        self._tables = {each.name: each for each in tables}
        self._shadow = shadow
        self._last_plans = last_plans
        self._snapshots: _Newest[tuple[object, ...], PinnedSnapshot] = _Newest(_KEPT_BINDS)
        self._binds: _Newest[str, Pinned] = _Newest(_KEPT_BINDS)
        self._plans: _Newest[str, _Planned] = _Newest(_KEPT_BINDS)
        self._lists: _Newest[tuple[str, str], tuple[str, Told | str]] = _Newest(_KEPT_LISTS)
        self._files: _Newest[str, PinnedSnapshot] = _Newest(_KEPT_LISTS)

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
        pinned = pin(known, self._snapshot(known, question), self._shadow)
        bound = _NUMBERS.next()
        self._binds.put(bound, pinned)
        key = known.name, pinned.snapshot.id
        found = self._lists.get(key)
        if found is None:
            found = self._lists.put(key, (_NUMBERS.next(), serving(pinned, self._shadow)))
            self._files.put(found[0], pinned.snapshot)
        listed, told = found
        if isinstance(told, str):
            self._record(pinned.plan(TRUE, told, SEMANTICS))
            return "sql", whole_sql(pinned, self._shadow)
        folders = [(path[0], data_type) for _, data_type, path in pinned.shape.columns if path is not None]
        names = [text for each in (*folders, *told.columns) for text in each]
        form = "written" if pinned.snapshot.has_expression_indexes else ""
        return "files", bound, listed, str(told.rows), form, str(2 * len(folders)), *names

    def _snapshot(self, known: KnownTable, question: Mapping[str, Any]) -> PinnedSnapshot:
        """The same snapshot for all references of a statement (R8)."""
        key = question["connection"], question["query"], known.name
        found = None if question["query"] == _NO_QUERY else self._snapshots.get(key)
        if found is not None:
            return found
        # A file that is gone cannot be met by planning again: nobody knows here that the statement failed.
        known.look_again()
        snapshot = known.snapshot()
        return snapshot if question["query"] == _NO_QUERY else self._snapshots.put(key, snapshot)

    def _list(self, number: str) -> Sequence[str]:
        snapshot = self._files.get(number)
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
        # A condition may be met as it was written and again as DuckDB pushes it.
        parts = tuple(dict.fromkeys((*(before.parts if before else ()), *learned)))
        if before is not None:
            reason = reason or before.reason
        semantics = replace(SEMANTICS, zone=question["settings"].get("TimeZone"), now=question["now"] * 1000)
        scan = pinned.plan(TRUE if reason else all_of(parts), reason, semantics)
        number = _NUMBERS.next()
        self._plans.put(number, _Planned(scan, parts, reason, semantics))
        if scan.kept == scan.total:
            return number, "all"
        return number, np.asarray(scan.plan.ordinals, dtype=">u4").tobytes().hex()

    def _bound(self, question: Mapping[str, Any]) -> Pinned:
        pinned = self._binds.get(question["bound"])
        if pinned is None:
            raise TableError("the statement was bound too many statements ago")
        return pinned

    def _other_meaning(self, settings: Mapping[str, str]) -> str | None:
        """Why expressions of a session do not mean what they mean here; None where they do."""
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
