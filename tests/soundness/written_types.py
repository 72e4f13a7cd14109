"""The ways of `parquet_type_kinds`, and those of files that DuckDB and Polars write themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa

from tests.soundness.parquet_type_kinds import FAMILIES, Family, Way
from tests.support.parquet_types import plain


def _by_duckdb(path: Path, values: pa.Array[Any], _: str) -> Path:
    with duckdb.connect() as connection:
        connection.from_arrow(pa.table({"x": values})).write_parquet(str(path))
    return path


def _by_polars(path: Path, values: pa.Array[Any], _: str) -> Path:
    polars.DataFrame(pa.table({"x": values})).write_parquet(path)
    return path


_WRITERS = {"of DuckDB": _by_duckdb, "of Polars": _by_polars}


def _of_writers(way: Way) -> list[Way]:
    if not way.name.endswith((" both", "UTC", "naive")) and way.name not in ("bytes", "int32"):
        return []
    return [replace(way, name=f"{way.name} {writer}", write=write) for writer, write in _WRITERS.items()]


def _narrow() -> Family:
    """Narrow integers that do not fit, beside wider ones."""
    (integers,) = (each for each in FAMILIES if each.name == "integers")
    ways = tuple(way for way in integers.ways if "misfit" in way.name or way.name in ("int32", "int16 both"))
    return replace(integers, name="narrow integers", ways=ways)


_FRACTIONS = Family(
    "fractions",
    tuple(
        Way(
            f"{type_}",
            lambda numbers, to=type_: pa.array(
                [float("nan") if n % 11 == 0 else n / 10 for n in numbers], to
            ),
            lambda path, values, _: plain(path, values),
        )
        for type_ in (pa.float32(), pa.float64())
    ),
    lambda rng, number: number * 5 + rng.randrange(7),
    (),
)

WRITTEN_FAMILIES = (
    *(
        replace(each, ways=(*each.ways, *(w for way in each.ways for w in _of_writers(way))))
        for each in FAMILIES
    ),
    _narrow(),
    _FRACTIONS,
)
"""All families; literals are each engine's own."""
