"""DuckDB over a table in an S3-compatible server, in a separate process: through httpfs, or its own file system."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.storage.opening import open_store
from tests.support.parquet.types import without_logical_type
from tests.support.stores.object_store import (
    FILES,
    QUESTIONS,
    ROWS,
    SETTLED_SECONDS,
    TABLE,
    ObjectStore,
    figure,
    object_store,
    python_of_the_store,
)
from tools.matrix import ROOT

pytestmark = pytest.mark.processes

_CONNECT = """
import json, os, pathlib, sys
import duckdb, pruner, pruner_duckdb

def connected(httpfs=True):
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    if httpfs:
        packages = pathlib.Path(duckdb.__file__).parent.parent
        (extension,) = packages.glob("duckdb_extension_httpfs/**/httpfs.duckdb_extension*")
        con.execute(f"LOAD '{extension}'")
    return con

def give(con, options):
    con.execute(
        f"CREATE SECRET own (TYPE s3, KEY_ID '{options['aws_access_key_id']}', "
        f"SECRET '{options['aws_secret_access_key']}', REGION '{options['region']}', URL_STYLE 'path', USE_SSL false, "
        f"ENDPOINT '{options['endpoint'].removeprefix('http://')}')"
    )
"""
"""The beginning of each script run by a process of the DuckDB that has httpfs."""

_ASK = """
table, options, questions, way, own = json.loads(sys.stdin.read())
con = connected(way == "httpfs")
if own is not None:
    give(con, own)
if way in ("file system", "store"):
    import fsspec
    from obstore.fsspec import FsspecStore, register
    config = {"aws_" + key.removeprefix("aws_"): options[key] for key in options if key != "allow_http"}
    if way == "store":
        made = FsspecStore("s3", config=config, client_options={"allow_http": True})
    else:
        register("s3")
        made = fsspec.filesystem("s3", config=config, client_options={"allow_http": True})
    con.register_filesystem(made)
con = pruner_duckdb.attach(con, {"flights": {"uri": table, "storage_options": options}})
print(json.dumps([con.sql(f"SELECT id FROM flights WHERE {each} ORDER BY id").fetchall() for each in questions]))
if way in ("file system", "store"):
    # A thread of that file system (obstore's, for asyncio) may tell a result while Python ends, which aborts it.
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.write()
        running.open().create_index("i", on=["id", "city"])
        yield running


def ask(
    options: Mapping[str, str],
    questions: list[str],
    way: str = "httpfs",
    *,
    own: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[list[int]]:
    """The ids that DuckDB finds for each question.

    Args:
        options: the table's storage options.
        questions: predicates.
        way: how DuckDB reaches the store.
        own: the values of a secret of the session.
        environment: environment variables of the process.
    """
    question = [TABLE, dict(options), questions, way, own and dict(own)]
    return [[row[0] for row in rows] for rows in _printed(_ASK, question, environment)]


def _printed(script: str, question: list[Any], environment: Mapping[str, str] | None = None) -> Any:
    """The output of a script for a question, in a process of the DuckDB that has httpfs."""
    run = subprocess.run(
        [python_of_the_store(), "-c", _CONNECT + script],
        input=json.dumps(question),
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_each_question_reads_the_files_of_its_rows(
    store: ObjectStore, record_property: Callable[[str, object], None]
) -> None:
    for question, (ids, files) in QUESTIONS.items():
        store.proxy.forget()
        assert ask(store.options, [question]) == [ids]
        assert files <= (read := store.files_read())
        assert len(read) <= max(1, len(files)), "one file may be read for the schema"
    store.proxy.forget()
    ask(store.options, ["id BETWEEN 310 AND 312"])
    record_property(*figure("a process with DuckDB and a statement for one file", store.counted()))


def test_all_rows_without_a_predicate(store: ObjectStore) -> None:
    assert ask(store.options, ["true"]) == [list(range(FILES * ROWS))]


_RUN = """
table, options, statements = json.loads(sys.stdin.read())
con = pruner_duckdb.attach(connected(), {"t": {"uri": table, "storage_options": options}})
found = []
for statement in statements:
    if statement.startswith(("PUT ", "EMPTY ", "DELETE ")):
        way, name, like = statement.split(" ")
        from pruner.storage.opening import open_store
        store = open_store(table, options)
        if way == "DELETE":
            store.delete([name])
        else:
            store.put_new(name, store.get(like, 1 << 20) if way == "PUT" else b"")
        found.append(None)
        continue
    found.append([con.execute(statement).fetchall(), con.last_plans[-1].kept])
print(json.dumps(found))
"""


def whole_table(store: ObjectStore, root: str, names: list[str]) -> None:
    """Write files of ten rows each, numbered from ten times the position of the file's name."""
    opened = open_store(root, store.options)
    for number, name in enumerate(names):
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}), sink)
        opened.put_new(name, sink.getvalue())
    time.sleep(SETTLED_SECONDS)
    pruner.open_table(root, storage_options=store.options).create_index("ids", on="id")


