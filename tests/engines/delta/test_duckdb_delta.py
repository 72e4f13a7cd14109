"""Delta tables in DuckDB: the rows of the table, whatever its log says, and no file left out that a statement needs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import pruner
import pruner_duckdb
from pruner.arrow import compute
from pruner.errors import TableError
from pruner.expr import nodes as expr
from pruner_duckdb.native_scan.answering import TableAnswers
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native
from tests.support.delta.logs import Column, DeltaLog, made_up, moment, write_checkpoint
from tests.support.running.patience import until

ZONES = pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])


def same(table: DeltaLog, *queries: str, zone: str = "UTC") -> int:
    """Compare pruned answers with those of plain DuckDB over all rows; return how many files the last one read."""
    t, read = table.rows(), 0
    assert t is not None
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": str(table.root)}) as con:
        for each in (plain, con):
            each.execute(f"SET TimeZone = '{zone}'")
        plain.register("t", t)
        for query in queries:
            con.last_plans.clear()
            found, wanted = (each.execute(query).fetchall() for each in (con, plain))
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), query
            assert not [scan.reason for scan in con.last_plans if scan.reason]
            read = sum(scan.plan.kept for scan in con.last_plans if scan.plan is not None)
    return read


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"id": list(range(start, stop)), "v": [f"v{each}" for each in range(start, stop)]})


@pytest.fixture
def deleted(tmp_path: Path) -> DeltaLog:
    """Five files, of which two have deleted rows."""
    table = DeltaLog(
        tmp_path / "t", (Column("id", "long"), Column("v", "string")), features=("deletionVectors",)
    )
    paths = table.append(*(numbers(at, at + 100) for at in range(0, 500, 100)))
    table.delete({paths[1]: [0, 99, 50], paths[3]: range(10, 90)})
    return table


@pytest.mark.slow
def test_deleted_rows_are_not_read(deleted: DeltaLog):
    same(deleted, "SELECT * FROM t", "SELECT count(*), sum(id), max(v) FROM t", "SELECT count(*) FROM t")
    assert same(deleted, "SELECT * FROM t WHERE id = 150", "SELECT * FROM t WHERE id = 151") == 1
    assert same(deleted, "SELECT v FROM t WHERE id BETWEEN 290 AND 320 ORDER BY id") == 2
    assert same(deleted, "SELECT count(*) FROM t WHERE id < 100") in (0, 1)
    same(
        deleted,
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 100",
        "SELECT * FROM t ORDER BY id DESC LIMIT 120",
    )
    same(deleted, "SELECT * FROM t WHERE id IN (SELECT id + 1 FROM t WHERE id > 395)")


@pytest.mark.slow
def test_rows_are_counted_from_the_log(deleted: DeltaLog):
    """A file is not read where all of its rows meet the condition, whether or not some of them are deleted."""
    queries = {
        "SELECT count(*) FROM t": 0,
        "SELECT count(*) FROM t WHERE id >= 100": 0,
        "SELECT count(*) FILTER (WHERE id < 400), count(*) FROM t": 0,
        "SELECT count(*) FROM t WHERE id > 150 AND id < 400": 1,
        "SELECT count(*), sum(id) FROM t": 5,
        "SELECT count(*), max(id) FROM t": 1,
        "SELECT EXISTS (SELECT 1 FROM t WHERE id BETWEEN 100 AND 199)": 1,
    }
    if duckdb.__version__.startswith("1."):  # which does not report where a call with FILTER ends
        del queries["SELECT count(*) FILTER (WHERE id < 400), count(*) FROM t"]
    with pruner_duckdb.connect({"t": str(deleted.root)}) as con:
        for query, files in queries.items():
            same(deleted, query)
            con.last_plans.clear()
            con.execute(query).fetchall()
            assert sum(scan.read for scan in con.last_plans) == files, query
    paths = list(deleted.files)
    deleted.delete({paths[0]: range(100), paths[4]: [7]})
    same(deleted, *queries, "SELECT count(*) FROM t WHERE id < 100", "SELECT count(v) FROM t WHERE id >= 400")


@pytest.mark.slow
def test_deleted_rows_are_not_counted_from_indexes(deleted: DeltaLog):
    table = pruner.open_table(str(deleted.root))
    table.create_index("i", on="*")
    table.create_index("b", on="id", using="bitmap")
    queries = (
        "SELECT count(*) FROM t",
        "SELECT min(id), max(id) FROM t",
        "SELECT count(*) FROM t WHERE id > 105",
    )
    same(
        deleted,
        *queries,
        "SELECT id FROM t WHERE id >= 100 ORDER BY id LIMIT 2",
        "SELECT v FROM t WHERE id = 150",
    )
    deleted.delete({next(iter(deleted.files)): range(100)})
    same(deleted, *queries)


@pytest.mark.slow
def test_a_column_of_the_name_of_duckdbs_own(tmp_path: Path):
    columns = (Column("filename", "string"), Column("file_row_number", "long"))
    table = DeltaLog(tmp_path / "t", columns, features=("deletionVectors",))
    rows = pa.table({"filename": ["a", "b", "c"], "file_row_number": [7, 8, 9]})
    (path, _) = table.append(rows, rows)
    table.delete({path: [1]})
    same(table, "SELECT * FROM t", "SELECT filename FROM t WHERE file_row_number = 8")


def test_without_replacement_scans_a_table_with_deleted_rows_is_refused(deleted: DeltaLog):
    with pruner_duckdb.connect({"t": str(deleted.root)}) as con:
        con.execute("SET python_enable_replacements = false")
        with pytest.raises(pruner.PrunerError, match="files with deletion vectors cannot be read"):
            con.execute("SELECT sum(id) FROM t").fetchall()


def mapped(folder: Path, mode: str = "name") -> DeltaLog:
    inner = Column("in", "struct", *made_up(5), (Column("z", "string", *made_up(6)),))
    struct = Column("s", "struct", *made_up(3), (Column("x", "integer", *made_up(4)), inner))
    columns = (Column("id", "long", *made_up(1)), Column("v", "string", *made_up(2)), struct)
    table = DeltaLog(folder / "t", columns, mapping=mode, features=("deletionVectors",))
    for at in range(0, 60, 20):
        table.append(nested(at, at + 20, struct))
    return table


def nested(start: int, stop: int, struct: Column, text: str = "v") -> pa.Table:
    values = [
        None if each % 7 == 0 else {"x": each, "in": None if each % 5 == 0 else {"z": f"z{each}"}}
        for each in range(start, stop)
    ]
    of_struct = pa.array(values, struct.arrow().type)
    return pa.table(
        {"id": list(range(start, stop)), text: [f"v{each}" for each in range(start, stop)], "s": of_struct}
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_the_files_call_otherwise(tmp_path: Path, mode: str):
    table = mapped(tmp_path, mode)
    queries = (
        "SELECT * FROM t",
        "SELECT s.x, s.in.z FROM t WHERE s.in IS NOT NULL",
        "SELECT count(s), count(s.in) FROM t",
    )
    same(table, *queries)
    assert same(table, "SELECT id FROM t WHERE s.x = 25") == 1
    table.rename("v", "text")
    table.add_column("n", "double")
    same(table, *queries, "SELECT text, n FROM t WHERE n IS NULL")
    table.drop("text")
    table.add_column("v", "string")
    same(table, *queries, "SELECT v FROM t WHERE v IS NULL", "SELECT v FROM t WHERE v = 'v3'")
    table.append(nested(60, 80, table.columns[1]))
    table.delete({next(iter(table.files)): [3, 4]})
    same(table, *queries, "SELECT id FROM t WHERE v = 'v65'")


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_a_file_whose_field_ids_contradict_its_names_has_no_records(tmp_path: Path, using: str):
    """Every plan without statistics of the log keeps it, and reading the column is refused."""
    columns = (Column("id", "long", *made_up(1)), Column("v", "long", *made_up(2)))
    table = DeltaLog(tmp_path / "t", columns, mapping="id")
    for at in range(0, 30, 10):
        rows = pa.table({"id": range(at, at + 10), "v": range(at + 100, at + 110)})
        table.append(rows, stats=False)
    file = table.root / next(iter(table.files))
    held: Any = pq.read_table(file)
    ids = {field.name: field.metadata for field in held.schema}
    others = dict(zip(ids, reversed(ids.values()), strict=True))
    fields = [field.with_metadata(others[field.name]) for field in held.schema]
    pq.write_table(pa.Table.from_arrays(held.columns, schema=pa.schema(fields)), file)
    opened = pruner.open_table(str(table.root))
    opened.create_index("i", on=["id", "v"], using=using)
    assert [opened.plan(f"id = {value}").kept for value in (5, 15, 107)] == [1, 2, 1]
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        for statement in ("SELECT id FROM t", "SELECT v FROM t WHERE id = 107"):
            with pytest.raises(TableError, match=f"{file.name} has another column"):
                con.execute(statement)


@pytest.mark.slow
def test_records_of_a_column_belong_to_it_and_not_to_its_name(tmp_path: Path):
    table = mapped(tmp_path)
    opened = pruner.open_table(str(table.root))
    opened.create_index("i", on=["v", "lower(v)"][:1])
    opened.create_index("e", on="lower(v)")
    assert opened.plan("v = 'v3'").kept == 2
    table.rename("v", "text")
    assert opened.plan("text = 'v3'").kept == 2
    assert opened.status().indexes[0].columns == ("text",)
    table.add_column("v", "string")
    assert opened.plan("v = 'v3'").kept == 3
    assert opened.plan("lower(v) = 'v3'").kept == 3
    table.append(nested(60, 80, table.columns[2], "text"))
    opened.refresh()
    same(table, "SELECT id FROM t WHERE text = 'v65'", "SELECT id FROM t WHERE v IS NULL AND text > 'v6'")
    opened.compact()
    same(table, "SELECT id FROM t WHERE text = 'v65'", "SELECT id FROM t WHERE v IS NULL AND text > 'v6'")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("using", ["bitmap", "bloom_filter", "record_index"])
def test_indexes_are_compacted_where_an_expression_lost_its_column(tmp_path: Path, using: str):
    """The others are merged; once the column is back, as after RESTORE, the index is built again."""
    columns = (Column("id", "long", *made_up(1)), Column("v", "string", *made_up(2)))
    table = DeltaLog(tmp_path / "t", columns, mapping="name")
    opened = pruner.open_table(str(table.root))
    table.append(numbers(0, 10))
    opened.create_index("e", on="upper(v)", using=using, force=True)
    opened.create_index("b", on="id", using="bitmap", force=True)
    table.append(numbers(10, 20))
    opened.refresh()
    before = table.columns
    table.drop("v")
    opened = pruner.open_table(str(table.root))
    compacted = opened.compact()
    assert compacted.after < compacted.before
    assert opened.plan("id = 15").kept == 1
    table.change(lambda _: before)
    assert same(table, "SELECT id FROM t WHERE upper(v) = 'V15'") in (1, 2)
    opened.refresh()
    assert opened.plan("upper(v) = 'V15'").kept == 1
    assert [each.covered for each in opened.status().indexes] == [2, 2]


@pytest.mark.sampled(6)
@ZONES
@pytest.mark.parametrize("int96", [False, True])
def test_instants_are_the_same_in_every_zone(tmp_path: Path, zone: str, int96: bool):
    struct = Column("s", "struct", fields=(Column("t", "timestamp"), Column("n", "timestamp_ntz")))
    columns = (Column("t", "timestamp"), Column("n", "timestamp_ntz"), struct)
    table = DeltaLog(
        tmp_path / "t", columns[:1] if int96 else columns, int96=int96, features=("deletionVectors",)
    )
    for month in (1, 7):
        when = [moment(f"2024-{month:02d}-01T00:00:00") + timedelta(hours=each) for each in range(48)]
        local = [each.replace(tzinfo=None) for each in when]
        values = [{"t": one, "n": other} for one, other in zip(when, local, strict=True)]
        rows: dict[str, Any] = {"t": pa.array(when, columns[0].arrow().type)}
        if not int96:
            rows |= {"n": local, "s": pa.array(values, struct.arrow().type)}
        (path,) = table.append(pa.table(rows))
    table.int96 = False
    of_both: Any = pa.table(rows)
    table.append(of_both.slice(0, 3))
    if not int96:
        same(table, "SELECT s.t, s.n FROM t WHERE n > TIMESTAMP '2024-07-01 12:00:00'", zone=zone)
    queries = (
        "SELECT t, epoch_us(t) FROM t",
        "SELECT count(*) FROM t WHERE t = TIMESTAMPTZ '2024-07-01 04:00:00Z'",
    )
    same(table, *queries, "SELECT t FROM t WHERE t < TIMESTAMPTZ '2024-01-01 05:00:00'", zone=zone)
    table.delete({path: [1, 2]})
    same(table, *queries, zone=zone)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "values",
    [
        [{"p": "a"}, {"p": "b"}, {"p": None}],
        [{"p": "a b%/c=d"}, {"p": "null"}, {"p": "ü"}, {"p": None}],
        [{"p": "1"}, {"p": "01"}, {"p": ""}],
        [{"p": "__HIVE_DEFAULT_PARTITION__"}, {"p": "a"}],  # a text equal to the folder name of NULL
    ],
)
@pytest.mark.parametrize("mapping", ["", "name"])
def test_partition_values_are_those_of_the_log(
    tmp_path: Path, values: list[dict[str, str | None]], mapping: str
):
    ids: dict[str, Any] = {"physical": "col-9", "id": 9} if mapping else {}
    first: dict[str, Any] = {"physical": "col-8", "id": 8} if mapping else {}
    table = DeltaLog(
        tmp_path / "t",
        (Column("id", "long", **first), Column("p", "string", **ids)),
        partitioned=("p",),
        mapping=mapping,
        features=("deletionVectors",),
    )
    for at, each in enumerate(values):
        table.append(pa.table({"id": [at * 2, at * 2 + 1]}), values=each)
        for held in table.files.values():  # an empty text is NULL
            held.add["partitionValues"] = {
                name: text or None for name, text in held.add["partitionValues"].items()
            }
    queries = ("SELECT * FROM t", "SELECT id FROM t WHERE p IS NULL", "SELECT p, count(*) FROM t GROUP BY p")
    same(table, *queries, *(f"SELECT id FROM t WHERE p = '{each['p']}'" for each in values if each["p"]))
    table.delete({path: [0] for path in list(table.files)[:2]})
    same(table, *queries)


@pytest.mark.slow
def test_typed_partition_values(tmp_path: Path):
    types = {"d": "date", "n": "decimal(7,2)", "b": "boolean", "t": "timestamp_ntz", "i": "short"}
    columns = (Column("id", "long"), *(Column(name, type_) for name, type_ in types.items()))
    table = DeltaLog(tmp_path / "t", columns, partitioned=tuple(types))
    values: list[dict[str, str | None]] = [
        {"d": "2024-02-29", "n": "-1.50", "b": "true", "t": "2024-01-01 10:00:00", "i": "-3"},
        {"d": "1200-01-01", "n": "0.00", "b": "false", "t": "2024-01-01 10:00:00.123456", "i": "0"},
        dict.fromkeys(types, None),
    ]
    for at, each in enumerate(values):
        table.append(pa.table({"id": [at]}), values=each)
    same(table, "SELECT * FROM t", "SELECT count(*) FROM t WHERE n < 0", "SELECT id FROM t WHERE b")
    assert same(table, "SELECT id FROM t WHERE d > DATE '2000-01-01'") == 1


TWICE = {
    "2024-10-27 02:30:00": "2024-10-27 00:30:00+00",
    "2024-10-27T02:59:59.999999": "2024-10-27 00:59:59.999999+00",
    "2024-10-27 03:00:00": "2024-10-27 02:00:00+00",
    "2024-03-31 02:30:00": "2024-03-31 01:30:00+00",
    "2024-07-01": "2024-06-30 22:00:00+00",
    "2024-10-27 02:30:00+01:00": "2024-10-27 01:30:00+00",
    "2024-10-27T02:30:00.000000Z": "2024-10-27 02:30:00+00",
}
"""Local timestamps in Berlin, and the instants that Spark takes them for (measured): the earlier one of two."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deletes", [False, True])
def test_partition_moments_without_a_zone_are_those_of_spark(tmp_path: Path, *, deletes: bool):
    columns = (Column("id", "long"), Column("p", "timestamp"))
    table = DeltaLog(tmp_path / "t", columns, partitioned=("p",), features=("deletionVectors",))
    for at, text in enumerate(TWICE):
        (path,) = table.append(pa.table({"id": [at, at + 100]}), values={"p": text})
        if deletes:
            table.delete({path: [1]})
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        con.execute("SET TimeZone = 'Europe/Berlin'")
        for at, moment_ in enumerate(TWICE.values()):
            same = f"p = TIMESTAMPTZ '{moment_}'"
            assert con.sql(f"SELECT {same} FROM t WHERE id = {at}").fetchall() == [(True,)], moment_
            assert con.sql(f"SELECT id FROM t WHERE id < 100 AND {same}").fetchall() == [(at,)], moment_
        latest = "SELECT id FROM t WHERE id < 100 ORDER BY p DESC LIMIT 2"
        assert con.sql(latest).fetchall() == [(6,), (2,)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    ("type_", "texts", "values"),
    [
        # The bytes are the UTF-8 encoding of the text, as in Spark (measured).
        (
            "binary",
            ["a", "ü", "\\x41", "a\\b", "\x01", "'"],
            [b"a", b"\xc3\xbc", b"\\x41", b"a\\b", b"\x01", b"'"],
        ),
        ("decimal(5,2)", ["1.50", "-0.01"], [Decimal("1.50"), Decimal("-0.01")]),
        ("timestamp", ["2024-07-01T12:00:00.000000Z"], [moment("2024-07-01T12:00:00")]),
    ],
)
def test_partition_values_of_one_type(
    tmp_path: Path, type_: str, texts: list[str], values: list[Any], files: int
):
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("p", type_)), partitioned=("p",))
    for at, text in enumerate(texts):
        table.append(*(pa.table({"id": [at]}) for _ in range(files)), values={"p": text})
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        con.execute("SET TimeZone = 'UTC'")
        found = con.sql("SELECT DISTINCT id, p FROM t ORDER BY id").fetchall()
        assert found == list(enumerate(values))
        for at, value in enumerate(values):
            rows = con.execute("SELECT DISTINCT id, p FROM t WHERE p = ?", [value]).fetchall()
            assert rows == [(at, value)]
            assert con.sql(f"SELECT p FROM t WHERE id = {at}").fetchall() == [(value,)] * files
            of = pa.scalar(value, table.columns[1].arrow().type)
            constant = of.value if pa.types.is_timestamp(of.type) else value
            plan = pruner.open_table(str(table.root)).plan(
                expr.Compare(expr.Operator.EQ, expr.Column(("p",)), expr.Literal(constant, of.type)),
                dialect="duckdb",
            )
            assert plan.kept == files, value


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamp_ntz"])
def test_partitions_of_years_after_9999(tmp_path: Path, type_: str):
    """Spark writes these years with a plus, which DuckDB does not take for part of a date."""
    features = ("timestampNtz",) if type_ == "timestamp_ntz" else ()
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("d", type_)), ("d",), features=features)
    behind = "T00:00:00.000000Z" if type_ == "timestamp" else "" if type_ == "date" else " 00:00:00"
    for at, day in enumerate(("2020-01-01", "+12000-05-05", "9999-12-31", "-0100-01-01")):
        table.append(pa.table({"id": [at]}), values={"d": f"{day}{behind}"})
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        con.execute("SET TimeZone = 'UTC'")
        assert con.execute("SELECT id FROM t WHERE d < DATE '2021-01-01' ORDER BY id").fetchall() == [
            (0,),
            (3,),
        ]
        last = con.execute("SELECT id, year(d) FROM t ORDER BY d DESC LIMIT 2").fetchall()
        assert last == [(1, 12000), (2, 9999)]
        assert con.execute("SELECT id FROM t WHERE d = DATE '2020-01-01'").fetchall() == [(0,)]


