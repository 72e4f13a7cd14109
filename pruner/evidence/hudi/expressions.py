"""Evidence from Hudi's expression indexes, where their functions mean the same in every engine.

Hudi evaluates in Spark and records neither the session's time zone nor the values on which engines agree. So an index
is used only for parts of dates: no time zone matters there, and the column's own statistics show that its values lie in
the range in which engines were compared. Its records are file statistics like any others, and are trusted as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.errors import FormatError, SchemaError, StorageError
from pruner.evidence.hudi.stats import stat_records
from pruner.expr.derived.canonical import Canonical, NotCanonical, canonical
from pruner.expr.derived.indexed import Provenance, SourceColumn
from pruner.expr.engines import SqlEngine
from pruner.expr.functions.function import MOMENTS
from pruner.expr.functions.registry import REGISTRY_VERSION
from pruner.expr.nodes import Call, Column
from pruner.showing.words import FILE_GROUP, counted
from pruner.tables.hudi.metadata.indexes import COLUMN_STATS, EXPRESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.evidence.hudi.stats import FilesOfSlices
    from pruner.schema import Field
    from pruner.tables.hudi.metadata.indexes import Definition, HudiIndexes
    from pruner.tables.snapshot import Snapshot

_FIRST_DAY, _LAST_DAY = -25_567, 2_932_896
"""1900-01-01 and 9999-12-31, the range in which engines were compared (`MOMENTS`)."""

_NO_COLUMN = "its definition names no column of the table"
_OPTIONS = frozenset({"expr"})
"""The options of an index over a function without further arguments."""


class Derived(NamedTuple):
    """An index that is used: its partition of the metadata table, its expression, and the column underneath."""

    partition: str
    made_by: Canonical
    column: Field

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"hudi.{self.partition}"


class ExpressionStatistics:
    """The expression indexes of a table. Definitions are read eagerly, records on demand."""

    def __init__(self, indexes: HudiIndexes, snapshot: Snapshot, files: FilesOfSlices) -> None:
        self._indexes = indexes
        self._snapshot = snapshot
        self._files = files
        self._unused: dict[str, str] = {}
        self.used: tuple[Derived, ...] = tuple(self._read())

    def use_of(self, name: str) -> str:
        """How plans use one of them."""
        if name in self._unused:
            return f"not used: {self._unused[name]}"
        derived = next(used_one for used_one in self.used if used_one.partition == name)
        return f"used for {derived.made_by.functions[0].name}({derived.column.name})"

    def over(self, about: Field) -> Iterator[Derived]:
        """The indexes over an expression."""
        return (used_one for used_one in self.used if used_one.made_by.text == about.expression)

    def records(self, derived: Derived, about: Field, schema: pa.Schema) -> tuple[pa.Table, tuple[str, ...]]:
        """The records of an expression, for the slices whose column values lie in the range that was compared.

        Args:
            derived: the index.
            about: the expression.
            schema: the record schema of a `column_stats` index.

        Returns:
            Records, and why slices with statistics have none: see `stat_records`.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be read.
        """
        common = (self._indexes, self._files, self._snapshot)
        below, _ = stat_records(*common, derived.column, schema)
        low, high = (
            np.asarray(below.column(name).combine_chunks()) for name in ("min_integer", "max_integer")
        )
        inside = (
            below.column("__slice")
            .combine_chunks()
            .filter(pa.array((low >= _FIRST_DAY) & (high <= _LAST_DAY), pa.bool_()))
        )
        column = ".".join(derived.column.path)
        records, notes = stat_records(
            *common, about, schema, self._indexes.statistics(derived.partition, column)
        )
        kept: Any = records.filter(compute.is_in(records.column("__slice"), value_set=inside))
        if kept.num_rows < records.num_rows:
            lost = records.num_rows - kept.num_rows
            notes += (
                f"{counted(lost, FILE_GROUP)} kept: nothing shows that their values lie where engines agree",
            )
        made = arrow.repeat(pa.scalar(_made(derived).text, pa.string()), kept.num_rows)
        at: int = kept.column_names.index("parquet")
        return kept.set_column(at, "parquet", made.cast(kept.schema.types[at])), notes

    def _read(self) -> Iterator[Derived]:
        names = [name for name in self._indexes.names if name.startswith(EXPRESSION)]
        try:
            definitions = self._indexes.definitions if names else {}
        except (FormatError, StorageError) as error:
            self._unused = dict.fromkeys(names, str(error))
            return
        for name in names:
            derived = self._derived(name, definitions[name]) if name in definitions else _NO_COLUMN
            if isinstance(derived, str):
                self._unused[name] = derived
            else:
                yield derived

    def _derived(self, name: str, definition: Definition) -> Derived | str:
        """The index of a definition, or the reason why it is not used."""
        if definition.using != COLUMN_STATS:
            return f"it is of the kind {definition.using}, which is not asked about expressions"
        if COLUMN_STATS not in self._indexes.names:
            return "without column statistics nothing shows that its values lie where engines agree"
        if len(definition.columns) != 1 or "." in definition.columns[0]:
            return _NO_COLUMN
        if not _OPTIONS.issuperset(definition.options):
            return (
                f"the function {definition.function} has arguments, which engines spell in ways of their own"
            )
        try:
            column = self._snapshot.schema.find((definition.columns[0],), case_sensitive=True)
            asked = Call(definition.function, (Column(column.path),))
            form = canonical(asked, lambda _: column, SqlEngine.SPARK)
        except (SchemaError, NotCanonical) as error:
            return str(error)
        agrees = all(row.evaluation.domain == MOMENTS for row in form.functions)
        if not (agrees and pa.types.is_date32(column.type)):
            return (
                f"Hudi records neither the time zone nor the values of {definition.function}({column.name}), "
                "so that nothing shows that engines agree on them"
            )
        return Derived(name, form, column)


def _made(derived: Derived) -> Provenance:
    """The provenance that a record of a pruner index would state for such values."""
    agreed = set(map(str, SqlEngine)).intersection(
        *(function.evaluation.compared for function in derived.made_by.functions)
    )
    return Provenance(
        "hudi", REGISTRY_VERSION, tuple(sorted(agreed)), (SourceColumn(str(derived.column.type), None, True),)
    )
