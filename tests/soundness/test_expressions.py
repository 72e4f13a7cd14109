"""Indexes over expressions against DuckDB: random conditions on expressions and columns, no row lost.

Each file of the table holds values of a narrow range, or the edges of its types, so that files can be dropped and
every domain has an end. DuckDB answers hundreds of conditions with one scan, its optimizer off.
"""

from __future__ import annotations

import datetime
import hashlib
import random
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner import Semantics
from tests.engines.duckdb.duckdb_tables import BEFORE_2
from tests.support.duckdb.plain import judge
from tests.support.running.profiles import IS_BRIEF, examples, seed

FILES = 16 if IS_BRIEF else 40
ROWS = 25
AT_ONCE = 200
"""Conditions that DuckDB answers in one scan."""
DAY = 86_400 * 10**6
Edges: TypeAlias = "dict[str, list[Any]]"
EDGES: Edges = {
    "wall": [
        0,
        -1,
        1,
        -2_208_988_800_000_000,
        -2_208_988_800_000_001,
        253_402_300_799_999_999,
        951_782_399_999_999,
    ],
    "n": [2**31 - 1, -(2**31), 0, -1, 1, 127, 128],
    "m": [2**63 - 1, -(2**63), 2**53, 2**53 + 1, 0, -1],
    "x": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324],
    "j": [
        '{"a": 1, "a": 2}',
        "{}",
        '{"a": "\\u0041"}',
        '{"a": {"b": 1}}',
        '{"a": 1.50}',
        '{"a": null}',
        '{"a": true}',
    ],
    "s2": ["1969-12-31", "9999-12-31", "1500-01-01", "2023-1-4", " 2023-11-14"],
    "s": ["", "ß", "İ", "e\u0301", "😀", "a b", "A", "straße", "\u0130x", "zz"],
}
EXPRESSIONS = {
    # expression: (types of index that take turns, kind of its values)
    "strftime(ts, '%H')": "hour text",
    "strftime(inst, '%H:%M')": "minute text",
    "strftime(d, '%Y-%m')": "month text",
    "hour(ts)": "small",
    "day(ts)": "small",
    "isodow(inst)": "small",
    "year(inst)": "year",
    "month(d)": "small",
    "inst::DATE": "date",
    "date_trunc('hour', ts)": "wall",
    "n + 1": "number",
    "n * m": "number",
    "abs(m)": "number",
    "n % 8": "small",
    "(n % 8) + (m % 8)": "small",
    "x * 2.0 + x": "double",
    "upper(s)": "text",
    "lower(s || '-x')": "text",
    "length(s)": "small",
    "left(upper(s), 2)": "text",
    "n::VARCHAR": "text",
    "hour(timezone('UTC', inst))": "small",
    "quarter(ts)": "small",
    "last_day(d)": "date",
    "isoyear(d)": "year",
    "trim(s)": "text",
    "reverse(s)": "text",
    "replace(s, 'x', 'z')": "text",
    "translate(s, 'kx', 'XK')": "text",
    "split_part(s, 'x', 1)": "text",
    "lpad(s, 2, '0')": "text",
    "coalesce(s, 'K4x')": "text",
    "nullif(n, 20)": "number",
    "coalesce(n, 7)": "number",
    "greatest(n, m)": "number",
    "instr(s, 'x')": "small",
    "md5(s)": "digest",
    "CASE WHEN n > 20 THEN 'K4x' ELSE s END": "text",
    "round(x)": "double",
    "n // 8": "number",
    "n & 12": "small",
    "xor(n, m)": "number",
    "date_diff('day', d, d2)": "small",
    "d + 7": "date",
    # Without brackets DuckDB 1.5 reads `j ->> '$.a' IS NULL` as `j ->> ('$.a' IS NULL)` (docs/duckdb.md).
    "(j ->> '$.a')" if BEFORE_2 else "j ->> '$.a'": "text",
    "s2::DATE": "date",
    "levenshtein(s, 'K4x')": "small",
    "floor(x)::BIGINT": "small",
}
USING = ("column_stats", "bitmap", "bloom_filter", "column_stats")


