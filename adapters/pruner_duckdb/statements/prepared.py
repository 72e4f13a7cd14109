"""PREPARE, EXECUTE and DEALLOCATE of statements over tables of pruner: their text is kept, never a list of files.

Each EXECUTE becomes the statement itself with the values of its arguments in the place of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pruner.errors import PrunerError
from pruner_duckdb.sql.select import Span, splice
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens
from pruner_duckdb.types import quote

_CONCERNED = re.compile("prepare|deallocate", re.IGNORECASE)


class WrongArgumentsError(PrunerError):
    """An EXECUTE gives other parameters than its statement takes, for which DuckDB has an error of its own.

    `stand_in` is a PREPARE of the same name with the same parameters that reads nothing, `name` that name, quoted.
    """

    def __init__(self, name: str, marks: Sequence[str]) -> None:
        super().__init__(f"prepared statement {name} takes other parameters")
        self.name = quote(name)
        self.stand_in = f"PREPARE {self.name} AS SELECT {', '.join(marks) or 1}"


@dataclass
class PreparedStatements:
    """The prepared statements of one DuckDB connection that read tables of pruner."""

    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.texts)

    def keep(self, text: str, reads_tables: Callable[[str], bool]) -> bool:
        """Remember the statement of a PREPARE that reads tables of pruner, or forget that of a DEALLOCATE.

        Args:
            text: any statement.
            reads_tables: tells whether a statement does.

        Returns:
            False for a text that is left to DuckDB.
        """
        if not _CONCERNED.search(text):
            return False
        found = list(islice(tokens(text.encode()), 4))
        words = [token.text.lower() for token in found]
        if words[:1] == ["prepare"] and words[2:3] == ["as"]:
            name, statement = str(found[1].identifier), text.encode()[found[2].stop :].decode().strip()
            self.texts.pop(name, None)
            if not reads_tables(statement):
                return False
            self.texts[name] = statement
            return True
        names = [token.identifier for token in found if token.text.lower() not in ("prepare", ";")]
        if words[:1] == ["deallocate"] and len(names) == 2:
            return self.texts.pop(str(names[1]), None) is not None
        return False

    def executed(self, text: str, found: Sequence[Token], value_of: Callable[[str], str]) -> str:
        """Write out what an EXECUTE of one of the statements stands for, perhaps behind EXPLAIN; other text
        stays.

        Args:
            text: any statement.
            found: its tokens.
            value_of: turns an expression into a literal of its value, which is the same for all rows.

        Raises:
            WrongArgumentsError: the arguments do not fit the statement.
        """
        encoded = text.encode()
        found = [token for token in found if token.text != ";"]
        start = next((n for n, token in enumerate(found[:4]) if token.text.lower() == "execute"), None)
        if start is None or [t.text.lower() for t in found[:start]] not in (
            [],
            ["explain"],
            ["explain", "analyze"],
        ):
            return text
        name = found[start + 1].identifier if start + 1 < len(found) else None
        if name not in self.texts:
            return text
        values = _arguments(encoded, found[start + 2 :], value_of)
        before = encoded[: found[start].start].decode()
        return before + _with_arguments(str(name), self.texts[str(name)], values)


def _arguments(text: bytes, found: Sequence[Token], value_of: Callable[[str], str]) -> dict[str, str]:
    """The arguments of an EXECUTE by name or number, literals as they stand."""
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in found[1:-1]:
        sign = token.text.encode()[0] if token.kind == "sign" else 0
        depth += (sign in OPENING) - (sign in CLOSING)
        if depth == 0 and token.text == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    values: dict[str, str] = {}
    for number, group in enumerate((group for group in groups if group), 1):
        signs = "".join(token.text for token in group[1:3])
        named = len(group) > 2 and signs[:2] in (":=", "=>")
        first = group[3 if named else 0] if len(group) > 3 or not named else group[-1]
        key = group[0].text.lower() if named else str(number)
        value = text[first.start : group[-1].stop].decode()
        literal = all(_is_literal(token) for token in group if token.start >= first.start)
        values[key] = value if literal else value_of(value)
    return values


def _is_literal(token: Token) -> bool:
    return token.kind != "name" or token.text.lower() in ("null", "true", "false")


def _with_arguments(name: str, text: str, values: dict[str, str]) -> str:
    """Put arguments in the place of parameters.

    Raises:
        WrongArgumentsError: one of the two lacks a counterpart.
    """
    edits: list[tuple[Span, str]] = []
    wanted: set[str] = set()
    marks = [token for token in tokens(text.encode()) if token.kind == "mark"]
    for number, token in enumerate(marks, 1):
        key = token.text[1:].lower() or str(number)
        wanted.add(key)
        if key in values:
            edits.append((Span(token.start, token.stop), f"({values[key]})"))
    if wanted != set(values):
        raise WrongArgumentsError(name, [token.text for token in marks])
    return splice(text.encode(), edits)
