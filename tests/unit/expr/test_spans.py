"""Many ranges of one field are looked up at once, and exclude as much as when each is looked up by itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.expr.bound import value_lists
from pruner.expr.bound.predicates import BoundAnd, BoundNot, BoundOr, CompareLeaf, InLeaf, Point
from pruner.expr.bound.value_lists import FEWEST
from pruner.expr.bound.value_lists import with_spans as with_spans_unless
from pruner.expr.nodes import Operator
from pruner.schema import Field

K, OTHER = Field(("k",), pa.int64()), Field(("m",), pa.int64())


def none_looked_up(_: Field) -> int:
    return 0


def with_spans(predicate: Any) -> Any:
    return with_spans_unless(predicate, none_looked_up)


def between(field: Field, low: Any, high: Any) -> BoundAnd:
    return BoundAnd(
        (CompareLeaf(field, Operator.GE, Point(low, low)), CompareLeaf(field, Operator.LE, Point(high, high)))
    )


def ranges(field: Field, count: int) -> tuple[BoundAnd, ...]:
    return tuple(between(field, 10 * each, 10 * each + 3) for each in range(count))


def test_ranges_become_one_list() -> None:
    found = with_spans(BoundOr((InLeaf(K, (Point(-5, -5),)), *ranges(K, FEWEST))))
    assert isinstance(found, InLeaf)
    assert found.points[:2] == (Point(-5, -5), Point(0, 3, exact=False))
    assert len(found.points) == FEWEST + 1
    assert with_spans(
        BoundAnd((CompareLeaf(OTHER, Operator.EQ, Point(1, 1)), BoundOr(ranges(K, 9))))
    ).operands[1] == InLeaf(K, (*found.points[1:], Point(80, 83, exact=False)))


@pytest.mark.parametrize(
    "left",
    [
        BoundOr(ranges(K, FEWEST - 1)),
        BoundOr((*ranges(K, 9), between(OTHER, 1, 2))),
        BoundOr((*ranges(K, 9), CompareLeaf(K, Operator.GE, Point(7, 7)))),
        BoundOr((*ranges(K, 9), between(K, 9, 5))),
        BoundOr((*ranges(K, 9), InLeaf(K, (Point(1, 1),), has_null=True))),
        BoundNot(BoundOr(ranges(K, 9))),
        BoundOr(ranges(Field(("t",), pa.timestamp("us")), 9)),
        BoundOr(ranges(Field(("x",), pa.float64()), 9)),
        BoundOr(ranges(Field(("s",), pa.string()), 9)),
    ],
    ids=["few", "two fields", "an open end", "empty", "NULL", "NOT", "rounded", "floats", "texts"],
)
def test_what_stays_as_it_is(left: Any) -> None:
    assert with_spans(left) is left


def test_ranges_stay_where_their_values_are_looked_up() -> None:
    many = BoundOr(ranges(K, 9))
    assert with_spans_unless(many, lambda field: 5 if field == K else 0) is many


FILES, ROWS = 40, 6


def column(numbers: list[Any], type_: Any) -> Any:
    plain: Any = pa.array(numbers, pa.int64())
    return plain.cast(type_)


def _values(rng: random.Random, type_: Any) -> list[list[Any]]:
    low = [rng.randrange(-2000, 2000) for _ in range(FILES)]
    numbers = [[each + rng.randrange(rng.choice((2, 40))) for _ in range(ROWS)] for each in low]
    return [column(each, type_).to_pylist() for each in numbers]


@pytest.mark.sampled(64)
@pytest.mark.parametrize("using", ["column_stats", "bitmap", "bloom_filter"])
@pytest.mark.parametrize("type_", [pa.int64(), pa.int16(), pa.decimal128(20, 0)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_files_are_those_of_ranges_asked_one_by_one(
    tmp_path: Path, using: str, type_: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    values = _values(rng, type_)
    for number, each in enumerate(values):
        rows = [*each, None] if number % 5 == 0 else each
        pq.write_table(pa.table({"k": pa.array(rows, type_)}), tmp_path / f"f{number:02}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="k", using=using)
    for wide in (0, 3, 30):
        ends = [
            (low, low + rng.randrange(wide + 1)) for low in (rng.randrange(-2100, 2100) for _ in range(20))
        ]
        predicate = " OR ".join(f"k BETWEEN {low} AND {high}" for low, high in ends)
        holding = {
            f"f{number:02}.parquet"
            for number, each in enumerate(values)
            if any(low <= value <= high for value in each for low, high in ends)
        }
        overlapping = sum(
            any(low <= max(each) and high >= min(each) for low, high in ends) for each in values
        )
        for form in (predicate, f"({predicate}) AND k > -5000", f"NOT (NOT ({predicate}))"):
            plan = table.plan(form)
            kept = {Path(each).name for each in plan.files}
            assert holding <= kept
            with monkeypatch.context() as single:
                single.setattr(value_lists, "FEWEST", 1 << 30)
                assert kept == {Path(each).name for each in table.plan(form).files}
            if using == "column_stats":
                assert len(kept) == overlapping
        negated = {Path(each).name for each in table.plan(f"NOT ({predicate})").files}
        assert negated >= {
            f"f{number:02}.parquet"
            for number, each in enumerate(values)
            if any(not any(low <= value <= high for low, high in ends) for value in each)
        }
