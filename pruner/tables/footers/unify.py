"""Makes one table schema of the schemas of its files, by name (rule R7).

Promotion is a closed table; what is not in it is a conflict, and a field in conflict never serves pruning:

| files hold | the table's type | |
|---|---|---|
| integers, some type of which holds all values of both | that type (signed before unsigned) | |
| no values (Parquet's null type) and T | T | |
| float and double | double | conflict: one engine reads 0.1, another 0.10000000149 (trap S19) |
| decimals of one scale | the wider precision | conflict: "anything to decimal" |
| timestamps of ms and us, and INT96 | us | conflict where some are instants and others a wall clock |
| structs | struct of the fields of both, each by these rules | |
| anything else | that of the first file | conflict |

Names that differ only in case are one field in conflict, as are fields whose name and field id do not go
together in every file. So is a VARIANT: its parts are no fields that an engine shows.

The table is about Arrow's types, which are the same for every engine, INT96 aside: it may be an instant or a wall
clock. A field also has the Parquet types that its files hold, from which `pruner.expr.parquet_reading` tells for each
engine what it makes of them, and whether that is one thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from pruner.expr.parquet_reading import INT96
from pruner.expr.types import is_instant, timestamp
from pruner.parquet_type import ParquetType
from pruner.schema import Field
from pruner.tables.footers.file_schemas import field_id, parquet_type, struct_fields

_EXACT_INSTANTS = {pa.timestamp(unit, "UTC") for unit in ("ms", "us")}
_EXACT_MOMENTS = {*_EXACT_INSTANTS, pa.timestamp("ms"), pa.timestamp("us")}
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def unify(schemas: Sequence[pa.Schema]) -> list[Field]:
    """Return the fields of a table whose files have these (distinct) schemas, parents before their children.

    The order is that of the first file, with fields that only later files have behind.
    """
    return list(_merge((), [list(cast("Iterable[pa.Field[Any]]", schema)) for schema in schemas]))


def promote(left: pa.DataType, right: pa.DataType) -> tuple[pa.DataType, str | None]:
    """Return the common type of two types that are not both structs, and why it is a conflict if so."""
    types = pa.types
    if left.equals(right) or types.is_null(right):
        return left, None
    if types.is_null(left):
        return right, None
    text = f"files hold both {left} and {right}"
    if types.is_integer(left) and types.is_integer(right):
        wider = _wider_integer(left, right)
        return (wider, None) if wider is not None else (left, f"{text}, which no integer type holds")
    if {left, right} == {pa.float32(), pa.float64()}:
        return pa.float64(), f"{text}, which engines widen to different values"
    if types.is_decimal(left) and types.is_decimal(right) and left.scale == right.scale:
        return (left if left.precision >= right.precision else right), text
    return left, text


def _wider_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    signed, unsigned = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    return next((type_ for type_ in _SIGNED if type_.bit_width >= bits), None)


def _merge(parent: tuple[str, ...], levels: list[list[pa.Field[Any]]]) -> Iterator[Field]:
    """Merge one level of nesting: `levels[i]` are the fields that the i-th schema has there."""
    by_name: dict[str, list[list[pa.Field[Any]]]] = {}
    for position, level in enumerate(levels):
        for entry in level:
            found = by_name.setdefault(entry.name.lower(), [[] for _ in levels])
            found[position].append(entry)
    names_of_id = _names_of_ids(levels)
    for found in by_name.values():
        ids = {field_id(entry) for per_file in found for entry in per_file} - {None}
        shared = [sorted(names_of_id[id_]) for id_ in ids if id_ is not None and len(names_of_id[id_]) > 1]
        conflict = None
        if len(ids) > 1:
            conflict = f"files give it different field ids: {', '.join(map(str, sorted(filter(None, ids))))}"
        elif shared:
            conflict = f"files give its field id to different names: {', '.join(shared[0])}"
        yield from _merge_name(parent, found, next(iter(ids)) if len(ids) == 1 else None, conflict)


def _names_of_ids(levels: list[list[pa.Field[Any]]]) -> dict[int, set[str]]:
    names: dict[int, set[str]] = {}
    for entry in (entry for level in levels for entry in level):
        id_ = field_id(entry)
        if id_ is not None:
            names.setdefault(id_, set()).add(entry.name.lower())
    return names


def _merge_name(
    parent: tuple[str, ...], found: list[list[pa.Field[Any]]], id_: int | None, conflict: str | None
) -> Iterator[Field]:
    """Merge the fields of one name, whatever the case; `found[i]` are those of the i-th schema."""
    entries = [entry for per_file in found for entry in per_file]
    spellings = list(dict.fromkeys(entry.name for entry in entries))
    if any(len(per_file) > 1 for per_file in found):
        # One file has several: only an exact spelling can name one, and not every engine allows that.
        for spelling in spellings:
            some = next(entry for entry in entries if entry.name == spelling)
            yield from _alone(
                parent, some, "a file has several columns of this name, or differing only in case"
            )
        return
    if len(spellings) > 1:
        conflict = conflict or f"files spell its name differently: {', '.join(spellings)}"
    path = (*parent, spellings[0])
    if any(_is_variant(entry) for entry in entries):
        variant = next(entry for entry in entries if _is_variant(entry)).with_name(spellings[0])
        yield from _alone(parent, variant, "files hold it as VARIANT, whose value no index knows")
        return
    if all(pa.types.is_struct(entry.type) for entry in entries):
        yield from _merge_structs(path, entries, id_, conflict)
        return
    type_, problem = entries[0].type, None
    for entry in entries[1:]:
        type_, worse = promote(type_, entry.type)
        problem = problem or worse
    parquet = _parquet_types(entries)
    if problem is not None and (moments := _moments(parquet)) is not None:
        type_, problem = moments, None
    merged = Field(path, type_, id_, conflict=conflict or problem, parquet=parquet)
    yield from _alone(parent, pa.field(spellings[0], type_), merged.conflict, merged)


def _moments(parquet: frozenset[ParquetType] | None) -> pa.DataType | None:
    """The common type of timestamps that every engine reads without rounding; None for anything else.

    Spark writes all of these into one table as `outputTimestampType` says.
    """
    types = {each.arrow for each in parquet or () if each.physical != INT96}
    if not types <= _EXACT_MOMENTS or len({is_instant(each) for each in types if each is not None}) != 1:
        return None
    return timestamp("us", instant=types <= _EXACT_INSTANTS)


def _merge_structs(
    path: tuple[str, ...], entries: list[pa.Field[Any]], id_: int | None, conflict: str | None
) -> Iterator[Field]:
    levels = [struct_fields(entry.type) for entry in entries]
    below = list(_merge(path, levels))
    children = [pa.field(child.path[-1], child.type) for child in below if len(child.path) == len(path) + 1]
    yield Field(path, pa.struct(children), id_, conflict=conflict)
    for child in below:
        yield replace(child, conflict=child.conflict or conflict)


def _alone(
    parent: tuple[str, ...], entry: pa.Field[Any], conflict: str | None, field: Field | None = None
) -> Iterator[Field]:
    """One field as it stands with what is nested in it, all in the same conflict."""
    path = (*parent, entry.name)
    yield field or Field(
        path, entry.type, field_id(entry), conflict=conflict, parquet=_parquet_types([entry])
    )
    if pa.types.is_struct(entry.type):
        for child in struct_fields(entry.type):
            yield from _alone(path, child, conflict)


def _is_variant(entry: pa.Field[Any]) -> bool:
    found = parquet_type(entry)
    return found is not None and found.logical == "Variant"


def _parquet_types(entries: Sequence[pa.Field[Any]]) -> frozenset[ParquetType] | None:
    """The Parquet types of a field with values, by file; None where some are not known, as those of lists are not."""
    found = {None if pa.types.is_nested(entry.type) else parquet_type(entry) for entry in entries}
    return None if None in found else frozenset(each for each in found if each is not None)
