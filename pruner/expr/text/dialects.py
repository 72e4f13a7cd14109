"""The SQL parser for each dialect, with the corrections that pruning depends on.

sqlglot reads a few things differently from the engines. What would change a value is corrected in its tokens:
string escapes of Spark, DuckDB's `x'…'`; what cannot be corrected is refused. An engine's dialect is a trait.
"""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from pruner.errors import PredicateError
from pruner.expr.engines import SqlEngine
from pruner.expr.text.scan import BACKTICKS, DOUBLED_QUOTES, scanner

if TYPE_CHECKING:
    from pruner.expr.semantics import Semantics
    from pruner.expr.text.scan import ScannedText

Node: TypeAlias = Any
"""A node of sqlglot's tree, whose types are too loose to be checked."""

_FRAMES_PER_LEVEL = 40
"""Python frames that the parser uses per level of nesting (25 measured), with a margin."""

_PLENTY_OF_FRAMES = 15
"""Levels of nesting that fit into Python's default recursion limit with any caller."""

_recursion_limit = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDialect:
    """The SQL syntax of an engine, where pruning depends on it."""

    name: str
    """Its name, and that of the sqlglot dialect that parses it."""
    tokens: re.Pattern[str]
    """Its token pattern, by `pruner.expr.text.scan.scanner`."""
    x_before_text: bool = False
    """The parser reads `x'41'` as a name and a text, but it is bytes."""
    backslash_escapes: bool = False
    """A backslash in a text is an escape, by the rules of `unescape_spark`."""
    decimals_keep_digits: bool = False
    """`DECIMAL '1.50'` is the number 1.50 with its digits; the parser reads it as a cast to DECIMAL, which rounds."""
    plain_signs: str = ""
    """Signs that the parser reads as the start of a parameter but that mean something else."""

    @property
    def parser(self) -> Dialect:
        """The sqlglot dialect."""
        return _parser(self.name)


_WRITTEN_NAME: Final = "written_name"
"""The key under which the parser stores a function's name as written."""


@lru_cache
def _parser(name: str) -> Dialect:
    """A sqlglot dialect, loaded on first use."""
    dialect = Dialect.get_or_raise(name)
    dialect.ORIGINAL_NAME_META_KEY = _WRITTEN_NAME
    return dialect


def function_name(node: Node) -> str:
    """The name of a function: the parser's, which rules use; for functions without rules the one that is written."""
    match node:
        case exp.Anonymous():
            return as_written(node.name)
        case exp.ArrayContains() | exp.Rand():
            return str(node.meta.get(_WRITTEN_NAME, node.sql_name()))
        case exp.Func():
            return node.sql_name()
        case _:
            return node.key


_AS_WRITTEN: Final = frozenset(
    {"STRFTIME", "DATE_FORMAT", "GET_JSON_OBJECT", "JSON_EXTRACT_SCALAR", "JSON_EXTRACT_STRING"}
)
"""Functions that keep their written form: the parser reads Spark's pattern `YYYY` as `yyyy`, and adds to others. It
reads a JSON path without `$` as one with it.
"""

_UNKNOWN: Final = "\ue000"
"""A prefix that hides a function's name from the parser. The parser itself cannot be changed: its class may be compiled
(`sqlglot[c]`), and is shared by all its users.
"""


def as_written(text: str) -> str:
    """Text from the parser, with the functions' own names restored."""
    return text.replace(_UNKNOWN, "")


_DIALECTS: Final = {
    dialect.name: dialect
    for dialect in (
        SqlDialect(
            name="duckdb",
            tokens=scanner(
                r"""[eE]'(?:[^'\\]|\\.|'')*+'""", DOUBLED_QUOTES, r"""\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"""
            ),
            x_before_text=True,
            plain_signs="@:",  # the absolute value, and the separator of keys and values
        ),
        SqlDialect(
            name="spark",
            tokens=scanner(
                r"""[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" """, BACKTICKS
            ),
            backslash_escapes=True,
        ),
        SqlDialect(name="trino", tokens=scanner(DOUBLED_QUOTES, BACKTICKS), decimals_keep_digits=True),
    )
}


def dialect_of(semantics: Semantics) -> SqlDialect:
    """The SQL dialect of an engine's predicates.

    Raises:
        PredicateError: the engine has no SQL.
    """
    traits = semantics.traits
    if traits.dialect is None:
        raise PredicateError(
            f"{traits.title} has no SQL: give the predicate as an expression, "
            f"or as text in one of the dialects {', '.join(SqlEngine)}"
        )
    return _DIALECTS[traits.dialect]


def parse_condition(scanned: ScannedText, dialect: SqlDialect) -> Any:
    """Parse checked text as one boolean expression.

    Raises:
        PredicateError: the text is not one; with line, column and the token at fault.

    """
    text = scanned.text
    try:
        tokens = dialect.parser.tokenize(text)
    except SqlglotError:
        raise PredicateError("the predicate cannot be split into tokens: check its quotes") from None
    if not tokens:
        raise PredicateError("the predicate is empty: write a condition such as carrier = 'AA'")
    tokens = _mended(tokens, scanned, dialect)
    try:
        parsed = _parse(tokens, scanned, dialect)
    except ParseError as error:
        raise _syntax_error(error, tokens, scanned) from None
    except RecursionError:
        raise PredicateError("the predicate is nested too deeply for the SQL parser: simplify it") from None
    except (SqlglotError, AttributeError, ValueError, TypeError, KeyError, IndexError) as error:
        # The parser fails on some invalid texts instead of refusing them.
        raise PredicateError(f"the predicate cannot be parsed as {dialect.name} SQL: {error}") from None
    if len(parsed) != 1 or parsed[0] is None or isinstance(parsed[0], exp.Star):
        raise PredicateError("the predicate must be one condition, without semicolons between several")
    return parsed[0]


