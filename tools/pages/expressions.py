"""Writes docs/index-functions.md: the functions that indexes over expressions may contain.

    python -m tools.pages.expressions       # or `make api`

A page that is not up to date fails tests/unit/tools/test_expressions_page.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pruner.expr.functions.registry import FUNCTIONS
from tools.pages.functions import ENGINES

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "index-functions.md"

HEAD = """\
# Functions in index expressions

The functions that [an index over an expression](expressions.md) may contain. `make api` writes this page from the
registry. If an engine has no spelling here, it was not compared, and the index does not answer it. Spellings with the
same meaning count as well: `date_part('hour', ts)`, `extract(hour FROM ts)`. *Order* says for which arguments the
function is monotonic, so that its index answers conditions on the column as well.

| function | of which values | order | {titles} |
|---|---|---|{dashes}|
"""


def page() -> str:
    """The text of docs/index-functions.md."""
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
