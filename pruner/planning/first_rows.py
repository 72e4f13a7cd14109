"""Which slices hold the first rows of an order or of a LIMIT, as far as metadata shows.

A slice is not needed if others surely have enough rows and, in an order, all of these come before any of its own. Only
rows that are known to match count for that, and in an order only those with a value (trap A3). The evidence that drops
files also tells which slices can hold a row up to the last of them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, compute, from_storage, null_unless, positions, truth_array
from pruner.expr.bound.predicates import IsNullLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder
from pruner.expr.show import describe
from pruner.planning.kept_slices import comparison
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.evidence.exact import Facts
    from pruner.expr.bound.predicates import StorageValue
    from pruner.planning.kept_slices import KeptSlices
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Ordinals = NDArray[np.intp]


class Order(NamedTuple):
    """A number of first rows in the order of a column, including rows that are skipped.

    Attributes:
        column: the first column of the order; others may follow.
        rows: how many rows are wanted; for each value of `within`, if given.
        descending: whether the greatest come first.
        nulls_first: whether NULL comes before all values.
        with_value: a column; rows in which it is NULL are passed over.
        within: a column by whose values rows are partitioned, or several.
    """

    column: str
    rows: int
    descending: bool = False
    nulls_first: bool = False
    with_value: str | None = None
    within: str | tuple[str, ...] | None = None


class FirstRows(NamedTuple):
    """The slices that hold the first rows, among those that a plan keeps, and the reason."""

    ordinals: NDArray[np.intp]
    why: str


def limited(slices: KeptSlices, rows: int, *, fewest: bool = False) -> FirstRows | None:
    """The first slices that surely hold `rows` matching rows; None if all of them are needed.

    With `fewest`, slices with the most matching rows come first: any rows will do.
    """
    least = slices.numbers.least
    order = np.argsort(-least, kind="stable") if fewest else np.arange(len(least))
    reached = np.flatnonzero(np.cumsum(least[order]) >= rows)
    if not len(reached) or reached[0] + 1 >= len(slices.at):
        return None
    chosen = slices.at[np.sort(order[: reached[0] + 1])]
    return FirstRows(chosen, f"{rows:,} rows surely match in {counted(len(chosen), slices.snapshot.noun)}")


def top(slices: KeptSlices, orders: Sequence[Order]) -> FirstRows | None:
    """The slices that hold the first matching rows in each of some orders; None if all of them are needed.

    They include all rows that are equal in the column, so that any further order may follow.

    Raises:
        SchemaError: there is no such column.
    """
    keep, told = np.zeros(len(slices.at), np.bool_), list[str]()
    for order in orders:
        first = first_by(slices, order)
        if first is None:
            return None
        keep |= first[0]
        told.append(first[1])
    return None if keep.all() else FirstRows(slices.at[keep], "; ".join(dict.fromkeys(told)))


def first_values(slices: KeptSlices, order: Order) -> FirstRows | None:
    """The slices with all matching rows of the first `order.rows` values in an order; None if all are needed.

    Raises:
        SchemaError: there is no such column.
    """
    about = slices.field(order.column)
    facts = slices.facts_of(about)
    if facts is None or not slices.is_shown(about):
        return None
    threshold = _threshold_of_values(slices, facts, order)
    if threshold is None:
        return None
    keep, leaf = _up_to(slices, threshold, about, order)
    told = f"threshold of the first {counted(order.rows, 'value')}: {leaf}"
    return None if keep.all() else FirstRows(slices.at[keep], told)


def _threshold_of_values(slices: KeptSlices, facts: Facts, order: Order) -> StorageValue | None:
    """A value that at least `order.rows` distinct values of matching rows do not come after; None if none is known."""
    sure = slices.whole & facts.nan_free
    ends: Any = pa.concat_arrays(
        [
            bounds.take(positions(np.flatnonzero(sure & is_value)))
            for bounds, is_value in ((facts.low, facts.low_is_value), (facts.high, facts.high_is_value))
        ]
    )
    known: Any = ends.drop_null().unique()
    if len(known) < order.rows:
        return None
    return _nth(known, order.rows - 1, order.descending)


def threshold(slices: KeptSlices, order: Order) -> Any:
    """A value that `order.rows` matching rows surely have or come before, as an Arrow scalar of the column's type.

    None if nothing is known, or if it would not skip any slice.

    Raises:
        SchemaError: there is no such column.
    """
    about = slices.field(order.column)
    type_: Any = about.type
    decimal = pa.types.is_decimal128(type_)
    is_told = decimal or slices.is_shown(about)
    if len(slices.at) < 2 or not _is_ordered_alike(slices, about) or not is_told:
        return None
    reached = _reached(slices, about, order)
    bounds = slices.bounds_of(about)
    if reached is None or bounds is None or _up_to(slices, reached, about, order)[0].all():
        return None
    low: Any = bounds.low
    if decimal:
        return pa.array([Decimal(f"{reached}E{-type_.scale}")], type_)[0]
    try:
        return from_storage(pa.array([reached], low.type), about.type)[0]
    except pa.ArrowInvalid:  # a bound that was truncated inside a character
        return None


def first_by(slices: KeptSlices, order: Order) -> tuple[Mask, str] | None:
    """The slices that hold the first rows in one order, and why; None if nothing is known of them.

    Raises:
        SchemaError: there is no such column.
    """
    about = slices.field(order.column)
    if len(slices.at) < 2 or not _is_ordered_alike(slices, about):
        return None
    if order.within is not None:
        return _first_of_each(slices, about, order)
    threshold = _reached(slices, about, order)
    if threshold is None:
        return None
    keep, leaf = _up_to(slices, threshold, about, order)
    return keep, f"threshold of the first {counted(order.rows, 'row')}: {leaf}"


def _is_ordered_alike(slices: KeptSlices, about: Field) -> bool:
    """Tell whether the engine orders a column like its bounds."""
    has_nan_elsewhere = (
        pa.types.is_floating(about.type) and slices.semantics.nan_order is not NanOrder.GREATEST
    )
    return not has_nan_elsewhere and not slices.is_read_otherwise(about)


def _reached(slices: KeptSlices, about: Field, order: Order) -> StorageValue | None:
    """A value that at least `order.rows` matching rows do not come after; None if none is known."""
    bounds = slices.bounds_of(about)
    passed = None if order.with_value is None else slices.bounds_of(slices.field(order.with_value))
    if bounds is None or (order.with_value is not None and passed is None):
        return None
    least = np.where(slices.whole, slices.counts, slices.numbers.least)
    values = np.where(bounds.null_counts >= 0, least - bounds.null_counts, 0)
    if passed is not None:  # an upper bound on the rows passed over, whatever their value in the column
        values = np.where(passed.null_counts >= 0, values - passed.null_counts, 0)
    ends: Any = bounds.low if order.descending else bounds.high
    sure = (values > 0) & bounds.nan_free & as_numpy(ends.is_valid())
    at = np.flatnonzero(sure)
    known: Any = ends.take(positions(at))
    direction = "descending" if order.descending else "ascending"
    ranked = as_numpy(compute.sort_indices(known, sort_keys=[("", direction)])).astype(np.intp)
    reached = np.flatnonzero(np.cumsum(values[at][ranked]) >= order.rows)
    if not len(reached):
        return None
    return _plain_storage(known, int(ranked[reached[0]]))


def _up_to(slices: KeptSlices, threshold: StorageValue, about: Field, order: Order) -> tuple[Mask, str]:
    """The slices that can hold matching rows not after a value, and the condition for it."""
    leaf = comparison(about, Operator.GE if order.descending else Operator.LE, threshold)
    keep = slices.possible(leaf)
    if order.nulls_first:
        keep = keep | slices.possible(IsNullLeaf(about))
    return keep, describe(leaf)


def _first_of_each(slices: KeptSlices, about: Field, order: Order) -> tuple[Mask, str] | None:
    """Like `first_by`, for each value of the columns of `order.within`; None also if these values are not known.

    A slice is dropped if each of its values has enough rows in other slices, all of them before any row of this one.
    """
    facts = slices.facts_of(about)
    passed = None if order.with_value is None else slices.facts_of(slices.field(order.with_value))
    if facts is None or (order.with_value is not None and passed is None):
        return None
    assert order.within is not None
    within = (order.within,) if isinstance(order.within, str) else tuple(dict.fromkeys(order.within))
    holdings = _holdings_of(slices, [slices.field(name) for name in within])
    if holdings is None:
        return None
    at, codes, sizes, known = holdings
    nulls, least = facts.null_counts, slices.numbers.least
    sure = (slices.counts >= 0) & (nulls >= 0) & facts.nan_free
    off = slices.counts - least + nulls
    if passed is not None:
        sure, off = sure & (passed.null_counts >= 0), off + passed.null_counts
    near: Any = facts.low if order.descending else facts.high
    far: Any = facts.high if order.descending else facts.low
    far_is_value = facts.high_is_value if order.descending else facts.low_is_value
    ranks = _ranks(pa.concat_arrays([near, far])) * (1 if order.descending else -1)
    nearest, farthest = ranks[: len(slices.at)], ranks[len(slices.at) :]
    rows = np.where((sure & as_numpy(near.is_valid()))[at], np.maximum(sizes - off[at], 0), 0)
    thresholds = _thresholds(codes, nearest[at], rows, order.rows)
    gone = known & facts.nan_free & far_is_value & as_numpy(far.is_valid())
    if order.nulls_first:
        gone &= nulls == 0
    gone[at[farthest[at] >= thresholds[codes]]] = False
    told = (
        f"threshold of the first {counted(order.rows, 'row')} by {order.column} for each {', '.join(within)}"
    )
    return ~gone, told


def _holdings_of(
    slices: KeptSlices, abouts: Sequence[Field]
) -> tuple[Ordinals, Integers, Integers, Mask] | None:
    """Like `_holdings`, for combinations of values of columns, of which only one may have several values in a slice."""
    if len(abouts) == 1:
        return _holdings(slices, abouts[0])
    holdings = [_holdings(slices, about) for about in abouts]
    if any(each is None for each in holdings):
        return None
    each_one = [each for each in holdings if each is not None]
    several = np.zeros(len(slices.at), np.intp)
    at_which = np.zeros(len(slices.at), np.intp)
    known = np.ones(len(slices.at), np.bool_)
    codes_of = np.zeros((len(each_one), len(slices.at)), np.int64)
    for number, (at, codes, _, all_known) in enumerate(each_one):
        is_several = np.bincount(at, minlength=len(slices.at)) > 1
        several += is_several
        at_which[is_several] = number
        known &= all_known
        codes_of[number, at] = codes
    known &= several <= 1
    places: list[Ordinals] = []
    combined: list[Any] = []
    sizes: list[Integers] = []
    for number, (at, codes, rows, _) in enumerate(each_one):
        chosen = known[at] & (at_which[at] == number)
        places.append(at[chosen])
        sizes.append(rows[chosen])
        parts = codes_of[:, at[chosen]]
        parts[number] = codes[chosen]
        combined.append(parts)
    _, together = np.unique(np.concatenate(combined, axis=1), axis=1, return_inverse=True)
    return np.concatenate(places), together.reshape(-1).astype(np.int64), np.concatenate(sizes), known


def _holdings(slices: KeptSlices, about: Field) -> tuple[Ordinals, Integers, Integers, Mask] | None:
    """Which values of a column slices hold, in how many rows: slices, values as codes and row counts, and the slices
    whose values are all known.
    """
    facts = slices.facts_of(about)
    if facts is None or not slices.is_shown(about) or pa.types.is_floating(about.type):
        return None  # there are two zeros and many NaNs
    single, nothing = slices.single(facts)
    known = single & (slices.counts >= 0)
    alone = np.flatnonzero(known)
    low: Any = facts.low
    values = [null_unless(truth_array(~nothing[alone]), low.take(positions(alone)))]
    at, sizes = [alone], [slices.counts[alone]]
    listed = None if known.all() else slices.listed_values(about, ~known)
    if listed is not None:
        at.append(listed.at)
        sizes.append(listed.sizes)
        values.append(listed.values)
    together, rows = np.concatenate(at), np.concatenate(sizes)
    total = np.bincount(together, rows, len(slices.at)).astype(np.int64)
    encoded: Any = pa.concat_arrays([value.cast(values[0].type) for value in values])
    indices = encoded.dictionary_encode(null_encoding="encode").indices
    return together, as_numpy(indices).astype(np.int64), rows, (total == slices.counts) & (total > 0)


def _thresholds(codes: Integers, ranks: Integers, rows: Integers, wanted: int) -> Integers:
    """For each code, the greatest rank that `wanted` rows surely reach; below all ranks if none is known."""
    thresholds = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    order = np.lexsort((-ranks, codes))
    codes, ranks, rows = codes[order], ranks[order], rows[order]
    sums = np.cumsum(rows)
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    before = np.repeat((sums - rows)[first], np.diff(first, append=len(codes)))
    reached = np.flatnonzero(sums - before >= wanted)
    codes, firsts = np.unique(codes[reached], return_index=True)
    thresholds[codes] = ranks[reached[firsts]]
    return thresholds


def _ranks(values: Any) -> Integers:
    """Ranks in the order of values, equal for equal values."""
    ranked: Any = compute
    return as_numpy(ranked.rank(values, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)


def _nth(values: Any, number: int, descending: bool) -> StorageValue:
    direction = "descending" if descending else "ascending"
    order: Any = compute.sort_indices(values, sort_keys=[("", direction)])
    return _plain_storage(values, int(order[number].as_py()))


def _plain_storage(values: Any, place: int) -> StorageValue:
    value: Any = values[place].as_py()
    return int(value) if pa.types.is_decimal(values.type) else value
