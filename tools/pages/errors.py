"""Writes docs/errors.md: every message of an error with cause and remedy, from pruner/cli/errors.toml.

    python -m tools.pages.errors       # or `make api`

A page that is not up to date fails tests/unit/cli/test_errors.py.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from pruner.cli.commands.errors import Explained, explained
from tools.pages.error_messages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = ROOT / "docs" / "errors.md"

HEAD = """\
# Errors

This page lists every error message that pruner raises on purpose, with its cause and what to do. `…` stands for what
varies: names, places, numbers, and what a library said. A test compares the list with the code. `pruner errors` prints
the list, and `pruner errors "the message as it was shown"` explains only that one. [api.md](api.md#errors) has the
classes by which Python catches them. It is not an error that a plan keeps a file: see
[troubleshooting](troubleshooting.md).
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for area, group in groupby(explained(), key=lambda each: each.area):
        yield f"## {area}\n"
        yield "| message | cause | remedy |\n|---|---|---|"
        yield from map(_row, group)
        yield ""


def _row(each: Explained) -> str:
    messages = "<br>".join(f"`` {_cell(message)} ``" for message in each.messages)
    return f"| {messages} | {_cell(each.cause)} | {_cell(each.remedy)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