FLAT = [f"f{number}.parquet" for number in range(6)]
PARTITIONED = [f"day={number % 2}/hour={number % 3}/f{number}.parquet" for number in range(6)]
ALL = [[[60, 1770]], 6]


@pytest.mark.parametrize("names", [FLAT, PARTITIONED], ids=["flat", "partitioned"])
def test_where_nothing_is_pruned_no_file_is_asked_for_its_size(store: ObjectStore, names: list[str]) -> None:
    """A list took a HEAD for each file, one after the other; DuckDB alone learns sizes from its own listing."""
    root = f"s3://lake/whole-{len(names[0])}"
    whole_table(store, root, names)
    statements = ["SELECT count(id), sum(id) FROM t", "SELECT count(id), sum(id) FROM t WHERE id >= 0"]
    store.proxy.forget()
    assert _printed(_RUN, [root, store.options, statements]) == [ALL, ALL]
    kinds = Counter(each.kind for each in store.proxy.requests if each.key.endswith(".parquet"))
    assert kinds["HEAD"] == 0, kinds
    # A subset of the files is a list, and so is a table that is read twice: both scans use one snapshot.
    store.proxy.forget()
    twice = "SELECT count(*) FROM t AS a JOIN t AS b USING (id)"
    few = "SELECT count(id), sum(id) FROM t WHERE id < 50"
    assert _printed(_RUN, [root, store.options, [twice, few]]) == [[[[60]], 6], [[[50, 1225]], 5]]
    kinds = Counter(each.kind for each in store.proxy.requests if each.key.endswith(".parquet"))
    assert kinds["HEAD"] >= 6, kinds


def test_of_some_partitions_the_files_are_named(store: ObjectStore) -> None:
    """Reading a folder by pattern beside files by name would show half of what a writer moves between them: 11 of 222
    statements lost ten rows.
    """
    root = "s3://lake/days"
    names = [f"day={day}/f{number}.parquet" for day in (1, 3) for number in range(5 if day < 3 else 2)]
    whole_table(store, root, [*names, "day=2/f0.parquet"])
    move = ["PUT day=3/moved.parquet day=1/f0.parquet", "DELETE day=1/f0.parquet day=1/f0.parquet"]
    both = "SELECT count(id), sum(id) FROM t WHERE day IN (1, 3)"
    kept = [[[70, 2415]], 7]
    store.proxy.forget()
    assert _printed(_RUN, [root, store.options, [both, *move, both]]) == [kept, None, None, kept]
    heads = {each.key for each in store.proxy.requests if each.kind == "HEAD" and "/f" in each.key}
    assert len(heads) == 7, heads


def test_what_does_not_belong_to_the_table_is_not_read_by_its_pattern(store: ObjectStore) -> None:
    root = "s3://lake/temporary"
    whole_table(store, root, FLAT)
    count = "SELECT count(id), sum(id) FROM t"
    changes = [
        f"PUT {name} f1.parquet"
        for name in ("_temporary/0/f1.parquet", "_f1.parquet", ".f1.parquet", "f1.parquet._COPYING_")
    ]
    statements = [each for change in changes for each in (change, count)]
    assert _printed(_RUN, [root, store.options, [count, *statements]]) == [ALL, *[None, ALL] * len(changes)]
    # A file named like one of the table's that is not a Parquet file: DuckDB alone fails on it.
    statements = ["EMPTY empty.parquet f1.parquet", count, "PUT f6.parquet f5.parquet", count]
    more = [[[70, 1770 + 545]], 7]
    assert _printed(_RUN, [root, store.options, [count, *statements]]) == [ALL, None, ALL, None, more]


