"""Random SELECT statements over the tables of `random_tables`, made from a tape that shrinks.

Every statement has one right answer: no randomness, no clock, no order except a total one, nothing that raises for
only some rows, and no sums of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.engines.duckdb.random.random_tables import LITERALS, NULLS, PATTERNS, SHAPES, TableShape
from tests.engines.duckdb.random.tape import Tape

COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
COMPARED = ("int", "text", "timestamp", "date", "decimal", "double", "bool")
"""Kinds of values that have comparisons; a struct is only read by its fields."""


@dataclass(frozen=True)
class Relation:
    """Something in FROM: its SQL without the alias, the alias, and its columns with their kinds."""

    sql: str
    alias: str
    columns: tuple[tuple[str, str], ...]
    key: str

    @property
    def source(self) -> str:
        return f"{self.sql} {self.alias}"

    def named(self, kind: str) -> list[str]:
        return [f"{self.alias}.{name}" for name, its_kind in self.columns if its_kind == kind]


@dataclass(frozen=True)
class Parts:
    """A statement before it has a SELECT list and a condition."""

    ctes: str
    source: str
    relations: tuple[Relation, ...]

    def select(self, what: str, where: str | None = None, tail: str = "") -> str:
        """The statement that reads `what`; `tail` follows the condition."""
        condition = f" WHERE {where}" if where else ""
        return f"{self.ctes}SELECT {what} FROM {self.source}{condition}{tail}"

    def columns(self) -> list[str]:
        return [name for relation in self.relations for kind in COMPARED for name in relation.named(kind)]


def _columns(relations: Sequence[Relation], kind: str) -> list[str]:
    return [name for relation in relations for name in relation.named(kind)]


def _functions(kind: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Expressions of a kind, with `{}` for operands of other kinds."""
    return {
        "int": (
            ("{} + 1", ("int",)),
            ("{} % 5", ("int",)),
            ("abs({} - 20)", ("int",)),
            ("length({})", ("text",)),
            ("year({})", ("date",)),
            ("hour({})", ("timestamp",)),
            ("dayofweek({})", ("date",)),
            ("{}.code", ("struct",)),
            ("date_diff('day', {}, DATE '2024-01-05')", ("date",)),
        ),
        "text": (
            ("upper({})", ("text",)),
            ("lower({})", ("text",)),
            ("substr({}, 1, 2)", ("text",)),
            ("{} || 'b'", ("text",)),
            ("trim({})", ("text",)),
            ("nullif({}, 'ab')", ("text",)),
            ("{}::VARCHAR", ("int",)),
            ("{}.tag", ("struct",)),
        ),
        "timestamp": (
            ("date_trunc('day', {})", ("timestamp",)),
            ("date_trunc('month', {})", ("timestamp",)),
            ("{} + INTERVAL 90 MINUTE", ("timestamp",)),
            ("{}::TIMESTAMP", ("date",)),
        ),
        "date": (
            ("{}::DATE", ("timestamp",)),
            ("{} + 3", ("date",)),
            ("last_day({})", ("date",)),
            ("greatest({}, DATE '2024-01-06')", ("date",)),
        ),
        "decimal": (("{} * 2", ("decimal",)), ("-{}", ("decimal",)), ("{}::DECIMAL(9, 2)", ("int",))),
        "double": (("{} + 1", ("double",)), ("abs({})", ("double",)), ("{}::DOUBLE", ("int",))),
        "bool": (
            ("isnan({})", ("double",)),
            ("starts_with({}, 'k0')", ("text",)),
            ("contains({}, 'b')", ("text",)),
        ),
    }[kind]


def _literal(tape: Tape, kind: str) -> str:
    """A literal of a kind, now and then NULL."""
    return tape.one_of((*LITERALS[kind] * 3, NULLS[kind]))


