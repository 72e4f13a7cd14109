"""What a plan answers without reading rows: the part that is proved, and the slices that hold the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pruner.showing.words import counted
from pruner.tables.snapshot import SliceSequence

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    """An aggregate over the matching rows of a plan.

    Attributes:
        value: of all slices but those of `rest`: a number of rows, the least or greatest value (None where no row has
            one), or the number of rows by value.
        rest: ordinals of the slices that still have to be read, ascending; the predicate is to be applied there.
        snapshot: whose slices they are.
        proved: the same as `value`, as Arrow: a column of one value, or a table of `value` and `rows`.
    """

    value: Any
    rest: NDArray[np.intp]
    snapshot: Snapshot
    proved: pa.Table

    @property
    def exact(self) -> bool:
        """True if nothing has to be read."""
        return not len(self.rest)

    @property
    def total(self) -> int:
        """Number of slices of the table."""
        return len(self.snapshot)

    @property
    def slices(self) -> SliceSequence:
        """The slices that have to be read, lazily."""
        return SliceSequence(self.snapshot, self.rest)

    @property
    def files(self) -> list[str]:
        """URIs of the base files of these slices."""
        return self.snapshot.files_of(self.rest).to_pylist()

    @property
    def told(self) -> str:
        """How much of the answer comes from metadata, in one sentence."""
        answered = self.total - len(self.rest)
        return f"answered from metadata: {answered:,} of {counted(self.total, self.snapshot.noun)}"

    def __repr__(self) -> str:
        return f"<Answer {self.value!r}: {self.told}>"
