"""Tokens of a statement, read one at a time, so that the parser can say what it expects at each position.

Quoting follows the engines: `"…"` and backticks hold names, `'…'` holds text; a doubled quote is one quote.
Comments (`-- …` to the end of the line, `/* … */`) count as space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from pruner.errors import IndexDefinitionError
from pruner.limits import STATEMENT_CHARACTERS


class StatementError(IndexDefinitionError):
    """A statement cannot be parsed; the message has the line, the column and the offending token."""


class TokenKind(Enum):
    """The kind of a token."""

    WORD = auto()
    NAME = auto()
    TEXT = auto()
    NUMBER = auto()
    PLACE = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class DdlToken:
    """One token. `value` is without quotes; `start` and `end` are offsets into the statement."""

    kind: TokenKind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Tell whether this is one of these words, unquoted, in any case."""
        return self.kind is TokenKind.WORD and self.value.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Tell whether this is that symbol."""
        return self.kind is TokenKind.SYMBOL and self.value == symbol


_SPACE = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(r"[^\W\d][\w$]*")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_QUOTED = {
    '"': (TokenKind.NAME, re.compile(r'"((?:[^"]|"")*)"')),
    "`": (TokenKind.NAME, re.compile(r"`((?:[^`]|``)*)`")),
    "'": (TokenKind.TEXT, re.compile(r"'((?:[^']|'')*)'")),
}
_PLACE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|[\w~=.-]+)?/[^\s();,'\"`]*")
"""A URI or path without quotes; it ends at a space, a bracket, a comma, a semicolon or a quote."""


class Scanner:
    """Reads the tokens of one statement from left to right, with one token of lookahead.

    Raises:
        StatementError: the statement is too long.

    """

    def __init__(self, text: str) -> None:
        if len(text) > STATEMENT_CHARACTERS:
            raise StatementError(
                f"the statement has {len(text):,} characters: at most {STATEMENT_CHARACTERS:,} are read"
            )
        self.text = text
        self._ahead: DdlToken | None = None
        self._at = 0

    def peek(self) -> DdlToken:
        """The next token, without consuming it."""
        if self._ahead is None:
            self._ahead = self._read()
        return self._ahead

    def take(self) -> DdlToken:
        """The next token, which is consumed."""
        token = self.peek()
        self._ahead = None
        self._at = token.end
        return token

    def at_place(self) -> bool:
        """Tell whether an unquoted URI or path comes next."""
        return _PLACE.match(self.text, self._skip_space()) is not None

    def take_place(self) -> DdlToken | None:
        """The next token, consumed, if it is an unquoted URI or path; otherwise None."""
        start = self._skip_space()
        match = _PLACE.match(self.text, start)
        if match is None:
            return None
        self._ahead = None
        self._at = match.end()
        return DdlToken(TokenKind.PLACE, match.group(), start, match.end())

    def error(self, token: DdlToken, problem: str) -> StatementError:
        """Return the error that names a token and its position."""
        return self._error(token.start, self._show(token), problem)

    def _error(self, offset: int, shown: str, problem: str) -> StatementError:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        place = f"line {line}, column {column}, {shown}"
        return StatementError(f"cannot read the statement at {place}: {problem}")

    def _show(self, token: DdlToken) -> str:
        if token.kind is TokenKind.END:
            return "where it ends"
        raw = self.text[token.start : token.end]
        return f"at {raw if len(raw) <= 40 else raw[:40] + '…'!r}"

    def _skip_space(self) -> int:
        match = _SPACE.match(self.text, self._at)
        start = match.end() if match else self._at
        if self.text.startswith("/*", start):
            raise self._error(start, "at '/*'", "the comment has no end")
        return start

    def _read(self) -> DdlToken:
        start = self._skip_space()
        if start == len(self.text):
            return DdlToken(TokenKind.END, "", start, start)
        first = self.text[start]
        if first in _QUOTED:
            return self._read_quoted(start, first)
        for kind, pattern in ((TokenKind.WORD, _WORD), (TokenKind.NUMBER, _NUMBER)):
            match = pattern.match(self.text, start)
            if match:
                return DdlToken(kind, match.group(), start, match.end())
        return DdlToken(TokenKind.SYMBOL, first, start, start + 1)

    def _read_quoted(self, start: int, quote: str) -> DdlToken:
        kind, pattern = _QUOTED[quote]
        match = pattern.match(self.text, start)
        if match is None:
            raise self._error(start, f"at {quote!r}", f"the closing {quote} is missing")
        return DdlToken(kind, match.group(1).replace(quote * 2, quote), start, match.end())
