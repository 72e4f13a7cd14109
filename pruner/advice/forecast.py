"""How much a question would read with some indexes, judged by two samples.

Ranges come from footers, so that they are tried on thousands of files. Everything else has to read the data, and is
tried on fewer: what it leaves there of what ranges leave is taken for the share that it leaves everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pruner.advice.pace import DATA, FOOTERS, ROWS, Pace
from pruner.advice.trials import RANGES, Trial, recorded, subset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.advice.questions import Question
    from pruner.advice.trials import Candidate
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

FOOTER_FILES = 5000
"""Files at most whose footers are read."""

DATA_FILES = 200
DATA_BYTES = 256 * 1024**2
"""Files at most whose data is read, and their size: what does not fit is left out of the sample."""

TELLING = 5
"""Files of a sample that ranges leave, from which on a share of them tells more than a share of all."""

SEED = 0


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """How much of a table is sampled: files whose footers, files whose data, and bytes of data are read at most."""

    footer_files: int = FOOTER_FILES
    data_files: int = DATA_FILES
    data_bytes: int = DATA_BYTES


class Read(NamedTuple):
    """What is read for a question."""

    files: float
    bytes: float


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
    ) -> None:
        pace = pace or Pace()
        self.snapshot = snapshot
        wide = pace.mixed(_spread(len(snapshot), limits.footer_files))
        chosen = pace.mixed(sampled(snapshot, limits))
        wanted = {(each.using, f.path): f for each in candidates for f in each.fields}
        unhurried = pace.seconds is None and len(chosen) == len(snapshot)
        footers = {key: f for key, f in wanted.items() if unhurried or key[0] == RANGES}

        def tried(ordinals: NDArray[np.intp], about: Mapping[Any, Field], begin: float, end: float) -> Trial:
            """Of the slices as many as there is time for."""
            among = subset(snapshot, ordinals)
            found = recorded(among, about, storage_options, pace.pieces(len(among), begin, end))
            return Trial(subset(among, np.arange(found.slices)), segments, found.evidence)

        self._wide = tried(wide, footers, ROWS, FOOTERS)
        self._narrow = self._wide if unhurried else tried(chosen, wanted, FOOTERS, DATA)
        self.sampled = chosen[: len(self._narrow.snapshot)]
        self.wanted = len(chosen)
        self._times = len(snapshot) / max(len(self._wide.snapshot), 1)
        self._read: dict[tuple[int, frozenset[Candidate]], Read] = {}

    @property
    def sample(self) -> Snapshot:
        """The slices whose data is read."""
        return self._narrow.snapshot

    def read(self, question: Question, chosen: Collection[Candidate]) -> Read:
        """What a question reads with some indexes."""
        about = frozenset(each for each in chosen if each.paths & question.fields.keys())
        key = (id(question), about)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._forecast(question, about)
        return found

    def total(self, questions: Sequence[Question], chosen: Collection[Candidate]) -> Read:
        """What all questions read, as often as each was asked."""
        reads = [(self.read(each, chosen), each.times) for each in questions]
        return Read(sum(r.files * n for r, n in reads), sum(r.bytes * n for r, n in reads))

    def _forecast(self, question: Question, chosen: frozenset[Candidate]) -> Read:
        cheap = frozenset(each for each in chosen if each.using == RANGES)
        left = self._wide.kept(question, cheap)
        sizes = self._wide.snapshot.sizes
        files, size = float(np.count_nonzero(left)), float(sizes[left].sum())
        by_ranges = Read(files * self._times, size * self._times)
        if len(sizes) < len(self.snapshot):
            by_ranges = _one_at_least(by_ranges, float(sizes.mean()))
        if chosen == cheap or not by_ranges.files:
            return by_ranges
        share = self._share_left(question, cheap, chosen)
        found = Read(by_ranges.files * share.files, by_ranges.bytes * share.bytes)
        if len(self.sampled) == len(self.snapshot):
            return found
        return _one_at_least(found, by_ranges.bytes / by_ranges.files)

    def _share_left(
        self, question: Question, cheap: frozenset[Candidate], chosen: frozenset[Candidate]
    ) -> Read:
        """The shares of files and bytes that all indexes leave of what ranges leave, in the smaller sample."""
        before = self._narrow.kept(question, cheap)
        after = self._narrow.kept(question, chosen) & before
        sizes = self._narrow.snapshot.sizes
        if len(self.sampled) < len(self.snapshot) and np.count_nonzero(before) < TELLING:
            before = np.ones(len(before), np.bool_)
            after = self._narrow.kept(question, chosen)
        return Read(
            float(np.count_nonzero(after) / max(np.count_nonzero(before), 1)),
            float(sizes[after].sum()) / max(float(sizes[before].sum()), 1.0),
        )


def _one_at_least(read: Read, size: float) -> Read:
    """One file of that size where a sample saw less than one: it does not say that there is none."""
    return read if read.files >= 1 else Read(1.0, size)


def _spread(count: int, most: int) -> NDArray[np.intp]:
    """Some of so many, each as likely as the others: whatever comes back at even distances does not mislead."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, most, replace=False))


def sampled(snapshot: Snapshot, limits: SampleLimits) -> NDArray[np.intp]:
    """The slices whose data is read, of a bounded number and size."""
    mixed = np.random.default_rng(SEED).permutation(len(snapshot))
    fits = np.cumsum(snapshot.sizes[mixed]) <= limits.data_bytes
    fits[:1] = True
    return np.sort(mixed[fits][: limits.data_files])