def _column(name: str, number: int, tape: random.Random, known: Edges) -> list[Any]:
    """Values of a column in one file: a narrow range, or, in every eighth file, the edges of its type."""
    at = number // 4
    if number % 8 == 7:
        edges = known.get(name, known["wall"])
        found: list[Any] = [tape.choice(edges) for _ in range(ROWS)]
    else:
        narrow = {
            "n": lambda: at * 5 + tape.randrange(6),
            "m": lambda: at * 40 + tape.randrange(60),
            "x": lambda: at + tape.choice([0.25, 0.5, 0.75]),
            "s": lambda: f"{'kKab'[at % 4]}{at}{tape.choice('xyz')}",
            "j": lambda: f'{{"a": "{"kKab"[at % 4]}{at}{tape.choice("xyz")}", "b": {at}}}',
            "s2": lambda: f"2023-11-{14 + at:02}",
        }
        moment = 1_700_000_000_000_000 + number * 3_600_000_000 * 5
        make = narrow.get(name, lambda: moment + tape.randrange(3_600_000_000))
        found = [make() for _ in range(ROWS)]
    return [None if tape.random() < 0.05 else value for value in found]


def write_files(root: Path, tape: random.Random, edges: Edges = EDGES) -> None:
    """Write the files, some of which hold the edges of each type."""
    root.mkdir()
    for number in range(FILES):
        moments = {name: _column(name, number, tape, edges) for name in ("wall", "inst")}
        days = [
            None if value is None else datetime.date(1970, 1, 1) + datetime.timedelta(value // DAY)
            for value in _column("wall", number, tape, edges)
        ]
        table = pa.table(
            {
                "ts": pa.array(moments["wall"], pa.timestamp("us")),
                "inst": pa.array(moments["inst"], pa.timestamp("us", "UTC")),
                "d": pa.array(days, pa.date32()),
                "n": pa.array(_column("n", number, tape, edges), pa.int32()),
                "m": pa.array(_column("m", number, tape, edges), pa.int64()),
                "x": pa.array(_column("x", number, tape, edges), pa.float64()),
                "s": pa.array(_column("s", number, tape, edges), pa.string()),
                "d2": pa.array([day and day.replace(day=1) for day in days], pa.date32()),
                "j": pa.array(_column("j", number, tape, edges), pa.string()),
                "s2": pa.array(_column("s2", number, tape, edges), pa.string()),
            }
        )
        pq.write_table(table, root / f"f{number:02}.parquet")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """Files with an index over each expression."""
    root = tmp_path_factory.mktemp("expressions") / "t"
    write_files(root, random.Random(11))
    found = pruner.open_table(root)
    for number, expression in enumerate(EXPRESSIONS):
        found.create_index(f"i{number}", on=expression, using=USING[number % len(USING)], build=False)
    found.create_index("numbers", on=["n", "ts"], build=False)
    assert not found.refresh().failures
    return pruner.open_table(root, max_staleness=3600)


def _stored(tape: random.Random) -> str:
    """A text that a file may hold."""
    at = tape.randrange(12)
    return f"{'kKab'[at % 4]}{at}{tape.choice('xyz')}"


def _constant(kind: str, tape: random.Random) -> str:
    match kind:
        case "small":
            return str(tape.randrange(-1, 60))
        case "year":
            return str(tape.choice([1900, 1969, 1970, 2000, 2023, 2024, 9999]))
        case "number":
            return str(tape.choice([tape.randrange(-20, 400), *EDGES["n"]]))
        case "double":
            return str(tape.choice([0.0, 1.5, 3.75, 1e308, tape.randrange(60) / 4]))
        case "hour text":
            return f"'{tape.randrange(26):02}'"
        case "minute text":
            return f"'{tape.randrange(24):02}:{tape.randrange(60):02}'"
        case "month text":
            return f"'{tape.choice([1900, 1969, 1970, 2023])}-{tape.randrange(1, 13):02}'"
        case "date":
            return f"DATE '{tape.choice(['1969-12-31', '1970-01-01', '2023-11-14', '2023-11-20', '9999-12-31'])}'"
        case "wall":
            moment = datetime.datetime(2023, 11, 14, 22) + datetime.timedelta(hours=5 * tape.randrange(45))
            return f"TIMESTAMP '{moment}'"
        case "digest":
            return f"'{hashlib.md5(_stored(tape).encode()).hexdigest()}'"
        case _:
            at, stored = tape.randrange(12), _stored(tape)
            upper = ["K0X", "STRASSE", f"K{at}", "ZZ", f"B{at}Y"]
            return f"'{tape.choice(['', 'a2x-x', f'{at}', f'{at}x', stored, stored[::-1], *upper])}'"


def _test(tape: random.Random) -> str:
    if tape.random() < 0.2:
        return tape.choice(
            ["n > 20", "m BETWEEN 5 AND 90", "s IS NULL", "x < 4", "ts < TIMESTAMP '2023-11-16'"]
        )
    expression, kind = tape.choice(list(EXPRESSIONS.items()))
    value, other = _constant(kind, tape), _constant(kind, tape)
    operator = tape.choice(["=", "=", "<>", "<", "<=", ">", ">="])
    forms = [
        f"{expression} {operator} {value}",
        f"{value} {operator} {expression}",
        f"{expression} IN ({value}, {other})",
        f"{expression} BETWEEN {min(value, other)} AND {max(value, other)}",
        f"{expression} IS NULL",
        f"{expression} NOT IN ({value}, {other}, NULL)",
    ]
    if "text" in kind:
        forms.append(f"{expression} LIKE '{value.strip(chr(39))[:2]}%'")
    return tape.choice(forms)


def condition(tape: random.Random, depth: int = 2) -> str:
    """A random condition."""
    if depth == 0 or tape.random() < 0.45:
        return _test(tape)
    match tape.randrange(4):
        case 0:
            return f"NOT ({condition(tape, depth - 1)})"
        case 1:
            return f"({condition(tape, depth - 1)} OR {condition(tape, depth - 1)})"
        case 2:
            return f"(({condition(tape, depth - 1)}) IS NULL)"
        case _:
            return f"({condition(tape, depth - 1)} AND {condition(tape, depth - 1)})"


def _holding(table: pruner.Table, conditions: list[str], zone: str) -> list[set[str]]:
    """The files with a row for which each condition is true; rows for which it fails count as no match."""
    asked = ", ".join(f"bool_or(coalesce(TRY({each}), false))" for each in conditions)
    scan = f"read_parquet('{table.uri}/*.parquet', filename = true)"
    rows = judge(zone).execute(f"SELECT filename, {asked} FROM {scan} GROUP BY filename").fetchall()
    return [{Path(row[0]).name for row in rows if row[number + 1]} for number in range(len(conditions))]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_no_row_is_lost(table: pruner.Table, zone: str) -> None:
    tape = random.Random(f"{seed()} {zone}")
    conditions = [condition(tape) for _ in range(examples(400))]
    could, went = 0, 0
    semantics = Semantics(zone=zone)
    for start in range(0, len(conditions), AT_ONCE):
        batch = conditions[start : start + AT_ONCE]
        for text, holding in zip(batch, _holding(table, batch, zone), strict=True):
            kept = {Path(file).name for file in table.plan(text, semantics=semantics).files}
            assert holding <= kept, (text, sorted(holding - kept))
            could += FILES - len(holding)
            went += FILES - len(kept)
    assert went >= (0.5 if zone == "UTC" else 0.25) * could, (went, could)


def test_single_conditions_drop_what_they_can(table: pruner.Table) -> None:
    """For files inside the domain the bitmap knows every value, so nothing more could be dropped."""
    values = [f"n + 1 = {number}" for number in range(5, 40)] + [f"hour(ts) = {hour}" for hour in range(24)]
    kept = [len(table.plan(text, semantics=Semantics(zone="UTC")).files) for text in values]
    held = [len(each) for each in _holding(table, values, "UTC")]
    edges = sum(1 for number in range(FILES) if number % 8 == 7)
    assert sum(kept) <= sum(held) + edges * len(values)


def test_statements_lose_no_row(table: pruner.Table) -> None:
    """The same through DuckDB's own optimizer, which rewrites conditions."""
    tape = random.Random(f"{seed()} statements")
    conditions = [condition(tape, 1) for _ in range(max(4, examples(40)))]
    connection = pruner_duckdb.connect({"t": table})
    connection.execute("SET TimeZone = 'UTC'")
    plain = judge()
    answered = pruned = 0
    for text in conditions:
        try:
            query = f"SELECT count(*) FROM read_parquet('{table.uri}/*.parquet') WHERE {text}"
            expected = plain.execute(query).fetchall()
        except duckdb.Error:
            continue  # it overflows
        assert connection.execute(f"SELECT count(*) FROM t WHERE {text}").fetchall() == expected, text
        answered += 1
        pruned += connection.last_plans[-1].kept < FILES
    assert pruned >= answered / 4 > 0
