"""What an engine adapter is, and how it is found: the contract between `pruner` and its adapters.

An adapter takes the predicate of each scan from its engine, decodes it into the expression form, has it planned and
gives the engine the remaining files. docs/adapters.md explains step by step how to write one. Its package registers
an `Adapter`, which may be a module, in the entry point group `pruner.adapters` under the name of the engine.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeVar, cast, overload, runtime_checkable

from pruner.limits import REMEMBERED_SLICES
from pruner.planning.pinned import switched_off
from pruner.plugins import BrokenPluginError, Group, MissingPluginError, installing, load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pruner.catalog.names import TableLike
    from pruner.expr.engines import Traits
    from pruner.expr.nodes import Expr
    from pruner.expr.semantics import Semantics
    from pruner.planning.plan import Plan
    from pruner.table import Table

__all__ = [
    "Adapter",
    "BrokenPluginError",
    "FileScanner",
    "MissingPluginError",
    "Newest",
    "PluginAdapter",
    "ProbingAdapter",
    "QueryAdapter",
    "QueryConnection",
    "RequestDecoder",
    "ScanRecord",
    "TraitsAdapter",
    "VersionedAdapter",
    "adapter_names",
    "load_adapter",
    "switched_off",
    "without_engine",
]


class Adapter(Protocol):
    """What every adapter registers. The protocols below define what it may offer in addition."""

    @property
    def engine(self) -> str:
        """The engine's name, as in the entry point and in the `Semantics` of its predicates."""
        ...


@runtime_checkable
class TraitsAdapter(Adapter, Protocol):
    """An adapter for an engine that has no row in `pruner.expr.engines`: the adapter provides the row."""

    @property
    def traits(self) -> Traits:
        """The engine's behavior where engines differ; `name` is the engine's name."""
        ...


@runtime_checkable
class FileScanner(Adapter, Protocol):
    """An adapter whose engine reads files in this process, when the user asks for the result."""

    def scan(
        self, plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: Any = None
    ) -> Any:
        """Return all rows of the files to read, lazily, with the names and types of the table.

        Args:
            plan: what to read.
            columns: names of top-level columns; by default all.
            storage_options: options of the store.
            into: engine object that holds the result; by default a new one.

        Raises:
            SchemaError: a column cannot be read with the table's type; the message has the reason.
            TableError: a file group to read has log files, so its base file alone is not the table's content.
        """
        ...


@runtime_checkable
class RequestDecoder(Adapter, Protocol):
    """An adapter whose engine sends predicates to `pruner serve` in its own form."""

    def decode_request(self, content: bytes, semantics: Semantics) -> Expr:
        """Decode the predicate of one scan.

        Args:
            content: `predicate.content` of the request (docs/http.md), as JSON.
            semantics: rules that the predicate follows.

        Returns:
            The same predicate; each part that is not understood is an `Opaque` with the reason.

        Raises:
            PredicateError: the content does not have the shape that the adapter and its engine agreed on.
        """
        ...


@runtime_checkable
class PluginAdapter(Adapter, Protocol):
    """An adapter that ships a plugin to install in its engine."""

    def plugin_jar(self) -> Path:
        """The plugin's jar.

        Raises:
            PrunerError: this installation does not include it; the message says how to get it.
        """
        ...


@runtime_checkable
class ProbingAdapter(Adapter, Protocol):
    """An adapter whose engine can prove in this process that it reads a table, for `pruner doctor`."""

    def probe(self, table: Table, plan: Plan) -> None:
        """Read one row, as a user of the engine would.

        Args:
            table: the table.
            plan: a plan that reads one base file of it.

        Raises:
            Exception: whatever the engine raises.
        """
        ...


