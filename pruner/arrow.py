"""Arrow's functions without type stubs: the stubs of pyarrow lack functions, and argument types of others.

Also gives freed memory back to the system, after peaks that are large enough to be worth the call.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

arrow: Any = pa
compute: Any = pc

_FEW_OF: Final = 64
"""Rows are taken piece by piece if at most one in this many of the table's rows is wanted."""

_DIGEST_BYTES: Final = 16

_FEW_DIGESTS: Final = 1024
"""Most digests whose first two bytes are matched first: they are at most one in 64 of the 65,536 possible values."""

MOST_RUNS: Final = 4096
"""Most runs of neighboring rows that are sliced."""

_MOST_BYTES: Final = (1 << 31) - 1
"""Most bytes of an array of strings: its offsets have 32 bits."""


def first_value(column: Any) -> memoryview:
    """The first value of a large binary column, without a copy; an Arrow scalar would be one."""
    array = next((chunk for chunk in column.chunks if len(chunk)), None)
    if array is None:
        return memoryview(b"")
    _, offsets, data = array.buffers()
    start, end = memoryview(offsets).cast("q")[array.offset : array.offset + 2].tolist()
    return memoryview(data or b"")[start:end]


# Functions that make columns from lists, NumPy arrays or single values (`pa.array`, `pa.scalar`, `empty_table`,
# constants given to functions) or NumPy arrays from columns (`to_numpy`) first import pandas if it is installed. That
# takes longer than everything else that a plan imports, so a plan uses the functions below.


def number_array(
    values: NDArray[Any], type_: pa.DataType, nulls: Sequence[bool] | NDArray[np.bool_] = ()
) -> Any:
    """A column of NumPy's numbers, of the same width, without a copy; `nulls` tells where it is null."""
    assert values.dtype.itemsize * 8 == type_.bit_width, f"{type_} is not as wide as {values.dtype}"
    buffers = [_validity(nulls), arrow.py_buffer(np.ascontiguousarray(values))]
    return arrow.Array.from_buffers(type_, len(values), buffers)


def index_of_few(wanted: Any, among: Any, *, skip_nulls: bool = False) -> Any:
    """The result of `index_in` for few values among very many, without a hash table of the many."""
    rows = _alike(wanted, among)
    at = positions(_rows_with(wanted, among, skip_nulls=skip_nulls) if rows is None else rows)
    return at.take(compute.index_in(wanted, value_set=among.take(at), skip_nulls=skip_nulls))


def rows_with(wanted: Any, among: Any) -> NDArray[np.intp]:
    """The rows, ascending, whose value is one of `wanted`, for few values among very many."""
    rows = _alike(wanted, among)
    if rows is None:
        return _rows_with(wanted, among)
    return rows[_rows_with(wanted, among.take(positions(rows)))]


def _rows_with(wanted: Any, among: Any, *, skip_nulls: bool = False) -> NDArray[np.intp]:
    return np.flatnonzero(as_numpy(compute.is_in(among, value_set=wanted, skip_nulls=skip_nulls)))


def _alike(wanted: Any, among: Any) -> NDArray[np.intp] | None:
    """The rows of very many digests whose first two bytes are those of one of a few: all equal digests, and hardly any
    other. None for other columns. Asking Arrow about each digest took ten times as long.
    """
    type_, width = among.type, _DIGEST_BYTES
    if type_ != pa.binary(width) or wanted.type != type_ or wanted.null_count or among.null_count:
        return None
    in_pieces = hasattr(among, "chunks") or hasattr(wanted, "chunks")
    if in_pieces or not len(among) or not 0 < len(wanted) <= _FEW_DIGESTS:
        return None
    begins = np.zeros(1 << 16, np.bool_)
    begins[_first_words(wanted)] = True
    return np.flatnonzero(begins[_first_words(among)])


