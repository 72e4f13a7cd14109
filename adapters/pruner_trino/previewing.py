"""A preview of what would be pruned for a statement on Trino, from the scans in its EXPLAIN. Nothing is rewritten or
run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from pruner.catalog.names import Catalog, TableLike
from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE, Expr, conjunction, disjunction
from pruner.expr.semantics import Semantics
from pruner_trino.decode import decode_domain
from pruner_trino.expressions import Expressions
from pruner_trino.filter_text import read_filter, value_of_text
from pruner_trino.messages import Bound, ColumnDomain, Range, RangeValues, ScanColumn

if TYPE_CHECKING:
    from trino.dbapi import Connection

    from pruner import Plan

_ASSIGNMENT = re.compile(r"(\S+) := (\S+?):.*:(REGULAR|PARTITION_KEY|SYNTHESIZED)")
_PARTITIONED_BY = re.compile(r"(?:\S+ := )?(\S+?):.*:PARTITION_KEY")
_OTHER_FORM = (KeyError, TypeError, AttributeError, IndexError)
# Hive writes catalog:schema:table, Hudi catalog:schema.table.
_TABLE = re.compile(r"([^:\s]+):([^:.\s]+)[:.]([^:\s]+)(?: constraint on .*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExplainedScan:
    """One scan.

    `table` is `catalog.schema.table`, or Trino's own description of a table without such a name. `symbols` has the
    columns by the symbols that represent them in `filter`, each with where its values come from; `partitioned_by` has
    those from the path, which may be missing from the filter because the partitions decide them.
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
        PrunerError: Trino cannot explain it, or explains it in an unknown form.
    """
    fragments = _explained(connection, sql, "LOGICAL")
    try:
        return [_scan(node) for node in _nodes(fragments) if "table" in node["descriptor"]]
    except _OTHER_FORM as error:
        raise _unknown_form(error) from error


def table_domains(connection: Connection, sql: str) -> dict[str, list[list[ColumnDomain | None]]]:
    """Return what `EXPLAIN (TYPE IO)` says about the columns of each table, by `catalog.schema.table`.

    Each table has one list for each scan, in no order; None is a domain that cannot be read.

    Raises:
        PrunerError: Trino cannot explain the statement, or explains it in an unknown form.
    """
    by_table: dict[str, list[list[ColumnDomain | None]]] = {}
    explained = _explained(connection, sql, "IO")
    try:
        for scan in explained["inputTableColumnInfos"]:
            place = scan["table"]
            name = ".".join([place["catalog"], *(place["schemaTable"][part] for part in ("schema", "table"))])
            constraint = scan["constraint"]
            domains = [_domain(domain) for domain in constraint.get("columnConstraints", ())]
            by_table.setdefault(name.casefold(), []).append(domains)
    except _OTHER_FORM as error:
        raise _unknown_form(error) from error
    return by_table


def _domain(constraint: dict[str, Any]) -> ColumnDomain | None:
    type_, domain = constraint["type"], constraint["domain"]
    ranges: list[Range] = []
    for span in domain["ranges"]:
        ends = [_bound(span[end], type_) for end in ("low", "high")]
        if any(end is not None and end.value is None for end in ends):
            return None
        ranges.append(Range(*ends))
    return ColumnDomain(constraint["columnName"], domain["nullsAllowed"], RangeValues(ranges))


def _bound(end: dict[str, Any], type_: str) -> Bound | None:
    """One end of a range, None for an open one; its value is None where it cannot be read."""
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


_CONNECTORS = {"hive": "hive", "pruned_hive": "hive", "hudi": "hudi", "pruned_hudi": "hudi"}
_KINDS: dict[str, Literal["regular", "partition", "hidden"]] = {
    "REGULAR": "regular",
    "PARTITION_KEY": "partition",
}


@dataclass(frozen=True)
class ScanPreview:
    """One scan of a statement.

    `table` is its name in Trino, `filter` the predicate as Trino shows it (None without one). `plan` is the planner's
    plan, None where `reason` says why there is none. The plugin may leave out more: EXPLAIN does not show the values of
    dynamic filters, nor, for a table that is scanned several times, which scan reads which partitions.
    """

    table: str
    filter: str | None
    plan: Plan | None = None
    reason: str | None = None

    @property
    def kept(self) -> int | None:
        """Slices that must be read; None if unknown."""
        return None if self.plan is None else self.plan.kept

    @property
    def total(self) -> int | None:
        """Slices of the table; None if unknown."""
        return None if self.plan is None else self.plan.total

    @property
    def report(self) -> str:
        """The plan's report, or why there is none."""
        return f"{self.table}: {self.reason}" if self.plan is None else self.plan.explain()


