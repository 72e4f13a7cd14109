"""Conditions over the tables of `other_writers` as people write them in Spark's and Trino's SQL, and random statements.

`{n}` and the like are constants of a kind, drawn for each statement.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence

from tests.soundness.other_writers import FILES, FIRST_DAY, ROWS, TEXTS

COMMON = (
    "n {op} {n}",
    "id {op} {id}",
    "id BETWEEN {id} AND {id}",
    "n IN ({n}, {n}, {n})",
    "id IN ({id}, NULL, {id})",
    "n NOT IN ({n}, {n})",
    "n IS NULL",
    "s IS NOT NULL",
    "s {op} {s}",
    "s LIKE {prefix}",
    "s NOT LIKE {prefix}",
    "s LIKE '%b%'",
    "s LIKE '_b%'",
    "s LIKE 'a!_%' ESCAPE '!'",
    "s IN ({s}, {s})",
    "s BETWEEN {s} AND {s}",
    "d {op} {d}",
    "d BETWEEN {d} AND {d}",
    "ts {op} {ts}",
    "CAST(ts AS DATE) {op} {d}",
    "date_trunc('month', ts) = TIMESTAMP '2023-02-01 00:00:00'",
    "date_trunc('day', ts) {op} {ts}",
    "year(d) = 2023",
    "month(d) {op} 2",
    "extract(month FROM ts) = 2",
    "x {op} {x}",
    "x = 0.0",
    "x <> x",
    "NOT (x > {x})",
    "m {op} {m}",
    "m {op} {n}",
    "n > {n}.5",
    "n = {n}.0",
    "b",
    "NOT b",
    "b = false",
    "coalesce(n, 0) {op} {n}",
    "coalesce(s, 'zz') {op} {s}",
    "coalesce(n, id) = {n}",
    "nullif(n, {n}) {op} {n}",
    "lower(s) = {s}",
    "upper(s) LIKE 'AB%'",
    "substr(s, 1, 2) = 'ab'",
    "concat(s, 'q') = 'abq'",
    "length(s) {op} 2",
    "trim(s) = {s}",
    "replace(s, 'x', '') = {s}",
    "reverse(s) = 'ba'",
    "n + 1 {op} {n}",
    "n * 2 {op} {n}",
    "n - {n} {op} 0",
    "n % 3 = 1",
    "abs(n) {op} {n}",
    "-n {op} {n}",
    "n IS DISTINCT FROM {n}",
    "n IS NOT DISTINCT FROM {n}",
    "(n {op} {n}) IS NULL",
    "(n {op} {n} AND s {op} {s}) IS NOT NULL",
    "(n {op} {n}) IS NOT DISTINCT FROM (s {op} {s})",
    "(n, s) = ({n}, {s})",
    "(n, s) IN (({n}, {s}), ({n}, {s}))",
    "(id, n) IN (({id}, {n}), ({id}, {n}))",
    "ts >= now() - INTERVAL '100' DAY",
    "ts < now() - INTERVAL '1' DAY",
    "d >= current_date - INTERVAL '3000' DAY",
    "d < current_date",
    "ts > current_timestamp",
    "ts + INTERVAL '1' DAY {op} {ts}",
    "d + INTERVAL '1' DAY {op} {d}",
    "CASE WHEN n > {n} THEN s ELSE 'q' END = {s}",
    "if(n > {n}, 1, 0) = 1",
    "CAST(n AS BIGINT) {op} {id}",
    "CAST(n AS DOUBLE) {op} {x}",
    "n = (SELECT max(n) FROM {t})",
    "id > (SELECT avg(id) FROM {t} WHERE n {op} {n})",
    "id IN (SELECT id FROM {t} WHERE s {op} {s})",
    "n NOT IN (SELECT n FROM {t} WHERE n IS NOT NULL AND id < {id})",
    "EXISTS (SELECT 1 FROM {t} o WHERE o.id = {t}.id AND o.n {op} {n})",
    "greatest(n, {n}) = {n}",
    "least(id, {id}) {op} {id}",
    "TRUE",
    "n {op} {n} OR 1 = 0",
    "NULL",
)

SPARK = (
    "s RLIKE '^ab'",
    "s REGEXP '^(ab|b)'",
    "s RLIKE '^b-1$'",
    "regexp_like(s, '^a.c')",
    "regexp_like(s, '(?i)^AB')",
    "array_contains(array({s}, {s}), s)",
    "array_contains(array({n}, {n}, NULL), n)",
    "startswith(s, 'ab')",
    "endswith(s, 'c')",
    "contains(s, 'b')",
    "s LIKE ANY ('ab%', 'zz%')",
    "s LIKE ALL ('a%', '%c')",
    "s NOT LIKE ALL ('a%', 'b%')",
    "s NOT LIKE ANY ('a%', 'b%')",
    "s ILIKE 'AB%'",
    "n <=> NULL",
    "n <=> {n}",
    "instr(s, 'b') = 1",
    "locate('a', s) = 1",
    "position('a' IN s) = 1",
    "left(s, 1) = 'z'",
    "isnull(n)",
    "isnotnull(s) AND s {op} {s}",
    "nvl(n, 0) {op} {n}",
    "ifnull(s, 'b') {op} {s}",
    "isnan(x)",
    "NOT isnan(x)",
    "n DIV 2 {op} {n}",
    "date_format(ts, 'yyyy-MM') = '2023-02'",
    "trunc(d, 'MM') = DATE '2023-02-01'",
    "to_date(ts) {op} {d}",
    "CAST(n AS STRING) = '{n}'",
    "try_cast(s AS INT) = 3",
    "find_in_set(s, 'a,b,ab') > 0",
    "s || 'x' = 'abx'",
    "dayofweek(d) = 2",
    "d = date_add({d}, 2)",
    "datediff(d, {d}) {op} 3",
    "ts BETWEEN {ts} AND {ts} + INTERVAL 3 DAYS",
    "unix_timestamp(ts) > 1675900000",
    "named_struct('a', n).a = {n}",
    "n IN ({n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n})",
)

TRINO = (
    "regexp_like(s, '^ab')",
    "regexp_like(s, '^(ab|b)')",
    "regexp_like(s, '^b-1$')",
    "regexp_like(s, '(?i)^AB')",
    "contains(ARRAY[{s}, {s}], s)",
    "contains(ARRAY[{n}, {n}, NULL], n)",
    "starts_with(s, 'ab')",
    "s = ANY (VALUES {s}, {s})",
    "n <> ALL (VALUES {n}, {n})",
    "n >= ALL (VALUES {n}, {n})",
    "s LIKE 'ab%' OR s LIKE 'zz%'",
    "s LIKE 'a%' AND s LIKE '%c'",
    "s LIKE 'a$_%' ESCAPE '$'",
    "any_match(ARRAY['ab', 'b'], e -> e = s)",
    "strpos(s, 'a') = 1",
    "position('a' IN s) = 1",
    "split_part(s, '-', 1) = 'b'",
    "s || 'x' = 'abx'",
    "date_format(ts, '%Y-%m') = '2023-02'",
    "date_diff('day', {d}, d) {op} 3",
    "date_add('day', 1, d) {op} {d}",
    "date(ts) {op} {d}",
    "day_of_week(d) = 2",
    "is_nan(x)",
    "NOT is_nan(x)",
    "CAST(n AS VARCHAR) = '{n}'",
    "try_cast(s AS INTEGER) = 3",
    "try(n / 2) {op} {n}",
    "n / 2 {op} {n}",
    "ts AT TIME ZONE 'UTC' {op} {ts}",
    "ts BETWEEN {ts} AND {ts} + INTERVAL '3' DAY",
    "to_unixtime(ts) > 1675900000",
    "ROW(n, s) = ROW({n}, {s})",
    "(n, s) IN (VALUES ({n}, {s}), ({n}, {s}))",
    "(n, s) IN (SELECT n, s FROM {t} WHERE id < {id})",
    "element_at(MAP(ARRAY['ab'], ARRAY[1]), s) = 1",
    "n IS NOT DISTINCT FROM NULL",
    "bitwise_and(n, 1) = 1",
    "concat_ws('-', s, 'x') = 'ab-x'",
    "codepoint(CAST(substr(s, 1, 1) AS VARCHAR(1))) = 97",
    "lpad(s, 2, 'z') = 'zz'",
    "CAST(d AS VARCHAR) = '2023-02-05'",
    "from_iso8601_date('2023-02-05') = d",
    "n IN ({n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n}, {n})",
)

SHAPES = (
    "SELECT id, n, s FROM {t} WHERE {where}",
    "SELECT count(*), min(id), max(id), count(n), count(DISTINCT s) FROM {t} WHERE {where}",
    "SELECT s, count(*) FROM {t} WHERE {where} GROUP BY s",
    "SELECT id FROM {t} WHERE {where} ORDER BY id DESC LIMIT 5",
    "SELECT a.id, c.n FROM (SELECT * FROM {t} WHERE {where}) a JOIN {t} c ON a.id = c.id + 40",
    "SELECT a.id, c.id FROM {t} c LEFT JOIN (SELECT * FROM {t} WHERE {where}) a ON a.id = c.id WHERE c.n = {n}",
    "SELECT id FROM {t} WHERE {where} UNION ALL SELECT id FROM {t} WHERE {other}",
    "SELECT id FROM {t} WHERE {where} EXCEPT SELECT id FROM {t} WHERE {other}",
    "WITH w AS (SELECT id, n FROM {t} WHERE {where}) SELECT count(*), (SELECT max(id) FROM w) FROM w WHERE id > {id}",
    "SELECT sum(CASE WHEN {where} THEN 1 ELSE 0 END) FROM {t} WHERE {other}",
)


def statement(
    rng: random.Random,
    engine: str,
    table: str,
    columns: Sequence[str],
    condition: str = "",
    *,
    alone: bool = False,
) -> str:
    """Return a statement with random conditions; a given one comes first, or stands `alone`."""
    if alone:
        return _filled(rng, SHAPES[0].replace("{where}", condition), table)
    where = _condition(rng, engine, columns, condition)
    text = rng.choice(SHAPES).replace("{where}", where)
    return _filled(rng, text.replace("{other}", _condition(rng, engine, columns, "")), table)


def conditions(engine: str, columns: Sequence[str]) -> list[str]:
    """Conditions of an engine over these columns; those over other columns do not fit the table."""
    absent = [name for name in ("d", "m") if name not in columns]
    return [each for each in (*COMMON, *(SPARK if engine == "spark" else TRINO)) if not _names(each, absent)]


def _names(condition: str, names: Sequence[str]) -> bool:
    """Tell whether a condition is about one of these columns, whose names are single letters."""
    bare = condition
    for quoted in ("'day'", "'d'"):
        bare = bare.replace(quoted, "")
    for place in ("{d}", "{m}"):
        bare = bare.replace(place, "")
    words = "".join(each if each.isalnum() or each in "_{}'%" else " " for each in bare).split()
    return any(name in words for name in names)


def _condition(rng: random.Random, engine: str, columns: Sequence[str], first: str) -> str:
    known = conditions(engine, columns)
    parts = [first or rng.choice(known)]
    parts += [rng.choice(known) for _ in range(rng.choice((0, 0, 1, 2)))]
    negated = [f"NOT ({part})" if rng.random() < 0.15 else f"({part})" for part in parts]
    return rng.choice((" AND ", " OR ")).join(negated)


def _filled(rng: random.Random, text: str, table: str) -> str:
    def day() -> datetime.date:
        return FIRST_DAY + datetime.timedelta(days=rng.randrange(-2, FILES * ROWS // 8 + 2))

    makers = {
        "{t}": lambda: table,
        "{op}": lambda: rng.choice(("=", "=", "<>", "<", "<=", ">", ">=")),
        "{n}": lambda: str(rng.randrange(-5, FILES * ROWS // 12 - 2)),
        "{id}": lambda: str(rng.randrange(-5, FILES * ROWS + 5)),
        "{s}": lambda: f"'{rng.choice(TEXTS)}{rng.choice(('', 'x'))}'",
        "{prefix}": lambda: f"'{rng.choice(TEXTS)}%'",
        "{d}": lambda: f"DATE '{day()}'",
        "{ts}": lambda: f"TIMESTAMP '{day()} {rng.randrange(24):02}:59:59.99900{rng.randrange(10)}'",
        "{x}": lambda: f"{rng.randrange(0, 60)}.25",
        "{m}": lambda: f"{rng.randrange(-4, 10)}.{rng.choice(('00', '05', '50', '25'))}",
    }
    for name, maker in makers.items():
        while name in text:
            text = text.replace(name, maker(), 1)
    return text