def value_of(tape: Tape, relations: Sequence[Relation], kind: str, depth: int = 1) -> str:
    """An expression of one kind over the columns of some relations: mostly a plain column."""
    columns = _columns(relations, kind)
    form = tape.number(0, 9)
    if form <= 5 and columns:
        return tape.one_of(columns)
    if kind == "struct" or depth == 0 or form == 6:
        return tape.one_of(columns) if columns else _literal(tape, kind)
    if form == 7:
        test = comparison(tape, relations, 0)
        first, second = value_of(tape, relations, kind, 0), value_of(tape, relations, kind, 0)
        return f"CASE WHEN {test} THEN {first} ELSE {second} END"
    if form == 8:
        return f"coalesce({value_of(tape, relations, kind, 0)}, {_literal(tape, kind)})"
    possible = [each for each in _functions(kind) if all(_columns(relations, operand) for operand in each[1])]
    if not possible:
        return _literal(tape, kind)
    template, operands = tape.one_of(possible)
    return template.format(*(f"({value_of(tape, relations, operand, 0)})" for operand in operands))


def condition(
    tape: Tape,
    relations: Sequence[Relation],
    depth: int = 2,
    nesting: bool = False,
) -> str:
    """A condition over the columns of some relations; `nesting` allows subqueries in it."""
    form = tape.number(0, 5) if depth else 0
    if form <= 2:
        if nesting and tape.number(0, 7) == 0:
            return subquery(tape, relations)
        return comparison(tape, relations)
    if form == 3:
        inner = condition(tape, relations, depth - 1, nesting)
        test = tape.one_of(("NULL", "TRUE", "FALSE", "DISTINCT FROM TRUE", None, None, None))
        negated = tape.one_of(("", "NOT "))
        return f"NOT ({inner})" if test is None else f"(({inner}) IS {negated}{test})"
    parts = [condition(tape, relations, depth - 1, nesting) for _ in range(tape.number(2, 3))]
    return "(" + (" AND " if form == 4 else " OR ").join(parts) + ")"


def comparison(tape: Tape, relations: Sequence[Relation], depth: int = 1) -> str:
    """One comparison or test."""
    kind = tape.one_of([each for each in COMPARED if _columns(relations, each)])
    value = value_of(tape, relations, kind, depth)
    negated = tape.one_of(("", "", "NOT "))
    match tape.number(0, 8):
        case 0:
            return f"{value} IS {negated}NULL"
        case 1:
            literals = [_literal(tape, kind) for _ in range(tape.number(1, 4))]
            return f"{value} {negated}IN ({', '.join(literals)})"
        case 2:
            return f"{value} {negated}BETWEEN {_literal(tape, kind)} AND {_literal(tape, kind)}"
        case 3 if kind == "text":
            operator = tape.one_of(("LIKE", "LIKE", "ILIKE", "SIMILAR TO"))
            pattern = "'k0[0-3].*'" if operator == "SIMILAR TO" else tape.one_of(PATTERNS)
            return f"{value} {negated}{operator} {pattern}"
        case 3 if kind == "bool":
            return f"{value} IS {negated}{tape.one_of(('TRUE', 'FALSE'))}"
        case 4 if kind == "bool":
            return f"{negated}{value}"
        case 4 | 5:
            return f"{value} {tape.one_of(COMPARISONS)} {value_of(tape, relations, kind, depth)}"
        case _:
            return f"{value} {tape.one_of(COMPARISONS)} {_literal(tape, kind)}"


def _of_table(shape: TableShape, alias: str, sql: str | None = None) -> Relation:
    return Relation(sql or shape.name, alias, shape.columns, shape.key)


def relation_of(tape: Tape, alias: str, ctes: Sequence[Relation] = ()) -> Relation:
    """A table, a CTE, or a subquery of some shape."""
    form = tape.number(0, 14)
    if form >= 13:
        return constants(tape, alias)
    if form <= 1 and ctes:
        cte = tape.one_of(ctes)
        return Relation(cte.alias, alias, cte.columns, cte.key)
    shape = tape.one_of(SHAPES)
    inner = _of_table(shape, "i")
    if form <= 6:
        return _of_table(shape, alias)
    where = condition(tape, (inner,), 1)
    filtered = f"SELECT * FROM {inner.source} WHERE {where}"
    match form:
        case 7:
            return _of_table(shape, alias, f"({filtered})")
        case 8:
            other = f"SELECT * FROM {inner.source} WHERE {condition(tape, (inner,), 1)}"
            return _of_table(shape, alias, f"({filtered} {tape.one_of(('UNION', 'UNION ALL'))} {other})")
        case 9:
            limit, descending = tape.number(0, 25), tape.one_of(("", " DESC"))
            return _of_table(shape, alias, f"({filtered} ORDER BY {shape.key}{descending} LIMIT {limit})")
        case 10:
            return _grouped(tape, shape, alias, filtered)
        case 11:
            over = f"PARTITION BY {tape.one_of(inner.named('text'))} ORDER BY i.{shape.key}"
            numbered = f"(SELECT *, row_number() OVER ({over}) AS place_in FROM {inner.source} WHERE {where})"
            return Relation(numbered, alias, (*shape.columns, ("place_in", "int")), shape.key)
        case _:
            ends = f"lag({shape.key}) OVER (ORDER BY i.{shape.key})"
            kept = f"(SELECT * FROM {inner.source} QUALIFY {ends} IS NULL OR {where})"
            return _of_table(shape, alias, kept)


