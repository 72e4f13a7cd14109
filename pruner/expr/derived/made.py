"""What a record of an expression says of its values: of which columns, by whom and where they were made."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from pruner.errors import first_line


class SourceColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of the file: its type there as text, its Parquet type as text, and whether its numbers fit that."""

    type: str
    parquet: str | None
    in_range: bool


class Provenance(msgspec.Struct, frozen=True):
    """How the values of one slice were made.

    `agreed` are the engines that were compared with the evaluator on every value that went in or came up between.
    """

    evaluator: str
    registry: int
    agreed: tuple[str, ...]
    sources: tuple[SourceColumn, ...]

    @property
    def text(self) -> str:
        """A text from which `parse_made` makes it again."""
        return msgspec.json.encode(self).decode()


@lru_cache(maxsize=4096)
def parse_made(text: str) -> Provenance | str:
    """Return what `Provenance.text` wrote down; the reason where it is no such text."""
    try:
        return msgspec.json.decode(text, type=Provenance)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return first_line(error)
