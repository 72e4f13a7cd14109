"""The schemas of data files by their footers, each of which is read once: no file is ever written again."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import StorageError, TableError, cause
from pruner.storage.opening import open_for_arrow
from pruner.tables.footers.file_schemas import BrokenFileError, SchemaReader, UnreadableFileError, plain_type
from pruner.tables.listing.files import open_lister

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_KEPT: Final = 1 << 17


class Footers:
    """Schemas of the files of a table, whatever snapshots have them. Threads may share it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of the store."""
        self._options = options
        self._readers: dict[str, SchemaReader] = defaultdict(SchemaReader)
        self._known: dict[str, pa.Schema] = {}
        self._lock = Lock()

    def schemas(self, files: Sequence[tuple[str, int | None]]) -> list[pa.Schema]:
        """The schema of each file, by URIs and sizes; equal ones are one object.

        Raises:
            TableError: a file cannot be read.
        """
        with self._lock:
            self._read(files)
            return [self._known[uri] for uri, _ in files]

    def _read(self, files: Sequence[tuple[str, int | None]]) -> None:
        """Read the schemas of files of which they are not known."""
        missing = [file for file in files if file[0] not in self._known]
        if len(self._known) + len(missing) > _MOST_KEPT:
            self._known.clear()
            missing = list(files)
        by_place: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for uri, size in missing:
            place, path = _place(uri)
            by_place[place].append((uri, path, size or 0))
        for place, wanted in by_place.items():
            reader = self._readers[place]
            read = reader.read_all(
                open_lister(place, self._options), [(path, size) for _, path, size in wanted]
            )
            for (uri, _, size), found in zip(wanted, read, strict=True):
                self._known[uri] = (
                    self._read_alone(uri, size, found) if isinstance(found, BrokenFileError) else found
                )

    def _read_alone(self, uri: str, size: int, error: BrokenFileError) -> pa.Schema:
        """The schema of a file whose footer is not where its size says; the manifest may be wrong about that."""
        if isinstance(error, UnreadableFileError):
            raise TableError(f"{uri} {error}") from None
        try:
            read: Any = cast("Any", pq).read_schema(open_for_arrow(uri, size, self._options))
        except (OSError, StorageError, pa.ArrowException) as why:
            raise TableError(f"cannot read {uri}: {cause(why)}") from None
        return self._readers[_place(uri)[0]].intern(
            pa.schema(
                [pa.field(column.name, plain_type(column.type), metadata=column.metadata) for column in read]
            )
        )


def _place(uri: str) -> tuple[str, str]:
    """The root of the store that a file lies in, and its path there."""
    if uri.startswith("/"):
        return "/", uri[1:]
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path
