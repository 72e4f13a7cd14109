"""Traps of functions, L5 to L8, S13, S14 and I5, in DuckDB and Trino, with indexes over such functions and without.

Spark's are in test_spark_catalyst_traps.py. The expected rows are those that the engine finds by itself.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb.plain import judge
from tests.support.trino.server import aged
from tests.support.trino.tables import SCHEMA, TrinoTables

FILES = {
    # moments, numbers, texts
    "new_year_eve": (
        ["2022-12-30 10:00", "2022-12-31 23:59:59.999999"],
        [1, 2, 3],
        ["straße", "ß", "STRASSE"],
    ),
    "new_year": (["2023-01-01 00:00", "2023-01-02 09:00"], [8, 9, 10], ["abc", "abd", "ABC"]),
    "before_1970": (["1969-12-31 12:00", "1969-12-31 23:59:59.999999"], [-3, -2, -1], ["K", "k", "\u212a"]),
    "clocks": (["2024-10-27 00:30", "2024-10-27 01:30"], [2**32 + 1, 2**40], ["z", "İ"]),
    "at_1970": (["1970-01-01 00:00", "1970-01-01 00:00:01"], [0, 5], ["", "a"]),
}
INDEXES = (
    "strftime(ts, '%m/%d/%Y')",
    "strftime(ts, '%Y-%m-%d')",
    "hour(ts)",
    "ts::DATE",
    "n % 8",
    "abs(n)",
    "n * -2",
    "upper(s)",
    "lower(s)",
    "n // 4",
)
TRAPS: tuple[tuple[str, str, str], ...] = (
    # trap, DuckDB, Trino
    ("L5", "TRY_CAST(n AS INTEGER) = 1", "TRY_CAST(n AS INTEGER) = 1"),
    ("L5", "NOT (TRY_CAST(n AS SMALLINT) > 100)", "NOT (TRY_CAST(n AS SMALLINT) > 100)"),
    ("L6", "strftime(ts, '%m/%d/%Y') >= '12/30/2022'", "date_format(ts, '%m/%d/%Y') >= '12/30/2022'"),
    ("L6", "strftime(ts, '%m/%d/%Y') < '02/01/2022'", "date_format(ts, '%m/%d/%Y') < '02/01/2022'"),
    ("L6", "ts > TIMESTAMP '2022-12-31 00:00'", "ts > TIMESTAMP '2022-12-31 00:00:00.000000'"),
    ("L7", "abs(n) < 3", "abs(n) < 3"),
    ("L7", "n * -2 < -4", "n * -2 < -4"),
    ("L7", "-n > 1", "-n > 1"),
    ("L7", "upper(s) = 'STRASSE'", "upper(s) = 'STRASSE'"),
    ("L7", "lower(s) = 'k'", "lower(s) = 'k'"),
    ("L8", "n % 8 = 1", "n % 8 = 1"),
    ("L8", "n % 8 < 0", "n % 8 < 0"),
    ("L8", "hour(ts) IN (0, 1)", "hour(ts) IN (0, 1)"),
    ("L8", "month(ts) = 12", "month(ts) = 12"),
    (
        "S13",
        "hour(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin') = 2",
        "hour(with_timezone(ts, 'UTC') AT TIME ZONE 'Europe/Berlin') = 2",
    ),
    ("S14", "hour(ts) = 23", "hour(ts) = 23"),
    ("S14", "ts::DATE = DATE '1969-12-31'", "date(ts) = DATE '1969-12-31'"),
    ("S14", "n // 4 = 0", "n / 4 = 0"),
    ("I5", "dayofweek(ts) = 3", "day_of_week(ts) = 3"),
    ("I5", "week(ts) = 52", "week(ts) = 52"),
    ("I5", "length(upper(s)) = 1", "length(upper(s)) = 1"),
)


def write(root: Path) -> Path:
    """One file of each kind."""
    root.mkdir()
    for name, (moments, numbers, texts) in FILES.items():
        rows = max(len(moments), len(numbers), len(texts))
        columns = {
            "ts": [datetime.datetime.fromisoformat(each) for each in moments],
            "n": numbers,
            "s": texts,
        }
        filled = {key: [*values, *([None] * (rows - len(values)))] for key, values in columns.items()}
        types = {"ts": pa.timestamp("us"), "n": pa.int64(), "s": pa.string()}
        table = pa.table({key: pa.array(values, types[key]) for key, values in filled.items()})
        pq.write_table(table, root / f"{name}.parquet")
    return root


def index(root: Path, *, expressions: bool) -> pruner.Table:
    """Statistics of the columns, and indexes over the functions."""
    table = pruner.open_table(root)
    table.create_index("statistics", on="*")
    for number, expression in enumerate(INDEXES if expressions else ()):
        using = ("bitmap", "column_stats")[number % 2]
        table.create_index(f"i{number}", on=expression, using=using)
    return table


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expressions", [False, True], ids=["statistics", "expressions"])
def test_traps_of_functions_in_duckdb(tmp_path: Path, expressions: bool) -> None:
    root = write(tmp_path / "t")
    connection = pruner_duckdb.connect({"t": index(root, expressions=expressions)})
    connection.execute("SET TimeZone = 'UTC'")
    plain, left_out = judge(), 0
    for trap, text, _ in TRAPS:
        expected = plain.execute(f"SELECT * FROM '{root}/*.parquet' WHERE {text} ORDER BY ALL").fetchall()
        assert expected, text
        assert connection.execute(f"SELECT * FROM t WHERE {text} ORDER BY ALL").fetchall() == expected, trap
        left_out += len(FILES) - (connection.last_plans[-1].kept or 0)
    assert left_out >= (45 if expressions else 25)


@pytest.mark.trino
@pytest.mark.parametrize("expressions", [False, True], ids=["statistics", "expressions"])
def test_traps_of_functions_in_trino(trino_tables: TrinoTables, tmp_path: Path, expressions: bool) -> None:
    root = aged(write(tmp_path / "t"))
    index(root, expressions=expressions)
    table = trino_tables.register(root, {"ts": "timestamp", "n": "bigint", "s": "string"}, indexed=False)
    gate = table.trino.gate
    gate.forget()
    for trap, _, text in TRAPS:
        sql = f"SELECT * FROM {table.name} WHERE {text} ORDER BY ts, n, s"
        answers = [table.trino.run(sql, catalog=each, schema=SCHEMA).rows for each in ("pruned_hive", "hive")]
        assert answers[0] == answers[1], trap
    left_out = sum(len(FILES) - answer["kept"] for _, answer in gate.exchanges)
    assert left_out >= (20 if expressions else 10)