def test_widened_types(tmp_path: Path):
    types = {"a": "integer", "b": "float", "c": "decimal(4,2)", "d": "date"}
    table = DeltaLog(
        tmp_path / "t", tuple(Column(*each) for each in types.items()), features=("typeWidening",)
    )
    rows = pa.table(
        {
            "a": pa.array([1, None], pa.int32()),
            "b": pa.array([0.1, float("nan")], pa.float32()),
            "c": pa.array([1, 2], pa.int64()).cast(pa.decimal128(23, 2)).cast(pa.decimal128(4, 2)),
            "d": pa.array([1, 2], pa.int32()).cast(pa.date32()),
        }
    )
    table.append(rows)
    for name, wide in (("a", "long"), ("b", "double"), ("c", "decimal(8,4)"), ("d", "timestamp_ntz")):
        table.widen(name, wide)
    table.append(table.rows())
    queries = (
        "SELECT * FROM t",
        "SELECT a FROM t WHERE b = 0.1::FLOAT::DOUBLE",
        "SELECT c FROM t WHERE d = '1970-01-02'",
    )
    same(table, *queries)
    pruner.open_table(str(table.root)).create_index("i", on="*")
    same(table, *queries)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", ["append", "vectors", "optimize", "restore"])
def test_indexes_follow_the_table(tmp_path: Path, change: str):
    root = str(tmp_path / "t")
    for at in range(0, 40, 10):
        write_deltalake(
            root,
            pa.table({"id": list(range(at, at + 10)), "k": [f"{x:03d}" for x in range(at, at + 10)]}),
            mode="append",
        )
    opened = pruner.open_table(root)
    opened.create_index("i", on="id")
    opened.create_index("r", on="k", using="record_index")
    assert (opened.plan("id = 15").kept, opened.plan("k = '015'").kept) == (1, 1)
    delta = DeltaTable(root)
    if change == "append":
        write_deltalake(root, pa.table({"id": [40, 41], "k": ["040", "041"]}), mode="append")
    elif change == "vectors":
        delta.delete("id IN (5, 15)")
    elif change == "optimize":
        delta.optimize.compact()
    else:
        delta.restore(2)
    for _ in range(2):
        with pruner_duckdb.connect({"t": root}) as con:
            rows = DeltaTable(root).to_pyarrow_table()
            for key in (5, 15, 25, 40):
                wanted = sorted(each["id"] for each in rows.to_pylist() if each["id"] == key)
                for query in (
                    f"SELECT id FROM t WHERE id = {key}",
                    f"SELECT id FROM t WHERE k = '{key:03d}'",
                ):
                    assert [row[0] for row in con.execute(query).fetchall()] == wanted
        opened.refresh()
    assert opened.status().indexes[0].covered == len(opened.snapshot().data)


