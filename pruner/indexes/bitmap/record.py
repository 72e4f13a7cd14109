"""What a bitmap index records about one slice: the rows that hold each value, NULL and NaN.

Every row of a slice is in exactly one entry, so that where a predicate does *not* hold is known as well as where it
does. Values have the table's type at the time the slice was indexed; `type` says which, and a reader converts.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.indexes.base import UndecodableError
from pruner.indexes.bitmap.packing import checksum, pack_rows, pack_slices
from pruner.indexes.columns.kinds import BoundsKind, conversion, kind_of
from pruner.indexes.columns.ordering import decimal_words
from pruner.indexes.columns.reading import READING_COLUMNS, reading_of, why_unknown
from pruner.indexes.columns.trust import unknown_calendar, why_not_equal
from pruner.indexes.row_sets import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import LeafColumn, SliceReader
    from pruner.schema import Field

    Positions = NDArray[np.integer[Any]]


# The distinct values of one column of one slice, in order, and which of them each row has.
#
# Values are converted to the domain in which they are recorded: -0.0 becomes 0.0, NaN is a case of its own like NULL
# (trap S6), booleans, dates and timestamps become integers, decimals unscaled integers, strings bytes.

_STRIDE = 1 << 14
"""Minimum number of rows counted at a time: NumPy converts their positions to 64-bit integers."""


class TooManyValuesError(ValueError):
    """A slice has more distinct values than the index may hold for one slice."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"there are more than max_cardinality = {limit} distinct values")


@dataclass(frozen=True, slots=True)
class Values:
    """`distinct` ascends and holds neither NULL nor NaN; `codes` has the position in it of each row's value.

    The two codes after the last position represent NaN and NULL. `sizes` has the number of rows of each code.
    """

    distinct: pa.Array[Any]
    codes: NDArray[np.integer[Any]]
    sizes: NDArray[np.int64]

    @property
    def null_code(self) -> int:
        """Code of the rows with NULL."""
        return len(self.distinct) + 1

    @classmethod
    def all_null(cls, stored: pa.DataType, rows: int) -> Values:
        """The values of a column that is NULL in every row."""
        return cls(pa.array([], stored), np.ones(rows, np.uint16), np.array([0, rows], np.int64))


def distinct_values(batches: Iterable[Any], stored: pa.DataType, factor: int, most: int) -> Values:
    """Find the distinct values of a column.

    Args:
        batches: the column in row order, a part at a time; a dictionary may have entries that no row uses.
        stored: the type of `Values.distinct`.
        factor: the factor that turns integers and unscaled decimals into values of the table.
        most: maximum number of distinct values.

    Raises:
        TooManyValuesError: there are more of them.
        ValueError: a multiplied value does not fit the stored type.
    """
    encoded: list[Any] = []
    for part in batches:
        # Besides the values that are recorded, a dictionary may hold NaN and -0.0.
        if len(part.dictionary) > most + 2 and np.count_nonzero(_held(part)) > most + 2:
            raise TooManyValuesError(most)
        encoded.append(part)
    if not encoded:
        return Values.all_null(stored, 0)
    if pa.types.is_null(encoded[0].dictionary.type):
        return Values.all_null(stored, sum(len(part) for part in encoded))
    parts, dictionary = _joined(encoded)
    stride = max(_STRIDE, len(dictionary))
    positions = [part[start : start + stride] for part in parts for start in range(0, len(part), stride)]
    counts = np.zeros(len(dictionary) + 1, np.int64)
    for part in positions:
        counts += np.bincount(part, minlength=len(counts))
    held = counts[:-1] > 0
    kept = dictionary if held.all() else dictionary.filter(pa.array(held))
    distinct, ranks = _ranked(kept, stored, factor)
    if len(distinct) > most:
        raise TooManyValuesError(most)
    # The narrowest type sorts fastest.
    null_code = len(distinct) + 1
    lookup = np.full(len(counts), null_code, np.uint16 if null_code < 1 << 16 else np.uint32)
    lookup[:-1][held] = ranks
    sizes = np.zeros(null_code + 1, np.int64)
    np.add.at(sizes, lookup, counts)
    return Values(distinct, _taken(lookup, parts), sizes)


