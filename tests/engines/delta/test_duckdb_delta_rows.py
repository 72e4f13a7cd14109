"""What Delta's protocol says of the rows in data files, compared with what DuckDB reads through pruner."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.delta.logs import Column, DeltaLog, made_up, write_checkpoint

ID = Column("id", "long")


@contextmanager
def asked(table: DeltaLog) -> Iterator[Callable[[str], list[Any]]]:
    """A function from a query to its rows; queries of one state of a table share a connection."""
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        con.execute("SET TimeZone = 'UTC'")
        yield lambda query: con.execute(query).fetchall()


def answers(table: DeltaLog, query: str) -> list[Any]:
    with asked(table) as answer:
        return answer(query)


def rewritten(table: DeltaLog, path: str, rows: pa.Table, **options: Any) -> None:
    """Rewrite a file of the table with other columns; its log entry stays."""
    pq.write_table(rows, table.root / path, **options)


def with_fields(table: DeltaLog, *fields: dict[str, Any], **settings: str) -> None:
    """Give the table a schema in the form that the log has."""
    metadata = table.metadata()
    metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    metadata["metaData"]["configuration"] |= settings
    table.commit(metadata)


def field(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("mapping", ["", "name"])
def test_columns_of_files_that_the_table_does_not_have_are_hidden(
    tmp_path: Path, mapping: str, *, deletes: bool
):
    """Those of the change data feed and of row tracking; the index has none of them either."""
    column = Column("id", "long", *made_up(1)) if mapping else ID
    settings = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
    }
    table = DeltaLog(
        tmp_path / "t", (column,), mapping=mapping, features=("deletionVectors",), configuration=settings
    )
    paths = table.append(pa.table({"id": [1, 2]}), pa.table({"id": [3, 4]}))
    more = {"_change_type": [None, "insert"], "_row-id-col-1": [7, None]}
    more["_row-commit-version-col-1"] = [1, None]
    rewritten(table, paths[0], pa.table({column.stored: [1, 2], **more}))
    if deletes:
        table.delete({paths[0]: [0]})
    opened = pruner.open_table(table.root)
    opened.create_index("all", on="*")
    opened.create_index("values", on="*", using="bitmap", force=True)
    assert {name for each in opened.status().indexes for name in each.columns} == {"id"}
    expected = [(each,) for each in (2, 3, 4)] if deletes else [(each,) for each in range(1, 5)]
    assert sorted(answers(table, "SELECT * FROM t")) == expected
    with pytest.raises(duckdb.BinderException, match='"_change_type" not found'):
        answers(table, "SELECT _change_type FROM t")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deletes", [False, True])
def test_partition_values_are_those_of_the_log_where_files_hold_others(tmp_path: Path, *, deletes: bool):
    """Tables that Iceberg can read have the values in their files too; those of the log count."""
    table = DeltaLog(
        tmp_path / "t", (ID, Column("p", "long")), partitioned=("p",), features=("deletionVectors",)
    )
    paths = [table.append(pa.table({"id": [at, at + 10]}), values={"p": str(at)})[0] for at in range(3)]
    rewritten(table, paths[0], pa.table({"id": [0, 10], "p": [0, 0]}))
    rewritten(table, paths[1], pa.table({"id": [1, 11], "p": ["x", "y"]}))
    if deletes:
        table.delete({path: [1] for path in paths})
    count = 1 if deletes else 2
    rows = sorted((at + step, at) for at in range(3) for step in (0, 10)[:count])
    assert sorted(answers(table, "SELECT * FROM t")) == rows
    for at in range(3):
        assert answers(table, f"SELECT count(*) FROM t WHERE p = {at}") == [(count,)]
    opened = pruner.open_table(table.root)
    opened.create_index("all", on="*")
    assert sorted(answers(table, "SELECT * FROM t")) == rows
    assert opened.plan("p = 1").kept == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deletes", [False, True])
def test_a_column_that_a_file_lacks_is_null_and_not_its_default(tmp_path: Path, *, deletes: bool):
    table = DeltaLog(tmp_path / "t", (ID,), features=("deletionVectors",))
    (path, _) = table.append(pa.table({"id": [1, 2]}), pa.table({"id": [3]}))
    metadata = {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7"}
    inner = {"type": "struct", "fields": [field("x", "integer")]}
    with_fields(table, field("id", "long"), field("n", "integer", **metadata), field("s", inner))
    if deletes:
        table.delete({path: [0]})
    rows = [(2, None, None), (3, None, None)]
    expected = rows if deletes else [(1, None, None), *rows]
    assert sorted(answers(table, "SELECT * FROM t")) == expected
    assert len(answers(table, "SELECT id FROM t WHERE n IS NULL AND s IS NULL")) == len(expected)
    assert answers(table, "SELECT id FROM t WHERE n = 7") == []
    opened = pruner.open_table(table.root)
    opened.create_index("all", on="*")
    assert (opened.plan("n = 7").kept, opened.plan("n IS NULL").kept) == (0, 2)


@pytest.mark.slow
def test_columns_with_rules_for_writers_are_columns(tmp_path: Path):
    """Identity, generation, invariants, constraints: what new rows must meet need not hold for existing ones."""
    table = DeltaLog(tmp_path / "t", (ID, Column("n", "integer"), Column("g", "date")))
    rows = {"id": [1, 2], "n": pa.array([-5, None], pa.int32()), "g": [date(2024, 1, 1), None]}
    table.append(pa.table(rows))
    with_fields(
        table,
        field(
            "id",
            "long",
            **{"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 1},
        ),
        field("n", "integer", **{"delta.invariants": '{"expression": {"expression": "n > 3"}}'}),
        field("g", "date", **{"delta.generationExpression": "CAST(n AS DATE)"}),
        **{"delta.constraints.positive": "n > 0", "delta.appendOnly": "true"},
    )
    wanted = [(1, -5, date(2024, 1, 1)), (2, None, None)]
    assert sorted(answers(table, "SELECT * FROM t")) == wanted
    assert answers(table, "SELECT id FROM t WHERE n < 0") == [(1,)]
    assert answers(table, "SELECT id FROM t WHERE id > 1") == [(2,)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd", "brotli"])
def test_every_codec_and_both_kinds_of_pages(tmp_path: Path, codec: Any, version: Any):
    """In data files and in checkpoints, whatever `delta.parquet.compression.codec` says."""
    settings = {"delta.parquet.compression.codec": "snappy", "delta.parquet.format.version": "1.0.0"}
    table = DeltaLog(tmp_path / "t", (ID, Column("v", "string")), configuration=settings)
    rows = [
        pa.table({"id": list(range(at, at + 5)), "v": [f"v{at + each}" for each in range(5)]})
        for at in (0, 5)
    ]
    for path, each in zip(table.append(*rows), rows, strict=True):
        rewritten(table, path, each, compression=codec, data_page_version=version)
    write_checkpoint(table)
    (checkpoint,) = table.log.glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint, compression=codec, data_page_version=version)
    for number in range(table.version + 1):
        table.commit_file(number).unlink()
    opened = pruner.open_table(table.root)
    opened.create_index("values", on="v", using="bitmap", force=True)
    assert opened.plan("v = 'v7'").kept == 1
    assert sorted(answers(table, "SELECT * FROM t")) == [(at, f"v{at}") for at in range(10)]
    assert answers(table, "SELECT id FROM t WHERE v = 'v7'") == [(7,)]


@pytest.mark.slow
def test_types_in_each_form_that_files_may_have_them_in(tmp_path: Path):
    """Decimals as integers and as bytes, timestamps as INT96, two-level lists: one table with a file of each form."""
    listed = {"type": "array", "elementType": "long", "containsNull": True}
    table = DeltaLog(tmp_path / "t", (ID,))
    with_fields(
        table,
        field("id", "long"),
        field("d", "decimal(9,2)"),
        field("t", "timestamp"),
        field("l", listed),
    )
    table.columns = (ID, Column("d", "decimal(9,2)"), Column("t", "timestamp"))
    forms: list[dict[str, Any]] = [
        {},
        {"store_decimal_as_integer": True},
        {"use_deprecated_int96_timestamps": True},
        {"use_compliant_nested_type": False},
    ]
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456)
    for at, form in enumerate(forms):
        kept: dict[str, Any] = {"d": pa.array([Decimal("1.25") * at], pa.decimal128(9, 2))}
        kept["t"] = pa.array([moment], pa.timestamp("us", "UTC"))
        (path,) = table.append(pa.table({"id": [at], **kept}))
        rows = pa.table({"id": [at], **kept, "l": pa.array([[at, None]], pa.list_(pa.int64()))})
        rewritten(table, path, rows, **form)
    opened = pruner.open_table(table.root)
    for indexed in (False, True):
        if indexed:
            opened.create_index("all", on=["id", "d", "t"])
        found = answers(table, "SELECT id, d, epoch_us(t), l FROM t ORDER BY id")
        micros = (
            (moment - datetime(1970, 1, 1)) // (datetime(1970, 1, 2) - datetime(1970, 1, 1)) * 86_400_000_000
        )
        micros += ((7 * 60 + 8) * 60 + 9) * 1_000_000 + 123456
        assert found == [(at, Decimal("1.25") * at, micros, [at, None]) for at in range(len(forms))]
        assert answers(table, "SELECT id FROM t WHERE d = 2.5") == [(2,)]
        assert (
            len(answers(table, "SELECT id FROM t WHERE t = TIMESTAMPTZ '2024-05-06 07:08:09.123456Z'")) == 4
        )


WIDE = [
    ("byte", "short", [-128, 127, None]),
    ("byte", "long", [-128, 127, None]),
    ("short", "integer", [-(2**15), 7]),
    ("integer", "long", [-(2**31), 2**31 - 1]),
    ("byte", "double", [-128, 1]),
    ("integer", "double", [2**31 - 1, -1]),
    ("float", "double", [0.1, -0.0, math.inf]),
    ("date", "timestamp_ntz", [date(1500, 1, 1), date(2024, 2, 29)]),
    ("decimal(4,2)", "decimal(10,4)", [Decimal("-99.99"), Decimal("0.01")]),
    ("short", "decimal(12,2)", [-5, 6]),
    ("long", "decimal(22,2)", [-(2**63), 2**63 - 1]),
]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(("old", "new", "values"), WIDE)
def test_values_of_files_from_before_a_type_was_widened(
    tmp_path: Path, old: str, new: str, values: list[Any], *, deletes: bool
):
    """They are converted, also inside structs, arrays and maps, and conditions on the new type find them."""
    table = DeltaLog(tmp_path / "t", (ID,), features=("typeWidening", "timestampNtz", "deletionVectors"))
    paths = table.append(*[pa.table({"id": [0]})] * 2)
    held, count = pa.array(values, Column("c", old).arrow().type), len(values)
    wide = Column("c", new).arrow().type
    cast = held.cast(pa.decimal128(38, 0)).cast(wide) if old == "long" else held.cast(wide)
    for at, (path, column) in enumerate(zip(paths, (held, cast), strict=True)):
        rewritten(table, path, pa.table({"id": list(range(at * count, (at + 1) * count)), **_places(column)}))
    with_fields(table, field("id", "long"), *_widened(old, new))
    if deletes:
        table.delete({path: [0] for path in paths})
    expected = [
        (at % count, value) for at, value in enumerate(cast.to_pylist() * 2) if at % count or not deletes
    ]
    for indexed in (False, True):
        if indexed:
            pruner.open_table(table.root).create_index("all", on="*")
        with asked(table) as answer:
            for side in ("c", "s.x", "l[1]", "m[1]"):
                found = answer(f"SELECT id % {count}, {side} FROM t")
                assert sorted(map(repr, found)) == sorted(map(repr, expected)), side
            for at, value in expected[: len(expected) // 2]:
                for side in ("c", "s.x") if value is not None else ():
                    same = f"{side} = '{value}'::{SQL.get(new, new)}"
                    rows = answer(f"SELECT id % {count} FROM t WHERE {same}")
                    assert rows.count((at,)) == 2, same


SQL = {"short": "SMALLINT", "long": "BIGINT", "timestamp_ntz": "TIMESTAMP"}


def _places(values: Any) -> dict[str, Any]:
    """Values as a column, in a struct, in arrays, and in maps."""
    offsets: Any = pa.array(np.arange(len(values) + 1), pa.int32())
    ones = pa.array([1] * len(values), pa.int64())
    return {
        "c": values,
        "s": pa.StructArray.from_arrays([values], ["x"]),
        "l": pa.ListArray.from_arrays(offsets, values),
        "m": pa.MapArray.from_arrays(offsets, ones, values),
    }


def _widened(old: str, new: str) -> list[dict[str, Any]]:
    def changed(name: str, type_: Any, **more: str) -> dict[str, Any]:
        return field(name, type_, **{"delta.typeChanges": [{"fromType": old, "toType": new, **more}]})

    array = {"type": "array", "elementType": new, "containsNull": True}
    of_map = {"type": "map", "keyType": "long", "valueType": new, "valueContainsNull": True}
    return [
        changed("c", new),
        field("s", {"type": "struct", "fields": [changed("x", new)]}),
        changed("l", array, fieldPath="element"),
        changed("m", of_map, fieldPath="value"),
    ]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "type_", ["string", "long", "date", "decimal(5,2)", "boolean", "timestamp", "double"]
)
def test_an_empty_partition_value_is_null(tmp_path: Path, type_: str):
    table = DeltaLog(tmp_path / "t", (ID, Column("p", type_)), partitioned=("p",))
    table.append(pa.table({"id": [1]}), values={"p": ""})
    table.append(pa.table({"id": [2]}), values={"p": None})
    with asked(table) as answer:
        assert sorted(answer("SELECT * FROM t")) == [(1, None), (2, None)]
        assert len(answer("SELECT id FROM t WHERE p IS NULL")) == 2
        assert answer("SELECT id FROM t WHERE p IS NOT NULL") == []


@pytest.mark.slow
def test_numbers_as_partition_values(tmp_path: Path):
    texts = {"1.0": 1.0, "-0.0": -0.0, "1.5E10": 1.5e10, "Infinity": math.inf, "NaN": math.nan, "3": 3.0}
    table = DeltaLog(tmp_path / "t", (ID, Column("p", "double")), partitioned=("p",))
    for at, text in enumerate(texts):
        table.append(pa.table({"id": [at]}), values={"p": text})
    found = answers(table, "SELECT p FROM t ORDER BY id")
    assert [repr(each) for (each,) in found] == [repr(each) for each in texts.values()]
    assert answers(table, "SELECT id FROM t WHERE p = 1.5e10") == [(2,)]
    assert answers(table, "SELECT id FROM t WHERE p > 1e300 ORDER BY id") == [(3,), (4,)]


def test_void_columns_are_left_out(tmp_path: Path):
    """As when Spark reads a table: they have no readable values."""
    table = DeltaLog(tmp_path / "t", (ID,))
    table.append(pa.table({"id": [1]}))
    inner = {"type": "struct", "fields": [field("x", "long"), field("u", "void")]}
    nothing = {"type": "struct", "fields": [field("u", "void")]}
    with_fields(table, field("id", "long"), field("n", "void"), field("s", inner), field("o", nothing))
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        found = con.sql("SELECT * FROM t")
        assert (found.columns, list(map(str, found.types))) == (["id", "s"], ["BIGINT", "STRUCT(x BIGINT)"])
        assert found.fetchall() == [(1, None)]


PARTITIONS = [
    ("integer", "long", ["5", "-3"]),
    ("byte", "double", ["5", "-3"]),
    ("date", "timestamp_ntz", ["2024-01-01", "1500-02-03"]),
    ("decimal(4,2)", "decimal(10,4)", ["1.50", "-0.01"]),
    ("integer", "decimal(12,2)", ["5", "-7"]),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("old", "new", "texts"), PARTITIONS)
def test_partition_values_from_before_a_type_was_widened(
    tmp_path: Path, old: str, new: str, texts: list[str]
):
    """The log still has them as texts of the former type."""
    table = DeltaLog(tmp_path / "t", (ID, Column("p", old)), ("p",), features=("typeWidening",))
    for at, text in enumerate(texts):
        table.append(pa.table({"id": [at]}), values={"p": text})
    pruner.open_table(table.root).create_index("all", on="*")
    table.widen("p", new)
    with asked(table) as answer:
        for at, text in enumerate(texts):
            assert answer(f"SELECT id FROM t WHERE p = '{text}'::{SQL.get(new, new)}") == [(at,)]
        for end in ("max", "min"):
            wanted = [(0 if end == "max" else 1,)]
            assert answer(f"SELECT id FROM t WHERE p = (SELECT {end}(p) FROM t)") == wanted
            assert answer(f"SELECT arg_{end}(id, p) FROM t") == wanted


@pytest.mark.slow
def test_a_partition_column_that_is_renamed_and_one_that_takes_its_name(tmp_path: Path):
    columns = (Column("id", "long", *made_up(1)), Column("p", "string", *made_up(2)))
    table = DeltaLog(tmp_path / "t", columns, ("p",), mapping="name", features=("deletionVectors",))
    paths = [table.append(pa.table({"id": [at, at + 10]}), values={"p": f"x{at}"})[0] for at in range(3)]
    opened = pruner.open_table(table.root)
    opened.create_index("all", on="*")
    table.partitioned = ("w",)
    table.rename("p", "w")
    table.delete({paths[1]: [1]})
    assert answers(table, "SELECT * FROM t WHERE w = 'x1'") == [(1, "x1")]
    assert opened.plan("w = 'x1'").kept == 1
    table.add_column("p", "string")
    assert answers(table, "SELECT id FROM t WHERE p = 'x1'") == []
    assert len(answers(table, "SELECT id FROM t WHERE p IS NULL")) == 5


BUILD = """
import sys, pruner
table = pruner.open_table(sys.argv[1])
for turn, ending in enumerate(("", sys.argv[2])):
    for using, column in (("bitmap", "id"), ("column_stats", "v"), ("record_index", "v")):
        try:
            table.create_index(using + ending, on=column, using=using, force=True)
        except pruner.PrunerError as error:
            assert not ending and "already exists" in str(error), error
    table.refresh()
