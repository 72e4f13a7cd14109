"""The effect of NaN on combined comparisons: the same rows match, and files are kept as their bounds alone require."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner import Semantics
from pruner.expr.bound.fields import nan_makes_true, with_nans_decided
from pruner.expr.bound.predicates import BoundAnd, BoundNot, BoundOr, CompareLeaf, InLeaf, Point
from pruner.expr.engines import NanOrder
from pruner.expr.nodes import Operator
from pruner.schema import Field

X, Y, K = Field(("x",), pa.float64()), Field(("y",), pa.float32()), Field(("k",), pa.int64())
SPARK, DUCKDB, TRINO = (Semantics.of(engine) for engine in ("spark", "duckdb", "trino"))
NAN = float("nan")


def leaf(operator: Operator, value: float, field: Field = X) -> CompareLeaf:
    return CompareLeaf(field, operator, Point(value, value, nan=math.isnan(value)))


ABOVE, BELOW = leaf(Operator.GE, 1.0), leaf(Operator.LE, 5.0)


def test_an_upper_end_decides_for_all_of_the_conjunction() -> None:
    found: Any = with_nans_decided(BoundAnd((ABOVE, BELOW, leaf(Operator.NE, 3.0))), SPARK)
    assert [nan_makes_true(each, SPARK) for each in found.operands] == [False, False, False]
    inner: Any = with_nans_decided(
        BoundNot(BoundOr((BoundAnd((ABOVE, InLeaf(X, (Point(2.0, 2.0),)))), BELOW))), SPARK
    )
    assert [nan_makes_true(each, SPARK) for each in inner.operand.operands[0].operands] == [False, False]


def test_a_lower_end_decides_for_all_of_the_disjunction() -> None:
    found: Any = with_nans_decided(BoundOr((leaf(Operator.LT, 1.0), leaf(Operator.GT, 5.0))), DUCKDB)
    assert [nan_makes_true(each, DUCKDB) for each in found.operands] == [True, True]


def test_where_nan_has_no_order_only_what_differs_is_true_of_it() -> None:
    assert TRINO.nan_order is NanOrder.UNORDERED
    found: Any = with_nans_decided(BoundAnd((leaf(Operator.NE, 1.0), ABOVE)), TRINO)
    assert not nan_makes_true(found.operands[0], TRINO)
    found = with_nans_decided(BoundOr((leaf(Operator.NE, 1.0), ABOVE)), TRINO)
    assert nan_makes_true(found.operands[1], TRINO)


def test_the_order_is_that_of_the_engine_unless_given() -> None:
    for engine in ("spark", "duckdb", "trino", "pyarrow", "polars"):
        assert Semantics(engine, zone="UTC").nan_order is Semantics.of(engine).nan_order
    assert Semantics("trino", zone="UTC").nan_order is NanOrder.UNORDERED
    assert Semantics("trino", nan_order=NanOrder.GREATEST).nan_order is NanOrder.GREATEST


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        ("NOT (x > 2)", [0, 1, 3]),
        ("NOT (x >= 6.5)", [0, 1, 2, 3]),
        ("x IS NOT DISTINCT FROM CAST('NaN' AS DOUBLE)", [0, 1, 2, 3]),
        ("NOT (x IS DISTINCT FROM CAST('NaN' AS REAL))", [0, 1, 2, 3]),
        ("x IS NOT DISTINCT FROM 6.0", [2]),
        ("x = CAST('NaN' AS DOUBLE)", []),
    ],
)
def test_s2_trino_has_no_order_of_nan_which_is_identical_to_itself(
    tmp_path: Path, predicate: str, kept: list[int]
) -> None:
    """`DoubleType.identical` of trino-spi 483: two NaN are not distinct."""
    for number, values in enumerate(([1.0, 2.0], [NAN, 7.0], [5.0, 6.0], [NAN, NAN])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{number}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("s", on="x")
    for semantics in (TRINO, Semantics("trino", zone="UTC")):
        plan = table.plan(predicate, semantics=semantics)
        assert [int(Path(each).stem) for each in plan.files] == kept


@pytest.mark.parametrize(
    "left",
    [
        BoundAnd((ABOVE, leaf(Operator.LE, 5.0, Y))),
        BoundAnd((ABOVE, leaf(Operator.LE, NAN))),
        BoundAnd((ABOVE, InLeaf(X, (Point(2.0, 2.0), Point(0.0, 0.0, nan=True))))),
        BoundAnd((ABOVE, InLeaf(X, (Point(2.0, 2.0),), has_null=True))),
        BoundAnd((leaf(Operator.GE, 1, K), leaf(Operator.LE, 5, K))),
        BoundOr((BELOW, leaf(Operator.GE, 5.0, Y))),
    ],
    ids=["another field", "up to NaN", "NaN listed", "NULL listed", "integers", "another field in OR"],
)
def test_what_nothing_decides_stays(left: Any) -> None:
    assert with_nans_decided(left, SPARK) == left


FILES = 30


def _write(root: Path, rng: random.Random) -> list[list[float | None]]:
    values: list[list[float | None]] = []
    for number in range(FILES):
        low = rng.randrange(-20, 20)
        some: list[float | None] = [low + rng.randrange(8) / 2 for _ in range(5)]
        if number % 3 == 0:
            some[rng.randrange(5)] = NAN
        if number % 4 == 0:
            some[rng.randrange(5)] = None
        values.append(some)
        pq.write_table(pa.table({"x": pa.array(some, pa.float64())}), root / f"f{number:02}.parquet")
    return values


def _holds(value: float | None, comparison: tuple[str, float]) -> bool | None:
    """The result of a comparison if NaN is the greatest number."""
    operator, other = comparison
    if value is None:
        return None
    left, right = ((math.isnan(each), 0.0 if math.isnan(each) else each) for each in (value, other))
    return {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "=": left == right,
        "<>": left != right,
    }[operator]


def _truth(value: float | None, tree: Any) -> bool | None:
    kind, *parts = tree
    if kind == "leaf":
        return _holds(value, parts[0])
    found = [_truth(value, part) for part in parts]
    if kind == "NOT":
        return None if found[0] is None else not found[0]
    decisive = kind == "OR"
    return decisive if decisive in found else None if None in found else not decisive


def _text(tree: Any) -> str:
    kind, *parts = tree
    if kind == "leaf":
        return f"x {parts[0][0]} {json.dumps(parts[0][1])}"
    if kind == "NOT":
        return f"NOT ({_text(parts[0])})"
    return "(" + f" {kind} ".join(map(_text, parts)) + ")"


def _tree(rng: random.Random, depth: int = 3) -> Any:
    if depth and rng.random() < 0.7:
        kind = rng.choice(("AND", "OR", "AND", "OR", "NOT"))
        return (kind, *(_tree(rng, depth - 1) for _ in range(1 if kind == "NOT" else rng.choice((2, 3)))))
    return ("leaf", (rng.choice(("<", "<=", ">", ">=", "=", "<>")), rng.randrange(-44, 60) / 2))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_no_file_with_a_match_is_left_out(tmp_path: Path, using: str, dialect: str) -> None:
    rng = random.Random(f"{using} {dialect}")
    values = _write(tmp_path, rng)
    table = pruner.open_table(str(tmp_path))
    table.create_index("i", on="x", using=using)
    for _ in range(150):
        tree = _tree(rng)
        kept = {Path(each).name for each in table.plan(_text(tree), dialect=dialect).files}
        holding = {
            f"f{number:02}.parquet"
            for number, each in enumerate(values)
            if any(_truth(value, tree) is True for value in each)
        }
        assert holding <= kept, _text(tree)


def test_a_range_keeps_the_files_whose_bounds_meet_it_though_others_may_hold_nan(tmp_path: Path) -> None:
    """The statistics in Delta's log say nothing about NaN."""
    from deltalake import write_deltalake

    root = tmp_path / "t"
    for low in (0.0, 10.0, 20.0):
        rows = pa.table({"x": [low, low + 5, NAN if low == 10.0 else low], "y": [low, low, low]})
        write_deltalake(str(root), rows, mode="append")
    table = pruner.open_table(str(root))
    for dialect in ("spark", "duckdb"):

        def kept(predicate: str, dialect: str = dialect) -> int:
            return len(table.plan(predicate, dialect=dialect).files)

        assert kept("x BETWEEN 10 AND 12") == 1
        assert kept("x >= 21 AND x <= 24 AND x <> 22") == 1
        assert kept("NOT (x < 21 OR x > 24)") == 1
        assert kept("(x > 11 AND x < 14) OR x = 3") == 2
        assert kept("x > 17") == 3  # any of them may hold NaN
