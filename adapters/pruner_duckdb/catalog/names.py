"""Which names in statements mean tables of pruner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.sql.select import Reference, Select, Span

Path = tuple[str, ...]
"""The parts of a name in lower case, the table's own last."""


class TableNames:
    """The tables of a connection and all of its cursors, by their names."""

    def __init__(self, tables: Mapping[Path, KnownTable]) -> None:
        self._tables = tables
        self._homes: tuple[Path, ...] = ()
        self._last_parts = frozenset(path[-1].replace('"', '""') for path in tables)
        self.plain = frozenset(path[0] for path in tables if len(path) == 1)
        """Names of tables that stand without a schema."""
        self.written = tuple(".".join(path) for path in tables)
        """All names, as people write them."""

    @property
    def paths(self) -> list[Path]:
        """All names, sorted."""
        return sorted(self._tables)

    def __iter__(self) -> Iterator[KnownTable]:
        return iter(self._tables.values())

    def __getitem__(self, path: Path) -> KnownTable:
        return self._tables[path]

    def called(self, name: str, *, whole: bool = False) -> str | None:
        """The table of this name, by its last part alone unless `whole`; None where there is none."""
        parts = tuple(part.strip('"').lower() for part in name.split("."))
        for path, known in self._tables.items():
            if path == parts or (not whole and path[-1] == parts[-1]):
                return known.name
        return None

    def is_meant(self, missing: str, name: str, written: str) -> bool:
        """Tell whether a name that DuckDB misses, perhaps its last part, is that of the table in the statement."""
        if self.called(missing, whole=True) == name:
            return True
        return "." not in missing and name.lower() in written.lower().replace('"', "")

    def mentioned_in(self, text: str) -> bool:
        """Tell cheaply whether a text may read one of the tables at all."""
        lowered = text.lower()
        return any(last in lowered for last in self._last_parts)

    def paths_in(self, text: str) -> list[Path]:
        """Names of the tables that a text may read, sorted."""
        lowered = text.lower()
        return [path for path in self.paths if path[-1].replace('"', '""') in lowered]

    def read_by(self, select: Select) -> list[Reference]:
        """References of a statement that bear the name of one of the tables."""
        return [each for each in select.references if self.of(each) is not None]

    def of(self, reference: Reference) -> KnownTable | None:
        """The table that a reference names, perhaps by way of the database and schema that the connection
        began with.
        """
        if reference.function:
            return None
        path = lower(reference.path)
        for home in ((), *self._homes):
            if path[: len(home)] == home and path[len(home) :] in self._tables:
                return self._tables[path[len(home) :]]
        return None

    def shortened(self, select: Select, replaced: Sequence[Reference]) -> list[tuple[Span, str]]:
        """Edits from `schema.table.column` to `table.column` for tables and views in whose place something stands that
        has no schema. A column may be called by another spelling of the table's name than the FROM has.
        """
        if not select.qualified:
            return []
        bare = {self._without_home(lower(each.path)) for each in replaced if each.alias is None}
        edits: list[tuple[Span, str]] = []
        for names, span in select.qualified:
            for length in range(len(names) - 1, 1, -1):
                if self._without_home(lower(names[:length])) in bare:
                    edits.append((span, ".".join(quote(part) for part in names[length - 1 :])))
                    break
        return edits

    def _without_home(self, path: Path) -> Path:
        """A name without the database and schema that the connection began with."""
        home = next((home for home in reversed(self._homes) if path[: len(home)] == home), ())
        return path[len(home) :] if len(path) > len(home) else path

    def begin_in(self, database: str, schema: str) -> None:
        """Learn the database and the schema that the connection begins with."""
        first, second = database.lower(), schema.lower()
        self._homes = ((second,), (first,), (first, second))

    def look_again(self) -> None:
        """Let the next plans be made for the tables as they are then, whatever staleness they allow (rule R8)."""
        for known in self._tables.values():
            known.look_again()


def lower(path: Sequence[str]) -> Path:
    """A name's parts in lower case."""
    return tuple(part.lower() for part in path)
