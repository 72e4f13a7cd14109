"""The values of an expression as one more column of a slice, so that every index type records them as it does others.

What is not known of a source column is not known of the expression. Over several columns nothing is known in a slice
with log files: which of their values stand in one row, the merge decides (rule R5, trap T12).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pruner.arrow import arrow
from pruner.expr.derived.canonical import parsed
from pruner.expr.derived.made import Made, Source
from pruner.expr.functions.registry import REGISTRY_VERSION
from pruner.indexes.base import ChunkStatistics, LeafColumn, UndecodableError
from pruner.indexes.columns.reading import reading_of, why_unknown
from pruner.indexes.columns.trust import zone_is_open
from pruner.pipeline.evaluation import evaluate, evaluator, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pruner.indexes.base import ParquetFooter, SliceReader
    from pruner.schema import Field


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of the rows with what they were made of; or the reason why they are not known."""

    values: pa.Array[Any] | None
    made: Made | None
    reason: str = ""


class DerivedReader:
    """A slice with the values of one expression: see `pruner.indexes.base.SliceReader`."""

    def __init__(self, reader: SliceReader, field: Field, *, has_logs: bool) -> None:
        """`field` stands for the expression; `has_logs` tells that rows of several files are not merged."""
        self._reader = reader
        self._field = field
        self._has_logs = has_logs
        self.name = reader.name
        self.footer = DerivedFooter(reader.footer, field, self)

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """The values of the expression: see `pruner.indexes.base.SliceReader`."""
        found = self.evaluated.values
        if found is None:
            raise UndecodableError(self.evaluated.reason)
        yield found

    def encoded(self, leaf: LeafColumn) -> Iterator[Any]:
        """The values of `batches`, dictionary-encoded."""
        return (cast("Any", part).dictionary_encode() for part in self.batches(leaf))

    @cached_property
    def evaluated(self) -> _Values:
        """The values, made when they are first asked for."""
        leaves = [self._reader.footer.leaf(source.recorded) for source in self._field.sources]
        reason = self._why_not(leaves)
        if reason is not None:
            return _Values(None, None, reason)
        columns = {
            source.path: self._column(leaf)
            for leaf, source in zip(leaves, self._field.sources, strict=True)
            if leaf is not None
        }
        try:
            values, agreed = evaluate(parsed(self._field.expression or ""), columns)
        except (ValueError, UndecodableError, pa.ArrowException) as error:
            return _Values(None, None, str(error))
        if values is None:
            return _Values(None, None, "some value lies outside those on which engines are known to agree")
        made = Made(
            evaluator=evaluator(),
            registry=REGISTRY_VERSION,
            agreed=agreed,
            sources=tuple(_source(self._reader.footer, leaf) for leaf in leaves if leaf is not None),
        )
        return _Values(plain_text(values), made)

    def _column(self, leaf: LeafColumn) -> pa.ChunkedArray[Any]:
        return arrow.chunked_array(list(self._reader.batches(leaf)), leaf.type)

    def _why_not(self, leaves: Sequence[LeafColumn | None]) -> str | None:
        if self._has_logs and len(leaves) > 1:
            return "log files may combine values of several versions of a row"
        footer = self._reader.footer
        for leaf, source in zip(leaves, self._field.sources, strict=True):
            reason = why_unknown(footer, leaf, source.in_files())
            if reason is not None:
                return reason
            if leaf is None or leaf.type is None:
                return f"the file does not have column {source.name!r}"
            if zone_is_open(footer.created_by, leaf):
                return f"a setting of the session decides how column {source.name!r} is read"
        return None


class DerivedFooter:
    """The footer of a slice with the one column that an expression makes: see `pruner.indexes.base.ParquetFooter`.

    It claims nothing of the values, so that they are looked at themselves.
    """

    created_by = ""

    def __init__(self, footer: ParquetFooter, field: Field, reader: DerivedReader) -> None:
        self._footer = footer
        self._field = field
        self._reader = reader
        self.row_count: int = footer.row_count

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """Nothing."""
        return {}

    def leaf(self, path: tuple[str, ...]) -> LeafColumn | None:
        """The column of the expression; None where the file has none of its source columns, so that it is NULL."""
        leaves = [self._footer.leaf(source.recorded) for source in self._field.sources]
        if all(leaf is None for leaf in leaves) and not self._alike():
            return None
        found = self._reader.evaluated
        values, made = found.values, found.made
        return LeafColumn(
            path=path,
            position=-1,
            type=None if values is None else values.type,
            type_text=found.reason if values is None else str(values.type),
            field_id=None,
            repeated=False,
            partly_absent=any(leaf is not None and leaf.partly_absent for leaf in leaves),
            made=made,
        )

    def alike(self, path: tuple[str, ...], field_id: int | None) -> tuple[LeafColumn, ...]:
        """None: what may be taken for a source column makes the expression unknown, with the reason."""
        return ()

    def _alike(self) -> bool:
        return any(self._footer.alike(source.recorded, source.field_id) for source in self._field.sources)

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """One chunk of which nothing is said."""
        return [ChunkStatistics(self.row_count, self.row_count, None, None, None)]


def _source(footer: ParquetFooter, leaf: LeafColumn) -> Source:
    parquet, in_range = reading_of(footer, leaf)
    return Source(leaf.type_text, parquet, in_range)
