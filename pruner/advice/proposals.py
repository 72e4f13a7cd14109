"""Which indexes to propose: each step takes the index that saves most. The advice is plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pruner.advice.forecast import CHOICE, DATA, Pace
from pruner.advice.trials import RANGES, Candidate
from pruner.errors import IndexDefinitionError
from pruner.expr.identifier import render_column_path
from pruner.indexes.registry import index_type
from pruner.maintenance.estimate import estimate
from pruner.pipeline.requests import BuildRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pruner.advice.forecast import Estimator
    from pruner.advice.questions import Question
    from pruner.maintenance.estimate import IndexEstimate
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Proposal:
    """An index that would help: its cost, and its savings in addition to those of the proposals before it.

    `bytes` is its stored size, and `seconds` the CPU time of the build, without waiting for disks and stores.
    `saved_files` and `saved_bytes` are no longer read, over all questions, each counted as often as it was asked;
    `helped` has the numbers (from 1) of the questions that it helps. `reason` says why this type, and `sql` creates it.
    If the savings are `estimated`, they include files that were not sampled.
    """

    name: str
    using: str
    column: str
    bytes: int
    seconds: float
    saved_files: float
    saved_bytes: float
    helped: tuple[int, ...]
    reason: str
    sql: str
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class LayoutProposal:
    """Another order of the rows: files sorted by a column, or a partition for each of its values (`kind`).

    `files` and `bytes` are then read for all questions, with ranges of every column that they name and no other index;
    `saved_bytes` is the reduction from what the current files need with the same ranges and the existing indexes.
    """

    column: str
    kind: str
    files: float
    bytes: float
    saved_bytes: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """One question: how often it was asked, and the files and bytes that it reads each time, today and as proposed.

    Today's numbers are planned. Those as proposed are `estimated` if they include files that were not sampled.
    """

    number: int
    predicate: str
    times: int
    files_now: float
    bytes_now: float
    files_then: float
    bytes_then: float
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help a table of `files` files and `bytes` bytes, judged by a sample of `sampled` files.

    `bytes_now` and `bytes_then` are the bytes read for all questions, today and with all proposals. `useless` has a
    sentence for each existing index that saved nothing, by its name; `notes` say what could not be judged, and why.
    """

    uri: str
    files: int
    bytes: int
    sampled: int
    bytes_now: float
    bytes_then: float
    questions: tuple[Forecast, ...]
    proposals: tuple[Proposal, ...]
    layouts: tuple[LayoutProposal, ...]
    useless: dict[str, str]
    notes: tuple[str, ...]


_LONGEST_NAME = 60
"""Most characters of the name of an index over several columns; where it would be longer, it names none of them."""

PROPOSED = 5
"""Most indexes that are proposed."""

WORTH = 0.01
"""Share of what is read today that an index must save."""

AS_GOOD = 0.98
"""Share of the greatest saving from which an index counts as equally good: the simpler or smaller one is taken."""

NEGLIGIBLE = 1_000_000
"""Bytes up to which an index is proposed however small its table is, and need not be the smallest."""

MUCH_LARGER = 2
"""Ranges larger than this many times the smallest index are not taken, unless they are negligible."""

_REASONS = {
    RANGES: "ranges alone leave out most of what can be left out, and come from footers",
    "bitmap": "ranges leave more files, and the column has few enough values to know the files of each",
    "bloom_filter": "ranges leave more files, and single values are searched for: a filter for each file is small",
    "record_index": "single values are searched for: it knows the files of each, and no smaller one saves as much",
}
_SMALLER = "it leaves out as much as ranges do, and is smaller"
"""The reason for another type where ranges would leave no more files."""

_LOOK_UPS = frozenset(["bloom_filter", "record_index"])
"""Index types that answer only lookups of single values."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an index would cost; `refused` says why it would not be created unless forced."""

    bytes: int
    seconds: float
    refused: str | None


