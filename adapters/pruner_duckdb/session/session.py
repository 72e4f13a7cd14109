"""What the user's session knows and the shadow does not: queried for each statement, because other handles may change
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from pruner_duckdb.shadow.answers import EXTENSIONS, Ask
from pruner_duckdb.shadow.predicates import Unpruned
from pruner_duckdb.shadow.shadow import (
    Definitions,
    NotPlanned,
    Relation,
    Shadow,
    readable_plans,
    setting_text,
)
from pruner_duckdb.sql.queries import nodes_below
from pruner_duckdb.types import quote, quote_text

MEANING_SETTINGS = (
    "default_collation",
    "Calendar",
    "ieee_floating_point_ops",
    "integer_division",
    "old_implicit_casting",
)
"""Settings, besides the time zone, that change the meaning of a comparison, a cast or an arithmetic operation."""

PARSER_SETTINGS = (
    "preserve_identifier_case",
    "max_expression_depth",
    "allow_parser_override_extension",
)
"""Settings that change how a text is parsed: queried, so that the answer of a session with other values differs."""

_NO_CATALOG = re.compile(r'Catalog ".*" does not exist!', re.DOTALL)

_NO_PLAN = '{"error":true'

_PLACE = re.compile(r'"query_location(?:_length)?":\d+,?')
"""The position of a part of a plan; for parts of a macro's body, it refers to the statement that created the macro."""

_FEW_PROBES = 8
"""Number of probes up to which the query is kept in parsed form."""

_SETTING = "system.main.current_setting('{}')"


@dataclass(frozen=True, slots=True)
class DuckDBSessionState:
    """The session's time zone, its settings, which of the names its catalog has, and its plans of some texts.

    `is_pristine` means that all of its functions and types are those of a new database.
    """

    zone: str
    settings: Mapping[str, str]
    known: frozenset[tuple[str, ...]]
    plans: Mapping[str, str]
    is_pristine: bool = False


def session_state(
    ask: Ask,
    shadow: Shadow,
    names: Sequence[tuple[str, ...]],
    comparison: str | None = None,
    *,
    is_pristine: bool = False,
) -> DuckDBSessionState:
    """Query the session's time zone, its settings, and which of `names` its catalog has as tables or views.

    Args:
        ask: runs a query in the session.
        shadow: knows which settings there are.
        names: looked up in the session's catalog.
        comparison: a text whose plan will most likely be needed next; queried with the rest, because each query takes
            about a millisecond.
        is_pristine: whether nothing has been defined there: then the session is pristine if it has no other extensions.
    """
    texts = [] if comparison is None or is_pristine else [comparison]
    if texts or is_pristine:
        try:
            return _session_state(ask, shadow, names, texts, is_pristine=is_pristine)
        except duckdb.Error:
            pass  # whatever is wrong here must not keep the statement from running
    return _session_state(ask, shadow, names, [], is_pristine=False)


def _session_state(
    ask: Ask, shadow: Shadow, names: Sequence[tuple[str, ...]], texts: list[str], *, is_pristine: bool
) -> DuckDBSessionState:
    wanted = shadow.known_settings(MEANING_SETTINGS)
    asked_for = ("TimeZone", *wanted, *shadow.known_settings(PARSER_SETTINGS))
    settings = ", ".join([*map(_SETTING.format, asked_for), f"({EXTENSIONS})" if is_pristine else "NULL"])
    probes = ", system.main.json_serialize_plan(?)" * (len(names) + len(texts))
    selects = [f"SELECT 1 FROM {'.'.join(quote(part) for part in name)}" for name in names]
    question = f"SELECT {settings}{probes}"
    # Views and schemas with many tables are queried only once.
    asked = shadow.question(question) if len(selects) + len(texts) <= _FEW_PROBES else question
    row = ask(asked, [*selects, *texts])
    values, (extensions,), answers, plans = _parts(row, len(asked_for), 1, len(names))
    known = frozenset(name for name, answer in zip(names, answers, strict=True) if _exists(answer))
    meaning = dict(zip(wanted, map(setting_text, values[1:]), strict=False))
    return DuckDBSessionState(
        str(values[0]),
        meaning,
        known,
        dict(zip(texts, plans, strict=True)),
        is_pristine=is_pristine and extensions == shadow.extensions,
    )


def transaction_start(ask: Ask) -> int:
    """When the session's transaction began, or this query's own if none is open: nanoseconds since 1970.

    In a statement that runs afterwards, `now()` is that time or later.
    """
    return int(ask("SELECT system.main.epoch_us(system.main.now())", [])[0]) * 1000


def _parts(row: tuple[Any, ...], *lengths: int) -> list[tuple[Any, ...]]:
    """A row split into parts of these lengths, and the rest."""
    parts: list[tuple[Any, ...]] = []
    for length in lengths:
        parts.append(row[:length])
        row = row[length:]
    return [*parts, row]


