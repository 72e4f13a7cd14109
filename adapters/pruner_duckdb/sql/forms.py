"""Statements of every kind that runs immediately, each with a SELECT that reads the same rows of the same tables.

DuckDB serializes only SELECT statements. For any other kind, the parts that read tables are combined into a SELECT, the
probe: its scans need the rows that the statement's own scans need, or more. The replacement of a table in the probe is
then applied at the same position in the statement.

    UPDATE t SET a = 1 FROM u WHERE c      SELECT * FROM t, u WHERE c
    DELETE FROM t USING u WHERE c          SELECT * FROM t, u WHERE c
    MERGE INTO t USING u ON c WHEN …       SELECT * FROM u LEFT JOIN t ON c
    PIVOT u ON …                           SELECT * FROM u
    SET VARIABLE x = (SELECT …)            SELECT * FROM (SELECT …) AS pruner_0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pruner_duckdb.sql.select import NotSelect, Select, Span, splice
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens, with_plain_spaces

# Statements that contain a PIVOT in parentheses, or in a WITH, that finds its values itself.
#
# DuckDB turns such a statement into several, and its parser serializes none of them. A query of the source alone can
# replace the PIVOT: `(PIVOT t ON cat USING sum(x))` becomes `(SELECT * FROM t)`. That shows the positions of tables,
# but not what the statement needs from them, because the pivoted columns are named by values.

FINDS_VALUES: Final = "a PIVOT in brackets finds its values itself"

PIVOTS: Final = frozenset(["pivot", "pivot_wider"])
_BEHIND_SOURCE: Final = frozenset(["on", "using", "group", "order", "limit"])

Piece: TypeAlias = "tuple[int, int, int]"
"""The start of a part of a text, its start in the text that it was taken from, and its length."""


def with_sources(text: bytes, every: Sequence[Token]) -> tuple[bytes, list[Piece]] | None:
    """A statement with each PIVOT in parentheses replaced by a query of its source, and the parts that it kept.

    Returns:
        None for a statement without one, and if more than the source of one may read tables.
    """
    kept: list[Span] = []
    position = 0
    for number, stop in _in_brackets(every):
        pivot = every[number]
        if pivot.start < position:
            continue  # inside another one
        behind = _behind_source(every, number, stop)
        if behind is None or has_query(every, every[behind].start, every[stop].start):
            return None
        kept += [Span(position, pivot.start), Span(pivot.stop, every[behind].start)]
        position = every[stop].start
    if not kept:
        return None
    inner, pieces = b"", list[Piece]()
    for number, span in enumerate([*kept, Span(position, len(text))]):
        inner += b"SELECT * FROM " if number % 2 else b""
        pieces.append((len(inner), span.start, span.stop - span.start))
        inner += text[span.start : span.stop]
    return inner, pieces


def composed(outer: Iterable[Piece], inner: Sequence[Piece]) -> Iterator[Piece]:
    """Map the parts of a text through the text that it was derived from to the text that this was derived from."""
    for start, middle, length in outer:
        for inside, origin, size in inner:
            first, last = max(middle, inside), min(middle + length, inside + size)
            if first < last:
                yield start + first - middle, origin + first - inside, last - first


def has_query(every: Sequence[Token], start: int, stop: int) -> bool:
    """Tell whether a part of the statement may contain a query."""
    words = {token.text.lower() for token in every if start <= token.start < stop}
    return not words.isdisjoint(("select", "from", "table", "pivot"))


def _in_brackets(every: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Each PIVOT that begins a query in parentheses, possibly after a WITH, and the parenthesis that closes it."""
    for number, token in enumerate(every[:-1]):
        if token.text.lower() not in PIVOTS or token.kind != "name":
            continue
        opening = _around(every, number)
        if opening is None or (number - opening > 1 and every[opening + 1].text.lower() != "with"):
            continue
        if every[number - 1].text not in ("(", ")"):
            continue
        stop = _end(every, number)
        if stop is not None:
            yield number, stop


def _around(every: Sequence[Token], number: int) -> int | None:
    """The bracket that opens the group containing a token."""
    depth = 0
    for at in range(number - 1, -1, -1):
        depth -= _change(every[at])
        if depth < 0:
            return at
    return None


