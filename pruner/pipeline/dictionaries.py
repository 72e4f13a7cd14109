"""Text columns as their files hold them: a dictionary and, for each row, the position of its value in it.

That is five to thirty times faster than making every string. But Arrow's reader drops entries that stand twice in
a dictionary page, and counts the rows' positions as if it had not: other values than those in the file come out.
So a page is believed only if as many entries came out as it says, of as many bytes (parquet-format, Encodings.md
and parquet.thrift). Everything else is read as plain values.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import compute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pruner.indexes.base import LeafColumn

_HEADER_BYTES = 128
"""A page header is far shorter, unless it holds statistics, which those of dictionaries do not."""

_LENGTH_BYTES = 4
"""What stands in front of each plain string."""

_LENGTH, _DICTIONARY = 2, 7
"""Fields of a page header: its length when unpacked, and what is said of dictionary pages alone."""

_ENTRIES = 1
"""Field of the latter."""

_I32, _STRUCT = 5, 12
_BOOLEANS = (1, 2)


class DictionaryPage(NamedTuple):
    """What the header of a dictionary page says: number of entries, and bytes of the page when unpacked."""

    entries: int
    length: int


def dictionary_pages(path: str, file: pq.ParquetFile, leaf: LeafColumn) -> list[DictionaryPage | None]:
    """What the dictionary page of a column says in each row group of a local file; None where there is none."""
    metadata = file.metadata
    chunks = [metadata.row_group(number).column(leaf.position) for number in range(metadata.num_row_groups)]
    with Path(path).open("rb") as content:
        return [_page(content, chunk.dictionary_page_offset) for chunk in chunks]


def _page(content: Any, offset: int | None) -> DictionaryPage | None:
    if not offset or offset < 0:
        return None
    content.seek(offset)
    try:
        return parse_header(content.read(_HEADER_BYTES))
    except (IndexError, ValueError):
        return None


def parse_header(data: bytes) -> DictionaryPage | None:
    """Read the header of a dictionary page (Thrift's compact protocol); None for that of another page.

    Raises:
        IndexError, ValueError: it is none.
    """
    header, _ = _struct(data, 0, depth=0)
    length, about = header.get(_LENGTH), header.get(_DICTIONARY)
    entries = cast("dict[int, Any]", about).get(_ENTRIES) if isinstance(about, dict) else None
    return DictionaryPage(entries, length) if isinstance(entries, int) and isinstance(length, int) else None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    field = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            field += step
        else:
            field, at = _integer(data, at)
        if kind in _BOOLEANS:
            found[field] = kind == _BOOLEANS[0]
        elif kind == _I32:
            found[field], at = _integer(data, at)
        elif kind == _STRUCT and depth == 0:
            found[field], at = _struct(data, at, depth + 1)
        else:
            raise ValueError(f"a page header has no field of type {kind}")
    return found, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at


def read_encoded(
    file: pq.ParquetFile,
    pages: list[DictionaryPage | None],
    type_: pa.DataType,
    read: Callable[[pq.ParquetFile, int], Iterator[Any]],
    plain: Callable[[int], Iterator[pa.Array[Any]]],
) -> Iterator[Any]:
    """All values of a column in row order, dictionary-encoded.

    Args:
        file: opened so that the column comes as a dictionary.
        pages: what the page of each row group says.
        type_: type of the values.
        read: the parts of a row group from `file`.
        plain: the parts of a row group, decoded.
    """
    for group, page in enumerate(pages):
        done = 0
        for part in read(file, group) if page is not None else ():
            if not _is_whole(part, page, type_):
                break
            yield part
            done += len(part)
        if done < file.metadata.row_group(group).num_rows:
            for part in plain(group):
                skipped = min(done, len(part))
                done -= skipped
                if skipped < len(part):
                    yield cast("Any", part.slice(skipped)).dictionary_encode()


def _is_whole(part: Any, page: DictionaryPage | None, type_: pa.DataType) -> bool:
    """Tell whether the dictionary is the page's: no entry went missing, and none was added by pages of plain values."""
    if page is None or not pa.types.is_dictionary(part.type) or not part.type.value_type.equals(type_):
        return False
    dictionary = part.dictionary
    if len(dictionary) != page.entries:
        return False
    length = compute.sum(compute.binary_length(dictionary)).as_py() or 0
    return length + _LENGTH_BYTES * len(dictionary) == page.length
