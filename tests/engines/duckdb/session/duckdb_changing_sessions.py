"""Two databases with several handles each, one with pruner's tables and one of plain DuckDB, that undergo the same
changes; and those changes, drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from duckdb import sqltypes

import pruner_duckdb
from pruner.errors import PrunerError
from tests.engines.duckdb.duckdb_tables import flights_query, indexed, write_flights, write_tree

MODES = ("connect", "attach", "native")
"""Who has a handle: only the adapter, the caller, and the caller who changes things through another one."""

REFUSED = "PrunerError"

Result = tuple[Any, Any]
"""Names and rows, or the class of an error and its first line."""


class Case(NamedTuple):
    """A statement and its parameters."""

    sql: str
    values: Any = None


class Sessions:
    """Both databases, and the files that they read."""

    def __init__(self, scratch: Path, mode: str) -> None:
        self.root = write_flights(scratch / "flights")
        self.table = indexed(self.root)
        self.files = 12
        if mode == "connect":
            self.con = pruner_duckdb.connect({"flights": self.table})
        else:
            self._own = duckdb.connect()
            self.con = pruner_duckdb.attach(self._own, {"flights": self.table})
        plain = duckdb.connect()
        plain.execute("CREATE SCHEMA lake")
        plain.execute(
            f"CREATE VIEW lake.flights AS FROM read_parquet('{self.root}/**/*.parquet', hive_partitioning = true, "
            "hive_types_autocast = false)"
        )
        self.ours: list[Any] = [self.con, self.con.cursor()]
        self.plain: list[Any] = [plain, plain.cursor()]
        if mode == "native":
            self.ours.append(self.con.native.cursor())
            self.plain.append(plain.cursor())
        for handle in range(len(self.plain)):
            self.run(handle, "PATH main")
            self.run(handle, "SET TimeZone = 'UTC'")
        # ATTACH may bring in a database that others change: then the session is asked each time.
        side = "CREATE SCHEMA side" if mode == "connect" else "ATTACH ':memory:' AS side"
        for sql in (*_BEGINNING, side):
            self.run(0, sql)

    def run(self, handle: int, sql: str) -> None:
        """Change a session on both sides, or let both reject the change."""
        outcomes: set[str] = set()
        for native, taken in ((False, self.ours[handle]), (True, self.plain[handle])):
            path = f"{sql[5:]},memory.lake" if native else sql[5:]
            try:
                taken.execute(f"SET search_path = '{path}'" if sql.startswith("PATH ") else sql).fetchall()
                outcomes.add("ran")
            except (duckdb.Error, PrunerError) as error:
                outcomes.add(type(error).__name__)
        if outcomes != {"ran"}:
            self.roll_back(handle)

    def roll_back(self, handle: int) -> None:
        """Roll back a transaction on both sides: which errors abort one is not compared."""
        for taken in (self.ours[handle], self.plain[handle]):
            try:
                taken.execute("ROLLBACK")
            except duckdb.Error:
                continue

    def define(self, handle: int, name: str, function: Callable[[Any], Any], kinds: tuple[Any, Any]) -> None:
        """Register a Python function under a name, replacing the previous one."""
        taken, result = kinds
        for each in (self.ours[handle], self.plain[handle]):
            for act in (
                lambda each=each: each.remove_function(name),
                lambda each=each: each.create_function(name, function, [taken], result),
            ):
                try:
                    act()
                except duckdb.Error:
                    continue

    def change_files(self, what: str, chance: random.Random) -> None:
        """Change the table as another process would."""
        files = sorted(self.root.rglob("*.parquet"))
        if what == "commit":
            write_tree(
                self.root, {f"region=us/part-{self.files:02d}.parquet": flights_query(self.files % 12)}
            )
            self.files += 1
        elif what == "remove" and len(files) > 8:
            chance.choice(files).unlink()
        elif what == "replace":
            name = str(chance.choice(files).relative_to(self.root))
            write_tree(self.root, {name: flights_query(chance.randrange(14))})
        else:
            self.table.drop_index("stats")
            indexed(self.root)


_BEGINNING = (
    "CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS flight_id",
    "CREATE SEQUENCE counted",
    "CREATE SCHEMA other",
    "CREATE TABLE own AS SELECT range AS id FROM range(100)",
    "CREATE MACRO m(x) AS x < 9",
)


def result(handle: Any, case: Case, *, lazily: bool = False) -> Result:
    """The result of a statement, in the order of its rows if it has one."""
    sql, values = case
    try:
        if lazily:
            relation = handle.sql(sql, **({"params": values} if values else {}))
            names, rows = (None, None) if relation is None else (relation.columns, relation.fetchall())
        else:
            run = handle.execute(sql, *([values] if values else []))
            rows, names = run.fetchall(), [each[0] for each in run.description or ()]
    except duckdb.Error as error:
        return type(error).__name__, str(error).split("\n", 1)[0]
    except PrunerError as error:
        return REFUSED, str(error)
    if sql.startswith("EXPLAIN"):
        return names, rows is not None
    return names, rows if " LIMIT " in sql else sorted(rows or (), key=repr)


def failed(each: Result) -> bool:
    """Whether a result is an error."""
    return isinstance(each[0], str)


def alike(ours: Result, plain: Result) -> bool:
    """Whether two results are the same, apart from error texts. A view is refused outside its schema."""
    if ours[0] == REFUSED:
        return "cannot be read in this kind of statement" in ours[1]
    return ours[0] == plain[0] if failed(ours) and failed(plain) else ours == plain


def change(sessions: Sessions, mode: str, chance: random.Random) -> str:
    """Apply a change to both; return what it was."""
    handle = chance.randrange(len(sessions.plain))
    kind = chance.randrange(20)
    if kind == 18:
        name = chance.choice(["udf", "udf", "m", "upper", "helper"])
        bound = chance.choice([9, 60, 560])
        if name == "upper":
            sessions.define(handle, name, lambda _: "C01A", (sqltypes.VARCHAR, sqltypes.VARCHAR))
        elif chance.random() < 0.5:
            sessions.define(handle, name, lambda x: x < bound, (sqltypes.INTEGER, sqltypes.BOOLEAN))
        else:
            sessions.define(handle, name, lambda x: x > bound, (sqltypes.INTEGER, sqltypes.BOOLEAN))
        return f"{handle}: function {name} {bound}"
    if kind == 19:
        what = chance.choice(["commit", "commit", "replace", "remove", "reindex"])
        sessions.change_files(what, chance)
        return what
    if kind < 9:
        sql = _macro(chance)
    elif kind < 14:
        sql = chance.choice([_DROPS, _SETTINGS, _SETTINGS, _PATHS][kind % 4])
        sql = sql.replace("side.main", "side") if mode == "connect" else sql
    else:
        sql = chance.choice([_OBJECTS, _OBJECTS, _VIEWS, ("BEGIN", "ROLLBACK", "COMMIT")][kind % 4])
    sessions.run(handle, sql)
    return f"{handle}: {sql}"


def _macro(chance: random.Random) -> str:
    name = chance.choice(
        [*["m"] * 12, "M", '"m"', '"Q m"', "helper", "helper", "abs", "upper", "lower", "count"]
    )
    place = chance.choice([*[""] * 12, "main.", "other.", "side.main.", "side.", "temp.", "memory.main."])
    head = f"CREATE {chance.choice(['OR REPLACE '] * 5 + [''])}{chance.choice(['', '', '', 'TEMP '])}MACRO"
    # Every second one is among those that prune best: a plan of the previous one would lose rows of the next.
    body = chance.choice(_BODIES[:5] if chance.random() < 0.5 else _BODIES)
    column = chance.choice(["id", "carrier", "ts"])
    forms = [
        *[f"(x) AS {body}"] * 7,
        "(x, y) AS x < y",
        f"(x) AS {body}, (x, y) AS x BETWEEN 60 AND y",
        f"(x, y := {chance.choice([9, 60])}) AS x {chance.choice('<>=')} y",
        f"({column}) AS {column} < {chance.choice(['9', 'id', '560'])}",
        *["() AS 9", "() AS (id < 9)", "(x INTEGER) AS x < 9", "(x) AS TABLE SELECT 60 AS id"],
    ]
    return f"{head} {place}{name}{chance.choice(forms)}"


_BODIES = (
    """
