"""Rows that the Trino plugin lost, and secrets and memory that it could have lost, through a real Trino.

Expected rows are those of the plain catalog of the same server with `parquet_ignore_statistics`: Trino's own pruning
takes the table's type for the files'.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pruner
from tests.support.service.gate import Behaviour
from tests.support.service.planner import running_service
from tests.support.trino.tables import Registered, TrinoTables, write_plain

pytestmark = pytest.mark.trino


def _check(table: Registered, expected: Mapping[str, tuple[int, int]], **session: str) -> None:
    """Compare rows and splits of predicates with the expected ones; rows also with the plain catalog's."""
    session = {"parquet_ignore_statistics": "true", **session}
    for where, (rows, splits) in expected.items():
        found = table.run(where, **{f"pruned_hive.{key}": value for key, value in session.items()})
        plain = table.run(where, "hive", **{f"hive.{key}": value for key, value in session.items()})
        assert found.rows == plain.rows == [(rows,)], where
        assert table.splits(found) == splits, where


def _change_partitions(table: Registered, change: Callable[[str, Any], None]) -> None:
    """Change the metastore's entry of each partition of a table, by the name of its folder."""
    for folder in (table.trino.metastore.folder / table.schema / table.name).glob("*=*"):
        file = folder / ".trinoSchema"
        content = json.loads(file.read_text(encoding="utf-8"))
        change(folder.name, content)
        file.write_text(json.dumps(content), encoding="utf-8")


