"""Slices with log files in DuckDB: the rows of Spark's snapshot read, or a refusal in one sentence, never a wrong row.

Every table of the catalogs of fixtures is read whole, with its meta columns, and most of them as of each instant of
their timelines, too. Such a read is then the oracle for every kind of filter, by way of a native table of DuckDB's
with its optimizer off: the filters go through Arrow and hudi-rs, which must not change what they mean.
"""

from __future__ import annotations

import math
import random
import re
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from pruner.errors import PrunerError, TableError
from tests.engines.duckdb.duckdb_tables import Rows
from tests.engines.random_answers import random_statement, shown
from tests.support.hudi.merging import BUILDERS, merging_tables
from tests.support.hudi.nested import BUILDERS as NESTED
from tests.support.hudi.nested import CLOCKS, nested_tables
from tests.support.hudi.nested import columns as columns_of
from tests.support.hudi.payloads import payload_tables
from tests.support.hudi.spark_reads import Read, SparkReads
from tests.support.hudi.tables import table_names
from tests.support.hudi.timeline import completed
from tests.support.hudi.writer import HudiWriter, rows_of
from tests.support.kept.tables import KeptTables
from tests.support.running.profiles import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REFUSED = {
    "mor_partial_update_v6": "merges with a merger of its own",
    "mor_partial_update_v8": "CUSTOM record merge mode",
    "mor_repeated_keys_v8": "several rows of one key",
    "mor_repeated_keys_v9": "several rows of one key",
    "mor_postgres_debezium_payload_v8": "CUSTOM record merge mode",
    "mor_postgres_debezium_payload_v9": "no partial update mode FILL_UNAVAILABLE",
    "mor_mysql_debezium_payload_v9": "Multiple ordering fields",
}
"""Tables that hudi-rs does not merge as Hudi does, and the text of the refusal (docs/merge-on-read.md)."""


@pytest.fixture(scope="module")
def tables(hudi_tables: KeptTables, start_session: Callable[[], SparkSession]) -> Callable[[str], Path]:
    """The path of a table of any of the catalogs; read-only."""
    catalogs = (
        merging_tables(start_session),
        nested_tables(start_session),
        payload_tables(start_session),
        hudi_tables,
    )
    return lambda name: next(each for each in catalogs if name in each.known).path(name)


MERGED_BY_MODE = [
    f"mor_{name}_payload_v9" for name in ("overwrite_non_defaults", "partial_update", "event_time", "aws_dms")
]
ALL = [*table_names("mor_.*"), *BUILDERS, *NESTED, *MERGED_BY_MODE]


@pytest.mark.parametrize("name", [name for name in ALL if name not in REFUSED])
def test_rows_are_those_of_sparks_snapshot_read(
    spark_reads: SparkReads, tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    root = tables(name)
    con = connection(root, tmp_path)
    read = spark_reads.read(root)
    columns = list(read.types)
    expected = spark_rows(read)
    assert duckdb_rows(con, "SELECT * FROM t", columns) == expected
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(len(expected),)]
    for column in columns:
        alone = duckdb_rows(con, f'SELECT "{column}" FROM t', [column])
        assert alone == sorted(((row[columns.index(column)],) for row in expected), key=repr), column
    position = columns.index("id")
    for key in sorted({row[position] for row in expected}):
        found = duckdb_rows(con, f"SELECT * FROM t WHERE id = {key}", columns)
        assert found == [row for row in expected if row[position] == key]


