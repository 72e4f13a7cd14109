"""Evidence that knows ranges: for each slice where its values begin and end, in an order of all values of a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from pruner.indexes.base import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

RANGED_TYPES = (
    "boolean, integers, floating point, decimal up to 38 digits, string, binary, UUID, date, time, timestamp, and "
    "fields of these types inside structs (a.b)"
)
"""The types that have ranges."""


class Ranges(NamedTuple):
    """The ranges of some slices.

    Attributes:
        slices: their ordinals; what is known of no others is not here.
        low: the place of the least value of each in the order of values.
        high: that of the greatest.
        text: what stands at such a place, for people.
    """

    slices: NDArray[np.intp]
    low: NDArray[Any]
    high: NDArray[Any]
    text: Callable[[Any], str]


@runtime_checkable
class RangingEvidence(Evidence, Protocol):
    """Evidence from ranges. They may be wider than the values; none is narrower."""

    def ranges(self) -> Ranges:
        """The ranges of the slices whose ends are both known."""
        ...
