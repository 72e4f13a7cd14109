"""hudi-rs, which Hudi tables alone need: it is by far the largest of what the others would do without."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.errors import TableError
from pruner.extras import installing

if TYPE_CHECKING:
    from types import ModuleType


MANY_SLICES: Final = 10_000
"""Slices from which the memory that listing them took is worth giving back."""


def give_back_memory() -> None:
    """Give memory that was freed back to the system: what a listing took, allocators keep for this process."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other libraries of C have no such call
        ctypes.CDLL(None).malloc_trim(0)


def hudi_rs() -> ModuleType:
    """The module `hudi`.

    Raises:
        TableError: it is not installed, or cannot be loaded; with what to install.
    """
    try:
        import hudi
    except ImportError as error:
        raise TableError(f"Hudi tables need the module hudi ({error}): {installing('hudi')}") from error
    return hudi
