"""A decoder of whole Avro files, compiled for a writer's schema: fields become columns, and records never objects.

Avro does not store where a record begins. So the records of all blocks of a file are first skipped over side by side:
the first of each block, then the second, and so on. Each field is then read for all records in one step, as in
`pruner.tables.avro.columns`. Damaged bytes are refused; nothing is read past their end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, null_unless, nulls, number_array, truth_array
from pruner.tables.avro.columns import PADDING, NotColumnarError, numbers_at
from pruner.tables.avro.container import MOST_BLOCK, blocks, number, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.avro.container import DataBlock, FileHeader

    Places: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]

AT_ONCE: Final = 1 << 25
"""Bytes of blocks that are decoded together."""

MOST_BYTES: Final = 1 << 32
"""Maximum size of a decompressed file in bytes."""

MOST_ITEMS: Final = 1 << 17
"""Maximum number of items of one map or array."""

_DEEPEST: Final = 16
_FEW: Final = 8
"""Number of blocks below which each record is skipped by itself: NumPy steps would cost more."""

_FLOATS: Final = {"float": ("<f4", 4), "double": ("<f8", 8)}
_LOW: Final = 0x7F
_LONGEST: Final = 10
_LONG_OR_NEGATIVE: Final = 0x81
"""Bits of a length's first byte that show that more bytes follow, or that it is negative."""

_or: Final = np.bitwise_or.reduce
_and: Final = np.bitwise_and.reduce


@dataclass
class DecodedColumn:
    """The values of a field, one for each record; those that are not `valid` are null.

    `values` are numbers, or the offsets of strings, which then also have `lengths`. Items of maps and arrays are in
    `items`, item i of record `rows[i]`. A record's fields are in `fields`, by their ids where they have any.
    """

    kind: str
    count: int
    valid: Mask | None = None
    values: Any = None
    lengths: Any = None
    rows: Any = None
    items: DecodedColumn | None = None
    fields: dict[int | str, DecodedColumn] | None = None
    data: Any = None

    def array(self) -> Any:
        """An Arrow array: int64, bool, double, string, or binary; of type null where no value determines the type."""
        mask = None if self.valid is None else ~self.valid
        if self.kind == "null":
            return pa.nulls(self.count)
        if self.kind in ("string", "bytes"):
            return self._texts()
        if self.values is None:
            raise NotColumnarError(f"a field is of type {self.kind}, which does not belong there")
        if self.kind == "number":
            return number_array(self.values, pa.int64(), () if mask is None else mask)
        if self.kind == "boolean":
            whole = truth_array(self.values)
            return whole if self.valid is None else null_unless(truth_array(self.valid), whole)
        return number_array(self.values.astype(np.float64), pa.float64(), () if mask is None else mask)

    def _texts(self) -> Any:
        """The bytes between two values also become an array element: every second one is kept."""
        if not self.count:
            return nulls(0, pa.string() if self.kind == "string" else pa.binary())
        offsets = np.stack([self.values, self.values + self.lengths], axis=1).reshape(-1)
        whole: Any = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(offsets) - 1, [None, arrow.py_buffer(offsets), self.data]
        )
        places = number_array(
            np.arange(0, len(offsets), 2, dtype=np.int64),
            pa.int64(),
            () if self.valid is None else ~self.valid,
        )
        texts = whole.take(places).cast(pa.binary())
        return texts.cast(pa.string()) if self.kind == "string" else texts

    def taken(self, order: Places) -> DecodedColumn:
        """Some of the values, in another order."""
        column = DecodedColumn(self.kind, len(order), data=self.data)
        column.valid = None if self.valid is None else self.valid[order]
        column.values = None if self.values is None else self.values[order]
        column.lengths = None if self.lengths is None else self.lengths[order]
        if self.fields is not None:
            column.fields = {name: field.taken(order) for name, field in self.fields.items()}
        return column

    def chosen(self, kept: Mask) -> DecodedColumn:
        """The column for some of its records."""
        if self.rows is None:
            places = np.flatnonzero(kept)
            column = DecodedColumn(self.kind, len(places)) if self.fields is not None else self.taken(places)
            column.valid = None if self.valid is None else self.valid[kept]
            if self.fields is not None:
                column.fields = {name: field.chosen(kept) for name, field in self.fields.items()}
            return column
        inside = np.flatnonzero(kept[self.rows])
        rows = (np.cumsum(kept) - 1)[self.rows[inside]]
        valid = None if self.valid is None else self.valid[kept]
        items = self.items and self.items.taken(inside)
        return DecodedColumn(self.kind, int(kept.sum()), valid, rows=rows, items=items)

    def scattered(self, at: Places, chosen: Places) -> DecodedColumn:
        """The column of more records, `chosen` of which have values here. `at` has the start of each of all."""
        valid = np.zeros(len(at), np.bool_)
        valid[chosen] = True if self.valid is None else self.valid
        column = DecodedColumn(self.kind, len(at), valid, data=self.data, items=self.items)
        if self.lengths is not None:
            # Strings are in the order of records; a record without one has an empty string at its start.
            column.values, column.lengths = at.copy(), np.zeros(len(at), np.int64)
            column.values[chosen], column.lengths[chosen] = self.values, self.lengths
        elif self.values is not None:
            column.values = np.zeros(len(at), self.values.dtype)
            column.values[chosen] = self.values
        if self.rows is not None:
            column.rows = chosen[self.rows]
        if self.fields is not None:
            column.fields = {name: field.scattered(at, chosen) for name, field in self.fields.items()}
        return column


