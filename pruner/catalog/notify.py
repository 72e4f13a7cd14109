"""What writers call after changing a table that has a change feed (docs/feed.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pruner.catalog.names import settings_given
from pruner.catalog.settings import ConfigError
from pruner.errors import TableError
from pruner.tables.feed.place import add_event, announce

if TYPE_CHECKING:
    from pruner.catalog.settings import TableSettings


def notify(
    table: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    feed: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    events: bytes | None = None,
) -> str:
    """Record in a table's change feed that files were added, removed or replaced; call it afterwards.

    The table itself is not opened. The event appears atomically.

    Args:
        table: its root or its name in `pruner.toml`.
        paths: paths of files or folders, relative to the (first) root or absolute. "." is the whole table. Without
            paths, the event only says that the feed works.
        feed: location of the feed, if `pruner.toml` does not give it.
        storage_options: options of the store.
        events: instead of paths, a file of events as delivered by stores and queues (docs/feed.md).

    Returns:
        The name of the event.

    Raises:
        ConfigError: the table has no change feed.
        TableError: there is no such name, a path does not lie in the table, there are paths and events, or the events
            are not understood.
        StorageError: the event cannot be written.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if events is not None and paths:
        raise TableError("give paths or events, not both")
    settings = settings_given(table, feed=feed, storage_options=storage_options)
    return notify_by(settings, [os.fspath(path) for path in paths], events)


def notify_by(settings: TableSettings, paths: Sequence[str], events: bytes | None = None) -> str:
    """Add an event to the feed of a table: see `notify`.

    Args:
        settings: the settings of the table.
        paths: what changed.
        events: instead of paths, a file of events as delivered by stores and queues.
    """
    if settings.feed is None:
        raise ConfigError(f"{settings.name or settings.uris[0]} has no change feed: set feed in pruner.toml")
    if events is not None:
        return add_event(settings.feed, events, settings.storage_options)
    return announce(settings.feed, settings.uris, paths, settings.storage_options)
