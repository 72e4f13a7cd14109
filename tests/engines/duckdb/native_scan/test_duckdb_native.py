"""Scans of a pruned table are DuckDB's own: the same estimates, late columns and dynamic filters, types and values."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner
import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Compared, indexed, oracle, write_flights, write_tree
from tests.support.hudi.made_up import files as hudi_synthetic
from tests.support.parquet.types import converted_only, int96
from tests.support.parquet.types import plain as written_plainly
from tests.support.running.profiles import examples

TOLD = ("Estimated Cardinality", "Filters", "Conditions", "Join Type")
"""What an operator of a plan shows of what DuckDB knew about its scans."""

STATEMENTS = (
    "SELECT * FROM {} t ORDER BY price DESC LIMIT 3",
    "SELECT carrier, count(*) FROM {} t GROUP BY carrier",
    "SELECT count(*) FROM {} t JOIN {} u USING (carrier) WHERE u.carrier <> 'x'",
    "SELECT * FROM {} t LIMIT 10",
    "SELECT region, max(id) FROM {} t GROUP BY ALL",
    "SELECT id FROM {} t WHERE day = (SELECT max(day) FROM {} t)",
)


def plan(connection: Any, sql: str) -> list[Any]:
    """The operators of a plan, with DuckDB's estimates and filters."""
    row = connection.sql(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()[0]

    def told(node: dict[str, Any]) -> list[Any]:
        about = {key: node["extra_info"][key] for key in TOLD if key in node["extra_info"]}
        name = node["name"].strip().replace("PRUNER_SCAN", "READ_PARQUET")
        return [name, about, [told(child) for child in node["children"]]]

    return [told(node) for node in json.loads(row[1])]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_plans_are_those_of_duckdb_alone(tmp_path: Path, sql: str) -> None:
    root = write_flights(tmp_path / "flights")
    # Without an index, metadata answers nothing, so all files are read.
    pruned = pruner_duckdb.connect({"t": str(root)})
    alone = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
    assert plan(pruned, sql.replace("{} t", "t").format("t")) == plan(pruned.native, sql.replace("{}", alone))


@pytest.mark.slow
def test_files_that_differ_are_one_native_scan_for_each_kind(tmp_path: Path) -> None:
    """Both scans have the right estimate, and take the filters of the join and of the top row."""
    root = write_tree(
        tmp_path / "t",
        {
            "a.parquet": "SELECT i::INTEGER AS id FROM range(3000) r(i)",
            "b.parquet": "SELECT i::INTEGER AS id, 'x' AS late FROM range(3000, 5000) r(i)",
            "c.parquet": "SELECT i::BIGINT AS id, 'y' AS late FROM range(5000, 9000) r(i)",
            "d.parquet": "SELECT i::INTEGER AS id, 'x' AS late FROM range(9000, 9500) r(i)",
        },
    )
    shown = json.dumps(plan(pruner_duckdb.connect({"t": str(root)}), "SELECT id, late FROM t ORDER BY id"))
    # DuckDB estimates from the first file of a scan and the number of files.
    assert shown.count('["READ_PARQUET", {"Estimated Cardinality": "4000"') == 2
    assert shown.count('["READ_PARQUET", {"Estimated Cardinality": "3000"') == 1
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    compared = Compared(pruned, oracle({"t": root}))
    assert compared.kept("SELECT id, late FROM t WHERE id > 8999 OR id < 10") == (2,)
    assert compared.kept("SELECT count(*), count(late), sum(id) FROM t") == (4,)


@pytest.mark.sampled(3)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT u.seg, sum(t.amount) FROM t JOIN users u USING (uid) GROUP BY u.seg",
        "SELECT count(uid) FROM t",
        "SELECT u.seg, max(t.id), max(late) FROM t JOIN users u USING (uid) GROUP BY u.seg",
    ],
)
def test_joins_and_counts_know_the_ranges_of_files_that_differ(tmp_path: Path, sql: str) -> None:
    """As in plain DuckDB with `union_by_name`: a perfect hash join, a count that reads no column."""
    rows = "i::{} AS id, (i % 500)::INTEGER AS uid, 1.5 AS amount{} FROM range({}, {}) r(i)"
    root = write_tree(
        tmp_path / "t",
        {
            "a.parquet": "SELECT " + rows.format("INTEGER", "", 0, 3000),
            "b.parquet": "SELECT " + rows.format("INTEGER", ", 'x' AS late", 3000, 5000),
            "c.parquet": "SELECT " + rows.format("BIGINT", ", 'y' AS late", 5000, 9000),
        },
    )
    pruned = pruner_duckdb.connect({"t": str(root)})  # no index answers the count
    pruned.execute("CREATE TABLE users AS SELECT i::INTEGER AS uid, i % 20 AS seg FROM range(500) r(i)")
    pruned.execute("FROM t LIMIT 1")  # from now on its shape is known
    whole = f"read_parquet('{root}/*.parquet', union_by_name = true) t"
    alone = sql.replace("FROM t", f"FROM {whole}")
    assert sorted(pruned.execute(sql).fetchall()) == sorted(pruned.native.execute(alone).fetchall())
    assert "union_by_name" in _sent(pruned)
    assert plan(pruned, sql) == plan(pruned.native, alone)
    pruned.execute("SELECT max(amount) FROM t").fetchall()
    assert "union_by_name" not in _sent(pruned)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sql", "files"),
    [
        ("SELECT * FROM t ORDER BY amount DESC LIMIT 3", 2),
        ("FROM t ORDER BY id, late LIMIT 9", 1),
        ("SELECT amount, id FROM t QUALIFY row_number() OVER (ORDER BY amount DESC) < 3", 2),
    ],
)
def test_first_rows_of_files_that_differ_are_found_by_few_columns(
    tmp_path: Path, sql: str, files: int
) -> None:
    """By one scan that reads whole rows late, as in plain DuckDB with `union_by_name`."""
    rows = "i::{} AS id, ((i * 7919) % 9001)::DOUBLE AS amount{} FROM range({}, {}) r(i)"
    root = write_tree(
        tmp_path / "t",
        {
            "a.parquet": "SELECT " + rows.format("INTEGER", "", 0, 3000),
            "b.parquet": "SELECT " + rows.format("BIGINT", ", 'y' AS late", 3000, 9000),
        },
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    pruned.execute("FROM t LIMIT 1")  # from now on its shape is known
    alone = sql.replace("FROM t", f"FROM read_parquet('{root}/*.parquet', union_by_name = true) t")
    assert pruned.execute(sql).fetchall() == pruned.native.execute(alone).fetchall()
    assert pruned.last_plans[-1].read == files
    if files == 2:
        assert plan(pruned, sql) == plan(pruned.native, alone)


def _sent(pruned: pruner_duckdb.Connection) -> str:
    """What DuckDB was given to run for the last statement remembered."""
    entries = pruned._runner.rewriter._remembered._entries  # pyright: ignore[reportPrivateUsage]
    return list(entries.values())[-1].rewritten.sql


FOLDERS = (
    "1",
    "01",
    "-0",
    "-01",
    "0x1",
    "null",
    "2024-1-1",
    "2024-01-02",
    "1.5",
    "epoch",
    "a b",
    "é",
    "a%20b",
    "%31",
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("above", "values"),
    [
        *(("plain", values) for values in (FOLDERS[:4], FOLDERS[6:8], FOLDERS[4:5], FOLDERS, ("1", "2"))),
        ("n=9", FOLDERS[:2]),  # a column of the files
        ("z=9", FOLDERS),
        ("k=7", ("1", "2")),
        ("x=1?2", FOLDERS[6:8]),
    ],
)
def test_folders_read_as_the_snapshot_reads_them(tmp_path: Path, above: str, values: tuple[str, ...]) -> None:
    """DuckDB also takes a folder above the table for a partition: it must not hide a column of the files."""
    root = write_tree(
        tmp_path / above / "t",
        {f"k={value}/f{place}.parquet": f"SELECT {place} AS n" for place, value in enumerate(values)},
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    plain = write_tree(
        tmp_path / "copied",
        {f"k={value}/f{place}.parquet": f"SELECT {place} AS n" for place, value in enumerate(values)},
    )
    alone = pruned.native.sql(
        f"FROM read_parquet('{plain}/**/*.parquet', hive_partitioning = true) ORDER BY n"
    )
    found = pruned.sql("FROM t ORDER BY n")
    assert (found.columns, found.types) == (alone.columns, alone.types)
    rows = alone.fetchall()
    assert found.fetchall() == rows
    for n, value in rows:
        assert (n,) in pruned.execute("SELECT n FROM t WHERE k IS NOT DISTINCT FROM ?", [value]).fetchall()
        assert pruned.execute("SELECT k FROM t WHERE n = ?", [n]).fetchall() == [(value,)]


SAYING_NULL = (
    ("null", "a"),
    ("null", "1"),
    ("NULL", "2024-01-01"),
    ("Null", "2024-01-01 00:00:00"),
    ("null", "01"),
    ("null", "__HIVE_DEFAULT_PARTITION__"),
    ("n%75ll", "a"),
    ("nullable", "1"),
    ("", "1"),
    (" 1", "2"),
)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("kinds", [2, 36])
@pytest.mark.parametrize("values", SAYING_NULL)
def test_a_folder_that_says_null_means_what_duckdb_makes_of_it(
    tmp_path: Path, values: tuple[str, str], kinds: int
) -> None:
    """DuckDB 1.5 takes it for NULL, 2.0 only beside numbers and dates. Beyond the number of kinds of files that get a
    scan each, files are read as a list, with the folders' values beside it (trap N12; it lost rows of `p IS NULL`).
    """
    root = tmp_path / "t"
    for number in range(kinds):
        place = root / f"p={values[number % 2]}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number], f"c{number}": [number]}), place / f"{number}.parquet")
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    alone = f"read_parquet('{root}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
    for query in (
        "SELECT id, p FROM (SELECT * FROM {}) ORDER BY id",
        "SELECT * FROM {} WHERE p IS NULL ORDER BY id",
        "SELECT id FROM (SELECT * FROM {}) WHERE p::VARCHAR = 'null' ORDER BY id",
    ):
        found, expected = (each.sql(query.format(table)) for each, table in ((pruned, "t"), (duckdb, alone)))
        assert (found.types, found.fetchall()) == (expected.types, expected.fetchall())


@pytest.mark.slow
def test_names_of_files_that_duckdb_takes_for_folders(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "t",
        {"k=1/z=2.parquet": "SELECT 1 AS n, 5 AS z", "k=1/z=3\\b.parquet": "SELECT 2 AS n, 6 AS z"},
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    assert pruned.execute("SELECT n, z, k FROM t ORDER BY n").fetchall() == [(1, 5, 1), (2, 6, 1)]
    assert pruned.execute("SELECT n FROM t WHERE z = 6").fetchall() == [(2,)]


@pytest.mark.slow
def test_a_decimal_that_duckdb_reads_as_double(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for number in (1, 2):
        values = pa.array([decimal.Decimal(number) / 10], pa.decimal256(50, 3))
        pq.write_table(pa.table({"n": [number], "x": values}), tmp_path / f"t/f{number}.parquet")
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("ns", on="n")
    pruned = pruner_duckdb.connect({"t": table})
    # DuckDB 1.5 reads a wrong value.
    ((value,),) = pruned.native.execute(f"SELECT x FROM '{tmp_path}/t/f1.parquet'").fetchall()
    assert pruned.execute("SELECT x FROM t WHERE n = 1").fetchall() == [(value,)]
    assert pruned.last_plans[-1].kept == 1
    assert pruned.execute("SELECT n FROM t WHERE x = ?::DOUBLE", [value]).fetchall() == [(1,)]


def test_columns_of_one_name_in_a_file(tmp_path: Path) -> None:
    """DuckDB calls the second `a` of a file `a_1`, which is another file's own column name."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t/f1.parquet")
    pq.write_table(pa.table([pa.array([3]), pa.array([4])], names=["a", "a_1"]), tmp_path / "t/f2.parquet")
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("second", on="a_1")
    pruned = pruner_duckdb.connect({"t": table})
    assert pruned.execute("SELECT a, a_1 FROM t ORDER BY a").fetchall() == [(1, 2), (3, 4)]
    assert pruned.execute("SELECT a FROM t WHERE a_1 = 2").fetchall() == [(1,)]


VALUES = (
    "1",
    "2::BIGINT",
    "3::UBIGINT",
    "2.7::DOUBLE",
    "0.1::FLOAT",
    "1.5::DECIMAL(9, 2)",
    "2.5::DECIMAL(12, 2)",
    "1.25::DECIMAL(9, 4)",
    "'a'",
    "'a'::BLOB",
    "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 01:02:03.123456'",
    "'2024-01-01 01:02:03.123456789'::TIMESTAMP_NS",
    "'2024-01-01 01:02:03.123'::TIMESTAMP_MS",
    "'01:02:03'::TIME",
    "'01:02:03+02'::TIMETZ",
    "'00000000-0000-0000-0000-000000000001'::UUID",
    "'{\"x\": 1}'::JSON",
    "INTERVAL 1 DAY",
    "'x'::ENUM('x', 'y')",
    "true",
    "NULL",
    "{'a': 1}",
    "{'a': 2.7::DOUBLE}",
    "{'b': 'x', 'a': 2}",
    "[1]",
    "[2.5::DOUBLE]",
    "[{'a': 1}]",
    "[{'a': 1, 'b': 2}]",
    "MAP {'a': 1}",
    "MAP {'a': 1.5::DOUBLE}",
)
"""A value of every type that DuckDB writes to Parquet as a distinct type."""

COLUMNS = st.dictionaries(st.sampled_from(["c", "d", "e", "É", "é"]), st.sampled_from(VALUES), min_size=1)
FILES = st.lists(st.tuples(st.sampled_from(FOLDERS), COLUMNS), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(files=FILES, hive=st.booleans())
def test_names_types_and_rows_are_those_of_union_by_name(
    files: list[tuple[str, dict[str, str]]], hive: bool
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        queries = {
            f"{f'k={value}/' if hive else ''}f{place}.parquet": "SELECT "
            + ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
            for place, (value, columns) in enumerate(files)
        }
        write_tree(root, queries)
        pruned = pruner_duckdb.connect({"t": str(root)})
        whole = f"read_parquet('{root}/**/*.parquet', union_by_name = true, hive_partitioning = {hive})"
        assert described(pruned, "FROM t") == described(pruned.native, f"FROM {whole}")
        beside = "SELECT t.* FROM {} t, (SELECT 1 FROM {} LIMIT 1)"
        joined = described(pruned, beside.replace("{} t", "t").format("t"))
        assert joined == described(pruned.native, beside.format(whole, whole))
        shutil.rmtree(root)


def described(connection: Any, sql: str) -> tuple[Any, ...]:
    """Names, types and rows of a query, or the type of its error."""
    types = connection.execute(f"DESCRIBE {sql}").fetchall()
    try:
        return types, sorted(map(repr, connection.execute(sql).fetchall()))
    except duckdb.Error as error:
        return types, type(error)


WIDE = [
    {"name": "id", "type": ["null", "long"], "default": None},
    {"name": "city", "type": ["null", "string"], "default": None},
    {
        "name": "st",
        "default": None,
        "type": [
            "null",
            {
                "type": "record",
                "name": "st",
                "fields": [
                    {"name": "v", "type": ["null", "int"], "default": None},
                    {"name": "w", "type": ["null", "string"], "default": None},
                ],
            },
        ],
    },
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("narrow_first", [True, False])
def test_a_field_that_an_append_added_to_a_struct_of_a_hudi_table(tmp_path: Path, narrow_first: bool) -> None:
    """Whether the struct had the field depended on which file id came first; `st.w = 'q'` was a BinderException."""
    table = hudi_synthetic.SyntheticTable(tmp_path / "t", schema=hudi_synthetic.SCHEMA | {"fields": WIDE})
    table.insert(["city=x"] * 2)
    narrow = pa.struct([("v", pa.int32())])
    wide = pa.struct([("v", pa.int32()), ("w", pa.string())])
    files = sorted(group.base for group in table.groups.values())
    for name, (id_, value, struct) in zip(
        files if narrow_first else reversed(files),
        ((1, {"v": 10}, narrow), (2, {"v": 20, "w": "q"}, wide)),
        strict=True,
    ):
        path = tmp_path / "t" / "city=x" / name
        path.unlink()
        pq.write_table(pa.table({"id": [id_], "city": ["x"], "st": pa.array([value], struct)}), path)
    pruned = pruner_duckdb.connect({"t": str(tmp_path / "t")})
    rows = pruned.execute("SELECT id, st FROM t ORDER BY id").fetchall()
    assert rows == [(1, {"v": 10, "w": None}), (2, {"v": 20, "w": "q"})]
    assert pruned.execute("SELECT id FROM t WHERE st.w = 'q'").fetchall() == [(2,)]
    assert pruned.execute("SELECT id, city FROM t WHERE st.v = 10").fetchall() == [(1, "x")]
    for columns, scans in (("id", 1), ("id, st", 2)):
        shown = json.dumps(plan(pruned, f"SELECT {columns} FROM t ORDER BY id LIMIT 1"))
        assert shown.count("Dynamic Filter") == scans


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "write", [converted_only, int96, written_plainly], ids=["converted type alone", "INT96", "both types"]
)
def test_timestamps_prune_as_duckdb_reads_them(
    tmp_path: Path, write: Callable[[Path, pa.Array[Any]], Path]
) -> None:
    moments = [datetime.datetime(2024, 1, day) for day in (2, 3)]
    (tmp_path / "t").mkdir()
    for place, moment in enumerate(moments):
        type_ = pa.timestamp("us", "UTC") if write is converted_only else pa.timestamp("us")
        write(tmp_path / f"t/{place}.parquet", pa.array([moment], type_))
    pruned = pruner_duckdb.connect({"t": indexed(tmp_path / "t")})
    pruned.execute("SET TimeZone = 'America/New_York'")
    assert str(pruned.sql("FROM t").types[0]) == "TIMESTAMP"
    assert pruned.execute("SELECT x FROM t WHERE x = '2024-01-02'").fetchall() == [(moments[0],)]
    assert pruned.last_plans[-1].kept == 1