def test_columns_that_are_read_by_position(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """A session that reads columns by position takes `a` for `b`: nothing is known of them by name."""
    for number in range(4):
        rows = pa.table({"a": pa.array([number], pa.int64()), "b": pa.array([number * 10], pa.int64())})
        write_plain(tmp_path / "lake" / f"part-{number}.parquet", rows)
    table = trino_tables.register(tmp_path / "lake", {"b": "bigint", "a": "bigint"})
    _check(table, {"b = 20": (1, 1), "a = 20": (0, 1)})
    table.trino.gate.forget()
    _check(table, {"b = 2": (1, 4), "a = 20": (1, 4)}, parquet_use_column_names="false")
    assert table.trino.gate.requests == []


def _partitioned(tables: TrinoTables, root: Path) -> Registered:
    """Four folders `p=0` to `p=3`, each with its number as `n`."""
    for number in range(4):
        rows = pa.table({"n": pa.array([number], pa.int64())})
        write_plain(root / f"p={number}" / "part.parquet", rows)
    return tables.register(root, {"n": "bigint", "p": "bigint"}, partition_by="p")


def test_partitions_that_lie_somewhere_else(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """The metastore defines a partition's value, whatever its folder is named; files still prune."""
    table = _partitioned(trino_tables, tmp_path / "lake")
    _check(table, {"p = 2 OR n = 3": (2, 2), "p > 1 AND n < 3": (1, 1)})

    def move(folder: str, content: Any) -> None:
        place = (int(folder.removeprefix("p=")) + 1) % 4
        content["externalLocation"] = f"local://{table.root}/p={place}"

    _change_partitions(table, move)
    # p = 1 now has n = 2, and so on.
    _check(
        table,
        {"p = 2": (1, 1), "p = 2 OR n = 2": (2, 4), "p > 0 AND n = 3": (1, 1), "p = 0 AND n = 0": (0, 1)},
    )


def test_columns_of_files_in_folders_of_their_name(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """A column that the metastore takes from the files is NULL in files without it, whatever the folders are named."""
    table = _partitioned(trino_tables, tmp_path / "lake")
    folder = table.trino.metastore.folder / table.schema / table.name
    content = json.loads((folder / ".trinoSchema").read_text(encoding="utf-8"))
    content["dataColumns"].append(content["partitionColumns"].pop() | {"name": "p"})
    content["partitionColumns"].append({"name": "q", "type": "bigint", "properties": {}})
    (folder / ".trinoSchema").write_text(json.dumps(content), encoding="utf-8")

    def columns(_: str, partition: Any) -> None:
        partition["columns"] = content["dataColumns"]

    _change_partitions(table, columns)
    for number in range(4):
        (folder / f"p={number}").rename(folder / f"q={number}")
    _check(table, {"p IS NULL": (4, 4), "p IS NULL AND n = 2": (1, 1), "q = 1 AND n = 1": (1, 1)})


def test_text_that_a_partition_cuts(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """A partition that declares `varchar(2)` cuts its text before the table's type is applied; integers only widen."""
    for number, text in enumerate(("abcdef", "ab", "zz")):
        rows = pa.table({"x": pa.array([text]), "n": pa.array([number], pa.int32())})
        write_plain(tmp_path / "lake" / f"p={number}" / "part.parquet", rows)
    columns = {"x": "string", "n": "bigint", "p": "bigint"}
    table = trino_tables.register(tmp_path / "lake", columns, partition_by="p")
    _check(table, {"x = 'ab'": (1, 1)})

    def declare(column: int, type_: str) -> Callable[[str, Any], None]:
        return lambda _, content: content["columns"][column].update(type=type_)

    _change_partitions(table, declare(1, "int"))
    _check(table, {"x = 'ab'": (1, 1), "n = 1": (1, 1)})
    _change_partitions(table, declare(0, "varchar(2)"))
    _check(table, {"x = 'ab'": (2, 3), "x = 'zz'": (1, 3)})


@pytest.mark.parametrize("rounded", ["decimal(9,1)", "decimal(5,1)"])
def test_found_decimals_that_a_partition_rounds(
    trino_tables: TrinoTables, tmp_path: Path, rounded: str
) -> None:
    """A partition that declares fewer digits rounds its decimals before the table's type is applied: 1.25 is 1.30."""
    for number, text in enumerate(("1.25", "1.30", "7.00")):
        x = pa.array([Decimal(text)], pa.decimal128(9, 2))
        inner = pa.StructArray.from_arrays([x], ["y"])
        write_plain(tmp_path / "lake" / f"p={number}" / "part.parquet", pa.table({"x": x, "s": inner}))
    columns = {"x": "decimal(9,2)", "s": "struct<y:decimal(9,2)>", "p": "bigint"}
    table = trino_tables.register(tmp_path / "lake", columns, partition_by="p")
    _check(table, {"x = 1.30": (1, 1), "s.y = 1.30": (1, 1)})
    _change_partitions(table, lambda _, content: content["columns"][0].update(type=rounded))
    _check(table, {"x = 1.30": (2, 3), "x = 1.25": (0, 3), "x > 5": (1, 3)})
    _change_partitions(table, lambda _, content: content["columns"][0].update(type="decimal(9,2)"))
    _change_partitions(table, lambda _, content: content["columns"][1].update(type=f"struct<y:{rounded}>"))
    _check(table, {"s.y = 1.30": (2, 3), "s.y = 1.25": (0, 3)})


def test_files_written_anew_since_the_service_looked(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """A service that may answer from a stale listing (`max_staleness`) says so: files modified since then are read."""
    for number in range(4):
        rows = pa.table({"n": pa.array([number * 10, number * 10 + 1], pa.int64())})
        write_plain(tmp_path / "lake" / f"part-{number}.parquet", rows)
    table = trino_tables.register(tmp_path / "lake", {"n": "bigint"})
    config = tmp_path / f"{table.name}.toml"
    config.write_text(config.read_text(encoding="utf-8") + "max_staleness = 600\n", encoding="utf-8")
    table.trino.gate.target = trino_tables.running.enter_context(running_service(config))
    _check(table, {"n = 21": (1, 1)})
    write_plain(table.root / "part-0.parquet", pa.table({"n": pa.array([0, 21], pa.int64())}))
    before = time.time() - 60
    os.utime(table.root / "part-0.parquet", (before, before))
    _check(table, {"n = 21": (2, 2)})


def test_answers_without_end_are_not_taken(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """The plugin reads no more of a response than a valid one can have; the scan is read whole."""
    for number in range(2):
        rows = pa.table({"n": pa.array([number], pa.int64())})
        write_plain(tmp_path / "lake" / f"part-{number}.parquet", rows)
    table = trino_tables.register(tmp_path / "lake", {"n": "bigint"})
    with table.trino.gate.behaving(Behaviour(body=b"{}" + b" " * 17 * 1024 * 1024)):
        _check(table, {"n = 1": (1, 2)})
    assert f"longer than {16 * 1024 * 1024} bytes" in table.trino.server.log
    _check(table, {"n = 1": (1, 1)})


def test_requests_that_nobody_waits_for_are_cancelled(
    trino_tables: TrinoTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the timeout the scan went on and the request stayed open, one for each scan of a hanging service."""
    write_plain(tmp_path / "lake" / "part-0.parquet", pa.table({"n": pa.array([1], pa.int64())}))
    table = trino_tables.register(tmp_path / "lake", {"n": "bigint"})
    closed: list[bytes] = []

    def hang(handler: BaseHTTPRequestHandler, _: bytes | None) -> None:
        handler.connection.settimeout(20)
        closed.append(handler.connection.recv(1))
        handler.close_connection = True

    monkeypatch.setattr(table.trino.gate, "serve", hang)
    assert table.run("n = 1", "pruned_hasty").rows == [(1,)]
    deadline = time.monotonic() + 10
    while not closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert closed == [b""]


def test_a_table_that_is_not_found_is_asked_for_by_all_names_again(
    trino_tables: TrinoTables, hudi_table: Callable[[str], Path]
) -> None:
    """The name that had worked was requested until the restart, whatever the configuration had become."""
    table = trino_tables.register(
        hudi_table("cow_unpartitioned_v9"), {"id": "bigint", "fare": "double"}, hudi=True
    )
    gate = table.trino.gate

    def asked() -> list[str]:
        gate.forget()
        assert table.run("id > 0", "pruned_hudi").rows == table.run("id > 0", "hudi").rows
        return [request["table"] for request in gate.requests]

    names = [f"pruned_hudi.{table.schema}.{table.name}", f"local://{table.root}"]
    assert asked() == names
    assert asked() == names[1:]
    with gate.behaving(Behaviour(status=404)):
        assert asked() == names[1:]
    assert asked() == names


LISTS = (
    "n NOT IN (1, 2, NULL)",
    "n IN (1, 2, NULL)",
    "NOT (n IN (2, 1, NULL))",
    "(n IN (1, 2, NULL)) IS NULL",
)


def test_found_lists_of_neighbours_with_null(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Trino 483 turns `n IN (1, 2, NULL)` into `n IS NULL OR n BETWEEN 1 AND 2`, so that NOT IN is true for 3.

    A plan for such text dropped every file. In SQL it would be NULL.
    """
    root = tmp_path / "lake"
    for number in (0, 1, 2, 3, None):
        write_plain(root / f"part-{number}.parquet", pa.table({"n": pa.array([number], pa.int64())}))
    table = trino_tables.register(root, {"n": "bigint"})
    pinned = pruner.open_table(root).snapshot()
    for text in LISTS:
        sql = f'SELECT "$path" FROM {table.name} WHERE {text}'
        found = table.trino.run(sql, catalog="hive", schema=table.schema).rows
        rows = {row[0].rpartition("/")[2] for row in found}
        kept = {file.rpartition("/")[2] for file in pinned.plan(text, dialect="trino").files}
        assert rows <= kept, text
    assert len(pinned.plan(LISTS[1], dialect="trino").files) == 3
