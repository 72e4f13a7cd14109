"""Bloom filters: their bits, how they are cut into stripes, what they prove, and what they leave open."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pruner
from pruner.errors import FormatError, IndexDefinitionError
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.base import Evidence
from pruner.indexes.bloom_filter import BLOOM_FILTER, record
from pruner.indexes.bloom_filter.record import RECORD_SCHEMA, is_stripe, striped
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.sought import values_in
from pruner.indexes.optional import ArrangingIndexType, RecordPart, RefusingIndexType, SelectiveIndexType
from pruner.indexes.registry import index_type
from pruner.schema import Field
from pruner.tables.footers.filters import block_of, blocks_for, false_positives, filter_of, masks_of
from pruner.verdict import Outcome
from tests.support.parquet.tables import write_file

X = Field(("x",), pa.int64())
DUCKDB = Semantics(engine="duckdb", zone="UTC")
TRINO = Semantics.of("trino")


def _hashes(count: int, seed: int = 1) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.unique(np.random.default_rng(seed).integers(0, 2**64 - 1, count, np.uint64))


def _records(slices: list[list[Any]], type_: pa.DataType = X.type, fpp: float = 0.01) -> pa.Table:
    """Records of slices with these values, as `record` gives them."""
    rows: list[dict[str, Any]] = []
    for number, values in enumerate(slices):
        hashes = np.unique(hash_values(pa.array(values, type_)))
        blocks = blocks_for(len(hashes), fpp)
        bits = filter_of(hashes, blocks)
        row = {"usable": True, "distinct": len(hashes), "blocks": blocks, "stripes": 0, "filter": bits}
        about = {"type": str(type_), "absent": False, "partly_absent": False, "in_range": True}
        rows.append({**row, **about, "__slice": number})
    schema: Any = RECORD_SCHEMA
    columns = [pa.array([row.get(each.name) for row in rows], each.type) for each in schema]
    return pa.table(columns, schema=schema).append_column(
        "__slice", pa.array([row["__slice"] for row in rows], pa.int32())
    )


def _equals(value: Any, field: Field = X) -> CompareLeaf:
    return CompareLeaf(field, Operator.EQ, Point(value, value))


def _kept(
    evidence: Evidence, leaf: Any, outcome: Outcome = Outcome.TRUE, semantics: Semantics = DUCKDB
) -> Any:
    answer = evidence.possible(leaf, outcome, semantics, None)
    return None if answer is None else np.flatnonzero(answer).tolist()


def test_a_filter_is_one_of_parquet() -> None:
    """The bits of one value, computed by hand from parquet-format's BloomFilter.md."""
    one = np.array([0x8000000012345678], np.uint64)
    words = np.frombuffer(filter_of(one, 10), "<u4").reshape(10, 8)
    assert np.flatnonzero(words.any(axis=1)).tolist() == [5]
    salts = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]
    assert words[5].tolist() == [1 << ((0x12345678 * salt & 0xFFFFFFFF) >> 27) for salt in salts]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "fpp", [0.1, *(pytest.param(fpp, marks=pytest.mark.load) for fpp in (0.01, 0.004)), 0.001]
)
def test_the_rate_is_the_one_that_was_asked_for(fpp: float) -> None:
    held, others = _hashes(20_000), _hashes(400_000, seed=2)
    blocks = blocks_for(len(held), fpp)
    words = np.frombuffer(filter_of(held, blocks), "<u4").reshape(-1, 8)
    size = np.full(1, blocks, np.uint64)
    seems = (words[block_of(others, size)] & masks_of(others) != 0).all(axis=1).mean()
    assert (words[block_of(held, size)] & masks_of(held) != 0).all()
    assert fpp / 1.5 <= seems <= fpp * 1.5


def test_sizes() -> None:
    assert blocks_for(0, 0.01) == 0
    assert blocks_for(1, 0.5) == 1
    assert 10.4 < blocks_for(1_000_000, 0.01) * 256 / 1_000_000 < 10.6
    assert false_positives(20) < false_positives(30)


def test_options_types_and_fields_that_are_refused() -> None:
    for options in ({"fpp": "0"}, {"fpp": "0.6"}, {"fpp": "nan"}, {"fpp": "much"}, {"fpp": "-0.1"}):
        with pytest.raises(IndexDefinitionError, match="give a share from 0.00001 to 0.5"):
            BLOOM_FILTER.check(X, options)
    with pytest.raises(IndexDefinitionError, match="no option 'size': it has fpp alone"):
        BLOOM_FILTER.check(X, {"size": "1"})
    with pytest.raises(IndexDefinitionError, match="'x' has type list<"):
        BLOOM_FILTER.check(Field(("x",), pa.list_(pa.int64())), {})
    with pytest.raises(IndexDefinitionError, match="partition column"):
        BLOOM_FILTER.check(Field(("x",), pa.int64(), partition=True, in_file=False), {})
    with pytest.raises(IndexDefinitionError, match="files hold both"):
        BLOOM_FILTER.check(Field(("x",), pa.int64(), conflict="files hold both"), {})
    BLOOM_FILTER.check(Field(("x",), pa.binary()), {"fpp": "1e-3"})