def _exists(answer: str) -> bool:
    """Tell whether a probe found its table; only a catalog error means that it did not."""
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return True
    if not told.get("error"):
        return True
    # DuckDB 1.5 reports a missing catalog as a binder error.
    missing = told.get("error_type") == "binder" and _NO_CATALOG.fullmatch(str(told.get("error_message")))
    return not (told.get("error_type") == "catalog" or missing)


def require_same_meaning(
    state: DuckDBSessionState, shadow: Shadow, ask: Ask, comparisons: Sequence[str], macros: Definitions = ()
) -> None:
    """Make sure that the session understands a statement as the shadow does.

    Args:
        state: the session's settings.
        shadow: the database that it is compared with.
        ask: runs a query in the session.
        comparisons: texts that read no table; it is enough if one of them means the same. Empty where nothing in the
            statement could be redefined.
        macros: the session's macros that the shadow must have.

    Raises:
        Unpruned: it does not, with the reason.
    """
    for (name, value), ours in zip(
        state.settings.items(), shadow.settings(tuple(state.settings)), strict=True
    ):
        if value != ours:
            raise Unpruned(f"the session's {name} is {value!r}")
    difference: tuple[str, str] | None = None
    for text in comparisons:
        theirs = state.plans.get(text)
        if theirs is None:
            theirs = ask("SELECT system.main.json_serialize_plan(?)", [text])[0]
        ours = shadow.bound_plan(text, state.zone, macros)
        if macros:
            theirs, ours = (_PLACE.sub("", plan) for plan in (theirs, ours))
        # Two equal errors say nothing about the text after the position of the error.
        if theirs == ours and not ours.startswith(_NO_PLAN):
            return
        difference = theirs, ours
    if difference is not None:
        raise Unpruned(_difference(*difference))


def _difference(theirs: str, ours: str) -> str:
    """Why two plans of one text differ, or why one of them is no plan."""
    for whose, plan in (("the session", theirs), ("the DuckDB that plans for it", ours)):
        try:
            readable_plans(plan)
        except NotPlanned as reason:
            return f"{whose} {reason}"
    return "the session gives a function, an operator or a type of the statement a meaning of its own"


def describe_relation(run: Callable[[str], duckdb.DuckDBPyRelation], text: str) -> Relation:
    """Return the shape of something that a statement reads besides tables of pruner.

    Args:
        run: makes a relation of a query in the user's session, where it sees the variables that the user sees.
        text: the reference as written.

    Raises:
        Unpruned: the shape cannot be determined outside of its statement.
    """
    try:
        relation = run(f"SELECT * FROM {text}")
        columns = list(zip(relation.columns, relation.types, strict=True))
    except duckdb.Error as error:
        reason = str(error).split("\n", 1)[0]
        raise Unpruned(f"the shape of {text[:80]!r} is not known ({reason})") from error
    unsure = [(name, str(data_type)) for name, data_type in columns if _may_be_collated(data_type)]
    if unsure and not (_plans_without_collation(run, text) or _compare_as_text(run, text, unsure)):
        raise Unpruned(f"column {unsure[0][0]!r} of {text[:80]!r} may have a collation of its own")
    return Relation(tuple((name, str(data_type)) for name, data_type in columns))


def _may_be_collated(data_type: Any) -> bool:
    """Tell whether values of a type may be compared by a collation, which the type's name does not show."""
    if "VARCHAR" not in str(data_type):
        return False
    try:
        from duckdb import _seam  # pyright: ignore[reportPrivateUsage]

        return _seam.collation(data_type) != ""
    except (ImportError, AttributeError):
        return True


def _plans_without_collation(run: Callable[[str], duckdb.DuckDBPyRelation], text: str) -> bool:
    """Tell whether the session's plan of a scan is readable and names no collation."""
    serialized = run(
        f"SELECT system.main.json_serialize_plan({quote_text(f'SELECT * FROM {text}')})"
    ).fetchall()
    try:
        plans = readable_plans(str(serialized[0][0]))
    except NotPlanned:
        return False
    return not any(node.get("collation") for node in nodes_below(plans))


def _compare_as_text(
    run: Callable[[str], duckdb.DuckDBPyRelation], text: str, columns: Sequence[tuple[str, str]]
) -> bool:
    """Tell whether columns are text compared without a collation, where a plan cannot be serialized (a data frame,
    CSV): EXPLAIN shows the functions that a collation puts around both sides of a comparison.
    """
    if any(data_type != "VARCHAR" for _, data_type in columns):
        return False
    sides = [f"pruner_t.{quote(name)}" for name, _ in columns]
    conditions = " AND ".join(f"{side} > {side} || 'x'" for side in sides)
    query = f"SELECT 1 FROM (SELECT * FROM {text}) pruner_t WHERE {conditions}"
    try:
        ((_, explained),) = run(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
    except (duckdb.Error, ValueError):
        return False
    plainly = [f"({name} > ({name} || 'x'))" for name, _ in columns]
    wanted = plainly[0] if len(plainly) == 1 else f"({' AND '.join(plainly)})"
    shown = [node.get("extra_info", {}).get("Expression") for node in nodes_below(json.loads(explained))]
    return wanted in shown
