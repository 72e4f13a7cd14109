"""What is wrong with a statement that cannot use a table of pruner, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, zip_longest
from typing import Final

from pruner.errors import PrunerError
from pruner_duckdb.sql.tokens import Token

_CHANGES: Final = frozenset({"insert", "update", "delete", "merge", "truncate", "alter", "comment"})
_BEFORE_TARGET: Final = frozenset({"into", "from", "or", "replace", "ignore", "table", "if", "exists", "on"})
_UPKEEP: Final = frozenset({"vacuum", "analyze"})
_BY_TEXT: Final = re.compile(r"\bquery(?:_table)?\s*\(", re.IGNORECASE)


def read_only(name: str) -> PrunerError:
    """The refusal of a statement that would change a table."""
    return PrunerError(f"table {name} is read-only here: change its files with the engine that writes them")


def refusal(name: str, text: str, found: Sequence[Token]) -> PrunerError:
    """The refusal of a statement that DuckDB left to its catalog, where no table of pruner stands.

    Args:
        name: the table.
        text: the statement.
        found: its tokens.
    """
    words = [token.text.lower() for token in found[:4] if token.text.lower() != "explain"]
    verb = words[0] if words else ""
    match verb:
        case _ if (verb in _CHANGES or verb == "copy") and name.rpartition(".")[2] in _target(found):
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


def _target(found: Sequence[Token]) -> list[str]:
    """The parts of the first name behind the verb: the table that a statement changes."""
    rest = list(dropwhile(lambda token: token.text.lower() in _BEFORE_TARGET, found[1:]))
    parts: list[str] = []
    for name, sign in zip_longest(rest[::2], rest[1::2]):
        if name.identifier is None:
            break
        parts.append(name.identifier)
        if sign is None or sign.text != ".":
            break
    return parts
