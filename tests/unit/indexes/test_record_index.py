"""Record indexes: how keys are packed, what finds them, what they prove, and what they leave open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import FormatError, IndexDefinitionError
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.base import Evidence
from pruner.indexes.columns import sought
from pruner.indexes.columns.canonical import hash_of, hash_values
from pruner.indexes.optional import (
    ArrangingIndexType,
    CountingIndexType,
    FocusingEvidence,
    RecordPart,
    RefusingIndexType,
    RowEvidence,
    SelectiveIndexType,
    SpreadingIndexType,
)
from pruner.indexes.record_index import RECORD_INDEX, packing
from pruner.indexes.record_index.packing import order_of, packed, spread
from pruner.indexes.record_index.record import RECORD_SCHEMA
from pruner.indexes.registry import index_type
from pruner.indexes.row_sets import rows_of
from pruner.metadata import segments
from pruner.schema import Field
from pruner.verdict import Outcome

X = Field(("x",), pa.int64())
DUCKDB = Semantics(engine="duckdb", zone="UTC")


def _records(slices: list[list[Any]], type_: pa.DataType = X.type) -> pa.Table:
    """Records of slices with these values, as `record` gives them."""
    rows: list[dict[str, Any]] = []
    for number, values in enumerate(slices):
        known = [at for at, value in enumerate(values) if value is not None]
        hashes = hash_values(pa.array(values, type_))
        order = order_of(hashes)
        row = {
            "usable": True,
            "row_count": len(values),
            "keys": len(known),
            "hashes": hashes[order].tobytes(),
        }
        about = {"type": str(type_), "absent": False, "partly_absent": False, "in_range": True}
        positions = np.array(known, np.uint32)[order].tobytes()
        rows.append({**row, **about, "positions": positions, "__slice": number})
    schema: Any = RECORD_SCHEMA
    columns = [pa.array([row.get(each.name) for row in rows], each.type) for each in schema]
    return pa.table(columns, schema=schema).append_column(
        "__slice", pa.array([row["__slice"] for row in rows], pa.int32())
    )


def _packed_apart(slices: list[list[Any]]) -> tuple[pa.Table, pa.Table]:
    """The records of a segment, and their columns that are in memory."""
    stored = packed(_records(slices))
    return stored, stored.select([name for name in stored.column_names if RECORD_INDEX.is_resident(name)])


def _equals(value: Any, field: Field = X) -> CompareLeaf:
    return CompareLeaf(field, Operator.EQ, Point(value, value))


def _kept(evidence: Evidence, leaf: Any, outcome: Outcome = Outcome.TRUE) -> Any:
    answer = evidence.possible(leaf, outcome, DUCKDB, None)
    return None if answer is None else np.flatnonzero(answer).tolist()


def _rows(evidence: Any, leaves: Sequence[Any], number: int) -> tuple[list[int], bool]:
    """The rows of one slice on which the first of some leaves is true."""
    focused: RowEvidence = evidence.focused(leaves)
    entries = focused.entries(leaves[0], Outcome.TRUE, DUCKDB)
    assert entries is not None
    found = focused.rows(entries.mask, np.array([number]))
    assert not len(found.broken)
    return rows_of(found.rows, number).tolist(), entries.exact


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages as in large indexes, for small ones."""
    monkeypatch.setattr(packing, "PAGE_KEYS", 16)


def _many_slices() -> list[list[int | None]]:
    """Slices of all sizes; some values are in several of them, or in one of them often."""
    rng = np.random.default_rng(5)
    sizes = [300, 500, 0, 2_000, 10, 1, 250]
    slices: list[list[int | None]] = [rng.integers(0, 4_000, size).tolist() for size in sizes]
    slices[0][7:60] = [17] * 53
    slices[3][:40] = [17, None] * 20
    return slices


def test_options_types_and_fields_that_are_refused() -> None:
    with pytest.raises(IndexDefinitionError, match="no option 'fpp': it has none"):
        RECORD_INDEX.check(X, {"fpp": "0.1"})
    with pytest.raises(IndexDefinitionError, match="'x' has type list<"):
        RECORD_INDEX.check(Field(("x",), pa.list_(pa.int64())), {})
    with pytest.raises(IndexDefinitionError, match="partition column"):
        RECORD_INDEX.check(Field(("x",), pa.int64(), partition=True, in_file=False), {})
    with pytest.raises(IndexDefinitionError, match="files hold both"):
        RECORD_INDEX.check(Field(("x",), pa.int64(), conflict="files hold both"), {})
    RECORD_INDEX.check(Field(("x",), pa.binary()), {})


