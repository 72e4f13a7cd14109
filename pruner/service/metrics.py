"""The metrics of the service, for Prometheus."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from pruner.service.journal import PlanOutcome

CONTENT_TYPE = CONTENT_TYPE_LATEST

SHARED_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which several workers combine their counters."""

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the histogram buckets for the duration of plans."""


class Metrics:
    """Metrics of one service. Threads may share it. Labels never hold names that a client sent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "pruner_requests", "Requests by route and status.", ("route", "status"), registry=registry
        )
        self.in_flight = Gauge(
            "pruner_requests_in_flight",
            "Requests being served.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._considered = Counter(
            "pruner_slices_considered",
            "Slices of the snapshots that were planned on.",
            ("table",),
            registry=registry,
        )
        self._dropped = Counter(
            "pruner_slices_dropped", "Slices that plans left out.", ("table",), registry=registry
        )
        self._fallbacks = Counter(
            "pruner_fallbacks",
            "Reasons why something could not be used to prune.",
            ("table",),
            registry=registry,
        )
        self._seconds = Histogram(
            "pruner_plan_seconds", "Seconds from request to answer.", buckets=SECONDS, registry=registry
        )

    def served(self, route: str, status: int) -> None:
        """Count a request; `route` is the route's pattern, never the path that a client sent."""
        self._requests.labels(route, str(status)).inc()

    def planned(self, outcome: PlanOutcome, seconds: float) -> None:
        """Count an answer about one of the configured tables."""
        self._considered.labels(outcome.table).inc(outcome.total)
        self._dropped.labels(outcome.table).inc(outcome.total - outcome.kept)
        self._fallbacks.labels(outcome.table).inc(len(outcome.fallbacks))
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, those of all workers."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)
