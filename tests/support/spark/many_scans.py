"""Many conditions over one table by few statements of Spark: each is a scan of its own, planned by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = 20
"""Conditions of one statement."""


def in_parts(conditions: Sequence[str]) -> Iterator[Sequence[str]]:
    """So many conditions as fit into a statement, until all are through."""
    for start in range(0, len(conditions), TOGETHER):
        yield conditions[start : start + TOGETHER]


@contextmanager
def interpreted(session: SparkSession) -> Iterator[None]:
    """Let Spark interpret statements that it would compile: most of the time of a small one goes into that."""
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        yield
    finally:
        session.conf.unset("spark.sql.codegen.wholeStage")
        session.conf.unset("spark.sql.codegen.factoryMode")


def rows_of_a_full_scan(session: SparkSession, table: str, conditions: Sequence[str]) -> list[list[str]]:
    """The rows for which each condition is true: one scan of everything says for each row which ones are."""
    asked = ", ".join(f"({each}) AS asked_{at}" for at, each in enumerate(conditions))
    rows: list[Any] = session.sql(f"SELECT *, {asked} FROM {table}").collect()
    width = len(conditions)
    return [
        sorted(repr(tuple(row)[:-width]) for row in rows if row[f"asked_{at}"])
        for at in range(len(conditions))
    ]


def rows_of_scans(session: SparkSession, table: str, conditions: Sequence[str]) -> list[list[str]]:
    """The rows that a scan for each condition finds."""
    scans = (f"SELECT *, {at} AS asked FROM {table} WHERE {each}" for at, each in enumerate(conditions))
    rows: list[Any] = session.sql(" UNION ALL ".join(scans)).collect()
    found: list[list[str]] = [[] for _ in conditions]
    for row in rows:
        found[row["asked"]].append(repr(tuple(row)[:-1]))
    return [sorted(each) for each in found]