def _parse(tokens: list[Token], scanned: ScannedText, dialect: SqlDialect) -> list[Any]:
    def run() -> list[Any]:
        return dialect.parser.parser().parse_into(exp.Condition, tokens, scanned.text)

    if scanned.nesting <= _PLENTY_OF_FRAMES:
        return run()
    with _recursion_limit:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(usual + scanned.nesting * _FRAMES_PER_LEVEL)
        try:
            return run()
        finally:
            sys.setrecursionlimit(usual)


def _syntax_error(error: ParseError, tokens: list[Token], scanned: ScannedText) -> PredicateError:
    if tokens[0].token_type is TokenType.WHERE:
        return PredicateError("the predicate begins with WHERE: give the condition that follows WHERE alone")
    if tokens[0].token_type in _BETWEEN_OPERANDS:
        place = scanned.place(tokens[0].start)
        return PredicateError(f"the predicate has a syntax error at {place}: unexpected {tokens[0].text!r}")
    if not error.errors:
        return PredicateError(f"the predicate has a syntax error: {error}")
    first = error.errors[0]
    token = first.get("highlight") or ""
    line, last_column = first.get("line") or 1, first.get("col") or 1
    lines = scanned.text.split("\n")
    end = sum(len(each) + 1 for each in lines[: line - 1]) + last_column
    place = scanned.place(max(0, end - len(token)))
    problem = str(first.get("description"))
    missing = problem.startswith(("Required keyword", "Expecting", "Expected"))
    named = {taken.name: "(…)" for taken in scanned.lists}.get(token, token)
    return PredicateError(
        f"the predicate has a syntax error at {place}: "
        f"{'something is missing at' if missing else 'unexpected'} {named!r}"
    )


_BETWEEN_OPERANDS = frozenset(
    {
        TokenType.AND,
        TokenType.OR,
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GT,
        TokenType.GTE,
        TokenType.STAR,
    }
)


def _mended(tokens: list[Token], scanned: ScannedText, dialect: SqlDialect) -> list[Token]:
    text = scanned.text
    mended: list[Token] = []
    for position, token in enumerate(tokens):
        match token.token_type:
            case TokenType.STRING:
                if dialect.x_before_text and mended and _is_hex_prefix(mended[-1], token):
                    mended.pop()
                    token.token_type = TokenType.HEX_STRING
                elif dialect.backslash_escapes and text.find("\\", token.start, token.end) >= 0:
                    token.text = unescape_spark(text[token.start + 1 : token.end])
                elif dialect.decimals_keep_digits and mended:
                    _mend_decimal(mended, token)
            case TokenType.HEX_STRING if text[token.start : token.start + 2].lower() == "0x":
                place = scanned.place(token.start)
                raise PredicateError(
                    f"the predicate has a hexadecimal number at {place}: write it in decimal"
                )
            case TokenType.VAR if token.text.upper() in _AS_WRITTEN and _is_call(tokens, position):
                token.text = _UNKNOWN + token.text
            case TokenType.PLACEHOLDER | TokenType.PARAMETER | TokenType.COLON:
                _refuse_parameter(tokens[position : position + 2], scanned, dialect)
            case _:
                pass
        mended.append(token)
    return mended


def _is_call(tokens: list[Token], position: int) -> bool:
    return position + 1 < len(tokens) and tokens[position + 1].token_type is TokenType.L_PAREN


def _mend_decimal(before: list[Token], token: Token) -> None:
    """Turn the text after the word DECIMAL into a number; the word becomes its sign or is removed."""
    if before[-1].token_type is not TokenType.DECIMAL or not _DECIMAL_TEXT.fullmatch(token.text):
        return
    token.token_type = TokenType.NUMBER
    if token.text.startswith("-"):
        before[-1].token_type, before[-1].text = TokenType.DASH, "-"
    else:
        before.pop()
    token.text = token.text.lstrip("+-")


_DECIMAL_TEXT = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)


def _is_hex_prefix(previous: Token, token: Token) -> bool:
    return (
        previous.text in ("x", "X")
        and previous.token_type is TokenType.VAR
        and previous.end + 1 == token.start
    )


def _refuse_parameter(tokens: list[Token], scanned: ScannedText, dialect: SqlDialect) -> None:
    """Refuse `?`, `$1`, `:name` and `@name`, where the dialect has no other use for the sign."""
    sign = tokens[0].text
    if sign in dialect.plain_signs:
        return
    name = sign + (tokens[1].text if sign != "?" and len(tokens) > 1 else "")
    place = scanned.place(tokens[0].start)
    raise PredicateError(f"the predicate has a parameter {name} at {place}: replace it with its value")


_SPARK_ESCAPE = re.compile(
    r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL | re.ASCII
)
_SPARK_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unescape_spark(body: str) -> str:
    """The value of the content of a Spark string literal (`ParserUtils.unescapeSQLString`, Spark 3.5).

    Raises:
        PredicateError: an escape names no valid character.

    """
    try:
        text = _SPARK_ESCAPE.sub(_unescaped, body)
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, UnicodeError, OverflowError):
        raise PredicateError(
            f"the string '{body[:40]}' has an escape that is not a valid character"
        ) from None


def _unescaped(match: re.Match[str]) -> str:
    short, long, octal, letter = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    return _SPARK_LETTERS.get(letter, letter)