def _end(every: Sequence[Token], number: int) -> int | None:
    """The bracket that closes the group containing a token."""
    depth = 0
    for at in range(number, len(every)):
        depth += _change(every[at])
        if depth < 0:
            return at
    return None


def _behind_source(every: Sequence[Token], number: int, stop: int) -> int | None:
    """The word after the source of a PIVOT."""
    depth = 0
    for at in range(number + 1, stop):
        depth += _change(every[at])
        if depth == 0 and every[at].text.lower() in _BEHIND_SOURCE:
            return at
    return None


def _change(token: Token) -> int:
    if token.kind != "sign":
        return 0
    sign = token.text.encode()[0]
    return (sign in OPENING) - (sign in CLOSING)


# The SELECT behind statements that only name a table.

_SHORT = re.compile(
    r"\s*(?P<what>describe|desc|show|summarize|table)\s+(?:table\s+)?"
    r"(?P<name>(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))*)\s*;?\s*",
    re.IGNORECASE,
)
_SPELLED_OUT = {
    "describe": "DESCRIBE ",
    "desc": "DESCRIBE ",
    "show": "DESCRIBE ",
    "summarize": "SUMMARIZE ",
    "table": "",
}
_LISTED = frozenset(["tables", "databases", "schemas", "variables", "all"])
"""Words that SHOW and DESCRIBE do not read as the name of a table, but as what to list."""
_SHOWN_IN_BRACKETS = re.compile(r"\(\s*(?:describe|desc|show|summarize)\s", re.IGNORECASE)
_CREATED_OF_SHOWN = re.compile(
    r"\s*create\b.*\bas\s+(?=(?:describe|desc|show|summarize)\s)", re.IGNORECASE | re.DOTALL
)
_COPY_TABLE = re.compile(
    r"\s*copy\s+(?P<name>(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))*)\s*"
    r"(?:\((?P<columns>[^()]*)\)\s*)?(?P<to>to\b)",
    re.IGNORECASE,
)
_TABLE = re.compile(r"\btable\b", re.IGNORECASE)
_BEFORE_A_QUERY = frozenset(
    ["", "(", ")", "as", "explain", "analyze", "union", "intersect", "except", "all", "distinct", "name"]
)
"""Tokens after which `TABLE t` is a query; the empty one is the beginning of the statement."""
_BEHIND_A_TABLE = frozenset(
    ["", ")", ";", "order", "limit", "offset", "fetch", "union", "intersect", "except"]
)
"""Tokens that may follow such a query; DuckDB rejects others that may follow the table of a SELECT, such as WHERE."""


def spelled_out(text: str) -> str:
    """Replace `DESCRIBE t`, `SHOW t`, `SUMMARIZE t`, `TABLE t` and `COPY t TO` by the equivalent statements with a
    SELECT, the first three also in parentheses; other text is returned unchanged.
    """
    short = _SHORT.fullmatch(text)
    if short is not None and short.group("name").lower() not in _LISTED:
        return f"{_SPELLED_OUT[short.group('what').lower()]}SELECT * FROM {short.group('name')}"
    created = _CREATED_OF_SHOWN.match(text)
    short = None if created is None else _SHORT.fullmatch(text, created.end())
    if short is not None and short["name"].lower() not in _LISTED:
        shown = f"{_SPELLED_OUT[short['what'].lower()]}SELECT * FROM {short['name']}"
        return f"{text[: short.start()]}{shown}"
    copy = _COPY_TABLE.match(text)
    if copy is not None:
        columns = copy.group("columns") or "*"
        return f"COPY (SELECT {columns} FROM {copy.group('name')}) {text[copy.start('to') :]}"
    text = _with_selects(text) if _TABLE.search(text) else text
    return _written_in_brackets(text) if _SHOWN_IN_BRACKETS.search(text) else text


