"""Some of many, spread evenly from the first to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def evenly(ordinals: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of some ordinals, in their order, spread evenly from the first to the last."""
    places = np.linspace(0, len(ordinals) - 1, min(most, len(ordinals))).round().astype(np.intp)
    return ordinals[np.unique(places)]