class Records:
    """Decodes the records of files of one schema: see `decode`."""

    def __init__(self, schema: Any, wanted: Mapping[int | str, Any]) -> None:
        """Compile a schema.

        Args:
            schema: as in the JSON.
            wanted: ids of fields to read, with what is wanted of a record in one, or None for all of it.

        Raises:
            NotColumnarError: it is damaged, too deep, or refers to itself.
        """
        self._root = _compiled(schema, {}, "", 0)
        if not isinstance(self._root, _Record):
            raise NotColumnarError("its records have no fields")
        self._wanted = wanted

    def fields(self, *path: int) -> list[tuple[str, int | None]]:
        """The names and ids of the fields of the records, or of the nested record at a path of field ids.

        There are none where the path leads to no record, or to several.
        """
        record: _Node = self._root
        for id_ in path:
            fields = record.fields if isinstance(record, _Record) else []
            nodes = [node for _, own, node in fields if own == id_]
            branches = [
                each for node in nodes for each in (node.branches if isinstance(node, _Union) else [node])
            ]
            records = [branch for branch in branches if isinstance(branch, _Record)]
            if len(records) != 1:
                return []
            record = records[0]
        return [(name, id_) for name, id_, _ in record.fields] if isinstance(record, _Record) else []

    def decode(self, parts: Sequence[Sequence[DataBlock]]) -> list[DecodedColumn]:
        """The records of each list of blocks; the lists are decoded together, which costs little more per step.

        Raises:
            NotColumnarError: one of them is damaged.
        """
        whole = [block for part in parts for block in part]
        view = _View(whole)
        starts = self._starts(view, whole)
        ends = np.cumsum([sum(len(block.data) for block in part) for part in parts])
        columns: list[DecodedColumn] = []
        for own, end in zip(np.split(starts, np.searchsorted(starts, ends)), ends.tolist(), strict=False):
            try:
                column, behind = self._root.read(view, own, self._wanted)
            except IndexError:
                raise NotColumnarError("it is cut short") from None
            if not np.array_equal(behind, np.append(own[1:], end)[: len(own)]):
                raise NotColumnarError("a record ends elsewhere than the next begins")
            columns.append(column)
        return columns

    def _starts(self, view: _View, some: Sequence[DataBlock]) -> Places:
        """The start of each record."""
        sizes = np.array([len(column.data) for column in some], np.int64)
        counts = np.array([column.records for column in some], np.int64)
        if self._root.least == 0 or (counts > sizes).any():
            raise NotColumnarError("a block has more records than bytes")
        ends = np.cumsum(sizes)
        order = np.argsort(-counts, kind="stable")
        at, ends, counts = (ends - sizes)[order], ends[order], counts[order]
        starts: list[Places] = []
        step, going = 0, len(some)
        try:
            while True:
                going = int(np.searchsorted(-counts, -step))  # blocks with more records than `step`
                if going < _FEW:
                    break
                starts.append(at[:going].copy())
                at[:going] = self._root.skip(view, at[:going])
                step += 1
            for block in range(going):
                places, at[block] = self._skipped(view.raw, int(at[block]), int(counts[block]) - step)
                starts.append(places)
        except (IndexError, OverflowError):
            raise NotColumnarError("it is cut short") from None
        if not np.array_equal(at, ends):
            raise NotColumnarError("a block is longer or shorter than its records")
        return np.sort(np.concatenate([np.zeros(0, np.int64), *starts]))

    def _skipped(self, data: bytes, at: int, count: int) -> tuple[Places, int]:
        places = np.empty(count, np.int64)
        for number_ in range(count):
            places[number_] = at
            at = self._root.skip_one(data, at)
        return places, at


