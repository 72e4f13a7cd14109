"""PyIceberg, whose scans skip files by the manifests' metrics."""

from __future__ import annotations

import importlib
from typing import Any

from conditions import Condition, UnsupportedError, constant

_OPERATORS = {
    "=": "EqualTo",
    "<>": "NotEqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
}


def _row_filter(condition: Condition) -> Any:
    made: Any = importlib.import_module("pyiceberg.expressions")
    match condition:
        case ["and", first, second]:
            return made.And(_row_filter(first), _row_filter(second))
        case ["or", first, second]:
            return made.Or(_row_filter(first), _row_filter(second))
        case ["not", operand]:
            return made.Not(_row_filter(operand))
        case ["is null", column]:
            return made.IsNull(column)
        case ["in", column, values]:
            return made.In(column, [constant(each) for each in values])
        case ["starts with", column, text]:
            return made.StartsWith(column, text)
        case [operator, column, value]:
            return getattr(made, _OPERATORS[operator])(column, constant(value))
        case _:
            raise ValueError(f"not a condition: {condition!r}")


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format != "iceberg":
        raise UnsupportedError(f"it does not read {table_format}")
    table: Any = importlib.import_module("pyiceberg.table").StaticTable.from_metadata(root)
    return table.scan(_row_filter(condition), selected_fields=("id",)).to_arrow()["id"].to_pylist()
