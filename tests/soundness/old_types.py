"""Dates and timestamps from before calendar changes, in files that name their calendar, or do not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.soundness.parquet_type_kinds import Family, Way


def _old_moments(seconds: list[int]) -> pa.Array[Any]:
    return pa.array([each * 10**6 for each in seconds], pa.timestamp("us", "UTC"))


def _long_ago(rng: random.Random, number: int) -> int:
    """A second around the end of the Julian calendar, around 1900, or in 2024."""
    day = rng.choice([-141_430, -200_000, -25_570, 19_700]) + number
    return day * 86_400 + rng.randrange(24) * 3600


def _marked(path: Path, values: pa.Array[Any], *, int96: bool, mark: bytes | None) -> Path:
    marks = {} if mark is None else {b"org.apache.spark.version": b"3.5.9", mark: b""}
    content = pa.table({"x": values}).replace_schema_metadata(marks)
    pq.write_table(content, path, use_deprecated_int96_timestamps=int96)
    return path


def _marking(name: str, values: Callable[[list[int]], pa.Array[Any]], *, int96: bool) -> tuple[Way, ...]:
    mark = b"org.apache.spark.legacyINT96" if int96 else b"org.apache.spark.legacyDateTime"
    return tuple(
        Way(
            f"{name} {told}",
            values,
            lambda path, column, _, each=each: _marked(path, column, int96=int96, mark=each),
        )
        for told, each in (("of no writer", None), ("legacy", mark), ("of Spark 3", b"x"))
    )


def _dates(numbers: list[int]) -> pa.Array[Any]:
    return pa.array(numbers, pa.int32()).view(pa.date32())


OLD_FAMILIES = (
    Family(
        "old moments",
        (*_marking("old us", _old_moments, int96=False), *_marking("old int96", _old_moments, int96=True)),
        _long_ago,
        (),
    ),
    Family(
        "old days",
        _marking("old date", _dates, int96=False),
        lambda rng, number: rng.choice([-141_430, -200_000, 19_700]) + number * 2,
        (),
    ),
)
