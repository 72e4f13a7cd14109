"""Reads `tests/spec/statements.txt`: statements over the tables of `statement_tables`, with expectations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.support.cases import spec

FILE = "statements.txt"

_SCAN = re.compile(r"(\w+) (\d+)/(\d+)")
_FOR_ENGINE = re.compile(r"(\w+):(.*)")


@dataclass(frozen=True, order=True)
class ExpectedScan:
    """Files of one scan of a table: kept, of all."""

    table: str
    kept: int
    total: int


@dataclass
class Case:
    """One statement, or several whose last one gives the rows; `portable` ones are understood by every engine."""

    category: str
    portable: bool
    line: int
    statements: list[str] = field(default_factory=list[str])
    parameters: Any = None
    ordered: bool = False
    expected: dict[str, tuple[ExpectedScan, ...]] = field(default_factory=dict[str, tuple[ExpectedScan, ...]])

    @property
    def sql(self) -> str:
        """The last statement."""
        return self.statements[-1]

    @property
    def name(self) -> str:
        """What a test of this case is called."""
        return f"{FILE}:{self.line}, {self.category}"

    def scans(self, engine: str) -> tuple[ExpectedScan, ...]:
        """What an engine reads, in the order of the text."""
        return self.expected.get(engine, self.expected["every"])

    @property
    def prunes(self) -> bool:
        """Whether some scan leaves files out."""
        return any(scan.kept < scan.total for scan in self.scans("every"))


@cache
def all_cases() -> Sequence[Case]:
    """Return every case, in the order of the file."""
    return [_read(block) for block in spec.cases(FILE)]


def _read(block: spec.Case) -> Case:
    case = Case(block.category, block.part == "portable", block.line)
    sql = ""
    for line in block.lines:
        sql = _read_line(case, line, sql)
    return case


def _read_line(case: Case, line: str, sql: str) -> str:
    """Add one line to a case; return the part of a statement that is not finished yet."""
    if line.startswith("=> ordered"):
        case.ordered = True
    elif line.startswith("=>"):
        text = line.removeprefix("=>").strip()
        named = _FOR_ENGINE.fullmatch(text)
        engine, text = named.groups() if named else ("every", text)
        found = _SCAN.findall(text)
        case.expected[engine] = tuple(
            ExpectedScan(name, int(kept), int(total)) for name, kept, total in found
        )
    elif line.startswith("with: "):
        case.parameters = json.loads(line[6:])
    else:
        text = f"{sql}\n{line}" if sql else line
        if sql:
            case.statements.pop()
        case.statements.append(text.removesuffix(";"))
        return "" if line.endswith(";") else text
    return ""


def portable_cases() -> list[Case]:
    """Return the cases that every engine understands."""
    return [case for case in all_cases() if case.portable]
