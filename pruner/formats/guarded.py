"""What formats of other distributions return, checked before a plan goes by it.

What is wrong with a listing is an error: a plan by half of one would lose rows. What is wrong with the indexes that a
table itself keeps costs their pruning alone, and plans say why.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from posixpath import normpath
from typing import TYPE_CHECKING

from pruner.errors import PrunerError, TableError, first_line
from pruner.formats.format import is_built_in, table_format
from pruner.plugins import BrokenPluginError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pruner.evidence.sources import KnowsFields, OwnIndexes, Sources
    from pruner.expr.bound.predicates import BoundExpr, InLeaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


@contextmanager
def blamed(name: str, place: str) -> Generator[None]:
    """Name the format whose code fails otherwise than by a refusal.

    Raises:
        BrokenPluginError: it does.
    """
    try:
        yield
    except PrunerError:
        raise
    except Exception as error:
        raise BrokenPluginError(f"table format {name!r} failed over {place}: {first_line(error)}") from error


def look(source: TableSource, previous: Snapshot | None) -> Snapshot:
    """Look at a table now: see `TableSource.snapshot`.

    Raises:
        TableError: the table is gone, cannot be listed completely, or has a file twice.
        StorageError: the store refuses to be read.
        BrokenPluginError: the format of another distribution fails otherwise than by a refusal.
    """
    if is_built_in(source.format):
        return source.snapshot(previous)
    with blamed(source.format, source.root):
        snapshot = source.snapshot(previous)
        if snapshot is not previous:
            _require_each_once(source, snapshot)
    return snapshot


def look_at(source: TableSource, instant: str) -> Snapshot:
    """Look at a table as of an instant: see `TableSource.snapshot_at`; it raises what `look` does."""
    if is_built_in(source.format):
        return source.snapshot_at(instant)
    with blamed(source.format, source.root):
        snapshot = source.snapshot_at(instant)
        _require_each_once(source, snapshot)
    return snapshot


def _require_each_once(source: TableSource, snapshot: Snapshot) -> None:
    """Refuse a snapshot in which two slices are of one file: its rows would count twice."""
    seen: set[str] = set()
    for uri in snapshot.column("base_file").drop_null().to_pylist():
        file = _straight(str(uri))
        if file in seen:
            raise TableError(
                f"table format {source.format!r} lists {file} twice, so that its rows would count twice: "
                "name each file once"
            )
        seen.add(file)


def _straight(uri: str) -> str:
    """A local path without detours. In an object store `a//b` and `a/b` are two files."""
    has_detour = uri.startswith("/") and ("//" in uri or "/." in uri)
    return normpath(uri) if has_detour else uri


def own_indexes(source: TableSource, snapshot: Snapshot) -> tuple[OwnIndexes | None, tuple[str, ...]]:
    """Return what a table itself keeps as indexes, and why they are not used where the format's code fails.

    Raises:
        PrunerError: the format refuses.
    """
    found = table_format(source.format)
    if is_built_in(source.format):
        return found.own_indexes(source, snapshot), ()
    try:
        with blamed(source.format, source.root):
            own = found.own_indexes(source, snapshot)
            return (None if own is None else GuardedIndexes(source, own)), ()
    except BrokenPluginError as error:
        return None, (f"indexes of the table itself are not used: {error}",)


class GuardedIndexes:
    """Indexes of a format of another distribution: where its code fails, plans go on without them and say why."""

    def __init__(self, source: TableSource, own: OwnIndexes) -> None:
        """Ask for the names and expressions.

        Raises:
            BrokenPluginError: they cannot be had, or a member of `OwnIndexes` is missing.
        """
        self._source = source
        self._own = own
        with blamed(source.format, source.root):
            self.names = tuple(own.names)
            self.expressions = [(str(name), str(form)) for name, form in own.expressions]
            _ = own.add, own.implied, own.described

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a field, or why the format's code does not say it: see `OwnIndexes`."""
        usable = list(sources.usable)
        try:
            with self._blamed():
                self._own.add(about, sources)
        except BrokenPluginError as error:
            sources.usable[:] = usable
            sources.fallbacks.append(str(error))

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield what follows from a predicate; nothing where the format's code fails: see `OwnIndexes`."""
        try:
            with self._blamed():
                found = list(self._own.implied(predicate, semantics))
        except BrokenPluginError:
            return
        yield from found

    def described(self) -> dict[str, str]:
        """What plans make of each index, or why that cannot be said: see `OwnIndexes`."""
        try:
            with self._blamed():
                return dict(self._own.described())
        except BrokenPluginError as error:
            return dict.fromkeys(self.names, str(error))

    def _blamed(self) -> AbstractContextManager[None]:
        return blamed(self._source.format, self._source.root)
