"""Files for Python engines: all rows of the files that are left, with the names and types of the table."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import PredicateError, SchemaError, TableError
from pruner.expr.nodes import (
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    conjunction,
    disjunction,
)
from pruner.planning.plan import Plan
from tests.support.duckdb import plain as plain_duckdb
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.parquet.tables import write_tree
from tests.support.running.profiles import examples

NAN = float("nan")
EARLY = pa.schema(
    [
        ("id", pa.int32()),
        ("x", pa.float64()),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("stamp", pa.timestamp("us")),
        ("ok", pa.bool_()),
    ]
)
LATE = EARLY.set(0, pa.field("id", pa.int64())).append(pa.field("note", pa.string()))
"""What later files have: a wider integer, and an additional column."""

FILES: dict[str, tuple[pa.Schema, list[Any]]] = {
    "city=Köln/year=2013/a": (EARLY, [1, [0.5, NAN, None], "a"]),
    "city=Köln/year=2014/b": (EARLY, [10, [-0.0, 1.5, 2.5], "b"]),
    "city=a%20b%3Dc/year=2014/c": (LATE, [2**40, [NAN, NAN, NAN], "c"]),
    "city=__HIVE_DEFAULT_PARTITION__/year=2015/d": (LATE, [100, [0.0, -1.0, 7.0], "d"]),
    "city=Ulm/year=2015/e": (EARLY, [1000, [3.0, 4.0, None], "e"]),
}
TYPES = {"year": pa.int64(), "city": pa.string()}
NAMES = [*LATE.names, "city", "year"]


def rows_of(schema: pa.Schema, start: int, floats: list[float | None], letter: str) -> pa.Table:
    day = 1 + start % 20
    columns: dict[str, list[Any]] = {
        "id": [start, start + 1, None],
        "x": floats,
        "name": [letter, letter * 2, None],
        "price": [Decimal(f"{day}.50"), None, Decimal("-0.01")],
        "day": [date(2013, 1, day), None, date(2013, 2, day)],
        "stamp": [datetime(2013, 1, day, 12), datetime(2013, 1, day, 12, 0, 1), None],
        "ok": [True, None, letter in "ab"],
        "note": [None, letter, "note"],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def by_pyarrow(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def by_polars(table: pa.Table, path: Path) -> None:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path)


@pytest.fixture(scope="module", params=[by_pyarrow, by_polars], ids=["pyarrow", "polars"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("files") / "t"
    write: Callable[[pa.Table, Path], None] = request.param
    for place, (schema, (start, floats, letter)) in FILES.items():
        path = root / f"{place}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(rows_of(schema, start, floats, letter), path)
    return root


@pytest.fixture(scope="module")
def table(root: Path) -> pruner.Table:
    found = pruner.open_table(str(root))
    found.create_index("stats", on="*")
    found.create_index("values", on=["name", "ok"], using="bitmap")
    return found


def duckdb_rows(root: Path, where: str = "true") -> list[str]:
    """What DuckDB finds in the whole table, loaded first: over files their statistics make it lose rows (NaN)."""
    source = f"read_parquet('{root}/**/*.parquet', hive_partitioning => true, union_by_name => true)"
    with plain_duckdb.session() as found:
        found.execute(f"create temp table t as select {', '.join(NAMES)} from {source}")
        return sorted(map(repr, found.execute(f"from t where {where}").fetchall()))


def in_pyarrow(plan: Plan, columns: list[str] | None = None) -> pa.Table:
    return plan.scan_pyarrow(columns).to_table()


def in_polars(plan: Plan, columns: list[str] | None = None) -> pa.Table:
    found = plan.scan_polars(columns).collect()
    assert isinstance(found, pl.DataFrame)
    return found.to_arrow(compat_level=pl.CompatLevel.oldest())


def in_datafusion(plan: Plan, columns: list[str] | None = None) -> pa.Table:
    return plan.scan_datafusion(columns=columns).to_arrow_table()


ENGINE_READS = pytest.mark.parametrize("read", [in_pyarrow, in_polars, in_datafusion])


@pytest.mark.sampled(6)
@ENGINE_READS
def test_all_rows_come_with_the_names_and_types_of_the_table(
    read: Callable[..., pa.Table], root: Path, table: pruner.Table
):
    """Evolved columns, partition values (NULL, encoded), absent columns and NaN: as DuckDB reads the whole table."""
    plan = table.plan("true")
    found = read(plan)
    types = [pa.string() if pa.types.is_large_string(each) else each for each in found.schema.types]
    assert dict(zip(found.schema.names, types, strict=True)) == {
        **dict(zip(LATE.names, LATE.types, strict=True)),
        **TYPES,
    }
    assert found.schema.names == plan.schema.to_arrow().names
    rows = sorted(repr(tuple(row[name] for name in NAMES)) for row in found.to_pylist())
    assert rows == duckdb_rows(root)


@pytest.mark.sampled(24)
@ENGINE_READS
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id > 500", 2),
        ("x > 3.5", 4),  # NaN is greatest: the files with NaN stay
        ("x <= 0", 2),
        ("x < 0", 1),
        ("note IS NOT NULL", 2),
        ("note IS NULL AND id = 11", 1),
        ("city = 'a b=c'", 1),
        ("city IS NULL", 1),
        ("year = 2014 AND name = 'bb'", 1),
        ("price = 1.5 AND NOT ok", 3),
        ("day BETWEEN DATE '2013-02-11' AND DATE '2013-02-28'", 2),
        ("stamp >= TIMESTAMP '2013-01-17 00:00:00'", 1),
        ("id = 1099511627776", 1),
        ("name IN ('a', 'e') AND year = 2015", 1),
    ],
)
def test_the_files_that_are_left_hold_every_matching_row(
    read: Callable[..., pa.Table], root: Path, table: pruner.Table, where: str, kept: int
):
    plan = table.plan(where)
    assert plan.kept == kept
    scanned = read(plan, NAMES)
    with plain_duckdb.session() as session:
        found = session.execute(f"from scanned where {where}").fetchall()
    assert sorted(map(repr, found)) == duckdb_rows(root, where)
    assert scanned.num_rows == 3 * kept


LITERALS: dict[str, list[Any]] = {
    "id": [-1, 1, 11, 101, 1000, 2**40, 2**41],
    "x": [-1.0, 0.0, 1.5, 2.75, 4.0, NAN],
    "name": ["", "a", "bb", "d", "zz"],
    "day": [date(2013, 1, 2), date(2013, 1, 11), date(2013, 2, 21)],
    "price": [Decimal("-0.01"), Decimal("1.50"), Decimal("20.00")],
    "note": ["c", "d", "note"],
    "city": ["Köln", "Ulm", "a b=c"],
    "year": [2012, 2013, 2015],
}
LITERAL_TYPES = {
    **{name: LATE.field(name).type for name in LITERALS if name in LATE.names},
    **TYPES,
    "price": pa.decimal128(4, 2),
}
COMPARISONS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: lambda a, b: a == b,
    Operator.NE: lambda a, b: a != b,
    Operator.LT: lambda a, b: a < b,
    Operator.LE: lambda a, b: a <= b,
    Operator.GT: lambda a, b: a > b,
    Operator.GE: lambda a, b: a >= b,
}


def draw(rng: random.Random, depth: int) -> tuple[Expr, Any, Any]:
    """A random predicate: in expression form, for Polars and for pyarrow."""
    kind = rng.choice(["and", "or", "not", "leaf", "leaf"]) if depth else "leaf"
    if kind == "not":
        form, in_pl, in_pa = draw(rng, depth - 1)
        return Not(form), ~in_pl, ~in_pa
    if kind != "leaf":
        forms, in_pl, in_pa = zip(*[draw(rng, depth - 1) for _ in range(2)], strict=True)
        if kind == "and":
            both: Callable[[Any, Any], Any] = lambda a, b: a & b  # noqa: E731 - one of a pair
            return conjunction(forms), reduce(both, in_pl), reduce(both, in_pa)
        either: Callable[[Any, Any], Any] = lambda a, b: a | b  # noqa: E731
        return disjunction(forms), reduce(either, in_pl), reduce(either, in_pa)
    return draw_leaf(rng)


def draw_leaf(rng: random.Random) -> tuple[Expr, Any, Any]:
    name = rng.choice(list(LITERALS))
    column, arrow = Column((name,)), pc.field(name)
    type_ = LITERAL_TYPES[name]
    values = rng.sample(LITERALS[name], 2)

    def literal(value: Any) -> Literal:
        return Literal(value, type_)

    match rng.choice(["null", "in", "in null", "compare", "compare", "compare"]):
        case "null":
            return IsNull(column), pl.col(name).is_null(), arrow.is_null()
        case "in" if name != "x":
            of = pa.array(values, type_)
            return In(column, tuple(map(literal, values))), pl.col(name).is_in(values), arrow.isin(of)
        case "in null" if name != "x":
            with_null = (literal(values[0]), Literal(None, pa.null()))
            of = pa.array([values[0], None], type_)
            return In(column, with_null), pl.col(name).is_in([values[0], None]), arrow.isin(of)
        case _:
            operator = rng.choice(list(COMPARISONS))
            compare = COMPARISONS[operator]
            value = values[0]
            form = Compare(operator, column, literal(value))
            return form, compare(pl.col(name), pl.lit(value)), compare(arrow, pa.scalar(value, type_))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_by_the_rules_of_the_engine_no_row_is_lost_that_its_filter_keeps(
    engine: str,
    table: pruner.Table,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
):
    """Random predicates, filtered by the engine over the whole table and over the files that are left."""
    rng = random.Random(int(pytestconfig.option.hypothesis_seed))
    rules = pruner.Semantics(engine)
    pinned = table.snapshot()
    whole = pinned.plan("true")
    frame, dataset = whole.scan_polars().collect(), whole.scan_pyarrow().to_table()
    kept = needed = 0
    count = max(30, examples(100))
    for number in range(count):
        form, in_pl, in_pa = draw(rng, depth=2)
        plan = pinned.plan(form, semantics=rules)
        told = f"predicate {number}: {plan.predicate}"
        if engine == "polars":
            matching = frame.filter(in_pl)
            assert plan.scan_polars().filter(in_pl).collect().equals(matching, null_equal=True), told
        else:
            matching = pl.from_arrow(dataset.filter(in_pa))
            # If passed to `to_table`, it would first be applied to statistics, which in pyarrow exclude NaN.
            found = pl.from_arrow(plan.scan_pyarrow().to_table().filter(in_pa))
            assert isinstance(found, pl.DataFrame)
            assert isinstance(matching, pl.DataFrame)
            assert found.equals(matching, null_equal=True), told
        assert isinstance(matching, pl.DataFrame)
        kept += plan.kept
        needed += matching.select("city", "year").n_unique()
    record_property(
        "figure", f"{kept} files kept for {count} predicates, {needed} of which hold matching rows"
    )
    assert needed <= kept <= count * len(FILES)
    assert kept < 0.75 * count * len(FILES), (kept, needed)


def test_text_is_not_read_by_the_rules_of_an_engine_without_sql(table: pruner.Table):
    with pytest.raises(PredicateError, match="Polars has no SQL: give the predicate as an expression"):
        table.plan("id = 1", semantics=pruner.Semantics("polars"))
    with pytest.raises(PredicateError, match="pyarrow has no SQL: give the predicate as an expression"):
        table.plan("id = 1", dialect="pyarrow")


@ENGINE_READS
def test_nothing_left_is_an_empty_result_of_the_same_columns(
    read: Callable[..., pa.Table], table: pruner.Table
):
    plan = table.plan("id = -5")
    assert plan.kept == 0
    found = read(plan)
    assert found.num_rows == 0
    assert found.schema.names == plan.schema.to_arrow().names


def test_datafusion_reads_into_a_context_that_is_given(table: pruner.Table):
    import datafusion

    context: Any = datafusion.SessionContext()
    frame: Any = table.plan("year = 2014").scan_datafusion(context, ["id", "year"])
    context.register_view("flights", frame)
    [batch] = context.sql("select count(*) as n, min(year) as y from flights").collect()
    assert batch.to_pydict() == {"n": [6], "y": [2014]}


@pytest.mark.sampled(2)
@ENGINE_READS
@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"x": [1]}, {"x": ["a"]}, "files hold both int64 and string"),
        (
            {"x": pa.array([0.5], pa.float32())},
            {"x": [0.1]},
            "files hold both float and double, which .* different values",
        ),
        ({"x": [1]}, {"X": [2]}, "files spell its name differently: x, X"),
        ({"x": [{"y": 1}]}, {"x": [{"y": "a"}]}, "files hold both int64 and string"),
    ],
)
def test_a_column_that_files_disagree_about_is_refused(
    read: Callable[..., pa.Table],
    tmp_path: Path,
    first: dict[str, Any],
    second: dict[str, Any],
    reason: str,
):
    for name, columns in (("a", first), ("b", second)):
        pq.write_table(pa.table({"id": [1], **columns}), tmp_path / f"{name}.parquet")
    plan = pruner.open_table(str(tmp_path)).plan("id = 1")
    with pytest.raises(SchemaError, match=f"cannot be read from the files alone: {reason}; name the columns"):
        read(plan)
    assert read(plan, ["id"]).to_pydict() == {"id": [1, 1]}


@ENGINE_READS
def test_folders_with_leading_zeros_are_the_text_of_the_snapshot(
    read: Callable[..., pa.Table], tmp_path: Path
):
    root = write_tree(tmp_path / "t", "k=01/f.parquet", "k=1/f.parquet")
    plan = pruner.open_table(str(root)).plan("k = '01'")
    assert read(plan).to_pydict() == {"x": [0], "k": ["01"]}
    form = Compare(Operator.EQ, Column(("k",)), Literal("01", pa.string()))
    rules = pruner.Semantics("pyarrow")
    assert pruner.open_table(str(root)).plan(form, semantics=rules).kept == 1


@pytest.mark.sampled(2)
@ENGINE_READS
def test_slices_with_log_files_are_refused_as_by_files(read: Callable[..., pa.Table], tmp_path: Path):
    made = SyntheticTable(tmp_path / "t", merge_on_read=True)
    made.insert(["city=a", "city=b"])
    table = pruner.open_table(str(made.root))
    assert (
        read(table.plan("city = 'a'"), ["id"]).num_rows == read(table.plan("city = 'b'"), ["id"]).num_rows > 0
    )
    made.log(list(made.groups)[:1])
    with pytest.raises(TableError, match="some file groups to read have log files"):
        read(table.plan("true"))
    rules = pruner.Semantics(scan_mode="read_optimized")
    assert read(table.plan("true", semantics=rules), ["id"]).num_rows > 0


def test_a_file_whose_footer_says_another_type_than_the_table_is_refused(tmp_path: Path):
    """R7: the schema of a Hudi table comes from its commits, and the files are checked for what they hold."""
    made = SyntheticTable(tmp_path / "t")
    made.insert(["city=a"])
    [file] = (made.root / "city=a").glob("*.parquet")
    held = pq.read_table(file)
    file.unlink()
    pq.write_table(
        held.set_column(held.schema.get_field_index("id"), "id", pa.array(["1"] * len(held))), file
    )
    plan = pruner.open_table(str(made.root)).plan("true")
    with pytest.raises(
        SchemaError, match="column 'id' cannot be read from the files alone: the table has int64, and "
    ):
        plan.scan_polars()


@pytest.mark.sampled(3)
@ENGINE_READS
def test_a_table_of_which_no_column_can_be_read_is_refused_as_one(
    read: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """Naming other columns, which the error for one column asks for, would not help."""
    written = IcebergLake(tmp_path).create("events")
    written.append(rows(written, range(4)))
    plan = pruner.open_table(written.metadata_location).plan("true")
    with pytest.raises(
        SchemaError, match=r"^no column of this table can be read from the files alone: .* DuckDB"
    ):
        read(plan)
    with pytest.raises(SchemaError, match="column 'id' cannot be read from the files alone: field ids tell"):
        read(plan, ["id"])
