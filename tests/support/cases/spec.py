"""Reads the tables of `tests/spec`, which have one of two shapes.

Cases are blocks of lines with an empty line between:

    # a comment
    == under which rules the cases that follow stand, or what they have in common
    [their category]

    the case, on one line or several
    => what it comes to

Rows are one case on a line, with two spaces or more between its cells. Comments are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "spec"


@dataclass(frozen=True)
class Case:
    """One block of lines; `part` and `category` are the headings above it."""

    file: str
    line: int
    part: str
    category: str
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it stands, for names of tests and for failures."""
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The lines that no mark stands before."""
        return "\n".join(line for line in self.lines if not line.startswith(("=> ", "-> ")))

    def behind(self, mark: str) -> str:
        """What stands behind the one line with this mark, `=>` or `->`."""
        found = [line[len(mark) + 1 :] for line in self.lines if line.startswith(f"{mark} ")]
        assert len(found) == 1, f"{self.place}: {len(found)} lines with {mark}"
        return found[0]


@dataclass(frozen=True)
class Row:
    """One line of cells."""

    file: str
    line: int
    cells: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it stands, for names of tests and for failures."""
        return f"{self.file}:{self.line}"


def cases(file: str) -> list[Case]:
    """Return the cases of a table in their order."""
    found: list[Case] = []
    part = category = ""
    open_lines: list[str] = []
    start = 0

    def close() -> None:
        if open_lines:
            found.append(Case(file, start, part, category, tuple(open_lines)))
            open_lines.clear()

    for number, line in _lines(file):
        if not line.strip():
            close()
        elif line == "==" or line.startswith("== "):
            part = line[2:].strip()
        elif re.fullmatch(r"\[[\w ,-]+\]", line):
            category = line[1:-1]
        else:
            start = start if open_lines else number
            open_lines.append(line)
    close()
    return found


def rows(file: str, columns: int) -> list[Row]:
    """Return the rows of a table, each with so many cells."""
    found = [
        Row(file, number, tuple(re.split(r"\s{2,}", line.strip())))
        for number, line in _lines(file)
        if line.strip()
    ]
    for row in found:
        assert len(row.cells) == columns, f"{row.place} has {len(row.cells)} cells, not {columns}"
    return found


def files(pattern: str) -> list[str]:
    """Return the names of the tables that a glob pattern matches."""
    return sorted(path.name for path in FOLDER.glob(pattern))


def comments(file: str) -> str:
    """Return the comments at the head of a table, without their signs."""
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    head = lines[: next(number for number, line in enumerate(lines) if line and not line.startswith("#"))]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in head)


def _lines(file: str) -> Iterator[tuple[int, str]]:
    """The lines that are no comments, numbered from 1."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            yield number, line
