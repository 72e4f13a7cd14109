"""What evidence comes from: an index or partition values.

The planner asks every source the same questions. The evidence of an index type (`pruner.indexes.base.Evidence`) knows
nothing of engines that read a column from elsewhere, nor of records that are read on demand; sources do. There is one
kind of source; sources differ in what answers for them (`Answers`) and in what else they can do (`Capabilities`).

What is known of the fields of one predicate is its `Focus`: sources that read what that predicate asks for, and keep
it.

Partition values as evidence: the path of a slice gives one value for all of its rows.

A partition is evaluated like a file whose statistics are that one value, and its slices share the verdict.
Nothing has to be built for it. The snapshot decides whether the value in the path may be believed at all
(`Partitions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from pruner.errors import first_line
from pruner.expr.bound.fields import leaves
from pruner.indexes.optional import (
    CountingEvidence,
    FocusingEvidence,
    ListedEvidence,
    LocatingEvidence,
    LookingUpEvidence,
    NotingEvidence,
    RowEvidence,
    ValuedEvidence,
)
from pruner.indexes.registry import evidence_of_values
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.grouped import GroupedEvidence
    from pruner.expr.bound.fields import Path
    from pruner.expr.bound.predicates import BoundExpr, InLeaf, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.indexes.optional import ExactEvidence, FocusedEvidence, PagedEvidence
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]


class Answers(Protocol):
    """What answers for a source: evidence about one field, by snapshot ordinal."""

    @property
    def uncovered(self) -> Mask | None:
        """True for each slice without a usable record, as far as is known; None if there is no such slice."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Why records could not be read on demand."""
        ...

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`; None if unknown.

        Args:
            leaf: a leaf on the field.
            outcome: true, false or null.
            semantics: the rules of the engine.
            at: the slices, as snapshot ordinals; None for all.
        """
        ...


Few: TypeAlias = "Callable[[Leaf, Semantics, float], NDArray[np.intp] | None]"
"""Returns the slices on which a leaf can be true, ascending; None if that is unknown, or if they are not fewer than a
given number. They are those for which `Answers.possible` is true."""


def _nothing_listed() -> ListedEvidence | None:
    return None


class WholeIndex:
    """Reads all records of an index that is otherwise read page by page, and remembers its last number of entries."""

    def __init__(self, read: Callable[[], ListedEvidence | None]) -> None:
        self._read = read
        self.entry_count = 0

    def __call__(self) -> ListedEvidence | None:
        """Read them; None if they cannot be read."""
        evidence = self._read()
        self.entry_count = evidence.entry_count if isinstance(evidence, ValuedEvidence) else 0
        return evidence


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """What a source can do besides answering for leaves: see `pruner.indexes.optional`."""

    rows: RowEvidence | None = None
    """The evidence, if it knows single rows as the engine reads them."""
    deferred: FocusedEvidence | None = None
    """The evidence, if it is read only for the slices that are left, and for whole parts of a predicate at a time."""
    listed: Callable[[], ListedEvidence | None] = _nothing_listed
    """Returns the evidence, if it stores values that can be listed; may read it."""
    counted: CountingEvidence | None = None
    """The evidence, if it knows how many values each slice holds."""
    locating: LocatingEvidence | None = None
    """The evidence, if it finds many values at once."""
    longest_range: int = 0
    """Most values of a range that it looks up one by one; 0 if it knows the order of values."""
    few: Few | None = None
    """Returns the slices on which a leaf can be true, if it can do so without checking all slices."""
    carries_over: bool = False
    """Whether it gives nothing but masks over slices, so that they can be carried over to a later snapshot."""


NOTHING_ELSE = Capabilities()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Evidence about one field."""

    index: str
    """Its name in reports."""
    using: str
    """Its index type."""
    answers: Answers
    can: Capabilities = NOTHING_ELSE
    is_read: Callable[[Semantics], bool] | None = None
    """Whether an engine reads the values that it is about; None if every engine does."""
    silence: Callable[[Semantics], str | None] | None = None
    """Why it never answers an engine, whatever the leaf."""
    focus: Callable[[Sequence[Leaf]], Source] | None = None
    """Makes the source for the leaves of one predicate; None if it is the same for all."""

    @property
    def uncovered(self) -> Mask | None:
        """See `Answers.uncovered`."""
        return self.answers.uncovered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Answers.notes`."""
        return self.answers.notes

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Answers.possible`."""
        return self.answers.possible(leaf, outcome, semantics, at) if self._speaks_to(semantics) else None

    def few(self, leaf: Leaf, semantics: Semantics, below: float) -> NDArray[np.intp] | None:
        """See `Few`; None if the source cannot list slices."""
        if self.can.few is None or not self._speaks_to(semantics):
            return None
        return self.can.few(leaf, semantics, below)

    def rows(self, semantics: Semantics) -> RowEvidence | None:
        """See `Capabilities.rows`."""
        return self.can.rows if self._speaks_to(semantics) else None

    def deferred(self, semantics: Semantics) -> FocusedEvidence | None:
        """See `Capabilities.deferred`; None for a source that is asked about each leaf."""
        return self.can.deferred if self._speaks_to(semantics) else None

    def why_silent(self, semantics: Semantics) -> str | None:
        """Return why it never answers an engine, whatever the leaf; None if it may."""
        return None if self.silence is None else self.silence(semantics)

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """The source for one predicate; `leaves` are its leaves on the field."""
        return self if self.focus is None else self.focus(leaves)

    def answering(self, answers: Answers, *, carries_over: bool = False) -> Source:
        """A source with other answers about the same records, and none about their rows."""
        can = replace(self.can, rows=None, deferred=None, locating=None, few=None, carries_over=carries_over)
        return Source(self.index, self.using, answers, can)

    def _speaks_to(self, semantics: Semantics) -> bool:
        return self.is_read is None or self.is_read(semantics)


