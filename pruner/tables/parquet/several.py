"""Refuses a folder that holds several tables, which would silently be read as one (rule R8).

Folders that are not partitions (`k=v`) can be the layout of one table, as in `2024/01/01/x.parquet`, or tables side by
side. Their files tell: those of one table have columns in common, however much its schema changed over time. So files
count as another table only if they have no column in common with the rest, not even through other files, and are in
folders of their own.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from pruner.errors import TableError
from pruner.tables.footers.file_schemas import BrokenFileError, distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from pruner.tables.listing.files import Lister
    from pruner.tables.parquet.building import FileVersion
    from pruner.tables.snapshot import Snapshot

_QUARTER: Final = 4

_COMPARED: Final = 100
"""Maximum number of column sets that are compared with each other."""


def check_one_table(
    listers: Sequence[Lister],
    files: Sequence[FileVersion],
    schemas: Mapping[bytes, pa.Schema | BrokenFileError],
) -> None:
    """Refuse a root whose folders hold separate tables. Roots that are given together are one table.

    Args:
        listers: one for each root.
        files: the data files, by root.
        schemas: the schemas of the files, by their keys.

    Raises:
        TableError: a root holds two tables; it names both.
    """
    known = distinct(schema for schema in schemas.values() if not isinstance(schema, BrokenFileError))
    names = {id(schema): _names(schema) for schema in known}
    if len(_Linked(names).sets()) < 2:
        return  # no work per file up to here
    for position, lister in enumerate(listers):
        _check_root(lister, [file for file in files if file.root == position], schemas, names)


def _check_root(
    lister: Lister,
    files: Sequence[FileVersion],
    schemas: Mapping[bytes, pa.Schema | BrokenFileError],
    names: Mapping[int, frozenset[str]],
) -> None:
    held: dict[tuple[str, ...], set[int]] = {}
    for file in files:
        if names.get(schema := id(schemas[file.key])):
            held.setdefault(_folders(file), set()).add(schema)
    linked = _Linked({schema: names[schema] for roots in held.values() for schema in roots})
    for roots in held.values():
        linked.join(roots)
    first: dict[int, FileVersion] = {}
    for file in files:
        if (of := linked.set_of(id(schemas[file.key]))) is not None:
            first.setdefault(of, file)
    if len(first) > 1:
        one, other = list(first.values())[:2]
        here, there = _apart(one, other)
        raise TableError(
            f"{lister.root} holds at least two tables: files in {_place(lister, here)} and in "
            f"{_place(lister, there)} have no column in common: open one of them, or give both as roots if they "
            "are one table"
        )


def least_alike(snapshot: Snapshot) -> tuple[str, str, frozenset[str]] | None:
    """Find two folders of a tree that are not partitions and whose files have few columns in common.

    One table can look like that, so it is not an error.

    Returns:
        Their paths below the root, and their common columns; None where all folders have enough columns in common: half
        of those of the smaller one, and, where each has columns of its own, a quarter of those of either.
    """
    schemas = snapshot.file_schemas
    if schemas is None:
        return None
    names = list(map(_names, schemas.distinct))
    partitions, ordinals = snapshot.column("partition").to_numpy(), schemas.ordinals
    of_folder: dict[str, frozenset[str]] = {}
    for partition, ordinal in sorted(set(zip(partitions.tolist(), ordinals.tolist(), strict=True))):
        path: str = snapshot.partitions.paths[partition].as_py()
        folder = "/".join(part for part in path.split("/") if "=" not in part)
        if ordinal >= 0:
            of_folder[folder] = of_folder.get(folder, frozenset()) | names[ordinal]
    first: dict[frozenset[str], str] = {}
    for folder, columns in of_folder.items():
        if columns:
            first.setdefault(columns, folder)
    pairs = combinations(list(first)[:_COMPARED], 2)
    return min(
        ((first[a], first[b], a & b) for a, b in pairs if _few_in_common(a, b)),
        key=lambda unlike: len(unlike[2]),
        default=None,
    )


def _few_in_common(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sets of columns look like two tables; a superset may be the same table after it grew."""
    both = len(one & other)
    apart = both < min(len(one), len(other)) and _QUARTER * both < len(one | other)
    return 2 * both < min(len(one), len(other)) or apart


def _names(schema: pa.Schema) -> frozenset[str]:
    """The columns of a file in lower case: engines ignore case when they match them."""
    return frozenset(name.lower() for name in schema.names)


def _folders(file: FileVersion) -> tuple[str, ...]:
    """The folders above a file that are not partitions."""
    return tuple(part for part in file.path.split("/")[:-1] if "=" not in part)


def _apart(one: FileVersion, other: FileVersion) -> tuple[str, str]:
    """The topmost differing folders of two files."""
    left, right = one.path.split("/")[:-1], other.path.split("/")[:-1]
    depth = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    depth = min(len(left), len(right)) if depth is None else depth
    if any("=" in part for part in (*left[depth : depth + 1], *right[depth : depth + 1])):
        return "/".join(left), "/".join(right)  # the tables are further down
    return "/".join(left[: depth + 1]), "/".join(right[: depth + 1])


def _place(lister: Lister, folder: str) -> str:
    return lister.uri(folder) if folder else lister.root


class _Linked:
    """Sets of schemas that belong together: those with a column in common do, and transitively so do others."""

    def __init__(self, names: Mapping[int, frozenset[str]]) -> None:
        self._above = {schema: schema for schema, columns in names.items() if columns}
        by_column: dict[str, int] = {}
        for schema in self._above:
            for column in names[schema]:
                self.join({by_column.setdefault(column, schema), schema})

    def set_of(self, schema: int) -> int | None:
        """The representative of the set of a schema; None for one without columns."""
        if schema not in self._above:
            return None
        while (above := self._above[schema]) != schema:
            self._above[schema] = schema = self._above[above]
        return schema

    def join(self, schemas: set[int]) -> None:
        """Merge the sets of some schemas."""
        sets = [of for schema in schemas if (of := self.set_of(schema)) is not None]
        for of in sets:
            self._above[of] = sets[0]

    def sets(self) -> set[int | None]:
        """The representatives of all sets."""
        return {self.set_of(schema) for schema in self._above}
