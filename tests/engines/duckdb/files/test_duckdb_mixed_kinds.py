"""Columns whose types differ between files: types and NULLs are those of DuckDB's own union of the files by name."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

_STRUCT = pa.struct([("a", pa.int32())])
_NESTED = pa.struct([("a", pa.struct([("b", pa.int32())]))])


def _x(values: list[Any], type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(values, type_)})


KINDS: dict[str, tuple[pa.Table, pa.Table]] = {
    "integer and double": (_x([1, None]), _x([1.5, None])),
    "integer and text": (_x([1, None]), _x(["a", None])),
    "a file without the column": (_x([1, None]), pa.table({"y": [1, 2]})),
    "decimals": (_x([Decimal("1.5")], pa.decimal128(9, 2)), _x([Decimal("1.5"), None], pa.decimal128(12, 3))),
    "date and timestamp": (_x([datetime.date(2020, 1, 1), None]), _x([datetime.datetime(2020, 1, 1, 1)])),
    "a struct with a further field": (
        _x([{"a": 1}, None, {"a": None}], _STRUCT),
        _x([{"a": 1, "b": "q"}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ),
    "structs of integer and double": (
        _x([{"a": 1}, None], _STRUCT),
        _x([{"a": 2.5}, {"a": None}, None], pa.struct([("a", pa.float64())])),
    ),
    "a file without the struct": (_x([{"a": 1}, None], _STRUCT), pa.table({"y": [1, 2]})),
    "structs in structs": (
        _x([{"a": {"b": 1}}, {"a": None}, None], _NESTED),
        _x(
            [{"a": {"b": 1, "c": 2}}, None],
            pa.struct([("a", pa.struct([("b", pa.int32()), ("c", pa.int32())]))]),
        ),
    ),
    "lists": (_x([[1], None]), _x([[1.5], None])),
    "times": (_x([1000, None], pa.time32("ms")), _x([1001], pa.time64("us"))),
    "16-bit and 32-bit floats": (_x([1.5], pa.float16()), _x([1.5, None], pa.float32())),
    "UUIDs and bytes": (_x([b"a" * 16], pa.uuid()), _x([b"a" * 16, None], pa.binary(16))),
}

QUERIES = (
    "SELECT typeof(x), x IS NULL, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT count(*), count(x) FROM {t} WHERE x IS NULL",
    "SELECT x, x::VARCHAR FROM {t} WHERE x IS NOT NULL ORDER BY 2",
    "SELECT typeof(x) FROM {t} WHERE id = 0 LIMIT 1",
    "SELECT typeof(x), x FROM {t} WHERE id = 1 ORDER BY x::VARCHAR",
    "SELECT count(*) FROM {t} WHERE id = 1 AND x IS NULL",
    "SELECT count(*) FROM {t} WHERE typeof(x) = 'DOUBLE'",
    "SELECT typeof(x.a), x.a IS NULL, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT typeof(x), id FROM {t} LIMIT 3 OFFSET 1",
)


def answer(connection: Any, query: str) -> str:
    """The rows, or the type of the error: its message includes the name of what is scanned."""
    try:
        return repr(connection.execute(query).fetchall())
    except duckdb.Error as error:
        return type(error).__name__


CASES = [(kind, later_first) for kind in KINDS for later_first in (False, True)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of each case, named by the case's number."""
    lake = tmp_path_factory.mktemp("kinds")
    for case, (kind, later_first) in enumerate(CASES):
        (lake / f"t{case}").mkdir()
        for number, table in enumerate(reversed(KINDS[kind]) if later_first else KINDS[kind]):
            numbered = table.append_column("id", pa.array([number] * table.num_rows))
            pq.write_table(numbered, lake / f"t{case}/{number}.parquet")
    return lake


@pytest.fixture(scope="module")
def connection(lake: Path) -> Iterator[pruner_duckdb.Connection]:
    """One connection over all of them: opening it costs as much as the queries of several."""
    tables = {f"t{case}": pruner.open_table(str(lake / f"t{case}")) for case in range(len(CASES))}
    for opened in tables.values():
        opened.create_index("ids", on="id")
    with pruner_duckdb.connect(tables) as opened:
        yield opened


@pytest.mark.rewriting
@pytest.mark.sampled(48)
@pytest.mark.parametrize("case", range(len(CASES)), ids=map(str, CASES))
def test_types_and_nulls_are_those_of_the_union_by_name(
    lake: Path, connection: pruner_duckdb.Connection, case: int
) -> None:
    table = f"t{case}"
    plain = f"read_parquet('{lake}/{table}/*.parquet', union_by_name = true)"
    with plain_duckdb.session() as judge:
        for query in QUERIES:
            assert answer(connection, query.format(t=table)) == answer(judge, query.format(t=plain)), query
            assert connection.last_plans[-1].kept == (1 if "id =" in query else 2), query


@pytest.mark.parametrize("condition", ["x >= 0", "true", "id % 2 = 0"])
@pytest.mark.parametrize("shown", ["*", "id, x", "id"])
def test_pages_without_an_order_are_those_of_duckdb(tmp_path: Path, shown: str, condition: str) -> None:
    """Early pages are read from few files and late ones from all, in the order of the files whatever their kinds."""
    for number in range(8):
        rows = _x([number, number], pa.int64() if number % 3 == 1 else pa.int32())
        if number % 2:
            rows = rows.append_column("y", pa.array(["a", "b"]))
        rows = rows.append_column("id", pa.array([number * 10, number * 10 + 1]))
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("stats", on="*")
    plain = f"read_parquet('{tmp_path}/*.parquet', union_by_name = true)"
    query = f"SELECT {shown} FROM {{t}} WHERE {condition} LIMIT 3 OFFSET {{start}}"
    with plain_duckdb.session() as judge, pruner_duckdb.connect({"t": table}) as pruned:
        for start in range(0, 16, 3):
            expected = judge.execute(query.format(t=plain, start=start)).fetchall()
            assert pruned.execute(query.format(t="t", start=start)).fetchall() == expected, start
