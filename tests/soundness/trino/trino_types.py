"""What tests of mixed Parquet types need for Trino: the types that a table may declare, and predicates."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from decimal import Decimal

from tests.soundness.mixed_tables import MixedTable, draw_over_column
from tests.soundness.parquet_type_kinds import as_day, as_moment, as_word

DECLARED: Mapping[str, tuple[str, ...]] = {
    "moments": ("timestamp", "timestamp", "timestamp", "bigint"),
    "texts": ("string", "string", "varchar(2)", "char(3)", "binary"),
    "integers": ("tinyint", "smallint", "int", "bigint", "int", "bigint", "float", "double", "decimal(20,0)"),
    "narrow integers": ("tinyint", "smallint", "int", "bigint"),
    "days": ("date", "date", "int"),
    "decimals": ("decimal(9,2)", "decimal(12,3)", "decimal(30,2)", "decimal(38,4)", "double"),
    "sixteen bytes": ("binary", "string"),
    "fractions": ("float", "double"),
    "old moments": ("timestamp",),
    "old days": ("date",),
}
"""Hive's types that a table may declare for a column of each family."""

_SQL_TYPES = {"string": "varchar", "float": "real", "int": "integer", "binary": "varbinary"}


def sql_type(hive: str) -> str:
    """Trino's own name of a metastore type."""
    return "timestamp(6)" if hive == "timestamp" else _SQL_TYPES.get(hive, hive)


def _whole(n: int) -> list[str]:
    return [str(n), str(n), f"{n}.5", str(n % 256), str(n % 65536), f"DOUBLE '{n}'", f"BIGINT '{n}'"]


def _fraction(n: int) -> list[str]:
    return [f"DOUBLE '{n / 10}'", f"REAL '{n / 10}'", f"{n / 10}", str(n // 10), "nan()"]


def _decimal(n: int) -> list[str]:
    value = Decimal(n).scaleb(-2)
    return [f"DECIMAL '{value}'", str(value), str(n // 100), f"DOUBLE '{value}'", f"DECIMAL '{value}5'"]


def _moment(n: int) -> list[str]:
    moment = as_moment(n)
    return [
        f"TIMESTAMP '{moment}'",
        f"TIMESTAMP '{moment}.000001'",
        f"TIMESTAMP '{moment} UTC'",
        f"TIMESTAMP '{moment} America/New_York'",
        f"DATE '{moment.date()}'",
        f"TIMESTAMP '9999-01-01 00:{n // 60 % 17:02}:{n % 60:02}'",
    ]


def _date(n: int) -> list[str]:
    day = as_day(n) if abs(n) < 10**6 else datetime.date(2024, 1, 1)
    return [f"DATE '{day}'", f"DATE '{day}'", f"TIMESTAMP '{day} 01:00:00'"]


def _text(n: int) -> list[str]:
    return [f"'{as_word(n)}'", f"'{as_word(n)[:2]}'", f"'{n}'", f"'{n:016}'"]


def _bytes(n: int) -> list[str]:
    return [f"X'{as_word(n).encode().hex()}'", f"X'{f'{n:016}'.encode().hex()}'"]


def literals(sql: str) -> Callable[[int], list[str]]:
    """A function that writes a number as constants that Trino compares with values of a type."""
    match sql.partition("(")[0]:
        case "timestamp":
            return _moment
        case "date":
            return _date
        case "varchar" | "char":
            return _text
        case "varbinary":
            return _bytes
        case "decimal":
            return _decimal
        case "real" | "double":
            return _fraction
        case _:
            return _whole


def _shapes(sql: str) -> tuple[str, ...]:
    match sql.partition("(")[0]:
        case "timestamp":
            return (
                "CAST({x} AS date) {op} DATE '2024-01-01'",
                "date_trunc('day', {x}) {op} {literal}",
                "year({x}) {op} 2024",
            )
        case "varchar" | "char":
            return ("{x} LIKE '{letter}%'", "starts_with({x}, '{letter}')", "upper({x}) {op} {literal}")
        case "tinyint" | "smallint" | "integer" | "bigint":
            return (
                "CAST({x} AS bigint) {op} {literal}",
                "CAST({x} AS double) {op} {literal}",
                "{x} % 7 = 3",
                "CAST({x} AS decimal(38, 2)) {op} {literal}",
            )
        case "real" | "double":
            return ("is_nan({x})", "CAST({x} AS double) {op} {literal}")
        case "decimal":
            return ("CAST({x} AS double) {op} {literal}",)
        case _:
            return ("{x} IS NOT NULL",)


def draw_predicate(rng: random.Random, table: MixedTable, declared: str) -> str:
    """A predicate on the table's column that Trino accepts for the type that the table declares."""
    sql = sql_type(declared)

    def literal() -> str:
        number = rng.choice(table.numbers) + rng.choice([0, 0, 0, -1, 1])
        return rng.choice(literals(sql)(number))

    return draw_over_column(rng, table.name, literal, _shapes(sql), "IS NOT DISTINCT FROM")
