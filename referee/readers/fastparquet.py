"""fastparquet, which skips row groups by statistics and filters rows by `row_filter`."""

from __future__ import annotations

import importlib
from typing import Any

from conditions import Condition, UnsupportedError, constant

_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format != "parquet":
        raise UnsupportedError(f"it does not read {table_format}")
    fastparquet: Any = importlib.import_module("fastparquet")
    match condition:
        case ["in", column, values]:
            filters = [(column, "in", [constant(each) for each in values])]
        case [operator, str(column), value] if operator in _OPERATORS:
            filters = [(column, _OPERATORS[operator], constant(value))]
        case _:
            raise UnsupportedError("its filters have no such condition")
    file = fastparquet.ParquetFile(root)
    return [int(each) for each in file.to_pandas(columns=["id"], filters=filters, row_filter=True)["id"]]