def of_records(index: str, using: str, evidence: Evidence, checked: int | None = None) -> Source:
    """Evidence from the records of all slices: an index that was loaded whole, or partition values.

    Args:
        index: the name of the index.
        using: its type.
        evidence: what the records say.
        checked: the number of slices, if the type is from another distribution and its answers are checked.

    Raises:
        BrokenRuleError: it does not say which slices are covered.
    """
    unchecked = checked is None
    answers = _Records(index, evidence) if unchecked else _CheckedRecords(index, using, evidence, checked)
    can = _capabilities(evidence)
    if not isinstance(evidence, FocusingEvidence):
        return Source(index, using, answers, can)

    def focused(leaves: Sequence[Leaf]) -> Source:
        of_leaves = evidence.focused(leaves)
        rows = Capabilities(rows=of_leaves, longest_range=can.longest_range)
        return Source(index, using, _Focused(index, of_leaves, answers.uncovered), rows)

    return Source(index, using, answers, can, focus=focused)


def of_paths(index: str, using: str, evidence: PartitionEvidence) -> Source:
    """Evidence from the values in paths, which each engine decodes by its own rules."""
    source = of_records(index, using, evidence)
    return replace(source, can=replace(source.can, few=evidence.few), silence=evidence.why_silent)


def of_groups(index: str, using: str, evidence: GroupedEvidence) -> Source:
    """Evidence from groups of slices and, where these do not settle it, from records read on demand."""
    return Source(index, using, evidence, Capabilities(carries_over=True))


def of_pages(
    index: str, using: str, evidence: PagedEvidence, whole: Callable[[], ListedEvidence | None]
) -> Source:
    """Evidence of an index whose records are read page by page, for what is left to decide of one predicate.

    Args:
        index: the name of the index.
        using: its type.
        evidence: reads the pages.
        whole: reads all records, to list their values.
    """
    answers = _Pages(evidence)

    def focused(leaves: Sequence[Leaf]) -> Source:
        of_leaves = evidence.focused(leaves)
        can = Capabilities(rows=of_leaves, deferred=of_leaves)
        return Source(index, using, _Focused(index, of_leaves, answers.uncovered), can)

    return Source(index, using, answers, Capabilities(listed=WholeIndex(whole)), focus=focused)


def _capabilities(evidence: Evidence) -> Capabilities:
    rows = evidence if isinstance(evidence, RowEvidence) else None
    counted = evidence if isinstance(evidence, CountingEvidence) else None
    locating = evidence if isinstance(evidence, LocatingEvidence) else None
    listed = evidence if isinstance(evidence, ListedEvidence) else None
    more = rows or counted or locating or listed
    return Capabilities(
        rows=rows,
        listed=lambda: listed,
        counted=counted,
        locating=locating,
        longest_range=evidence.longest_range if isinstance(evidence, LookingUpEvidence) else 0,
        carries_over=more is None and not isinstance(evidence, FocusingEvidence),
    )


