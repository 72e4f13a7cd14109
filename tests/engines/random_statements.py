"""Random SELECT statements over the tables of `random_tables`, as strategies that shrink.

Every statement has one right answer: no chance, no clock, no order but a total one, nothing that raises for
some rows only, and no sums of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.engines.random_tables import LITERALS, NULLS, PATTERNS, SHAPES, TableShape

COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
COMPARED = ("int", "text", "timestamp", "date", "decimal", "double", "bool")
"""Kinds of values that have comparisons; a struct is read by its fields alone."""


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
        """The statement that reads `what`; `tail` stands behind the condition."""
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


def _literals(kind: str) -> st.SearchStrategy[str]:
    """A literal of a kind, now and then NULL."""
    return st.sampled_from((*LITERALS[kind] * 3, NULLS[kind]))


@st.composite
def values(draw: st.DrawFn, relations: Sequence[Relation], kind: str, depth: int = 1) -> str:
    """An expression of one kind over the columns of some relations: mostly a plain column."""
    columns = _columns(relations, kind)
    form = draw(st.integers(0, 9))
    if form <= 5 and columns:
        return draw(st.sampled_from(columns))
    if kind == "struct" or depth == 0 or form == 6:
        return draw(st.sampled_from(columns) if columns else _literals(kind))
    if form == 7:
        test = draw(comparisons(relations, 0))
        first, second = draw(values(relations, kind, 0)), draw(values(relations, kind, 0))
        return f"CASE WHEN {test} THEN {first} ELSE {second} END"
    if form == 8:
        return f"coalesce({draw(values(relations, kind, 0))}, {draw(_literals(kind))})"
    possible = [each for each in _functions(kind) if all(_columns(relations, operand) for operand in each[1])]
    if not possible:
        return draw(_literals(kind))
    template, operands = draw(st.sampled_from(possible))
    return template.format(*(f"({draw(values(relations, operand, 0))})" for operand in operands))


@st.composite
def conditions(
    draw: st.DrawFn,
    relations: Sequence[Relation],
    depth: int = 2,
    nested: st.SearchStrategy[str] | None = None,
) -> str:
    """A condition over the columns of some relations; `nested` gives conditions with subqueries."""
    form = draw(st.integers(0, 5)) if depth else 0
    if form <= 2:
        if nested is not None and draw(st.integers(0, 7)) == 0:
            return draw(nested)
        return draw(comparisons(relations))
    if form == 3:
        inner = draw(conditions(relations, depth - 1, nested))
        test = draw(st.sampled_from(("NULL", "TRUE", "FALSE", "DISTINCT FROM TRUE", None, None, None)))
        negated = draw(st.sampled_from(("", "NOT ")))
        return f"NOT ({inner})" if test is None else f"(({inner}) IS {negated}{test})"
    parts = [draw(conditions(relations, depth - 1, nested)) for _ in range(draw(st.integers(2, 3)))]
    return "(" + (" AND " if form == 4 else " OR ").join(parts) + ")"


@st.composite
def comparisons(draw: st.DrawFn, relations: Sequence[Relation], depth: int = 1) -> str:
    """One comparison or test."""
    kind = draw(st.sampled_from([each for each in COMPARED if _columns(relations, each)]))
    value = draw(values(relations, kind, depth))
    literal = _literals(kind)
    negated = draw(st.sampled_from(("", "", "NOT ")))
    match draw(st.integers(0, 8)):
        case 0:
            return f"{value} IS {negated}NULL"
        case 1:
            return f"{value} {negated}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})"
        case 2:
            return f"{value} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
        case 3 if kind == "text":
            operator = draw(st.sampled_from(("LIKE", "LIKE", "ILIKE", "SIMILAR TO")))
            pattern = "'k0[0-3].*'" if operator == "SIMILAR TO" else draw(st.sampled_from(PATTERNS))
            return f"{value} {negated}{operator} {pattern}"
        case 3 if kind == "bool":
            return f"{value} IS {negated}{draw(st.sampled_from(('TRUE', 'FALSE')))}"
        case 4 if kind == "bool":
            return f"{negated}{value}"
        case 4 | 5:
            return f"{value} {draw(st.sampled_from(COMPARISONS))} {draw(values(relations, kind, depth))}"
        case _:
            return f"{value} {draw(st.sampled_from(COMPARISONS))} {draw(literal)}"


def _of_table(shape: TableShape, alias: str, sql: str | None = None) -> Relation:
    return Relation(sql or shape.name, alias, shape.columns, shape.key)


@st.composite
def relations(draw: st.DrawFn, alias: str, ctes: Sequence[Relation] = ()) -> Relation:
    """A table, a CTE, or a subquery of some shape."""
    form = draw(st.integers(0, 12))
    if form <= 1 and ctes:
        cte = draw(st.sampled_from(ctes))
        return Relation(cte.alias, alias, cte.columns, cte.key)
    shape = draw(st.sampled_from(SHAPES))
    inner = _of_table(shape, "i")
    if form <= 6:
        return _of_table(shape, alias)
    where = draw(conditions((inner,), 1))
    filtered = f"SELECT * FROM {inner.source} WHERE {where}"
    match form:
        case 7:
            return _of_table(shape, alias, f"({filtered})")
        case 8:
            other = f"SELECT * FROM {inner.source} WHERE {draw(conditions((inner,), 1))}"
            return _of_table(
                shape, alias, f"({filtered} {draw(st.sampled_from(('UNION', 'UNION ALL')))} {other})"
            )
        case 9:
            limit, descending = draw(st.integers(0, 25)), draw(st.sampled_from(("", " DESC")))
            return _of_table(shape, alias, f"({filtered} ORDER BY {shape.key}{descending} LIMIT {limit})")
        case 10:
            return draw(_grouped(shape, alias, filtered))
        case 11:
            over = f"PARTITION BY {draw(st.sampled_from(inner.named('text')))} ORDER BY i.{shape.key}"
            numbered = f"(SELECT *, row_number() OVER ({over}) AS place_in FROM {inner.source} WHERE {where})"
            return Relation(numbered, alias, (*shape.columns, ("place_in", "int")), shape.key)
        case _:
            ends = f"lag({shape.key}) OVER (ORDER BY i.{shape.key})"
            kept = f"(SELECT * FROM {inner.source} QUALIFY {ends} IS NULL OR {where})"
            return _of_table(shape, alias, kept)


@st.composite
def _grouped(draw: st.DrawFn, shape: TableShape, alias: str, filtered: str) -> Relation:
    grouping = draw(st.sampled_from([each for each in shape.columns if each[1] in ("text", "int", "bool")]))
    having = draw(st.sampled_from(("", " HAVING count(*) > 2", f" HAVING max({shape.key}) > 40")))
    sql = (
        f"(SELECT {grouping[0]}, count(*) AS many, max({shape.key}) AS top, min({shape.key}) AS low "
        f"FROM ({filtered}) GROUP BY {grouping[0]}{having})"
    )
    columns = ((grouping[0], grouping[1]), ("many", "int"), ("top", "int"), ("low", "int"))
    return Relation(sql, alias, tuple(dict(columns).items()), "top")


@st.composite
def subqueries(draw: st.DrawFn, outer: Sequence[Relation]) -> str:
    """A condition with a subquery, perhaps a correlated one."""
    shape = draw(st.sampled_from(SHAPES))
    inner = _of_table(shape, "n")
    where = draw(conditions((inner,), 1))
    numbers = _columns(outer, "int")
    number = draw(st.sampled_from(numbers))
    negated = draw(st.sampled_from(("", "NOT ")))
    match draw(st.integers(0, 4)):
        case 0:
            return f"{number} {negated}IN (SELECT n.{shape.key} FROM {inner.source} WHERE {where})"
        case 1:
            return (
                f"{negated}EXISTS (SELECT 1 FROM {inner.source} WHERE n.{shape.key} = {number} AND {where})"
            )
        case 2:
            best = draw(st.sampled_from(("max", "min", "count")))
            return f"{number} > (SELECT {best}(n.{shape.key}) FROM {inner.source} WHERE {where})"
        case 3:
            related = f"n.{shape.key} <= {number}"
            return f"{number} = (SELECT max(n.{shape.key}) FROM {inner.source} WHERE {related} AND {where})"
        case _:
            operator = draw(st.sampled_from(("= ANY", "> ALL", "<> ALL")))
            return f"{number} {operator} (SELECT n.{shape.key} FROM {inner.source} WHERE {where})"


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    """One to three relations, joined in some way, perhaps with CTEs in front."""
    ctes: list[Relation] = []
    texts: list[str] = []
    if draw(st.integers(0, 3)) == 0:
        shape = draw(st.sampled_from(SHAPES))
        inner = _of_table(shape, "i")
        where = draw(st.sampled_from(("", " WHERE "))) and " WHERE " + draw(conditions((inner,), 1))
        kind = draw(st.sampled_from(("", "", "MATERIALIZED ", "NOT MATERIALIZED ")))
        texts.append(f"c AS {kind}(SELECT * FROM {inner.source}{where})")
        ctes.append(_of_table(shape, "c"))
    first = draw(relations("t0", ctes))
    joined, source = [first], first.source
    visible = [first]
    for number in range(1, draw(st.sampled_from((1, 2, 2, 3)))):
        join, other, still_visible = draw(_joined(visible, f"t{number}", ctes))
        source += join
        joined.append(other)
        if still_visible:
            visible.append(other)
    return Parts(f"WITH {', '.join(texts)} " if texts else "", source, tuple(visible))


@st.composite
def _joined(
    draw: st.DrawFn, before: Sequence[Relation], alias: str, ctes: Sequence[Relation]
) -> tuple[str, Relation, bool]:
    """One more relation with the text that joins it, and whether its columns are visible behind the join."""
    other = draw(relations(alias, ctes))
    left = draw(st.sampled_from(_columns(before, "int")))
    right = draw(st.sampled_from([f"{alias}.{other.key}", *other.named("int")]))
    on = f"{left} = {right}"
    both = (*before, other)
    if draw(st.booleans()):
        on += f" AND {draw(conditions(both, 1))}"
    match draw(st.integers(0, 9)):
        case 0:
            return f" {draw(st.sampled_from(('SEMI', 'ANTI')))} JOIN {other.source} ON {on}", other, False
        case 1:
            inner = _of_table(draw(st.sampled_from(SHAPES)), "l")
            where = f"l.{inner.key} <= {left} AND {draw(conditions((inner,), 1))}"
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
            return f" {draw(st.sampled_from(JOINS))} {other.source} ON {on}", other, True


@st.composite
def filtered(draw: st.DrawFn) -> tuple[Parts, str]:
    """Parts of a statement with a condition."""
    drawn = draw(parts())
    return drawn, draw(conditions(drawn.relations, 2, subqueries(drawn.relations)))


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A whole statement."""
    drawn, where = draw(filtered())
    columns = drawn.columns()
    shown = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True))
    keys = [f"{relation.alias}.{relation.key}" for relation in drawn.relations]
    match draw(st.integers(0, 9)):
        case 0:
            count = draw(st.integers(0, 20))
            return drawn.select(
                ", ".join([*keys, *_exact(shown, keys)]), where, f" ORDER BY ALL LIMIT {count}"
            )
        case 1:
            return drawn.select(f"DISTINCT {', '.join(shown)}", where)
        case 2:
            group = shown[0]
            having = draw(st.sampled_from(("", " HAVING count(*) > 1", f" HAVING max({keys[0]}) < 60")))
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
            other = draw(conditions(drawn.relations, 1))
            second = Parts("", drawn.source, drawn.relations)
            operator = draw(st.sampled_from(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL")))
            return f"{drawn.select(keys[0], where)} {operator} {second.select(keys[0], other)}"
        case _:
            return drawn.select(", ".join(dict.fromkeys([*keys, *shown])), where)


def _exact(shown: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Columns that may be cut off by a LIMIT: both zeros sort alike, so no floating-point numbers."""
    return [name for name in shown if name not in keys and name.split(".")[-1] not in ("x", "delay", "area")]
