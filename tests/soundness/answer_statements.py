"""Random queries that metadata may answer, and their required rows, given the rows that meet the condition."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

KINDS = (
    *("count", "several", "max", "min", "distinct", "by", "by two", "extremes by", "values"),
    *("top", "top by two", "limit"),
)


@dataclass(frozen=True)
class Query:
    """A query over one table: of `kind`, with two columns of it, a condition, and a number of rows."""

    kind: str
    column: str
    other: str
    where: str
    rows: int = 0
    skipped: int = 0
    descending: bool = False
    nulls_first: bool = False
    then_descending: bool = False
    then_nulls_first: bool = False

    def sql(self, table: str, quote: Callable[[str], str], *, offset_first: bool = False) -> str:
        """Write it; engines have OFFSET before or after LIMIT."""
        column, other = quote(self.column), quote(self.other)
        source = f"FROM {table}" + (f" WHERE {self.where}" if self.where else "")
        match self.kind:
            case "count":
                return f"SELECT count(*) {source}"
            case "several":
                return f"SELECT count({column}), max({other}), min({column}), count(*) {source}"
            case "max" | "min":
                return f"SELECT {self.kind}({column}) {source}"
            case "distinct":
                return f"SELECT count(DISTINCT {column}) {source}"
            case "by":
                return f"SELECT {column}, count(*) {source} GROUP BY {column}"
            case "by two":
                return f"SELECT {column}, {other}, count(*) {source} GROUP BY {column}, {other}"
            case "extremes by":
                calls = f"max({other}), min({other}), count({other})"
                return f"SELECT {column}, {calls}, count(*) {source} GROUP BY {column}"
            case "values":
                return f"SELECT DISTINCT {column} {source}"
            case "limit":
                return f"SELECT count(*) FROM (SELECT {column} {source} LIMIT {self.rows}) AS l"
            case _:
                order = _order(column, self.descending, self.nulls_first)
                shown = column
                if self.kind == "top by two":
                    order += f", {_order(other, self.then_descending, self.then_nulls_first)}"
                    shown = f"{column}, {other} AS then_by"
                skipped = f"OFFSET {self.skipped}" if self.skipped else ""
                limits = (skipped, f"LIMIT {self.rows}")
                limited = " ".join(limits if offset_first else limits[::-1])
                return f"SELECT {shown} {source} ORDER BY {order} {limited}"

    def require(self, told: Sequence[Sequence[Any]], rows: Sequence[Row], repeat: str) -> None:
        """Assert that some rows are those of the query, where `rows` are all that meet its condition."""
        found = [tuple(map(_key, row)) for row in told]
        if self.kind.startswith("top"):
            wanted = self._first(rows)
            assert found == wanted, f"{found} and not {wanted}{repeat}"
        else:
            expected = Counter(tuple(map(_key, row)) for row in self._rows(rows))
            assert Counter(found) == expected, f"{Counter(found)} and not {expected}{repeat}"

    def _first(self, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        orders = [(self.column, self.descending, self.nulls_first)]
        if self.kind == "top by two":
            orders.append((self.other, self.then_descending, self.then_nulls_first))
        found = [tuple(_key(row[column]) for column, _, _ in orders) for row in rows]
        # By the last key first: the sort is stable.
        for place, (_, descending, nulls_first) in reversed(list(enumerate(orders))):
            nulls = [row for row in found if row[place] is None]
            values = [row for row in found if row[place] is not None]
            values.sort(key=lambda row: row[place], reverse=descending)
            found = [*nulls, *values] if nulls_first else [*values, *nulls]
        return found[self.skipped : self.skipped + self.rows]

    def _rows(self, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        values = [row[self.column] for row in rows if row[self.column] is not None]
        match self.kind:
            case "count":
                return [(len(rows),)]
            case "several":
                others = [row[self.other] for row in rows if row[self.other] is not None]
                return [
                    (
                        len(values),
                        max(others, key=_key, default=None),
                        min(values, key=_key, default=None),
                        len(rows),
                    )
                ]
            case "max":
                return [(max(values, key=_key, default=None),)]
            case "min":
                return [(min(values, key=_key, default=None),)]
            case "distinct":
                return [(len(set(map(_key, values))),)]
            case "limit":
                return [(min(self.rows, len(rows)),)]
            case "by two":
                pairs = Counter((_key(row[self.column]), _key(row[self.other])) for row in rows)
                return [(*pair, count) for pair, count in pairs.items()]
            case _:
                groups = Counter(_key(row[self.column]) for row in rows)
                if self.kind == "extremes by":
                    return [(key, *self._of_group(rows, key), count) for key, count in groups.items()]
                return [(key,) if self.kind == "values" else (key, count) for key, count in groups.items()]

    def _of_group(self, rows: Sequence[Row], key: Any) -> tuple[Any, ...]:
        group = (row[self.other] for row in rows if _key(row[self.column]) == key)
        others = [value for value in group if value is not None]
        return max(others, key=_key, default=None), min(others, key=_key, default=None), len(others)


def draw_query(rng: random.Random, columns: Sequence[str], where: str) -> Query:
    """A query of any kind."""
    return Query(
        rng.choice(KINDS),
        rng.choice(columns),
        rng.choice(columns),
        where,
        rng.choice([1, 2, 5, 20]),
        rng.choice([0, 0, 3]),
        rng.random() < 0.5,
        rng.random() < 0.4,
        rng.random() < 0.5,
        rng.random() < 0.4,
    )


def _order(column: str, descending: bool, nulls_first: bool) -> str:
    return f"{column} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _key(value: Any) -> Any:
    """Equal values have one key, NaN above all numbers; keys order as values do."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if isinstance(value, tuple):
        return value
    return bytes(value) if isinstance(value, bytearray) else value
