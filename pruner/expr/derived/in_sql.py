"""Indexes over expressions in SQL: in DuckDB's queries and in Spark's ORDER BY.

In DuckDB an expression is the same as in the index's records: an instant is a UTC wall clock, whatever the session's
zone.

In Spark's SQL, expressions of indexes order rows: where an index has no value, the order has none.

Spark reads instants by the session's clock. The index is in UTC, so the order differs from that of its values; but rows
of one value are adjacent here, too, except in the hours at which a clock changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlglot import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from pruner.expr.derived.canonical import parsed, shown
from pruner.expr.functions.function import DUCKDB
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.functions.shapes import in_letters
from pruner.expr.nodes import Call, Column, Expr, Literal
from pruner.expr.types import is_instant

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

    from pruner.schema import Field

_CLAUSES: Final = frozenset(
    {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "QUALIFY", "WINDOW", "LIMIT"}
)
_BEFORE_AN_ITEM: Final = frozenset({"SELECT", "DISTINCT", ","})
_BEHIND_AN_ITEM: Final = frozenset({"FROM", "WHERE", ",", ")", ";", ""})


class _Named(NamedTuple):
    """An index that a query names: its tokens including the qualifier, and the pairs of parentheses around it."""

    first: int
    last: int
    name: str
    brackets: tuple[int, ...]
    is_item: bool
    """Whether it is selected by itself, so that a query around the parentheses has a column of its name."""


def with_expressions(query: str, indexes: Mapping[str, Field]) -> str:
    """A query with the names of indexes replaced by their expressions; unchanged where it cannot be parsed.

    Where a subquery selects an index by its name, that is a column for the queries around it.

    Args:
        query: in DuckDB's SQL.
        indexes: the fields of indexes over expressions (`derived_field`), by their names in lower case.
    """
    try:
        tokens = Dialect.get_or_raise(str(DUCKDB)).tokenize(query)
    except SqlglotError:
        return query
    named = list(_named(tokens, indexes))
    text, behind = "", 0
    for each in named:
        selecting = _selecting(each.name, named)
        if selecting and not selecting & set(each.brackets):
            continue
        qualifier = (tokens[each.first].text,) if each.first < each.last else ()
        written = in_duckdb(indexes[each.name], qualifier)
        last = tokens[each.last]
        if each.is_item:
            written += f" AS {query[last.start : last.end + 1]}"
        text += query[behind : tokens[each.first].start] + written
        behind = last.end + 1
    return text + query[behind:]


def _named(tokens: Sequence[Token], indexes: Mapping[str, Field]) -> Iterator[_Named]:
    brackets, clauses = [0], [""]
    for at, token in enumerate(tokens):
        word = token.text.upper()
        if token.token_type is TokenType.L_PAREN:
            brackets.append(at)
            clauses.append("")
        elif token.token_type is TokenType.R_PAREN and len(brackets) > 1:
            brackets.pop()
            clauses.pop()
        elif not _is_name(token):
            clauses[-1] = word if word in _CLAUSES else clauses[-1]
        elif (
            word.casefold() in indexes
            and _text(tokens, at + 1) not in ("(", ".")
            and _text(tokens, at - 1) != "AS"
        ):
            first = at - 2 if at > 1 and _text(tokens, at - 1) == "." else at
            is_item = clauses[-1] == "SELECT" and _is_item(tokens, first, at)
            yield _Named(first, at, word.casefold(), tuple(brackets[1:]), is_item)


def _selecting(name: str, named: Sequence[_Named]) -> set[int]:
    """The innermost parentheses in which an index is selected by its name."""
    selecting = {each.brackets for each in named if each.name == name and each.is_item and each.brackets}
    return {column[-1] for column in selecting if not any(column[-1] in other[:-1] for other in selecting)}


def in_duckdb(field: Field, qualifier: tuple[str, ...] = ()) -> str:
    """The expression of an index in DuckDB's SQL.

    Args:
        field: the field of the index (`derived_field`).
        qualifier: the name of the table, to prefix to its columns.
    """
    instants = {source.path for source in field.sources if is_instant(source.type)}
    return _written(parsed(field.expression or ""), qualifier, instants)


def _written(node: Expr, qualifier: tuple[str, ...], instants: set[tuple[str, ...]]) -> str:
    match node:
        case Column(path):
            name = ".".join('"' + part.replace('"', '""') + '"' for part in (*qualifier, *path))
            return f"timezone('UTC', {name})" if path in instants else name
        case Literal(str() as value):
            return "'" + value.replace("'", "''") + "'"
        case Literal(float() as value):
            return f"{value!r}::DOUBLE"
        case Literal(value):
            return f"({value})"
        case Call(name, arguments):
            evaluation = FUNCTIONS[name].evaluations[0]
            return (evaluation.template or evaluation.sql).format(
                *(_written(argument, qualifier, instants) for argument in arguments)
            )
        case _:
            raise ValueError(f"{node} cannot be part of an expression")


def _is_name(token: Token) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)


def _is_item(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Tell whether these tokens are a whole item of a list."""
    return _text(tokens, first - 1) in _BEFORE_AN_ITEM and _text(tokens, last + 1) in _BEHIND_AN_ITEM


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text.upper() if 0 <= at < len(tokens) else ""


class NotInSpark(Exception):  # noqa: N818 - callers make a sentence of it
    """A function that Spark has no spelling for here; `str()` says which."""


def in_spark(field: Field) -> str:
    """The expression of an index in Spark's SQL.

    Raises:
        NotInSpark: it has a function without one there.
    """
    return _spark_sql(parsed(field.expression or ""))


def _spark_sql(node: Expr) -> str:
    match node:
        case Column(path):
            return ".".join("`" + part.replace("`", "``") + "`" for part in path)
        case Literal(str() as value):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Literal(float() as value):
            return f"double('{value!r}')"
        case Literal(value):
            return f"({value})"
        case Call("format", (moment, Literal(str() as pattern))):
            letters = in_letters(pattern)
            quote = '"' if "'" in letters else "'"
            return FUNCTIONS["format"].in_spark.format(_spark_sql(moment), f"{quote}{letters}{quote}")
        case Call("whole", (Call("floor" | "ceil" as name, (operand,)),)):
            return f"{name}({_spark_sql(operand)})"
        case Call("json field", (operand, Literal(str() as field))):
            return f"get_json_object({_spark_sql(operand)}, '$.{field}')"
        case Call("round", arguments):
            return f"round({', '.join(map(_spark_sql, arguments))})"
        case Call("if", (condition, value, *others)):
            last = "".join(f" ELSE {_spark_sql(expression)}" for expression in others)
            return f"(CASE WHEN {_spark_sql(condition)} THEN {_spark_sql(value)}{last} END)"
        case Call(name, arguments) if name in FUNCTIONS and FUNCTIONS[name].in_spark:
            return FUNCTIONS[name].in_spark.format(*map(_spark_sql, arguments))
        case _:
            raise NotInSpark(f"{shown(node)} has no spelling in Spark here")
