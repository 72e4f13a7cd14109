"""The text of a scan's filter, as EXPLAIN shows it, as the nodes that the plugin would send.

The text is for display: constants are not escaped, and unknown forms may occur anywhere. Parts that cannot be read
become opaque nodes over their columns; a text in which quotes are ambiguous is opaque as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pruner.expr.exact.clock import DAY, parse_iso
from pruner_trino.messages import TrinoCall, TrinoColumn, TrinoConstant, TrinoNode, TrinoOpaque

_DEEPEST = 60
_TEXT = 200
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<type>[A-Za-z]\w*(?:\(\d+(?:,\ ?\d+)?\))?(?:\ with\ time\ zone)?)\ '(?P<value>.*?)'(?=[\s),]|$)
    | (?P<null>null::[a-z]+(?:\(\d+(?:,\ ?\d+)?\))?(?:\ with\ time\ zone)?)
    | (?P<name>[$A-Za-z_][\w$]*)
    | (?P<sign><=|>=|<>|[=<>≡(),])
    )""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = {
    "=": "$equal",
    "<>": "$not_equal",
    "<": "$less_than",
    "<=": "$less_than_or_equal",
    ">": "$greater_than",
    ">=": "$greater_than_or_equal",
    "≡": "$identical",
}
_ARITHMETIC: Final = {
    "$operator$add": "$add",
    "$operator$subtract": "$subtract",
    "$operator$multiply": "$multiply",
    "$operator$negation": "$negate",
}
_RESULTS: Final = {
    "$not": "boolean",
    "starts_with": "boolean",
    "date": "date",
    **dict.fromkeys(("year", "quarter", "month", "day", "hour", "minute", "second", "length"), "bigint"),
    **dict.fromkeys(("lower", "upper", "substring", "substr"), "varchar"),
}
_OF_LAST_ARGUMENT: Final = frozenset({*_ARITHMETIC.values(), "abs", "date_trunc", "date_add"})
"""Functions whose result has the type of their last argument."""
_PATTERN = re.compile(r"\[(.*?)\](?:\[(.)\])?", re.DOTALL)
_TYPE = re.compile(r"[a-z]+(?:\(\d+(?:,\d+)?\))?(?: with time zone)?")
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_BASE_TYPE = re.compile(r"[a-z]+")
_UNKNOWN_TYPE = "unknown"


class _UnreadableError(Exception):
    """An unknown form; never leaves this module."""


class _Token(NamedTuple):
    kind: str
    text: str
    value: str
    start: int
    end: int


def read_filter(text: str, types: Mapping[str, str]) -> TrinoNode:
    """Return the node of a filter's text.

    Args:
        text: `filterPredicate` of a scan in EXPLAIN's JSON.
        types: Trino's types of the columns, by the symbols that represent them there.
    """
    return _Reader(text, types).whole()


class _Reader:
    def __init__(self, text: str, types: Mapping[str, str]) -> None:
        self._text = text
        self._types = types
        self._tokens = list(_tokens(text))
        self._position = 0

    def whole(self) -> TrinoNode:
        read = self._tokens[-1].end if self._tokens else 0
        try:
            if read < len(self._text.rstrip()):
                raise _UnreadableError
            node = self._expression(0)
            if self._left:
                raise _UnreadableError
        except _UnreadableError:
            columns = self._opaque(0, len(self._tokens)).columns
            return TrinoOpaque("boolean", self._text[:_TEXT], columns)
        return node

    def _expression(self, depth: int) -> TrinoNode:
        token = self._next()
        if depth > _DEEPEST:
            raise _UnreadableError
        match token.kind:
            case "type":
                return _constant(token)
            case "null":
                return TrinoConstant(token.text.removeprefix("null::"), None)
            case "sign" if token.text == "(":
                return self._group(depth)
            case "name" if self._sees("("):
                return self._call(token, depth)
            case "name" if token.text in self._types:
                return TrinoColumn(token.text, self._types[token.text])
            case _:
                raise _UnreadableError

    def _group(self, depth: int) -> TrinoNode:
        """The content of parentheses, after the opening one."""
        start = self._position
        try:
            node = self._joined(depth)
            self._take(")")
        except _UnreadableError:
            return self._skipped(start)
        return node

    def _joined(self, depth: int) -> TrinoNode:
        left = self._expression(depth + 1)
        if self._sees(")"):
            return left
        token = self._next()
        if token.text in _OPERATORS:
            return self._function(_OPERATORS[token.text], left, self._expression(depth + 1))
        match token.text:
            case "AND" | "OR" as word:
                operands = [left, self._expression(depth + 1)]
                while self._sees(word):
                    self._next()
                    operands.append(self._expression(depth + 1))
                return self._function(f"${word.lower()}", *operands)
            case "IS":
                self._take("NULL")
                return self._function("$is_null", left)
            case "BETWEEN":
                low = self._expression(depth + 1)
                self._take("AND")
                return self._function("$between", left, low, self._expression(depth + 1))
            case "IN":
                self._take("(")
                options = self._list(depth)
                return self._function("$in", left, TrinoCall("$array", "array", options))
            case _:
                raise _UnreadableError

    def _call(self, name: _Token, depth: int) -> TrinoNode:
        self._take("(")
        start = self._position
        try:
            if name.text in ("CAST", "TRY_CAST"):
                operand = self._expression(depth + 1)
                return TrinoCall(f"${name.text.lower()}", self._cast_type(), [operand])
            arguments = self._list(depth)
        except _UnreadableError:
            return self._skipped(start)
        if name.text == "$like":
            return _like(arguments)
        function = _ARITHMETIC.get(name.text, name.text)
        return TrinoCall(function, _result_type(function, arguments), arguments)

    def _cast_type(self) -> str:
        self._take("AS")
        match = _TYPE.match(self._text, self._tokens[self._position].start if self._left else len(self._text))
        if match is None:
            raise _UnreadableError
        while self._left and self._tokens[self._position].start < match.end():
            self._position += 1
        self._take(")")
        return match[0]

    def _list(self, depth: int) -> list[TrinoNode]:
        """Expressions up to the closing parenthesis."""
        nodes: list[TrinoNode] = []
        while not self._sees(")"):
            if nodes:
                self._take(",")
            nodes.append(self._expression(depth + 1))
        self._take(")")
        return nodes

    def _skipped(self, start: int) -> TrinoNode:
        """An opaque node for everything up to the parenthesis that closes the one before `start`."""
        open_ = 1
        self._position = start
        while open_:
            token = self._next()
            open_ += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        return self._opaque(start, self._position - 1)

    def _opaque(self, start: int, end: int) -> TrinoOpaque:
        tokens = self._tokens[start:end]
        columns = dict.fromkeys(token.text for token in tokens if token.text in self._types)
        text = self._text[tokens[0].start : tokens[-1].end] if tokens else self._text
        return TrinoOpaque("boolean", text[:_TEXT].strip(), list(columns))

    @property
    def _left(self) -> bool:
        return self._position < len(self._tokens)

    def _sees(self, text: str) -> bool:
        if not self._left:
            return False
        token = self._tokens[self._position]
        return token.text == text and token.kind in ("sign", "name")

    def _take(self, text: str) -> None:
        if not self._sees(text):
            raise _UnreadableError
        self._position += 1

    def _next(self) -> _Token:
        if not self._left:
            raise _UnreadableError
        self._position += 1
        return self._tokens[self._position - 1]

    @staticmethod
    def _function(name: str, *arguments: TrinoNode) -> TrinoCall:
        return TrinoCall(name, "boolean", list(arguments))


def _tokens(text: str) -> list[_Token]:
    words: list[_Token] = []
    position = 0
    while (match := _TOKEN.match(text, position)) is not None:
        kind = str(match.lastgroup)
        kind = "type" if kind == "value" else kind
        words.append(_Token(kind, match[kind], match["value"] or "", match.start(kind), match.end()))
        position = match.end()
    return words


def _constant(token: _Token) -> TrinoNode:
    value = value_of_text(token.text, token.value)
    if value is None:
        return TrinoOpaque(token.text, f"{token.text} '{token.value[:_TEXT]}'", [])
    return TrinoConstant(token.text, value)


def value_of_text(type_: str, text: str) -> Any:
    """Return a value shown by EXPLAIN as the plugin would send it; None if its text says too little."""
    base = _BASE_TYPE.match(type_)
    match base[0] if base else "":
        case "tinyint" | "smallint" | "integer" | "bigint" if _INTEGER.fullmatch(text):
            return int(text)
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case "real" | "double" | "decimal" | "varchar" | "char" | "varbinary":
            return text
        case "date" | "timestamp" as moment if "zone" not in type_:
            iso = parse_iso(text)
            if iso is None or iso.offset is not None:
                return None
            micros, rest = divmod(iso.wall, 1000)
            return iso.wall // DAY if moment == "date" else {"micros": micros, "picos": rest * 1000}
        case _:
            return None


def _result_type(function: str, arguments: list[TrinoNode]) -> str:
    """The type of a function's result, which is not in the text."""
    if function in _RESULTS:
        return _RESULTS[function]
    if function in _OF_LAST_ARGUMENT and arguments:
        return arguments[-1].type
    return _UNKNOWN_TYPE


def _like(arguments: list[TrinoNode]) -> TrinoNode:
    """`$like(value, LikePattern '[pattern][escape]')`."""
    match arguments:
        case [value, TrinoOpaque(text=shown)] if shown.startswith("LikePattern '"):
            pattern = _PATTERN.fullmatch(shown.removeprefix("LikePattern '").removesuffix("'"))
        case _:
            pattern, value = None, None
    if pattern is None or value is None:
        return TrinoCall("$like", "boolean", arguments)
    texts: list[TrinoNode] = [TrinoConstant("varchar", text) for text in pattern.groups() if text is not None]
    return TrinoCall("$like", "boolean", [value, *texts])
