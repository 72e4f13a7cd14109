"""How long advice may take: work on a sample goes on while there is time, and is told to whoever watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

STATEMENTS: Final = 0.3
ROWS: Final = 0.4
FOOTERS: Final = 0.5
DATA: Final = 0.7
CHOICE: Final = 0.85
LAYOUTS: Final = 1.0
"""The share of the time at which each part of the work ends, one after the other. Each does a little in any case."""

_MOST = 64
"""Most files in a piece of work; after each piece the clock is looked at."""

_SEED = 0
_WHOLE = 100


class Pace:
    """A time budget that runs from its creation on; without one there is always time.

    Args:
        seconds: how long the work may take.
        told: is called with the progress in percent.
        clock: gives seconds that only grow.
    """

    def __init__(
        self,
        seconds: float | None = None,
        told: Callable[[int, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._told = told
        self._clock = clock
        self._began = clock()

    def is_over(self, share: float) -> bool:
        """Whether this share of the time is used up."""
        return self.seconds is not None and self._clock() - self._began >= share * self.seconds

    def gone(self) -> float:
        """The share of the time that has gone, more than 1 where the work took longer."""
        return 0.0 if self.seconds is None else (self._clock() - self._began) / self.seconds

    def tell(self, share: float) -> None:
        """Report how far the work is."""
        if self._told is not None:
            self._told(round(share * _WHOLE), _WHOLE)

    def mixed(self, ordinals: NDArray[np.intp]) -> NDArray[np.intp]:
        """Slices in an order in which the first of them are a fair sample, where not all may be reached."""
        if self.seconds is None:
            return ordinals
        from numpy.random import default_rng  # the help of the command line waits for no such import

        return default_rng(_SEED).permutation(ordinals)

    def pieces(self, count: int, begin: float, end: float) -> Iterator[tuple[int, int]]:
        """Cut so many things into pieces (start, stop), and end when the time for them has gone.

        Args:
            count: how many there are.
            begin: the share of the work that is done before them.
            end: the share of the time at which they end.
        """
        start, length = 0, count if self.seconds is None else 1
        while start < count:
            stop = min(start + length, count)
            yield start, stop
            self.tell(begin + (end - begin) * stop / count)
            if self.is_over(end):
                return
            start, length = stop, min(2 * length, _MOST)