def _taken(lookup: NDArray[np.integer[Any]], parts: list[Positions]) -> NDArray[np.integer[Any]]:
    if len(parts) == 1 and len(parts[0]) <= _STRIDE:
        return lookup[parts[0]]
    codes = np.empty(sum(map(len, parts)), lookup.dtype)
    known: Any = pa.array(lookup)
    done = 0
    for part in parts:
        # They have been counted, so each is in the lookup. NumPy would convert them to 64-bit integers once more.
        values = cast("Any", pc).take(known, pa.array(part), boundscheck=False)
        codes[done : done + len(part)] = values.to_numpy()
        done += len(part)
    return codes


def _held(part: Any) -> NDArray[np.bool_]:
    """Which entries of a dictionary some row uses."""
    held = np.zeros(len(part.dictionary) + 1, np.bool_)
    held[_positions(part, len(part.dictionary))] = True
    return held[:-1]


def _positions(part: Any, null: int) -> Positions:
    """The position of each row's value in the dictionary; `null` represents NULL."""
    indices = part.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(null)
    return indices.to_numpy(zero_copy_only=False)


def _joined(encoded: list[Any]) -> tuple[list[Positions], Any]:
    """Positions of each part in one dictionary, and that dictionary; the position after its last represents NULL."""
    first = encoded[0].dictionary
    if all(part.dictionary is first or part.dictionary.equals(first) for part in encoded[1:]):
        return [_positions(part, len(first)) for part in encoded], first
    if pa.types.is_float16(first.type):
        # pyarrow 26 would take the bits of these for the numbers of the unified dictionary.
        joined: Any = pa.DictionaryArray  # its stubs leave types open
        encoded = [joined.from_arrays(part.indices, part.dictionary.cast(pa.float32())) for part in encoded]
    chunks: list[Any] = pa.chunked_array(encoded).unify_dictionaries().chunks
    # Its chunks have the same dictionary, or the beginning of the last one's.
    dictionary = max((chunk.dictionary for chunk in chunks), key=len)
    return [_positions(chunk, len(dictionary)) for chunk in chunks], dictionary


def _ranked(
    dictionary: pa.Array[Any], stored: pa.DataType, factor: int
) -> tuple[pa.Array[Any], NDArray[np.int64]]:
    """The values of a dictionary as they are recorded, ascending, and for each entry its position among them.

    NaN gets the position after the last.
    """
    types = pa.types
    if types.is_floating(stored):
        return _ranked_floats(dictionary)
    if types.is_decimal(stored):
        return _ranked_integers([value * factor for value in _unscaled(dictionary)], stored)
    if types.is_binary(stored):
        plain = (
            dictionary.view(pa.binary()) if dictionary.type == pa.string() else dictionary.cast(pa.binary())
        )
        order: NDArray[np.uint64] = cast("Any", pc).sort_indices(plain).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return plain.take(pa.array(order, pa.int64())), ranks
    numbers = _integers(dictionary)
    limit = np.iinfo(numbers.dtype).max // factor
    if len(numbers) and (numbers.max() > limit or numbers.min() < -limit):
        return _ranked_integers([int(value) * factor for value in numbers.tolist()], stored)
    distinct, ranks = _ranks(numbers * numbers.dtype.type(factor))
    known: Any = pa.array(distinct)
    try:
        return known if known.type == stored else known.cast(stored), ranks
    except pa.ArrowException as error:
        raise ValueError(f"a value lies outside {stored}") from error


def _ranked_integers(values: list[int], stored: pa.DataType) -> tuple[pa.Array[Any], NDArray[np.int64]]:
    distinct = sorted(set(values))
    position = {value: rank for rank, value in enumerate(distinct)}
    kept: list[Any] = [Decimal(value) for value in distinct] if pa.types.is_decimal(stored) else distinct
    try:
        array = pa.array(kept, stored)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"a value lies outside {stored}") from error
    return array, np.array([position[value] for value in values], np.int64)


def _ranked_floats(dictionary: pa.Array[Any]) -> tuple[pa.Array[Any], NDArray[np.int64]]:
    plain: NDArray[np.float64] = dictionary.to_numpy(zero_copy_only=False).astype(np.float64)
    numbers = plain + 0.0  # -0.0 becomes 0.0
    distinct, ranks = _ranks(numbers)
    # NaNs sort after all numbers, and no NaN equals another.
    known = len(distinct) - int(np.count_nonzero(np.isnan(distinct)))
    return pa.array(distinct[:known], pa.float64()), np.minimum(ranks, known)