def test_it_is_registered_with_what_it_offers() -> None:
    assert index_type("BLOOM_FILTER") is BLOOM_FILTER
    for protocol in (ArrangingIndexType, SelectiveIndexType, RefusingIndexType):
        assert isinstance(BLOOM_FILTER, protocol)


def test_what_it_answers_and_what_not() -> None:
    evidence = BLOOM_FILTER.load(_records([[1, 2], [2, 3], [None], []]), 5, X)
    assert evidence.covered.tolist() == [True, True, True, True, False]
    assert _kept(evidence, _equals(2)) == [0, 1, 4]
    assert _kept(evidence, _equals(7)) == [4]
    listed = InLeaf(X, (Point(1, 1), Point(7, 7)), has_null=True)
    assert _kept(evidence, listed) == [0, 4]
    unlike = CompareLeaf(X, Operator.NE, Point(1, 1))
    assert _kept(evidence, unlike, Outcome.FALSE) == [0, 4]
    for leaf, outcome in (
        *((_equals(1), outcome) for outcome in (Outcome.FALSE, Outcome.NULL)),
        *((listed, outcome) for outcome in (Outcome.FALSE, Outcome.NULL)),
        (unlike, Outcome.TRUE),
        *((CompareLeaf(X, operator, Point(1, 1)), Outcome.TRUE) for operator in (Operator.LT, Operator.GE)),
        *((leaf, outcome) for leaf in (IsNullLeaf(X), NotNullLeaf(X, True)) for outcome in Outcome),
        (PrefixLeaf(X, b"a", True), Outcome.TRUE),
    ):
        assert _kept(evidence, leaf, outcome) is None, (leaf, outcome)
    some = evidence.possible(_equals(1), Outcome.TRUE, DUCKDB, np.array([1, 0, 4]))
    assert some is not None
    assert some.tolist() == [
        False,
        True,
        True,
    ]


def test_literals_that_no_value_equals_or_several_may() -> None:
    evidence = BLOOM_FILTER.load(_records([[1, 2], [12]]), 2, X)
    assert _kept(evidence, CompareLeaf(X, Operator.EQ, Point(2, 1))) == []
    assert _kept(evidence, CompareLeaf(X, Operator.EQ, Point(0, 3, exact=False))) == [0]
    assert _kept(evidence, CompareLeaf(X, Operator.EQ, Point(0, 100, exact=False))) is None
    assert _kept(evidence, CompareLeaf(X, Operator.EQ, Point(None, 3, exact=False))) is None
    assert _kept(evidence, CompareLeaf(X, Operator.EQ, Point(b"1", b"1"))) is None
    many = InLeaf(X, tuple(Point(value, value) for value in range(100, 2000)))
    assert _kept(evidence, many) is None


def test_values_of_a_literal() -> None:
    single = pa.float32()
    tenth = float(np.float32(0.1))
    assert values_in(Point(0.1, 0.100000005, exact=False), single) == [tenth]
    assert values_in(Point(0.2, 0.1), single) == []
    assert values_in(Point(-0.0, 0.0), pa.float64()) == [-0.0]
    assert values_in(Point(math.inf, math.inf), single) == [math.inf]
    assert values_in(Point(3e38, math.inf, exact=False), single) is None
    assert values_in(Point(1.0, math.nextafter(1.0, 2), exact=False), pa.float64()) == [
        1.0,
        math.nextafter(1.0, 2),
    ]
    assert values_in(Point(b"a", b"b", exact=False), pa.string()) is None


def test_s2_nan_is_found_where_it_equals_itself() -> None:
    """S2 (trino#21922)."""
    field = Field(("x",), pa.float64())
    evidence = BLOOM_FILTER.load(_records([[1.0, math.nan], [2.0]], field.type), 2, field)
    nan = CompareLeaf(field, Operator.EQ, Point(0.0, 0.0, nan=True))
    assert _kept(evidence, nan) == [0]
    assert _kept(evidence, nan, semantics=TRINO) == []
    assert _kept(evidence, InLeaf(field, (Point(2.0, 2.0), nan.point))) == [0, 1]
    assert _kept(evidence, InLeaf(field, (Point(2.0, 2.0), nan.point)), semantics=TRINO) == [1]


