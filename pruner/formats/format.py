"""The table format protocol, and the available formats.

A format of another distribution is registered in the entry point group `pruner.formats` (docs/table-formats.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from pruner.errors import TableError
from pruner.formats.delta import DeltaFormat
from pruner.formats.hudi import HudiFormat
from pruner.formats.iceberg import IcebergFormat
from pruner.formats.parquet import ParquetFormat
from pruner.plugins import Group, load_plugin, may_be_registered, plugin_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.evidence.sources import OwnIndexes
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


class TableFormat(Protocol):
    """A table format: one stateless object. Threads may share it.

    Attributes:
        name: the name of the format in `pruner.toml`, options and reports, in lower case.
        title: the name of a table of the format in messages, with its article: "a Hudi table".
        several_roots: whether a table can be scattered over several roots.
    """

    name: str
    title: str
    several_roots: bool

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether a location is the root of a table of this format.

        Args:
            root: an absolute local path, or a URI without a slash at its end.
            storage_options: options of the object store.

        Raises:
            StorageError: the store refuses to be read.
        """
        ...

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> TableSource:
        """Open a table by its roots, each of which `is_root` confirmed.

        Args:
            roots: one or several, as `is_root` takes them.
            storage_options: options of the object store.
            immutable: the user promises that no file ever changes in place.
            feed: a change feed that the user promises to be complete.

        Raises:
            TableError: the table uses a feature that is not supported; the message names it (rule R8).
            StorageError: the store refuses to be read.
        """
        ...

    def own_indexes(self, source: TableSource, snapshot: Snapshot) -> OwnIndexes | None:
        """Return the table's own indexes, for one snapshot; None if it has none.

        Nothing is read yet.
        """
        ...


_BUILT_IN: dict[str, TableFormat] = {
    each.name: each for each in (HudiFormat(), DeltaFormat(), IcebergFormat(), ParquetFormat())
}
_LAST = ParquetFormat.name
"""Any folder of Parquet files is a table of this format, so all others are tried first."""


def format_names() -> tuple[str, ...]:
    """The names of all formats, in the order in which they are tried: those of other distributions come first."""
    built_in = tuple(name for name in _BUILT_IN if name != _LAST)
    return (*_plugged_in(), *built_in, _LAST)


def is_built_in(name: str) -> bool:
    """Tell whether a format is one of pruner's own."""
    return name in _BUILT_IN


def _plugged_in() -> tuple[str, ...]:
    if not may_be_registered(Group.FORMATS):
        return ()
    return tuple(name for name in plugin_names(Group.FORMATS) if name not in _BUILT_IN)


def table_format(name: str) -> TableFormat:
    """Return a format by its name.

    Raises:
        TableError: there is no format of that name.
        BrokenPluginError: the distribution that registers it cannot be used.
    """
    format_name = _BUILT_IN.get(name)
    if format_name is not None:
        return format_name
    if name not in format_names():
        raise TableError(f"unknown format {name!r}: use one of {', '.join(sorted(format_names()))}")
    return cast("TableFormat", load_plugin(Group.FORMATS, name))