x < 9; x > 560; x BETWEEN 60 AND 90; x = 60 OR x IS NULL; x IN (7, 60); x IN (SELECT flight_id FROM wanted)
x < id; id < 9
x < delay; x < flight_id; random() < 2 AND x < 9; now() > TIMESTAMP '2020-01-01' AND x < 9; x > getvariable('v')
current_setting('TimeZone') = 'UTC' AND x < 70; nextval('counted') > 0 AND x < 9
(SELECT max(flight_id) FROM wanted) = x
list_contains(list_filter([7, 60, x], lambda e: e < 9), x); upper(x::VARCHAR) LIKE '6%'; x % 7 = 3
abs(x - 60) < 3; helper(x)
helper(x) AND x > 3; CASE WHEN x < 9 THEN true ELSE x = 300 END; row_number() OVER () < x; max(x) > 5; x
x + 1; NOT (x < 9)
x / 100 = 1; x = '60'; x < 9 AND early; udf(x); x::VARCHAR = 'C01a'; x = current_user; x::VARCHAR < 'D'
coalesce(x, 1) < 9
try_cast(x AS INT) < 9; typeof(x) = 'INTEGER' AND x < 9; count(*) > x; flights.id < 9; x IS NOT DISTINCT FROM 60
EXISTS (SELECT 1 FROM wanted WHERE flight_id = x); x::DATE = DATE '2024-01-03'
x >= TIMESTAMPTZ '2024-01-03'; x < (SELECT 9)
list_sum(list_transform([x], lambda e: helper(e)::INT)) > 0; x::mood = 'C01a'; date_trunc('day', x) < DATE '2024-01-03'
""".strip()
    .replace("\n", "; ")
    .split("; ")
)

_DROPS = """
m; helper; temp.main.m; memory.main.m; abs; upper; lower; other.m; side.m; temp.main.helper; count
""".strip().split("; ")
_DROPS = [f"DROP MACRO {name}" for name in _DROPS]

_SETTINGS = (
    """
