"""Reads hive-style partition values (`key=value` folders) out of paths.

A folder name is split at its first `=` and then decoded once, so that `%252F` is the text `%2F` (trap
N1). A column's type is inferred over all partitions of a snapshot: int64 where every text is a canonical
integer, date32 where every text is a canonical ISO date, string otherwise (trap N2: `01`, `1e3` and `true` are
strings).

Engines infer types by their own rules and disagree about some texts: Spark reads `01` as the number 1,
DuckDB as a string; an empty value is an error in Spark and a string in DuckDB. A column is trusted only when
all engines read the same values from its texts. `__HIVE_DEFAULT_PARTITION__` is NULL in all three; a
writer may have written it for both NULL and the empty string, but a scan returns NULL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa

from pruner.arrow import number_array, text_array
from pruner.tables.snapshot import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DIGITS = re.compile(r"[0-9]+")
_PADDED = re.compile(r"0[0-9]+")
_PERIOD = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])|[0-9]{4}-?(Q[1-4]|H[12]|W[0-5][0-9])")
"""Months, quarters, halves and weeks of a year, which every engine reads as text (trap N2)."""

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INT64_MAX = 2**63 - 1
_EPOCH = date(1970, 1, 1)

_SPECIAL_WORDS = frozenset(
    {
        *("nan", "inf", "infinity", "true", "false", "t", "f", "yes", "no", "y", "n", "null", "none"),
        *("epoch", "now", "today", "tomorrow", "yesterday"),
    }
)
"""Words that some engine reads as a number, boolean, date or NULL when it infers types."""


@dataclass(frozen=True)
class HivePartitions:
    """Partition values of some folders: `types` and `partitions.values` by column, in key order.

    `conflicts` has one sentence for each column whose name or presence differs between folders.
    """

    partitions: Partitions
    types: dict[str, pa.DataType]
    conflicts: dict[str, str]


class Readers(Enum):
    """Which engines read a folder's text as it was decoded here."""

    ALL = "all"
    UTF_8 = "those that take escaped bytes for UTF-8"
    NONE = "none for sure"


@dataclass
class _Column:
    """What the folders say about one key."""

    name: str
    texts: list[str | None]
    present: list[bool]
    readers: set[Readers] = field(default_factory=set[Readers])
    conflict: str | None = None
    spellings: set[str] = field(default_factory=set[str])


