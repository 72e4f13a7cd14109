"""Which slices are left during planning, and which step dropped each of the others.

While many are left, they are a mask; below a share of all, they become ordinals, and evidence is gathered for them
alone. What a report may need about a dropped slice is stored compactly and computed on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

GATHER_BELOW = 0.25
"""Share of surviving slices below which evidence is gathered for them alone instead of evaluated for all."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """What one step dropped, in a compact form: the ordinals of what it dropped or of all that it left, or the packed
    bits of what it wanted among all slices.
    """

    step: int
    dropped: NDArray[np.intp] | None = None
    left: NDArray[np.intp] | None = None
    wanted: NDArray[np.uint8] | None = None


class Survivors:
    """The slices that are left of `total`.

    Attributes:
        left: how many are left.
        at: their ordinals, ascending, once they are few; None before.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total
        self.at: NDArray[np.intp] | None = None
        self._mask: Mask | None = None  # None while all are left, and once `at` says which
        self._cuts: list[_Cut] = []

    @property
    def few(self) -> float:
        """Number of slices left below which evidence is gathered for them alone."""
        return GATHER_BELOW * self.total

    def keep(self, wanted: Mask, step: int) -> None:
        """Drop what is not wanted.

        Args:
            wanted: an entry for each of `at`, or for each slice while `at` is None; never modified.
            step: number of the step that drops them, from 1 and ascending.
        """
        before = self.left
        if self.at is not None:
            dropped, self.at = self.at[~wanted], self.at[wanted]
            self.left = len(self.at)
            if len(dropped):
                self._cuts.append(_Cut(step, dropped=dropped))
            return
        self._mask = wanted if self._mask is None else self._mask & wanted
        self.left = int(np.count_nonzero(self._mask))
        if self.left < self.few:
            self.at, self._mask = np.flatnonzero(self._mask), None
            self._cuts.append(_Cut(step, left=self.at))
        elif self.left != before:
            self._cuts.append(_Cut(step, wanted=np.packbits(wanted)))

    def keep_few(self, wanted: NDArray[np.intp], step: int) -> None:
        """Drop what is not wanted, while `at` is None.

        Args:
            wanted: ordinals, ascending, fewer than `few`; never modified.
            step: as for `keep`.
        """
        self.at, self._mask = wanted if self._mask is None else wanted[self._mask[wanted]], None
        self.left = len(self.at)
        self._cuts.append(_Cut(step, left=self.at))

    def narrowed(self, ordinals: NDArray[np.intp], step: int) -> Survivors:
        """The same with only the given ordinals of those left (ascending); a further step drops the others."""
        narrowed = Survivors(self.total)
        narrowed.left, narrowed.at, narrowed._mask, narrowed._cuts = (
            self.left,
            self.at,
            self._mask,
            list(self._cuts),
        )
        narrowed.keep(narrowed.spread(np.isin(self.ordinals(), ordinals, assume_unique=True)), step)
        return narrowed

    def count_in(self, chosen: Mask) -> int:
        """How many of those left are `chosen` (an entry for each slice)."""
        if self.at is not None:
            return int(np.count_nonzero(chosen[self.at]))
        return int(np.count_nonzero(chosen if self._mask is None else chosen & self._mask))

    def ordinals(self) -> NDArray[np.intp]:
        """Ordinals of those left, ascending."""
        if self.at is not None:
            return self.at
        return np.arange(self.total) if self._mask is None else np.flatnonzero(self._mask)

    def spread(self, wanted: Mask) -> Mask:
        """What is wanted of those left, in the form that `keep` takes."""
        if self.at is not None:
            return wanted
        if wanted.all():
            return np.ones(self.total, np.bool_)
        spread = np.ones(self.total, np.bool_)
        spread[self.ordinals()] = wanted
        return spread

    def mask(self) -> Mask:
        """True for each slice that is left; the caller owns the array."""
        if self.at is None:
            # A copy, since the mask may belong to the evidence.
            return np.ones(self.total, np.bool_) if self._mask is None else self._mask.copy()
        mask = np.zeros(self.total, np.bool_)
        mask[self.at] = True
        return mask

    def dropped_by(self) -> NDArray[np.int32]:
        """For each slice, the number of the step that dropped it; 0 where it is left."""
        steps = np.zeros(self.total, np.int32)
        # The first step that did not want a slice dropped it, so the first is written last.
        for cut in reversed(self._cuts):
            if cut.dropped is not None:
                steps[cut.dropped] = cut.step
            elif cut.left is not None:
                later = steps[cut.left]
                steps[:] = cut.step
                steps[cut.left] = later
            elif cut.wanted is not None:
                steps[np.unpackbits(cut.wanted, count=self.total) == 0] = cut.step
        return steps
