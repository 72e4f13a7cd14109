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

ROOT: Final = Path(__file__).resolve().parent.parent
HOLE: Final = "…"
_BASES: Final = frozenset(["PrunerError", "BadParameter"])
_OWN_WORDS: Final = re.compile(r"[a-z]{2,}")


def messages() -> set[str]:
    """Every message; those that only pass on what another says are left out."""
    folders = [ROOT / "pruner", *sorted((ROOT / "adapters").glob("pruner_*"))]
    classes: list[ast.ClassDef] = []
    calls: list[ast.Call] = []
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        # One tree at a time, and of its calls those of classes: all trees at once are a million nodes.
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes.append(node)
            elif isinstance(node, ast.Call) and _name(node.func)[:1].isupper():
                calls.append(node)
    errors = _error_classes(classes)
    texts = (_text(each) for call in calls if _name(call.func) in errors for each in call.args)
    return {text for text in texts if _OWN_WORDS.search(text)}


def _error_classes(classes: Iterable[ast.ClassDef]) -> set[str]:
    """The names of the classes that come from one of `_BASES`."""
    bases = [(each.name, {_name(base) for base in each.bases}) for each in classes]
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
