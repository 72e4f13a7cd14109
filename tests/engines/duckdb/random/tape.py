"""Choices read from bytes: a random value of any depth costs hypothesis one draw instead of a hundred.

Drawing each choice separately took as long as running the result. A shrunk tape still gives a simple value: its bytes
become zeros, and zero always means the first choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

BYTES = 256
"""More than most values need; past the end every choice is the first."""

T = TypeVar("T")


class Tape:
    """The drawn bytes, and how many of them are used."""

    def __init__(self, drawn: bytes) -> None:
        self._drawn = iter(drawn)

    def number(self, least: int, most: int) -> int:
        """An integer between `least` and `most`, both included; they are less than 256 apart."""
        return least + next(self._drawn, 0) % (most - least + 1)

    def one_of(self, options: Sequence[T]) -> T:
        """One of some options."""
        return options[self.number(0, len(options) - 1)]

    def some_of(self, options: Sequence[T], most: int) -> list[T]:
        """One to `most` of several different options, without repetition."""
        left = list(options)
        wanted = self.number(1, min(most, len(left)))
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(wanted)]


def tapes() -> st.SearchStrategy[Tape]:
    """Tapes of one length: from a shorter one the shrinker would make other values, not simpler ones."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Tape)
