"""Errors of statements: why one cannot use a table of pruner and what to do instead, and DuckDB's errors restated for
the text as written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile, zip_longest
from typing import Final

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.sql.tokens import Token

_PLACE = re.compile(r"\n\nLINE \d+: (?P<line>[^\n]*)\n(?P<gap> *)(?P<mark>\^+)\s*$")
_CUT = "..."
_NUMBERED = re.compile(r"\$\d+(?!\w)")
"""The marker that replaces a question mark in the statement as it ran."""
_WIDEST = 59
"""Characters of a line that DuckDB shows before and after a position; it moves both ends a little, to word ends."""
_MOVED = 4
_IN_WORD = re.compile("[0-9A-Za-z_]")
_LONGEST = 1 << 16
"""Length of the longest statement in which a position is searched for."""
_MISSING_TABLE = re.compile(
    r"(?P<said>Table with name \"?(?P<name>[^\"\n]+?)\"? does not exist(?:!| because [^\n]*))"
    r"(?:\nDid you mean [^\n]*)?"
)


def restated(
    error: duckdb.Error, written: str, tables: Iterable[str], *, with_place: bool = True
) -> duckdb.Error:
    """Return an error of DuckDB restated for the statement as written.

    Args:
        error: DuckDB's error about the statement in which some tables were replaced by other text.
        written: the statement.
        tables: names of tables that DuckDB does not know, as suggestions for a misspelled name.
        with_place: whether DuckDB shows the position of an error in such a statement.
    """
    message = _with_suggestion(str(error), tables)
    match = _PLACE.search(message)
    if match is not None:
        message = message[: match.start()] + (_place(match, written) if with_place else "")
    return error if message == str(error) else type(error)(message)


def _with_suggestion(message: str, tables: Iterable[str]) -> str:
    match = _MISSING_TABLE.search(message)
    if match is None:
        return message
    names = {name.lower(): name for name in tables}
    missing = match["name"].lower()
    last = [name for name in names if name.rpartition(".")[2] == missing.rpartition(".")[2]]
    close = last or difflib.get_close_matches(missing, names, n=1)
    if not close or close[0] == missing:
        return message
    suggestion = f'{match["said"]}\nDid you mean "{names[close[0]]}"?'
    return message[: match.start()] + suggestion + message[match.end() :]


def _place(match: re.Match[str], written: str) -> str:
    """The position of the error in the statement as written; empty if it is in a replacement."""
    line = match["line"]
    caret = len(match["gap"]) - len(match[0].lstrip("\n").split(":", 1)[0]) - 2
    sides, width = (line[:caret].removeprefix(_CUT), line[caret:].removesuffix(_CUT)), len(match["mark"])
    lines = written.splitlines() if len(written) <= _LONGEST else []
    best = _most_alike(lines, *sides, width)
    if "?" in written and _NUMBERED.search(line):
        left, right = (_NUMBERED.sub("?", side) for side in sides)
        marked = len(_NUMBERED.sub("?", sides[1][:width]))
        best = max(best, _most_alike(lines, left, right, marked))
    alike, number, place, width = best
    return _shown(lines, -number, -place, "^" * width) if alike else ""


def _most_alike(lines: Sequence[str], left: str, right: str, width: int) -> tuple[int, int, int, int]:
    """Where the two sides meet: number of matching characters, negated line number and position in it, and width."""
    best = (0, 0, 0, width)
    for number, text in enumerate(lines):
        for place in range(len(text)):
            after = _alike(right, text[place:])
            if after >= width:
                alike = after + _alike(left[::-1], text[:place][::-1])
                best = max(best, (alike, -number, -place, width))
    return best


def _alike(one: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _shown(lines: list[str], number: int, place: int, mark: str) -> str:
    """A position in a text as DuckDB shows it."""
    line, head = lines[number], f"LINE {number + 1}: "
    first = _end_of_word(line, place - _WIDEST) if place > _WIDEST else 0
    last = _end_of_word(line, place + _WIDEST) if place + _WIDEST < len(line) else len(line)
    before, after = _CUT * (first > 0), _CUT * (last < len(line))
    shown = f"{before}{line[first:last]}{after}"
    return f"\n\n{head}{shown}\n{' ' * (len(head) + len(before) + place - first)}{mark}"


def _end_of_word(line: str, wanted: int) -> int:
    """The first position near the wanted one that is not within a word; the wanted one if there is none."""
    near = range(max(wanted - _MOVED, 0), min(wanted + _MOVED, len(line)))
    return next((place for place in near if not _IN_WORD.match(line, place)), wanted)


_CHANGES: Final = frozenset({"insert", "update", "delete", "merge", "truncate", "alter", "comment"})
_BEFORE_TARGET: Final = frozenset({"into", "from", "or", "replace", "ignore", "table", "if", "exists", "on"})
_UPKEEP: Final = frozenset({"vacuum", "analyze"})
_BY_TEXT: Final = re.compile(r"\bquery(?:_table)?\s*\(", re.IGNORECASE)


def read_only(name: str) -> PrunerError:
    """The error for a statement that would change a table."""
    return PrunerError(f"table {name} is read-only here: change its files with the engine that writes them")


def refusal(name: str, text: str, all_tokens: Sequence[Token]) -> PrunerError:
    """The error for a statement that DuckDB resolved in its own catalog, which has no table of pruner.

    Args:
        name: the table.
        text: the statement.
        all_tokens: its tokens.
    """
    words = [token.text.lower() for token in all_tokens[:4] if token.text.lower() != "explain"]
    verb = words[0] if words else ""
    match verb:
        case _ if (verb in _CHANGES or verb == "copy") and name.rpartition(".")[2] in _target(all_tokens):
            return read_only(name)
        case "drop":
            return PrunerError(
                f"table {name} is not a DuckDB table: leave it out when the connection is made"
            )
        case _ if verb in _UPKEEP:
            return PrunerError(f"table {name} is not a DuckDB table: {verb.upper()} does not apply to it")
        case "create" if "index" in words:
            return PrunerError(
                f"table {name} has indexes of pruner: run CREATE INDEX with pruner.sql or `pruner sql`"
            )
        case "create" if {"macro", "function"} & set(words):
            return PrunerError(
                f"table {name} cannot be read by a macro that returns a value: write a macro AS TABLE, or a view"
            )
        case "create" if "references" in text.lower():
            return PrunerError(f"table {name} is not a DuckDB table: no foreign key can refer to it")
        case "pragma" | "call":
            return PrunerError(f"table {name} cannot be named in {verb.upper()}: write DESCRIBE {name}")
        case _ if _BY_TEXT.search(text):
            return PrunerError(f"table {name} cannot be named by a string: write FROM {name}")
        case _:
            return PrunerError(
                f"table {name} cannot be read in this kind of statement: use a query, a view, a prepared "
                "statement, or CREATE TABLE … AS"
            )


def _target(words: Sequence[Token]) -> list[str]:
    """The parts of the first name after the verb: the table that a statement changes."""
    rest = list(dropwhile(lambda token: token.text.lower() in _BEFORE_TARGET, words[1:]))
    parts: list[str] = []
    for name, sign in zip_longest(rest[::2], rest[1::2]):
        if name.identifier is None:
            break
        parts.append(name.identifier)
        if sign is None or sign.text != ".":
            break
    return parts