CONSTANTS = (
    ("k", "int"),
    ("word", "text"),
    ("since_then", "date"),
    ("moment", "timestamp"),
    ("cost", "decimal"),
    ("share", "double"),
)
"""Names and kinds of the columns of constants."""


def constants(tape: Tape, alias: str) -> Relation:
    """A relation of constants, whose keys all differ: the values that a join compares are known before it runs."""
    keys = (*LITERALS["int"], "NULL")
    first = tape.number(0, len(keys) - 1)
    rows = [
        (keys[(first + number) % len(keys)], *(_literal(tape, kind) for _, kind in CONSTANTS[1:]))
        for number in range(tape.number(1, 4))
    ]
    names = ", ".join(name for name, _ in CONSTANTS)
    listed = f"SELECT * FROM (VALUES {', '.join(f'({chr(44).join(row)})' for row in rows)}) v({names})"
    match tape.number(0, 6):
        case 0:
            listed = f"{listed} WHERE k IS NOT NULL"
        case 1:
            listed = f"{listed} ORDER BY k LIMIT 2"
        case 2:
            listed = f"SELECT DISTINCT * FROM ({listed})"
        case 3:
            listed = f"{listed} UNION ALL {listed}"
        case 4:
            others = ", ".join(f"max({name}) AS {name}" for name, _ in CONSTANTS[1:])
            listed = f"SELECT k, {others} FROM ({listed}) GROUP BY {tape.one_of(('k', 'ROLLUP (k)'))}"
        case _:
            pass
    return Relation(f"({listed})", alias, CONSTANTS, "k")


def _grouped(tape: Tape, shape: TableShape, alias: str, filtered: str) -> Relation:
    grouping = tape.one_of([each for each in shape.columns if each[1] in ("text", "int", "bool")])
    having = tape.one_of(("", " HAVING count(*) > 2", f" HAVING max({shape.key}) > 40"))
    sql = (
        f"(SELECT {grouping[0]}, count(*) AS many, max({shape.key}) AS top, min({shape.key}) AS low "
        f"FROM ({filtered}) GROUP BY {grouping[0]}{having})"
    )
    columns = ((grouping[0], grouping[1]), ("many", "int"), ("top", "int"), ("low", "int"))
    return Relation(sql, alias, tuple(dict(columns).items()), "top")


def subquery(tape: Tape, outer: Sequence[Relation]) -> str:
    """A condition with a subquery, perhaps a correlated one."""
    shape = tape.one_of(SHAPES)
    inner = _of_table(shape, "n")
    where = condition(tape, (inner,), 1)
    numbers = _columns(outer, "int")
    number = tape.one_of(numbers)
    negated = tape.one_of(("", "NOT "))
    match tape.number(0, 6):
        case 5:
            listed = constants(tape, "n")
            kind = tape.one_of([each for each in CONSTANTS if _columns(outer, each[1])])
            value = tape.one_of(_columns(outer, kind[1]))
            return f"{value} {negated}IN (SELECT n.{kind[0]} FROM {listed.source})"
        case 6:
            values = ", ".join(_literal(tape, "int") for _ in range(tape.number(1, 4)))
            return f"{number} {negated}IN (SELECT unnest([{values}]))"
        case 0:
            return f"{number} {negated}IN (SELECT n.{shape.key} FROM {inner.source} WHERE {where})"
        case 1:
            return (
                f"{negated}EXISTS (SELECT 1 FROM {inner.source} WHERE n.{shape.key} = {number} AND {where})"
            )
        case 2:
            best = tape.one_of(("max", "min", "count"))
            return f"{number} > (SELECT {best}(n.{shape.key}) FROM {inner.source} WHERE {where})"
        case 3:
            related = f"n.{shape.key} <= {number}"
            return f"{number} = (SELECT max(n.{shape.key}) FROM {inner.source} WHERE {related} AND {where})"
        case _:
            operator = tape.one_of(("= ANY", "> ALL", "<> ALL"))
            return f"{number} {operator} (SELECT n.{shape.key} FROM {inner.source} WHERE {where})"


