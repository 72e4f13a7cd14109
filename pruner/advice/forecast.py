"""How much a question would read with some indexes, estimated from two samples, within a time budget.

What is read today is not estimated, but planned. Ranges come from footers, so they are tried on thousands of files.
All other indexes must read the data, and are tried on fewer files: the share that they leave there of what ranges leave
is assumed everywhere. Few files, or files without a match, say little: one more file is then counted as kept, so that
a sample that has no file of a question promises nothing.

Work on a sample continues while there is time, and reports its progress.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from pruner.advice.trials import RANGES, Trial, recorded, subset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.advice.questions import Question
    from pruner.advice.trials import Candidate
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Today = Callable[[Question], NDArray[np.bool_]]
    """The slices, of all, that a question keeps with the existing indexes."""

STATEMENTS: Final = 0.3
ROWS: Final = 0.4
FOOTERS: Final = 0.5
DATA: Final = 0.7
CHOICE: Final = 0.85
LAYOUTS: Final = 1.0
"""The share of the time at which each part of the work ends, in order. Each part does a little in any case."""

_MOST = 64
"""Most files in a piece of work; the clock is checked after each piece."""

_SEED = 0
_WHOLE = 100


class Pace:
    """A time budget that starts at its creation; without `seconds`, it is unlimited.

    Args:
        seconds: how long the work may take.
        told: called with the progress in percent, and 100.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        seconds: float | None = None,
        told: Callable[[int, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._told = told
        self._clock = clock
        self._began = clock()

    def is_over(self, share: float) -> bool:
        """Whether this share of the time is used up."""
        return self.seconds is not None and self._clock() - self._began >= share * self.seconds

    def gone(self) -> float:
        """The share of the time that has elapsed, more than 1 if the work took longer."""
        return 0.0 if self.seconds is None else (self._clock() - self._began) / self.seconds

    def tell(self, share: float) -> None:
        """Report the progress of the work."""
        if self._told is not None:
            self._told(round(share * _WHOLE), _WHOLE)

    def mixed(self, ordinals: NDArray[np.intp]) -> NDArray[np.intp]:
        """Slices in an order whose beginning is a fair sample, as not all may be reached within the time."""
        if self.seconds is None:
            return ordinals
        from numpy.random import default_rng  # the command line's help must not wait for this import

        return default_rng(_SEED).permutation(ordinals)

    def pieces(self, count: int, begin: float, end: float) -> Iterator[tuple[int, int]]:
        """Split `count` items into pieces (start, stop), and stop when their time is over.

        Args:
            count: the number of items.
            begin: the share of the work that is done before them.
            end: the share of the time at which they must end.
        """
        start, length = 0, count if self.seconds is None else 1
        while start < count:
            stop = min(start + length, count)
            yield start, stop
            self.tell(begin + (end - begin) * stop / count)
            if self.is_over(end):
                return
            start, length = stop, min(2 * length, _MOST)


FOOTER_FILES = 5000
"""Most files whose footers are read."""

DATA_FILES = 200
DATA_BYTES = 256 * 1024**2
"""Most files whose data is read, and their total size: what does not fit is left out of the sample."""

TELLING = 5
"""Fewest files of a sample whose kept share is used without a correction."""

NEARLY_DISTINCT = 0.8
"""Distinct values per row of the sample from which an index that stores the rows of each value is not tried."""

SEED = 0


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """Bounds on the sample of a table: files whose footers are read, files whose data is read, and bytes of data."""

    footer_files: int = FOOTER_FILES
    data_files: int = DATA_FILES
    data_bytes: int = DATA_BYTES


class ReadEstimate(NamedTuple):
    """What is read for a question; `estimated` if it includes files that were not sampled."""

    files: float
    bytes: float
    estimated: bool = False


class Estimator:
    """Forecasts what questions read over one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        segments: SegmentCache,
        candidates: Iterable[Candidate],
        storage_options: Mapping[str, str],
        limits: SampleLimits,
        pace: Pace | None = None,
        today: Today | None = None,
    ) -> None:
        pace = pace or Pace()
        self.snapshot = snapshot
        candidates = list(candidates)
        self._today = today
        self._existing = frozenset(candidate for candidate in candidates if candidate.existing)
        wide = pace.mixed(_spread(len(snapshot), limits.footer_files))
        chosen = pace.mixed(sampled(snapshot, limits))
        wanted = {(candidate.using, f.path): f for candidate in candidates for f in candidate.fields}
        unhurried = pace.seconds is None and len(chosen) == len(snapshot)
        footers = {key: f for key, f in wanted.items() if unhurried or key[0] == RANGES}

        def tried(ordinals: NDArray[np.intp], about: Mapping[Any, Field], begin: float, end: float) -> Trial:
            """A trial on as many of the slices as there is time for."""
            among = subset(snapshot, ordinals)
            evidence = recorded(among, about, storage_options, pace.pieces(len(among), begin, end))
            return Trial(
                subset(among, np.arange(evidence.slices)), segments, evidence.evidence, evidence.values
            )

        self._wide = tried(wide, footers, ROWS, FOOTERS)
        self._narrow = self._wide if unhurried else tried(chosen, wanted, FOOTERS, DATA)
        self.sampled = chosen[: len(self._narrow.snapshot)]
        self.wanted = len(chosen)
        self._looked_at = wide[: len(self._wide.snapshot)]
        self._read: dict[tuple[int, frozenset[Candidate]], ReadEstimate] = {}

    @property
    def sample(self) -> Snapshot:
        """The slices whose data is read."""
        return self._narrow.snapshot

    def read(self, question: Question, chosen: Collection[Candidate]) -> ReadEstimate:
        """What a question reads with some indexes."""
        about = frozenset(candidate for candidate in chosen if candidate.paths & question.fields.keys())
        key = (id(question), about)
        forecast = self._read.get(key)
        if forecast is None:
            forecast = self._read[key] = self._forecast(question, about)
        return forecast

    def total(self, questions: Sequence[Question], chosen: Collection[Candidate]) -> ReadEstimate:
        """What all questions read, each counted as often as it was asked."""
        reads = [(self.read(question, chosen), question.times) for question in questions]
        return ReadEstimate(
            sum(r.files * n for r, n in reads),
            sum(r.bytes * n for r, n in reads),
            any(r.estimated for r, _ in reads),
        )

    def is_nearly_distinct(self, candidate: Candidate) -> bool:
        """Whether an index would store the rows of values that are nearly all distinct."""
        shares = [self._narrow.values.get((candidate.using, path)) for path in candidate.paths]
        return any(each is not None and each >= NEARLY_DISTINCT for each in shares)

    def _forecast(self, question: Question, chosen: frozenset[Candidate]) -> ReadEstimate:
        existing = frozenset(
            candidate for candidate in self._existing if candidate.paths & question.fields.keys()
        )
        sizes = self.snapshot.sizes
        today = np.ones(len(sizes), np.bool_)
        if self._today is not None and existing <= chosen:
            today = self._today(question)
        now = ReadEstimate(float(np.count_nonzero(today)), float(sizes[today].sum()))
        if self._today is not None and existing == chosen:
            return now
        cheap = frozenset(candidate for candidate in chosen if candidate.using == RANGES)
        before = today[self._looked_at]
        by_ranges = _scaled(now, self._wide, before, before & self._wide.kept(question, cheap))
        if chosen == cheap or not by_ranges.files:
            return by_ranges
        before = today[self.sampled] & self._narrow.kept(question, cheap)
        return _scaled(by_ranges, self._narrow, before, before & self._narrow.kept(question, chosen))


def _scaled(
    total: ReadEstimate, trial: Trial, seen: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> ReadEstimate:
    """The estimate of what is kept of `total`, of which some files were `seen` in a trial and some of those `kept`."""
    sizes = trial.snapshot.sizes
    count, left = int(np.count_nonzero(seen)), int(np.count_nonzero(kept))
    size, size_left = float(sizes[seen].sum()), float(sizes[kept].sum())
    if not total.estimated and count >= total.files:
        return ReadEstimate(left, size_left)
    share = share_of_size = (left + 1) / (count + 1)
    if left and count >= TELLING:
        share, share_of_size = left / count, size_left / max(size, 1.0)
    files = left + max(total.files - count, 0.0) * share
    if files < 1:
        # An estimate below one file does not mean that there is none.
        return ReadEstimate(min(1.0, total.files), total.bytes / max(total.files, 1.0), True)
    return ReadEstimate(files, size_left + max(total.bytes - size, 0.0) * share_of_size, True)


def _spread(count: int, most: int) -> NDArray[np.intp]:
    """At most `most` of `count` ordinals, drawn uniformly, so that periodic patterns do not bias the sample."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, most, replace=False))


def sampled(snapshot: Snapshot, limits: SampleLimits) -> NDArray[np.intp]:
    """The slices whose data is read, bounded in number and size."""
    mixed = np.random.default_rng(SEED).permutation(len(snapshot))
    fits = np.cumsum(snapshot.sizes[mixed]) <= limits.data_bytes
    fits[:1] = True
    return np.sort(mixed[fits][: limits.data_files])
