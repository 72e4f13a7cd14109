"""Memory that was freed goes back to the system, where so much was needed for a moment that it is worth a call."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

import pyarrow as pa

MANY_SLICES: Final = 10_000
"""Slices from which what listing them took is given back."""

MANY_RECORDS: Final = 200_000
"""Slices from which what loading the records of a column took is given back: some 70 bytes each."""


def give_back_memory() -> None:
    """Give memory that was freed back to the system: allocators keep it for this process otherwise."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other libraries of C have no such call
        ctypes.CDLL(None).malloc_trim(0)
