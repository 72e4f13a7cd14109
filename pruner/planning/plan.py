"""A scan plan: the slices to read, and the report that says why.

Everything is an array over slice ordinals; slices, files and the report's rows become Python objects one at a time, on
access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import pyarrow as pa

from pruner.errors import TableError
from pruner.expr.bound.fields import unknowns
from pruner.planning import answering, first_rows
from pruner.planning.first_rows import FirstRows, Order
from pruner.planning.python_engines import scan_with
from pruner.planning.report import (
    ANSWERS,
    FileDetail,
    FunnelStep,
    PlanFacts,
    plan_page,
    report_json,
    report_text,
)
from pruner.showing.words import counted
from pruner.tables.snapshot import SliceSequence

if TYPE_CHECKING:
    from collections.abc import Mapping

    import datafusion
    import polars
    from numpy.typing import NDArray
    from pyarrow import dataset

    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.planning.answering import Answer
    from pruner.planning.kept_slices import KeptSlices
    from pruner.planning.rows import RowPositions
    from pruner.schema import TableSchema
    from pruner.tables.snapshot import Snapshot


DELETED_APART = (
    "rows of some files to read are deleted by deletion vectors, so the files alone are not the table's content: read "
    "it by an engine"
)
"""Why a plan does not return its files."""


class Plan:
    """Which slices a scan has to read, and why the others can hold no matching row."""

    def __init__(
        self,
        facts: PlanFacts,
        *,
        all_match: Callable[[], NDArray[np.bool_]],
        rows: Callable[[NDArray[np.intp]], RowPositions | None],
        storage_options: Mapping[str, str],
        kept_slices: Callable[[], KeptSlices],
    ) -> None:
        self._facts = facts
        self._make_kept_slices = kept_slices
        self._all_match = all_match
        self._rows = rows
        self._storage_options = storage_options

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that was planned over."""
        return self._facts.snapshot

    @property
    def predicate(self) -> str:
        """The predicate as text, for display."""
        return self._facts.predicate

    @property
    def bound(self) -> BoundExpr | None:
        """The predicate as the planner understood it, in terms of the table's fields."""
        return self._facts.bound

    @property
    def is_understood(self) -> bool:
        """True if no part of the predicate is left to the engine alone; otherwise there are few answers."""
        return self.bound is not None and not any(unknowns(self.bound))

    @property
    def semantics(self) -> Semantics:
        """The engine's rules that the predicate follows."""
        return self._facts.semantics

    @property
    def steps(self) -> tuple[FunnelStep, ...]:
        """The funnel: one step for each clause and index, in order of evaluation."""
        return self._facts.steps

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Each reason why something could not be used to prune, once."""
        return self._facts.fallbacks

    @property
    def count_again(self) -> Callable[[], None]:
        """Counts the plan once more in `IndexStatus.plans` when its answer is reused. Keeps no plan in memory."""
        return self._facts.count_again

    @property
    def planning_seconds(self) -> float:
        """Time that planning took."""
        return self._facts.planning_seconds

    def storage_options(self, more: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Options of the object store with which the table was opened; `more` take precedence."""
        return {**self._storage_options, **(more or {})}

    @property
    def total(self) -> int:
        """Number of slices in the snapshot."""
        return len(self.snapshot)

    @property
    def kept(self) -> int:
        """Number of slices to read."""
        return self._facts.survivors.left

    @property
    def kept_mask(self) -> NDArray[np.bool_]:
        """True for each slice to read, by ordinal."""
        return self._facts.kept_mask

    @property
    def dropped_by(self) -> NDArray[np.int32]:
        """For each slice, the number of the funnel step (from 1) that dropped it; 0 where it is kept."""
        return self._facts.dropped_by

    @property
    def snapshot_id(self) -> str:
        """Identity of the snapshot that was planned over."""
        return self.snapshot.id

    @property
    def schema(self) -> TableSchema:
        """Schema of the whole snapshot, whatever was pruned."""
        return self.snapshot.schema

    @property
    def ordinals(self) -> NDArray[np.intp]:
        """Ordinals of the slices to read, ascending."""
        return self._facts.ordinals

    @property
    def slices(self) -> SliceSequence:
        """The slices to read, lazily."""
        return SliceSequence(self.snapshot, self.ordinals)

    @cached_property
    def has_logs(self) -> bool:
        """True if a file group to read has log files, so its base file alone is not the table's content."""
        return self.snapshot.any_logs and bool(self.snapshot.has_logs[self.ordinals].any())

    @cached_property
    def has_deletes(self) -> bool:
        """True if rows of a file to read are deleted by separately stored deletes, such as a deletion vector."""
        return self.snapshot.deletes is not None and bool(self.snapshot.has_deletes[self.ordinals].any())

    @cached_property
    def files_arrow(self) -> pa.StringArray:
        """URIs of the base files to read, as an Arrow array.

        Raises:
            TableError: a file group to read has log files and the scan mode is not `read_optimized`, or rows of a file
                are deleted by separately stored deletes.
        """
        if self.has_deletes:
            raise TableError(DELETED_APART)
        if self.has_logs and self.semantics.scan_mode != "read_optimized":
            raise TableError(
                "some file groups to read have log files, so their base files alone are not the table's content: "
                'use plan.slices, or ask with Semantics(scan_mode="read_optimized")'
            )
        if self.kept == self.total:
            return self.snapshot.base_files.drop_null()
        return self.snapshot.files_of(self.ordinals)

    @property
    def files(self) -> FileSequence:
        """URIs of the base files to read, lazily.

        Raises:
            TableError: as `files_arrow`.
        """
        return FileSequence(self.files_arrow)

    @cached_property
    def rows(self) -> RowPositions | None:
        """URI of each base file to read -> positions (0-based, ascending) of its rows that can match, lazily.

        A file whose rows no index knows has None: all of it must be read. None instead of a mapping if that holds for
        every file.
        """
        return self._rows(self.ordinals)

    def scan_polars(
        self, columns: Sequence[str] | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> polars.LazyFrame:
        """All rows of the files to read, lazily, with the table's names and types (docs/python.md).

        The predicate must still be applied: the frame holds every row for which it is true, and others.

        Args:
            columns: names of top-level columns; all unless given.
            storage_options: Polars' own options for reading from an object store, besides those of `open_table`.

        Raises:
            SchemaError: a column cannot be read as the table has it; states the reason.
            TableError: a file group to read has log files and the scan mode is not `read_optimized`.
        """
        return scan_with("polars", self, columns, self.storage_options(storage_options))

    def scan_pyarrow(
        self, columns: Sequence[str] | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> dataset.Dataset:
        """All rows of the files to read as a dataset, otherwise as `scan_polars`; options are those of `open_table`."""
        return scan_with("pyarrow", self, columns, self.storage_options(storage_options))

    def scan_datafusion(
        self,
        context: datafusion.SessionContext | None = None,
        columns: Sequence[str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> datafusion.DataFrame:
        """All rows of the files to read in a session context, new unless given; otherwise like `scan_pyarrow`."""
        return scan_with("datafusion", self, columns, self.storage_options(storage_options), context)

    @property
    def rows_exact(self) -> bool:
        """True if `rows` are exactly the matching rows."""
        return self.rows is not None and self.rows.exact

    @cached_property
    def all_match(self) -> NDArray[np.bool_]:
        """True for each slice on which the predicate is proven true for every row (vacuously for one without rows)."""
        return self._all_match()

    def count(self, column: str | None = None) -> Answer:
        """Count the matching rows without reading them, or those of them in which a column is not NULL.

        Raises:
            SchemaError: there is no such column.
        """
        return answering.count(self._kept_slices, column)

    def min(self, column: str) -> Answer:
        """The least value of a column over the matching rows, ignoring NULL; raises like `count`."""
        return answering.extreme(self._kept_slices, column, greatest=False)

    def max(self, column: str) -> Answer:
        """The greatest value, likewise; NaN is greater than any number."""
        return answering.extreme(self._kept_slices, column, greatest=True)

    def count_by(self, column: str) -> Answer:
        """Count the matching rows by the value of a column, NULL included; raises like `count`."""
        return answering.count_by(self._kept_slices, column)

    def answers(self, asked: Sequence[tuple[str, str | None]]) -> tuple[list[Answer], Plan]:
        """Several answers at once, and the plan of what must be read for the rest of all of them.

        Args:
            asked: what to compute (count, min, max, by), and of which column; None for all rows, for a count only.

        Raises:
            SchemaError: there is no such column.
        """
        answers, rest = answering.together(self._kept_slices, asked)
        answered = len(self.snapshot) - len(rest)
        told = f"answered from metadata: {answered:,} of {counted(len(self.snapshot), self.snapshot.noun)}"
        return answers, self._narrowed(FirstRows(rest, told), "")

    def grouped(
        self, column: str | Sequence[str], calls: Sequence[tuple[str, str | None]]
    ) -> tuple[Answer, Plan]:
        """Aggregates by the value of a column, and the plan of what must be read for the rest.

        The proved part of the answer is a table of `value` (then `value_1` and so on, for several columns) and a column
        for each call; the rest may have the same values.

        Args:
            column: the column by which rows are grouped, or several.
            calls: what to compute (count, min, max), and of which column; None for all rows, for a count only.

        Raises:
            SchemaError: there is no such column.
        """
        answer = answering.grouped(self._kept_slices, column, calls)
        return answer, self.unanswered(answer)

    def limited(self, rows: int, *, fewest: bool = False) -> Plan:
        """The plan of the first slices, in their order, that surely hold `rows` matching rows; itself if it needs all.

        With `fewest`, the plan of as few slices as possible, for rows in any order.
        """
        return self._narrowed(
            first_rows.limited(self._kept_slices, rows, fewest=fewest), f"the first {rows:,} rows"
        )

    def top(self, column: str, rows: int, *, descending: bool = False, nulls_first: bool = False) -> Plan:
        """The plan of the slices that hold the first matching rows in the order of a column, equal ones included.

        Args:
            column: the first column of the order; others may follow.
            rows: how many rows are wanted, including those that are skipped.
            descending: whether the greatest come first.
            nulls_first: whether NULL comes before all values.

        Raises:
            SchemaError: there is no such column.
        """
        return self.first_of([Order(column, rows, descending, nulls_first)])

    def threshold(
        self, column: str, rows: int, *, descending: bool = False, nulls_first: bool = False
    ) -> Any:
        """A value that the first rows in the order of a column surely have or come before, ignoring NULL.

        An Arrow scalar of the column's type; None if nothing is known, or if it would not skip any slice. Takes and
        raises what `top` does.
        """
        return first_rows.threshold(self._kept_slices, Order(column, rows, descending, nulls_first))

    def first_of(
        self, orders: Sequence[tuple[str, int, bool, bool, str | None, str | tuple[str, ...] | None]]
    ) -> Plan:
        """The plan of the slices that hold the first matching rows in each of some orders, equal ones included.

        Args:
            orders: each has a column; how many rows; whether the greatest come first; whether NULL does; a column, such
                that rows in which it is NULL are passed over; and a column, for each of whose values rows are wanted,
                or several, for each combination of their values.

        Raises:
            SchemaError: there is no such column.
        """
        wanted = [Order(*order) for order in orders]
        told = ", ".join(
            dict.fromkeys(f"the first {counted(order.rows, 'row')} by {order.column}" for order in wanted)
        )
        return self._narrowed(first_rows.top(self._kept_slices, wanted), told)

    def first_values(
        self, column: str, values: int, *, descending: bool = False, nulls_first: bool = False
    ) -> Plan:
        """The plan of the slices that hold all rows of the first values of a column; takes and raises what `top` does.

        Args:
            column: the first column of the order; others may follow.
            values: how many distinct values are wanted, of all columns of the order together.
            descending: whether the greatest come first.
            nulls_first: whether NULL comes before all values.
        """
        told = f"the first {counted(values, 'value')} of {column}"
        return self._narrowed(
            first_rows.first_values(self._kept_slices, Order(column, values, descending, nulls_first)), told
        )

    def among(self, listed: NDArray[np.bool_]) -> Plan:
        """The plan over only the slices that an engine lists; itself if none is dropped."""
        if listed[self.ordinals].all():
            return self
        ordinals = self.ordinals[listed[self.ordinals]]
        rows = FirstRows(ordinals, f"the engine lists {counted(len(ordinals), self.snapshot.noun)}")
        return self._narrowed(rows, "what is listed", lambda: self._kept_slices.among(ordinals))

    def unanswered(self, answer: Answer) -> Plan:
        """The plan of the slices that must be read for the rest of an answer."""
        return self._narrowed(FirstRows(answer.rest, answer.told), "")

    def _narrowed(
        self, rows: FirstRows | None, wanted: str, kept_slices: Callable[[], KeptSlices] | None = None
    ) -> Plan:
        if rows is None:
            return self
        facts, number = self._facts, len(self._facts.steps) + 1
        dropped = facts.survivors.left - len(rows.ordinals)
        clause = f"{wanted}: {rows.why}" if wanted else rows.why
        step = FunnelStep(clause, ANSWERS, ANSWERS, facts.survivors.left, dropped, 0)
        narrowed = replace(
            facts,
            survivors=facts.survivors.narrowed(rows.ordinals, number),
            funnel=lambda: (*facts.steps, step),
            gaps=partial(_gaps_before, facts, number),
        )
        return Plan(
            narrowed,
            all_match=self._all_match,
            rows=self._rows,
            storage_options=self._storage_options,
            kept_slices=kept_slices or self._make_kept_slices,
        )

    @cached_property
    def _kept_slices(self) -> KeptSlices:
        return self._make_kept_slices()

    @property
    def bytes_total(self) -> int:
        """Size of all slices in bytes, logs included."""
        return self._facts.bytes_total

    @property
    def bytes_kept(self) -> int:
        """Size of the slices to read in bytes, logs included."""
        return self._facts.bytes_kept

    @property
    def slice_sizes(self) -> NDArray[np.int64]:
        """Size of each slice in bytes, logs included."""
        return self.snapshot.sizes

    def to_json(self, files: FileDetail = "summary") -> str:
        """Return the report as JSON (fields: docs/report.md).

        Args:
            files: which slices to list one by one.
        """
        return report_json(self._facts, files)

    def explain(self) -> str:
        """Return the report as human-readable text."""
        return report_text(self._facts)

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page, with a strip for each clause (docs/seeing.md)."""
        return plan_page(self._facts, whole=True)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return plan_page(self._facts, whole=False)

    def __repr__(self) -> str:
        return f"<Plan {self.kept} of {counted(self.total, self.snapshot.noun)}: {self.predicate[:80]}>"


def _gaps_before(facts: PlanFacts, number: int, asked: int) -> NDArray[np.bool_] | None:
    """The gaps of a step; the step added after all others has none."""
    return None if asked == number else facts.gaps(asked)


class FileSequence(Sequence[str]):
    """URIs over an Arrow array, converted to strings one at a time."""

    def __init__(self, uris: pa.StringArray) -> None:
        self._uris: Any = uris

    def __len__(self) -> int:
        return len(self._uris)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> FileSequence: ...
    def __getitem__(self, index: int | slice) -> str | FileSequence:
        if isinstance(index, slice):
            positions = range(len(self))[index]
            return FileSequence(self._uris.take(pa.array(positions, pa.int64())))
        return self._uris[range(len(self))[index]].as_py()

    def __iter__(self) -> Iterator[str]:
        for chunk_start in range(0, len(self), 4096):
            yield from self._uris.slice(chunk_start, 4096).to_pylist()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FileSequence):
            return bool(self._uris.equals(other._uris))
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        raise TypeError("a FileSequence is not hashable: use tuple(files)")

    def __repr__(self) -> str:
        return f"<FileSequence of {len(self)}>"
