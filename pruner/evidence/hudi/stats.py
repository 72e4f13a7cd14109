"""Evidence from the column statistics that Hudi keeps in its own metadata table.

A slice is covered if each of its files has statistics that are believed (`pruner.tables.hudi.metadata`); its record
bounds the rows of all of them together (R5). From there on, the records are those of a `column_stats` index and are
evaluated as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.showing.words import FILE_GROUP, counted
from pruner.tables.hudi.metadata.listing import partition_id
from pruner.tables.hudi.metadata.stats import WRAPPED_DECIMAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.schema import Field
    from pruner.tables.hudi.metadata.indexes import HudiIndexes
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]

_SHARED_LOGS_VERSION = 6
_APPENDED = "writers of table version 6 append to log files after their statistics were recorded"
_RENAMED = "they are of files from before a change of the schema"
_MISSING = "a file has no statistics"
_OTHER_UNIT = "their timestamps are of another unit than the column's, and Hudi may relabel them"
_SEVERAL_TYPES = "their files have values of several types"
_BOUNDS = ("integer", "decimal", "float", "bytes")


class FilesOfSlices:
    """The files of a snapshot by the ids that statistics use, computed once for all columns."""

    def __init__(self, snapshot: Snapshot) -> None:
        paths: list[Any] = snapshot.partitions.paths.to_pylist()
        ids: Any = pa.array([partition_id(path).decode() for path in paths], pa.string())
        partitions = ids.take(pa.array(snapshot.partition_ordinals))
        bases: Any = snapshot.column("base_file").combine_chunks()
        logs: Any = snapshot.column("log_files").combine_chunks()
        of_base = np.flatnonzero(np.asarray(bases.is_valid()))
        of_log = np.asarray(compute.list_parent_indices(logs)).astype(np.int64)
        uris = pa.concat_arrays([bases.drop_null(), compute.list_flatten(logs)])
        self.slices: NDArray[np.int64] = np.concatenate([of_base, of_log])
        self.of_each: NDArray[np.int64] = np.bincount(self.slices, minlength=len(snapshot))
        names = compute.replace_substring_regex(uris, pattern="^.*/", replacement="")
        self.names = compute.binary_join_element_wise(partitions.take(pa.array(self.slices)), names, "")

    def covered_by(self, stats: pa.Table) -> int:
        """The number of slices in which every file has statistics."""
        rows = compute.index_in(self.names, value_set=stats.column("file").combine_chunks()).is_valid()
        lacking = np.unique(self.slices[~np.asarray(rows)])
        return int(np.count_nonzero(self.of_each)) - len(lacking)


def stat_records(
    indexes: HudiIndexes,
    files: FilesOfSlices,
    snapshot: Snapshot,
    about: Field,
    schema: pa.Schema,
    stats: pa.Table | None = None,
) -> tuple[pa.Table, tuple[str, ...]]:
    """The records of one column, and why slices with statistics have none.

    Args:
        indexes: those of the table.
        files: those of the snapshot.
        snapshot: the table.
        about: the column.
        schema: the record schema of a `column_stats` index.
        stats: Hudi's statistics of it; by default, its column statistics.

    Returns:
        Records with `__slice`, and one clause per reason with the number of slices.

    Raises:
        FormatError: the metadata table is damaged.
        StorageError: it cannot be read.
    """
    stats = indexes.column_stats(".".join(about.path)) if stats is None else stats
    at = compute.index_in(files.names, value_set=stats.column("file").combine_chunks())
    present = np.asarray(at.is_valid())
    if not present.any():
        return _records(schema, {}, np.empty(0, np.int64), 0), ()
    rows = _rescaled(stats.take(at.drop_null()), about)
    slices = files.slices[present]
    per_slice, usable, notes = _joined(rows, slices, files)
    reasons = {**notes}
    doubted = [(reason, mask[per_slice["slice"]]) for reason, mask in _doubted_slices(indexes, snapshot)]
    doubted.append((_OTHER_UNIT, _of_other_unit(per_slice["columns"]["type"], about)))
    for reason, mask in doubted:
        lost = usable & mask
        usable &= ~lost
        reasons[reason] = reasons.get(reason, 0) + int(lost.sum())
    kept = {name: column.filter(pa.array(usable)) for name, column in per_slice["columns"].items()}
    records = _records(schema, kept, per_slice["slice"][usable], int(usable.sum()))
    return records, tuple(
        f"{counted(count, FILE_GROUP)} kept: {reason}" for reason, count in reasons.items() if count
    )


def _doubted_slices(indexes: HudiIndexes, snapshot: Snapshot) -> Iterator[tuple[str, Mask]]:
    """Slices whose statistics are not used, whatever they say, each with the reason."""
    if indexes.version <= _SHARED_LOGS_VERSION:
        yield _APPENDED, snapshot.has_logs
    changed = indexes.schema_changed_at
    if changed:
        instants: Any = snapshot.column("base_instant")
        later = compute.fill_null(compute.greater_equal(instants, changed), False)
        yield _RENAMED, ~np.asarray(later)


def _of_other_unit(types: Any, about: Field) -> Mask:
    """Timestamps of another unit: old releases of Hudi labeled milliseconds as microseconds in files.

    Today's readers use the table's unit for them; statistics computed later use the file's.
    """
    unit = f"timestamp[{about.type.unit}" if pa.types.is_timestamp(about.type) else "timestamp["
    texts = types.cast(pa.string())
    stamps, same = (compute.starts_with(texts, pattern=beginning) for beginning in ("timestamp[", unit))
    return np.asarray(compute.fill_null(compute.and_not(stamps, same), True))


def _joined(
    rows: pa.Table, slices: NDArray[np.int64], files: FilesOfSlices
) -> tuple[dict[str, Any], Mask, dict[str, int]]:
    """One record per slice with any statistics, which of them are usable, and how many are not, by reason."""
    doubts: Any = rows.column("doubt").combine_chunks()
    table = rows.append_column("slice", pa.array(slices)).append_column("doubted", doubts.is_valid())
    if len(np.unique(slices)) == len(slices):
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        columns["first_type"] = columns["last_type"] = columns["type"].cast(pa.string())
        columns["reason"], counted = columns["doubt"].cast(pa.string()), np.ones(len(slices), np.int64)
    else:
        columns, counted = _grouped(table)
    of = np.asarray(columns["slice"]).astype(np.int64)
    doubted = np.asarray(columns["doubted"])
    missing = ~doubted & (counted < files.of_each[of])
    several = (
        ~doubted
        & ~missing
        & np.asarray(compute.fill_null(compute.not_equal(columns["first_type"], columns["last_type"]), True))
    )
    reasons: dict[str, int] = {}
    counts: list[dict[str, Any]] = compute.value_counts(
        compute.filter(columns["reason"], pa.array(doubted))
    ).to_pylist()
    for entry in counts:
        reasons[entry["values"]] = entry["counts"]
    reasons[_MISSING] = int(missing.sum())
    reasons[_SEVERAL_TYPES] = int(several.sum())
    return {"slice": of, "columns": columns}, ~(doubted | missing | several), reasons


def _grouped(table: pa.Table) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """The union of the statistics of all files of each slice."""
    names = list(table.column_names)
    for name in ("type", "doubt"):
        table = table.set_column(names.index(name), name, table.column(name).cast(pa.string()))
    asked: list[tuple[str, str]] = [
        ("rows", "sum"),
        ("nulls", "sum"),
        ("type", "min"),
        ("type", "max"),
        ("doubt", "min"),
        ("doubted", "any"),
        ("file", "count"),
        *((f"{end}_{kind}", end) for kind in _BOUNDS for end in ("min", "max")),
    ]
    grouping: Any = table.group_by("slice")
    grouped: Any = grouping.aggregate(asked)
    columns = {name: grouped.column(name).combine_chunks() for name in grouped.column_names}
    columns["rows"], columns["nulls"] = columns["rows_sum"], columns["nulls_sum"]
    columns["first_type"], columns["last_type"] = columns["type_min"], columns["type_max"]
    columns["type"], columns["reason"] = columns["type_min"], columns["doubt_min"]
    columns["doubted"] = columns["doubted_any"]
    for kind in _BOUNDS:
        for end in ("min", "max"):
            columns[f"{end}_{kind}"] = columns[f"{end}_{kind}_{end}"]
    return columns, np.asarray(columns["file_count"]).astype(np.int64)


def _rescaled(rows: pa.Table, about: Field) -> pa.Table:
    """Rescale decimals from the wrapper's scale to the column's, where that is exact."""
    type_ = about.type
    types: Any = rows.column("type").cast(pa.string())
    wrapped = compute.fill_null(compute.equal(types, WRAPPED_DECIMAL), False)
    if not pa.types.is_decimal128(type_) or not compute.any(wrapped).as_py():
        return rows
    factor = 10 ** (15 - type_.scale) if type_.scale <= 15 else 0
    for name in ("min_decimal", "max_decimal"):
        values: list[Any] = rows.column(name).to_pylist()
        flags: list[bool] = wrapped.to_pylist()
        exact = [
            _divided(value, factor) if flag else value for value, flag in zip(values, flags, strict=True)
        ]
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, arrow.array(exact, pa.decimal128(38, 0)))
    known = compute.and_(rows.column("min_decimal").is_valid(), rows.column("max_decimal").is_valid())
    named = compute.if_else(compute.and_(wrapped, known), str(type_), types)
    return rows.set_column(
        rows.column_names.index("type"), "type", named.combine_chunks().dictionary_encode()
    )


def _divided(value: Any, factor: int) -> int | None:
    if value is None or not factor or int(value) % factor:
        return None
    return int(value) // factor


def _records(schema: pa.Schema, columns: dict[str, Any], slices: NDArray[np.int64], count: int) -> pa.Table:
    """Records of a `column_stats` index; Hudi's bounds are never known to be values of the column."""
    constants = {"trusted": True, "absent": False, "has_values": True, "in_range": True} | dict.fromkeys(
        ("min_exact", "max_exact", "calendar_open", "from_data"), False
    )
    given = {"row_count": "rows", "null_count": "nulls", "type": "type"}
    given |= {f"{end}_{kind}": f"{end}_{kind}" for kind in _BOUNDS for end in ("min", "max")}
    arrays: list[Any] = []
    fields: list[Any] = list(schema)
    for field in fields:
        if field.name in given and given[field.name] in columns:
            arrays.append(columns[given[field.name]].cast(field.type))
        elif field.name in constants:
            arrays.append(arrow.repeat(pa.scalar(constants[field.name], field.type), count))
        elif field.name == "nan_count":
            arrays.append(arrow.repeat(pa.scalar(0, field.type), count))
        else:
            arrays.append(arrow.nulls(count, field.type))
    table = pa.table(arrays, schema=schema)
    return table.append_column("__slice", pa.array(slices.astype(np.int32)))