LONG, TEXT = Column("id", "long"), Column("v", "string")


def plain(folder: Path, **options: Any) -> DeltaLog:
    table = DeltaLog(folder / "t", (LONG, TEXT), **options)
    table.append(*(numbers(at, at + 100) for at in range(0, 500, 100)))
    return table


def with_int96(folder: Path) -> DeltaLog:
    table = DeltaLog(folder / "t", (LONG, Column("at", "timestamp")), int96=True)
    table.append(
        pa.table({"id": [0], "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    )
    return table


DELETED = "the native scan does not leave out rows that are deleted apart from their files"
NOT_SERVED = {
    "deletes may come": (
        lambda folder: plain(folder, configuration={"delta.enableDeletionVectors": "true"}),
        DELETED,
    ),
    "mapped": (mapped, "the native scan does not read columns that the files call otherwise"),
    "INT96": (with_int96, "the native scan does not read INT96 as Delta does"),
}


@pytest.mark.sampled(3)
@NEEDS_EXTENSION
@pytest.mark.parametrize("kind", NOT_SERVED)
def test_the_native_scan_leaves_alone_what_it_does_not_read(tmp_path: Path, kind: str):
    make, reason = NOT_SERVED[kind]
    table = make(tmp_path)
    rows = table.rows()
    with pruner_duckdb.connect({"t": str(table.root)}, native="auto") as con:
        assert con.unserved == {"t": reason}
        wanted = [(rows.num_rows, compute.sum(rows.column("id")).as_py())]
        assert con.execute("SELECT count(*), sum(id) FROM t").fetchall() == wanted


@NEEDS_EXTENSION
def test_rows_deleted_by_vectors_are_none_of_the_native_scan(deleted: DeltaLog):
    with pruner_duckdb.connect({"t": str(deleted.root)}, native="auto") as con:
        assert con.unserved == {"t": DELETED}
        rows = deleted.rows()
        assert rows is not None
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(rows.num_rows,)]


@pytest.mark.slow
@NEEDS_EXTENSION
def test_every_commit_is_seen_at_once_by_the_native_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An unchanged table is not asked for again, and each kind of commit shows in the next statement."""
    table = plain(tmp_path)
    asked_for: list[str] = []
    bind = TableAnswers._bind  # pyright: ignore[reportPrivateUsage]

    def counting(self: Any, question: Any) -> Any:
        asked_for.append(question["table"])
        return bind(self, question)

    monkeypatch.setattr(TableAnswers, "_bind", counting)
    con = native({"t": str(table.root)})
    query = "SELECT count(*), count(DISTINCT id), min(id) FROM t WHERE id >= 350"

    def reads(files: int) -> None:
        rows = table.rows()
        assert rows is not None
        con.last_plans.clear()
        wanted = duckdb.connect().execute(query.replace(" t ", " rows ")).fetchall()
        assert con.execute(query).fetchall() == wanted
        assert [each.kept for each in con.last_plans] == [files]

    def rests() -> bool:
        asked_for.clear()
        con.execute(query).fetchall()
        return not asked_for

    reads(2)
    until(rests)
    (path,) = table.append(numbers(500, 600))
    reads(3)
    until(rests)
    # The newest commit is another one: its file was deleted and written again.
    table.commit_file(table.version).unlink()
    table.version -= 1
    del table.files[path]
    table.append(numbers(600, 690))
    reads(3)
    until(rests)
    table.remove(list(table.files)[4])
    reads(2)
    until(rests)
    write_checkpoint(table)
    reads(2)
    until(rests)
    table.add_column("w", "long")
    reads(2)
    assert con.execute("SELECT count(w), count(*) FROM t WHERE id >= 350").fetchall()[0][0] == 0


@pytest.mark.slow
@NEEDS_EXTENSION
def test_a_served_table_of_which_rows_are_deleted_apart_says_so(tmp_path: Path):
    table = plain(tmp_path, features=("deletionVectors",))
    con = native({"t": str(table.root)})
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(500,)]
    table.delete({next(iter(table.files)): [0, 1]})
    with pytest.raises(
        duckdb.IOException, match="changed in a way that this connection cannot read: open anoth"
    ):
        con.execute("SELECT count(*) FROM t").fetchall()
    with pruner_duckdb.connect({"t": str(table.root)}, native="auto") as other:
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(498,)]


OPERATIONS = ("append", "append", "delete", "rename", "add", "drop", "remove", "checkpoint", "widen")


def random_table(seed: int, folder: Path) -> DeltaLog:
    """A table after some random changes; every kind of column, NULLs, NaN, odd texts."""
    of = random.Random(seed)
    mapping = of.choice(["", "name", "id"])

    def column(number: int, type_: str) -> Column:
        name = f"c{number}"
        return Column(name, type_, *made_up(number)) if mapping else Column(name, type_)

    types = (
        "long",
        "integer",
        "double",
        "string",
        "timestamp",
        "timestamp_ntz",
        "date",
        "decimal(9,2)",
        "float",
        "boolean",
    )
    columns = tuple(column(number + 1, type_) for number, type_ in enumerate(of.sample(types, 5)))
    features = ("deletionVectors", "typeWidening")
    table = DeltaLog(folder, columns, mapping=mapping, features=features, int96=of.random() < 0.3)
    for _ in range(4):
        table.append(random_rows(of, table))
    for _ in range(12):
        change(of, of.choice(OPERATIONS), table, mapping=mapping)
    return table


def change(of: random.Random, kind: str, table: DeltaLog, *, mapping: str) -> None:
    path = of.choice([*table.files, ""])
    name = of.choice(table.columns).name
    if kind == "append":
        table.append(*(random_rows(of, table) for _ in range(of.randint(1, 3))), stats=of.random() < 0.9)
    elif kind == "delete" and path:
        table.delete({path: of.sample(range(20), of.randint(1, 19))}, of.choice("upi"))
    elif kind == "remove" and path:
        table.remove(path)
    elif kind == "checkpoint":
        write_checkpoint(table, of.choice(["classic", "parts", "v2_json", "v2_parquet"]))
    elif kind == "add" and len(table.columns) < 8:
        table.add_column(f"n{table.next_id}", of.choice(["long", "string", "double"]))
    elif kind == "rename" and mapping:
        table.rename(name, f"r{of.randint(0, 10**9)}")
    elif kind == "drop" and mapping and len(table.columns) > 3:
        table.drop(name)
    elif kind == "widen":
        wide = {"integer": "long", "date": "timestamp_ntz", "decimal(9,2)": "decimal(12,4)"}
        held = next(each.type for each in table.columns if each.name == name)
        if held in wide:
            table.widen(name, wide[held])


def random_rows(of: random.Random, table: DeltaLog) -> pa.Table:
    base = of.randint(0, 50)
    columns = {
        each.name: pa.array([random_value(of, each.type, base) for _ in range(20)], each.arrow().type)
        for each in table.columns
    }
    return pa.table(columns)


def random_value(of: random.Random, type_: str, base: int) -> Any:
    number = base + of.randint(0, 8)
    if of.random() < 0.1:
        return None
    if type_ == "string":
        return of.choice(
            [f"s{number:02d}", f"s{number:02d}", "x" * 31 + "é" * (number % 5), "\U0001f600\ue000"]
        )
    if type_ == "boolean":
        return number % 2 == 0
    if type_ in ("double", "float"):
        # No NaN: by the row group statistics that Arrow writes, DuckDB itself loses rows with NaN.
        return of.choice([float(number), number + 0.1, number + 0.1, -0.0])
    if type_ == "date":
        return datetime(2024, 1, 1, tzinfo=UTC).date() + timedelta(days=number)
    if type_.startswith("timestamp"):
        found = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(
            hours=number, microseconds=of.randint(0, 999_999)
        )
        return found if type_ == "timestamp" else found.replace(tzinfo=None)
    if type_.startswith("decimal"):
        return (
            pa.scalar(number * 100 + of.randint(0, 99), pa.int64()).cast(pa.decimal128(19, 0)).as_py() / 100
        )
    return number


def predicates(of: random.Random, table: DeltaLog, count: int) -> Iterator[str]:
    for _ in range(count):
        parts = [condition(of, of.choice(table.columns)) for _ in range(of.randint(1, 3))]
        yield of.choice([" AND ", " OR "]).join(parts)


def condition(of: random.Random, column: Column) -> str:
    value = random_value(of, column.type, of.randint(0, 50))
    if value is None:
        return f"{column.name} IS {of.choice(['', 'NOT '])}NULL"
    name = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "date": "DATE"}.get(column.type)
    if name is not None:
        literal = f"{name} '{value}'"
    elif isinstance(value, str):
        literal = f"'{value}'"
    else:
        literal = f"CAST('{value}' AS DOUBLE)" if column.type in ("double", "float") else str(value)
    sign = of.choice(["=", "<", ">", "<=", ">=", "<>"])
    return f"{'NOT ' if of.random() < 0.1 else ''}({column.name} {sign} {literal})"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_tables(seed: int, tmp_path: Path):
    table = random_table(seed, tmp_path / "t")
    t = table.rows()
    plain, of = duckdb.connect(), random.Random(seed)
    plain.execute("SET TimeZone = 'Asia/Kathmandu'")
    assert t is not None
    dropped = 0
    for indexed in (False, True):
        if indexed:
            pruner.open_table(str(table.root)).create_index("i", on="*")
        with pruner_duckdb.connect({"t": str(table.root)}) as con:
            con.execute("SET TimeZone = 'Asia/Kathmandu'")
            assert rows_of(con.execute("SELECT * FROM t")) == rows_of(plain.execute("SELECT * FROM t"))
            for predicate in predicates(of, table, 25):
                query = f"SELECT * FROM t WHERE {predicate}"
                assert rows_of(con.execute(query)) == rows_of(plain.execute(query)), query
                dropped += sum(
                    scan.plan.total - scan.plan.kept for scan in con.last_plans if scan.plan is not None
                )
    assert dropped > 0


def rows_of(answer: Any) -> list[str]:
    return sorted(map(repr, answer.fetchall()))
