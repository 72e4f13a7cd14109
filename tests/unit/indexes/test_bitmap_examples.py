"""The examples of the documents that bitmaps come from, verbatim."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from pruner.errors import IndexDefinitionError
from pruner.indexes.registry import index_type
from pruner.schema import Field
from tests.support.parquet.tables import write_file

FILE_GROUP = "2aa10971-11b2-41b3-9baf-ab33c0000144-0"

ANIMALS = ["Ant", "Crab", "Bat", "Whale", "Ant", "Monkey"]
PLACES = ["LAND", "WATER", "AERIAL", "WATER", "LAND", "LAND"]


@pytest.fixture
def stores(tmp_path: Path) -> pruner.Table:
    """RFC-92, Bitmap Metadata Structure: a table by day with the type of each store."""
    root = tmp_path / "stores"
    write_file(root / "day=20250401/a.parquet", store_type=["grocery", "pharmacy", "grocery"])
    write_file(root / "day=20250402/b.parquet", store_type=["pharmacy", "gro$cery"])
    table = pruner.open_table(str(root))
    table.create_index("stores_idx", on="store_type", using="bitmap")
    return table


def test_rfc_92_keys_and_their_prefixes(stores: pruner.Table) -> None:
    found = {entry.key: entry for entry in stores.inspect("stores_idx", "store_type$grocery$")}
    assert list(found) == ["store_type$grocery$day=20250401$a.parquet"]
    assert [(e.cardinality, e.positions) for e in found.values()] == [(2, (0, 2))]
    pharmacies = [entry.key for entry in stores.inspect("stores_idx", "store_type$pharmacy$")]
    assert pharmacies == [
        "store_type$pharmacy$day=20250401$a.parquet",
        "store_type$pharmacy$day=20250402$b.parquet",
    ]
    assert [e.key for e in stores.inspect("stores_idx", "store_type$gro\\$")] == [
        "store_type$gro\\$cery$day=20250402$b.parquet"
    ]
    assert len(list(stores.inspect("stores_idx"))) == 4
    assert not list(stores.inspect("stores_idx", "other$"))


def test_rfc_92_key_of_a_table_without_partitions(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / f"{FILE_GROUP}.parquet", store_type=["grocery"])
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("i", on="store_type", using="bitmap")
    (entry,) = table.inspect("i", "store_type$grocery$")
    assert entry.key == f"store_type$grocery$.${FILE_GROUP}.parquet"


def test_rfc_92_query_keeps_the_groups_in_which_one_row_has_both(tmp_path: Path) -> None:
    """Reading the Index: women who commute by car."""
    root = tmp_path / "commuters"
    write_file(root / "both.parquet", gender=["female", "male"], commute_type=["car", "bus"], age=[31, 40])
    write_file(root / "apart.parquet", gender=["female", "male"], commute_type=["bus", "car"], age=[22, 50])
    write_file(root / "no_women.parquet", gender=["male"], commute_type=["car"], age=[60])
    table = pruner.open_table(str(root))
    table.create_index("people", on=["gender", "commute_type"], using="bitmap")
    plan = table.plan("gender = 'female' AND commute_type = 'car'", dialect="spark")
    assert [uri.rsplit("/", 1)[1] for uri in plan.files] == ["both.parquet"]
    assert plan.rows is not None
    assert plan.rows[plan.files[0]].tolist() == [0]  # type: ignore[union-attr]
    assert plan.rows_exact
    # RFC-92 leaves this out under Limited Predicate Support: NOT, possible because the number of rows is known.
    negated = table.plan("NOT (gender = 'female' AND commute_type = 'car')", dialect="spark")
    assert negated.kept == 3
    assert [rows.tolist() for _, rows in negated.rows.pairs()] == [[0, 1], [1], [0]]  # type: ignore[union-attr]


def test_one_column_in_several_parts_of_a_predicate(tmp_path: Path) -> None:
    """Found by random predicates: the parts about `a` exclude each other although another column is between them."""
    root = tmp_path / "t"
    write_file(root / "a.parquet", a=[1, None], b=[5, 6])
    write_file(root / "b.parquet", a=[7, None], b=[5, 6])
    table = pruner.open_table(str(root))
    table.create_index("bits", on="a", using="bitmap")
    assert table.plan("a IS NULL AND (a > 6 OR (a < 3 AND b = 5))").kept == 0
    plan = table.plan("a IS NOT NULL AND (a > 6 OR (a < 0 AND b = 5))")
    assert [uri.rsplit("/", 1)[1] for uri in plan.files] == ["b.parquet"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("type = 'LAND'", [1, 5, 6]),
        ("type = 'LAND' OR type = 'AERIAL'", [1, 3, 5, 6]),
        ("animal > 'Crab'", [4, 6]),
        ("animal >= 'Crab'", [2, 4, 6]),
        ("animal < 'Bat'", [1, 5]),
        ("animal <= 'Bat'", [1, 3, 5]),
        ("animal BETWEEN 'Bat' AND 'Monkey'", [2, 3, 6]),
        ("animal IN ('Whale', 'Bat')", [3, 4]),
        ("animal NOT IN ('Ant', 'Monkey')", [2, 3, 4]),
        ("animal != 'Ant'", [2, 3, 4, 6]),
        ("animal LIKE 'M%'", [6]),
        ("type = 'WATER' AND animal = 'Ant'", []),
    ],
)
def test_the_animals_table(tmp_path: Path, where: str, rows: list[int]) -> None:
    """How BitmapIndex is used for Row Filtering; rows are counted from 1 there and from 0 here."""
    write_file(tmp_path / "animals" / "000.parquet", animal=ANIMALS, type=PLACES)
    table = pruner.open_table(str(tmp_path / "animals"))
    table.create_index("idx", on=["animal", "type"], using="bitmap")
    plan = table.plan(where, dialect="trino")
    assert plan.rows is not None
    found = [position + 1 for _, positions in plan.rows.pairs() for position in positions.tolist()]  # type: ignore[union-attr]
    assert found == rows
    assert plan.rows_exact
    assert plan.kept == (1 if rows else 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["regionkey=1", "regionkey in (3, 1)"])
def test_an_index_for_some_partitions(tmp_path: Path, where: str) -> None:
    """Examples, Creating index: `on …users (gender) where regionkey=1`, with users partitioned on regionkey."""
    root = tmp_path / "users"
    for region in (1, 2, 3):
        write_file(root / f"regionkey={region}" / "a.parquet", gender=["female", "male"])
    made = pruner.sql(
        f"create index idx using bitmap on users (gender) where {where}", tables={"users": str(root)}
    )
    table = pruner.open_table(str(root))
    (status,) = table.status().indexes
    wanted = {1} if "=" in where else {1, 3}
    assert made.refresh is not None
    assert (made.refresh.indexed, made.refresh.already) == (len(wanted), 0)
    assert status.where == where
    assert (status.covered, status.coverable) == (len(wanted), 3)
    kept = {uri.split("/")[-2] for uri in table.plan("gender = 'other'").files}
    assert kept == {f"regionkey={region}" for region in {1, 2, 3} - wanted}
    again = table.refresh()
    assert (again.indexed, again.already) == (0, len(wanted))


def test_options_may_be_numbers(tmp_path: Path) -> None:
    write_file(tmp_path / "t" / "a.parquet", gender=["female", "male"])
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("few", on="gender", using="bitmap", options={"max_cardinality": 1})
    assert any("max_cardinality = 1" in reason for reason in table.plan("gender = 'x'").fallbacks)


TYPES = {
    "integer": pa.int32(),
    "smallint": pa.int16(),
    "bigint": pa.int64(),
    "tinyint": pa.int8(),
    "varchar": pa.string(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "real": pa.float32(),
    "date": pa.date32(),
    "decimal": pa.decimal128(12, 2),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES.keys())
def test_supported_types(type_: pa.DataType) -> None:
    index_type("bitmap").check(Field(("c",), type_), {})


@pytest.mark.parametrize(
    "type_", [pa.binary(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.uuid()], ids=str
)
def test_other_types_are_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(IndexDefinitionError, match="column 'c' has type .*, which bitmap cannot index"):
        index_type("bitmap").check(Field(("c",), type_), {})