def possible(questions: Sequence[Question], existing: Iterable[Candidate]) -> Iterator[Candidate]:
    """Every possible index over one column in the questions that does not exist yet."""
    there = {(candidate.using, path) for candidate in existing for path in candidate.paths}
    fields = {path: field for question in questions for path, field in question.fields.items()}
    for path, field in fields.items():
        for using in _REASONS:
            if (using, path) in there or not field.in_file or field.expression is not None:
                continue
            if using in _LOOK_UPS and not any(question.looks_up(path) for question in questions):
                continue
            try:
                index_type(using).check(field, {})
            except IndexDefinitionError:
                continue
            yield Candidate(using, (field,), f"{_plain(field)}_{using}")


def cost_of(candidate: Candidate, snapshot: Snapshot, storage_options: Mapping[str, str]) -> Cost:
    """What an index would cost, as in `create_index(…, dry_run=True)`."""
    kind = index_type(candidate.using)
    requests = [BuildRequest(kind, field, {}, candidate.name) for field in candidate.fields]
    cost: IndexEstimate | None = estimate(snapshot, snapshot.coverable, requests, storage_options)
    if cost is None:
        return Cost(0, 0.0, "the files of the sample cannot be read")
    return Cost(cost.bytes, cost.seconds, cost.refused if cost.bytes > NEGLIGIBLE else None)


def chosen(
    estimator: Estimator,
    questions: Sequence[Question],
    existing: Sequence[Candidate],
    candidates: Sequence[Candidate],
    cost: Callable[[Candidate], Cost],
    pace: Pace | None = None,
    unjudged: list[str] | None = None,
) -> list[Candidate]:
    """The indexes to propose, the most useful first; as many as there is time to find.

    Columns without a proposal that there was no time to judge are added to `unjudged`.
    """
    pace = pace or Pace()
    picked: list[Candidate] = []
    first = now = estimator.total(questions, existing).bytes
    left = list(candidates)
    # The choice takes little time, so earlier work must not use that up.
    end = max(CHOICE, pace.gone() + CHOICE - DATA)
    while left and len(picked) < PROPOSED:
        if picked and pace.is_over(end):
            done = {path for candidate in picked for path in candidate.paths}
            late = [_column(candidate) for candidate in left if not candidate.paths & done]
            (unjudged if unjudged is not None else []).extend(dict.fromkeys(late))
            break
        pace.tell(DATA + (CHOICE - DATA) * len(picked) / PROPOSED)
        with_each = [estimator.total(questions, [*existing, *picked, candidate]).bytes for candidate in left]
        best = now - min(with_each)
        if best < max(WORTH * first, 1):
            break
        as_good = [
            candidate for candidate, then in zip(left, with_each, strict=True) if now - then >= AS_GOOD * best
        ]
        affordable = [candidate for candidate in as_good if _pays(cost(candidate), best)]
        for candidate in as_good if not affordable else ():
            left.remove(candidate)
        if affordable:
            picked.append(_simplest(affordable, cost))
            left.remove(picked[-1])
            now = estimator.total(questions, [*existing, *picked]).bytes
    return picked


def merged(picked: Sequence[Candidate]) -> list[Candidate]:
    """The same indexes, with all range indexes merged into one: their records come from the same footers."""
    ranges = [candidate for candidate in picked if candidate.using == RANGES]
    if len(ranges) < 2:
        return list(picked)
    fields = tuple(field for candidate in ranges for field in candidate.fields)
    name = "_".join((*map(_plain, fields), RANGES))
    together = Candidate(RANGES, fields, name if len(name) <= _LONGEST_NAME else f"several_{RANGES}")
    others = [candidate for candidate in picked if candidate is ranges[0] or candidate.using != RANGES]
    return [together if candidate is ranges[0] else candidate for candidate in others]


