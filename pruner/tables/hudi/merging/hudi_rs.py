"""hudi-rs, which only Hudi tables need: by far the largest of the modules that other tables do without."""

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
        TableError: it is not installed, or cannot be loaded; says what to install.
    """
    try:
        import hudi
    except ImportError as error:
        raise TableError(f"Hudi tables need the module hudi ({error}): {installing('hudi')}") from error
    return hudi


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PlainRoot:
    """The root of a table in a form that hudi-rs accepts, for as long as this object lives.

    hudi-rs refuses control characters in a path, such as line breaks. A local root with any is opened by a link.
    """

    def __init__(self, root: str) -> None:
        self.path = root
        self._folder: TemporaryDirectory[str] | None = None
        if root.startswith("/") and _CONTROL.search(root):
            self._folder = TemporaryDirectory(prefix="pruner-root-")
            link = Path(self._folder.name) / "table"
            link.symlink_to(root, target_is_directory=True)
            self.path = str(link)
