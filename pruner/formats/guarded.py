"""Checks what formats of other distributions return before a plan relies on it.

A fault in a listing is an error: a plan over half of one would lose rows. A fault in the table's own indexes costs only
their pruning, and plans say why.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError, TableError, first_line
from pruner.formats.format import table_format
from pruner.plugins import BrokenPluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pruner.evidence.sources import KnowsFields, OwnIndexes, Sources
    from pruner.expr.bound.predicates import BoundExpr, InLeaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


@contextmanager
def blamed(name: str, place: str) -> Generator[None]:
    """Name the format whose code fails other than by refusing.

    Raises:
        BrokenPluginError: it does.
    """
    try:
        yield
    except PrunerError:
        raise
    except Exception as error:
        raise BrokenPluginError(f"table format {name!r} failed over {place}: {first_line(error)}") from error


class GuardedSource:
    """A table of a format of another distribution: what it lists is checked, and its failures name the format.

    It has every attribute of the format's own source.
    """

    def __init__(self, name: str, root: str, source: TableSource) -> None:
        """`name` is the name of the format, `root` is where it opened the table."""
        self.inner = source
        self._place = name, root
        for member in dir(source):
            if not member.startswith("_") and callable(getattr(type(source), member, None)):
                setattr(self, member, self._guarded(getattr(source, member)))
        self.snapshot: Callable[..., Snapshot] = self._checked(self.snapshot)
        self.snapshot_at: Callable[..., Snapshot] = self._checked(self.snapshot_at)

    def __getattr__(self, name: str) -> Any:
        with blamed(*self._place):
            return getattr(self.inner, name)

    def _guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def guarded(*args: Any, **options: Any) -> Any:
            with blamed(*self._place):
                return method(*args, **options)

        return guarded

    def _checked(self, listing: Callable[..., Snapshot]) -> Callable[..., Snapshot]:
        @wraps(listing)
        def checked(*args: Any) -> Snapshot:
            snapshot = listing(*args)
            if not args or snapshot is not args[0]:
                with blamed(*self._place):
                    _require_each_once(self._place[0], snapshot)
            return snapshot

        return checked


def _require_each_once(name: str, snapshot: Snapshot) -> None:
    """Refuse a snapshot in which two slices have the same file: its rows would count twice."""
    seen: set[str] = set()
    for uri in snapshot.column("base_file").drop_null().to_pylist():
        file = _straight(str(uri))
        if file in seen:
            raise TableError(
                f"table format {name!r} lists {file} twice, so that its rows would count twice: "
                "name each file once"
            )
        seen.add(file)


def _straight(uri: str) -> str:
    """Normalize a local path. In an object store, `a//b` and `a/b` are two files."""
    has_detour = uri.startswith("/") and ("//" in uri or "/." in uri)
    return normpath(uri) if has_detour else uri


def own_indexes(source: TableSource, snapshot: Snapshot) -> tuple[OwnIndexes | None, tuple[str, ...]]:
    """Return a table's own indexes, and why they are not used if the format's code fails.

    Raises:
        PrunerError: the format refuses.
    """
    format_ = table_format(source.format)
    if not isinstance(source, GuardedSource):
        return format_.own_indexes(source, snapshot), ()
    try:
        with blamed(source.format, source.root):
            own = format_.own_indexes(source.inner, snapshot)
            return (None if own is None else GuardedIndexes(source, own)), ()
    except BrokenPluginError as error:
        return None, (f"indexes of the table itself are not used: {error}",)


class GuardedIndexes:
    """Indexes of a format of another distribution: if its code fails, plans continue without them and say why."""

    def __init__(self, source: TableSource, own: OwnIndexes) -> None:
        """Read the names and expressions.

        Raises:
            BrokenPluginError: they cannot be read, or a member of `OwnIndexes` is missing.
        """
        self._source = source
        self._own = own
        with blamed(source.format, source.root):
            self.names = tuple(own.names)
            self.expressions = [(str(name), str(form)) for name, form in own.expressions]
            _ = own.add, own.implied, own.described

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a field, or why the format's code failed: see `OwnIndexes`."""
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
        """Return the conditions that a predicate implies: see `OwnIndexes`.

        Raises:
            BrokenPluginError: the format's code fails. There are no conditions then.
        """
        with self._blamed():
            return iter(list(self._own.implied(predicate, semantics)))

    def described(self) -> dict[str, str]:
        """How plans use each index, or why that is unknown: see `OwnIndexes`."""
        try:
            with self._blamed():
                return dict(self._own.described())
        except BrokenPluginError as error:
            return dict.fromkeys(self.names, str(error))

    def _blamed(self) -> AbstractContextManager[None]:
        return blamed(self._source.format, self._source.root)