TimeZone = 'America/New_York'; TimeZone = 'UTC'; default_order = 'desc'; default_order = 'asc'; integer_division = true
default_null_order = 'nulls_first'; integer_division = false; default_collation = 'nocase'; default_collation = ''
ieee_floating_point_ops = false; VARIABLE v = 560; VARIABLE v = 9; VARIABLE v = 'x'; old_implicit_casting = true
old_implicit_casting = false; lambda_syntax = 'ENABLE_SINGLE_ARROW'; scalar_subquery_error_on_multiple_rows = false
GLOBAL TimeZone = 'Asia/Tokyo'; order_by_non_integer_literal = true
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
_SETTINGS = [f"SET {setting}" for setting in _SETTINGS]

_PATHS = [
    "PATH main",
    "PATH other",
    "PATH main,other",
    "PATH other,main",
    "PATH side.main",
    "PATH main,side.main",
]

_OBJECTS = [
    "CREATE OR REPLACE TABLE wanted AS SELECT 'sixty' AS flight_id",
    "CREATE OR REPLACE TABLE wanted AS SELECT 60::TINYINT AS flight_id, 61 AS id",
    "CREATE OR REPLACE TABLE wanted AS SELECT unnest([64, 300]) AS flight_id",
    "CREATE OR REPLACE TEMP TABLE wanted AS SELECT 3 AS flight_id",
    "DROP TABLE temp.main.wanted",
    "CREATE TABLE other.wanted AS SELECT 555 AS flight_id",
    "CREATE TYPE mood AS ENUM ('C01a', 'C02b')",
    "DROP TYPE mood",
    "CREATE TYPE mood AS VARCHAR",
    "CREATE TYPE date AS ENUM ('a')",
    "DROP TYPE date",
    "CREATE TEMP TABLE flights AS SELECT 60 AS id, 'C01a' AS carrier, now() AS seen, DATE '2024-01-03' AS day",
    "DROP TABLE temp.main.flights",
]
_VIEWS = [
    "CREATE OR REPLACE VIEW v AS SELECT * FROM flights WHERE m(id)",
    "CREATE OR REPLACE VIEW v AS SELECT * FROM flights WHERE helper(id) OR id = 300",
    "DROP VIEW v",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM flights WHERE m(id) AND id < 300",
    "PREPARE p AS SELECT id FROM flights WHERE m(id)",
    "PREPARE p AS SELECT id FROM flights WHERE m($1)",
    "PREPARE p AS SELECT id FROM flights WHERE id = $1 AND m(id)",
    "DEALLOCATE p",
]