def test_it_is_registered_with_what_it_offers() -> None:
    assert index_type("RECORD_INDEX") is RECORD_INDEX
    for protocol in (
        *(ArrangingIndexType, SpreadingIndexType, SelectiveIndexType),
        *(CountingIndexType, RefusingIndexType),
    ):
        assert isinstance(RECORD_INDEX, protocol)
    evidence = RECORD_INDEX.load(_records([[1]]), 1, X)
    assert isinstance(evidence, FocusingEvidence)
    assert isinstance(evidence.focused([_equals(1)]), RowEvidence)


def test_what_it_answers_and_what_not() -> None:
    evidence = RECORD_INDEX.load(_records([[1, 2], [2, 3, 2], [None], []]), 5, X)
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
        (CompareLeaf(X, Operator.EQ, Point(0, 100, exact=False)), Outcome.TRUE),
    ):
        assert _kept(evidence, leaf, outcome) is None, (leaf, outcome)
    some = evidence.possible(_equals(1), Outcome.TRUE, DUCKDB, np.array([1, 0, 4]))
    assert some is not None
    assert some.tolist() == [False, True, True]


def test_a_very_long_list_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = RECORD_INDEX.load(_records([[1, 2], [3]]), 2, X)
    some = InLeaf(X, tuple(Point(value, value) for value in range(3, 3000)))
    assert _kept(evidence, some) == [1]
    monkeypatch.setattr("pruner.indexes.record_index.evidence.MOST_VALUES", 1000)
    assert _kept(evidence, some) is None
    monkeypatch.setattr("pruner.indexes.record_index.evidence.MOST_BYTES", 10)
    assert _kept(evidence, _equals(3)) == [1]
    monkeypatch.setattr("pruner.indexes.record_index.evidence.FEW_VALUES", 0)
    assert _kept(evidence, _equals(3)) is None


def test_rows_of_whole_numbers_are_exact_and_those_of_text_are_not() -> None:
    """XXH64 of 8 bytes is invertible; two texts may share a hash."""
    evidence: Any = RECORD_INDEX.load(_records([[5, None, 2, 5], [2]]), 2, X)
    leaves = [_equals(5), InLeaf(X, (Point(2, 2), Point(5, 5)))]
    assert _rows(evidence, leaves, 0) == ([0, 3], True)
    assert _rows(evidence, leaves[::-1], 0) == ([0, 2, 3], True)
    assert _rows(evidence, leaves[::-1], 1) == ([0], True)
    doubtful = [CompareLeaf(X, Operator.EQ, Point(4, 5, exact=False))]
    assert _rows(evidence, doubtful, 0) == ([0, 3], False)
    field = Field(("x",), pa.string())
    texts: Any = RECORD_INDEX.load(_records([["a", "b"]], field.type), 1, field)
    assert _rows(texts, [_equals(b"b", field)], 0) == ([1], False)
    focused: Any = evidence.focused(leaves)
    everything = np.ones(focused.entry_count, np.bool_)
    assert rows_of(focused.rows(everything, np.array([0])).rows, 0).tolist() == [0, 1, 2, 3]
    assert focused.row_total(everything, np.array([0, 1])) == 5


def test_equal_hashes_stay_in_their_order() -> None:
    rng = np.random.default_rng(3)
    for bound in (4, 1_000, 2**63):
        hashes = rng.integers(0, bound, 20_000, np.uint64)
        assert np.array_equal(order_of(hashes), np.argsort(hashes, kind="stable"))


@pytest.mark.slow
@pytest.mark.usefixtures("short_pages")
def test_pages_answer_as_the_values_do() -> None:
    """Runs of one hash that cross pages, hashes at the ends of pages, and hashes that are in no page."""
    slices = _many_slices()
    evidence: Any = RECORD_INDEX.load(_records(slices), len(slices), X)
    for value in [*range(-5, 400), 17, 3999, 4000]:
        holders = [number for number, values in enumerate(slices) if value in values]
        assert _kept(evidence, _equals(value)) == holders
        for number in holders:
            positions = [at for at, held in enumerate(slices[number]) if held == value]
            assert _rows(evidence, [_equals(value)], number) == (positions, True)
    everything = InLeaf(X, tuple(Point(value, value) for value in range(4_000)))
    assert _kept(evidence, everything) == [0, 1, 3, 4, 5, 6]


