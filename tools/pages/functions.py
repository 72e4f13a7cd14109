"""Writes docs/functions.md: what people write that prunes, from the registry of functions.

    python -m tools.pages.functions       # or `make api`

A page that is not up to date fails tests/unit/tools/test_functions_page.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pruner.expr.functions.function import Preimage
from pruner.expr.functions.registry import FUNCTIONS

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "functions.md"
ENGINES: Final = {"duckdb": "DuckDB", "spark": "Spark", "trino": "Trino"}

HEAD = """\
# Functions of columns that prune

Statistics of a column, and its bitmap, answer conditions on these functions of it without an index over an expression:
`year(ts) = 2024` becomes a range of `ts`, `lower(city) = 'paris'` the texts that may give that result.

Each row is a rule with a domain: the values for which the named engines were compared with it, at the edges of every
type. A file with a value outside the domain is kept, as is every file if the engine is not named. So a file for which
the function raises an error is kept, and the engine raises the error. Nested functions are taken apart up to four
levels deep. The optimizers of Spark and Trino turn some of these functions into ranges themselves.

`make api` writes this page from the registry. `test_functions_duckdb.py`, `…_spark.py` (with and without ANSI mode) and
`…_trino.py` below `tests/engines` fail when an engine changes what a function does.

| function | comparisons | of which values | {titles} |
|---|---|---|{dashes}|
"""

TAIL = """
## Moments that move

`now()`, `current_timestamp`, `current_date`, `today()` and `localtimestamp`, with `± INTERVAL`, `± days`, casts and
`date_trunc` around them, and in DuckDB `AT TIME ZONE` with UTC or a zone of the form Area/City, stand for any moment
between an earliest and a latest one:

- **Earliest.** In DuckDB the start of the session's transaction, elsewhere the moment of planning, less five minutes
  for clocks that differ. `ts >= now() - INTERVAL 1 DAY` drops files that end more than a day before.
- **Latest.** Only for a SELECT that `execute` of DuckDB's adapter runs: ten minutes after planning, so that `ts BETWEEN
  now() - INTERVAL 100 DAY AND now() - INTERVAL 99 DAY` reads that day alone. A statement that may have begun later runs
  again over all files. Relations, statements that write rows and other engines have no latest moment: there
  `ts < now()` drops nothing.

Spark and Trino replace these functions by the moment before pruner sees the predicate.

## Other forms

| form | what prunes |
|---|---|
| `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), …)` | each column by itself, for rows where the comparison is true |
| `(a, b) < (1, 2)` | the first column |
| `id = ANY([1, 2])`, `contains(ARRAY[1, 2], id)`; DuckDB: `id IN ?`, `= ANY(?)`, `list_contains([1, 2], id)` | as IN |
| `regexp_matches(s, '^abc…')`, `s RLIKE '^abc…'`, `regexp_like(s, '^abc…')` | the letters of the beginning |
| `starts_with(s, 'abc')`, `s ^@ 'abc'` | as LIKE |
| `lower(s) LIKE 'abc%'`, `starts_with(upper(s), 'ABC')`, `left(s, 3) LIKE 'ab%'` | by the letters of ASCII in front |
| `coalesce(x, 0) > 85` | by whether x is NULL |
| `CASE`, `if` over conditions | by their logic, up to six branches |
| `isnan(x)` | where NaN values were counted; not in Trino |
| `make_date(…)`, `… AT TIME ZONE 'Europe/Berlin'`, `… - INTERVAL 1 MONTH` of constants in text | as the constant |
| `st['a']`, `t.column`, `5 + 5`, `1 < 2`, `E'…'` in text | as the field, the column, the constant |
"""


def _spelled(rule: Preimage, engine: str) -> str:
    """How an engine spells a function that it agrees about, or why nothing is known of its own."""
    return f"`{rule.compared[engine]}`" if engine in rule.compared else f"– ({rule.missing[engine]})"


def page() -> str:
    """The text of docs/functions.md."""
    head = HEAD.format(titles=" | ".join(ENGINES.values()), dashes="|".join(["---"] * len(ENGINES)))
    rows: list[str] = []
    for function in FUNCTIONS.values():
        for rule in function.preimages:
            title, spelled = rule.title or function.name, (_spelled(rule, each) for each in ENGINES)
            rows.append(f"| {title} | {rule.operators} | {rule.domain} | {' | '.join(spelled)} |\n")
    return head + "".join(rows) + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
