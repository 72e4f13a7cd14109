"""Timestamps that Trino rounds when it reads them (trap S18): random predicates over stored moments.

The oracle reads each stored value as Trino 483 does (measured): in 64 bits, rounded half up, where what is too large
wraps around to the smallest. Plans come from the bytes that the plugin would send.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner
from pruner.expr.exact.clock import nanoseconds
from pruner.expr.semantics import Semantics
from pruner.expr.types import Unit
from pruner.planning.pinned import PinnedSnapshot
from pruner_trino import decode_request
from tests.support.running import profiles
from tests.support.trino.predicates import COMPARISONS, content

STORED: tuple[Unit, ...] = ("ms", "us", "ns")
DIGITS: dict[Unit, int] = {"ms": 3, "us": 6, "ns": 9}
INDEXES = ("column_stats", "bitmap")
SPAN = 2**63
FILES = 60


@dataclass(frozen=True)
class Lake:
    """A table of one column `x` stored in one unit, with one index: the values of each file, NULL being None."""

    pinned: PinnedSnapshot
    index: str
    unit: Unit
    files: dict[str, list[int | None]]


def _values(rng: random.Random) -> list[int | None]:
    """Values near each other, often beside a rounding boundary, around 1970 and at the limits of what is stored."""
    center = rng.choice([0, 0, 0, -SPAN, SPAN - 1, rng.randrange(-(10**12), 10**12)])
    step = rng.choice([1, 500, 1_000, 500_000, 1_000_000])
    values = [center + step * rng.randint(-3, 3) + rng.randint(-1, 1) for _ in range(rng.randint(1, 4))]
    inside = [min(max(value, -SPAN), SPAN - 1) for value in values]
    return [*inside, *([None] if rng.random() < 0.2 else [])]


@pytest.fixture(scope="module", params=[(unit, index) for index in INDEXES for unit in STORED], ids="-".join)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    unit: Unit
    unit, index = request.param
    root = tmp_path_factory.mktemp(unit)
    rng = random.Random(unit)
    files: dict[str, list[int | None]] = {}
    for number in range(FILES):
        values = _values(rng)
        path = root / f"part-{number:02}.parquet"
        pq.write_table(pa.table({"x": pa.array(values, pa.int64()).cast(pa.timestamp(unit))}), path)
        files[str(path)] = values
    table = pruner.open_table(root)
    table.create_index("moments", on="x", using=index)
    return Lake(table.snapshot(), index, unit, files)


def _as_read(value: int, stored: Unit, read: Unit) -> int:
    """What Trino shows of a stored value, in nanoseconds."""
    if stored == "ms":
        return _wrapped(value * 1000) * 1000
    factor = nanoseconds(read) // nanoseconds(stored)
    if factor <= 1:
        return value * nanoseconds(stored)
    moved = _wrapped(value + factor // 2 if value >= 0 else value + 1 - factor // 2)
    # Java divides toward zero.
    return (moved // factor if moved >= 0 else -(-moved // factor)) * nanoseconds(read)


def _wrapped(value: int) -> int:
    return (value + SPAN) % (2 * SPAN) - SPAN


@dataclass(frozen=True)
class Question:
    """A predicate on the wire, its truth for a value as read, and its literals; in nanoseconds, NULL being None."""

    text: str
    truth: Callable[[int | None], bool]
    literals: list[int]


@st.composite
def questions(draw: st.DrawFn, lake: Lake, read: Unit) -> Question:
    """A comparison, list, range or IS NOT DISTINCT FROM with literals near what is read, or the NOT of one."""
    near = [value for values in lake.files.values() for value in values if value is not None]
    unit = nanoseconds(read)

    def moment() -> int:
        shown = _as_read(draw(st.sampled_from(near)), lake.unit, read)
        last = SPAN * 1000 // unit - 10
        return min(max(shown // unit + draw(st.integers(-2, 2)), -last), last) * unit

    literals = sorted({moment() for _ in range(draw(st.integers(1, 3)))})
    # A range is wider than the widening of its ends.
    low, high = literals[0], literals[-1] + 8 * unit
    texts = [_constant(literal, read) for literal in literals]
    name = draw(st.sampled_from([*COMPARISONS, "$in", "$identical", "range"]))
    holds: Callable[[int], bool]
    match name:
        case "$in":
            text, holds = f"$in(x, $array({', '.join(texts)})->array)", lambda value: value in literals
        case "range":
            text = f"$and($greater_than(x, {texts[0]}), $less_than_or_equal(x, {_constant(high, read)}))"
            literals = [low, high]
            holds = lambda value: low < value <= high  # noqa: E731
        case _:
            compared = COMPARISONS.get(name, COMPARISONS["$equal"])
            text, holds = f"{name}(x, {texts[0]})", lambda value: compared(value, low)
    denied, null = draw(st.booleans()), name == "$identical"

    def truth(value: int | None) -> bool:
        return null and denied if value is None else holds(value) is not denied

    return Question(f"$not({text})" if denied else text, truth, literals)


def _constant(moment: int, read: Unit) -> str:
    micros, nanos = divmod(moment, 1000)
    return f'timestamp({DIGITS[read]}):{{"micros": {micros}, "picos": {nanos * 1000}}}'


def _provable(values: list[int | None], question: Question, lake: Lake, read: Unit) -> bool:
    """Whether no value that the index cannot tell from the file's values, and no NULL of the file, would be wanted.

    Statistics know the two bounds, bitmaps each value; both are widened by the rounding on both sides.
    """
    if None in values and question.truth(None):
        return False
    stored = [value for value in values if value is not None]
    spans = [(value, value) for value in stored] if lake.index == "bitmap" else [(min(stored), max(stored))]
    return not any(_wanted_between(low, high, question, lake, read) for low, high in spans)


def _wanted_between(low: int, high: int, question: Question, lake: Lake, read: Unit) -> bool:
    """Whether a value between two stored ones, widened by the rounding both ways, might be wanted."""
    slack = 3 * nanoseconds(read)
    low, high = low * nanoseconds(lake.unit), high * nanoseconds(lake.unit)
    if min(abs(low), abs(high)) > SPAN - 10**7:
        return True
    beside = [literal + off for literal in question.literals for off in (-slack, 0, slack)]
    probes = [low - slack, high + slack, *(at for at in beside if low - slack <= at <= high + slack)]
    return any(map(question.truth, probes))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("read", DIGITS)
@settings(max_examples=profiles.examples(60))
@given(data=st.data())
def test_files_with_a_row_that_is_wanted_as_read_stay_and_others_go(
    lake: Lake, read: Unit, data: st.DataObject
) -> None:
    """Sound for what rounding and overflow make of values, and no less selective than the rounding requires."""
    question = data.draw(questions(lake, read))
    rules = replace(Semantics.of("trino"), timestamp_unit=read)
    request = content(question.text, {"x": f"timestamp({DIGITS[read]})"})
    kept = set(lake.pinned.plan(decode_request(request, rules), semantics=rules).files)
    for file, values in lake.files.items():
        shown = [None if value is None else _as_read(value, lake.unit, read) for value in values]
        if any(map(question.truth, shown)):
            assert file in kept, f"LOST {values} ({shown}) for {question.text}"
        elif _provable(values, question, lake, read):
            assert file not in kept, f"kept {values} for {question.text}"


FIRST = -62_135_596_800_000_000_000
LAST = 253_402_300_799_000_000_000
"""The years 1 to 9999, for which rules of functions hold, in nanoseconds."""
PER_FUNCTION = 12


def _clock(moment: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=moment // 1000)


def _written(moment: int) -> str:
    """`date_format` rounds to milliseconds."""
    return f"{_clock((moment + 500_000) // 1_000_000 * 1_000_000):%Y-%m-%d %H:%M:%S}"


FUNCTIONS: dict[str, Callable[[int], int | str]] = {
    "year(x)->bigint": lambda moment: _clock(moment).year,
    "quarter(x)->bigint": lambda moment: (_clock(moment).month + 2) // 3,
    "month(x)->bigint": lambda moment: _clock(moment).month,
    "day(x)->bigint": lambda moment: _clock(moment).day,
    "hour(x)->bigint": lambda moment: _clock(moment).hour,
    "second(x)->bigint": lambda moment: _clock(moment).second,
    "day_of_week(x)->bigint": lambda moment: _clock(moment).isoweekday(),
    'date_format(x, varchar:"%Y-%m-%d %H:%i:%s")->varchar': _written,
}
"""Functions on the wire, and what they yield for a moment as read."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("read", DIGITS)
def test_functions_of_moments_are_of_what_is_read(lake: Lake, read: Unit) -> None:
    """Files with a wanted row stay, and some of the others are dropped where the column's unit has rules."""
    rules = replace(Semantics.of("trino"), timestamp_unit=read)
    rng = random.Random(f"{profiles.seed()} {lake.unit} {read}")
    shown = {
        file: [_as_read(value, lake.unit, read) for value in values if value is not None]
        for file, values in lake.files.items()
    }
    known = [moment for each in shown.values() for moment in each if FIRST <= moment <= LAST]
    for call, reference in FUNCTIONS.items():
        left = 0
        for _ in range(PER_FUNCTION):
            result, name = reference(rng.choice(known)), rng.choice(list(COMPARISONS))
            constant = f"bigint:{result}" if isinstance(result, int) else f'varchar:"{result}"'
            request = content(f"{name}({call}, {constant})", {"x": f"timestamp({DIGITS[read]})"})
            kept = set(lake.pinned.plan(decode_request(request, rules), semantics=rules).files)
            for file, moments in shown.items():
                found = [reference(moment) for moment in moments if FIRST <= moment <= LAST]
                if any(COMPARISONS[name](each, result) for each in found):
                    assert file in kept, f"LOST {moments} for {name} {call} {result}"
            left += FILES - len(kept)
        recurring = call.startswith(("hour", "second", "day_of_week"))
        rounded = nanoseconds(read) > nanoseconds(lake.unit)
        # Bitmaps prove nothing about values that recur at equal distances.
        if not recurring or lake.index == "column_stats":
            assert (left > 0) == (lake.unit != "ns" and not (recurring and rounded)), (call, left)
