"""hudi-rs, which Hudi tables alone need: it is by far the largest of what the others would do without."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.plugins import installing

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


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PlainRoot:
    """The root of a table as hudi-rs takes it, for as long as this object lives.

    It refuses control characters in a path, a line break, say. A local root that has some is opened by a link.
    """

    def __init__(self, root: str) -> None:
        self.path = root
        self._folder: TemporaryDirectory[str] | None = None
        if root.startswith("/") and _CONTROL.search(root):
            self._folder = TemporaryDirectory(prefix="pruner-root-")
            link = Path(self._folder.name) / "table"
            link.symlink_to(root, target_is_directory=True)
            self.path = str(link)
