"""How Hudi makes the text of a record key (`_hoodie_record_key`) of the columns that the key consists of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.tables.hudi.properties import HudiProperties

RECORD_KEY = "_hoodie_record_key"
"""The column of the text."""

_GENERATORS = frozenset({"SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"})
"""Generators that differ in how they make partitions; their keys are alike."""

_OF_ONE_COLUMN = frozenset({"SIMPLE", "TIMESTAMP"})
"""Generators whose keys have one column alone, and never its name."""

_KEYS_STAY_FROM = 9
"""The table version whose writers all refuse what has made a key stand with the columns of another row.

Before, UPDATE and MERGE let a statement change a key column and kept the key (HUDI-8823, HUDI-8824, in release 1.0),
and `bulk_insert` wrote the keys of other rows (hudi#9750, in release 0.12).
"""

_EMPTY = "__empty__"
"""What stands for an empty text in a key of several columns."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The columns of a record key, in their order in its text.

    With `may_be_named` a key of one column is its value, or has its name before: releases differ (hudi#12234).
    """

    columns: tuple[str, ...]
    may_be_named: bool = False

    def texts(self, values: Mapping[str, Sequence[int | bytes]]) -> list[str]:
        """Every text that the key of a row can have whose columns have some of these values each.

        Args:
            values: for each column integers, or texts in UTF-8.
        """
        parts = [[text_of(value) for value in values[column]] for column in self.columns]
        if len(parts) == 1 and not self.may_be_named:
            return parts[0]
        named = [
            ",".join(
                f"{column}:{value or _EMPTY}" for column, value in zip(self.columns, combination, strict=True)
            )
            for combination in product(*parts)
        ]
        return [*parts[0], *named] if len(parts) == 1 else named


def key_form(properties: HudiProperties) -> KeyForm | None:
    """Return the form of a table's keys; None where nothing shows that each row has the key of its columns."""
    values = properties.values
    columns = tuple(part.strip() for part in values.get("hoodie.table.recordkey.fields", "").split(","))
    if not (is_born_now(properties) and all(columns)):
        return None
    if values.get("hoodie.populate.meta.fields", "true").strip().lower() != "true":
        return None  # no row has a key in its file
    generator = properties.key_generator.removesuffix("_AVRO")
    nested = any("." in column for column in columns)
    return (
        None if generator not in _GENERATORS or nested else KeyForm(columns, generator not in _OF_ONE_COLUMN)
    )


def is_born_now(properties: HudiProperties) -> bool:
    """Tell whether no release before 1.1 has written to a table: version 9 shuts them out."""
    born = properties.values.get("hoodie.table.initial.version", "")
    return born.isdecimal() and int(born) >= _KEYS_STAY_FROM


def text_of(value: int | bytes) -> str:
    """A value as Hudi writes it in a key.

    Raises:
        UnicodeDecodeError: it is no UTF-8.
    """
    return value.decode() if isinstance(value, bytes) else str(value)
