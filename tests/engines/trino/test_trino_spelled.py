"""Trino conditions on rows, arrays, patterns, CASE and moments prune like their equivalents."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from tests.support.trino.server import STATIC
from tests.support.trino.tables import Registered, TrinoTables, write_plain

pytestmark = pytest.mark.trino

ALL = 8
NAMES = ("alpha", "beta", "gamma", "delta", "Epsilon", "zeta", "Eta", "50%_off")
COLUMNS = {
    "a": "bigint",
    "b": "int",
    "m": "bigint",
    "x": "double",
    "price": "decimal(9,2)",
    "s": "string",
    "code": "varchar(4)",
    "d": "date",
    "ts": "timestamp",
    "at": "timestamp",
    "late": "timestamp",
    "j": "string",
    "z": "double",
    "pad": "char(3)",
    "lines": "string",
}

SPELLED: dict[str, int] = {
    # File n of 8 has a = n, b from 100 n to 100 n + 4, m NULL in files 0, 3 and 6, s "alpha-0" to "alpha-4" and so on.
    "contains(ARRAY[3, 4, 99], a)": 2,
    "contains(ARRAY[3, NULL], a)": 1,
    "NOT contains(ARRAY[3, 4], a)": ALL - 2,
    "NOT contains(ARRAY[3, NULL], a)": 0,
    "NOT contains(ARRAY[1, 2], m)": 3,
    "contains(ARRAY[3, 4], m) IS NULL": 3,
    "contains(ARRAY['alpha-1', 'beta-2'], s)": 2,
    "contains(ARRAY[DATE '2024-03-01', DATE '2023-03-01'], d)": 1,
    "contains(ARRAY[TIMESTAMP '2024-03-01 00:00:00'], ts)": 1,
    "contains(ARRAY[2.0, 3.25], x)": 3,
    "contains(ARRAY[DECIMAL '1234567.25'], price)": 1,
    "contains(ARRAY['alph', 'zzz'], code)": 1,
    "contains(ARRAY[305, 401], b)": 1,
    "contains(ARRAY[nan(), 3e0], z)": ALL,
    "NOT contains(ARRAY[nan(), 3e0], z)": ALL,
    "contains(ARRAY[-0e0], z)": 1,
    "contains(ARRAY[CAST('a' AS char(3)), CAST('b  ' AS char(3))], pad)": 3,
    "regexp_like(s, '^alpha')": 1,
    "regexp_like(s, '^alpha-[0-9]$')": 1,
    "regexp_like(s, '^alphas?')": 1,
    "regexp_like(s, '^50%_')": 1,
    "regexp_like(code, '^alp')": 1,
    "NOT regexp_like(s, '^alpha')": ALL,
    "regexp_like(s, 'alpha')": ALL,
    "regexp_like(s, '^alpha|beta')": ALL,
    "regexp_like(s, '(?i)^epsilon')": ALL,
    "regexp_like(s, '(?m)^alpha')": ALL,
    "regexp_like(s, '^a*')": ALL,
    "regexp_like(s, '^(alpha)')": ALL,
    r"regexp_like(s, '^a\Q\E*lpha')": ALL,
    "regexp_like(pad, '^a')": ALL,
    "regexp_like(lines, '^alpha')": 0,
    "regexp_like(lines, '^x')": 1,
    "regexp_like(lines, '^x$')": 1,
    "(z, a) = (nan(), 2)": 0,
    "(z, a) <> (nan(), 2)": ALL,
    "(z, a) IN ((-0e0, 0), (3e0, 3))": 2,
    "(pad, a) = (CAST('a' AS char(3)), 0)": 1,
    "(a, b) = (3, 301)": 1,
    "(a, b) = (3, 401)": 0,
    "(3, b) = (a, 301)": 1,
    "(a, b) <> (3, 301)": ALL,
    "(a, b) IN ((3, 301), (4, 401), (5, 9))": 2,
    "(a, b) NOT IN ((3, 301), (4, 401))": ALL,
    "(m, b) NOT IN ((1, 101))": ALL,
    "(m, a) = (1, 1) OR a = 5": 2,
    "(a, s) IN ((3, 'delta-1'), (4, 'x'))": 1,
    "(a, d, ts) = (3, DATE '2024-04-01', TIMESTAMP '2024-04-01 00:00:00')": 1,
    "(code, price) = ('beta', 1)": 1,
    "(x, a) IN ((2e0, 2), (-1e0, 3))": 1,
    "a > 1 AND (a, b) IN ((0, 1), (3, 301))": 1,
    "NOT ((a, m) = (3, 3))": ALL,
    "CASE a WHEN 3 THEN 1 WHEN 4 THEN 2 ELSE 0 END = 2": 1,
    "CASE WHEN a = 3 THEN 'x' WHEN a > 5 THEN 'y' ELSE 'z' END = 'y'": 2,
    "CASE WHEN m > 3 THEN 'x' ELSE 'z' END = 'z'": 5,
    "if(a > 5, s, 'x') = 'Eta-1'": 1,
    "if(a > 5, b, 7) = 7": 6,
    "coalesce(s, 'none') = 'alpha-1'": 1,
    "coalesce(m, 0) = 0": 3,
    "price * 1.19 > 1000000": 1,
    "price + 1 = 4": 1,
    "10 - price < 4.5": 3,
    "-price >= -1": 2,
    "a * 1.5 > 10": 1,
    "a % 4 = 1": 2,
    "mod(b, 100) > 4": 0,
    "month(ts) = 3": 1,
    "month(ts) IN (3, 4) AND year(ts) = 2024": 2,
    "quarter(ts) = 3": 2,
    "day(d) > 5": 0,
    "day_of_month(ts) > 5": 0,
    "hour(at) = 3": 1,
    "extract(hour FROM at) BETWEEN 2 AND 4": 3,
    "minute(at) > 4": 0,
    "second(at) = 1": ALL,
    "day_of_week(at) = 5": 1,
    "date_format(ts, '%Y-%m') = '2024-03'": 1,
    "date_format(ts, '%Y-%m-%d') >= '2024-07-01'": 2,
    "date_format(d, '%Y%m') = '202402'": 1,
    "date_format(ts, '%m-%Y') = '03-2024'": ALL,
    "date_add('month', 1, ts) > TIMESTAMP '2024-08-01 00:00:00'": 2,
    "ts + INTERVAL '3' DAY < TIMESTAMP '2024-01-06 00:00:00'": 1,
    "date_diff('day', d, DATE '2024-03-05') BETWEEN 0 AND 10": 1,
    "date_diff('day', DATE '2024-07-01', d) > 2": 2,
    "json_extract_scalar(j, '$.k') = 'delta'": 1,
    "json_extract_scalar(j, '$.k') IN ('delta', 'zeta')": 2,
    "json_extract_scalar(j, '$.other') = 'delta'": ALL,
}
"""Conditions, and how many files are read by the catalog that reads microseconds."""

ROUNDED: dict[str, int] = {
    "month(ts) = 3": 2,
    "quarter(ts) = 3": 2,
    "date_format(ts, '%Y-%m') = '2024-03'": 2,
    "hour(at) = 3": ALL,
    "date_trunc('quarter', d) = DATE '2024-04-01'": 3,
    "ts + INTERVAL '3' DAY < TIMESTAMP '2024-01-05 00:00:00'": 1,
    "month(late) = 1": 1,
    "date_format(late, '%Y-%m') = '2024-07'": 2,
    "year(late) = 2025": 1,
}
"""With Trino's default, milliseconds. `late` is less than half a millisecond before the month to which it is rounded.
Values within a millisecond of the next month may belong to this one.
"""


@pytest.fixture
def lake(trino_tables: TrinoTables, tmp_path: Path) -> Registered:
    """Eight files, one month of 2024 each."""
    for n in range(ALL):
        start = datetime.datetime(2024, n + 1, 1)
        days = [start + datetime.timedelta(days=k, hours=k) for k in range(5)]
        rows = {
            "a": pa.array([n] * 5, pa.int64()),
            "b": pa.array([100 * n + k for k in range(5)], pa.int32()),
            "m": pa.array([n if n % 3 else None] * 5, pa.int64()),
            "x": pa.array([n + k / 4 for k in range(5)]),
            "price": pa.array([Decimal(n) if n != 2 else Decimal("1234567.25")] * 5, pa.decimal128(9, 2)),
            "s": pa.array([f"{NAMES[n]}-{k}" for k in range(5)]),
            "code": pa.array([NAMES[n][:4]] * 5),
            "d": pa.array([day.date() for day in days], pa.date32()),
            "ts": pa.array(days, pa.timestamp("us")),
            "j": pa.array([json.dumps({"k": NAMES[n], "n": n})] * 5),
            "at": pa.array(
                [start + datetime.timedelta(hours=n, minutes=k) for k in range(5)], pa.timestamp("us")
            ),
            "z": pa.array([math.nan if n == 2 else float(n)] * 5),
            "pad": pa.array([("a", "b", "a\t")[n] if n < 3 else "c"] * 5),
            "lines": pa.array(["x\nalpha" if n == 5 else "zz"] * 5),
            "late": pa.array([_end_of(n) for _ in range(5)], pa.timestamp("us")),
        }
        write_plain(tmp_path / "lake" / f"part-{n}.parquet", pa.table(rows))
    table = trino_tables.register(tmp_path / "lake", COLUMNS)
    field = pruner.open_table(tmp_path / "lake")
    field.create_index("kind", on="json_extract_scalar(j, '$.k')", using="bitmap", dialect="trino")
    return table


def _end_of(n: int) -> datetime.datetime:
    return datetime.datetime(2024 + (n + 5) // 12, (n + 5) % 12 + 1, 1) - datetime.timedelta(microseconds=400)


def _check(table: Registered, cases: Mapping[str, int], kind: str = "hive") -> None:
    """Rows as in a full scan by the plain catalog, from as many files as can be proved."""
    pruned = "pruned_" + kind.removeprefix("hive_")
    whole = {f"{kind}.parquet_ignore_statistics": "true", **STATIC}
    problems: list[str] = []
    for where, kept in cases.items():
        sql = f"SELECT a, b FROM {table.name} WHERE {where} ORDER BY 2"
        expected = table.trino.run(sql, catalog=kind, schema=table.schema, session=whole).rows
        table.trino.gate.forget()
        found = table.trino.run(
            sql,
            catalog=pruned,
            schema=table.schema,
            session={f"{pruned}.parquet_ignore_statistics": "true", **STATIC},
        ).rows
        if found != expected:
            problems.append(f"{where}: {len(found)} rows instead of {len(expected)}")
        read = [answer["kept"] for answer in table.trino.gate.answers]
        if read != [kept]:
            problems.append(
                f"{where}: {read} kept instead of {kept}, {len({row[0] for row in expected})} match"
            )
    assert not problems, "\n".join(problems)


def test_they_prune_and_lose_no_row(lake: Registered) -> None:
    _check(lake, SPELLED)


def test_functions_of_rounded_moments_prune_and_lose_no_row(lake: Registered) -> None:
    _check(lake, ROUNDED, "hive_millis")