@pytest.mark.parametrize("name", [*(name for name in table_names("mor_.*") if name not in REFUSED), *NESTED])
def test_rows_as_of_each_instant_are_those_of_spark(
    spark_reads: SparkReads, tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    root = tables(name)
    for instant in completed(root):
        con = connection(root, tmp_path, as_of=instant.requested)
        read = spark_reads.read(root, as_of=instant.requested)
        assert duckdb_rows(con, "SELECT * FROM t", list(read.types)) == spark_rows(read), instant


@pytest.mark.parametrize("name", REFUSED)
def test_what_hudi_rs_merges_otherwise_is_refused_in_one_sentence(
    tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    con = connection(tables(name), tmp_path)
    for run in (con.execute, lambda text: con.sql(text).fetchall()):
        with pytest.raises(TableError, match=REFUSED[name]) as raised:
            run("SELECT * FROM t")
        assert "\n" not in str(raised.value)
        assert "read_optimized" in str(raised.value)


def test_blocks_of_both_formats_over_an_inner_timestamp_are_refused_by_the_columns_name(
    tables: Callable[[str], Path], spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "mor_nested_clocks_avro_v9"
    shutil.copytree(tables(root.name), root)
    schema = ", ".join(f"{name} {type_}" for name, type_, _ in columns_of(CLOCKS, 0))
    values = (value for _, _, value in columns_of(CLOCKS, 0))
    options = {"hoodie.logfile.data.block.format": "parquet"}
    table = HudiWriter(spark, root, 9, "MERGE_ON_READ", options=options)
    table.upsert(rows_of(spark, [(0, "rome", *values, 9)], f"id INT, city STRING, {schema}, ts BIGINT"))
    with pytest.raises(
        TableError, match=r"because column 's' has timestamps inside of it, .*; compact the table"
    ):
        connection(root, tmp_path).execute("SELECT id FROM t")


@pytest.mark.parametrize("name", ["mor_repeated_keys_v6"])
def test_keys_that_are_there_twice_are_no_matter_where_hudi_merges_one_of_them(
    spark_reads: SparkReads, tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    read = spark_reads.read(tables(name))
    columns = list(read.types)
    rows = duckdb_rows(connection(tables(name), tmp_path), "SELECT * FROM t", columns)
    assert rows == spark_rows(read)
    assert len(rows) > len({row[columns.index("id")] for row in rows})


PREDICATES = [
    "flag", "NOT flag", "flag IS NULL", "small = 7", "small <> 7", "small IN (7, -1)", "small NOT IN (7, NULL)",
    "big = 9007199254740993", "big > 9007199254740992", "big IS NOT NULL", "ratio = 0", "ratio IN (0, 5)",
    "ratio < 1", "ratio > 0.05", "ratio = 0.1::FLOAT", "fare = 0", "fare IN (0.0, 5)", "fare >= 0", "fare < 0",
    "fare > 1", "fare = 'nan'::DOUBLE", "fare <> 'nan'::DOUBLE", "NOT (fare < 1)", "fare BETWEEN -1 AND 1",
    "isnan(fare)", "price = 12.3", "price < 0", "price IN (12.30, 1)", "wide = 1234567890123456789.0123456789",
    "wide < 0", r"code = '\x00\xFF'::BLOB", "code = ''::BLOB", r"code > '\x00'::BLOB", "day < DATE '1970-01-01'",
    "day IN (DATE '2013-01-01')", "\"at\" = TIMESTAMPTZ '2013-03-31 01:59:59.999999+00'",
    "\"at\" < TIMESTAMPTZ '1970-01-01 00:00:00+00'", "place.name = 'a'", "place.zip IS NULL", "place IS NULL",
    "place.share > 1", "place.share = 0", "place.share IN (0, 3)", "tags[1] = 'x'", "len(tags) = 0",
    "counts['k'] = 1", "city = 'rome' AND small = 7", "small = 7 OR fare = 0", "id % 2 = 0 AND flag IS NULL",
    "id IN (SELECT id FROM t WHERE small < 0)", "upper(city) = 'ROME' AND id < 3", "city LIKE 'ro%'", "id = 10",
    "\"at\"::DATE = DATE '2013-03-31'", "_hoodie_record_key = '2'", "_hoodie_partition_path = 'city=rome'", "false",
]  # fmt: skip


@pytest.mark.parametrize("name", ["mor_types_v6", "mor_parquet_blocks_v9"])
def test_filters_mean_what_they_mean_in_duckdb(
    tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    con = connection(tables(name), tmp_path)
    con.execute("CREATE TABLE native AS SELECT * FROM t")
    matched = 0
    for predicate in PREDICATES:
        con.native.execute("PRAGMA disable_optimizer")
        full = predicate.replace("FROM t ", "FROM native ")
        expected = con.native.execute(f"SELECT id FROM native WHERE {full} ORDER BY id").fetchall()
        con.native.execute("PRAGMA enable_optimizer")
        found = con.execute(f"SELECT id FROM t WHERE {predicate} ORDER BY id").fetchall()
        assert found == expected, predicate
        matched += bool(expected)
    assert matched > 0.9 * len(PREDICATES) - 2


def test_answers_from_metadata_are_those_over_the_merged_rows(
    tables: Callable[[str], Path], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Log files add, change and delete rows outside the bounds and bitmaps of their base files.

    Rows that are read whole are Spark's, as the first test shows.
    """
    read = fewer = 0
    rng = random.Random(int(pytestconfig.option.hypothesis_seed))
    possible = [name for name in ALL if name not in REFUSED]
    for name in rng.sample(possible, min(len(possible), examples(12))):
        index, root = str(tmp_path / name), str(tables(name))
        table = pruner.open_table(root, index_uri=index)
        table.create_index("stats", on="*")
        table.create_index("keys", on="id", using="bitmap")
        con = pruner_duckdb.connect({"t": {"uri": root, "index_uri": index}})
        con.execute("SET TimeZone = 'UTC'")
        con.execute("CREATE TABLE native AS SELECT * FROM t")
        types = {column: type_ for column, type_, *_ in con.execute("DESCRIBE native").fetchall()}
        # Without columns that are not scalar, and without Hudi's own, which are texts.
        plain = {n: t for n, t in types.items() if not re.search(r"\[|\(\w+ |_hoodie", f"{t} {n}")}
        for _ in range(examples(15)):
            condition, only = (_condition(rng, con, plain) for _ in range(2))
            truths = [f'"{column}"' for column, type_ in plain.items() if type_ == "BOOLEAN"]
            where = "" if rng.random() < 0.3 else f"WHERE {condition}"
            columns = [f'"{column}"' for column in plain]
            text = random_statement(rng, columns, where, (only, truths), in_order=False)
            con.native.execute("PRAGMA disable_optimizer")
            wanted = con.native.execute(re.sub(r"\bFROM t\b", "FROM native", text)).fetchall()
            con.native.execute("PRAGMA enable_optimizer")
            found = con.execute(text).fetchall()
            assert Counter(map(shown, found)) == Counter(map(shown, wanted)), f"{name}: {text}"
            read += 1
            fewer += any(scan.read < scan.kept for scan in list(con.last_plans)[-1:])
    assert fewer > read / 10


def _condition(rng: random.Random, con: pruner_duckdb.Connection, types: dict[str, str]) -> str:
    """A condition on a column, with one of its values or with NULL."""
    column = rng.choice(list(types))
    values = con.native.execute(f'SELECT DISTINCT "{column}"::VARCHAR FROM native ORDER BY ALL').fetchall()
    value = rng.choice(values or [(None,)])[0]
    if value is None or rng.random() < 0.1:
        return f'"{column}" IS {rng.choice(["", "NOT "])}NULL'
    literal = "'" + value.replace("'", "''") + f"'::{types[column]}"
    text = f'"{column}" {rng.choice(["=", "<>", "<", "<=", ">", ">="])} {literal}'
    return f"NOT ({text})" if rng.random() < 0.2 else text


def test_base_files_and_merged_slices_are_one_scan_and_each_is_read_once(
    tables: Callable[[str], Path], tmp_path: Path
) -> None:
    """The table has three groups without log files and some with; joins and CTEs scan it several times."""
    con = connection(tables("mor_v9"), tmp_path)
    ids = con.execute("SELECT id FROM t ORDER BY id").fetchall()
    assert len(ids) == len(set(ids)) == 23
    text = "WITH c AS (SELECT * FROM t) SELECT count(*) FROM c a JOIN c b USING (id) JOIN t USING (id)"
    assert con.execute(text).fetchall() == [(23,)]
    lazy = con.sql("SELECT id FROM t").filter("id < 5")
    assert sorted(lazy.fetchall()) == sorted(lazy.fetchall()) == [(0,), (2,), (3,), (4,)]
    con.execute("CREATE TABLE copied AS SELECT * FROM t")
    con.execute(f"COPY (SELECT * FROM t) TO '{tmp_path / 'out.parquet'}'")
    assert con.execute("SELECT count(*) FROM copied").fetchall() == [(23,)]
    assert con.execute(f"SELECT count(*) FROM '{tmp_path / 'out.parquet'}'").fetchall() == [(23,)]
    assert con.execute("SELECT count(*) FROM t WHERE id = ?", [3]).fetchall() == [(1,)]


def test_nothing_is_left_in_the_session(tables: Callable[[str], Path], tmp_path: Path) -> None:
    con = connection(tables("mor_v9"), tmp_path)
    con.execute("SELECT * FROM t").fetchall()
    assert con.native.execute("SHOW ALL TABLES").fetchall() == []


def test_a_session_that_finds_no_python_objects_is_told_so(
    tables: Callable[[str], Path], tmp_path: Path
) -> None:
    con = connection(tables("mor_v9"), tmp_path)
    con.execute("SET python_enable_replacements = false")
    with pytest.raises(PrunerError, match="python_enable_replacements"):
        con.execute("SELECT * FROM t")


def connection(root: Path, scratch: Path, **options: Any) -> pruner_duckdb.Connection:
    """A connection to a table whose index is stored apart from the kept files."""
    index = str(scratch / "index")
    pruner.open_table(str(root), index_uri=index).create_index("stats", on="*", if_not_exists=True)
    con = pruner_duckdb.connect({"t": {"uri": str(root), "index_uri": index, **options}})
    con.execute("SET TimeZone = 'UTC'")
    return con


def spark_rows(read: Read) -> Rows:
    """Rows as sorted tuples of comparable values."""
    return sorted((tuple(map(comparable, row)) for row in read.rows), key=repr)


def duckdb_rows(con: pruner_duckdb.Connection, text: str, columns: list[str]) -> Rows:
    """Rows as sorted tuples of comparable values, through Arrow."""
    found = con.sql(text).to_arrow_table().select(columns).to_pylist()
    return sorted((tuple(comparable(row[name]) for name in columns) for row in found), key=repr)


def comparable(value: Any) -> Any:
    """A value in a form that is equal where Spark and DuckDB mean the same; floats by their bits."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        value = value.asDict()
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return tuple(sorted((key, comparable(inner)) for key, inner in value.items()))
    return tuple(_comparable_items(value)) if isinstance(value, list) else value


def _comparable_items(values: list[Any]) -> Iterator[Any]:
    """The items of a list; a map comes from Arrow as a list of pairs."""
    for each in values:
        pair: Any = each if isinstance(each, tuple) and not hasattr(each, "asDict") else None
        yield comparable(each) if pair is None else tuple(map(comparable, pair))


def test_the_oracle_tells_signed_zeros_apart() -> None:
    assert comparable(0.0) != comparable(-0.0)
    assert duckdb.execute("SELECT 0.0::DOUBLE = -0.0::DOUBLE").fetchall() == [(True,)]