@pytest.mark.parametrize("way", ["file system", "store"])
def test_a_file_system_of_the_session_serves_where_there_is_no_httpfs(store: ObjectStore, way: str) -> None:
    store.proxy.forget()
    assert ask(store.options, ["id BETWEEN 310 AND 312"], way) == [[310, 311, 312]]
    # The footer of the first file shows whether such a store can be read, since it lists nothing by pattern.
    assert store.files_read() == ({0, 3} if way == "store" else {3})
    assert ask(store.options, ["true"], way) == [list(range(FILES * ROWS))]
    with pytest.raises(AssertionError, match="register a file system for s3:// with this connection"):
        ask(store.options, ["true"], "nothing")


TYPED = "s3://lake/typed"
TYPES_ASKED: dict[str, int] = {
    "seen >= TIMESTAMPTZ '2024-03-04 06:00:00+00' AND seen < TIMESTAMPTZ '2024-03-04 09:00:00+00'": 1,
    "seen = '2024-03-05 19:30:00-05'": 1,
    "wall = '2024-03-05'": 1,
    "wall < '2024-03-02 04:00:00'": 2,
    "price > 6.5": 1,
    "price = 3.00": 1,
    "item.n = 6": 1,
    "item.price BETWEEN 2.00 AND 2.50": 1,
    "timed.wall = '2024-03-05'": 8,  # DuckDB reads this field unlike Arrow, and its whole struct is left alone
    "timed.n = 5": 8,
    "seen < wall + INTERVAL 6 HOUR": 8,
    "clock = TIMETZ '05:00:00+00'": 8,
    "mixed = 3.5": 8,  # the first file has integers, the others doubles: all were read as integers
}
"""Conditions of a session in New York, and how many of eight files are kept, one file for each day of March."""

_COMPARE = """
table, options, conditions = json.loads(sys.stdin.read())
plain, inner = connected(), connected()
for each in (plain, inner):
    each.execute("SET TimeZone = 'America/New_York'")
give(plain, options)
plain.execute(f"CREATE TABLE copied AS FROM read_parquet('{table}/*.parquet', union_by_name = true)")
pruned = pruner_duckdb.attach(inner, {"copied": {"uri": table, "storage_options": options}})
found = []
for each in conditions:
    statement = f"SELECT * FROM copied WHERE {each} ORDER BY id"
    rows = plain.sql(statement).fetchall()
    same = pruned.execute(statement).fetchall() == rows
    found.append([len(rows), same, pruned.last_plans[-1].kept])
types = [list(map(str, relation.types)) for relation in (pruned.sql("FROM copied"), plain.table("copied"))]
print(json.dumps([found, *types]))
"""


def test_found_columns_of_types_that_duckdb_spells_otherwise_prune_in_a_store(
    store: ObjectStore, tmp_path: Path
) -> None:
    """DuckDB is not asked how it reads files of a store: instants, decimals and structs kept every file.

    Types that it reads unlike Arrow, such as `TIMESTAMP_MICROS` without a logical type (trap S20), lose no row.
    """
    opened = open_store(TYPED, store.options)
    for number in range(FILES):
        opened.put_new(f"{number}.parquet", _typed(tmp_path / f"{number}.parquet", number).read_bytes())
    time.sleep(SETTLED_SECONDS)
    columns = ["seen", "wall", "price", "item.n", "item.price", "timed.n", "timed.wall"]
    pruner.open_table(TYPED, storage_options=store.options).create_index("typed", on=columns)
    found, types, expected = _printed(_COMPARE, [TYPED, store.options, list(TYPES_ASKED)])
    assert types == expected
    for (condition, kept), (rows, same, files) in zip(TYPES_ASKED.items(), found, strict=True):
        assert same, f"LOST: {condition}"
        assert (files, rows > 0) == (kept, True), condition


def _typed(path: Path, number: int) -> Path:
    """A file for one day: hours of a day as instants, and as wall clocks by their converted type alone."""
    hours = range(24)
    start = datetime.datetime(2024, 3, 1 + number)
    moments = pa.array([start + datetime.timedelta(minutes=60 * hour) for hour in hours], pa.timestamp("us"))
    halves = pa.array(
        [start + datetime.timedelta(minutes=60 * hour + 30) for hour in hours], pa.timestamp("us")
    )
    prices = pa.array(
        [decimal.Decimal(100 * number + hour).scaleb(-2) for hour in hours], pa.decimal128(9, 2)
    )
    numbers = pa.array([number] * 24, pa.int32())
    item = pa.StructArray.from_arrays([numbers, prices], ["n", "price"])
    walls = moments.cast(pa.timestamp("us", "UTC"))
    timed = pa.StructArray.from_arrays([numbers, walls], ["n", "wall"])
    columns = {
        "id": pa.array([100 * number + hour for hour in hours], pa.int64()),
        "seen": halves.cast(pa.timestamp("us", "UTC")),
        "wall": walls,
        "price": prices,
        "item": item,
        "timed": timed,
        "clock": pa.array([datetime.time(hour) for hour in hours], pa.time64("us")),
        "mixed": pa.array([number + number % 2 / 2] * 24, pa.float64() if number else pa.int64()),
    }
    pq.write_table(pa.table(columns), path, store_schema=False)
    return without_logical_type(path, "wall")


