"""What an index type is: what it records of a slice, and what evidence its records give.

A type is one file that defines an `IndexType` and is registered, here for the built-in ones or by the entry point group
`pruner.indexes` for others. Building: the pipeline hands `record` a `SliceReader` for one slice and gets an Arrow table of
records. Planning: `load` gets the records of many slices, once per segment, and returns an `Evidence`, which
answers for all those slices at once. Indexes never import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.bound import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class SliceReader(Protocol):
    """What the kernel offers an index type of one slice (a base file without logs)."""

    @property
    def footer(self) -> ParquetFooter:
        """The parsed Parquet footer."""
        ...

    def column(self, path: tuple[str, ...]) -> pa.ChunkedArray:
        """All values of one (nested) column in row order, in the file's own type; NULL where a parent struct is."""
        ...


class ParquetFooter(Protocol):
    """The footer of one file: see `pruner.pipeline.footers`."""

    @property
    def metadata(self) -> object: ...


class Evidence(Protocol):
    """What the records of one index say about leaf predicates, for `count` slices at once (local ordinals)."""

    @property
    def count(self) -> int:
        """Number of slices."""
        ...

    @property
    def covered(self) -> Mask:
        """Slices for which there is a usable record; the others are unknown whatever is asked."""
        ...

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`.

        Args:
            leaf: a leaf on the field that was indexed.
            outcome: what is asked for.
            semantics: whose rules hold.
            at: local ordinals to answer for, or None for all of them.

        Returns:
            A fresh or shared mask (never modified by the caller) of `len(at)` or `count` entries: False is a proof.
            None when the index can say nothing about such a leaf.
        """
        ...


class IndexType(Protocol):
    """One type of index; stateless."""

    @property
    def name(self) -> str:
        """The name by which SQL and the metadata table call it."""
        ...

    @property
    def version(self) -> int:
        """Version of the records: a reader ignores records of a version that it does not know."""
        ...

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Refuse by name what cannot be indexed.

        Raises:
            IndexDefinitionError: the type of `field`, or an option, is not supported.
        """
        ...

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return what is recorded of one slice; every slice gives the same columns for the same `field`.

        The column names must not start with `__`; those belong to the pipeline.
        """
        ...

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence of the records of `count` slices.

        Args:
            records: the concatenated results of `record` with `__slice` (int32), the local ordinal of each row's slice.
            count: number of slices, 0 to count-1; those without a row are not covered.
            field: the field as the table has it now; records made for another type or id must be distrusted (R7).
        """
        ...