def _simplest(as_good: Sequence[Candidate], cost: Callable[[Candidate], Cost]) -> Candidate:
    """Ranges, as they are built from footers alone; the smallest index if there are none, or only much larger ones."""
    by_size = sorted(as_good, key=lambda each: (cost(each).bytes, each.name))
    most = max(MUCH_LARGER * cost(by_size[0]).bytes, NEGLIGIBLE)
    ranges = [
        candidate for candidate in by_size if candidate.using == RANGES and cost(candidate).bytes <= most
    ]
    return (ranges or by_size)[0]


def _pays(cost: Cost, saved: float) -> bool:
    """Whether an index is neither too large for its table nor larger than what it saves over all questions."""
    return cost.refused is None and cost.bytes <= max(saved, NEGLIGIBLE)


def columns_left(
    estimator: Estimator,
    questions: Sequence[Question],
    first: float,
    chosen: Sequence[Candidate],
    candidates: Sequence[Candidate],
    cost: Callable[[Candidate], Cost],
) -> list[str]:
    """The columns on which one more index would be worth proposing, most useful first.

    `first` is the number of bytes that the questions read today.
    """
    now = estimator.total(questions, chosen).bytes
    left = [candidate for candidate in candidates if candidate not in chosen]
    saved = {candidate: now - estimator.total(questions, [*chosen, candidate]).bytes for candidate in left}
    worth = [
        candidate
        for candidate in left
        if saved[candidate] >= max(WORTH * first, 1) and _pays(cost(candidate), saved[candidate])
    ]
    worth.sort(key=lambda each: (-saved[each], each.name))
    return list(dict.fromkeys(map(_column, worth)))


def described(
    picked: Sequence[Candidate],
    estimator: Estimator,
    questions: Sequence[Question],
    existing: Sequence[Candidate],
    cost: Callable[[Candidate], Cost],
    uri: str,
) -> Iterator[Proposal]:
    """The proposals, each with what it saves in addition to those before it."""
    before = list(existing)
    for candidate in picked:
        after = [*before, candidate]
        reads = [(estimator.read(q, before), estimator.read(q, after), q.times) for q in questions]
        column = ", ".join(render_column_path(field.path) for field in candidate.fields)
        yield Proposal(
            name=candidate.name,
            using=candidate.using,
            column=column,
            bytes=cost(candidate).bytes,
            seconds=cost(candidate).seconds,
            saved_files=sum((b.files - a.files) * times for b, a, times in reads),
            saved_bytes=sum((b.bytes - a.bytes) * times for b, a, times in reads),
            helped=tuple(n for n, (b, a, _) in enumerate(reads, 1) if a.bytes < b.bytes),
            reason=_reason(candidate, estimator, questions, before),
            sql=f"CREATE INDEX {candidate.name} ON {_text(uri)} USING {candidate.using} ({column})",
            estimated=any(read.estimated for b, a, _ in reads for read in (b, a)),
        )
        before = after


def _reason(
    picked: Candidate, estimator: Estimator, questions: Sequence[Question], before: Sequence[Candidate]
) -> str:
    """Why an index of this type, instead of ranges over the same column, in addition to those before it."""
    now = estimator.total(questions, before).bytes
    ranges = Candidate(RANGES, picked.fields, f"{picked.name}_{RANGES}")
    saved, by_ranges = (
        now - estimator.total(questions, [*before, candidate]).bytes for candidate in (picked, ranges)
    )
    as_good = picked.using != RANGES and by_ranges >= AS_GOOD * saved
    return _SMALLER if as_good else _REASONS[picked.using]


def _column(candidate: Candidate) -> str:
    return render_column_path(candidate.fields[0].path)


def _plain(field: Field) -> str:
    """A name for an index: letters, digits and underscores."""
    text = "_".join(field.path).lower()
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
    return plain if plain[:1].isalpha() else f"c_{plain}"


def _text(uri: str) -> str:
    return "'" + uri.replace("'", "''") + "'"
