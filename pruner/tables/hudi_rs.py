"""hudi-rs, which Hudi tables alone need: it is by far the largest of what the others would do without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.extras import installing

if TYPE_CHECKING:
    from types import ModuleType


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
