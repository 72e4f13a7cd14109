"""A table as a self-pruning pyarrow Dataset: a scan with a filter reads only the files that are left.

DuckDB, Polars, DataFusion and others read any Dataset, and push down to it the filters that pyarrow can apply.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from pruner.adapters import Newest, switched_off
from pruner.errors import PrunerError, TableError
from pruner.expr.nodes import TRUE
from pruner.expr.semantics import Semantics
from pruner_python import arrow
from pruner_python.arrow_filters import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pruner import Plan, Table

KEPT_PLANS = 64
"""Scans that `last_plans` remembers."""

_LOG = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class DatasetScan:
    """One scan: see `pruner.adapters.ScanRecord`."""

    table: str
    plan: Plan
    reason: str | None


class PrunedDataset(ds.Dataset):
    """The rows of a table; each scan is planned over the table's state at that time.

    `last_plans` has the newest scans (bounded), oldest first. Joins, sorting and other schemas are pyarrow's, over all
    files. `on_scan` is called with each scan before it reads.
    """

    # pyarrow's own constructor always raises. All public members are defined here, or are based on `scanner`.
    def __init__(
        self, table: Table, name: str | None = None, on_scan: Callable[[DatasetScan], None] | None = None
    ) -> None:
        self._table = table
        self._name = name or table.uri
        self._on_scan = on_scan
        self._told: pa.Schema | None = None
        self.last_plans: Newest[DatasetScan] = Newest(maxlen=KEPT_PLANS)

    @property
    def schema(self) -> pa.Schema:
        """The current columns of the table."""
        self._told = self._table.schema.to_arrow()
        return self._told

    def scanner(self, columns: Any = None, filter: Any = None, *more: Any, **options: Any) -> ds.Scanner:  # noqa: A002 - pyarrow's name
        """A scanner of the files that may hold rows for a filter, which pyarrow then applies to their rows.

        Raises:
            PrunerError: the table cannot be listed completely, or cannot be read by pyarrow.
        """
        scanner: Any = self._planned(filter, columns)
        return scanner.scanner(columns, filter, *more, **options)

    def get_fragments(self, filter: Any = None) -> Any:  # noqa: A002 - pyarrow's name
        """The files that may hold rows for a filter."""
        return self._planned(filter, None).get_fragments(filter)

    def _planned(self, filter_: Any, columns: Any) -> Any:
        snapshot, told = self._table.snapshot(), self._told
        schema = snapshot.schema.to_arrow()
        if told is not None and told != schema:
            raise TableError(
                f"the columns of {self._name} changed while the statement was planned: run it again"
            )
        semantics = Semantics.of(arrow.engine)
        predicate = TRUE if filter_ is None else decode(filter_, schema)
        try:
            scan = DatasetScan(self._name, snapshot.plan(predicate, semantics=semantics), switched_off())
        except PrunerError as error:
            scan = DatasetScan(self._name, snapshot.plan(TRUE, semantics=semantics), str(error))
        self.last_plans.append(scan)
        if self._on_scan is not None:
            self._on_scan(scan)
        _LOG.info(
            "scan of %s: %d of %d files; %s",
            scan.table,
            scan.plan.kept,
            scan.plan.total,
            scan.reason or "pruned",
        )
        return scan.plan.scan_pyarrow(_read(columns, filter_, schema))

    def filter(self, expression: Any) -> Any:
        """The files that currently may hold rows for a filter, with the filter applied to every scan of them."""
        return self._planned(expression, None).filter(expression)

    @property
    def partition_expression(self) -> Any:
        """What is known to hold for all rows: nothing."""
        return self._planned(None, None).partition_expression

    def replace_schema(self, schema: pa.Schema) -> Any:
        """All current files, read with another schema."""
        return self._planned(None, None).replace_schema(schema)

    def join(self, *arguments: Any, **options: Any) -> Any:
        """As in pyarrow, over all files."""
        return self._planned(None, None).join(*arguments, **options)

    def join_asof(self, *arguments: Any, **options: Any) -> Any:
        """As in pyarrow, over all files."""
        return self._planned(None, None).join_asof(*arguments, **options)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """As in pyarrow, over all files."""
        return self._planned(None, None).sort_by(sorting, **options)


def _read(columns: Any, filter_: Any, schema: pa.Schema) -> list[str] | None:
    """The columns that a scan reads: its own and, judging by the filter's text, at least those of the filter."""
    if not isinstance(columns, (list, tuple)):
        return None
    text = str(filter_)
    return [name for name in schema.names if name in columns or (filter_ is not None and name in text)]