def preview(
    connection: Connection, sql: str, *, tables: Mapping[str, TableLike] | None = None
) -> list[ScanPreview]:
    """Show, for each scan of a statement, what would be pruned, and why.

    Args:
        connection: of the `trino` client; its catalog, schema, zone and session properties apply.
        sql: one statement, which is explained and not run.
        tables: tables by their names in Trino (`catalog.schema.table`), before the aliases in `pruner.toml`.

    Raises:
        PrunerError: Trino cannot explain the statement.
    """
    scans = explained_scans(connection, sql)
    session = _Session(connection, sql, Catalog(tables))
    return [session.preview(scan) for scan in scans]


class _Session:
    """What is fetched from the server once for a statement."""

    def __init__(self, connection: Connection, sql: str, catalog: Catalog) -> None:
        self._connection = connection
        # EXPLAIN does not escape the quotes in constants.
        self._has_quotes = "''" in sql
        self._domains = table_domains(connection, sql)
        self._catalog = catalog
        self._names = {name.casefold() for name in catalog.names(aliases=True)}
        zone, version = rows_of(connection, "SELECT current_timezone(), version()")[0]
        self._semantics = replace(Semantics.of("trino"), zone=str(zone), version=str(version))
        listed = rows_of(connection, "SELECT catalog_name, connector_name FROM system.metadata.catalogs")
        self._connectors = {str(name): str(connector) for name, connector in listed}
        self._columns: dict[str, dict[str, str]] = {}

    def preview(self, scan: ExplainedScan) -> ScanPreview:
        """Preview one scan."""
        if not scan.is_named or scan.table.casefold() not in self._names:
            reason = "no table of the configuration has this name as an alias"
            return ScanPreview(scan.table, scan.filter, reason=reason)
        connector = _CONNECTORS.get(self._connectors.get(scan.table.split(".")[0], ""))
        if connector is None:
            return ScanPreview(scan.table, scan.filter, reason="its connector is neither hive nor hudi")
        # Trino reads only the base files of Hudi's slices.
        mode = "read_optimized" if connector == "hudi" else "snapshot"
        try:
            plan = self._catalog.open(scan.table).plan(
                self._predicate(scan), semantics=replace(self._semantics, scan_mode=mode)
            )
        except PrunerError as error:
            return ScanPreview(scan.table, scan.filter, reason=str(error))
        return ScanPreview(scan.table, scan.filter, plan)

    def _predicate(self, scan: ExplainedScan) -> Expr:
        types = self._types(scan.table)
        columns = {
            symbol: ScanColumn([name], types.get(name, "unknown"), _KINDS.get(kind, "hidden"))
            for symbol, (name, kind) in scan.symbols.items()
        }
        partitions = self._partitions(scan, types)
        if scan.filter is None:
            return partitions
        decoder = Expressions(columns)
        if self._has_quotes:
            reason = "quotes inside a text are not told apart in EXPLAIN"
            read: Expr = decoder.opaque(list(columns), scan.filter, reason)
        else:
            read = decoder.predicate(
                read_filter(scan.filter, {id_: column.type for id_, column in columns.items()})
            )
        return read if partitions == TRUE else conjunction((partitions, read))

    def _partitions(self, scan: ExplainedScan, types: Mapping[str, str]) -> Expr:
        """The partitions that the scan reads: those of any scan of the table, as EXPLAIN does not tell them apart."""
        decoder = Expressions(
            {
                name: ScanColumn([name], types.get(name, "unknown"), "partition")
                for name in scan.partitioned_by
            }
        )
        choices = [
            conjunction(
                tuple(
                    decode_domain(domain, decoder)
                    for domain in domains
                    if domain and domain.column in scan.partitioned_by
                )
            )
            for domains in self._domains.get(scan.table.casefold(), [])
        ]
        different = tuple(dict.fromkeys(choices))
        return TRUE if TRUE in different or not different else disjunction(different)

    def _types(self, table: str) -> dict[str, str]:
        """Trino's types of a table's columns, which include the effective precision of timestamps."""
        if table not in self._columns:
            self._columns[table] = self._asked_types(table)
        return self._columns[table]

    def _asked_types(self, table: str) -> dict[str, str]:
        catalog, schema, name = (part.replace("'", "''").replace('"', '""') for part in table.split(".", 2))
        rows = rows_of(
            self._connection,
            f'SELECT column_name, data_type FROM "{catalog}".information_schema.columns '
            f"WHERE table_schema = '{schema}' AND table_name = '{name}'",
        )
        return {str(column): str(type_) for column, type_ in rows}