def parts_of(tape: Tape) -> Parts:
    """One to three relations, joined in some way, perhaps preceded by CTEs."""
    ctes: list[Relation] = []
    texts: list[str] = []
    if tape.number(0, 3) == 0:
        shape = tape.one_of(SHAPES)
        inner = _of_table(shape, "i")
        where = tape.one_of(("", " WHERE ")) and " WHERE " + condition(tape, (inner,), 1)
        kind = tape.one_of(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
        texts.append(f"c AS {kind}(SELECT * FROM {inner.source}{where})")
        ctes.append(_of_table(shape, "c"))
    first = relation_of(tape, "t0", ctes)
    joined, source = [first], first.source
    visible = [first]
    for number in range(1, tape.one_of((1, 2, 2, 3))):
        join, other, still_visible = _joined(tape, visible, f"t{number}", ctes)
        source += join
        joined.append(other)
        if still_visible:
            visible.append(other)
    return Parts(f"WITH {', '.join(texts)} " if texts else "", source, tuple(visible))


def _joined(
    tape: Tape, before: Sequence[Relation], alias: str, ctes: Sequence[Relation]
) -> tuple[str, Relation, bool]:
    """One more relation with the text that joins it, and whether its columns are visible after the join."""
    other = relation_of(tape, alias, ctes)
    left = tape.one_of(_columns(before, "int"))
    right = tape.one_of([f"{alias}.{other.key}", *other.named("int")])
    on = f"{left} {tape.one_of(('=', '=', '=', 'IS NOT DISTINCT FROM'))} {right}"
    kind = tape.one_of(("int", "int", "text", "date", "timestamp", "decimal", "double"))
    if kind != "int" and _columns(before, kind) and other.named(kind):
        on = f"{tape.one_of(_columns(before, kind))} = {tape.one_of(other.named(kind))}"
    both = (*before, other)
    if tape.number(0, 1):
        on += f" AND {condition(tape, both, 1)}"
    match tape.number(0, 9):
        case 0:
            return f" {tape.one_of(('SEMI', 'ANTI'))} JOIN {other.source} ON {on}", other, False
        case 1:
            inner = _of_table(tape.one_of(SHAPES), "l")
            where = f"l.{inner.key} <= {left} AND {condition(tape, (inner,), 1)}"
            lateral = (
                f"(SELECT max(l.{inner.key}) AS top, count(*) AS many FROM {inner.source} WHERE {where})"
            )
            columns = (("top", "int"), ("many", "int"))
            return f", LATERAL {lateral} {alias}", Relation(lateral, alias, columns, "top"), True
        case 2:
            return (
                f" LEFT JOIN LATERAL (SELECT * FROM {other.sql} q WHERE {left} = q.{other.key}) {alias} ON true",
                other,
                True,
            )
        case 3:
            return (
                f" CROSS JOIN (SELECT * FROM {other.sql} q ORDER BY q.{other.key} LIMIT 3) {alias}",
                other,
                True,
            )
        case _:
            return f" {tape.one_of(JOINS)} {other.source} ON {on}", other, True


def filtered(tape: Tape) -> tuple[Parts, str]:
    """Parts of a statement with a condition."""
    drawn = parts_of(tape)
    return drawn, condition(tape, drawn.relations, 2, nesting=True)


MISFITS = (
    "'x'",
    "'__HIVE_DEFAULT_PARTITION__'",
    "'2024-02-30'",
    "'99999999999999999999999999999999999999999'",
    "99999999999999999999::HUGEINT",
    "99999999999999999999999999999999999999::DECIMAL(38, 0)",
    "8::DECIMAL(10, 2)",
    "1e300",
    "-1",
    "true",
    "DATE '2024-01-03'",
)
"""Literals that most columns cannot be compared with: DuckDB rejects them, or fails when it evaluates them."""

DECIDING = (
    "{0} != {0}",
    "{0} < {0}",
    "{0} = {0}",
    "{0} IS NULL",
    "{0} IS NOT NULL",
    "list_contains([NULL], {0})",
    "{0} IN (NULL)",
    "{0} IS DISTINCT FROM {0}",
    "coalesce({0}, NULL) IS NULL",
    "false",
    "NULL",
)
"""Conditions that may make others irrelevant."""


def _misfit(tape: Tape, relation: Relation) -> str:
    """A condition that may fail for a value, or be rejected."""
    columns = [f"{relation.alias}.{name}" for name, kind in relation.columns if kind in COMPARED]
    column, literal = tape.one_of(columns), tape.one_of(MISFITS)
    match tape.number(0, 5):
        case 0:
            return f"{column} IN ({literal}, {tape.one_of(MISFITS)})"
        case 1:
            return f"{column} BETWEEN {literal} AND {tape.one_of(MISFITS)}"
        case 2:
            target = tape.one_of(("INTEGER", "TINYINT", "DATE", "DECIMAL(4, 2)", "BOOLEAN"))
            return f"{column}::{target} {tape.one_of(COMPARISONS)} {literal}"
        case _:
            return f"{column} {tape.one_of(COMPARISONS)} {literal}"


def misfitting(tape: Tape) -> str:
    """A statement over one table with conditions that fail, and others that may keep DuckDB from evaluating them."""
    relation = _of_table(tape.one_of(SHAPES), "t0")
    columns = [f"{relation.alias}.{name}" for name, kind in relation.columns if kind in COMPARED]
    parts = [_misfit(tape, relation) for _ in range(tape.number(1, 2))]
    for _ in range(tape.number(1, 2)):
        if tape.number(0, 2):
            decides = tape.one_of(DECIDING).format(tape.one_of(columns))
        else:
            decides = comparison(tape, (relation,), 0)
        parts.insert(tape.number(0, len(parts)), decides)
    where = f" {tape.one_of(('AND', 'AND', 'AND', 'OR'))} ".join(parts)
    if tape.number(0, 3) == 0:
        where = f"NOT ({where})"
    shown = tape.one_of(("count(*)", f"t0.{relation.key}", "*"))
    return f"SELECT {shown} FROM {relation.source} WHERE {where}"


def statement(tape: Tape) -> str:
    """A whole statement."""
    drawn, where = filtered(tape)
    columns = drawn.columns()
    shown = tape.some_of(columns, 3)
    keys = [f"{relation.alias}.{relation.key}" for relation in drawn.relations]
    match tape.number(0, 9):
        case 0:
            count = tape.number(0, 20)
            return drawn.select(
                ", ".join([*keys, *_exact(shown, keys)]), where, f" ORDER BY ALL LIMIT {count}"
            )
        case 1:
            return drawn.select(f"DISTINCT {', '.join(shown)}", where)
        case 2:
            group = shown[0]
            having = tape.one_of(("", " HAVING count(*) > 1", f" HAVING max({keys[0]}) < 60"))
            return drawn.select(
                f"{group}, count(*), max({keys[0]}), min({shown[-1]})", where, f" GROUP BY {group}{having}"
            )
        case 3:
            return drawn.select(f"count(*), min({shown[0]}), max({shown[-1]}), sum({keys[0]})", where)
        case 4:
            window = f"rank() OVER (PARTITION BY {shown[0]} ORDER BY {', '.join(keys)})"
            return drawn.select(
                f"{', '.join(keys)}, sum({keys[0]}) OVER (PARTITION BY {shown[-1]}), {window}", where
            )
        case 5:
            other = condition(tape, drawn.relations, 1)
            second = Parts("", drawn.source, drawn.relations)
            operator = tape.one_of(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"))
            return f"{drawn.select(keys[0], where)} {operator} {second.select(keys[0], other)}"
        case _:
            return drawn.select(", ".join(dict.fromkeys([*keys, *shown])), where)


def _exact(shown: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Columns that a LIMIT may cut off: both zeros sort alike, so no floating-point numbers."""
    return [name for name in shown if name not in keys and name.split(".")[-1] not in ("x", "delay", "area")]