class _Records:
    """Answers from evidence of in-memory records."""

    def __init__(self, index: str, evidence: Evidence) -> None:
        self.uncovered = None if evidence.covered.all() else ~evidence.covered
        self.possible = evidence.possible
        self._index = index
        self._noting = evidence if isinstance(evidence, NotingEvidence) else None

    @property
    def notes(self) -> tuple[str, ...]:
        notes = () if self._noting is None else self._noting.notes
        return tuple(f"index {self._index}: {note}" for note in notes)


class BrokenRuleError(Exception):
    """An index type of another distribution returned something that the protocol does not allow."""


def failure_of(using: str, error: Exception) -> str:
    """Say in one sentence that an index type of another distribution raised an error or broke a rule."""
    reason = first_line(error)
    if not isinstance(error, BrokenRuleError):
        reason = f"{type(error).__name__}: {reason}"
    return f"the index type {using!r} failed: {reason}"


class _CheckedRecords(_Records):
    """The same for an index type of another distribution: answers that break the rules are noted and drop nothing."""

    def __init__(self, index: str, using: str, evidence: Evidence, count: int) -> None:
        _require_mask("its `covered`", evidence.covered, count)
        super().__init__(index, evidence)
        self.possible = self._checked
        self._asked = evidence.possible
        self._using = using
        self._count = count
        self._failures: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return super().notes + tuple(f"index {self._index}: {failure}" for failure in self._failures)

    def _checked(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        try:
            answer = self._asked(leaf, outcome, semantics, at)
            if answer is None:
                return None
            _require_mask("its answer", answer, self._count if at is None else len(at))
        # Whatever the other package raises, planning continues without it.
        except Exception as error:
            self._failures = tuple(dict.fromkeys((*self._failures, failure_of(self._using, error))))
            return None
        if self.uncovered is None:
            return answer
        return answer | (self.uncovered if at is None else self.uncovered[at])


def _require_mask(what: str, answer: Any, count: int) -> None:
    if isinstance(answer, np.ndarray):
        mask = cast("NDArray[Any]", answer)
        if mask.dtype == np.bool_ and mask.shape == (count,):
            return
        shown = f"{mask.dtype} of shape {mask.shape}"
    else:
        shown = f"a {type(answer).__name__}"
    raise BrokenRuleError(f"{what} is not a mask of {count} slices, but {shown}")


class _Focused:
    """Answers for one predicate from an index that looks up what the predicate asks for."""

    def __init__(self, index: str, evidence: RowEvidence, uncovered: Mask | None) -> None:
        self.uncovered = uncovered
        self.possible = evidence.possible
        self._index = index
        self._evidence = evidence

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"index {self._index}: {note}" for note in self._evidence.notes)


class _Pages:
    """Answers from pages, for each leaf as if it were a predicate by itself."""

    notes: tuple[str, ...] = ()

    def __init__(self, evidence: PagedEvidence) -> None:
        self.uncovered = None if evidence.covered.all() else ~evidence.covered
        self._evidence = evidence

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        return self._evidence.focused([leaf]).possible(leaf, outcome, semantics, at)


@dataclass
class Sources:
    """What is known of one field, and why some of it could not be used."""

    usable: list[Source] = field(default_factory=list[Source])
    fallbacks: list[str] = field(default_factory=list[str])

    def focused(self, leaves: Sequence[Leaf]) -> Sources:
        """The same for one predicate: see `Source.focused`."""
        return Sources([source.focused(leaves) for source in self.usable], self.fallbacks)


