"""Writes docs/expressions.md: indexes over expressions, with the functions that they may be over.

    python -m tools.pages.expressions       # or `make api`

A page that is not up to date fails tests/unit/tools/test_expressions_page.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pruner.expr.functions.registry import FUNCTIONS
from tools.pages.functions import ENGINES

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "expressions.md"

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

An index of any built-in type may be over an expression of one or several columns. DuckDB computes the values when the
index is built, and they are recorded like those of a column. A condition on the expression then prunes, however it is
spelled. So does a condition on the index's name, as if that were a column: in `plan`, in `--where` on the command line,
and in the queries of `pruner query`, where the name stands for its expression. Under its name, an index over an instant
always means what the clock shows in UTC. `dialect` says in whose SQL the expression is written: `duckdb` unless given.
One index is over one expression.

Where a function is monotonic (never decreasing), an index over it answers conditions on its column as well:
`ts BETWEEN a AND b` and `year(ts) = 2024` ask an index over `date(ts)`, in every session and time zone, because the
engine computes nothing but `ts`. The column *order* of the table says which functions are: dates, `date_trunc`,
patterns with the year first and the rest in order, the beginning of a text, sums and products with constants. So a
bitmap over `date(ts)` distinguishes a file with two separate days from one with all the days between them.

Plain statistics serve [many functions of a column](functions.md) without such an index. An index over an expression is
for those that do not become a range of the column: the hour of the day, `id % 8`, and expressions over several columns.

## When it answers

- The expression of the condition is the same: functions, columns, constants and patterns, whatever their spelling.
  Casts that change nothing do not matter.
- Each function in the expression was compared between the asking engine and the evaluation: the table below lists them.
- Every value of the file that goes into a function, between nested functions as well, lies in the range in which they
  were compared. That is recorded for each file and engine. Text that is not UTF-8 was not compared.
- The session's time zone is that of the evaluation. There, an instant (TIMESTAMP WITH TIME ZONE in DuckDB, TIMESTAMP in
  Spark) has its hour in UTC. A session in another or an unknown time zone is not answered. The zone does not matter for
  timestamps without a zone, nor for `timezone('UTC', ts)` in DuckDB. Nor does it matter in Trino, whose connectors show
  an instant as UTC, whatever the session's zone. Engines that round timestamps when they read them (Trino's
  `hive.timestamp-precision`) are not answered about them.
- The engine reads the source columns as they were recorded (rule R11).

Everything else keeps its file, and the plan's `fallbacks` say why. Functions that are not in the table, user-defined
functions, aggregates, and functions that depend on chance or time are refused when the index is created, and the error
names them. So is arithmetic of integers with a constant that is a decimal or a 32-bit float, such as `a * 0.1`, because
engines compute it in that type.

Under merge-on-read an expression over **one** column covers base and log files. For an expression over several columns
file groups with log files are not covered, because the merge decides which values are in one row.

## Writing for pruning

An index leaves out many files only if each value is in few files. That is so if the rows are written in the order of
the expression (see the appendix of RFC-63):

```python
# An index of the table, or "date_format(ts, 'HH')".
in_order = pruner_spark.sort_for(df, "hour_idx", table="s3://lake/events", files=200)
in_order.write.parquet("s3://lake/events_by_hour")

query = pruner_duckdb.sort_for("SELECT * FROM events", "hour_idx", table="events")
con.execute("SET threads = 1")
con.execute(f"COPY ({{query}}) TO 'events_by_hour' (FORMAT parquet, FILE_SIZE_BYTES '256MB')")
```

Over 16 files with every hour in each, a condition on one hour reads 16 files. Over the same rows in this order it reads
at most 2. Where `table` is left out, `pruner_spark.sort_for` looks for the index in the tables that the DataFrame
reads. Spark orders instants by the session's time zone. With several threads DuckDB mixes rows across files, hence the
one thread. Hudi's `bulk_insert` keeps the order with `hoodie.bulkinsert.sort.mode=NONE`.

## Differences from Hudi

Hudi's expression indexes assume that `date_format` keeps the order of its column, whatever its pattern, and then prune
`ts` by it. `MM/dd/yyyy` does not keep it: 12/31/2022 comes after 01/01/2023 as text. pruner records the values of the
pattern, and answers only conditions on exactly that pattern. `yyyy-MM-dd` does keep the order, so an index over it
answers ranges of `ts`, too. On the day of the constant itself it answers only what the whole day has in common.

## Versions

Each definition and each record name the versions of the table of functions and of DuckDB by which they were made. Where
a later version of pruner changes what a function means, the version of its row increases. Older records of it are then
not used, and `refresh` asks you to create the index anew.

## Unsupported expressions

- `xxhash64`, `hash`: each engine begins with another seed, or hashes differently. `md5` and `sha256` are equal.
- The size of an array and its elements: no index reads columns of lists.
- Regular expressions beyond their literal beginning, `initcap`, `soundex`, logarithms and powers: engines differ in
  some values, and no domain was found that is worth a row.
- Decimals: the result has a different type, and different digits, in each engine. Conditions on arithmetic of decimals
  are answered from [statistics of the column](functions.md) where that is certain.
- In Trino a `CASE` of values reaches the plugin as conditions on its branches, from which the whole is not known again.
  Spark's optimizer turns most `CASE` expressions into conditions on columns, too.

## The functions

`make api` writes this page from the registry. An engine without a spelling was not compared, and is not answered.
Spellings with the same meaning count as well: `date_part('hour', ts)`, `extract(hour FROM ts)`. *Order* says for which
arguments the function is monotonic, so that its index answers for the column.

| function | of which values | order | {titles} |
|---|---|---|{dashes}|
"""


def page() -> str:
    """The text of docs/expressions.md."""
    head = HEAD.format(titles=" | ".join(ENGINES.values()), dashes="|".join(["---"] * len(ENGINES)))
    rows: list[str] = []
    for function in FUNCTIONS.values():
        for each in function.evaluations:
            spelled = (f"`{each.compared[engine]}`" if engine in each.compared else "" for engine in ENGINES)
            cells = " | ".join(text.replace("||", "\\|\\|") for text in spelled)
            rows.append(f"| {function.name} | {each.values} | {each.in_order} | {cells} |\n")
    return head + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
