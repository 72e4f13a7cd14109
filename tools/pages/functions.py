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

Plain statistics of a column, and its bitmap, serve conditions on functions of it. No index over an expression is
needed. `year(ts) = 2024` is asked of `ts` as a range, `lower(city) = 'paris'` as the texts that may give that result.

Each row is a rule with a domain: the values for which the named engines were compared with it, at the edges of every
type. The tests are `test_functions_duckdb.py`, `…_spark.py` (with and without ANSI mode) and `…_trino.py` below
`tests/engines`. They fail when an engine changes what a function does. A file with a value outside the domain is kept,
as is every file where the engine is not named. So a file for which the function raises an error is kept, too, and the
engine raises the error. Nested functions are taken apart up to four levels deep. `make api` writes this page from the
registry.

The optimizers of Spark and Trino turn some of these into ranges themselves. `year(ts) = 2024` and
`date_trunc('day', ts) = …` come from Trino as ranges of `ts`. What they leave as functions is read from the expressions
that they pass on.

| function | comparisons | of which values | {titles} |
|---|---|---|{dashes}|
"""

TAIL = """
## Moments that move

`now()`, `current_timestamp`, `current_date`, `today()` and `localtimestamp`, with `± INTERVAL`, `± days`, casts and
`date_trunc` around them, and in DuckDB `AT TIME ZONE` with UTC or a zone of the form Area/City, stand for any moment
from an earliest one on. So `ts >= now() - INTERVAL 1 DAY` drops files that end more than a day before that earliest
moment, and so does `ts >= now() AT TIME ZONE 'UTC' - INTERVAL 1 DAY`. `ts < now()` drops nothing where it is not known
when the files of the plan will be read. In DuckDB the earliest moment is the start of the session's transaction, for
which it is asked each time, and a SELECT that `execute` runs has a latest moment, too: ten minutes after it was
planned. So `ts BETWEEN now() - INTERVAL 100 DAY AND now() - INTERVAL 99 DAY` reads that day alone. A statement that may
have begun later than that runs again over all files. A relation can run at any later time, so it has no latest moment;
nor has a statement that writes rows. Elsewhere the earliest moment is that of planning, less five minutes for clocks
that differ. Spark and Trino replace these functions by the moment before pruner sees the predicate.

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
