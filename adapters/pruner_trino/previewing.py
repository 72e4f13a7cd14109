"""What would be pruned of a statement on Trino, for those who have no plugin there. Nothing is rewritten or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pruner.catalog.names import Catalog, TableLike
from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE, Expr, conjunction, disjunction
from pruner.expr.semantics import Semantics
from pruner_trino.decode import decode_domain
from pruner_trino.explain import ExplainedScan, explained_scans, rows_of, table_domains
from pruner_trino.expressions import Expressions
from pruner_trino.filter_text import read_filter
from pruner_trino.messages import ScanColumn

if TYPE_CHECKING:
    from trino.dbapi import Connection

    from pruner import Plan

_CONNECTORS = {"hive": "hive", "pruned_hive": "hive", "hudi": "hudi", "pruned_hudi": "hudi"}
_KINDS: dict[str, Literal["regular", "partition", "hidden"]] = {
    "REGULAR": "regular",
    "PARTITION_KEY": "partition",
}


@dataclass(frozen=True)
class ScanPreview:
    """One scan of a statement.

    `table` is its name in Trino, `filter` the predicate as Trino shows it (None without one). `plan` is what the
    planner keeps of it, None where `reason` says why that is not known. The plugin may leave out more: EXPLAIN does not
    show the values of dynamic filters, and of a table that is scanned several times not which scan reads which
    partitions.
    """

    table: str
    filter: str | None
    plan: Plan | None = None
    reason: str | None = None

    @property
    def kept(self) -> int | None:
        """Slices that must be read; None where that is not known."""
        return None if self.plan is None else self.plan.kept

    @property
    def total(self) -> int | None:
        """Slices of the table; None where that is not known."""
        return None if self.plan is None else self.plan.total

    @property
    def report(self) -> str:
        """The plan's report, or why there is none."""
        return f"{self.table}: {self.reason}" if self.plan is None else self.plan.explain()


def preview(
    connection: Connection, sql: str, *, tables: Mapping[str, TableLike] | None = None
) -> list[ScanPreview]:
    """Show for each scan of a statement what would be pruned, and why.

    Args:
        connection: of the `trino` client; its catalog, schema, zone and session properties hold.
        sql: one statement, which is explained and not run.
        tables: tables by their names in Trino (`catalog.schema.table`), before the aliases in `pruner.toml`.

    Raises:
        PrunerError: Trino cannot explain the statement.
    """
    scans = explained_scans(connection, sql)
    session = _Session(connection, sql, Catalog(tables))
    return [session.preview(scan) for scan in scans]


class _Session:
    """What is asked of the server once for a statement."""

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
        """What would be pruned of one scan."""
        if not scan.is_named or scan.table.casefold() not in self._names:
            reason = "no table of the configuration has this name as an alias"
            return ScanPreview(scan.table, scan.filter, reason=reason)
        connector = _CONNECTORS.get(self._connectors.get(scan.table.split(".")[0], ""))
        if connector is None:
            return ScanPreview(scan.table, scan.filter, reason="its connector is neither hive nor hudi")
        # Trino reads the base files of Hudi's slices alone.
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
                read_filter(scan.filter, {id_: each.type for id_, each in columns.items()})
            )
        return read if partitions == TRUE else conjunction((partitions, read))

    def _partitions(self, scan: ExplainedScan, types: Mapping[str, str]) -> Expr:
        """Which partitions the scan reads: those of some scan of the table, as EXPLAIN does not say which is which."""
        decoder = Expressions(
            {
                name: ScanColumn([name], types.get(name, "unknown"), "partition")
                for name in scan.partitioned_by
            }
        )
        choices = [
            conjunction(
                tuple(
                    decode_domain(each, decoder)
                    for each in domains
                    if each and each.column in scan.partitioned_by
                )
            )
            for domains in self._domains.get(scan.table.casefold(), [])
        ]
        different = tuple(dict.fromkeys(choices))
        return TRUE if TRUE in different or not different else disjunction(different)

    def _types(self, table: str) -> dict[str, str]:
        """Trino's types of a table's columns, which say the precision of timestamps that is in force."""
        if table not in self._columns:
            self._columns[table] = self._asked_types(table)
        return self._columns[table]

    def _asked_types(self, table: str) -> dict[str, str]:
        catalog, schema, name = (part.replace("'", "''").replace('"', '""') for part in table.split(".", 2))
        found = rows_of(
            self._connection,
            f'SELECT column_name, data_type FROM "{catalog}".information_schema.columns '
            f"WHERE table_schema = '{schema}' AND table_name = '{name}'",
        )
        return {str(column): str(type_) for column, type_ in found}