@runtime_checkable
class VersionedAdapter(Adapter, Protocol):
    """An adapter that knows the versions of its engine with which it was tested."""

    @property
    def installed_version(self) -> str:
        """The engine's installed version."""
        ...

    @property
    def tested_versions(self) -> Sequence[str]:
        """Versions that passed all tests."""
        ...

    def self_test(self) -> str | None:
        """Return why nothing from the installed version can be used; None if it can."""
        ...


class ScanRecord(Protocol):
    """What an adapter remembers of one scan, in its `last_plans`."""

    @property
    def table(self) -> str:
        """The table's name in the engine."""
        ...

    @property
    def plan(self) -> Plan | None:
        """The plan; None if planning failed."""
        ...

    @property
    def reason(self) -> str | None:
        """Why the scan was not pruned, or not fully; None if there is nothing to report."""
        ...


@runtime_checkable
class UnreadScan(ScanRecord, Protocol):
    """A scan that may read fewer files than its predicate keeps."""

    @property
    def is_unread(self) -> bool:
        """Whether no file is read: the engine skipped the scan, as `reason` says, or metadata has the answer."""
        ...

    @property
    def left(self) -> Plan | None:
        """The plan of what is read, whose last step says why; None if everything that `plan` keeps is read."""
        ...


Record = TypeVar("Record", bound="ScanRecord")


class Newest(deque[Record]):
    """The newest scans of a session, oldest first: a bounded sequence whose slices are lists.

    Each scan holds the snapshot that it was planned over, so fewer scans are remembered of a table with many files that
    is written to all the time: see `REMEMBERED_SLICES` of `pruner.limits`.
    """

    def append(self, scan: Record, /) -> None:
        """Remember one more scan."""
        super().append(scan)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest scans if all of them together hold too much."""
        scans = list(self)  # threads may share it
        held: set[int] = set()
        slices = 0
        for known, scan in enumerate(reversed(scans)):
            if scan.plan is None or id(scan.plan.snapshot) in held:
                continue
            held.add(id(scan.plan.snapshot))
            slices += scan.plan.total
            if slices > REMEMBERED_SLICES and len(held) > 1:
                with suppress(IndexError):
                    for _ in range(len(scans) - known):
                        self.popleft()
                return

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Record: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[Record]: ...
    def __getitem__(self, key: SupportsIndex | slice, /) -> Record | list[Record]:
        """One scan, or those of a slice."""
        return list(self)[key] if isinstance(key, slice) else super().__getitem__(key)


def without_engine(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The error for an adapter whose engine is not installed, with the name of the extra that installs it."""
    return ModuleNotFoundError(f"{error.name} is not installed: {installing(extra)}", name=error.name)


class QueryConnection(Protocol):
    """A connection to an engine, in the style of Python's DB-API, that reads pruned tables by name."""

    @property
    def last_plans(self) -> Sequence[ScanRecord]:
        """The newest scans, oldest first."""
        ...

    @property
    def description(self) -> Sequence[Sequence[Any]] | None:
        """Name and type of each column of the last result."""
        ...

    def execute(self, query: str) -> object:
        """Run one statement."""
        ...

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """The next rows of the last result; empty at its end."""
        ...


@runtime_checkable
class QueryAdapter(Adapter, Protocol):
    """An adapter whose engine runs in the calling process, as `pruner query` requires."""

    def connect(self, tables: Mapping[str, TableLike], *, config: Mapping[str, str]) -> QueryConnection:
        """Start the engine.

        Args:
            tables: the pruned tables, by the names that statements use.
            config: settings of the engine.
        """
        ...


def adapter_names() -> tuple[str, ...]:
    """The engines for which an adapter is installed. No adapter is imported, so some may fail to load."""
    return plugin_names(Group.ADAPTERS)


def load_adapter(engine: str) -> Adapter:
    """Import the adapter of an engine.

    Raises:
        MissingPluginError: none is installed.
        BrokenPluginError: it cannot be imported, or is not an adapter of this engine.
    """
    return cast("Adapter", load_plugin(Group.ADAPTERS, engine))