def _with_selects(text: str) -> str:
    """Replace each `TABLE t` that is a query, or a part of one, by a SELECT."""
    encoded = text.encode()
    all_tokens = list(tokens(encoded))
    words = ["", *(token.text.lower() for token in all_tokens), ""]
    inserts = words[1] == "insert"  # its table, or the alias of that, precedes the query
    edits: list[tuple[Span, str]] = []
    for number, token in enumerate(all_tokens):
        if words[number + 1] != "table" or not (inserts or words[number] in _BEFORE_A_QUERY):
            continue
        behind = number + 1
        while (
            behind + 2 < len(all_tokens)
            and all_tokens[behind].kind == "name"
            and all_tokens[behind + 1].text == "."
        ):
            behind += 2
        if (
            behind < len(all_tokens)
            and all_tokens[behind].kind == "name"
            and words[behind + 2] in _BEHIND_A_TABLE
        ):
            edits.append((Span(token.start, token.stop), "SELECT * FROM"))
    return splice(encoded, edits) if edits else text


def _written_in_brackets(text: str) -> str:
    """Replace `(DESCRIBE t)` and the like by the equivalent with a SELECT."""
    encoded = text.encode()
    words = list(tokens(encoded))
    edits: list[tuple[Span, str]] = []
    for number, opening in enumerate(words):
        if opening.text != "(":
            continue
        stop = next((n for n in range(number, len(words)) if words[n].text == ")"), number)
        inside = Span(opening.stop, words[stop].start)
        short = _SHORT.fullmatch(encoded[inside.start : inside.stop].decode())
        if short is not None and short["what"].lower() != "table" and short["name"].lower() not in _LISTED:
            edits.append((inside, f"{_SPELLED_OUT[short['what'].lower()]}SELECT * FROM {short['name']}"))
    return splice(encoded, edits) if edits else text


Parse = Callable[[str], Select]

_SELECT_STARTS = frozenset(
    ["with", "select", "from", "values", "(", "unpivot", "pivot_longer", "describe", "summarize"]
)
_ATTEMPTS = 8
_BEFORE_KIND = frozenset(["or", "replace", "temp", "temporary", "persistent", "local"])
_DATA = (("with", "no", "data"), ("with", "data"))
_WRITES = frozenset(["insert", "update", "delete", "merge"])
_ADDED = re.compile(rb"\bfile(?:name|_)", re.IGNORECASE)
"""Prefixes of the names of the columns that DuckDB adds to a scan."""


@dataclass(frozen=True, slots=True)
class StatementProbe:
    """A statement and its probe. `pieces` maps parts of the probe to their positions in the statement:
    (start in the probe, start in the statement, length), in bytes.

    `lazy` means that DuckDB's relation of such a statement reads the tables only when it runs; `literal`, that the
    statement takes no parameters; `explains`, that it consists of EXPLAIN, possibly with ANALYZE, and the probe.
    `target` is the position of the table that it changes; `unpruned`, why the probe reads other rows than the
    statement.
    """

    text: bytes
    select: Select
    pieces: tuple[tuple[int, int, int], ...]
    lazy: bool = False
    literal: bool = False
    target: Span | None = None
    unpruned: str | None = None
    explains: bool = False

    @property
    def names_nothing_added(self) -> bool:
        """Whether no name in the statement can mean one of the columns that DuckDB adds to a scan on request, provided
        that the statement calls no macro of the user.
        """
        return _ADDED.search(self.text) is None

    @property
    def is_select(self) -> bool:
        """Whether every name that may mean a column of a table is in the probe, and means the same there."""
        return self.target is None and not self.literal

    @property
    def asks(self) -> bool:
        """Whether the statement is a SELECT, or EXPLAIN of one."""
        return self.explains or self.text == self.select.text

    def changes(self, span: Span) -> bool:
        """Tell whether a part of the probe is the table that the statement changes."""
        outer = self._outer(span)
        return self.target is not None and self.target.start <= outer.start and outer.stop <= self.target.stop

    def spliced(self, edits: Iterable[tuple[Span, str]]) -> str:
        """Return the statement with edits of the probe applied at the corresponding positions."""
        return splice(self.text, ((self._outer(span), text) for span, text in edits))

    def _outer(self, span: Span) -> Span:
        for start, outer, length in self.pieces:
            if start <= span.start and span.stop <= start + length:
                return Span(span.start - start + outer, span.stop - start + outer)
        raise ValueError("a part of the probe that is not the statement's")


