r"""Hudi's secondary indexes: the record keys of the rows in which a column has a value.

A key of such an index is the value as text, `$` and the record key. In both parts `\` stands before what would be
taken for something else, so that no other value begins as `value$` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.counting import count_keys
from pruner.tables.hudi.metadata.payloads import SECONDARY, body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pruner.tables.hudi.metadata.partition import FileGroup

MOST_LOGGED_ENTRIES = 20_000
"""Entries in log files up to which the entries of an index are counted: each of them is decoded."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\$\0]")


class SecondaryIndex:
    """One secondary index, by its file groups. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        self._groups = groups

    @property
    def groups(self) -> int:
        """The number of its file groups, each of which is asked for a value."""
        return len(self._groups)

    def keys_with(self, values: Iterable[str]) -> list[str]:
        """Return the record keys of the rows that have one of some values.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return [key for value in values for key in self._keys_with(value)]

    def _keys_with(self, value: str) -> Iterable[str]:
        prefix = (escaped(value) + "$").encode()
        for group in self._groups:
            for key, record in group.records(prefix):
                if body(record, SECONDARY) is None:
                    raise FormatError("an entry of a secondary index is not understood")
                yield unescaped(key[len(prefix) :].decode("utf-8", "replace"))

    def count(self) -> int | None:
        """How many entries are in the index; None where too many of them stand in log files.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return count_keys(self._groups, marked=True, most=MOST_LOGGED_ENTRIES)


def escaped(text: str) -> str:
    """Write a value or a record key as it stands in a key (Hudi's `SecondaryIndexKeyUtils`)."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def unescaped(text: str) -> str:
    """Reverse `escaped`."""
    return _ESCAPED.sub(r"\1", text)
