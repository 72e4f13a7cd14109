"""The registry: the functions that an index may be over, one row for each (`pruner.expr.functions.function`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pruner.expr.functions.function import Argument, Function
from pruner.expr.functions.of_conditions import CONDITION_ROWS
from pruner.expr.functions.of_moments import MOMENT_ROWS
from pruner.expr.functions.of_numbers import NUMBER_ROWS
from pruner.expr.functions.of_texts import TEXT_ROWS

REGISTRY_VERSION: Final = 2
"""Counted up when a row changes what it means or where it holds; the row then names the new version as `changed`."""

_MOMENTS: Final = tuple(replace(row, changed=2) if row.reads_clock else row for row in MOMENT_ROWS)
"""2: Trino rounds moments to milliseconds."""

_TEXTS: Final = tuple(replace(row, changed=2) for row in TEXT_ROWS)
"""2: text that is no UTF-8 lies in no domain."""

_OF_NULL: Final = {"coalesce", "greatest", "least", *(row.name for row in CONDITION_ROWS)}
"""What is not NULL for sure where every column in it is: some engines leave NULL out of the greatest of two."""

_ALL: Final = tuple(
    replace(row, of_null=True) if row.name in _OF_NULL else row
    for row in (*_MOMENTS, *_TEXTS, *NUMBER_ROWS, *CONDITION_ROWS)
)

FUNCTIONS: Final[Mapping[str, tuple[Function, ...]]] = {
    name: tuple(row for row in _ALL if row.name == name) for name in dict.fromkeys(row.name for row in _ALL)
}
"""Every function by its name in the canonical form; several where it is evaluated by the types of its arguments."""


def row_for(name: str, arguments: Sequence[Argument]) -> Function | None:
    """The row of a function for arguments of these types; None where there is none."""
    for row in FUNCTIONS.get(name, ()):
        if len(row.accepts) == len(arguments) and all(
            accepts(argument) for accepts, argument in zip(row.accepts, arguments, strict=True)
        ):
            return row
    return None
