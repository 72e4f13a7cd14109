"""The tables by name, and what many of them are made of."""

from __future__ import annotations

from typing import Any

from tests.support.delta.writer import Builder

BUILDERS: dict[str, Builder] = {}
"""All tables by name."""


def table(build: Builder) -> Builder:
    """Add a table under the name of its builder."""
    BUILDERS[build.__name__] = build
    return build


PLAIN = "id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP"
PLAIN_ROW = (
    "id",
    "concat('n', id % 7)",
    "CAST(id * 1.25 AS DECIMAL(10, 2))",
    "TIMESTAMP '2024-03-01 00:00:00' + make_dt_interval(0, id, 0, 0.123456)",
)
VECTORS: dict[str, Any] = {"enableDeletionVectors": True}
