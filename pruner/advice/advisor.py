"""The advisor: from the queries on a table to what would help them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.advice.forecast import CHOICE, LAYOUTS, ROWS, Estimator, Pace, SampleLimits, sampled
from pruner.advice.proposals import (
    PROPOSED,
    Advice,
    Forecast,
    LayoutProposal,
    chosen,
    columns_left,
    cost_of,
    described,
    merged,
    possible,
)
from pruner.advice.questions import asked, is_askable, suggested, unanswerable
from pruner.advice.trials import RANGES, Candidate, Trial, recorded, subset
from pruner.arrow import compute
from pruner.errors import IndexDefinitionError, PrunerError, first_line
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.evidence.sources import Sources
from pruner.expr.bound.predicates import UnknownKind
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.identifier import render_column_path
from pruner.expr.nodes import Constant
from pruner.expr.semantics import Semantics
from pruner.formats.detect import open_table_source
from pruner.indexes.registry import index_type
from pruner.maintenance.columns import fields_of
from pruner.planning.planner import Planner
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.advice.forecast import Today
    from pruner.advice.questions import Question
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.planning.plan import Plan
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

# The effect of another row order: a sample of the rows is sorted by a column, written as files and planned over.
#
# The files are real ones in a temporary folder, so that the same code decides here as for a real table.

FILES = 256
"""Most files of a trial layout: only the share of them that is read matters."""

PARTITIONS = 64
"""Most distinct values of a column to partition by."""

WORTH = 0.1
"""Share of what ranges leave today that a layout must save: rewriting a table costs more than indexing it."""

_WRITTEN = 1_600_000_000
"""A modification time long past: files that were just written count as unsettled."""


def layouts(
    rows: pa.Table,
    questions: Sequence[Question],
    snapshot: Snapshot,
    segments: SegmentCache,
    as_it_lies: float,
    pace: Pace,
    late: list[str],
) -> Iterator[LayoutProposal]:
    """Layouts by each column in the questions that would save enough, judged by a sample of the rows.

    `as_it_lies` is the number of bytes that the questions read from the files as they are, with ranges of the same
    columns: what ranges save without another order is not credited to a layout. `late` collects the columns for which
    no time is left.
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
        read = share_bytes * snapshot.total_size
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
    """The shares of the files and of the rows that all questions read in total, and the kind of layout."""
    edges, kind = _edges(ordered.column(by.path[0]).combine_chunks(), files)
    with tempfile.TemporaryDirectory(prefix="pruner-layout-") as folder:
        for number, (start, stop) in enumerate(pairwise(edges)):
            path = Path(folder) / f"{number:04}.parquet"
            cast("Any", pq).write_table(ordered.slice(start, stop - start), path)
            os.utime(path, (_WRITTEN, _WRITTEN))
        snapshot = open_table_source([folder], {}).snapshot(None)
        plain = [replace(field, field_id=None, partition=False, in_file=True) for field in fields]
        ranged = [field for field in plain if _has_ranges(field)]
        tried = recorded(snapshot, {(RANGES, field.path): field for field in ranged}, {})
        trial = Trial(snapshot, segments, tried.evidence)
        chosen = [Candidate(RANGES, (field,), field.name) for field in ranged]
        kept = [(trial.kept(question, chosen), question.times) for question in questions]
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
    """Where files begin, and where the last one ends: at each new value if there are few, else at equal row counts."""
    count = len(values)
    if compute.count_distinct(values).as_py() <= min(PARTITIONS, files):
        _, firsts = np.unique(np.asarray(values.dictionary_encode().indices.fill_null(-1)), return_index=True)
        return _within(sorted({0, *firsts.tolist(), count}), -(-count // files)), "partition"
    return sorted({*np.linspace(0, count, files + 1).round().astype(int).tolist()}), "sort"


def _within(edges: list[int], most: int) -> list[int]:
    """The same parts, with those of more than `most` rows split."""
    cut = [list(range(start, stop, most)) for start, stop in pairwise(edges)]
    return [edge for part in cut for edge in part] + edges[-1:]


SAMPLED_ROWS = 500_000
"""Approximate number of rows by which layouts are judged."""

NOTED = 200
"""Most characters, in a note, of a predicate and the reason why it is not judged."""

SHOWN_COLUMNS = 10
"""Most columns that a note names."""

SUGGESTED_COLUMNS = 40
"""Most columns with suggested questions, if no statement is given."""

NO_DROPS = "no DROP INDEX is proposed: an index can help a statement that was not judged"
"""A note for when an index may seem useless only because not every statement was understood."""

_LOST_NOTHING = "no file is left out that would not be without it"
_NOT_ASKED = "no question is about its columns"


class Advisor:
    """Advises on one snapshot under one state of its metadata table."""

    def __init__(
        self,
        uri: str,
        snapshot: Snapshot,
        state: State | None,
        segments: SegmentCache,
        storage_options: Mapping[str, str],
        limits: SampleLimits | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._uri = uri
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._storage_options = storage_options
        self._limits = limits or SampleLimits()
        self._pace = pace or Pace()
        self._late: list[str] = []
        self._notes: list[str] = []

    def advise(self, plans: Sequence[Plan]) -> Advice:
        """Advise on the questions in plans, or, if there are no plans, on questions that the data suggest."""
        questions = asked(plans)
        open_questions = unanswerable(plans)
        for part in open_questions:
            other = ", one over an expression may" if part.kind is UnknownKind.FUNCTION else ""
            self._notes.append(f"not judged, no index over a column answers it{other}: {str(part)[:NOTED]}")
        rows = self._rows()
        if not plans and rows is not None:
            questions = suggested(rows.slice(0, 20_000), self._snapshot.schema)
            self._notes.append("no statement was given: the questions are made of values of each column")
        existing = list(self._existing())
        candidates = [self._as_stored(candidate) for candidate in possible(questions, existing)]
        today = self._planned(self._state)
        estimator = Estimator(
            self._snapshot,
            self._segments,
            [*existing, *candidates],
            self._storage_options,
            self._limits,
            self._pace,
            today,
        )
        candidates = [candidate for candidate in candidates if not estimator.is_nearly_distinct(candidate)]
        cost = lru_cache(maxsize=None)(
            partial(cost_of, snapshot=self._snapshot, storage_options=self._storage_options)
        )
        unjudged: list[str] = []
        picked = chosen(estimator, questions, existing, candidates, cost, self._pace, unjudged)
        now, then = (
            estimator.total(questions, candidates).bytes for candidates in (existing, [*existing, *picked])
        )
        if len(picked) == PROPOSED:
            self._note_left(columns_left(estimator, questions, now, [*existing, *picked], candidates, cost))
        ranges = [candidate for candidate in candidates if candidate.using == RANGES]
        as_it_lies = estimator.total(questions, [*existing, *ranges]).bytes
        picked = merged(picked)
        layouts = () if rows is None else self._layouts(rows, questions, as_it_lies)
        self._note_time(estimator, unjudged)
        return Advice(
            uri=self._uri,
            files=len(self._snapshot),
            bytes=self._snapshot.total_size,
            sampled=len(estimator.sampled),
            bytes_now=now,
            bytes_then=then,
            questions=tuple(_forecasts(estimator, questions, existing, picked)),
            proposals=tuple(described(picked, estimator, questions, existing, cost, self._uri)),
            layouts=tuple(sorted(layouts, key=lambda each: -each.saved_bytes)),
            useless={} if open_questions or not plans else self._useless(questions, existing, today),
            notes=(*self._notes, *([NO_DROPS] if open_questions and existing else [])),
        )

    def _planned(self, state: State | None) -> Today:
        """A function for the slices that a question keeps with a state's indexes; each question is planned once."""
        planner = Planner(self._snapshot, SnapshotEvidence(self._snapshot, state, self._segments))
        masks: dict[int, NDArray[np.bool_]] = {}

        def kept(question: Question) -> NDArray[np.bool_]:
            mask = masks.get(id(question))
            if mask is None:
                plan = planner.plan(question.predicate, question.text, question.semantics)
                mask = masks[id(question)] = plan.kept_mask
            return mask

        return kept

    def _useless(
        self, questions: Sequence[Question], existing: Sequence[Candidate], today: Today
    ) -> dict[str, str]:
        """Existing indexes without which every question would read the same, by name, with a sentence.

        They are judged one after the other, the largest first, and an index that is found useless is missing when the
        next is judged: of two that leave out the same files, one stays.
        """
        if self._state is None or not questions:
            return {}
        reasons: dict[str, str] = {}
        state = self._state
        for index in sorted(existing, key=self._stored, reverse=True):
            about = [question for question in questions if index.paths & question.fields.keys()]
            others = tuple(definition for definition in state.definitions if definition.name != index.name)
            less = msgspec.structs.replace(state, definitions=others)
            without = self._planned(less)
            if all(np.array_equal(today(question), without(question)) for question in about):
                reasons[index.name] = f"it saved nothing: {_LOST_NOTHING if about else _NOT_ASKED}"
                state = less
        return reasons

    def _stored(self, index: Candidate) -> int:
        """The bytes of an existing index."""
        assert self._state is not None
        definitions = [definition for definition in self._state.definitions if definition.name == index.name]
        return sum(
            file.size
            for definition in definitions
            for entry in self._state.segments_of(definition)
            for file in entry.files()
        )

    def _note_time(self, estimator: Estimator, unjudged: Sequence[str]) -> None:
        """Note what there was no time for."""
        if unjudged:
            self._notes.append(
                f"{self._pace.seconds:g} s did not suffice to judge indexes on {_named(unjudged)}: "
                "that none is proposed there does not say that none would help; a larger budget judges them"
            )
        parts: list[str] = []
        if len(estimator.sampled) < estimator.wanted:
            parts.append(
                f"{len(estimator.sampled):,} of the {counted(estimator.wanted, 'file')} of the sample"
            )
        if self._late:
            parts.append(f"no layout by {', '.join(self._late[:SHOWN_COLUMNS])}")
        if parts:
            self._notes.append(
                f"{self._pace.seconds:g} s sufficed for {' and '.join(parts)}; a larger budget judges by more"
            )

    def _note_left(self, columns: Sequence[str]) -> None:
        """Note the columns with further indexes that would help, beyond the most that are proposed."""
        if columns:
            self._notes.append(
                f"these are the {PROPOSED} best; beside them an index would save a hundredth or more on "
                f"{counted(len(columns), 'column')}: {_named(columns)}; create these, and ask again"
            )

    def _layouts(
        self, rows: pa.Table, questions: Sequence[Question], as_it_lies: float
    ) -> list[LayoutProposal]:
        if self._snapshot.any_changes:
            self._notes.append("no layout is judged: base files alone are not the table's content")
            return []
        return list(
            layouts(rows, questions, self._snapshot, self._segments, as_it_lies, self._pace, self._late)
        )

    def _as_stored(self, candidate: Candidate) -> Candidate:
        """The candidate over the table's own columns: engines read some as another type, such as 16 bytes as UUID."""
        schema = self._snapshot.schema
        fields = tuple(schema.find(field.path, case_sensitive=True) for field in candidate.fields)
        return replace(candidate, fields=fields)

    def _existing(self) -> Iterator[Candidate]:
        for definition in self._state.definitions if self._state else ():
            if definition.form is not None or definition.where is not None:
                self._notes.append(
                    f"index {definition.name} is not judged: it is over an expression or partial"
                )
                continue
            try:
                kind = index_type(definition.using)
            except PrunerError as error:
                self._notes.append(f"index {definition.name} is not judged: {error}")
                continue
            fields = fields_of(definition, self._snapshot.schema, kind)
            yield Candidate(kind.name, tuple(fields), definition.name, existing=True)

    def _rows(self) -> pa.Table | None:
        """A sample of the rows in base files; None, with a note, if they cannot be read."""
        among = self._pace.mixed(sampled(self._snapshot, self._limits))
        chosen = subset(self._snapshot, among[self._snapshot.coverable[among]])
        planner = Planner(chosen, _Nothing(), self._storage_options)
        semantics = replace(Semantics.of(REFERENCE_ENGINE), scan_mode="read_optimized")
        plan = planner.plan(Constant(True), "true", semantics)
        names = [column.name for column in self._snapshot.schema.columns if _is_asked_about(column)]
        try:
            return _thinned(plan.scan_pyarrow(names[:SUGGESTED_COLUMNS]), self._pace)
        except (PrunerError, OSError, pa.ArrowException) as error:
            self._notes.append(
                f"the rows of a sample cannot be read, so no layout is judged: {first_line(error)}"
            )
            return None


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns[:SHOWN_COLUMNS]) + (", …" if len(columns) > SHOWN_COLUMNS else "")


def _is_asked_about(field: Field) -> bool:
    """False for columns on which files disagree, and for those that Hudi adds."""
    return field.conflict is None and not field.name.startswith("_hoodie_")


class _Nothing:
    """No evidence at all: see `pruner.evidence.sources.KnowsFields`."""

    def sources(self, about: Field) -> Sources:
        """See `KnowsFields.sources`."""
        return Sources()


def _thinned(dataset: Any, pace: Pace) -> pa.Table:
    """Evenly spaced rows of a dataset, from as many files as there is time for."""
    step = max(dataset.count_rows() // SAMPLED_ROWS, 1)
    tables: list[pa.Table] = []
    offset = 0
    batch: pa.RecordBatch
    for batch in dataset.to_batches():
        at = np.arange(-offset % step, batch.num_rows, step, dtype=np.int64)
        tables.append(pa.Table.from_batches([batch]).take(pa.array(at, pa.int64())))
        offset += batch.num_rows
        if pace.is_over(ROWS):
            break
    return pa.concat_tables(tables) if tables else dataset.schema.empty_table()


def _forecasts(
    estimator: Estimator,
    questions: Sequence[Question],
    existing: Sequence[Candidate],
    picked: Sequence[Candidate],
) -> Iterator[Forecast]:
    for number, question in enumerate(questions, 1):
        now = estimator.read(question, existing)
        then = estimator.read(question, [*existing, *picked])
        yield Forecast(
            *(number, question.text, question.times, now.files, now.bytes, then.files, then.bytes),
            estimated=then.estimated,
        )