def test_l12_another_collation_is_not_answered() -> None:
    """L12 (delta#3068): values that are equal there have other bytes."""
    field = Field(("x",), pa.string())
    evidence = BLOOM_FILTER.load(_records([["a"]], field.type), 1, field)
    assert _kept(evidence, _equals(b"A", field)) == []
    assert (
        _kept(evidence, _equals(b"A", field), semantics=Semantics(engine="spark", collation="UTF8_LCASE"))
        is None
    )


@pytest.fixture
def short_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes as in large indexes, for small ones."""
    monkeypatch.setattr(record, "STRIPE_BYTES", 2048)


def _many_slices() -> list[list[int]]:
    """Slices of all sizes, some of them small compared with the others, some without a value."""
    rng = np.random.default_rng(5)
    sizes = [3_000, 5_000, 0, 20_000, 10, 4_000, 3_500, 1, 2_500]
    return [rng.integers(0, 2**40, size).tolist() for size in sizes]


@pytest.mark.slow
@pytest.mark.usefixtures("short_stripes")
def test_stripes_answer_as_whole_filters_do() -> None:
    slices = _many_slices()
    records = _records(slices)
    stored = striped(records)
    names = [name for name in stored.column_names if is_stripe(name)]
    assert len(names) > 1
    assert set(stored.column("stripes").to_pylist()) == {0, len(names)}
    resident = stored.select([name for name in stored.column_names if not is_stripe(name)])
    reads: list[list[str]] = []

    def read(wanted: list[str]) -> pa.Table:
        reads.append(wanted)
        return stored.select(wanted)

    evidence = BLOOM_FILTER.load_parts([RecordPart(resident, None, read)], len(slices), X)
    whole = BLOOM_FILTER.load(records, len(slices), X)
    probes = [value for values in slices for value in values[:40]] + list(range(200))
    for value in probes:
        kept = _kept(evidence, _equals(value))
        assert kept == _kept(whole, _equals(value))
        assert set(kept) >= {number for number, values in enumerate(slices) if value in values[:40]}
    assert max(map(len, reads)) == 2
    assert len(reads) == len(probes)


@pytest.mark.usefixtures("short_stripes")
def test_records_of_several_segments_become_one() -> None:
    """Compaction: whole filters, and filters in other numbers of stripes, are merged and cut again."""
    slices = _many_slices()
    records = _records(slices)
    first, second, third = striped(records.slice(0, 4)), striped(records.slice(4, 3)), records.slice(7)
    joined = pa.concat_tables([first, second, third], promote_options="permissive")
    assert striped(joined).equals(striped(records))
    alone = striped(striped(records).slice(7, 2))
    assert alone.column("filter").to_pylist() == records.slice(7, 2).column("filter").to_pylist()
    assert not any(is_stripe(name) for name in alone.column_names)


@pytest.mark.usefixtures("short_stripes")
def test_parts_of_which_some_records_are_gone() -> None:
    slices = _many_slices()
    stored = striped(_records(slices))
    kept = np.array([0, 3, 5])
    resident = stored.take(kept.tolist()).drop_columns(
        [name for name in stored.column_names if is_stripe(name)]
    )
    evidence = BLOOM_FILTER.load_parts([RecordPart(resident, kept, stored.select)], len(slices), X)
    for number in kept.tolist():
        assert number in _kept(evidence, _equals(slices[number][0]))
    assert len(_kept(evidence, _equals(-1))) <= len(slices) - 2


@pytest.mark.usefixtures("short_stripes")
def test_i4_what_cannot_be_read_keeps_its_slices() -> None:
    """I4: one unusable segment costs its own slices, and the plan says so."""
    slices = _many_slices()
    stored = striped(_records(slices))
    resident = stored.select([name for name in stored.column_names if not is_stripe(name)])

    def broken(_: list[str]) -> pa.Table:
        raise FormatError("the segment fails its checksum")

    evidence: Any = BLOOM_FILTER.load_parts([RecordPart(resident, None, broken)], len(slices), X)
    cut = np.flatnonzero(stored.column("stripes").to_numpy() > 0).tolist()
    assert _kept(evidence, _equals(-1)) == cut
    assert evidence.notes == ("bloom filters are not used: the segment fails its checksum",)
    shorter = stored.set_column(
        stored.column_names.index("bits_000"), "bits_000", pa.nulls(len(slices), pa.large_binary())
    )
    evidence = BLOOM_FILTER.load_parts([RecordPart(resident, None, shorter.select)], len(slices), X)
    answers = [_kept(evidence, _equals(values[0])) for values in slices if values]
    assert all(number in kept for number, kept in zip((0, 1, 3, 4, 5, 6, 7, 8), answers, strict=True))


def test_r10_records_that_do_not_add_up_cover_nothing() -> None:
    records = _records([[1], [2], [3], [4]])

    def changed(name: str, value: Any, type_: Any) -> list[bool]:
        column = records.column(name).to_pylist()
        column[1] = value
        other = records.set_column(records.column_names.index(name), name, pa.array(column, type_))
        return BLOOM_FILTER.load(other, 4, X).covered.tolist()

    assert changed("blocks", 2, pa.int32()) == [True, False, True, True]
    assert changed("blocks", None, pa.int32()) == [True, False, True, True]
    assert changed("stripes", 5, pa.int16()) == [True, False, True, True]
    assert changed("stripes", None, pa.int16()) == [True, False, True, True]
    assert changed("filter", None, pa.large_binary()) == [True, False, True, True]
    assert changed("filter", b"x", pa.large_binary()) == [False] * 4
    assert changed("usable", None, pa.bool_()) == [True, False, True, True]
    assert changed("__slice", 2, pa.int32()) == [True, False, False, True]


def test_r7_records_of_another_column_or_type() -> None:
    records = _records([[1]], pa.int32())
    fits = {
        pa.int64(): True,
        pa.int32(): True,
        pa.int16(): False,
        pa.float64(): False,
        pa.string(): False,
        pa.decimal128(10, 2): False,
    }
    for type_, covered in fits.items():
        assert BLOOM_FILTER.load(records, 1, Field(("x",), type_)).covered.tolist() == [covered], type_
    decimals = _records([[1]], pa.decimal128(5, 2))
    wider = Field(("x",), pa.decimal128(10, 4))
    evidence = BLOOM_FILTER.load(decimals, 1, wider)
    assert _kept(evidence, _equals(10_000, wider)) == [0]
    assert _kept(evidence, _equals(10_001, wider)) == []
    assert not BLOOM_FILTER.load(records, 1, Field(("x",), pa.int64(), conflict="both")).covered.any()
    with_id = records.set_column(
        records.column_names.index("field_id"), "field_id", pa.array([7], pa.int32())
    )
    assert BLOOM_FILTER.load(with_id, 1, Field(("x",), pa.int32(), field_id=7)).covered.all()
    assert not BLOOM_FILTER.load(with_id, 1, Field(("x",), pa.int32(), field_id=8)).covered.any()


def test_s17_old_dates_are_not_looked_up_where_a_setting_decides() -> None:
    """S17: the file does not say in which calendar its dates are, and Spark asks its session."""
    field = Field(("x",), pa.date32())
    records = _records([[-200_000], [1]], field.type)
    position = records.column_names.index("calendar_open")
    records = records.set_column(position, "calendar_open", pa.array([True, False]))
    evidence = BLOOM_FILTER.load(records, 2, field)
    assert _kept(evidence, _equals(-199_990, field)) == []
    assert _kept(evidence, _equals(-199_990, field), semantics=Semantics.of("spark")) == [0]


def test_t3_absent_counts_as_null_only_while_it_is() -> None:
    """T3 (iceberg#16692): a default that a column gets later applies to rows that were recorded as NULL."""
    nullable, with_default = Field(("x",), pa.int64()), Field(("x",), pa.int64(), absent_is_null=False)
    records = _records([[], [1]])
    for name in ("absent", "partly_absent"):
        position = records.column_names.index(name)
        lacking = records.set_column(position, name, pa.array([True, False]))
        assert BLOOM_FILTER.load(lacking, 2, nullable).covered.tolist() == [True, True]
        assert BLOOM_FILTER.load(lacking, 2, with_default).covered.tolist() == [False, True]


def test_ranges_come_first_and_the_plan_names_both(tmp_path: Path) -> None:
    """RFC-37: a value outside the range of a file is not looked up in its filter."""
    for number in range(4):
        write_file(tmp_path / "t" / f"{number}.parquet", x=list(range(100 * number, 100 * number + 60, 2)))
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("ranges", on="x")
    table.create_index("values", on="x", using="bloom_filter", options={"fpp": "0.001"})
    plan = table.plan("x = 103")
    assert [(step.index, step.considered, step.dropped) for step in plan.steps] == [
        ("ranges", 4, 3),
        ("values", 1, 1),
    ]
    assert table.plan("x = 104").kept == 1
    assert table.plan("NOT (x <> 104)").kept == 1
    assert table.plan("x IN (104, 5, 7)").kept == 1
    assert table.plan("x <> 104").kept == 4
    assert table.plan("x IS NOT DISTINCT FROM 104").kept == 1
    (status,) = (each for each in table.status().indexes if each.name == "values")
    assert status.using == "bloom_filter"
