"""What another order of the rows would do: rows of a sample, sorted by a column, written as files and planned over.

The files are real ones in a folder that goes away again, so that whatever decides about a real table decides here.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.advice.found import LayoutProposal
from pruner.advice.pace import CHOICE, LAYOUTS
from pruner.advice.questions import is_askable
from pruner.advice.trials import RANGES, Candidate, Trial, recorded
from pruner.arrow import compute
from pruner.errors import IndexDefinitionError
from pruner.expr.identifier import render_column_path
from pruner.formats.detect import open_table_source
from pruner.indexes.registry import index_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pruner.advice.pace import Pace
    from pruner.advice.questions import Question
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

FILES = 256
"""Files of a layout on trial at most: it is the share of them that counts."""

PARTITIONS = 64
"""Values of a column from which on it is none to partition by."""

WORTH = 0.1
"""Share of what ranges leave today that a layout has to save: rewriting a table costs more than indexing it."""

_WRITTEN = 1_600_000_000
"""A time long past: files that were just written count as unsettled."""


def layouts(
    rows: pa.Table,
    questions: Sequence[Question],
    snapshot: Snapshot,
    segments: SegmentCache,
    as_it_lies: float,
    pace: Pace,
    late: list[str],
) -> Iterator[LayoutProposal]:
    """Layouts by each column that a question is about and that would save something, from a sample of the rows.

    `as_it_lies` are the bytes that the questions read of the files as they are, with ranges of the same columns: what
    ranges save without another order is no merit of a layout. `late` gets the columns for which no time is left.
    """
    fields = {path: field for question in questions for path, field in question.fields.items()}
    tried = [field for path, field in fields.items() if len(path) == 1 and _serves(field, rows)]
    if not rows.num_rows:
        return
    files = min(max(len(snapshot), 1), FILES, max(rows.num_rows // 10, 1))
    for number, field in enumerate(tried):
        pace.tell(CHOICE + (LAYOUTS - CHOICE) * number / len(tried))
        if pace.is_over(LAYOUTS):
            late.append(render_column_path(field.path))
            continue
        ordered: pa.Table = cast("Any", rows).sort_by(field.path[0])
        share_files, share_bytes, kind = _read(ordered, field, tried, questions, segments, files)
        read = share_bytes * int(snapshot.sizes.sum())
        if as_it_lies - read >= WORTH * as_it_lies:
            yield LayoutProposal(
                render_column_path(field.path), kind, share_files * len(snapshot), read, as_it_lies - read
            )


def _serves(field: Field, rows: pa.Table) -> bool:
    return field.path[0] in rows.column_names and is_askable(rows.column(field.path[0]).type)


def _read(
    ordered: pa.Table,
    by: Field,
    fields: Sequence[Field],
    questions: Sequence[Question],
    segments: SegmentCache,
    files: int,
) -> tuple[float, float, str]:
    """The shares of the files and of the rows that all questions read, and the kind of layout."""
    edges, kind = _edges(ordered.column(by.path[0]).combine_chunks(), files)
    with tempfile.TemporaryDirectory(prefix="pruner-layout-") as folder:
        for number, (start, stop) in enumerate(pairwise(edges)):
            path = Path(folder) / f"{number:04}.parquet"
            cast("Any", pq).write_table(ordered.slice(start, stop - start), path)
            os.utime(path, (_WRITTEN, _WRITTEN))
        snapshot = open_table_source([folder], {}).snapshot(None)
        plain = [replace(each, field_id=None, partition=False, in_file=True) for each in fields]
        ranged = [each for each in plain if _has_ranges(each)]
        tried = recorded(snapshot, {(RANGES, each.path): each for each in ranged}, {})
        trial = Trial(snapshot, segments, tried.evidence)
        chosen = [Candidate(RANGES, (each,), each.name) for each in ranged]
        kept = [(trial.kept(each, chosen), each.times) for each in questions]
    weights = np.diff(edges) / max(ordered.num_rows, 1)
    share_files = sum(float(np.mean(mask)) * times for mask, times in kept)
    return share_files, sum(float(weights[mask].sum()) * times for mask, times in kept), kind


def _has_ranges(field: Field) -> bool:
    try:
        index_type(RANGES).check(field, {})
    except IndexDefinitionError:
        return False
    return True


def _edges(values: Any, files: int) -> tuple[list[int], str]:
    """Where files begin, and the last one ends: at each new value where there are few, else after as many rows."""
    count = len(values)
    if compute.count_distinct(values).as_py() <= min(PARTITIONS, files):
        _, firsts = np.unique(np.asarray(values.dictionary_encode().indices.fill_null(-1)), return_index=True)
        return _within(sorted({0, *firsts.tolist(), count}), -(-count // files)), "partition"
    return sorted({*np.linspace(0, count, files + 1).round().astype(int).tolist()}), "sort"


def _within(edges: list[int], most: int) -> list[int]:
    """The same parts, those with more rows than a file has cut."""
    cut = [list(range(start, stop, most)) for start, stop in pairwise(edges)]
    return [edge for part in cut for edge in part] + edges[-1:]
