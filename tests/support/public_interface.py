"""The public interface as a readable table: one line for each name, with the parameters that callers may use.

python -m tests.support.public_interface > tests/spec/public_interface.txt
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

USED = ("pruner", "pruner_duckdb", "pruner_spark", "pruner_trino")
"""What programs import."""

EXTENDED = ("pruner.adapters", "pruner.indexes.base", "pruner.indexes.optional")
"""What adapters and index types of other distributions import besides."""

HEAD = """\
# The public interface, name by name. tests/unit/test_public_interface.py compares it with the code: a line that changes
# or goes is a change for users, and is to be meant. Written by `python -m tests.support.public_interface`.
"""


def table() -> str:
    """The text of tests/spec/public_interface.txt."""
    parts = [HEAD]
    for package in (*USED, *EXTENDED):
        parts.append("\n".join((package, *(f"    {line}" for line in _lines(import_module(package))))) + "\n")
    return "\n".join(parts)


def _lines(module: ModuleType) -> Iterator[str]:
    own = [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    for name in sorted(getattr(module, "__all__", own)):
        if name.startswith("_") and name != "__version__":
            continue
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from _class(name, value)
        else:
            yield f"{name}{_parameters(value)}" if callable(value) else name


def _class(name: str, value: type[Any]) -> Iterator[str]:
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    fields = _fields(value)
    for each, default in fields.items():
        yield f"    .{each}{default}"
    for each, member in sorted(_members(value).items()):
        if not each.startswith("_") and each not in fields:
            is_attribute = member is None or isinstance(member, property | cached_property)
            yield f"    .{each}" if is_attribute else f"    .{each}{_parameters(member)}"


def _fields(value: type[Any]) -> dict[str, str]:
    """The fields of a record or an enumeration in their order, with defaults or values."""
    if dataclasses.is_dataclass(value):
        missing = dataclasses.MISSING
        return {
            each.name: "" if each.default is missing else f" = {each.default!r}"
            for each in dataclasses.fields(value)
        }
    if issubclass(value, Enum):
        return {each.name: f" = {each.value!r}" for each in value}
    return dict.fromkeys(getattr(value, "_fields", ()), "")


def _members(value: type[Any]) -> dict[str, Any]:
    """Methods, and attributes with None; those that a class inherits within the project included, but for protocols."""
    found: dict[str, Any] = {}
    owners = [value] if getattr(value, "_is_protocol", False) else reversed(value.__mro__)
    for owner in owners:
        if owner.__module__.partition(".")[0] not in USED:
            continue
        found |= dict.fromkeys((*_assigned(owner), *getattr(owner, "__annotations__", {})))
        for name, member in vars(owner).items():
            is_known = inspect.isroutine(member) or isinstance(member, property | cached_property)
            found[name] = member if is_known else None
    return found


def _assigned(owner: type[Any]) -> Iterator[str]:
    """The attributes that `__init__` sets."""
    if "__init__" not in vars(owner) or dataclasses.is_dataclass(owner):
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(owner.__init__)))):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                yield attribute
            case _:
                pass


def _parameters(value: Any) -> str:
    """Names, kinds and defaults of parameters, without their types."""
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    return str(inspect.Signature(shown))


if __name__ == "__main__":
    sys.stdout.write(table())