def decode(data: bytes, compiled: Callable[[bytes], Records]) -> Iterator[DecodedColumn]:
    """Yield the records of a file, `AT_ONCE` bytes at a time; nothing for a file without records.

    Args:
        data: the file.
        compiled: makes `Records` from the text of a schema.

    Raises:
        NotColumnarError: it is damaged.
    """
    header = read_header(data)
    records = compiled(header.schema_text)
    for part in parts_of(data, header):
        yield from records.decode([part])


def parts_of(data: bytes, header: FileHeader) -> Iterator[list[DataBlock]]:
    """Yield the blocks of a file, in lists of about `AT_ONCE` bytes; nothing for a file without blocks.

    Raises:
        NotColumnarError: they are damaged, or too large together.
    """
    some: list[DataBlock] = []
    size = total = 0
    for block in blocks(data, header):
        size += len(block.data)
        total += len(block.data)
        if total > MOST_BYTES:
            raise NotColumnarError("it is too large when it is unpacked")
        some.append(block)
        if size >= AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


class _View:
    """The bytes of blocks, followed by padding, so that a truncated number reads no other memory."""

    def __init__(self, some: Iterable[DataBlock]) -> None:
        self.raw = b"".join([*(block.data for block in some), bytes(PADDING)])
        self.size = len(self.raw) - PADDING
        self.buffer = pa.py_buffer(self.raw)
        self.bytes = np.frombuffer(self.raw, np.uint8)


class _Node:
    """A type: the minimum bytes of a value, how values are skipped, and how they are read."""

    least = 1

    def skip(self, view: _View, at: Places) -> Places:
        """The offsets after values."""
        raise NotImplementedError

    def skip_one(self, data: bytes, at: int) -> int:
        """The offset after one value."""
        raise NotImplementedError

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        """The values, and the offsets after them."""
        raise NotImplementedError


class _Null(_Node):
    least = 0

    def skip(self, view: _View, at: Places) -> Places:
        return at

    def skip_one(self, data: bytes, at: int) -> int:
        return at

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        return DecodedColumn("null", len(at), np.zeros(len(at), np.bool_)), at


class _Number(_Node):
    def skip(self, view: _View, at: Places) -> Places:
        byte = view.bytes[at]
        at = at + 1
        if _or(byte) <= _LOW:
            return at
        more = byte > _LOW
        length = 1
        while _or(more):
            if length == _LONGEST:
                raise NotColumnarError("a number is too long")
            byte = view.bytes[at]
            at += more
            more &= byte > _LOW
            length += 1
        return at

    def skip_one(self, data: bytes, at: int) -> int:
        begin = at
        while data[at] > _LOW:
            at += 1
        if at - begin >= _LONGEST:
            raise NotColumnarError("a number is too long")
        return at + 1

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        values, behind = numbers_at(view.bytes, at)
        return DecodedColumn("number", len(at), values=values), behind