def test_relations_of_this_duckdb_stay_lazy(tmp_path: Path) -> None:
    """DuckDB 1.5 runs a relation with parameters at once: from then on its rows are a list of VALUES."""
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "0.parquet")
    code = (
        "import sys, duckdb, pruner_duckdb; con = pruner_duckdb.connect({'t': sys.argv[1]}); "
        "print(duckdb.__version__, con.sql('FROM t WHERE id > 5').limit(3).explain())"
    )
    run = subprocess.run(
        [python_of_the_store(), "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("1.5")
    assert "PARQUET" in run.stdout


def test_options_then_the_environment_count_over_secrets_of_the_session(store: ObjectStore) -> None:
    """The store accepts one key. Only a table without any options is read with the session's own secrets."""
    question, ids = "id BETWEEN 310 AND 312", [310, 311, 312]
    right, names = store.options, ("aws_access_key_id", "aws_secret_access_key")
    wrong = right | dict.fromkeys(names, "another")
    without = {name: value for name, value in right.items() if name not in names}
    known = {name.upper(): right[name] for name in names}
    assert ask(right, [question], own=wrong, environment=dict.fromkeys(known, "another")) == [ids]
    assert ask(without, [question], own=wrong, environment=known) == [ids]
    place = {"AWS_ENDPOINT": right["endpoint"], "AWS_ALLOW_HTTP": "true", "AWS_REGION": right["region"]}
    assert ask({}, [question], own=right, environment=known | place) == [ids]
    with pytest.raises(AssertionError, match=r"403|InvalidAccessKeyId|Forbidden"):
        ask({}, [question], own=wrong, environment=known | place)


_SESSIONS = """
from pruner_duckdb.catalog.stores import grant

table, options, more = json.loads(sys.stdin.read())
con = connected()
def first(sql, values):
    return con.execute(sql, values).fetchall()[0]
def used(place):
    names = "SELECT name FROM which_secret(?, 's3')"
    row = first(f"SELECT list(secret_string) FROM duckdb_secrets() WHERE name IN ({names})", [place])
    return [text.split("key_id=")[1].split(";")[0] for text in row[0] or ()]
keys = []
for number in [*range(8), 0, 0, 5]:
    grant(first, "t", table, options | {"aws_access_key_id": f"key-{number}"})
    keys += used(f"{table}/0.parquet")
neighbour = used(f"{table}2/0.parquet")
right = pruner_duckdb.attach(con, {"t": {"uri": [table, more], "storage_options": options}})
rows = right.execute("SELECT count(*), max(id) FROM t WHERE id <> 5").fetchall()
rows += right.sql("SELECT count(*), max(id) FROM t WHERE id <> 6").fetchall()
print(json.dumps([keys, neighbour, rows]))
"""


def test_a_secret_serves_the_files_of_its_table_alone_and_the_options_given_last(store: ObjectStore) -> None:
    """A table of several roots had a secret for the first only; a folder with a similar name was read with it; and of
    two with the same scope DuckDB took the one whose name came first: with an expired key, or that of another session.
    """
    more = "s3://lake/more"
    columns = pa.table({"id": pa.array([5000, 5001], pa.int64()), "city": ["c9", "c9"]})
    sink = pa.BufferOutputStream()
    pq.write_table(columns, sink)
    open_store(more, store.options).put_new("day=1/0.parquet", sink.getvalue().to_pybytes())
    keys, neighbour, rows = _printed(_SESSIONS, [TABLE, store.options, more])
    assert keys == [f"key-{number}" for number in [*range(8), 0, 0, 5]]
    assert neighbour == []
    assert rows == [[FILES * ROWS + 1, 5001]] * 2