def _ranks(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Distinct numbers, ascending, and the position of each number among them. One sort: `np.unique` takes three."""
    order = np.argsort(numbers)
    ascending = numbers[order]
    first = np.ones(len(ascending), np.bool_)
    first[1:] = ascending[1:] != ascending[:-1]
    ranks = np.empty(len(ascending), np.int64)
    ranks[order] = np.cumsum(first) - 1
    return ascending[first], ranks


def _integers(dictionary: pa.Array[Any]) -> NDArray[Any]:
    types, type_ = pa.types, dictionary.type
    if types.is_boolean(type_):
        return dictionary.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_integer(type_):
        return dictionary.to_numpy().astype(np.uint64 if type_ == pa.uint64() else np.int64, copy=False)
    narrow = types.is_date32(type_) or types.is_time32(type_)
    return dictionary.view(pa.int32() if narrow else pa.int64()).cast(pa.int64()).to_numpy()


def _unscaled(dictionary: pa.Array[Any]) -> list[int]:
    """Unscaled integers of decimals, from their bytes: Python's decimals would round to their context."""
    if not pa.types.is_decimal(dictionary.type):
        return cast("list[int]", dictionary.to_pylist())
    upper, lower = decimal_words(dictionary)
    return [(high << 64) + low for high, low in zip(upper.tolist(), lower.tolist(), strict=True)]


SLICE, NULL, NAN, VALUE = 0, 1, 2, 3
"""What a record is about, in `entry`: the slice as a whole, or the rows with NULL, NaN, or a value."""

_STORED = {
    BoundsKind.INTEGER: pa.int64(),
    BoundsKind.DECIMAL: pa.decimal128(38, 0),
    BoundsKind.FLOAT: pa.float64(),
    BoundsKind.BYTES: pa.binary(),
}


def stored_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values of a supported table type are recorded: integers, unscaled decimals, doubles, bytes."""
    kind = kind_of(type_)
    assert kind is not None
    return _STORED[kind]


def value_column(type_: pa.DataType) -> str:
    """The column with the values of a table type: one per kind, so that records of different ages can be combined."""
    kind = kind_of(type_)
    assert kind is not None
    return f"value_{kind.value}"


def record_schema(type_: pa.DataType) -> pa.Schema:
    """Columns of the records of a field; each is null in the records of entries that do not have it."""
    return pa.schema(
        [
            pa.field("entry", pa.int8(), nullable=False),
            pa.field(value_column(type_), stored_type(type_)),
            pa.field("cardinality", pa.int64()),
            pa.field("rows", pa.binary()),
            pa.field("checksum", pa.uint64()),
            pa.field("row_count", pa.int64()),
            pa.field("type", pa.string()),
            pa.field("field_id", pa.int32()),
            pa.field("usable", pa.bool_()),
            pa.field("absent", pa.bool_()),
            pa.field("calendar_open", pa.bool_()),
            pa.field("note", pa.string()),
            pa.field("partly_absent", pa.bool_()),  # missing in the first records: there it is unknown
            *READING_COLUMNS,
        ]
    )


@dataclass(frozen=True, slots=True)
class _About:
    """The record of the slice as a whole. Without `usable`, only the note has a meaning."""

    row_count: int
    field_id: int | None = None
    note: str | None = None
    absent: bool = False
    calendar_open: bool = False
    partly_absent: bool = False
    parquet: str | None = None
    in_range: bool = True


class SliceValues(NamedTuple):
    """What was found in one slice; one that cannot be indexed has no values, and a note that says why."""

    about: _About
    values: Values | None


def read_slice(reader: SliceReader, field: Field, max_cardinality: int) -> SliceValues:
    """Find the values of one field in one slice.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    leaf = footer.leaf(field.path)
    rows = footer.row_count
    field_id = leaf.field_id if leaf else None
    reason = why_unknown(footer, leaf, field) or _no_bitmap(leaf, field, rows)
    if reason is not None:
        return SliceValues(_About(rows, field_id, reason), None)
    if leaf is None:
        return SliceValues(_About(rows, absent=True), Values.all_null(stored_type(field.type), rows))
    how = conversion(leaf.type_text, field.type)
    assert how is not None
    try:
        values = distinct_values(reader.encoded(leaf), stored_type(field.type), how.factor, max_cardinality)
    except TooManyValuesError as error:
        return SliceValues(_About(rows, field_id, str(error)), None)
    except UndecodableError as error:
        return SliceValues(_About(rows, field_id, str(error)), None)
    if len(values.codes) != rows:
        raise ValueError(f"its column has {len(values.codes)} values for {rows} rows")
    oldest, newest = (values.distinct[at].as_py() if len(values.distinct) else None for at in (0, -1))
    note, is_open = unknown_calendar(reader, leaf, oldest, how.factor)
    parquet, in_range = reading_of(footer, leaf, oldest, newest)
    about = _About(
        *(rows, field_id, note),
        calendar_open=is_open,
        partly_absent=leaf.partly_absent,
        parquet=parquet,
        in_range=in_range,
    )
    return SliceValues(about, None if note else values)


def _no_bitmap(leaf: LeafColumn | None, field: Field, rows: int) -> str | None:
    """Why no bitmap can be made, or None."""
    if rows > MOST_ROWS:
        return f"the file has {rows} rows, more than positions of 32 bits can tell"
    return why_not_equal(leaf, field)


def records_of(field: Field, found: Sequence[SliceValues]) -> tuple[pa.Table, NDArray[np.int64]]:
    """The records of slices, and the slice of each record: first one per slice as a whole, then those of the rows.

    The latter are ordered by slice, and in each: NULL, NaN, and values in their order.

    Raises:
        ValueError: the blobs are more than an Arrow array holds.
    """
    schema: Any = record_schema(field.type)
    whole = pa.table(_of_slices(schema, field, found), schema=schema)
    usable = [number for number, each in enumerate(found) if each.values is not None]
    values = [each.values for each in found if each.values is not None]
    if not values:
        return whole, np.arange(len(found))
    listed, owners = _entries(values, value_column(field.type))
    columns: list[Any] = [
        listed[column.name] if column.name in listed else pa.nulls(len(owners), column.type)
        for column in schema
    ]
    entries = pa.table(columns, schema=schema)
    of_which = np.concatenate([np.arange(len(found)), np.array(usable, np.int64)[owners]])
    return pa.concat_tables([whole, entries]), of_which


def _of_slices(schema: Any, field: Field, found: Sequence[SliceValues]) -> list[pa.Array[Any]]:
    """The columns of the records of slices as a whole."""
    type_ = str(field.type)
    rows = [
        {
            "entry": SLICE,
            "row_count": about.row_count,
            "type": type_,
            "field_id": about.field_id,
            "usable": values is not None,
            "absent": about.absent,
            "calendar_open": about.calendar_open,
            "note": about.note,
            "partly_absent": about.partly_absent,
            "parquet": about.parquet,
            "in_range": about.in_range,
        }
        for about, values in found
    ]
    return [pa.array([row.get(column.name) for row in rows], column.type) for column in schema]


def _entries(values: Sequence[Values], value_name: str) -> tuple[dict[str, pa.Array[Any]], NDArray[np.int64]]:
    """Kind, value, row count, blob and checksum of each entry that rows of a slice have, and the slice's number."""
    sizes = np.concatenate([value.sizes for value in values])
    counts = np.array([len(value.distinct) for value in values])
    owners = np.repeat(np.arange(len(values)), counts + 2)
    codes = np.arange(len(owners)) - np.repeat(np.cumsum(counts + 2) - (counts + 2), counts + 2)
    behind = codes - counts[owners]
    kinds = np.where(behind < 0, VALUE, np.where(behind == 0, NAN, NULL)).astype(np.int8)
    held = np.flatnonzero(sizes > 0)
    order = np.lexsort((kinds[held], owners[held]))  # stable: values stay in their order
    chosen = held[order]
    blobs = _packed(values).take(pa.array(order))
    content = memoryview(blobs.buffers()[2] or b"")
    ends = np.frombuffer(blobs.buffers()[1], np.int32)[blobs.offset :][: len(order) + 1].tolist()
    sums = [checksum(content[start:end]) for start, end in pairwise(ends)]
    # Each slice has two codes more than values.
    at = pa.array(chosen - 2 * owners[chosen], pa.int64(), mask=kinds[chosen] != VALUE)
    listed = {
        "entry": pa.array(kinds[chosen]),
        value_name: pa.concat_arrays([value.distinct for value in values]).take(at),
        "cardinality": pa.array(sizes[chosen], pa.int64()),
        "rows": blobs,
        "checksum": pa.array(sums, pa.uint64()),
    }
    return listed, owners[chosen]


def _packed(values: Sequence[Values]) -> Any:
    """A blob for each code that some row has, slice by slice, in the order of codes."""
    if len(values) == 1:
        (one,) = values
        return pack_rows(one.codes, one.sizes, np.flatnonzero(one.sizes).tolist())
    return pack_slices([value.codes for value in values], [each.sizes for each in values])