WITH_MACROS = [
    Case(sql)
    for sql in """
SELECT id FROM flights WHERE m(id)
SELECT id, carrier FROM flights WHERE M(id) AND id < 300
SELECT id FROM flights WHERE "m"(id + 0)
SELECT id FROM flights WHERE m(id, 90)
SELECT id FROM flights WHERE m(x := id)
SELECT id FROM flights WHERE m(id, y := 70)
SELECT id FROM flights WHERE "Q m"(id)
SELECT id FROM flights WHERE main.m(id)
SELECT id FROM flights WHERE other.m(id)
SELECT id FROM flights WHERE side.main.m(id)
SELECT id FROM flights WHERE temp.main.m(id)
SELECT id FROM flights WHERE id < m()
SELECT m(id) FROM flights WHERE id < 70
SELECT m(id), count(*) FROM flights GROUP BY ALL
SELECT carrier FROM flights WHERE m(carrier)
SELECT id FROM flights WHERE m(day)
SELECT count(*) FILTER (m(id)) FROM flights
SELECT id, flight_id FROM flights JOIN wanted ON id = flight_id AND m(id)
SELECT id, flight_id FROM flights LEFT JOIN wanted ON id = flight_id WHERE m(flight_id)
SELECT id AS x FROM flights WHERE m(x)
SELECT id // 10 AS g FROM flights GROUP BY g HAVING m(max(id))
SELECT id FROM flights QUALIFY m(row_number() OVER (ORDER BY id))
SELECT id FROM flights WHERE len(list_filter([id], lambda e: m(e))) > 0
SELECT id FROM flights WHERE EXISTS (SELECT 1 FROM wanted WHERE m(id) AND flight_id < 300)
WITH f AS (SELECT * FROM flights WHERE m(id)) SELECT a.id FROM f a JOIN f b USING (id) WHERE b.id < 400
SELECT id FROM flights WHERE m(id) UNION ALL SELECT id FROM flights WHERE id = 300
SELECT id FROM flights WHERE NOT m(id) OR id = 444
SELECT id FROM flights WHERE helper(id) AND m(id)
SELECT max(id) FROM flights WHERE m(m(id))
SELECT id FROM flights, LATERAL (SELECT m(id) AS ok) WHERE ok
SELECT unnest([id, 3]) FROM flights WHERE m(id)
SELECT id FROM flights WHERE extra.code = 3 AND m(id)
SELECT id FROM flights AS f(q, id) WHERE m(q)
SELECT id FROM (SELECT id - 60 AS x, id FROM flights) WHERE m(id)
SELECT id FROM flights WHERE id < 70 AND m(CASE WHEN id > 5 THEN id END)
PIVOT (SELECT carrier, region, id FROM flights WHERE m(id)) ON region USING count(*)
PIVOT (SELECT carrier, region, id FROM flights WHERE m(id)) ON region IN ('de', 'us') USING count(*)
UNPIVOT (SELECT id, price, delay FROM flights WHERE m(id) AND id < 100) ON id, price
DESCRIBE SELECT m(id) AS a, id FROM flights
SUMMARIZE SELECT id FROM flights WHERE m(id) AND id < 100
EXPLAIN SELECT id FROM flights WHERE m(id)
""".strip().split("\n")
]
_NEW_YORK = timezone(timedelta(hours=-5))
OTHERS = [
    *(
        Case(sql)
        for sql in """
SELECT id FROM flights WHERE abs(id - 60) < 3
SELECT id FROM flights WHERE upper(carrier) = 'C01A' AND id < 70
SELECT id FROM flights WHERE id / 100 = 1
SELECT id FROM flights WHERE seen >= '2024-01-03' AND seen < '2024-01-05'
SELECT id, seen::VARCHAR, typeof(seen) FROM flights WHERE seen::DATE = '2024-01-03'
SELECT id, hash(id) % 7, to_json({'a': carrier}) FROM flights WHERE id BETWEEN 60 AND 65
SELECT id, list_sort([id, NULL, 3]), list_median([1, 2, id]) FROM flights WHERE id < 4
SELECT id, delay FROM flights WHERE id BETWEEN 60 AND 80 ORDER BY delay, id LIMIT 5
SELECT string_agg(carrier, ',' ORDER BY carrier), first(id ORDER BY id) FROM flights WHERE id < 5
SELECT id FROM flights WHERE id > getvariable('v')
SELECT id, current_user, session_user, user FROM flights WHERE id < 2
SELECT id, current_schema(), current_schema, current_database() FROM flights WHERE id < 2
SELECT id, current_setting('TimeZone'), current_setting('default_order') FROM flights WHERE id < 2
SELECT id FROM flights WHERE carrier = 'C01a'::mood
SELECT id, udf(id) FROM flights WHERE id < 12
SELECT id FROM flights WHERE id = 1 / 0 OR id < 3
SELECT id FROM flights WHERE day = current_date OR id = 7
SELECT id FROM flights WHERE id IN (SELECT flight_id FROM wanted) AND id < 400
SELECT w.*, f.id FROM flights f JOIN wanted w ON f.id = w.flight_id
SELECT id FROM v WHERE id < 80
SELECT count(*) FROM v a JOIN flights b USING (id) WHERE b.id < 65
EXECUTE p
EXECUTE p(60)
EXECUTE p('60')
SELECT count(*) FROM flights WHERE id IN range(60, 63) AND id < 70
SELECT id FROM flights WHERE date_trunc('day', seen) = TIMESTAMPTZ '2024-01-03 00:00:00'
""".strip().split("\n")
    ),
    *(Case("SELECT id FROM flights WHERE m(?)", [v]) for v in (5, "5", 5.0, None, True, Decimal(5))),
    *(
        Case("SELECT id FROM flights WHERE id = ?", [v])
        for v in (60, "60", 60.5, None, True, Decimal(60), b"1")
    ),
    *(
        Case("SELECT id, ? AS a, typeof(?) FROM flights WHERE m(id + ?)", v)
        for v in ([1, 1, 0], ["1", "1", 0], [1.5, 1.5, 0], [1, 1, "0"], [date(2024, 1, 1), True, -3])
    ),
    *(
        Case("SELECT id FROM flights WHERE seen >= ? AND m(id)", [v])
        for v in (
            "2024-01-02",
            date(2024, 1, 2),
            datetime(2024, 1, 2),
            datetime(2024, 1, 2, tzinfo=UTC),
            datetime(2024, 1, 2, tzinfo=_NEW_YORK),
        )
    ),
]
_MADE, _OWN = "FROM made", "SELECT id, count(*) FROM own GROUP BY 1"
WRITES = [
    (f"CREATE OR REPLACE TEMP TABLE made AS {query}", _MADE)
    for query in """
SELECT id, carrier FROM flights WHERE m(id)
PIVOT (SELECT carrier, region, id FROM flights WHERE m(id)) ON region USING count(*)
PIVOT flights ON region USING count(*) GROUP BY early
UNPIVOT (SELECT id, price FROM flights WHERE m(id) AND id < 100) ON id, price
SUMMARIZE SELECT id FROM flights WHERE m(id)
DESCRIBE flights
""".strip().split("\n")
] + [
    ("INSERT INTO own SELECT id FROM flights WHERE m(id)", _OWN),
    ("INSERT INTO own PIVOT (SELECT id FROM flights WHERE m(id)) ON id % 1 IN (0) USING max(id)", _OWN),
    ("DELETE FROM own WHERE id IN (SELECT id FROM flights WHERE m(id) AND id < 20)", _OWN),
    ("UPDATE own SET id = id + 1 WHERE id IN (SELECT id FROM flights WHERE m(id))", _OWN),
    ("SET VARIABLE v = (SELECT max(id) FROM flights WHERE m(id))", "SELECT getvariable('v')"),
]
