"""A short notation for what the Trino plugin sends (docs/trino-predicates.md), as tests write it.

Parts stand between `&&`. A domain: `n in [1, 5) (7, *) or null`, `n of 1, 2`, `n not of 1, 2`, `n all or null`,
`n none`, `n opaque`, `no row`. Anything else is the expression: `$and($equal(n, integer:5), $is_null(x))`, constants as
`type:JSON`, result types other than boolean as `$cast(n)->double`, fields as `field(address, city)->varchar`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$equal": operator.eq,
    "$not_equal": operator.ne,
    "$less_than": operator.lt,
    "$less_than_or_equal": operator.le,
    "$greater_than": operator.gt,
    "$greater_than_or_equal": operator.ge,
}
"""What Trino's functions of comparison come to for values that Python orders alike."""

_TYPE = re.compile(r"[a-z]+(?:\(\d+(?:,\d+)?\))?(?: with time zone)?")
_NAME = re.compile(r"[$\w]+")
_DOMAIN = re.compile(r"(\S+) (in|of|not of|all|none|opaque)\b(.*?)( or null)?")
_JSON = json.JSONDecoder()


def content(parts: str, columns: Mapping[str, str]) -> bytes:
    """Return the content of a request.

    `columns` maps names to Trino's types; a name that starts with `$` is hidden, one with a type that ends in
    `!partition` comes from the path, and points in a name lead into structs.
    """
    domains: list[dict[str, Any]] = []
    expression: Any = {"node": "constant", "type": "boolean", "value": True}
    for part in parts.split(" && "):
        domain = _domain(part)
        if domain is None:
            expression = _Expression(part, columns).whole()
        else:
            domains.append(domain)
    return encoded(domains, columns, expression)


def encoded(domains: Sequence[Any], columns: Mapping[str, str], expression: Any = None) -> bytes:
    """Return a request's content with these domains and this expression."""
    described = {
        name: {
            "path": name.split("."),
            "type": type_.removesuffix("!partition"),
            "kind": "hidden"
            if name.startswith("$")
            else "partition"
            if type_.endswith("!partition")
            else "regular",
        }
        for name, type_ in columns.items()
    }
    whole = {
        "version": 1,
        "connector": "hive",
        "columns": described,
        "domains": domains,
        "expression": expression,
    }
    return json.dumps(whole).encode()


def domain(column: str, values: Any, *, null_allowed: bool) -> dict[str, Any]:
    """One domain, of one column."""
    return {"none": False, "columns": [{"column": column, "null_allowed": null_allowed, "values": values}]}


def _domain(part: str) -> dict[str, Any] | None:
    if part == "no row":
        return {"none": True, "columns": []}
    match = _DOMAIN.fullmatch(part)
    if match is None:
        return None
    name, kind, rest, null = match.groups()
    values: dict[str, Any] = {"kind": kind}
    match kind:
        case "in":
            values = {"kind": "ranges", "ranges": _ranges(rest)}
        case "of" | "not of":
            values = {"kind": "discrete", "inclusive": kind == "of", "values": _values(rest)}
        case "opaque":
            values["text"] = "a domain that is too long"
    return domain(name, values, null_allowed=null is not None)


def _ranges(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    position = 0
    while (opening := re.compile(r"\s*([\[(])\s*").match(text, position)) is not None:
        low, position = _end(text, opening.end(), inclusive=opening[1] == "[")
        comma = re.compile(r"\s*,\s*").match(text, position)
        assert comma is not None, text
        high, position = _end(text, comma.end(), inclusive=False)
        if high is not None:
            high["inclusive"] = text[position] == "]"
        position += 1
        found.append({"low": low, "high": high})
    assert not text[position:].strip(), text
    return found


def _end(text: str, position: int, *, inclusive: bool) -> tuple[dict[str, Any] | None, int]:
    if text[position] == "*":
        return None, position + 1
    value, position = _JSON.raw_decode(text, position)
    return {"value": value, "inclusive": inclusive}, position


def _values(text: str) -> list[Any]:
    return json.loads(f"[{text}]")


class _Expression:
    """Reads one expression."""

    def __init__(self, text: str, columns: Mapping[str, str]) -> None:
        self._text = text
        self._columns = columns
        self._position = 0

    def whole(self) -> Any:
        found = self._node()
        assert self._position == len(self._text), self._text[self._position :]
        return found

    def _node(self) -> Any:
        constant = _TYPE.match(self._text, self._position)
        if constant is not None and self._text[constant.end() : constant.end() + 1] == ":":
            value, self._position = _JSON.raw_decode(self._text, constant.end() + 1)
            return {"node": "constant", "type": constant[0], "value": value}
        name = self._taken(re.compile(r"[$\w.]+"))
        if not self._skipped("("):
            return {"node": "column", "column": name, "type": self._columns[name].removesuffix("!partition")}
        arguments: list[Any] = []
        while not self._skipped(")"):
            arguments.append(self._node() if name != "field" or not arguments else self._taken(_NAME))
            self._skipped(", ")
        type_ = self._taken(_TYPE) if self._skipped("->") else "boolean"
        return self._made(name, arguments, type_)

    def _made(self, name: str, arguments: list[Any], type_: str) -> Any:
        if name == "field":
            return {"node": "field", "target": arguments[0], "index": 0, "name": arguments[1], "type": type_}
        if name == "opaque":
            columns = [argument["column"] for argument in arguments]
            return {"node": "opaque", "type": type_, "text": "something", "columns": columns}
        schema, _, function = name.rpartition(".")
        call = {"node": "call", "function": function, "type": type_, "arguments": arguments}
        return {**call, "schema": schema} if schema else call

    def _taken(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, self._text[self._position :]
        self._position = match.end()
        return match[0]

    def _skipped(self, text: str) -> bool:
        found = self._text.startswith(text, self._position)
        self._position += len(text) if found else 0
        return found
