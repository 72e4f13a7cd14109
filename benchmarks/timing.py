"""Medians of things that are run in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


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
