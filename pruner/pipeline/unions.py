"""A slice with log files as one `SliceReader`: the rows of the base file, followed by those of the log files.

Nothing is merged (rule R5), so a column holds at least the values that any merged read finds in it. It does not tell
which values of two columns are in one row, nor how many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.indexes.base import ChunkStatistics, LeafColumn
from pruner.indexes.columns.trust import SPARK_VERSION, least_trusted, legacy_marks

if TYPE_CHECKING:
    from pruner.pipeline.footers import FileReader
    from pruner.pipeline.hudi_logs import LogRows
    from pruner.schema import Field

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    reader: FileReader
    left_out: Mapping[Path, str]
    is_rewritten: bool = False

    @property
    def rows(self) -> int:
        return self.reader.footer.row_count


class UnionFooter:
    """The footers of all parts, combined: see `pruner.indexes.base.ParquetFooter`."""

    def __init__(self, parts: Sequence[_Part], fields: Mapping[Path, Field]) -> None:
        self._parts = parts
        self._stored = [part for part in parts if not part.is_rewritten]
        self._fields = fields
        self.row_count: int = sum(part.rows for part in parts)

    @property
    def created_by(self) -> str:
        """The writer of a part that is trusted least.

        Avro rows were rewritten in memory a moment ago: that writer counts only if there is no other.
        """
        return least_trusted(part.reader.footer.created_by for part in self._stored or self._parts)

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """The key-value metadata of the first part, with the marks of the legacy calendar of any part.

        Without Spark's version, which would be a claim about the calendar of log rows: Avro does not state theirs.
        """
        if not self._parts:
            return {}
        every = [part.reader.footer.key_values for part in self._parts]
        marks = {mark: b"" for values in every for mark in legacy_marks(values)}
        return {key: value for key, value in every[0].items() if key != SPARK_VERSION} | marks

    def leaf(self, path: Path) -> LeafColumn | None:
        """The leaf column at exactly this path, None if no part has it; without a type if the parts disagree."""
        leaves = [self._own(part, path) for part in self._parts]
        present = [leaf for leaf in leaves if leaf is not None]
        # If a struct was left out as a whole, so were its fields.
        above = [path[:length] for length in range(1, len(path) + 1)]
        left_out = [part.left_out[name] for part in self._parts for name in above if name in part.left_out]
        if not present and not left_out:
            return None
        texts = sorted({leaf.type_text for leaf in present} | set(left_out))
        stored = [leaf for part in self._stored if (leaf := self._own(part, path)) is not None]
        widest = _common(present, stored or present)
        field = self._fields.get(path)
        if left_out or widest is None or (field is not None and _of_another_unit(widest, field)):
            return _unusable(path, present, " and ".join(texts))
        if None in leaves and not (field is not None and field.absent_is_null):
            return _unusable(path, present, f"{widest.type_text}, which some files of the file group lack,")
        return replace(widest, partly_absent=True) if None in leaves else widest

    def alike(self, path: Path, field_id: int | None) -> tuple[LeafColumn, ...]:
        """Leaf columns of any part that an engine may confuse with this one."""
        leaves = [leaf for part in self._parts for leaf in part.reader.footer.alike(path, field_id)]
        return tuple(dict.fromkeys(leaves))

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """The statistics of a leaf column in the footers of all parts; a part without it holds NULLs."""
        chunks: list[ChunkStatistics] = []
        for part in self._parts:
            own = self._own(part, leaf.path)
            if own is None:
                chunks.append(ChunkStatistics(part.rows, part.rows, part.rows, None, None))
            else:
                chunks += part.reader.footer.chunks(own)
        return chunks

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """The values of all parts, each as the type of `leaf`."""
        for part in self._parts:
            own = self._own(part, leaf.path)
            if own is None:
                nothing: Any = pa.array([None], leaf.type)
                yield nothing.take(pa.array(np.zeros(part.rows, np.int64)))
                continue
            for array in part.reader.batches(own):
                yield array if array.type.equals(leaf.type) else array.cast(leaf.type)

    @staticmethod
    def _own(part: _Part, path: Path) -> LeafColumn | None:
        return part.reader.footer.leaf(path)


class UnionReader:
    """A slice with log files: see `pruner.indexes.base.SliceReader`. Use as a context manager.

    Args:
        name: the name of the slice in messages.
        base: its base file, None if it has none.
        logs: its log rows.
        fields: the columns that will be requested, by path.
    """

    def __init__(
        self,
        name: str,
        base: FileReader | None,
        logs: Sequence[LogRows],
        fields: Mapping[Path, Field],
    ) -> None:
        self.name = name
        parts = [] if base is None else [_Part(base, {})]
        parts += [_Part(rows.reader, rows.left_out, rows.is_rewritten) for rows in logs]
        self._open = ExitStack()
        for part in parts:
            self._open.enter_context(part.reader)
        self.footer = UnionFooter(parts, fields)
        self._base = base

    @property
    def bytes_read(self) -> int:
        """Bytes of the base file that were needed so far; log files are read whole."""
        return 0 if self._base is None else self._base.bytes_read

    def __enter__(self) -> UnionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """All values of a leaf column, part by part; NULL where a parent struct is NULL.

        Raises:
            UndecodableError: a value does not fit the type.
            ValueError: the column is in a list or map, or of a type that no index supports.
        """
        if leaf.repeated or leaf.type is None:
            raise ValueError(
                f"column {'.'.join(leaf.path)} of type {leaf.type_text} has no single value for each row"
            )
        return self.footer.batches(leaf)

    def encoded(self, leaf: LeafColumn) -> Iterator[Any]:
        """The values of `batches`, dictionary-encoded: see `pruner.indexes.base.SliceReader`.

        Raises:
            UndecodableError, ValueError: as `batches` does.
        """
        return (cast("Any", array).dictionary_encode() for array in self.batches(leaf))


def _common(leaves: Sequence[LeafColumn], stored: Sequence[LeafColumn]) -> LeafColumn | None:
    """The column whose type holds the values of all of them exactly; None if none of their types does.

    Engines read the `stored` ones by their Parquet types, of which there must be one (traps S23, S31). Rows that were
    rewritten from Avro have none for engines.
    """
    first = leaves[0] if leaves else None
    if first is None:
        return None
    if all(_same(leaf, first) for leaf in leaves):
        parquet = stored[0].parquet
        return replace(first, parquet=parquet) if all(leaf.parquet == parquet for leaf in stored) else None
    # Narrower types are INT32 with an annotation that values need not fit (trap S24).
    integers = all(leaf.type in (pa.int32(), pa.int64()) and not leaf.repeated for leaf in leaves)
    return replace(max(leaves, key=_width), parquet=None) if integers else None


def _same(one: LeafColumn, other: LeafColumn) -> bool:
    return (
        one.type is not None
        and other.type is not None
        and one.type.equals(other.type)
        and one.int96 == other.int96
        and not one.repeated
        and not other.repeated
    )


def _of_another_unit(leaf: LeafColumn, field: Field) -> bool:
    """Tell whether readers may disagree about log rows: some convert such timestamps, others relabel them (S12)."""
    types = pa.types
    return (
        leaf.type is not None
        and types.is_timestamp(leaf.type)
        and types.is_timestamp(field.type)
        and leaf.type.unit != field.type.unit
    )


def _width(leaf: LeafColumn) -> int:
    assert leaf.type is not None
    return leaf.type.bit_width


def _unusable(path: Path, present: Sequence[LeafColumn], text: str) -> LeafColumn:
    """A column that exists but has no usable type, so that no index can record its values."""
    if present:
        return replace(present[0], type=None, type_text=text)
    return LeafColumn(path, -1, None, text, None, repeated=False)