def form_of(text: str, parse: Parse) -> StatementProbe | None:
    """Parse a statement of any kind.

    Args:
        text: one statement.
        parse: parses a SELECT or raises `NotSelect`.

    Returns:
        None for a text that is no statement, for a statement that outlives its run, and if its parts are not
        understood.
    """
    text = spelled_out(with_plain_spaces(text))
    try:
        select = parse(text)
        return StatementProbe(select.text, select, ((0, 0, len(select.text)),), lazy=True)
    except NotSelect as refusal:
        if refusal.syntax:
            return None
    try:
        return _with_pivots(text, parse) or _Other(*with_numbers(text.encode()), parse).form()
    except NotSelect:
        return None


def _with_pivots(text: str, parse: Parse) -> StatementProbe | None:
    """Parse a statement that contains a PIVOT in parentheses that finds its values itself; None for others."""
    if "pivot" not in text.lower():
        return None
    encoded = text.encode()
    pivoted = with_sources(encoded, list(tokens(encoded)))
    form = None if pivoted is None else form_of(pivoted[0].decode(), parse)
    if pivoted is None or form is None or form.text != pivoted[0] or form.target is not None:
        return None
    pieces = tuple(composed(form.pieces, pivoted[1]))
    return replace(form, text=encoded, pieces=pieces, literal=True, unpruned=FINDS_VALUES)


def with_numbers(text: bytes) -> tuple[bytes, list[Token]]:
    """Number the question marks, so that parts may be combined in another order; returns the tokens, too."""
    words = list(tokens(text))
    marks = [token for token in words if token.kind == "mark"]
    edits = [
        (Span(token.start, token.stop), f"${number}")
        for number, token in enumerate(marks, 1)
        if token.text == "?"
    ]
    if not edits:
        return text, words
    numbered = splice(text, edits).encode()
    return numbered, list(tokens(numbered))


