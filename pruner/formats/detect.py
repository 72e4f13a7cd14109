"""Detects the format of a table, and refuses by name what pruner does not support (rule R8)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any, cast

from pruner.errors import TableError
from pruner.formats.format import format_names, is_built_in, table_format
from pruner.formats.guarded import GuardedSource, blamed
from pruner.plugins import BrokenPluginError
from pruner.storage.opening import is_within, normalize_uri
from pruner.tables.iceberg.places import is_of_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.formats.format import TableFormat
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.source import TableSource


_KEPT_TOGETHER = {"hudi", "delta"}
"""Formats that one table can have at the same time."""


def open_table_source(
    uris: Sequence[str],
    storage_options: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the name that readers of every library know
    *,
    immutable: bool = False,
    feed: FeedSettings | None = None,
) -> TableSource:
    """Open a table by its roots.

    Args:
        uris: paths or URIs; several only for a Parquet table whose files are scattered.
        storage_options: options of the object store.
        format: name of the format; detected unless given.
        immutable: no file ever changes in place, so a listing need not check each of them. Hudi's never do.
        feed: a change feed that names all additions, removals and changes. Hudi's timeline already does so.

    Raises:
        TableError: no such path, not a table, or a format that is not supported.
        StorageError: the store refuses to be read, or a URI is not understood.
    """
    if not uris:
        raise TableError("a table needs at least one root: give a path or URI")
    wanted = None if format is None else table_format(format)
    roots = [normalize_uri(uri) for uri in uris]
    _check_apart(roots, feed)
    format_of_roots, recognized = _recognized(roots, storage_options, wanted)
    if len(roots) > 1 and not format_of_roots.several_roots:
        raise TableError(
            f"{recognized[0]} is {format_of_roots.title}, which has one root: open it without the others"
        )
    if wanted is not None and wanted.name != format_of_roots.name:
        return _opened_as(wanted, format_of_roots, recognized, storage_options)
    return _opened(format_of_roots, roots, storage_options, immutable=immutable, feed=feed)


def _recognized(
    roots: list[str], storage_options: Mapping[str, str] | None, wanted: TableFormat | None
) -> tuple[TableFormat, list[str]]:
    """The format of which at least one location is the root of a table, and these locations.

    A Hudi table can have a Delta log for other readers: the same table, as of the last time that the log was written.
    Its format is the one that the user asks for, and Hudi otherwise.
    """
    named = list(filter(is_of_catalog, roots))
    if named:
        return table_format("iceberg"), named
    *others, last = map(table_format, format_names())
    claims = [
        (format_, recognized)
        for format_ in others
        if (recognized := _roots_of(format_, roots, storage_options))
    ]
    if {format_.name for format_, _ in claims} == _KEPT_TOGETHER:
        return next((claim for claim in claims if claim[0] is wanted), claims[0])
    if len(claims) > 1:
        titles = " and ".join(format_.title for format_, _ in claims)
        raise TableError(f"{claims[0][1][0]} looks like {titles}: keep tables of several formats apart")
    return claims[0] if claims else (last, _roots_of(last, roots, storage_options))


def _check_apart(roots: list[str], feed: FeedSettings | None) -> None:
    """Refuse nested roots, since every row of the inner one would count twice, and overlaps with the feed."""
    for left, right in combinations(roots, 2):
        for outer, inner in ((left, right), (right, left)):
            if is_within(inner, outer):
                raise TableError(f"the roots overlap: {inner} lies in {outer}; give each file one root")
    place = None if feed is None else normalize_uri(feed.uri)
    for root in roots:
        if place is not None and (is_within(place, root) or is_within(root, place)):
            raise TableError(f"the change feed {place} and the table {root} overlap: keep them apart")


def _roots_of(each: TableFormat, places: list[str], storage_options: Mapping[str, str] | None) -> list[str]:
    """The locations that are roots of tables of a format; those in an object store are checked concurrently."""
    is_root = partial(_is_root, each, storage_options)
    if all(place.startswith("/") for place in places):
        return list(filter(is_root, places))
    with ThreadPoolExecutor(len(places)) as threads:
        return list(compress(places, threads.map(is_root, places)))


def _is_root(each: TableFormat, storage_options: Mapping[str, str] | None, place: str) -> bool:
    """Ask a format whether a location is a root of its tables; only True and False are accepted as an answer."""
    with blamed(each.name, place):
        answer: Any = each.is_root(place, storage_options)
    if not isinstance(answer, bool):
        raise BrokenPluginError(
            f"table format {each.name!r} says neither True nor False of {place}: {answer!r}"
        )
    return answer


def _opened(
    each: TableFormat,
    roots: list[str],
    storage_options: Mapping[str, str] | None,
    *,
    immutable: bool,
    feed: FeedSettings | None,
) -> TableSource:
    """Let a format open a table.

    Raises:
        BrokenPluginError: it fails other than by refusing, or returns a source of another format.
    """
    with blamed(each.name, roots[0]):
        source = each.open(roots, storage_options, immutable=immutable, feed=feed)
        named: object = getattr(source, "format", None)
    if named != each.name:
        raise BrokenPluginError(f"table format {each.name!r} opens {roots[0]} as {named!r}")
    return (
        source if is_built_in(each.name) else cast("TableSource", GuardedSource(each.name, roots[0], source))
    )


def _opened_as(
    wanted: TableFormat, format_name: TableFormat, roots: list[str], storage_options: Mapping[str, str] | None
) -> TableSource:
    """Open a table in a format that it does not look like, which that format refuses, naming what is missing."""
    if wanted.several_roots:
        raise TableError(
            f"{roots[0]} is {format_name.title}, whose Parquet files are not all part of the data"
        )
    return _opened(wanted, roots, storage_options, immutable=False, feed=None)
