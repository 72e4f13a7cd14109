"""The parser from text to `Statement`, and the four statements as values, before any table is opened.

    CREATE [FUNCTION] INDEX [IF NOT EXISTS] name ON table [USING type] (column | expression [, …])
        [WHERE predicate] [OPTIONS (key = value, …)]
    DROP INDEX [IF EXISTS] name [ON table]
    REFRESH INDEX name ON table
    SHOW INDEXES ON table

`USING type` may also precede `ON`, `*` may replace the columns, `FROM` or `IN` the `ON` of SHOW (as in Hudi), `TABLE`
may precede a table's name, and a semicolon may end or separate statements. A table is a name of up to three parts, or a
URI or path, in quotes of any kind or bare. Expressions and predicates are taken verbatim: only their brackets and
quotes must match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from pruner.ddl.tokens import DdlToken, Scanner, TokenKind
from pruner.expr.identifier import render_column_path

DEFAULT_TYPE = "column_stats"
"""Type of an index whose statement does not name one."""

ALL_COLUMNS = "*"
"""Replaces the column list, for an index on every column of a supported type."""


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """One entry of the column list.

    `text` is a column path, quoted where a part is not a plain identifier, or the text of an expression. Prefixed with
    `before`, the text has the same line and column as in the statement.
    """

    text: str
    is_expression: bool
    before: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX. `items` is empty for `*`; `where` is SQL text; `options` are pairs of key and value."""

    name: str
    table: str
    using: str
    items: tuple[IndexedItem, ...]
    where: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX. `table` is None if the statement names none, and the table must be found by its index."""

    name: str
    table: str | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshIndex:
    """REFRESH INDEX."""

    name: str
    table: str


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """SHOW INDEXES."""

    table: str


Statement: TypeAlias = CreateIndex | DropIndex | RefreshIndex | ShowIndexes


_TABLE_PARTS = 3
_TYPE_SPELLINGS = {"col_stats": "column_stats"}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


def parse_statement(text: str) -> Statement:
    """Parse one statement.

    Raises:
        StatementError: it is not one of the four statements, too long, or not closed; the message says where.

    """
    (statement,) = _Parser(text).statements(1)
    return statement


def parse_statements(text: str) -> list[Statement]:
    """Parse one statement or several, separated by semicolons.

    Raises:
        StatementError: one of them cannot be parsed; the message says where.

    """
    return _Parser(text).statements()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Scanner(text)

    def statements(self, most: int | None = None) -> list[Statement]:
        statements = [self._statement()]
        while self._after_semicolons() and (most is None or len(statements) < most):
            statements.append(self._statement())
        left = self._tokens.peek()
        if left.kind is not TokenKind.END:
            raise self._tokens.error(left, "expected the end of the statement")
        return statements

    def _statement(self) -> Statement:
        first = self._tokens.take()
        if first.is_word("CREATE"):
            statement = self._create()
        elif first.is_word("DROP"):
            statement = self._drop()
        elif first.is_word("REFRESH"):
            statement = self._refresh()
        elif first.is_word("SHOW"):
            statement = self._show()
        else:
            queries = (
                "; pruner query runs queries" if first.is_word("SELECT", "FROM", "WITH", "EXPLAIN") else ""
            )
            raise self._tokens.error(first, f"expected CREATE, DROP, REFRESH or SHOW{queries}")
        return statement

    def _create(self) -> CreateIndex:
        self._accept("FUNCTION")
        self._expect("INDEX")
        if_not_exists = self._if_not_exists()
        name = self._name("a name for the index")
        using = self._using()
        self._expect("ON")
        table = self._table()
        if using is None:
            using = self._using()
        items = self._items()
        where = self._where()
        options = self._options()
        return CreateIndex(name, table, using or DEFAULT_TYPE, items, where, options, if_not_exists)

    def _drop(self) -> DropIndex:
        self._expect("INDEX")
        if_exists = self._accept("IF")
        if if_exists:
            self._expect("EXISTS")
        name = self._name("the name of an index")
        return DropIndex(name, self._table() if self._accept("ON") else None, if_exists)

    def _refresh(self) -> RefreshIndex:
        self._expect("INDEX")
        name = self._name("the name of an index")
        self._expect("ON")
        return RefreshIndex(name, self._table())

    def _show(self) -> ShowIndexes:
        self._expect("INDEXES")
        self._expect("ON", "FROM", "IN")
        return ShowIndexes(self._table())

    def _after_semicolons(self) -> bool:
        """Skip semicolons; False if there are none, or if nothing follows them."""
        before = self._tokens.peek()
        while self._tokens.peek().is_symbol(";"):
            self._tokens.take()
        after = self._tokens.peek()
        return after is not before and after.kind is not TokenKind.END

    def _accept(self, word: str) -> bool:
        if not self._tokens.peek().is_word(word):
            return False
        self._tokens.take()
        return True

    def _expect(self, *words: str) -> None:
        token = self._tokens.take()
        if not token.is_word(*words):
            raise self._tokens.error(token, f"expected {' or '.join(words)}")

    def _expect_symbol(self, symbol: str, purpose: str) -> None:
        token = self._tokens.take()
        if not token.is_symbol(symbol):
            raise self._tokens.error(token, f"expected {symbol} {purpose}")

    def _if_not_exists(self) -> bool:
        if not self._accept("IF"):
            return False
        self._expect("NOT")
        self._expect("EXISTS")
        return True

    def _name(self, what: str) -> str:
        token = self._tokens.take()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME) or token.is_word("ON"):
            raise self._tokens.error(token, f"expected {what} (in double quotes if it is not a plain word)")
        return token.value

    def _using(self) -> str | None:
        if not self._accept("USING"):
            return None
        token = self._tokens.take()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME, TokenKind.TEXT):
            raise self._tokens.error(token, "expected the type of the index")
        written = token.value.lower()
        return _TYPE_SPELLINGS.get(written, written)

    def _table(self) -> str:
        place = self._tokens.take_place()
        if place is not None:
            return place.value
        first = self._tokens.take()
        if first.is_word("TABLE") and self._table_follows():
            return self._table()
        if first.kind not in (TokenKind.WORD, TokenKind.NAME, TokenKind.TEXT) or not first.value:
            raise self._tokens.error(first, "expected a table: a name, or a URI or path in quotes")
        parts = [first.value]
        while self._tokens.peek().is_symbol("."):
            dot = self._tokens.take()
            if len(parts) == _TABLE_PARTS:
                raise self._tokens.error(dot, f"the name of a table has at most {_TABLE_PARTS} parts")
            parts.append(self._name("a part of the table's name"))
        return ".".join(parts)

    def _table_follows(self) -> bool:
        follower = self._tokens.peek()
        named = follower.kind in (TokenKind.WORD, TokenKind.NAME, TokenKind.TEXT) and not follower.is_word(
            "USING"
        )
        return named or self._tokens.at_place()

    def _items(self) -> tuple[IndexedItem, ...]:
        self._expect_symbol("(", "and what is to be indexed")
        if self._tokens.peek().is_symbol(ALL_COLUMNS):
            self._tokens.take()
            self._expect_symbol(")", "after *")
            return ()
        items: list[IndexedItem] = []
        while True:
            tokens = self._item_tokens()
            if not tokens:
                raise self._tokens.error(self._tokens.peek(), "expected a column or an expression")
            items.append(self._item(tokens))
            if self._tokens.take().is_symbol(")"):
                return tuple(items)

    def _item(self, tokens: list[DdlToken]) -> IndexedItem:
        names = tokens[::2]
        dots = tokens[1::2]
        is_path = (
            len(names) == len(dots) + 1
            and all(token.kind in (TokenKind.WORD, TokenKind.NAME) for token in names)
            and all(token.is_symbol(".") for token in dots)
        )
        if is_path:
            return IndexedItem(render_column_path(tuple(token.value for token in names)), is_expression=False)
        start, text = tokens[0].start, self._tokens.text
        lines = text.count("\n", 0, start)
        before = "\n" * lines + " " * (start - (text.rfind("\n", 0, start) + 1))
        return IndexedItem(text[start : tokens[-1].end], True, before)

    def _item_tokens(self) -> list[DdlToken]:
        """Tokens up to the comma or bracket that ends an entry of the column list."""
        tokens: list[DdlToken] = []
        open_brackets: list[DdlToken] = []
        while True:
            token = self._tokens.peek()
            if not open_brackets and (token.is_symbol(",") or token.is_symbol(")")):
                return tokens
            self._track(token, open_brackets)
            tokens.append(self._tokens.take())

    def _track(self, token: DdlToken, open_brackets: list[DdlToken]) -> None:
        if token.kind is TokenKind.END:
            raise self._tokens.error(token, "a closing bracket is missing")
        if token.kind is not TokenKind.SYMBOL:
            return
        if token.value in _BRACKETS:
            open_brackets.append(token)
        elif token.value in _BRACKETS.values() and (
            not open_brackets or _BRACKETS[open_brackets.pop().value] != token.value
        ):
            raise self._tokens.error(token, "this bracket closes none")

    def _where(self) -> str | None:
        if not self._accept("WHERE"):
            return None
        start = self._tokens.peek()
        end = start.start
        open_brackets: list[DdlToken] = []
        while True:
            token = self._tokens.peek()
            is_options = end > start.start and token.is_word("OPTIONS")
            if not open_brackets and (is_options or token.kind is TokenKind.END or token.is_symbol(";")):
                break
            self._track(token, open_brackets)
            end = self._tokens.take().end
        if end == start.start:
            raise self._tokens.error(start, "expected a predicate after WHERE")
        return self._tokens.text[start.start : end]

    def _options(self) -> tuple[tuple[str, str], ...]:
        if not self._accept("OPTIONS"):
            return ()
        self._expect_symbol("(", "and options")
        options: dict[str, str] = {}
        while True:
            first = self._tokens.peek()
            key = self._option_key()
            if key in options:
                raise self._tokens.error(first, f"option {key!r} is given twice")
            self._expect_symbol("=", f"and a value for option {key!r}")
            options[key] = self._option_value()
            separator = self._tokens.take()
            if separator.is_symbol(")"):
                return tuple(options.items())
            if not separator.is_symbol(","):
                raise self._tokens.error(separator, "expected , or )")

    def _option_key(self) -> str:
        token = self._tokens.take()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME, TokenKind.TEXT):
            raise self._tokens.error(token, "expected the name of an option")
        parts = [token.value]
        while self._tokens.peek().is_symbol("."):
            self._tokens.take()
            parts.append(self._name("a part of the option's name"))
        return ".".join(parts)

    def _option_value(self) -> str:
        sign = "-" if self._tokens.peek().is_symbol("-") else ""
        if sign:
            self._tokens.take()
        token = self._tokens.take()
        if token.kind is TokenKind.NUMBER or (not sign and token.kind in (TokenKind.WORD, TokenKind.TEXT)):
            return sign + token.value
        raise self._tokens.error(token, "expected a number, a word or a text in single quotes")
