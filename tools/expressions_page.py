"""Writes docs/expressions.md: indexes over expressions, with the functions that they may be over.

    python -m tools.expressions_page       # or `make api`

A page that is not up to date fails tests/unit/tools/test_expressions_page.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pruner.expr.derived.rows import FUNCTIONS
from tools.functions_page import ENGINES

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "expressions.md"

HEAD = """\
# Indexes over expressions

```python
table.create_index("hour_idx", on="date_format(ts, '%H')", using="bitmap", dialect="trino")
table.plan("strftime(ts, '%H') = '09'", semantics=pruner.Semantics(engine="duckdb", zone="UTC"))
table.plan("hour_idx = '09'")
```

```sql
CREATE INDEX hour_idx ON events USING bitmap (strftime(ts, '%H'))
CREATE FUNCTION INDEX income_idx ON employees (salary + (salary * commission_pct))
```

An index of any type may be over an expression of one column or several. Its values are made when it is built, by
DuckDB, and recorded as those of a column are. A condition on the expression then prunes, in whatever spelling it
comes, and so does one on the index's name as if that were a column: in `plan`, in `--where` on the command line, and
in the queries of `pruner query`, where the name stands for its expression. By its name an index over an instant always
means what the clock shows in UTC. `dialect` says in whose SQL the expression is
written: `duckdb` unless given. One index is over one expression.

Where a function never falls, an index over it answers conditions on its column as well: `ts BETWEEN a AND b` and
`year(ts) = 2024` ask an index over `date(ts)`, in every session and zone, as the engine computes nothing but `ts`. The
table says which do: dates, `date_trunc`, patterns with the year first and the rest in order, the beginning of a text,
sums and products with constants. A bitmap over `date(ts)` so tells a file of two days that lie apart from one of all
the days between them.

Plain statistics serve [many functions of a column](functions.md) without such an index. It is for those that leave no
range of the column: the hour of the day, `id % 8`, and expressions over several columns.

## When it answers

- The expression of the condition is the same: functions, columns, constants and patterns, whatever their spelling.
  Casts that change nothing do not matter.
- The asking engine was compared with the evaluation for each function in it: the table below.
- Every value of the file that goes in, or comes up between nested functions, lies where they were compared. That is
  recorded for each file and engine. Text that is no UTF-8 is nowhere compared.
- The session's clock is that of the evaluation. An instant (TIMESTAMP WITH TIME ZONE in DuckDB, TIMESTAMP in Spark)
  has its hour in UTC there. A session in another zone, or of one that is not known, is not answered. For timestamps
  without a zone it does not matter, nor for `timezone('UTC', ts)` in DuckDB. Engines that round timestamps when they
  read them (Trino's `hive.timestamp-precision`) are not answered about them. Trino's connectors show an instant as
  UTC's clock, whatever the session's zone, so there it does not matter either.
- The engine reads the source columns as they were recorded (rule R11).

Everything else keeps its file, and the plan's `fallbacks` say why. A function that is not in the table, a user's
function, an aggregate or one that depends on chance or time is refused by name when the index is created. So are
integers with a constant that is a decimal or a float of 32 bits, `a * 0.1`: engines reckon them as such.

Under merge-on-read an expression over **one** column covers base and log files. Over several columns slices with log
files are left open: which values stand in one row, the merge decides.

## Writing for pruning

An index leaves out many files only where few files hold a value. Rows that are written in the order of its expression
lie so (RFC-63's appendix):

```python
# An index of the table, or "date_format(ts, 'HH')".
in_order = pruner_spark.sort_for(df, "hour_idx", table="s3://lake/events", files=200)
in_order.write.parquet("s3://lake/events_by_hour")

query = pruner_duckdb.sort_for("SELECT * FROM events", "hour_idx", table="events")
con.execute("SET threads = 1")
con.execute(f"COPY ({{query}}) TO 'events_by_hour' (FORMAT parquet, FILE_SIZE_BYTES '256MB')")
```

Of 16 files with every hour in each, a condition on one hour reads 16; of the same rows in this order at most 2. Where
`table` is left out, `pruner_spark.sort_for` asks the tables that the DataFrame reads. Spark orders instants by the
session's clock. DuckDB mixes the rows of several threads in several files, hence the one thread. Hudi's `bulk_insert`
keeps the order with `hoodie.bulkinsert.sort.mode=NONE`.

## Otherwise than Hudi

Hudi's expression indexes take `date_format` for a function that keeps the order of its column, whatever its pattern,
and then prune `ts` by it. `MM/dd/yyyy` does not: 12/31/2022 comes after 01/01/2023 as text. Here the values of the
pattern are recorded, and only a condition on that very pattern is answered. `yyyy-MM-dd` does keep the order, so an
index over it answers ranges of `ts`, too: on the day of the constant itself only what the whole day has in common.

## Versions

A definition names the version of the table of functions and of DuckDB by which it was made, and each record does.
Where a later version of pruner finds that a function means something else, its row counts up: older records of it are
not used, and `refresh` asks to create the index anew.

## What no index is over

- `xxhash64`, `hash`: each engine begins with another seed, or hashes otherwise. `md5` and `sha256` are equal.
- The size of an array and its elements: no index reads columns of lists.
- Regular expressions beyond their literal beginning, `initcap`, `soundex`, logarithms and powers: engines differ in
  some values, and no domain was found that is worth a row.
- Decimals: their result has another type, and other digits, in each engine. Conditions on arithmetic of decimals are
  answered from [statistics of the column](functions.md) where that is certain.
- In Trino a JSON path reaches the plugin without its text, so `json_extract_scalar` prunes in `plan` and `preview`
  alone. A `CASE` does not reach it either; Spark's optimizer makes conditions on columns of most of them.

## The functions

The page is made from the registry by `make api`. An engine without a spelling was not compared, and is not answered.
Spellings that mean the same count as well: `date_part('hour', ts)`, `extract(hour FROM ts)`. *Order* says of which
arguments it never falls, so that it answers for its column.

| function | of which values | order | {titles} |
|---|---|---|{dashes}|
"""


def page() -> str:
    """The text of docs/expressions.md."""
    head = HEAD.format(titles=" | ".join(ENGINES.values()), dashes="|".join(["---"] * len(ENGINES)))
    rows: list[str] = []
    for function in (row for rows_ in FUNCTIONS.values() for row in rows_):
        spelled = (f"`{function.compared[each]}`" if each in function.compared else "" for each in ENGINES)
        cells = " | ".join(each.replace("||", "\\|\\|") for each in spelled)
        rows.append(f"| {function.name} | {function.values} | {function.in_order} | {cells} |\n")
    return head + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