@pytest.mark.usefixtures("short_pages")
def test_a_look_up_reads_a_page_of_each_section() -> None:
    slices = _many_slices()
    stored, resident = _packed_apart(slices)
    content = memoryview(stored.column("packed")[0].as_buffer())
    reads: list[int] = []

    def read_bytes(name: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        assert (name, size) == ("packed", len(content))
        reads.append(sum(end - start for start, end in ranges))
        return [content[start:end] for start, end in ranges]

    def read(names: list[str]) -> pa.Table:
        assert all(RECORD_INDEX.is_resident(name) for name in names)
        return stored.select(names)

    evidence = RECORD_INDEX.load_parts([RecordPart(resident, None, read, read_bytes)], len(slices), X)
    assert _kept(evidence, _equals(slices[4][0])) == [
        number for number, values in enumerate(slices) if slices[4][0] in values
    ]
    assert len(reads) == 1
    assert reads[0] <= 2 * 16 * (8 + 1)


@pytest.mark.usefixtures("short_pages")
def test_i8_keys_that_are_not_those_of_the_fences_keep_their_slices() -> None:
    """Data read from another position is not trusted, whatever caused it."""
    slices = _many_slices()
    stored, resident = _packed_apart(slices)
    content = bytes(stored.column("packed")[0].as_buffer())
    elsewhere = memoryview(content[9:] + bytes(9))

    def read_bytes(name: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [elsewhere[start:end] for start, end in ranges]

    evidence = RECORD_INDEX.load_parts(
        [RecordPart(resident, None, stored.select, read_bytes)], len(slices), X
    )
    for value in (slices[0][0], slices[4][0], 3_999):
        assert _kept(evidence, _equals(value)) == list(range(len(slices)))


@pytest.mark.usefixtures("short_pages")
def test_segments_become_one_without_slices_that_are_gone() -> None:
    """Compaction: each slice gets its own keys back, whatever they were packed with."""
    slices = _many_slices()
    records = _records(slices)
    first, second = packed(records.slice(0, 4)), packed(records.slice(4))
    for part, whole in ((first, records.slice(0, 4)), (second, records.slice(4))):
        assert spread(part).select(["hashes", "positions"]).equals(whole.select(["hashes", "positions"]))
    left = pa.concat_tables([spread(first).slice(1), spread(second).slice(0, 2)])
    assert packed(left).equals(packed(records.slice(1, 5)))
    with pytest.raises(FormatError, match="how its keys are packed"):
        spread(first.slice(1))
    with pytest.raises(FormatError, match="other keys than its slices say"):
        spread(first.slice(0, 3))
    assert spread(records.slice(0, 0)).num_rows == 0


@pytest.mark.usefixtures("short_pages")
def test_parts_of_which_some_records_are_gone() -> None:
    """The keys are in the first row of a segment, whether or not that row's slice still exists."""
    slices = _many_slices()
    stored = packed(_records(slices))
    kept = np.array([1, 3, 5])
    evidence = RECORD_INDEX.load_parts(
        [RecordPart(stored.take(kept.tolist()), kept, stored.select)], len(slices), X
    )
    assert np.flatnonzero(evidence.covered).tolist() == kept.tolist()
    for number in kept.tolist():
        holders = {at for at in kept.tolist() if slices[number][-1] in slices[at]} | {0, 2, 4, 6}
        assert _kept(evidence, _equals(slices[number][-1])) == sorted(holders)


def test_i4_what_cannot_be_read_keeps_its_slices() -> None:
    """I4: one unusable segment costs its own slices, and the plan says so."""
    first, second = packed(_records([[1], [2]])), packed(_records([[3], [4]]))
    second = second.set_column(second.column_names.index("__slice"), "__slice", pa.array([2, 3], pa.int32()))

    def broken(*_: object) -> Any:
        raise FormatError("the segment fails its checksum")

    parts = [RecordPart(first, None, first.select), RecordPart(second, None, second.select, broken)]
    evidence: Any = RECORD_INDEX.load_parts(parts, 4, X)
    focused = evidence.focused([_equals(1)])
    assert _kept(focused, _equals(1)) == [0, 2, 3]
    assert focused.notes == ("keys are not looked up: the segment fails its checksum",)
    entries = focused.entries(_equals(1), Outcome.TRUE, DUCKDB)
    assert focused.rows(entries.mask, np.array([0, 2])).broken.tolist() == [2]
    assert focused.row_total(entries.mask, np.array([0, 2])) == 2
    parts = [RecordPart(first, None, first.select), RecordPart(second, None, broken)]
    evidence = RECORD_INDEX.load_parts(parts, 4, X)
    assert evidence.covered.tolist() == [True, True, False, False]
    assert _kept(evidence, _equals(1)) == [0, 2, 3]
    assert "cannot be used: the segment fails its checksum" in evidence.notes[0]


def test_r10_records_that_do_not_add_up_cover_nothing() -> None:
    stored = packed(_records([[1], [2], [3], [4]]))

    def covered(name: str, value: Any) -> list[bool]:
        column = stored.column(name).to_pylist()
        column[0 if name in ("fences", "packed") else 1] = value
        position = stored.column_names.index(name)
        other = stored.set_column(position, name, pa.array(column, stored.schema.field(name).type))
        return RECORD_INDEX.load_parts([RecordPart(other, None, other.select)], 4, X).covered.tolist()

    assert covered("row_count", 1) == [True] * 4
    assert covered("row_count", 0) == [True, False, True, True]
    assert covered("row_count", None) == [True, False, True, True]
    assert covered("absent", True) == [True, False, True, True]
    assert covered("usable", None) == [True, False, True, True]
    assert covered("__slice", 2) == [True, False, False, True]
    assert covered("keys", 2) == [False] * 4
    assert covered("fences", None) == [False] * 4
    assert covered("fences", b"x" * 24) == [False] * 4
    assert covered("fences", stored.column("fences")[0].as_py() + b"x") == [False] * 4


def test_positions_beyond_a_file_are_not_believed() -> None:
    records = _records([[1, 2], [3, 4]])
    counts = records.set_column(records.column_names.index("keys"), "keys", pa.array([1, 2]))
    short = counts.set_column(
        records.column_names.index("row_count"), "row_count", pa.array([1, 2], pa.int64())
    )
    for name, width in (("hashes", 8), ("positions", 4)):
        values = [records.column(name)[0].as_py()[-width:], records.column(name)[1].as_py()]
        short = short.set_column(short.column_names.index(name), name, pa.array(values, pa.large_binary()))
    evidence: Any = RECORD_INDEX.load(short, 2, X)
    leaves = [InLeaf(X, (Point(1, 1), Point(2, 2)))]
    focused = evidence.focused(leaves)
    entries = focused.entries(leaves[0], Outcome.TRUE, DUCKDB)
    found = focused.rows(entries.mask, np.array([0]))
    assert (len(found.rows), found.broken.tolist()) in ((0, [0]), (1, []))


def _write(root: Path, count: int, rows: int) -> None:
    root.mkdir()
    rng = np.random.default_rng(2)
    ids = rng.permutation(count * rows)
    for number in range(count):
        own = ids[number * rows : (number + 1) * rows]
        columns: dict[str, Any] = {"id": own, "s": [f"k{each}" for each in own], "line": own % 7}
        pq.write_table(pa.table(columns), root / f"{number:02}.parquet")


@pytest.mark.usefixtures("short_pages")
def test_i8_no_key_is_lost_among_more_files_than_a_page_has_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As among 20,001 files: rows of files without keys of their own fill further pages of the segment."""
    options = segments._bits_as_they_are
    monkeypatch.setattr(
        segments,
        "_bits_as_they_are",
        lambda table: options(table) | {"max_rows_per_page": 5, "write_batch_size": 5},
    )
    monkeypatch.setattr(segments, "RANGED_FROM", 0)
    _write(tmp_path / "t", 12, 50)
    pruner.open_table(tmp_path / "t").create_index("keys", on="id", using="record_index")
    plans = pruner.open_table(tmp_path / "t").snapshot()
    for number in range(12):
        for value in pq.read_table(tmp_path / "t" / f"{number:02}.parquet").column("id").to_pylist():
            assert [Path(file).stem for file in plans.plan(f"id = {value}").files] == [f"{number:02}"]
    assert plans.plan("id = -1").kept == 0


@pytest.mark.slow
def test_plans_keep_one_file_and_know_the_row(tmp_path: Path) -> None:
    _write(tmp_path / "t", 20, 4_000)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("keys", on=["id", "s"], using="record_index")
    for opened in (table, pruner.open_table(tmp_path / "t")):
        for predicate, column, value in (("id = 777", "id", 777), ("s = 'k31'", "s", "k31")):
            plan = opened.plan(predicate)
            assert (plan.kept, plan.rows_exact) == (1, column == "id")
            assert plan.rows is not None
            ((file, positions),) = plan.rows.items()
            assert positions is not None
            assert [pq.read_table(file).column(column).to_pylist()[at] for at in positions] == [value]
        assert opened.plan("id IN (1, 2, 3)").kept <= 3
        assert opened.plan("id = -1").kept == 0
        assert opened.plan("id IS NOT DISTINCT FROM -1").kept == 0
        assert opened.plan("id <> 1").kept == opened.plan("id IS NULL").kept == 20
    assert table.verify() == []


def test_composite_keys_are_brought_together_by_row(tmp_path: Path) -> None:
    """Columns that are not keys alone, but are one together: the rows of each are intersected."""
    (tmp_path / "t").mkdir()
    for number in range(10):
        columns: dict[str, Any] = {
            "order_id": list(range(20)),
            "line": [(number + at) % 10 for at in range(20)],
        }
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{number}.parquet")
    table = pruner.open_table(tmp_path / "t")
    table.create_index("keys", on=["order_id", "line"], using="record_index")
    assert table.plan("order_id = 3").kept == table.plan("line = 3").kept == 10
    plan = table.plan("order_id = 3 AND line = 4")
    assert [Path(file).stem for file in plan.files] == ["1"]
    assert plan.rows is not None
    assert [positions.tolist() for positions in plan.rows.values() if positions is not None] == [[3]]
    assert table.plan("order_id = 3 AND line = 4 OR order_id = 5 AND line = 7").kept == 2


def test_t9_other_columns_are_not_looked_up(tmp_path: Path) -> None:
    """T9 (HUDI-7569, hudi#12234): a list over a column that is not the key, or over several of which one is."""
    _write(tmp_path / "t", 5, 100)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("keys", on="id", using="record_index")
    assert table.plan("line IN (1, 2)").kept == 5
    assert table.plan("(id, line) IN ((3, 3), (4, 9))").kept <= 2
    assert table.plan("id = 3 OR line = 1").kept == 5
    assert table.plan("id + 0 = 3").kept in (1, 5)
    assert table.plan("s = '3'").kept == 5


def test_null_keys_are_in_no_entry(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for number, values in enumerate([[1, None], [None, None], [2, 3]]):
        pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), tmp_path / "t" / f"{number}.parquet")
    table = pruner.open_table(tmp_path / "t")
    table.create_index("keys", on="id", using="record_index")
    assert table.plan("id = 1").kept == 1
    assert table.plan("id IS NULL").kept == 3
    assert table.plan("id IS NOT DISTINCT FROM NULL OR id = 2").kept == 3
    assert sorted(entry.cardinality for entry in table.inspect("keys")) == [0, 1, 2]
    assert {entry.counts for entry in table.inspect("keys")} == {"keys"}


def test_the_values_of_a_long_list_are_hashed_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan asks for the slices, the rows and their number: each took 35 ms more for a list of 10,000."""
    hashed: list[Any] = []

    def counted(value: Any, type_: Any) -> int:
        hashed.append(value)
        return hash_of(value, type_)

    monkeypatch.setattr(sought, "hash_of", counted)
    evidence: Any = RECORD_INDEX.load(_records([[1, 2], [3], [900]]), 3, X)
    leaf = InLeaf(X, tuple(Point(value, value) for value in range(100)))
    focused = evidence.focused([leaf])
    first = focused.entries(leaf, Outcome.TRUE, DUCKDB)
    once = len(hashed)
    for _ in range(3):
        assert focused.possible(leaf, Outcome.TRUE, DUCKDB, None).tolist() == [True, True, False]
        assert focused.entries(leaf, Outcome.TRUE, DUCKDB) is first
    assert len(hashed) == once <= 200
    assert focused.entries(leaf, Outcome.FALSE, DUCKDB) is None
    other = InLeaf(X, (Point(900, 900),))
    assert focused.entries(other, Outcome.TRUE, DUCKDB) is None
    assert evidence.possible(other, Outcome.TRUE, DUCKDB, None).tolist() == [False, False, True]