def _first_words(digests: Any) -> NDArray[np.uint16]:
    words = np.frombuffer(
        digests.buffers()[1], np.uint16, len(digests) * _DIGEST_BYTES // 2, digests.offset * _DIGEST_BYTES
    )
    return words[:: _DIGEST_BYTES // 2]


def rows_in_runs(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Rows of a table in this order; consecutive ones are sliced, which copies none."""
    begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if not len(rows) or len(begins) > MOST_RUNS:
        return table.take(positions(rows))
    ends = [*begins[1:].tolist(), len(rows)]
    runs = [
        table.slice(int(rows[begin]), end - begin) for begin, end in zip(begins.tolist(), ends, strict=True)
    ]
    return arrow.concat_tables(runs)


def rows_at(table: pa.Table, at: Any) -> pa.Table:
    """The result of `table.take`. For a table in pieces, Arrow first concatenates all strings of a column, however few
    rows are wanted; few rows are therefore taken piece by piece.
    """
    wanted = at if hasattr(at, "null_count") else positions(at)
    pieces: list[Any] = table.to_batches()
    if not len(wanted):
        return table.slice(0, 0)
    if len(pieces) < 2 or wanted.null_count or len(wanted) > table.num_rows // _FEW_OF:
        return table.take(wanted)
    numbers = as_numpy(wanted).astype(np.int64)
    starts = np.cumsum([0, *(piece.num_rows for piece in pieces)])
    if not 0 <= numbers.min() <= numbers.max() < starts[-1]:
        return table.take(wanted)  # which raises the error
    piece_of = np.searchsorted(starts, numbers, side="right") - 1
    order = np.argsort(piece_of, kind="stable")
    used, begins = np.unique(piece_of[order], return_index=True)
    taken = [
        _taken(pieces[piece], numbers[chosen] - starts[piece])
        for piece, chosen in zip(used.tolist(), np.split(order, begins[1:]), strict=True)
    ]
    together = arrow.Table.from_batches(taken, table.schema).combine_chunks()
    return together.take(positions(np.argsort(order, kind="stable")))


def _taken(piece: Any, at: NDArray[np.int64]) -> Any:
    """The result of `piece.take`. A single row is sliced: that reads no value, and took a hundredth of the time."""
    return piece.slice(int(at[0]), 1) if len(at) == 1 else piece.take(positions(at))


def positions(values: Sequence[int] | NDArray[Any]) -> Any:
    """A column of positions, for `take`."""
    return number_array(np.asarray(values, np.int64), pa.int64())


def truth_array(values: Sequence[bool] | NDArray[np.bool_]) -> Any:
    """A column of booleans."""
    return arrow.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def text_array(values: Sequence[str], nulls: Sequence[bool] | NDArray[np.bool_] = ()) -> Any:
    """A column of strings, in chunks if they are too long for one array; `nulls` tells where it is null.

    Raises:
        UnicodeEncodeError: one of them cannot be encoded.
    """
    joined = "".join(values)
    data = joined.encode()
    # Most are ASCII, where every character is one byte.
    lengths = map(len, values) if len(data) == len(joined) else (len(value.encode()) for value in values)
    if len(data) > _MOST_BYTES:
        return arrow.array(values, pa.string(), mask=np.asarray(nulls, np.bool_) if len(nulls) else None)
    return _one_behind_the_other(pa.string(), data, lengths, len(values), _validity(nulls))


def bytes_array(values: Sequence[bytes], width: int) -> Any:
    """A column of byte strings of one width.

    Raises:
        ArrowInvalid: one of them has another width.
    """
    type_ = pa.binary(width)
    if any(len(value) != width for value in values):
        return arrow.array(values, type_)
    return arrow.Array.from_buffers(type_, len(values), [None, arrow.py_buffer(b"".join(values))])


def binary_array(values: Sequence[bytes]) -> Any:
    """A column of byte strings, in chunks if they are too long for one array."""
    data = b"".join(values)
    if len(data) > _MOST_BYTES:
        return arrow.array(values, pa.binary())
    return _one_behind_the_other(pa.binary(), data, map(len, values), len(values), None)


def _one_behind_the_other(
    type_: pa.DataType, data: bytes, lengths: Iterable[int], count: int, validity: pa.Buffer | None
) -> Any:
    """A column of strings or byte strings of these lengths in bytes, at most `_MOST_BYTES` together."""
    ends = np.cumsum(np.fromiter(lengths, np.int64, count))
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    return arrow.Array.from_buffers(type_, count, [validity, arrow.py_buffer(offsets), arrow.py_buffer(data)])


def filled(column: Any, value: int) -> Any:
    """A column of integers or booleans with each null replaced by a value."""
    if not column.null_count:
        return column
    width = np.bool_ if pa.types.is_boolean(column.type) else column.type.to_pandas_dtype()
    one = np.array([value], width)
    return column.fill_null(arrow.Array.from_buffers(column.type, 1, [None, arrow.py_buffer(one)])[0])


def nulls(count: int, type_: pa.DataType) -> Any:
    """A column of nulls. For numbers and strings, the system provides no memory pages until they are written to."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        # There is one offset more than rows. The validity bitmap is all zeros, as the offsets are.
        zeros = arrow.py_buffer(np.zeros(count + 1, np.int32))
        return arrow.Array.from_buffers(type_, count, [zeros, zeros, arrow.py_buffer(b"")], count)
    if pa.types.is_primitive(type_) or pa.types.is_decimal128(type_):
        zeros = arrow.py_buffer(np.zeros((count * type_.bit_width // 512 + 1) * 64, np.uint8))
        return arrow.Array.from_buffers(type_, count, [zeros, zeros], count)
    return arrow.nulls(count, type_)


def null_unless(chosen: Any, column: Any) -> Any:
    """A column that is null where a column of booleans is not true."""
    return compute.if_else(chosen, column, nulls(len(column), column.type))


def from_storage(values: Any, type_: pa.DataType) -> Any:
    """Values of the storage domain (`pruner.expr.bound.predicates.StorageValue`: integers, doubles, bytes) as `type_`.

    Raises:
        ArrowInvalid: bytes are not valid text.
    """
    types = pa.types
    if types.is_date32(type_) or types.is_time32(type_):
        return values.cast(pa.int32()).view(type_)
    if types.is_timestamp(type_) or types.is_time64(type_):
        return values.view(type_)
    return values.cast(type_)


class Condensed:
    """A table whose columns of a single value, or of nulls only, take next to no memory while it is held.

    Attributes:
        nbytes: bytes that are held.
    """

    def __init__(self, table: pa.Table) -> None:
        self._schema = table.schema
        self._rows = table.num_rows
        columns: list[Any] = table.columns
        self._held = [_condensed(column) for column in columns]
        self.nbytes = sum(0 if column is None else column.nbytes for column in self._held)

    def table(self) -> pa.Table:
        """The original table."""
        schema: Any = self._schema
        columns = [self._column(held, of.type) for held, of in zip(self._held, schema, strict=True)]
        return arrow.Table.from_arrays(columns, schema=schema)

    def _column(self, held: Any, type_: pa.DataType) -> Any:
        if held is None:
            return nulls(self._rows, type_)
        return held if len(held) == self._rows else arrow.repeat(held[0], self._rows)


def _condensed(column: Any) -> Any:
    """None for a column of nulls, one row of a column that has one value, and any other column unchanged."""
    if column.null_count == len(column):
        return None
    types = pa.types
    # Floats and decimals may be equal and yet not identical; lists and the like cannot be compared.
    comparable = (
        types.is_integer(column.type) or types.is_boolean(column.type) or types.is_string(column.type)
    )
    if not comparable or column.null_count or column[0] != column[-1]:
        return column
    same = compute.all(compute.equal(column, column[0])).as_py()
    # `take` copies: a slice would keep the whole column alive.
    return column.take(positions([0])) if same else column


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows."""
    return arrow.Table.from_arrays([arrow.nulls(0, type_) for type_ in schema.types], schema=schema)


def _bits(values: Sequence[bool] | NDArray[np.bool_]) -> pa.Buffer:
    return arrow.py_buffer(np.packbits(np.asarray(values, np.bool_), bitorder="little"))


def _validity(nulls: Sequence[bool] | NDArray[np.bool_]) -> pa.Buffer | None:
    return _bits(~np.asarray(nulls, np.bool_)) if len(nulls) and np.any(nulls) else None


def as_numpy(column: Any) -> NDArray[Any]:
    """The integers, floating-point numbers or booleans of a column without nulls; numbers are not copied."""
    array: Any = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not pa.types.is_boolean(array.type):
        return np.from_dlpack(array)
    bits: NDArray[np.uint8] = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].view(
        np.bool_
    )


MANY_SLICES: Final = 10_000
"""Number of slices from which on memory is given back after they are listed."""

MANY_RECORDS: Final = 200_000
"""Number of slices from which on memory is given back after their records of a column are loaded: some 70 bytes each.
"""


def give_back_memory() -> None:
    """Give freed memory back to the system: otherwise allocators keep it for this process."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other C libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)
