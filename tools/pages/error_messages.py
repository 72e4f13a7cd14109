"""The messages of all errors that pruner raises on purpose, as they stand in the code, with … for what varies.

`pruner/cli/errors.toml` has a cause and a remedy for each; tests/unit/cli/test_errors.py compares the two.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
HOLE: Final = "…"
_BASES: Final = frozenset(["PrunerError", "RefusedRequestError", "BadParameter"])
_OWN_WORDS: Final = re.compile(r"[a-z]{2,}")
_CLASS: Final = re.compile(r"^ *class (\w+)\(([^)]*)\)", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")


def messages() -> set[str]:
    """Every message; those that only pass on what another says are left out."""
    folders = [ROOT / "pruner", *sorted((ROOT / "adapters").glob("pruner_*"))]
    code = [path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")]
    errors = _error_classes(code)
    # Most files make no error, and to parse a file takes far longer than to search it.
    makes_one = re.compile(rf"\b({'|'.join(errors)})\(")
    nodes = (node for text in code if makes_one.search(text) for node in ast.walk(ast.parse(text)))
    calls = (node for node in nodes if isinstance(node, ast.Call) and _name(node.func) in errors)
    texts = (_text(argument) for call in calls for argument in call.args)
    return {text for text in texts if _OWN_WORDS.search(text)}


def _error_classes(code: Iterable[str]) -> set[str]:
    """The names of the classes that come from one of `_BASES`."""
    bases = [(name, set(_NAME.findall(above))) for text in code for name, above in _CLASS.findall(text)]
    found: set[str] = set(_BASES)
    while more := {name for name, above in bases if above & found} - found:
        found |= more
    return found


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _text(node: ast.expr) -> str:
    return re.sub(f"{HOLE}+", HOLE, "".join(_parts(node)))


def _parts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(str(text)):
            yield text
        case ast.JoinedStr(values):
            for value in values:
                yield from _parts(value)
        case ast.BinOp(left, ast.Add(), right):
            yield from _parts(left)
            yield from _parts(right)
        case _:
            yield HOLE
