"""The scans of a statement, as Trino's EXPLAIN shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pruner.errors import PrunerError
from pruner_trino.filter_text import value_of_text
from pruner_trino.messages import Bound, ColumnDomain, Range, RangeValues

if TYPE_CHECKING:
    from trino.dbapi import Connection

_ASSIGNMENT = re.compile(r"(\S+) := (\S+?):.*:(REGULAR|PARTITION_KEY|SYNTHESIZED)")
_PARTITIONED_BY = re.compile(r"(?:\S+ := )?(\S+?):.*:PARTITION_KEY")
_OTHER_FORM = (KeyError, TypeError, AttributeError, IndexError)
# Hive writes catalog:schema:table, Hudi catalog:schema.table.
_TABLE = re.compile(r"([^:\s]+):([^:.\s]+)[:.]([^:\s]+)(?: constraint on .*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExplainedScan:
    """One scan.

    `table` is `catalog.schema.table`, or Trino's own words for one that is not named so. `symbols` has the columns by
    the symbols that stand for them in `filter`, each with where its values come from; `partitioned_by` those from the
    path, which may be in no filter because the partitions settle them.
    """

    table: str
    is_named: bool
    filter: str | None
    symbols: Mapping[str, tuple[str, str]]
    partitioned_by: frozenset[str]


def rows_of(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows.

    Raises:
        PrunerError: Trino refused it, or cannot be reached.
    """
    import requests
    import trino.exceptions

    try:
        cursor = cast(Any, connection).cursor()  # the client has no types
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]
    except (trino.exceptions.Error, requests.RequestException) as error:
        raise PrunerError(f"Trino did not answer {sql[:80]!r}: {error}") from error


def explained_scans(connection: Connection, sql: str) -> list[ExplainedScan]:
    """Return the scans of a statement, in the order of the plan's fragments.

    Raises:
        PrunerError: Trino cannot explain it, or explains it in a form that is not known here.
    """
    fragments = _explained(connection, sql, "LOGICAL")
    try:
        return [_scan(node) for node in _nodes(fragments) if "table" in node["descriptor"]]
    except _OTHER_FORM as error:
        raise _unknown_form(error) from error


def table_domains(connection: Connection, sql: str) -> dict[str, list[list[ColumnDomain | None]]]:
    """Return what `EXPLAIN (TYPE IO)` says of the columns of each table, `catalog.schema.table`.

    Once for each scan of it, in no order; None for a domain that cannot be read.

    Raises:
        PrunerError: Trino cannot explain the statement, or explains it in a form that is not known here.
    """
    found: dict[str, list[list[ColumnDomain | None]]] = {}
    explained = _explained(connection, sql, "IO")
    try:
        for scan in explained["inputTableColumnInfos"]:
            place = scan["table"]
            name = ".".join([place["catalog"], *(place["schemaTable"][part] for part in ("schema", "table"))])
            constraint = scan["constraint"]
            domains = [_domain(each) for each in constraint.get("columnConstraints", ())]
            found.setdefault(name.casefold(), []).append(domains)
    except _OTHER_FORM as error:
        raise _unknown_form(error) from error
    return found


def _domain(constraint: dict[str, Any]) -> ColumnDomain | None:
    type_, domain = constraint["type"], constraint["domain"]
    ranges: list[Range] = []
    for each in domain["ranges"]:
        ends = [_bound(each[end], type_) for end in ("low", "high")]
        if any(end is not None and end.value is None for end in ends):
            return None
        ranges.append(Range(*ends))
    return ColumnDomain(constraint["columnName"], domain["nullsAllowed"], RangeValues(ranges))


def _bound(end: dict[str, Any], type_: str) -> Bound | None:
    """One end of a range, None for an open one; the value in it is None where it cannot be read."""
    if "value" not in end:
        return None
    return Bound(value_of_text(type_, end["value"]), end["bound"] == "EXACTLY")


def _explained(connection: Connection, sql: str, kind: str) -> Any:
    text = str(rows_of(connection, f"EXPLAIN (TYPE {kind}, FORMAT JSON) {sql}")[0][0])
    try:
        return json.loads(text)
    except ValueError as error:
        raise _unknown_form(error) from error


def _unknown_form(error: Exception) -> PrunerError:
    return PrunerError(f"Trino's EXPLAIN has an unknown form: {error!r}")


def _nodes(fragments: Any) -> Iterator[dict[str, Any]]:
    pending: list[dict[str, Any]] = list(reversed(list(fragments.values())))
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node["children"])


def _scan(node: dict[str, Any]) -> ExplainedScan:
    described = cast("dict[str, str]", node["descriptor"])
    table = _TABLE.fullmatch(described["table"])
    symbols = {
        match[1]: (match[2], match[3])
        for line in node["details"]
        if (match := _ASSIGNMENT.fullmatch(line)) is not None
    }
    name = described["table"][:200] if table is None else ".".join(table.groups())
    partitioned_by = frozenset(
        match[1] for line in node["details"] if (match := _PARTITIONED_BY.fullmatch(line)) is not None
    )
    filter_ = described.get("filterPredicate") or None
    return ExplainedScan(name, table is not None, filter_, symbols, partitioned_by)
