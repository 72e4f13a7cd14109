"""Random Delta tables, written by hand: deleted rows, NULL, NaN, cut bounds, files without statistics or a column."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.support.delta.logs import Column, DeltaLog, write_checkpoint

START = datetime(1969, 12, 31, 23, 59, 59, 995_000, tzinfo=UTC)
COLUMNS = (
    Column("id", "long"),
    Column("number", "long"),
    Column("real", "double"),
    Column("price", "decimal(9,2)"),
    Column("text", "string"),
    Column("at", "timestamp"),
    Column("late", "long"),
)


def drawn(random: Random, name: str, low: int) -> Any:
    """A value about a place in the order of a column, which microseconds and characters behind the 32nd decide too."""
    at = low + random.randrange(12)
    match name:
        case "real":
            return random.choice((float(at), -0.0, 0.0, at / 3, math.nan if random.random() < 0.02 else 1.5))
        case "price":
            return Decimal(at) / 4
        case "text":
            return chr(ord("A") + at % 26) * random.choice((1, 31, 32, 33, 40)) + random.choice(
                ("", "a", "\U0010ffff")
            )
        case "at":
            return START + timedelta(microseconds=at * 700 + random.randrange(1_000))
        case _:
            return at


def random_table(random: Random, root: Path) -> DeltaLog:
    """Nine files of which values grow, more or less, from file to file; some have no statistics, some a vector."""
    table = DeltaLog(root, COLUMNS, features=("deletionVectors",))
    nullable = {each.name for each in COLUMNS[1:] if random.random() < 0.4}
    for number in range(9):
        if number == random.randrange(4, 9):
            write_checkpoint(table)
        rows = random.randrange(1, 12)
        overlap = random.choice((4, 10))
        held = {
            each.name: [
                None
                if each.name in nullable and random.random() < random.choice((0.1, 1.0))
                else drawn(random, each.name, number * overlap)
                for _ in range(rows)
            ]
            for each in COLUMNS
            if each.name != "late" or number > 5
        }
        arrays = {
            each.name: pa.array(held[each.name], each.arrow().type) for each in COLUMNS if each.name in held
        }
        (path,) = table.append(pa.table(arrays), stats=random.random() > 0.1)
        if random.random() < 0.4:
            table.delete({path: random.sample(range(rows), random.randrange(rows + 1))})
    return table
