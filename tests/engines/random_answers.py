"""Random statements that metadata may answer, for tables of any kind."""

from __future__ import annotations

import random
import re
from typing import Any


def random_statement(
    rng: random.Random,
    columns: list[str],
    where: str,
    filters: tuple[str, list[str]],
    *,
    table: str = "t",
    in_order: bool = True,
) -> str:
    """A statement of any form.

    Args:
        rng: the source of choices.
        columns: quoted names of the columns.
        where: the condition, with WHERE, or an empty string.
        filters: a condition for aggregates, and quoted names of boolean columns.
        table: the name of the table to read.
        in_order: whether the rows are in the same order as in the table that it is compared with; if not, any of
            several equal rows may be the first.
    """
    column, other = rng.choice(columns), rng.choice(columns)
    direction = rng.choice(["ASC", "DESC", ""]) + rng.choice(["", " NULLS FIRST", " NULLS LAST"])
    text = rng.choice(
        [
            f"SELECT count(*) FROM t {where}",
            f"SELECT count({column}), max({other}), min({column}) FROM t {where}",
            f"SELECT max({column}) FROM t {where}",
            f"SELECT min({column}) AS m FROM t {where}",
            f"SELECT count(DISTINCT {column}) FROM t {where}",
            f"SELECT {column}, count(*) FROM t {where} GROUP BY {column}",
            f"SELECT {column}, max({other}), min({column}), count({other}) FROM t {where} GROUP BY {column}",
            f"SELECT {column} FROM t {where} ORDER BY {column} {direction} LIMIT {rng.choice([1, 3, 10])}",
            f"SELECT count(*) FROM (SELECT {column} FROM t {where} LIMIT {rng.choice([1, 5, 30])})",
            *(_of_orders(rng, (column, other, rng.choice(columns)), direction, where) if in_order else ()),
            *_of_filters((column, other, rng.choice(columns)), where, *filters),
        ]
    )
    return re.sub(r"\bFROM t\b", f"FROM {table}", text)


def _of_filters(named: tuple[str, str, str], where: str, only: str, truths: list[str]) -> list[str]:
    """Aggregates with FILTER, of booleans and grouped by several columns."""
    column, other, third = named
    both = f"count({column}) FILTER ({only})"
    return [
        f"SELECT count(*) FILTER (WHERE {only}), count(*) FROM t {where}",
        f"SELECT {both}, count({other}) FILTER (WHERE {column} IS NULL), count(*) FROM t {where}",
        f"SELECT max({column}) FILTER (WHERE {only}) AS m, {both} FROM t {where}",
        f"SELECT {other}, {both}, count(*) FROM t {where} GROUP BY {other}",
        f"SELECT {column}, {other}, count(*) AS n FROM t {where} GROUP BY {other}, {column}",
        f"SELECT {column}, count(*), max({third}), {other} FROM t {where} GROUP BY 1, 4",
        f"SELECT {other}, max({column}) FROM t {where} GROUP BY {other}, {third}",
        f"SELECT DISTINCT {column}, {other} FROM t {where}",
        f"SELECT {other}, max({column}) FROM t {where} GROUP BY {other}",
        *(
            f"SELECT {shown} FROM t {where}{group}"
            for truth in truths
            for shown, group in (
                (f"bool_and({truth}), bool_or({truth}) AS a", ""),
                (f"{other}, bool_or({truth})", f" GROUP BY {other}"),
                (f"bool_and({truth}) FILTER ({only})", ""),
            )
        ),
    ]


def _of_orders(rng: random.Random, named: tuple[str, str, str], direction: str, where: str) -> list[str]:
    """Rows of extremes, first rows by rank, per group and by several keys, and joins with what metadata answers."""
    column, other, third = named
    rows, further = rng.choice([1, 2, 5]), rng.choice(["ASC", "DESC NULLS FIRST", "NULLS LAST"])
    at_extreme, rank = rng.choice(["arg_max", "min_by"]), rng.choice(["row_number", "rank"])
    order = f"ORDER BY {column} {direction}"
    ranked = f"SELECT {column} AS c, {other} AS o, {rank}() OVER (PARTITION BY {other} {order}) AS r FROM t {where}"
    return [
        f"SELECT {at_extreme}({other}, {column}), max({column}) FROM t {where}",
        f"SELECT {other}, {at_extreme}({column}, {column}), max({column}) FROM t {where} GROUP BY {other}",
        f"SELECT {other}, {at_extreme}({other}, {column}) FROM t {where} GROUP BY {other}",
        f"SELECT {column}, {other} FROM t {where} {order}, {other} {further} LIMIT {rows} OFFSET {rows - 1}",
        f"SELECT {column} FROM t {where} QUALIFY row_number() OVER ({order}, {other}) <= {rows}",
        f"SELECT {column}, {other} FROM t {where} QUALIFY rank() OVER ({order}) < {rows + 1}",
        f"SELECT {column}, {other} FROM t {where} QUALIFY {rank}() OVER (PARTITION BY {other} {order}) <= {rows}",
        f"SELECT c, o, r FROM ({ranked}) WHERE r <= {rows}",
        f"WITH w AS ({ranked}) SELECT c, o, r FROM w WHERE r = {rows}",
        f"SELECT {column}, {other} FROM t {where} QUALIFY dense_rank() OVER ({order}, {other}) <= {rows}",
        f"SELECT {column} FROM t {where} QUALIFY {rank}() OVER (PARTITION BY {other}, {third} {order}) <= {rows}",
        f"SELECT DISTINCT {column} FROM t {where}",
        f"SELECT EXISTS (SELECT {other} FROM t {where})",
        f"SELECT count(*) FROM t JOIN (SELECT max({column}) AS m FROM t {where}) ON {column} = m",
        f"SELECT count(*) FROM t WHERE {column} IN (SELECT {column} FROM t {where} {order} LIMIT {rows})",
    ]


def shown(row: tuple[Any, ...]) -> str:
    """A row as text, with both zeros alike: DuckDB decides which of them is returned."""
    return repr(tuple(each + 0.0 if isinstance(each, float) else each for each in row))
