"""Answers from metadata: counts and extremes of a plan's matching rows, each part proved or left to be read.

A count is an answer where the lower and upper bound of the number of matching rows are equal; an extreme, where every
row of a slice matches and its bound is the value of a row. Nothing else is returned: other slices are left to be read
(traps A1, A2, A3). The evidence that drops files also skips slices whose rows cannot change a proved value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import (
    compute,
    from_storage,
    null_unless,
    nulls,
    number_array,
    positions,
    truth_array,
)
from pruner.expr.bound.fields import only_field
from pruner.expr.nodes import Operator
from pruner.indexes.row_sets import Entries
from pruner.planning.first_rows import Order, first_by
from pruner.planning.kept_slices import MOST_GROUPS, comparison
from pruner.planning.row_level import entries_of
from pruner.showing.words import counted
from pruner.tables.snapshot import SliceSequence
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.evidence.exact import Facts
    from pruner.indexes.optional import ValuedEvidence
    from pruner.planning.kept_slices import KeptSlices
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Ordinals = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Answer:
    """An aggregate over the matching rows of a plan.

    Attributes:
        value: over all slices except those in `rest`: a number of rows, the least or greatest value (None if no row has
            one), or the number of rows by value.
        rest: ordinals of the slices that still have to be read, ascending; the predicate must be applied there.
        snapshot: the snapshot of these slices.
        proved: the same as `value`, as Arrow: a column of one value, or a table of `value` and `rows`.
    """

    value: Any
    rest: NDArray[np.intp]
    snapshot: Snapshot
    proved: pa.Table

    @property
    def exact(self) -> bool:
        """True if nothing has to be read."""
        return not len(self.rest)

    @property
    def total(self) -> int:
        """Number of slices of the table."""
        return len(self.snapshot)

    @property
    def slices(self) -> SliceSequence:
        """The slices that have to be read, lazily."""
        return SliceSequence(self.snapshot, self.rest)

    @property
    def files(self) -> list[str]:
        """URIs of the base files of these slices."""
        return self.snapshot.files_of(self.rest).to_pylist()

    @property
    def told(self) -> str:
        """How much of the answer comes from metadata, in one sentence."""
        answered = self.total - len(self.rest)
        return f"answered from metadata: {answered:,} of {counted(self.total, self.snapshot.noun)}"

    def __repr__(self) -> str:
        return f"<Answer {self.value!r}: {self.told}>"


@dataclass(frozen=True, slots=True)
class _Key:
    """A column by which rows are grouped: the slices with a single value in it, and these values."""

    about: Field
    single: Mask
    values: Any


def together(slices: KeptSlices, asked: Sequence[tuple[str, str | None]]) -> tuple[list[Answer], Ordinals]:
    """Several answers that leave the same slices to be read, and these slices: see `Plan.answers`."""
    answers = [_one(slices, kind, column) for kind, column in asked]
    rest = np.unique(np.concatenate([np.empty(0, np.intp), *(answer.rest for answer in answers)]))
    # Reading a row twice changes counts, but not extremes.
    again = [
        kind in ("count", "by") and len(answer.rest) < len(rest)
        for (kind, _), answer in zip(asked, answers, strict=True)
    ]
    return [
        _one(slices, kind, column, rest) if anew else answer
        for (kind, column), answer, anew in zip(asked, answers, again, strict=True)
    ], rest


def _one(slices: KeptSlices, kind: str, column: str | None, but: Ordinals | None = None) -> Answer:
    match kind:
        case "count":
            return count(slices, column, but)
        case "min" | "max":
            return extreme(slices, column or "", greatest=kind == "max")
        case _:
            return count_by(slices, column or "", but)


def count(slices: KeptSlices, column: str | None = None, but: Ordinals | None = None) -> Answer:
    """Count the matching rows, or those of them in which a column is not NULL, of all slices except `but`.

    Raises:
        SchemaError: there is no such column.
    """
    counts = slices.matching
    if column is not None:
        facts = slices.facts_of(slices.field(column))
        null_counts = np.full(len(slices.at), -1, np.int64) if facts is None else facts.null_counts
        of_whole = np.where(slices.whole & (null_counts >= 0), slices.counts - null_counts, -1)
        counts = np.where((null_counts == 0) | (counts == 0), counts, of_whole)
    proved = (counts >= 0) & ~_among(slices, but)
    total = int(counts[proved].sum())
    return _answer(slices, total, ~proved, number_array(np.array([total]), pa.int64()))


def extreme(slices: KeptSlices, column: str, *, greatest: bool) -> Answer:
    """The least or greatest value of a column over the matching rows, ignoring NULL.

    Raises:
        SchemaError: there is no such column.
    """
    about = slices.field(column)
    rest = slices.matching != 0
    candidates: list[Any] = []
    if slices.is_shown(about):
        rest = _extremes_of_facts(slices, about, greatest, rest, candidates)
        rest = _values_listed(slices, about, rest, candidates)
    stores: Any = [candidate.cast(candidates[0].type) for candidate in candidates]
    known: Any = pa.concat_arrays(stores).drop_null() if stores else []
    value, stored = nulls(1, about.type), None
    if len(known):
        best: Any = compute.max(known) if greatest else compute.min(known)
        stored = best.as_py()
        try:
            value = from_storage(pa.array([stored], known.type), about.type)
        except pa.ArrowInvalid:  # bytes that are not valid text
            stored, rest = None, slices.matching != 0
    if stored is not None and rest.any():
        better = Operator.GT if greatest else Operator.LT
        rest &= slices.possible(comparison(about, better, stored))
    reaching = first_by(slices, Order(column, 1, greatest, False)) if rest.sum() > 1 else None
    if reaching is not None:
        rest &= reaching[0]
    return _answer(slices, value[0] if stored is not None else None, rest, value)


def _extremes_of_facts(
    slices: KeptSlices, about: Field, greatest: bool, rest: Mask, found: list[Any]
) -> Mask:
    """Gather the extremes that slices are known to hold; returns the remaining slices."""
    facts = slices.facts_of(about)
    if facts is None:
        return rest
    nothing = slices.whole & (facts.null_counts == slices.counts)
    of_value = facts.high_is_value if greatest else facts.low_is_value
    proved = slices.whole & (facts.null_counts >= 0) & ~nothing & of_value
    bounds: Any = facts.high if greatest else facts.low
    found.append(bounds.take(positions(np.flatnonzero(rest & proved))))
    return rest & ~(nothing | proved)


def _values_listed(slices: KeptSlices, about: Field, rest: Mask, found: list[Any]) -> Mask:
    """Gather the values of slices where an index lists all those of matching rows; returns the remaining slices."""
    listed = slices.listed(about) if _may_be_listed(slices, about, rest) else None
    return rest if listed is None else _count_listed(slices, about, listed, rest, found, [])


def _may_be_listed(slices: KeptSlices, about: Field, rest: Mask) -> bool:
    """Tell whether an index that lists values could tell which matching rows have them: reading all of a large bitmap
    index takes longer than DuckDB takes to read the column.
    """
    known = slices.matching >= 0 if _is_about(slices, about) else slices.whole
    return bool((rest & known).any())


def _is_about(slices: KeptSlices, about: Field) -> bool:
    """Tell whether the predicate is about this field alone."""
    field = only_field(slices.predicate)
    return field is not None and field.path == about.path


def count_by(slices: KeptSlices, column: str, but: Ordinals | None = None) -> Answer:
    """Count the matching rows by the value of a column, of all slices except `but`.

    Raises:
        SchemaError: there is no such column.
    """
    about = slices.field(column)
    values: list[Any] = []
    rows: list[Integers] = []
    left = _among(slices, but)
    rest = (slices.matching != 0) & ~left
    facts = slices.facts_of(about)
    usable = slices.is_shown(about)
    if facts is not None and usable:
        rest = _count_single(slices, facts, rest, values, rows)
    listed = slices.listed(about) if usable and _may_be_listed(slices, about, rest) else None
    if listed is not None:
        rest = _count_listed(slices, about, listed, rest, values, rows)
    try:
        table = _summed(values, rows, about.type)
    except pa.ArrowInvalid:  # bytes that are not valid text
        table, rest = _summed([], [], about.type), slices.matching != 0
    pairs = zip(table.column("value"), table.column("rows").to_pylist(), strict=True)
    return _answer(slices, {_plain(value): count for value, count in pairs}, rest | left, table)


def _count_single(
    slices: KeptSlices, facts: Facts, rest: Mask, values: list[Any], rows: list[Integers]
) -> Mask:
    """Count the rows of slices with a single value; returns the remaining slices."""
    single, nothing = slices.single(facts)
    counted = rest & (slices.matching > 0) & single
    at = np.flatnonzero(counted)
    low: Any = facts.low
    values.append(null_unless(truth_array(~nothing[at]), low.take(positions(at))))
    rows.append(slices.matching[at])
    return rest & ~counted


def _count_listed(
    slices: KeptSlices,
    about: Field,
    listed: ValuedEvidence,
    rest: Mask,
    values: list[Any],
    rows: list[Integers],
) -> Mask:
    """Count the rows that an index knows by value, where all rows of a slice match, or all rows of some values."""
    if listed.entry_count > MOST_GROUPS:
        return rest
    told = slices.settled(listed, rest)
    entries = _entries_by(slices, about, listed)
    told &= slices.whole if entries is None else slices.matching >= 0
    if entries is None:
        entries = Entries(np.ones(listed.entry_count, np.bool_))
    stored: Any = listed.stored_values()
    chosen = np.zeros(len(slices.snapshot), np.bool_)
    chosen[slices.at[told]] = True
    null, counts = listed.entry_count - 1, np.zeros(listed.entry_count, np.int64)
    for entry in np.flatnonzero(entries.mask).tolist():
        holders, sizes = listed.holders(entry)
        counts[entry] = sizes[chosen[holders]].sum()
    if pa.types.is_floating(stored.type) or counts.sum() != slices.matching[told].sum():
        return rest  # there are two zeros and many NaNs; and two proofs about the same slices must agree
    of_values = np.flatnonzero(counts[: len(stored)])
    values += [stored.take(positions(of_values)), nulls(int(counts[null] > 0), stored.type)]
    rows += [counts[of_values], counts[null : null + int(counts[null] > 0)]]
    return rest & ~told


def _entries_by(slices: KeptSlices, about: Field, listed: ValuedEvidence) -> Entries | None:
    """The entries on all of whose rows the predicate is true, and on no others; None if entries do not decide it."""
    if not _is_about(slices, about):
        return None
    true, *others = (entries_of(slices.predicate, outcome, listed, slices.semantics) for outcome in Outcome)
    return None if any((true.mask & other.mask).any() for other in others) else true


def grouped(
    slices: KeptSlices, column: str | Sequence[str], calls: Sequence[tuple[str, str | None]]
) -> Answer:
    """Aggregates of the matching rows by the value of a column, for slices whose rows all have one value in it.

    Row counts by several columns are also known where a bitmap has the values of one and all rows match. See
    `Plan.grouped`.

    Raises:
        SchemaError: there is no such column.
    """
    abouts = [slices.field(each) for each in ((column,) if isinstance(column, str) else column)]
    by_call = [_by_slice(slices, kind, None if name is None else slices.field(name)) for kind, name in calls]
    keys = [_key(slices, about) for about in abouts]
    names = ["value", *(f"value_{number}" for number in range(1, len(keys)))]
    kinds = [kind for kind, _ in calls]
    gone = slices.matching == 0
    of_rows = all(name is None for _, name in calls)
    proved = (slices.matching > 0) if of_rows else slices.whole & ~gone
    for known in (*(key.single for key in keys), *(known for known, _, _ in by_call)):
        proved = proved & known
    at = positions(np.flatnonzero(proved))
    parts = [_part([key.values.take(at) for key in keys], [each.take(at) for _, each, _ in by_call], names)]
    if of_rows and len(keys) > 1:
        proved = _combined(slices, keys, proved | gone, len(calls), names, parts)
    fields = [*abouts, *(field for _, _, field in by_call)]
    try:
        table = _merged(parts, names, kinds, fields)
    except pa.ArrowInvalid:  # bytes that are not valid text
        table, proved = _merged([parts[0].slice(0, 0)], names, kinds, fields), gone
    return _answer(slices, None, ~(gone | proved), table)


def _key(slices: KeptSlices, about: Field) -> _Key:
    """What is known of a column by which rows are grouped."""
    facts = slices.facts_of(about) if slices.is_shown(about) else None
    if facts is None:
        return _Key(about, np.zeros(len(slices.at), np.bool_), nulls(len(slices.at), pa.null()))
    single, nothing = slices.single(facts)
    return _Key(about, single, null_unless(truth_array(~nothing), facts.low))


def _combined(
    slices: KeptSlices,
    keys: Sequence[_Key],
    done: Mask,
    calls: int,
    names: Sequence[str],
    parts: list[pa.Table],
) -> Mask:
    """Count rows by several columns where only one of them has several values, which a bitmap has.

    Adds the counts to `parts` and returns the slices that are done.
    """
    for key in keys:
        others = [each.single for each in keys if each is not key]
        wanted = slices.whole & ~done & np.logical_and.reduce(others)
        listed = slices.listed_values(key.about, wanted) if wanted.any() else None
        if listed is None or key.values.type not in (listed.values.type, pa.null()):
            continue
        at: Any = positions(listed.at)
        values = [listed.values if each is key else each.values.take(at) for each in keys]
        parts.append(_part(values, [number_array(listed.sizes, pa.int64())] * calls, names))
        done = done | listed.known
    return done


def _by_slice(slices: KeptSlices, kind: str, about: Field | None) -> tuple[Mask, Any, Field | None]:
    """The slices for which an aggregate of all matching rows is known, and its values."""
    if about is None:
        return slices.matching >= 0, number_array(slices.matching, pa.int64()), None
    facts = slices.facts_of(about)
    if facts is None or (kind != "count" and not slices.is_shown(about)):
        unknown = np.zeros(len(slices.at), np.bool_)
        return unknown, nulls(len(slices.at), pa.int64() if kind == "count" else about.type), None
    known = facts.null_counts >= 0
    if kind == "count":
        return known, number_array(slices.counts - facts.null_counts, pa.int64()), None
    nothing = facts.null_counts == slices.counts
    bounds: Any = facts.high if kind == "max" else facts.low
    values = null_unless(truth_array(~nothing), bounds)
    return (
        known & (nothing | (facts.high_is_value if kind == "max" else facts.low_is_value)),
        values,
        about,
    )


def _among(slices: KeptSlices, ordinals: Ordinals | None) -> Mask:
    return np.zeros(len(slices.at), np.bool_) if ordinals is None else np.isin(slices.at, ordinals)


def _answer(slices: KeptSlices, value: Any, rest: Mask, proved: Any) -> Answer:
    table = proved if isinstance(proved, pa.Table) else pa.table({"value": proved})
    return Answer(_plain(value), slices.at[rest], slices.snapshot, table)


def _summed(values: list[Any], rows: list[Integers], type_: pa.DataType) -> pa.Table:
    """Values of the storage domain with their row counts, each value once and in the type of the table."""
    names = ["value", "rows"]
    if not values:
        return pa.Table.from_arrays([pa.array([], type_), pa.array([], pa.int64())], names=names)
    together = pa.Table.from_arrays(
        [pa.concat_arrays(values), number_array(np.concatenate(rows), pa.int64())], names=names
    )
    grouped: Any = together.group_by("value", use_threads=False).aggregate([("rows", "sum")])
    typed = from_storage(grouped.column("value").combine_chunks(), type_)
    return pa.Table.from_arrays([typed, grouped.column("rows_sum").combine_chunks()], names=names)


def _part(keys: Sequence[Any], found: Sequence[Any], names: Sequence[str]) -> pa.Table:
    """Some groups: their values, and one column per call."""
    return pa.Table.from_arrays(
        [*keys, *found], names=[*names, *(f"call_{number}" for number in range(len(found)))]
    )


def _merged(
    parts: Sequence[pa.Table], names: Sequence[str], kinds: Sequence[str], fields: Sequence[Field | None]
) -> pa.Table:
    """Groups merged, each once, in the types of `fields`, which has None for row counts."""
    merging: Any = [
        (f"call_{number}", "sum" if kind == "count" else kind) for number, kind in enumerate(kinds)
    ]
    together = pa.concat_tables(parts, promote_options="default")
    if not len(together):
        nothing = [pa.array([], pa.int64() if field is None else field.type) for field in fields]
        return pa.Table.from_arrays(nothing, names=together.column_names)
    grouped: Any = together.group_by(list(names), use_threads=False).aggregate(merging)
    held_columns = [*names, *(f"{name}_{function}" for name, function in merging)]
    columns: list[Any] = []
    for name, field in zip(held_columns, fields, strict=True):
        column = grouped.column(name).combine_chunks()
        columns.append(column if field is None else from_storage(column, field.type))
    return pa.Table.from_arrays(columns, names=together.column_names)


def _plain(value: Any) -> Any:
    """An Arrow value as a Python value, or as text if Python has none for it."""
    try:
        return value.as_py() if hasattr(value, "as_py") else value
    except (ValueError, OverflowError, ImportError):
        return value.cast(pa.string()).as_py() if pa.types.is_temporal(value.type) else str(value)
