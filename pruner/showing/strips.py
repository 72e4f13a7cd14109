"""Strips: what became of all slices in a row of cells, each with a letter, however many slices there are.

A cell stands for neighbouring slices. Its letter is that of most of them: a capital where it goes for all, a small one
where it does not. So a strip is read without colours, and a million slices take no more room than a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.showing.html import Markup, element, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CELLS = 100
"""Cells of a strip at most."""


class Fate(NamedTuple):
    """What can become of a slice: a letter, words for people, and the class that draws it."""

    letter: str
    words: str
    style: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Neighbouring slices from `first` to before `end`: how many met each fate that occurs, the most frequent first."""

    first: int
    end: int
    counts: tuple[tuple[Fate, int], ...]

    @property
    def letter(self) -> str:
        """The letter of most slices: a small one where it does not go for all."""
        letter = self.counts[0][0].letter
        return letter if len(self.counts) == 1 else letter.lower()

    @property
    def words(self) -> str:
        """What became of which slices."""
        last = self.end - 1
        of = f"{self.first:,}" if last == self.first else f"{self.first:,} to {last:,}"
        return f"{of}: " + ", ".join(f"{count:,} {fate.words}" for fate, count in self.counts)


def strip(codes: NDArray[np.integer], fates: Sequence[Fate], cells: int = CELLS) -> list[Cell]:
    """Bring slices into cells.

    Args:
        codes: for each slice the position of its fate among `fates`.
        fates: what can become of a slice.
        cells: most cells.
    """
    count = min(cells, len(codes))
    if not count:
        return []
    edges = np.linspace(0, len(codes), count + 1).round().astype(np.int64)
    which = np.repeat(np.arange(count), np.diff(edges))
    counted = np.bincount(which * len(fates) + codes, minlength=count * len(fates)).reshape(count, -1)
    return [
        Cell(first, end, _ranked(row.tolist(), fates))
        for first, end, row in zip(edges[:-1].tolist(), edges[1:].tolist(), counted, strict=True)
    ]


def _ranked(counts: list[int], fates: Sequence[Fate]) -> tuple[tuple[Fate, int], ...]:
    met = [(fate, count) for fate, count in zip(fates, counts, strict=True) if count]
    return tuple(sorted(met, key=lambda each: -each[1]))


def letters(cells: Sequence[Cell]) -> str:
    """A strip for a terminal."""
    return "".join(cell.letter for cell in cells)


def summary(cells: Sequence[Cell]) -> str:
    """What became of all slices of a strip, in words, as a screen reader says it."""
    totals: dict[str, int] = {}
    for cell in cells:
        for fate, count in cell.counts:
            totals[fate.words] = totals.get(fate.words, 0) + count
    return ", ".join(f"{count:,} {words}" for words, count in totals.items()) or "nothing"


def drawn(cells: Sequence[Cell], label: str) -> Markup:
    """A strip for a page: one picture to a screen reader, cells with a word of their own to a pointer."""
    shown = [element("span", cell.letter, class_=cell.counts[0][0].style, title=cell.words) for cell in cells]
    return picture(f"{label}: {summary(cells)}", *shown, class_="strip")