try:
    table.compact()
except pruner.PrunerError as error:
    assert "another writer" in str(error), error
"""


@pytest.mark.processes
def test_two_processes_that_index_one_table_while_it_changes(tmp_path: Path):
    columns = (ID, Column("v", "string"))
    table = DeltaLog(tmp_path / "t", columns, features=("deletionVectors",))

    def append(*starts: int) -> list[str]:
        rows = ({"id": [at, at + 1], "v": [f"v{at}", f"v{at + 1}"]} for at in starts)
        return table.append(*(pa.table(each) for each in rows))

    paths = append(*range(0, 40, 2))
    table.delete({paths[3]: [1]})
    command = [sys.executable, "-c", BUILD, str(table.root)]
    both = [subprocess.Popen([*command, number], stderr=subprocess.PIPE, text=True) for number in "12"]
    for at in range(40, 50, 2):
        append(at)
        table.delete({paths[at // 2 - 10]: [0]})
    for each in both:
        assert each.communicate()[1] == ""
        assert each.returncode == 0
    opened = pruner.open_table(table.root)
    opened.refresh()
    assert [each.covered for each in opened.status().indexes] == [len(table.files)] * 9
    rows = table.rows().column("id").to_pylist()
    with asked(table) as answer:
        for at in range(50):
            wanted = [(at,)] if at in rows else []
            for condition in (f"id = {at}", f"v = 'v{at}'"):
                assert answer(f"SELECT id FROM t WHERE {condition}") == wanted
                assert opened.plan(condition).kept == 1
