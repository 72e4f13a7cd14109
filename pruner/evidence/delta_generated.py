"""Evidence from generated partition columns of Delta: the day or year of a partition bounds the moments in its files.

Writers see to it that each row has the value of the expression. Whose clock made a day of a moment, the log does not
say, so that bounds are a day wider on both sides.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy
from pruner.tables.delta.schema import generation_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.schema import Field
    from pruner.tables.delta.state import DeltaState
    from pruner.tables.snapshot import Snapshot

    Bounds = tuple[int, int] | None

NAME: Final = "delta.generated"
"""How reports call it."""

_EXPRESSION: Final = re.compile(
    r"\s*(?:CAST\s*\(\s*(?P<day>`[^`]+`|\w+)\s+AS\s+DATE\s*\)|YEAR\s*\(\s*(?P<year>`[^`]+`|\w+)\s*\))\s*",
    re.IGNORECASE,
)
_FIRST_YEAR, _LAST_YEAR = 1901, 9998
"""Before, writers may count in other calendars, and clocks were set by the sun."""

_EPOCH: Final = date(1970, 1, 1)
_MICROSECONDS: Final = 86_400_000_000


def generated_bounds(state: DeltaState, snapshot: Snapshot, about: Field) -> Iterator[list[Bounds]]:
    """Yield for each partition column that is made of a column what it says of that in each slice.

    Args:
        state: the version that the snapshot was made of.
        snapshot: the slices.
        about: a column of moments; nothing is yielded of others.
    """
    if not pa.types.is_timestamp(about.type) or len(about.path) != 1 or not state.protocol.generates_columns:
        return
    codes: Any = as_numpy(snapshot.column("partition"))
    for name, text in generation_expressions(state.metadata).items():
        match = _EXPRESSION.fullmatch(text)
        path = snapshot.schema.find((name,)).path
        values = snapshot.partitions.values.get(path)
        if match is None or values is None or path not in snapshot.partitions.trusted:
            continue
        source = (match["day"] or match["year"]).strip("`")
        if source.lower() != about.path[0].lower() or not _is_of(
            values.type, is_day=match["day"] is not None
        ):
            continue
        of_partitions = [_bounds(value) for value in values.to_pylist()]
        yield [of_partitions[code] for code in np.asarray(codes).tolist()]


def _is_of(type_: Any, *, is_day: bool) -> bool:
    return pa.types.is_date32(type_) if is_day else pa.types.is_signed_integer(type_)


def _bounds(value: date | int | None) -> Bounds:
    """Microseconds between which all moments of a day or a year lie, by any clock; None where that is not known."""
    if value is None:
        return None
    year = value.year if isinstance(value, date) else value
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    first, last = (value, value) if isinstance(value, date) else (date(year, 1, 1), date(year, 12, 31))
    return ((first - _EPOCH).days - 1) * _MICROSECONDS, ((last - _EPOCH).days + 2) * _MICROSECONDS
