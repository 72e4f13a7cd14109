"""The book of traps and rules: every citation has an entry in it, and every entry names tests that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TRAPS = ROOT / "docs" / "traps.md"
RULES = ROOT / "docs" / "rules.md"
SUFFIXES = {".py", ".md", ".java"}
FOLDERS = ("pruner", "adapters", "tests", "benchmarks", "demo", "tools", "examples", "docs")

HEADING = re.compile(r"^#{2,3} ([A-Z]\d{1,2})\. .+\n", re.MULTILINE)
HOLDER = re.compile(r"^- `([\w/]+\.py)`:(.*(?:\n  .+)*)", re.MULTILINE)
CITED = re.compile(r"\b(?:[SLTNID]|R ?)\d{1,2}\b")
TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
IN_THE_NAME_OF_A_TEST = re.compile(r"_([sltnidr]\d{1,2})(?=_|$)")


def entries(page: Path) -> dict[str, str]:
    """The text of each entry by its letter and number."""
    text = page.read_text(encoding="utf-8")
    starts = [*HEADING.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {start[1]: text[start.end() : end] for start, end in zip(starts, ends, strict=True)}


BOOK = entries(TRAPS) | entries(RULES)


def holders(entry: str) -> list[tuple[str, str]]:
    """The tests that an entry names: file and function."""
    return [(file, name) for file, names in HOLDER.findall(entry) for name in re.findall(r"`(\w+)`", names)]


@cache
def names_of_tests(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def prose(path: Path, text: str) -> str:
    """The prose: comments and docstrings of a Python file, the whole of any other."""
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, documented))
    return "\n".join([*comments, *(ast.get_docstring(node) or "" for node in nodes)])


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)
    yield from ROOT.glob("*.md")


def cited_in(text: str) -> set[str]:
    return {cited.replace(" ", "") for cited in CITED.findall(text)}


def unknown_in(path: Path) -> set[str]:
    """The traps and rules that the prose of a file, or the names of its tests, cite and the book does not have."""
    text = path.read_text(encoding="utf-8")
    named = {cited.upper() for name in TEST.findall(text) for cited in IN_THE_NAME_OF_A_TEST.findall(name)}
    # Code has names like T1, too. Few files do, so only these are parsed.
    found = cited_in(text) - BOOK.keys() and cited_in(prose(path, text))
    return (named | found) - BOOK.keys()


def test_whatever_is_cited_stands_in_the_book() -> None:
    unknown = {str(path.relative_to(ROOT)): missing for path in sources() if (missing := unknown_in(path))}
    assert unknown == {}


@pytest.mark.parametrize("entry", BOOK)
def test_each_entry_names_tests_that_exist(entry: str) -> None:
    named = holders(BOOK[entry])
    assert named, f"{entry} names no test"
    missing = [f"{file}::{name}" for file, name in named if name not in names_of_tests(file)]
    assert missing == []


def test_traps_say_where_they_were_seen() -> None:
    assert [trap for trap, text in entries(TRAPS).items() if "\nSeen in: " not in text] == []


def test_entries_stand_in_order_and_once() -> None:
    for page in (TRAPS, RULES):
        found = HEADING.findall(page.read_text(encoding="utf-8"))
        assert len(found) == len(set(found))
        for letter in {name[0] for name in found}:
            numbers = [int(name[1:]) for name in found if name[0] == letter]
            assert numbers == sorted(numbers)


def test_the_rules_are_numbered_without_gaps() -> None:
    assert [*entries(RULES)] == [f"R{number}" for number in range(1, 14)]