def escape_part(text: str) -> str:
    """Return `text` as Hive and Spark write it into a folder name."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 32))))


def decode_part(raw: str) -> tuple[str, bool]:
    """Decode the name or value of a `name=value` folder.

    Returns:
        The text, and whether every engine decodes it the same way: not so for escapes of non-ASCII bytes (Hive
        takes each byte for a character, DuckDB decodes UTF-8), nor for a `%` that begins no escape.
    """
    if "%" not in raw:
        return raw, True
    data = unquote_to_bytes(raw)
    plain = "%" not in _ESCAPE.sub("", raw)
    ascii_only = all(int(match[1:], 16) < 128 for match in _ESCAPE.findall(raw))
    try:
        return data.decode("utf-8"), plain and ascii_only
    except UnicodeDecodeError:
        return raw, False


def _is_utf8(raw: str) -> bool:
    """Tell whether `raw` can be read in only one way if its escapes are UTF-8 bytes."""
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "%" not in _ESCAPE.sub("", raw)


def split_folder(folder: str) -> list[tuple[str, str, Readers]]:
    """Return (name, value, engines reading it so) for each `name=value` part of a relative folder path.

    A second, unescaped `=` is one reason why some engines do not.
    """
    parts: list[tuple[str, str, Readers]] = []
    for part in folder.split("/"):
        raw_name, equals, raw_value = part.partition("=")
        if not equals or not raw_name:
            continue
        name, clear_name = decode_part(raw_name)
        value, clear_value = decode_part(raw_value)
        if not clear_name or "=" in raw_value:
            readers = Readers.NONE
        elif clear_value:
            readers = Readers.ALL
        else:
            readers = Readers.UTF_8 if _is_utf8(raw_value) else Readers.NONE
        parts.append((name, value, readers))
    return parts


def hive_partitions(folders: list[str]) -> HivePartitions:
    """Type the partition values of all folders of a snapshot.

    Args:
        folders: paths relative to their roots, "" for a root itself; may repeat for different roots.
    """
    columns = _collect(folders)
    values: dict[tuple[str, ...], pa.Array[Any]] = {}
    trusted: set[tuple[str, ...]] = set()
    padded: set[tuple[str, ...]] = set()
    escaped: set[tuple[str, ...]] = set()
    for column in columns:
        type_, certain = infer_type(column.texts)
        values[(column.name,)] = typed(column.texts, type_)
        if Readers.NONE in column.readers or column.conflict is not None:
            continue
        if Readers.UTF_8 in column.readers:
            if certain:
                escaped.add((column.name,))
        elif certain:
            trusted.add((column.name,))
        elif is_padded(column.texts):
            padded.add((column.name,))
    partitions = Partitions(
        text_array(folders), values, frozenset(trusted), frozenset(padded), frozenset(escaped)
    )
    return HivePartitions(
        partitions=partitions,
        types={column.name: values[(column.name,)].type for column in columns},
        conflicts={column.name: column.conflict for column in columns if column.conflict},
    )


def _collect(folders: list[str]) -> list[_Column]:
    """Gather the texts of each key over all folders; keys that differ only in case are one column."""
    columns: dict[str, _Column] = {}
    count = len(folders)
    for position, folder in enumerate(folders):
        for name, value, readers in split_folder(folder) if "=" in folder else ():
            key = name.lower()
            column = columns.get(key)
            if column is None:
                column = columns[key] = _Column(name, [None] * count, [False] * count)
            if column.present[position]:
                column.conflict = f"folder {folder!r} has the key {name!r} twice"
            column.present[position] = True
            column.spellings.add(name)
            column.texts[position] = None if value == DEFAULT_PARTITION else value
            column.readers.add(readers)
    for column in columns.values():
        if len(column.spellings) > 1:
            column.conflict = f"folders spell the key differently: {', '.join(sorted(column.spellings))}"
        elif not all(column.present):
            missing = folders[column.present.index(False)]
            column.conflict = f"folder {missing!r} lacks the key {column.name!r} that others have"
    return list(columns.values())


def infer_type(texts: list[str | None]) -> tuple[pa.DataType, bool]:
    """Infer a partition column's type; None in `texts` is NULL.

    Returns:
        The type, and whether every engine infers it and reads the same values.
    """
    given = {text for text in texts if text is not None}
    if given and all(is_canonical_integer(text) for text in given):
        return pa.int64(), True
    if given and all(is_canonical_date(text) for text in given):
        return pa.date32(), True
    certain = any(_is_surely_text(text) for text in given) and not any(
        text == "" or text != text.strip() or text.lower() == "null" for text in given
    )
    return pa.string(), certain


def is_padded(texts: list[str | None]) -> bool:
    """Tell whether these are numbers, some with leading zeros: text in DuckDB 2.0, numbers in Spark."""
    given = [text for text in texts if text is not None]
    return all(_DIGITS.fullmatch(text) for text in given) and any(_PADDED.fullmatch(text) for text in given)


def typed(texts: list[str | None], type_: pa.DataType) -> pa.Array[Any]:
    """Return the texts as values of one of the types that `infer_type` returns."""
    nulls = [text is None for text in texts]
    if pa.types.is_int64(type_):
        return number_array(np.array([int(text or 0) for text in texts], np.int64), type_, nulls)
    if pa.types.is_date32(type_):
        days = [0 if text is None else (date.fromisoformat(text) - _EPOCH).days for text in texts]
        return number_array(np.array(days, np.int32), type_, nulls)
    return text_array([text or "" for text in texts], nulls)


def is_canonical_integer(text: str) -> bool:
    """Tell whether `text` is an int64 in the one form that every engine reads alike."""
    return _INTEGER.fullmatch(text) is not None and -_INT64_MAX - 1 <= int(text) <= _INT64_MAX


def is_canonical_date(text: str) -> bool:
    """Tell whether `text` is a date in ISO form."""
    if _ISO_DATE.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_surely_text(text: str) -> bool:
    """Tell whether no engine can read `text` as a number, boolean, date or time."""
    if _PERIOD.fullmatch(text) is not None:
        return True
    return text[:1].isalpha() and text.lower() not in _SPECIAL_WORDS


def settled_trust(hive: HivePartitions, schemas: Iterable[pa.Schema]) -> Partitions:
    """Withdraw trust from partition columns that files hold too (N6): the engine decides which is read."""
    in_files = {name.lower() for schema in schemas for name in schema.names}
    partitions = hive.partitions
    trusted = frozenset(path for path in partitions.trusted if path[0].lower() not in in_files)
    padded = frozenset(path for path in partitions.padded if path[0].lower() not in in_files)
    escaped = frozenset(path for path in partitions.escaped if path[0].lower() not in in_files)
    return replace(
        partitions, trusted=trusted, padded=padded, escaped=escaped, shared=partitions.trusted - trusted
    )
