"""Random predicates over functions of several columns, and a table of files for them to be held against full scans."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.functions.conditions import Quote, conditions, constants
from tests.support.functions.forms import DAY, FORMS, SECOND, Form, column

FILES = 12
ROWS = 20
KIND_OF = {
    "a": "int16", "b": "int32", "d": "date", "w": "wall", "t": "instant", "s": "text", "h": "wall", "m": "decimal",
}  # fmt: skip
"""The columns with their types; `h` spans an hour in each file."""
_FIRST = (datetime.date(2023, 11, 1) - datetime.date(1970, 1, 1)).days
_WORDS = ("berlin", "Paris", "LIMA", "\u212airuna", "stra\u00dfe", "\u0130zmir", "oslo", "Rome", "", "quito")
_COLUMN = re.compile(r"\bc\b")


def write_files(root: Path, columns: Sequence[str]) -> None:
    """Files whose values lie near each other, with NULL among them; no function of the forms fails for any."""
    rng = random.Random(16)
    root.mkdir(parents=True)
    for number in range(FILES):
        made = {name: column(_values(rng, name, number), KIND_OF[name]) for name in columns}
        pq.write_table(pa.table(made), root / f"part-{number:02}.parquet")


def _values(rng: random.Random, name: str, number: int) -> list[Any]:
    rows = range(ROWS)
    match KIND_OF[name]:
        case "wall" if name == "h":
            values: list[Any] = [
                _FIRST * DAY + (51 * number) * 60 * SECOND + rng.randrange(DAY // 24) for _ in rows
            ]
        case "date":
            values = [_FIRST + 25 * number + rng.randrange(30) for _ in rows]
        case "wall" | "instant":
            values = [(_FIRST + 25 * number) * DAY + rng.randrange(30 * DAY) for _ in rows]
        case "text":
            values = [
                (rng.choice(_WORDS) if number % 3 else f"{number}{rng.choice('aAbB')}").encode() for _ in rows
            ]
        case _:
            values = [10 * number - 40 + rng.randrange(12) for _ in rows]
    return [None if rng.random() < 0.1 and number % 2 else value for value in values]


@dataclass(frozen=True)
class Function:
    """A function of one of the columns."""

    text: str
    form: Form


def functions_of(engine: str, columns: Sequence[str]) -> list[Function]:
    """Every form of an engine over each column that it takes."""
    return [
        Function(_COLUMN.sub(name, form.written[engine]), form)
        for form in FORMS
        if engine in form.written
        for name in columns
        if KIND_OF[name] in form.types
    ]


def drawn(
    rng: random.Random,
    functions: Sequence[Function],
    shown: Callable[[str], Sequence[str | None]],
    quote: Quote,
    count: int,
) -> list[str]:
    """Predicates with NOT, OR and IS NULL around conditions over functions.

    Args:
        rng: draws them.
        functions: what the conditions are about.
        shown: the results of a function in the table, as text.
        quote: writes one as a constant.
        count: how many.
    """
    atoms: dict[str, list[str]] = {}
    for each in functions:
        literals = constants(rng, shown(each.text), each.form.result, quote, 2)
        atoms[each.text] = conditions(each.text, literals)

    def predicate(depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(atoms[rng.choice(functions).text])
        one, two = predicate(depth - 1), predicate(depth - 1)
        return rng.choice(
            (
                f"({one}) AND ({two})",
                f"({one}) AND ({two})",
                f"({one}) OR ({two})",
                f"NOT ({one})",
                f"NOT (({one}) OR ({two}))",
                f"({one}) AND ({two}) IS NULL",
                f"({one}) IS NOT NULL AND ({two})",
            )
        )

    return [predicate(rng.randrange(3)) for _ in range(count)]
