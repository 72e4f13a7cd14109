"""Random predicates over a random table, as a small tree that can be written as SQL and judged by the oracle."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.soundness.kinds import Kind, Value


@dataclass(frozen=True)
class Test:
    """One leaf: `operator` is =, !=, <, <=, >, >=, in, null or prefix (LIKE 'p%'); `operands` are domain values.

    A None among the operands of `in` is a NULL in the list.
    """

    __test__ = False

    column: str
    kind: Kind
    operator: str
    operands: tuple[Value, ...] = ()

    def sql(self) -> str:
        match self.operator:
            case "null":
                return f'"{self.column}" IS NULL'
            case "prefix":
                return f'"{self.column}" LIKE {_like(self.operands[0])}'
            case "in":
                options = ", ".join(
                    "NULL" if value is None else self._literal(value) for value in self.operands
                )
                return f'"{self.column}" IN ({options})'
            case _:
                return f'"{self.column}" {self.operator} {self._literal(self.operands[0])}'

    def _literal(self, value: Value) -> str:
        from decimal import Decimal

        if isinstance(value, Decimal) and self.kind.name.startswith("int"):
            return f"{value:f}"
        return self.kind.sql(value)


@dataclass(frozen=True)
class Combined:
    """`operator` is and, or, not, or a test of the whole operand: null, true, false."""

    operator: str
    operands: tuple[Predicate, ...]

    def sql(self) -> str:
        return combined_sql(self.operator, [operand.sql() for operand in self.operands])


Predicate = Test | Combined


def combined_sql(operator: str, operands: list[str]) -> str:
    """SQL of a combination, the same for every engine."""
    match operator:
        case "not":
            return f"NOT ({operands[0]})"
        case "null" | "true" | "false":
            return f"(({operands[0]}) IS {operator.upper()})"
        case _:
            return "(" + f" {operator.upper()} ".join(operands) + ")"


def _like(prefix: str) -> str:
    escaped = prefix.replace("!", "!!").replace("%", "!%").replace("_", "!_").replace("'", "''")
    return f"'{escaped}%' ESCAPE '!'" if escaped != prefix else f"'{prefix}%'"


def draw_leaf(rng: random.Random, columns: dict[str, Kind], values: dict[str, list[Value]]) -> Test:
    """A leaf about a random column, with literals near values that it holds."""
    column, kind = rng.choice(list(columns.items()))
    present = values[column]

    def literal() -> Value:
        return (
            kind.neighbours(rng, rng.choice(present))
            if present
            else kind.neighbours(rng, kind.draw(rng, rng.random()))
        )

    roll = rng.random()
    if roll < 0.08:
        return Test(column, kind, "null")
    if kind.prefixes and roll < 0.3:
        prefix = literal()[: rng.randint(1, 3)]
        return Test(column, kind, "prefix", (prefix or "a",))
    if roll < 0.45:
        options: list[Value] = [literal() for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.2:
            options.append(None)
        return Test(column, kind, "in", tuple(options))
    return Test(column, kind, rng.choice(["=", "=", "!=", "<", "<=", ">", ">="]), (literal(),))


def draw_predicate(
    rng: random.Random, columns: dict[str, Kind], values: dict[str, list[Value]], depth: int = 3
) -> Predicate:
    """A random predicate: half are single leaves, the others nest AND, OR, NOT and IS up to `depth`."""
    if depth == 0 or rng.random() < 0.5:
        leaf = draw_leaf(rng, columns, values)
        return Combined("not", (leaf,)) if rng.random() < 0.15 else leaf
    roll = rng.random()
    if roll < 0.3:
        inner = draw_predicate(rng, columns, values, depth - 1)
        whole = roll >= 0.2 and _may_be_null(inner)
        return Combined(rng.choice(["null", "true", "false"]) if whole else "not", (inner,))
    operands = tuple(draw_predicate(rng, columns, values, depth - 1) for _ in range(rng.randint(2, 3)))
    return Combined(rng.choice(["and", "or"]), operands)


def _may_be_null(predicate: Predicate) -> bool:
    """A test of what is never null is a constant, for which no index is used."""
    if isinstance(predicate, Test):
        return predicate.operator != "null"
    return predicate.operator in ("and", "or", "not") and any(map(_may_be_null, predicate.operands))


def leaves(predicate: Predicate) -> list[Test]:
    """All leaves of a predicate."""
    if isinstance(predicate, Test):
        return [predicate]
    return [leaf for operand in predicate.operands for leaf in leaves(operand)]