class KnowsFields(Protocol):
    """Returns the sources of fields, like `pruner.evidence.snapshot.SnapshotEvidence`."""

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field."""
        ...


class OwnIndexes(Protocol):
    """A table's own indexes, for one snapshot: beside pruner's, and asked after them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes."""
        ...

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """Names and forms of the indexed expressions that plans can use."""
        ...

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a field to its sources, or why it cannot be used."""
        ...

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield the conditions that a predicate implies and that can be looked up: see
        `pruner.planning.planner.Planner`.
        """
        ...

    def described(self) -> dict[str, str]:
        """How plans use each index, by name. This reads some indexes."""
        ...


@runtime_checkable
class CountsRows(Protocol):
    """Own indexes that know how many rows each file was written with."""

    def row_counts(self) -> NDArray[np.int64]:
        """The number of rows of each base file, deleted ones included; -1 where the table does not say."""
        ...


@runtime_checkable
class TellsPartitions(Protocol):
    """Own indexes that know for which columns engines read partition values, whatever the files hold."""

    def may_differ_from_files(self, about: Field) -> bool:
        """Tell whether engines may read other values of a column, or of an expression, than the files have."""
        ...


@runtime_checkable
class BoundsValues(Protocol):
    """Own indexes that bound the values of columns, file by file."""

    def bounds(self, about: Field) -> ExactEvidence | None:
        """Bounds of the values of a column as files were written; None where the table does not say.

        Bounds may be wider than the values, and none is taken as the value of a row.
        """
        ...


@runtime_checkable
class FollowsSnapshots(Protocol):
    """Own indexes whose presence does not invalidate what is known of another snapshot."""

    def follow(self, before: OwnIndexes | None) -> None:
        """Take over what is known of files of the previous snapshot that are still present."""
        ...


class Focus:
    """Evidence for one predicate, in which each field is read in only one way.

    `known` has the sources of each of its fields, by path, in the order in which the predicate names them.
    """

    def __init__(self, evidence: KnowsFields, predicate: BoundExpr) -> None:
        asked: dict[Path, list[Leaf]] = {}
        for leaf in leaves(predicate):
            asked.setdefault(leaf.field.path, []).append(leaf)
        self.known: Mapping[Path, Sources] = {
            path: evidence.sources(about[0].field).focused(about) for path, about in asked.items()
        }

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field of the predicate, for this predicate."""
        return self.known[about.path]


class PartitionEvidence:
    """Evidence about partitions, spread over their slices: see `pruner.indexes.base.Evidence`."""

    def __init__(self, by_partition: Evidence, about: Field, snapshot: Snapshot) -> None:
        self._by_partition = by_partition
        self._partitions = snapshot.partitions
        self._path = about.path
        self._name = about.name
        self._snapshot = snapshot
        everywhere = bool(by_partition.covered.all())  # the usual case; a mask over very many slices is slow
        self.covered: Mask = (
            np.broadcast_to(np.True_, len(snapshot)) if everywhere else snapshot.spread(by_partition.covered)
        )
        """Slices whose partition has a usable value."""

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self._snapshot)

    def why_silent(self, semantics: Semantics) -> str | None:
        """Return why it never answers an engine; None if it may."""
        if self._path in self._partitions.shared or self._partitions.trusts(self._path, semantics.traits):
            return None
        return (
            f"partition column {self._name}: {semantics.engine} may read the text of a folder otherwise "
            "(escaped bytes, a second '=', or what looks like a number or NULL)"
        )

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Evaluate each partition once and pass the verdict to its slices: see `Evidence.possible`.

        None if the engine may read another value from the path than was decoded (trap N2).
        """
        if self.why_silent(semantics) is not None:
            return None
        verdict = self._by_partition.possible(leaf, outcome, semantics, None)
        if verdict is None:
            return None
        return self._snapshot.spread(verdict) if at is None else verdict[self._snapshot.partitions_of(at)]

    def few(self, leaf: Leaf, semantics: Semantics, below: float) -> NDArray[np.intp] | None:
        """The slices of the partitions in which `leaf` can be true: see `Few`."""
        if self.why_silent(semantics) is not None:
            return None
        verdict = self._by_partition.possible(leaf, Outcome.TRUE, semantics, None)
        return None if verdict is None else self._snapshot.ordinals_in(verdict, below)


def partition_evidence(snapshot: Snapshot, about: Field) -> PartitionEvidence | None:
    """Evidence from the partition values of one field; None if the snapshot has no usable values."""
    values = snapshot.partitions.values.get(about.path)
    by_partition = None if values is None else evidence_of_values(values, about)
    return None if by_partition is None else PartitionEvidence(by_partition, about, snapshot)