class _Fixed(_Node):
    """A value of fixed width: a boolean, a float, or bytes."""

    def __init__(self, kind: str, width: int) -> None:
        self.kind = kind
        self.width = self.least = width

    def skip(self, view: _View, at: Places) -> Places:
        return _within(view, at + self.width)

    def skip_one(self, data: bytes, at: int) -> int:
        return at + self.width

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        behind = _within(view, at + self.width)
        if self.kind == "bytes":
            lengths = np.full(len(at), self.width, np.int64)
            return DecodedColumn("bytes", len(at), values=at, lengths=lengths, data=view.buffer), behind
        stored = view.bytes[at[:, None] + np.arange(self.width)]
        if self.kind == "boolean":
            if _or(stored.reshape(-1)) > 1:
                raise NotColumnarError("a boolean is neither 0 nor 1")
            return DecodedColumn("boolean", len(at), values=stored[:, 0].astype(np.bool_)), behind
        values = stored.view(_FLOATS[self.kind][0])[:, 0].astype(np.float64)
        return DecodedColumn("float", len(at), values=values), behind


class _Text(_Node):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def skip(self, view: _View, at: Places) -> Places:
        byte = view.bytes[at]
        if not _or(byte) & _LONG_OR_NEGATIVE:
            return at + 1 + (byte >> 1)
        return self._lengths(view, at)[1]

    def skip_one(self, data: bytes, at: int) -> int:
        length, at = number(data, at)
        if length < 0:
            raise NotColumnarError("a text has a length that cannot be")
        return at + length

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        lengths, behind = self._lengths(view, at)
        return DecodedColumn(self.kind, len(at), None, behind - lengths, lengths, data=view.buffer), behind

    def _lengths(self, view: _View, at: Places) -> tuple[Places, Places]:
        lengths, start = numbers_at(view.bytes, at)
        if len(lengths) and (lengths.min() < 0 or lengths.max() > view.size):
            raise NotColumnarError("a text has a length that cannot be")
        return lengths, _within(view, start + lengths)


class _Union(_Node):
    def __init__(self, branches: list[_Node]) -> None:
        self.branches = branches

    def skip(self, view: _View, at: Places) -> Places:
        byte = view.bytes[at]
        same = int(_or(byte))
        if same <= _LOW and same == _and(byte) and not same & 1 and same >> 1 < len(self.branches):
            return self.branches[same >> 1].skip(view, at + 1)
        chosen, at = self._chosen(view, at)
        for branch, node in enumerate(self.branches):
            rows = np.flatnonzero(chosen == branch)
            if len(rows):
                at[rows] = node.skip(view, at[rows])
        return at

    def skip_one(self, data: bytes, at: int) -> int:
        branch, at = number(data, at)
        if not 0 <= branch < len(self.branches):
            raise NotColumnarError("a union has no such branch")
        return self.branches[branch].skip_one(data, at)

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        chosen, at = self._chosen(view, at)
        begin, behind = at, at.copy()
        column: DecodedColumn | None = None
        for branch, node in enumerate(self.branches):
            rows = np.flatnonzero(chosen == branch)
            if not len(rows):
                continue
            some, behind[rows] = node.read(view, at[rows], wanted)
            if some.kind == "null":
                continue
            if column is not None:
                raise NotColumnarError("a field has values of several types")
            column = some if len(rows) == len(at) else some.scattered(begin, rows)
        return column or DecodedColumn("null", len(at), np.zeros(len(at), np.bool_)), behind

    def _chosen(self, view: _View, at: Places) -> tuple[Places, Places]:
        chosen, at = numbers_at(view.bytes, at)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(self.branches)):
            raise NotColumnarError("a union has no such branch")
        return chosen, at


class _Record(_Node):
    def __init__(self) -> None:
        self.fields: list[tuple[str, int | None, _Node]] = []

    def skip(self, view: _View, at: Places) -> Places:
        for _, _, node in self.fields:
            at = node.skip(view, at)
        return at

    def skip_one(self, data: bytes, at: int) -> int:
        for _, _, node in self.fields:
            at = node.skip_one(data, at)
        return at

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        made: dict[int | str, DecodedColumn] = {}
        count = len(at)
        for name, id_, node in self.fields:
            key: int | str | None = id_
            if wanted is not None:
                key = id_ if id_ in wanted else name if name in wanted else None
            if key is None:
                at = node.skip(view, at)
            else:
                made[key], at = node.read(view, at, None if wanted is None else wanted[key])
        return DecodedColumn("record", count, fields=made), at


