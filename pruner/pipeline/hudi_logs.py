"""Rows of Hudi log files, each file by itself: nothing is merged, so records cover every version of every row (R5).

Merging takes rows, or columns of rows, from the base file and the log files; it never makes values (tables where it
does are not indexed with logs). So whatever a merged read returns in one column stands in the base file or in one of
the data blocks, and so does what a read as of an earlier instant or of base files alone returns. Delete blocks add
nothing. Rows are decoded here and not by hudi-rs, which merges the blocks of a file, even when it is given one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.pipeline.avro_rows import read_rows
from pruner.pipeline.footers import FileReader
from pruner.tables.hudi.logs import BlockType, blocks, log_bytes, records

if TYPE_CHECKING:
    from pruner.tables.hudi.logs import Block

_WITHOUT_ROWS = (BlockType.COMMAND, BlockType.DELETE)


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows of one schema from one log file, as a Parquet file in memory.

    `left_out` gives the type of columns that the rows have and that cannot be read.
    """

    reader: FileReader
    left_out: Mapping[tuple[str, ...], str]


def log_rows(
    uris: Sequence[str], size: int | None, instants: str | None, options: Mapping[str, str]
) -> list[LogRows]:
    """Read all rows of the log files of a slice.

    Args:
        uris: the log files.
        size: bytes of all of them, as they were listed.
        instants: `Snapshot.log_instants`.
        options: options of the object store.

    Raises:
        ValueError: a block is of an unfinished write (R4), of a kind that is not read, or broken; or a file is no
            longer what was listed.
        OSError, StorageError: a file cannot be read.
    """
    finished = _Finished(instants)
    found: list[LogRows] = []
    read = 0
    for uri in uris:
        data = log_bytes(uri, options)
        read += len(data)
        found += _rows(uri, [block for block in blocks(data) if finished.counts(block)])
    if size is not None and read != size:
        raise ValueError(f"its log files have {read} bytes where {size} were listed: refresh the index again")
    finished.check()
    return found


class _Finished:
    """Which blocks count (R4): those of completed instants, and of those so old that they have left the timeline."""

    def __init__(self, instants: str | None) -> None:
        self._oldest, *completed = (instants or "").split(" ")
        self._completed = frozenset(completed)
        self._unfinished: set[str] = set()
        self._rolled_back: set[str] = set()

    def counts(self, block: Block) -> bool:
        """Tell whether a block has rows to read; unfinished instants are kept for `check`."""
        if block.target:
            self._rolled_back.add(block.target)
        instant = block.instant
        if instant in self._completed or (instant and instant < self._oldest):
            return True
        self._unfinished.add(instant)
        return False

    def check(self) -> None:
        """Refuse blocks of unfinished instants that no command block of the slice has rolled back."""
        left = sorted(self._unfinished - self._rolled_back)
        if left:
            raise ValueError(f"a log file has a block of {left[0] or 'no instant'}, which has not completed")


def _rows(uri: str, kept: list[Block]) -> Iterator[LogRows]:
    """Yield the rows of the data blocks of a file; Avro blocks of one schema go together."""
    encoded: dict[str, list[memoryview]] = {}
    for block in kept:
        if block.type is BlockType.AVRO:
            encoded.setdefault(block.schema, []).extend(records(block.content))
        elif block.type is BlockType.PARQUET:
            yield LogRows(FileReader(uri, source=pa.BufferReader(bytes(block.content))), {})
        elif block.type not in _WITHOUT_ROWS:
            raise ValueError(f"a log file has a block of type {block.type.name}, which is not read")
    for schema, found in encoded.items():
        rows = read_rows(schema, found)
        sink = pa.BufferOutputStream()
        parquet: Any = pq  # whose stubs leave types open
        parquet.write_table(rows.table, sink, compression="none")
        yield LogRows(FileReader(uri, source=pa.BufferReader(sink.getvalue())), rows.left_out)
