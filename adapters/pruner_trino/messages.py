"""A scan's predicate as the plugin sends it, as JSON; docs/trino-predicates.md describes each key.

Content of another shape is refused as a whole: an unknown key may change the meaning of the others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from pruner.errors import PredicateError
from pruner.limits import PREDICATE_TEXT_BYTES

Path: TypeAlias = Annotated[list[str], msgspec.Meta(min_length=1)]


class ScanColumn(msgspec.Struct, forbid_unknown_fields=True):
    """A column of the scan: its path, Trino's name for its type, and where its values come from.

    The values of an `identified` column are found by field id.
    """

    path: Path
    type: str
    kind: Literal["regular", "partition", "identified", "hidden", "displaced"]


class Bound(msgspec.Struct, forbid_unknown_fields=True):
    """One end of a range."""

    value: Any
    inclusive: bool


class Range(msgspec.Struct, forbid_unknown_fields=True):
    """An interval; an end that is None is open."""

    low: Bound | None
    high: Bound | None


class AllValues(msgspec.Struct, tag_field="kind", tag="all", forbid_unknown_fields=True):
    """Every value that is not NULL."""


class NoValues(msgspec.Struct, tag_field="kind", tag="none", forbid_unknown_fields=True):
    """No value that is not NULL."""


class RangeValues(msgspec.Struct, tag_field="kind", tag="ranges", forbid_unknown_fields=True):
    """The values in any of these ranges."""

    ranges: list[Range]


class DiscreteValues(msgspec.Struct, tag_field="kind", tag="discrete", forbid_unknown_fields=True):
    """These values or, with `inclusive` false, all others."""

    inclusive: bool
    values: list[Any]


class OpaqueValues(msgspec.Struct, tag_field="kind", tag="opaque", forbid_unknown_fields=True):
    """Nothing can be said about the values."""

    text: str


Values: TypeAlias = AllValues | NoValues | RangeValues | DiscreteValues | OpaqueValues


class ColumnDomain(msgspec.Struct, forbid_unknown_fields=True):
    """The values that a column may have."""

    column: str
    null_allowed: bool
    values: Values


class TupleDomain(msgspec.Struct, forbid_unknown_fields=True):
    """The values that all columns may have; with `none`, no row can match."""

    none: bool
    columns: list[ColumnDomain]


class TrinoColumn(msgspec.Struct, tag_field="node", tag="column", forbid_unknown_fields=True):
    """A column by its id."""

    column: str
    type: str


class TrinoConstant(msgspec.Struct, tag_field="node", tag="constant", forbid_unknown_fields=True):
    """A constant; None is NULL."""

    type: str
    value: Any


class TrinoCall(msgspec.Struct, tag_field="node", tag="call", forbid_unknown_fields=True):
    """A function; one with a `schema` is not built in."""

    function: str
    type: str
    arguments: list[TrinoNode]
    schema: str | None = None


class TrinoField(msgspec.Struct, tag_field="node", tag="field", forbid_unknown_fields=True):
    """A field of a struct."""

    target: TrinoNode
    index: int
    name: str | None
    type: str


class TrinoOpaque(msgspec.Struct, tag_field="node", tag="opaque", forbid_unknown_fields=True):
    """An expression without a wire format."""

    type: str
    text: str
    columns: list[str]


TrinoNode: TypeAlias = TrinoColumn | TrinoConstant | TrinoCall | TrinoField | TrinoOpaque


class Content(msgspec.Struct, forbid_unknown_fields=True):
    """A scan's whole predicate: all of `domains` hold and `expression` is true."""

    version: Literal[1]
    connector: Literal["hive", "hudi", "iceberg"]
    columns: dict[str, ScanColumn]
    domains: list[TupleDomain]
    expression: TrinoNode | None = None


# Created at import, by one thread: two threads that create the first decoder of a type at once can crash the process.
_CONTENT = msgspec.json.Decoder(Content)


def read_content(data: bytes) -> Content:
    """Return the content of a request.

    Raises:
        PredicateError: it does not have the shape in docs/trino-predicates.md, is too long, or is nested too deep.
    """
    if len(data) > PREDICATE_TEXT_BYTES:
        raise PredicateError(
            f"the predicate is longer than {PREDICATE_TEXT_BYTES:,} bytes: send a shorter one"
        )
    try:
        return _CONTENT.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise PredicateError(
            f"the predicate is not in Trino's form (docs/trino-predicates.md): {error}"
        ) from error
    except RecursionError:
        raise PredicateError("the predicate is nested too deep: simplify it") from None


def survey(node: TrinoNode) -> tuple[list[str], int]:
    """Return the ids of the columns in a tree, each once, in order, and the number of its nodes."""
    messages: dict[str, None] = {}
    pending: list[TrinoNode] = [node]
    count = 0
    while pending:
        count += 1
        match pending.pop():
            case TrinoColumn(column):
                messages[column] = None
            case TrinoCall(arguments=arguments):
                pending.extend(reversed(arguments))
            case TrinoField(target):
                pending.append(target)
            case TrinoOpaque(columns=columns):
                messages.update(dict.fromkeys(columns))
            case TrinoConstant():
                pass
    return list(messages), count