class _Items(_Node):
    """An array, or a map, which is stored like an array of keys and values."""

    def __init__(self, item: _Node) -> None:
        if not item.least:
            raise NotColumnarError("it has arrays of nothing")
        self.item = item

    def skip(self, view: _View, at: Places) -> Places:
        byte = view.bytes[at]
        same = int(_or(byte))
        if same <= _LOW and same == _and(byte) and not same & 1:
            places = at + 1
            for _ in range(same >> 1):
                places = self.item.skip(view, places)
            if not same or not _or(view.bytes[places]):
                return places + bool(same)
        return self._walked(view, at, lambda _, places: self.item.skip(view, places))

    def skip_one(self, data: bytes, at: int) -> int:
        while True:
            count, at = number(data, at)
            if not count:
                return at
            if count < 0:
                _, at = number(data, at)
            if abs(count) > MOST_ITEMS:
                raise NotColumnarError("an array is too long")
            for _ in range(abs(count)):
                at = self.item.skip_one(data, at)

    def read(self, view: _View, at: Places, wanted: Any) -> tuple[DecodedColumn, Places]:
        parts: list[tuple[Places, Places, DecodedColumn]] = []

        def take(rows: Places, places: Places) -> Places:
            column, behind = self.item.read(view, places, wanted)
            parts.append((rows, places.copy(), column))
            return behind

        behind = self._walked(view, at, take)
        if not parts:
            none = DecodedColumn("null", 0, np.zeros(0, np.bool_))
            return DecodedColumn("items", len(at), rows=np.zeros(0, np.int64), items=none), behind
        # The items were read step by step, and are sorted by record here.
        order = np.argsort(np.concatenate([places for _, places, _ in parts]), kind="stable")
        rows = np.concatenate([rows for rows, _, _ in parts])[order]
        items = _joined([column for _, _, column in parts]).taken(order)
        return DecodedColumn("items", len(at), rows=rows, items=items), behind

    def _walked(self, view: _View, at: Places, take: Callable[[Places, Places], Places]) -> Places:
        """The offsets after arrays: `take` is called with the next item of each of some, and returns what follows."""
        at = at.copy()
        going = np.arange(len(at))
        while len(going):
            counts, places = numbers_at(view.bytes, at[going])
            sized = np.flatnonzero(counts < 0)
            if len(sized):
                counts = np.abs(counts)
                places[sized] = _NUMBER.skip(view, places[sized])
            least, most = int(counts.min()), int(counts.max())
            if least < 0 or most > MOST_ITEMS:
                raise NotColumnarError("an array is too long")
            for _ in range(least):
                places = take(going, places)
            for step in range(least, most):
                some = np.flatnonzero(counts > step)
                places[some] = take(going[some], places[some])
            at[going] = places
            going = going if least else going[counts > 0]
        return at


_NUMBER: Final = _Number()


def _joined(columns: list[DecodedColumn]) -> DecodedColumn:
    """The concatenated values of some columns."""
    if len(columns) == 1:
        return columns[0]
    kinds = {column.kind for column in columns} - {"null"}
    if len(kinds) > 1:
        raise NotColumnarError("a field has values of several types")
    count = sum(column.count for column in columns)
    column = DecodedColumn(kinds.pop() if kinds else "null", count, data=columns[0].data)
    if any(column.valid is not None for column in columns):
        column.valid = np.concatenate(
            [np.ones(column.count, np.bool_) if column.valid is None else column.valid for column in columns]
        )
    if column.kind == "null":
        return column
    some = [column for column in columns if column.kind != "null"]
    if some[0].rows is not None or len(some) != len(columns):
        raise NotColumnarError("items are of a kind that is not read here")
    if some[0].values is not None:
        column.values = np.concatenate([each.values for each in some])
    if some[0].lengths is not None:
        column.lengths = np.concatenate([each.lengths for each in some])
    if some[0].fields is not None:
        names = some[0].fields
        column.fields = {name: _joined([_field(each, name) for each in some]) for name in names}
    return column


