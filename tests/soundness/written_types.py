"""The ways of `parquet_type_kinds`, files of DuckDB, Polars and fastparquet, and names of writers."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa

from tests.soundness.parquet_type_kinds import FAMILIES, Family, Way, Writer
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet import fastparquet_files
from tests.support.parquet.footers import written_by
from tests.support.parquet.types import plain


def _by_duckdb(path: Path, values: pa.Array[Any], _: str) -> Path:
    with plain_duckdb.session() as connection:
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


_BY_FASTPARQUET: dict[str, dict[str, Callable[[int], int]]] = {
    "moments": dict.fromkeys(("int96", "micros", "instants"), lambda n: _FIRST_SECOND + 3600 * n),
    "texts": dict.fromkeys(("texts", "bytes", "json"), lambda n: n),
    "integers": {"small": lambda n: n * 10, "unsigned": lambda n: n * 20},
}
"""Tables of fastparquet's files by family, and the number of the family in each row, or near it."""

_FIRST_SECOND = int(fastparquet_files.FIRST.replace(tzinfo=datetime.UTC).timestamp())


def _of_fastparquet(family: str) -> list[Way]:
    rows = range(fastparquet_files.FILES * fastparquet_files.ROWS)
    return [
        Way(f"{table} of fastparquet", _numbers, _copied(table), tuple(map(number, rows)))
        for table, number in _BY_FASTPARQUET.get(family, {}).items()
    ]


def _numbers(numbers: list[int]) -> pa.Array[Any]:
    return pa.array(numbers)


def _copied(table: str) -> Writer:
    def write(path: Path, values: pa.Array[Any], _: str) -> Path:
        file = f"{values[0].as_py() % fastparquet_files.FILES}.parquet"
        return Path(shutil.copyfile(fastparquet_files.FOLDER / table / file, path))

    return write


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
        replace(
            each,
            ways=(
                *each.ways,
                *(w for way in each.ways for w in _of_writers(way)),
                *_of_fastparquet(each.name),
            ),
        )
        for each in FAMILIES
    ),
    _narrow(),
    _FRACTIONS,
)
"""All families; literals are each engine's own."""

WRITERS = (
    "parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)",
    "parquet-mr version 1.8.1",
    "fastparquet-python version 2026.9.0 (build 0)",
    "impala version 3.4.0",
)
"""Names of writers that a file may claim: Spark moves INT96 of some, and footers of some are not trusted."""


def another_writer(rng: random.Random, path: Path) -> None:
    """Let some files claim that another writer made them."""
    if rng.random() < 0.3:
        written_by(path, rng.choice(WRITERS))
