"""Globs in place of tables: what people write for a folder of files.

A table is a folder with all of its files. So a glob stands for a table where it takes all of them. One that takes some
is refused, because an index and a plan are always about a whole table; so is one that takes files that are none of it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.tables.parquet.other_files import other_files

if TYPE_CHECKING:
    from pruner.table import Table

_SIGN = re.compile(r"[*?\[]")


def folder_of(place: str) -> str | None:
    """The folder below which a glob looks for files; None of what is no glob."""
    sign = _SIGN.search(place)
    if sign is None:
        return None
    folder, slash, _ = place[: sign.start()].rpartition("/")
    return folder or slash or "."


def require_all(table: Table, folder: str, glob: str) -> None:
    """Refuse a glob that takes other files than the table in its folder, for which it is to stand.

    Raises:
        TableError: it does.
    """
    pattern = glob.removeprefix(folder).strip("/").split("/")
    root = table.uri.rstrip("/") + "/"
    files = [each.base_file for each in table.snapshot().slices if each.base_file is not None]
    taken = sum(_takes(pattern, file.removeprefix(root).split("/")) for file in files)
    if taken < len(files):
        raise TableError(
            f"the glob {glob} matches {taken:,} of the {len(files):,} files of {folder}, but a table has all of them: "
            "name the folder instead, and select files by a condition"
        )
    if table.format == "parquet":
        hidden = other_files([table.uri], table.storage_options, frozenset(files)).hidden
        beside = [file for file in hidden if _takes(pattern, file.removeprefix(root).split("/"))]
        if beside:
            raise TableError(
                f"the glob {glob} matches {beside[0]}, which does not belong to the table because a name in its path "
                "begins with _ or .: name the folder instead, or rename the file"
            )


def _takes(pattern: list[str], path: list[str]) -> bool:
    """Tell whether a glob takes a file, both by their parts; `**` stands for any number of folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        rest = pattern[1:] or ["*"]
        return any(_takes(rest, path[start:]) for start in range(len(path)))
    return fnmatchcase(path[0], pattern[0]) and _takes(pattern[1:], path[1:])
