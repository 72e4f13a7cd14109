"""Tables to try pruner with: generated locally, without a network or a JVM, and the same each time."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import StorageError, TableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FILES_A_MONTH = 30
ROWS = 180_000

_YEAR = np.datetime64("2024-01-01", "m")
_DAY = 24 * 60
_NIGHT = 5 * 60
_MINUTES = 366 * _DAY
"""Times are counted in minutes."""

_CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL", "AS", "F9", "YV", "HA", "OO")
_SHARES = (176, 165, 160, 145, 100, 80, 61, 55, 26, 14, 7, 4, 3, 2, 1, 1)
"""Flights of each carrier in a thousand."""

_DESTINATIONS = (
    "ATL",
    "BOS",
    "CLT",
    "DEN",
    "DFW",
    "DTW",
    "FLL",
    "IAH",
    "LAS",
    "LAX",
    "MCO",
    "MIA",
    "MSP",
    "ORD",
    "HNL",
)
_DISTANCES = (760, 190, 540, 1620, 1380, 500, 1070, 1410, 2240, 2470, 945, 1090, 1020, 730, 4970)
"""Miles to each destination; only HA flies to the last one."""

_NIGHTLY = 1000
"""One flight in this many departs before five in the morning, so that the hour of a day is worth an index."""

_STORMS = 12
"""One day in this many is stormy: flights are late or canceled only on these, so that delays are in few files."""


def example(name: str, path: str | os.PathLike[str]) -> str:
    """Write an example table: Parquet files to try indexes and queries on, the same rows each time.

    `flights` has 180,000 made-up flights of the year 2024 in 360 files, 5 MB: a folder for each `month`, with its
    flights sorted by `carrier` and `departure`.

    Args:
        name: name of the example; `flights` so far.
        path: a folder on this machine that does not exist yet or is empty.

    Returns:
        the path, for `pruner.open_table`.

    Raises:
        TableError: there is no example of that name, or something already exists at the path.
        StorageError: the folder cannot be written.
    """
    write = _EXAMPLES.get(name)
    if write is None:
        raise TableError(f"there is no example {name!r}: choose one of {', '.join(sorted(_EXAMPLES))}")
    place = os.fspath(path)
    if "://" in place:
        raise TableError(
            f"an example is written to a folder on this machine, and {place} is a URI: give a path"
        )
    folder = Path(place)
    try:
        if folder.is_symlink() or (folder.exists() and not _is_empty_folder(folder)):
            raise TableError(
                f"{place} exists already, and an example overwrites nothing: choose another path"
            )
        _appearing(folder, write)
    except OSError as error:
        raise StorageError(f"cannot write {place}: {error.strerror or error}") from error
    return place


def _is_empty_folder(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _appearing(folder: Path, write: Callable[[Path], None]) -> None:
    """Write next to the folder and rename, so that it never holds a half-written table."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        whole = scratch / "table"
        whole.mkdir()
        write(whole)
        whole.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_flights(folder: Path) -> None:
    number = np.arange(ROWS, dtype=np.int64)
    day, minute = np.divmod(number * _MINUTES // ROWS, _DAY)
    by_night = _mixed(number, 9) % _NIGHTLY == 0
    departure = day * _DAY + np.where(
        by_night, minute * _NIGHT // _DAY, _NIGHT + minute * (_DAY - _NIGHT) // _DAY
    )
    carrier = np.repeat(np.arange(len(_SHARES)), _SHARES)[_mixed(number, 1) % sum(_SHARES)]
    rows: Any = _flights(number, departure, carrier)
    month = (_YEAR + departure.astype("timedelta64[m]")).astype("datetime64[M]").astype(np.int64) % 12 + 1
    # Flight numbers break ties: the order is the same wherever this runs.
    order = np.lexsort((number, departure, np.array(_CARRIERS)[carrier], month))
    for each in range(1, 13):
        partition = folder / f"month={each}"
        partition.mkdir()
        of_month = order[month[order] == each]
        for part, chosen in enumerate(np.array_split(of_month, FILES_A_MONTH)):
            cast("Any", pq).write_table(rows.take(pa.array(chosen)), partition / f"{part:02}.parquet")


def _flights(number: NDArray[np.int64], departure: NDArray[np.int64], carrier: NDArray[np.int64]) -> pa.Table:
    """All flights in the order of their numbers; `departure` counts minutes from the start of the year."""
    moment = (_YEAR + departure.astype("timedelta64[m]")).astype("datetime64[us]")
    elsewhere = len(_DESTINATIONS) - 1
    destination = np.where(carrier == _CARRIERS.index("HA"), elsewhere, _mixed(number, 2) % elsewhere)
    distance = np.array(_DISTANCES, np.int32)[destination]
    stormy = _mixed(departure // _DAY, 3) % _STORMS == 0
    chance = _mixed(number, 4) % 100
    delay = np.where(stormy & (chance < 30), 30 + _mixed(number, 5) % 240, _mixed(number, 5) % 25 - 8)
    cancelled = stormy & (chance >= 92)
    air_time = distance // 8 + 20 + _mixed(number, 8) % 15
    columns: dict[str, Any] = {
        "flight": pa.array(number + 1),
        "departure": pa.array(moment, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")),
        "carrier": _chosen(_CARRIERS, carrier),
        "tail": pa.array([f"N{day}" for day in (10_000 + _mixed(number, 6) % 4000).tolist()], pa.string()),
        "origin": _chosen(("EWR", "JFK", "LGA"), _mixed(number, 7) % 3),
        "destination": _chosen(_DESTINATIONS, destination),
        "distance": pa.array(distance),
        "delay": pa.array(delay.astype(np.int32), mask=cancelled),
        "air_time": pa.array(air_time.astype(np.int32), mask=cancelled),
    }
    return pa.table(columns)


def _chosen(names: tuple[str, ...], which: NDArray[np.int64]) -> pa.Array[Any]:
    return cast("Any", pa.array(np.array(names)[which], pa.string()))


def _mixed(values: NDArray[np.int64], salt: int) -> NDArray[np.int64]:
    """Numbers that look random and are the same with every version of NumPy: the finalizer of SplitMix64."""
    mixed = (values.astype(np.uint64) << np.uint64(8)) + np.uint64(salt)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


_EXAMPLES: dict[str, Callable[[Path], None]] = {"flights": _write_flights}
