"""A scan of predicate text before the SQL parser gets it: limits are checked and long IN lists extracted.

The parser recurses and tries alternatives, so nesting costs it stack, and nested calls of functions that are
named like types cost it time that doubles with each level (measured with sqlglot 30). The scanner is linear.
IN lists of plain literals are replaced by a placeholder, because the parser takes about 15 microseconds per
value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from pruner.errors import PredicateError
from pruner.limits import PREDICATE_TEXT_BYTES, SQL_PARSER_NESTING

PARSED_CHARACTERS = 1024 * 1024
"""Longest text, without extracted IN lists, that the SQL parser is given (it takes about ten seconds)."""

CALL_NESTING = 10
"""Deepest nesting of function calls."""

LIST_CHARACTERS = 200
"""Shortest IN list that is worth extracting."""


@dataclass(frozen=True, slots=True)
class TakenList:
    """An extracted IN list: `name` replaces it, `body` is the text that was between the parentheses.

    `start` is the offset of `name` in the shortened text.
    """

    name: str
    body: str
    start: int


@dataclass(frozen=True, slots=True)
class ScannedText:
    """Text fit for the parser.

    `text` is `original` without `lists`, `nesting` its deepest nesting of parentheses, CASE, NOT and signs.
    """

    original: str
    text: str
    lists: tuple[TakenList, ...]
    nesting: int

    def whole(self) -> ScannedText:
        """The text with its lists.

        Raises:
            PredicateError: the text is longer than `PARSED_CHARACTERS`.

        """
        whole = ScannedText(self.original, self.original, (), self.nesting)
        whole.check_length()
        return whole

    def check_length(self) -> None:
        """Refuse text that would take the parser too long.

        Raises:
            PredicateError: the text is longer than `PARSED_CHARACTERS`.

        """
        if len(self.text) > PARSED_CHARACTERS:
            raise PredicateError(
                f"the predicate has {len(self.text):,} characters besides plain IN lists and the limit is "
                f"{PARSED_CHARACTERS:,}: write long lists of values as column IN (literal, …)"
            )

    def place(self, offset: int) -> str:
        """Return the line and column (from 1) in the original text for an offset in the shortened text."""
        for taken in self.lists:
            if offset > taken.start:
                offset += len(taken.body) - len(taken.name)
        return _place(self.original, offset)


# Each part is possessive, so that an unclosed quote is found at its own position, not by backtracking into a
# doubled one.
DOUBLED_QUOTES = r"""'[^']*+(?:''[^']*+)*+' | "[^"]*+(?:""[^"]*+)*+" """
"""Quoted text and names of standard SQL, as a part of a pattern."""

BACKTICKS = "`[^`]*+(?:``[^`]*+)*+`"
_TOKEN = r"""
    (?P<quoted> {quoted} )
  | (?P<comment> --[^\n]* )
  | (?P<block> /\* )
  | (?P<open_quote> ['"`] )
  | (?P<word> \w+ )
  | (?P<open> [(\[{{] )
  | (?P<close> [)\]}}] )
  | (?P<sign> [-+~!](?!=) )
  | (?P<other> [^\s] )
"""
# Strings with a backslash are left to the parser, whose dialects interpret it; so are doubled quotes.
_PLAIN = r"""(?: [-]?\d+(?:\.\d+)? | (?:DATE\s*)? '[^'\\]*' | NULL )"""
PLAIN_LIST = re.compile(rf"\s*+{_PLAIN}\s*+(?:,\s*+{_PLAIN}\s*+)*+", re.VERBOSE | re.IGNORECASE | re.ASCII)
"""The content of an IN list that can be extracted, in every dialect."""

_COMMENT_ENDS = re.compile(r"/\*|\*/")
_OPERATOR_WORDS = frozenset({"AND", "OR", "NOT", "IN", "WHEN", "THEN", "ELSE", "LIKE", "BETWEEN", "IS"})


def scanner(*quoted: str) -> re.Pattern[str]:
    """The pattern of a dialect's tokens; `quoted` are the patterns of its quoted strings and names."""
    return re.compile(_TOKEN.format(quoted=" | ".join(quoted)), re.VERBOSE | re.DOTALL)


def scan(text: str, tokens: re.Pattern[str]) -> ScannedText:
    """Check the limits of predicate text and extract its long IN lists.

    Args:
        text: the predicate.
        tokens: the token pattern of its dialect, by `scanner`.

    Raises:
        PredicateError: the text is too long or too deeply nested, has a NUL or invalid Unicode, or a quote,
            comment or parenthesis is not closed.

    """
    _check_characters(text)
    scanner = _Scanner(text, tokens)
    scanner.run()
    shortened, lists = _shorten(text, scanner.lists)
    scanned = ScannedText(text, shortened, lists, scanner.deepest)
    scanned.check_length()
    return scanned


def _check_characters(text: str) -> None:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        place = _place(text, error.start)
        raise PredicateError(
            f"the predicate holds a character that is not valid Unicode at {place}"
        ) from None
    if size > PREDICATE_TEXT_BYTES:
        raise PredicateError(
            f"the predicate is {size:,} bytes long and the limit is {PREDICATE_TEXT_BYTES:,}: "
            "split it or compare by a range"
        )
    if (nul := text.find("\0")) >= 0:
        raise PredicateError(f"the predicate holds a NUL character at {_place(text, nul)}: remove it")


class _Scanner:
    """One pass over the tokens: `lists` are the spans of long IN lists, `deepest` the deepest nesting."""

    def __init__(self, text: str, tokens: re.Pattern[str]) -> None:
        self.text = text
        self.lists: list[tuple[int, int]] = []
        self.deepest = 0
        self._pattern = tokens
        self._opened: list[tuple[int, int, str]] = []  # offset, nesting to return to, what opened it
        self._nesting = 0
        self._base = 0
        self._calls = 0
        self._previous = ""

    def run(self) -> None:
        position, match_at = 0, self._pattern.search
        while match := match_at(self.text, position):
            position = match.end()
            match match.lastgroup:
                case "word":
                    self._word(match.group().upper(), match.start())
                case "open":
                    position = self._open(match.group(), match.start())
                case "close":
                    self._close()
                case "sign":
                    self._deepen(match.start())
                case "comment":
                    continue
                case "block":
                    position = self._block_comment(match.start())
                    continue
                case "open_quote":
                    self._fail(f"the quote {match.group()} is never closed", match.start())
                case _:
                    self._nesting = self._base
            self._previous = match.group().upper() if match.lastgroup == "word" else ""
        if self._opened:
            offset, _, opened_by = self._opened[-1]
            self._fail(f"{opened_by} is never closed", offset)

    def _word(self, word: str, offset: int) -> None:
        match word:
            case "NOT":
                self._deepen(offset)
            case "CASE":
                self._push(offset, "CASE")
            case "END" if self._opened and self._opened[-1][2] == "CASE":
                self._pop()
            case _:
                self._nesting = self._base

    def _open(self, bracket: str, offset: int) -> int:
        called = bracket == "(" and self._previous != "" and self._previous not in _OPERATOR_WORDS
        if called:
            self._calls += 1
            if self._calls > CALL_NESTING:
                self._fail(f"function calls are nested more than {CALL_NESTING} deep", offset)
        self._push(offset, f"{self._previous.lower()}{bracket}" if called else bracket)
        if bracket == "(" and self._previous == "IN":
            plain = PLAIN_LIST.match(self.text, offset + 1)
            if plain and self.text[plain.end() : plain.end() + 1] == ")":
                if plain.end() - offset > LIST_CHARACTERS:
                    self.lists.append((offset + 1, plain.end()))
                return plain.end()
        return offset + 1

    def _close(self) -> None:
        # An unmatched one is left to the parser, which reports it.
        if self._opened:
            self._pop()

    def _push(self, offset: int, opened_by: str) -> None:
        self._opened.append((offset, self._base, opened_by))
        self._deepen(offset)
        self._base = self._nesting

    def _pop(self) -> None:
        _, self._base, opened_by = self._opened.pop()
        self._nesting = self._base
        self._calls -= len(opened_by) > 1 and opened_by.endswith("(")

    def _deepen(self, offset: int) -> None:
        self._nesting += 1
        if self._nesting > self.deepest:
            self.deepest = self._nesting
            if self.deepest > SQL_PARSER_NESTING:
                self._fail(
                    f"parentheses, NOT or signs are nested more than {SQL_PARSER_NESTING} deep", offset
                )

    def _block_comment(self, start: int) -> int:
        """Skip a comment, including nested ones, about which engines differ."""
        depth = 0
        ends = _COMMENT_ENDS.finditer(self.text, start)
        while match := next(ends, None):
            depth += 1 if match.group() == "/*" else -1
            if depth == 0:
                return match.end()
        return self._fail("the comment /* is never closed", start)

    def _fail(self, problem: str, offset: int) -> NoReturn:
        raise PredicateError(f"the predicate cannot be read: {problem}, at {_place(self.text, offset)}")


def _shorten(text: str, spans: list[tuple[int, int]]) -> tuple[str, tuple[TakenList, ...]]:
    """Replace each span by a name that does not occur in the text."""
    if not spans:
        return text, ()
    stem = "long_list_"
    while stem in text.lower():
        stem += "_"
    parts: list[str] = []
    taken: list[TakenList] = []
    position = length = 0
    for number, (start, end) in enumerate(spans):
        name = f"{stem}{number}"
        parts += (text[position:start], name)
        length += start - position
        taken.append(TakenList(name, text[start:end], length))
        length += len(name)
        position = end
    parts.append(text[position:])
    return "".join(parts), tuple(taken)


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return f"line {line}, column {column}"
