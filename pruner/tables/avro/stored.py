"""Avro values as they are stored: the decoder, and schemas without the logical types that would convert values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import fastavro

decode: Final[Callable[..., Any]] = getattr(fastavro, "schemaless_reader")  # noqa: B009 - its type is left open
"""Decodes one record: a stream, the writer's schema, no reader's schema."""


def without_logical_types(schema: Any) -> Any:
    """Return a schema without logical types, by which the stored numbers are decoded."""
    if isinstance(schema, list):
        return [without_logical_types(option) for option in cast("list[Any]", schema)]
    if isinstance(schema, dict):
        entries = cast("dict[str, Any]", schema)
        return {
            key: value if key == "default" else without_logical_types(value)
            for key, value in entries.items()
            if key != "logicalType"
        }
    return schema
