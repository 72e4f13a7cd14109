"""Medians of contenders that run in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table


def medians(contenders: Mapping[str, Callable[[], Any]], runs: int, *, warmups: int = 1) -> dict[str, float]:
    """Median seconds of each contender; they take turns, so that a machine that slows down slows all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warmups + runs):
        for name, contender in contenders.items():
            started = time.perf_counter()
            contender()
            if number >= warmups:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def milliseconds(title: str, own: Mapping[str, tuple[float, float]], others: Mapping[str, float]) -> Table:
    """A table of CPU time and wall time; of wall time alone for what runs in another process."""
    grid = Table(title=f"{title}, milliseconds")
    for heading in ("what", "processor", "wall"):
        grid.add_column(heading, justify="left" if heading == "what" else "right")
    for what, (processor, wall) in own.items():
        grid.add_row(what, f"{1e3 * processor:.2f}", f"{1e3 * wall:.2f}")
    for what, wall in others.items():
        grid.add_row(what, "", f"{1e3 * wall:.2f}")
    return grid