class _Other:
    """One statement that is no SELECT, by its tokens; `_top` has those outside all brackets, and each outermost opening
    bracket.
    """

    def __init__(self, text: bytes, every: list[Token], parse: Parse) -> None:
        self._text = text
        self._parse = parse
        self._all = every
        while self._all and self._all[-1].text == ";":
            self._all.pop()
        self._end = self._all[-1].stop if self._all else 0
        self._top = _outside_brackets(self._all)

    def form(self) -> StatementProbe | None:
        words = [token.text.lower() for token in self._top]
        first = self._behind_explain(words)
        if first is None:
            return None
        ctes: list[Span] = []
        if words[first] == "with":
            kind = next((n for n, word in enumerate(words) if n > first and word in _WRITES | PIVOTS), None)
            if kind is None:
                return self._explained(first)
            ctes = [Span(self._top[first].start, self._top[kind].start)]
            first = kind
        match words[first]:
            case "update":
                return self._update(first, ctes)
            case "delete":
                return self._delete(first, ctes)
            case "merge":
                return self._merge(first, ctes)
            case "insert":
                return self._insert(first, ctes)
            case "pivot" | "pivot_wider":
                return self._pivot(first, ctes)
            case "copy" | "set" | "call":
                return self._in_brackets(first)
            case "create":
                return self._create(first, words)
            case word:
                return self._explained(first) if word in _SELECT_STARTS else None

    def _behind_explain(self, words: Sequence[str]) -> int | None:
        """The first word that is not part of EXPLAIN; None if there is none."""
        first = 0
        if words[:1] == ["explain"]:
            first = 1 + (words[1:2] == ["analyze"])
            # Behind EXPLAIN alone, parentheses have its options, or a query.
            if words[1:2] == ["("] and self._all[2].text.lower() not in {*_SELECT_STARTS, "("}:
                first += 1
        return first if first < len(words) else None

    def _create(self, first: int, words: Sequence[str]) -> StatementProbe | None:
        """CREATE TABLE AS and CREATE TYPE read immediately; whatever else is created outlives the statement."""
        kind = next((word for word in words[first + 1 :] if word not in _BEFORE_KIND), None)
        if kind == "type":
            return self._in_brackets(first)
        return self._tail(first) or self._pivoted(first, []) if kind == "table" else None

    def _explained(self, first: int) -> StatementProbe | None:
        """The SELECT behind EXPLAIN."""
        form = self._tail(first)
        start = self._top[first].start
        if form is None or first == 0 or form.pieces != ((0, start, self._end - start),):
            return form
        return replace(form, explains=True)

    def _tail(self, first: int) -> StatementProbe | None:
        """The SELECT at the end of CREATE TABLE AS and EXPLAIN."""
        words = [token.text.lower() for token in self._top]
        length = next((len(tail) for tail in _DATA if tuple(words[-len(tail) :]) == tail), 0)
        stop = self._top[-length].start if length else self._end
        return self._ending(first, stop, [])

    def _ending(self, first: int, stop: int, ctes: Sequence[Span]) -> StatementProbe | None:
        """The longest suffix of the statement that is a SELECT, preceded by `ctes`.

        The text before it may be a WITH that cannot be parsed: its names hide those of tables.
        """
        top = self._top
        starts = [n for n in range(first, len(top)) if top[n].text.lower() in _SELECT_STARTS]
        for start in starts[:_ATTEMPTS]:
            before = top[first:start]
            try:
                form = self._whole([*ctes, Span(top[start].start, stop)], literal=self._pivots(first, start))
            except NotSelect:
                continue
            with_ = next((n for n, token in enumerate(before) if token.text.lower() == "with"), len(before))
            hidden = {token.identifier for token in before[with_:]}
            read = tuple(
                reference for reference in form.select.references if reference.path[0].lower() not in hidden
            )
            return replace(form, select=replace(form.select, references=read))
        return None

    def _pivots(self, first: int, start: int) -> bool:
        """Tell whether a part of the statement contains a PIVOT: one that finds its values itself turns the statement
        into several, which take no parameters.
        """
        part = Span(self._top[first].start, self._top[start].start)
        return any(
            part.start <= token.start < part.stop and token.text.lower() in PIVOTS for token in self._all
        )

    def _insert(self, first: int, ctes: list[Span]) -> StatementProbe | None:
        """INSERT INTO t SELECT …, without ON CONFLICT and RETURNING, which read only t."""
        words = [token.text.lower() for token in self._top]
        conflict = [n for n in range(first, len(words) - 1) if words[n : n + 2] == ["on", "conflict"]]
        tails = [*conflict, *(n for n in range(first, len(words)) if words[n] == "returning")]
        stop = min((self._top[n].start for n in tails), default=self._end)
        if has_query(self._all, stop, self._end):
            return None
        return self._ending(first, stop, ctes) or self._pivoted(first, ctes)

    def _pivoted(self, first: int, ctes: list[Span]) -> StatementProbe | None:
        """A PIVOT instead of the SELECT."""
        words = [token.text.lower() for token in self._top]
        at = next((n for n in range(first, len(words)) if words[n] in PIVOTS), None)
        if at is None:
            return None
        with_ = words.index("with", first, at) if "with" in words[first:at] else at
        return self._pivot(at, [*ctes, Span(self._top[with_].start, self._top[at].start)], lazy=False)

    def _update(self, first: int, ctes: list[Span]) -> StatementProbe | None:
        parts = self._clauses(first, ("set", "from", "where", "returning"))
        if "set" not in parts:
            return None
        read: list[Span | str] = [*ctes, "SELECT *", *self._reading(parts, ("set", "returning"))]
        read += [" FROM ", parts[""]]
        if "from" in parts:
            read += [", ", parts["from"]]
        if "where" in parts:
            read += [" WHERE ", parts["where"]]
        return self._whole(read, target=parts[""])

    def _delete(self, first: int, ctes: list[Span]) -> StatementProbe | None:
        if first + 1 >= len(self._top) or self._top[first + 1].text.lower() != "from":
            return None
        parts = self._clauses(first + 1, ("using", "where", "returning"))
        read: list[Span | str] = [
            *ctes,
            "SELECT *",
            *self._reading(parts, ("returning",)),
            " FROM ",
            parts[""],
        ]
        if "using" in parts:
            read += [", ", parts["using"]]
        if "where" in parts:
            read += [" WHERE ", parts["where"]]
        return self._whole(read, target=parts[""])

    def _merge(self, first: int, ctes: list[Span]) -> StatementProbe | None:
        """Every row of the source counts, whether it has a match or not: the target is joined from the left."""
        if first + 1 >= len(self._top) or self._top[first + 1].text.lower() != "into":
            return None
        words = [token.text.lower() for token in self._top]
        when = next((n for n in range(first, len(words)) if words[n] == "when"), None)
        if when is None or has_query(self._all, self._top[when].start, self._end):
            return None
        uses = [n for n in range(first, when) if words[n] == "using"]
        on = [n for n in range(first, when) if words[n] == "on"]
        match = uses[1] if len(uses) > 1 else on[0] if on else None
        if not uses or match is None or len(on) > 1:
            return None
        top = self._top
        target = Span(top[first + 1].stop, top[uses[0]].start)
        source = Span(top[uses[0]].stop, top[match].start)
        condition = Span(top[match].start, top[when].start)
        read: list[Span | str] = [*ctes, "SELECT * FROM ", source, " LEFT JOIN ", target, " ", condition]
        return self._whole(read, target=target)

    def _pivot(self, first: int, ctes: list[Span], *, lazy: bool = True) -> StatementProbe | None:
        parts = self._clauses(first, ("on", "using", "group", "order", "limit"))
        if has_query(self._all, parts[""].stop, self._end):
            return None
        return self._whole([*ctes, "SELECT * FROM ", parts[""]], lazy=lazy, literal=True)

    def _in_brackets(self, first: int) -> StatementProbe | None:
        """Statements that read only queries in parentheses."""
        read: list[Span | str] = ["SELECT *"]
        groups = [token for token in self._top[first:] if token.text == "("]
        for token in groups:
            group = self._group(token)
            try:
                self._parse(self._text[group.start + 1 : group.stop - 1].decode())
            except NotSelect:
                continue
            read += [" FROM " if len(read) == 1 else ", ", group, f" AS pruner_{len(read)}"]
        return self._whole(read) if len(read) > 1 else None

    def _group(self, opening: Token) -> Span:
        depth = 0
        for token in self._all:
            if token.start >= opening.start and token.kind == "sign":
                depth += _depth_change(token)
                if depth == 0:
                    return Span(opening.start, token.stop)
        return Span(opening.start, self._end)

    def _clauses(self, first: int, names: Sequence[str]) -> dict[str, Span]:
        """The text after `first` and after each of the clauses' first words, which occur in this order."""
        clauses: list[tuple[str, Token]] = [("", self._top[first])]
        names = list(names)
        for number in range(first + 1, len(self._top)):
            token = self._top[number]
            word = token.text.lower()
            before = self._top[number - 1].text.lower()
            if word in names and not (word == "from" and before == "distinct"):
                clauses.append((word, token))
                del names[: names.index(word) + 1]
        stops = [token.start for _, token in clauses[1:]] + [self._end]
        return {name: Span(token.stop, stop) for (name, token), stop in zip(clauses, stops, strict=True)}

    def _reading(self, parts: dict[str, Span], names: Sequence[str]) -> Iterable[Span | str]:
        """The clauses that read tables, as further expressions of the probe."""
        for name in names:
            if name in parts and has_query(self._all, parts[name].start, parts[name].stop):
                yield from (", ", parts[name])

    def _whole(
        self,
        parts: Sequence[Span | str],
        *,
        lazy: bool = False,
        literal: bool = False,
        target: Span | None = None,
    ) -> StatementProbe:
        """Build a probe from parts.

        Raises:
            NotSelect: it is no SELECT.
        """
        text = b""
        pieces: list[tuple[int, int, int]] = []
        for part in parts:
            if isinstance(part, str):
                text += part.encode()
            else:
                piece = self._text[part.start : part.stop]
                pieces.append((len(text), part.start, len(piece)))
                text += piece
        return StatementProbe(self._text, self._parse(text.decode()), tuple(pieces), lazy, literal, target)


def _depth_change(token: Token) -> int:
    sign = token.text.encode()[0]
    return (sign in OPENING) - (sign in CLOSING)


def _outside_brackets(every: Sequence[Token]) -> list[Token]:
    outside: list[Token] = []
    depth = 0
    for token in every:
        change = _depth_change(token) if token.kind == "sign" else 0
        if depth == 0 and change >= 0:
            outside.append(token)
        depth += change
    return outside