def _field(column: DecodedColumn, name: int | str) -> DecodedColumn:
    assert column.fields is not None
    return column.fields[name]


def _within(view: _View, behind: Places) -> Places:
    if len(behind) and behind.max() > view.size:
        raise NotColumnarError("it is cut short")
    return behind


_PRIMITIVES: Final[dict[str, _Node]] = {
    "null": _Null(),
    "boolean": _Fixed("boolean", 1),
    "int": _NUMBER,
    "long": _NUMBER,
    "float": _Fixed("float", 4),
    "double": _Fixed("double", 8),
    "bytes": _Text("bytes"),
    "string": _Text("string"),
    "enum": _NUMBER,
}


def _compiled(schema: Any, named: dict[str, _Node], space: str, depth: int) -> _Node:
    """The node of a schema. A record's reference to itself is refused: its name is not known yet at that point."""
    if depth > _DEEPEST:
        raise NotColumnarError("its schema is too deep")
    if isinstance(schema, list):
        branches = cast("list[Any]", schema)
        union = _Union([_compiled(branch, named, space, depth + 1) for branch in branches])
        if not branches:
            raise NotColumnarError("its schema has a union of nothing")
        return union
    if isinstance(schema, str):
        # The enclosing namespace comes first (Avro specification, "Names").
        node = _PRIMITIVES.get(schema) or named.get(_full_name(schema, space)) or named.get(schema)
        if node is None or schema == "enum":
            raise NotColumnarError(f"its schema has a type {schema!r}, which is not known")
        return node
    if not isinstance(schema, dict):
        raise NotColumnarError("its schema is none")
    entries = cast("dict[str, Any]", schema)
    kind = entries.get("type")
    if kind == "array":
        return _Items(_compiled(entries.get("items"), named, space, depth + 1))
    if kind == "map":
        pair = _Record()
        value = _compiled(entries.get("values"), named, space, depth + 1)
        pair.fields = [("key", None, _PRIMITIVES["string"]), ("value", None, value)]
        return _Items(pair)
    if kind in ("record", "error", "fixed", "enum"):
        return _named(entries, named, space, depth)
    return _compiled(kind, named, space, depth + 1)


def _named(entries: dict[str, Any], named: dict[str, _Node], space: str, depth: int) -> _Node:
    name = entries.get("name")
    if not isinstance(name, str):
        raise NotColumnarError("its schema has a type without a name")
    outer, _, short = name.rpartition(".")
    space = outer or str(entries.get("namespace", space) or "")
    kind = entries["type"]
    if kind == "enum":
        compiled: _Node = _NUMBER
    elif kind == "fixed":
        size = entries.get("size")
        if type(size) is not int or not 0 <= size <= MOST_BLOCK:
            raise NotColumnarError("its schema has a size that cannot be")
        compiled = _Fixed("bytes", size)
    else:
        compiled = _Record()
        fields = entries.get("fields")
        for field in cast("list[Any]", fields) if isinstance(fields, list) else [None]:
            compiled.fields.append(_named_field(field, named, space, depth))
        ids = [id_ for _, id_, _ in compiled.fields if id_ is not None]
        if len(set(ids)) < len(ids):
            raise NotColumnarError("its schema has two fields of one id")
        compiled.least = sum(node.least for _, _, node in compiled.fields)
    named[_full_name(short, space)] = compiled
    return compiled


def _full_name(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name


def _named_field(
    field: Any, named: dict[str, _Node], space: str, depth: int
) -> tuple[str, int | None, _Node]:
    if not isinstance(field, dict) or "type" not in field:
        raise NotColumnarError("its schema has a field without a type")
    entries = cast("dict[str, Any]", field)
    name, id_ = entries.get("name"), entries.get("field-id")
    if not isinstance(name, str):
        raise NotColumnarError("its schema has a field without a name")
    try:
        number_ = None if id_ is None else int(id_)
    except (TypeError, ValueError):
        raise NotColumnarError("its schema has a field id that is no number") from None
    return name, number_, _compiled(entries["type"], named, space, depth + 1)
