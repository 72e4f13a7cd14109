"""OpenTelemetry: a span for each plan and the figures of `/metrics`, sent where the environment says (docs/service.md).

Spans hold names, numbers and the form of predicates, never their constants.
"""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pruner.service.journal import Entry, Outcome

# What the service counts, for Prometheus.

CONTENT_TYPE = CONTENT_TYPE_LATEST

SHARED_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of the environment that names the folder in which several workers count together."""

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the buckets in which plans are counted by the time that they took."""


class Metrics:
    """Counters of one service. Threads may share it. Labels are only what the configuration names."""

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

    def planned(self, outcome: Outcome, seconds: float) -> None:
        """Count an answer about one of the configuration's tables."""
        self._considered.labels(outcome.table).inc(outcome.total)
        self._dropped.labels(outcome.table).inc(outcome.total - outcome.kept)
        self._fallbacks.labels(outcome.table).inc(len(outcome.fallbacks))
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """All figures in Prometheus' text format, those of all workers."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)


PLAN_SPAN: Final = "pruner.plan"


class Telemetry:
    """Traces and figures of one service. Threads may share it."""

    def __init__(self, spans: SpanProcessor, figures: MetricReader) -> None:
        """Send spans and figures to where these two do."""
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "pruner"}
        resource = Resource.create({**named, SERVICE_INSTANCE_ID: str(uuid.uuid4())})
        self._traces = TracerProvider(resource=resource)
        self._traces.add_span_processor(spans)
        self._figures = MeterProvider([figures], resource=resource)
        self._tracer = self._traces.get_tracer("pruner", __version__)
        meter = self._figures.get_meter("pruner", __version__)
        self._requests = meter.create_counter("pruner.requests", description="Requests by route and status.")
        self._in_flight = meter.create_up_down_counter(
            "pruner.requests.in_flight", description="Requests being served."
        )
        self._considered = meter.create_counter(
            "pruner.slices.considered", description="Slices of the snapshots that were planned on."
        )
        self._dropped = meter.create_counter(
            "pruner.slices.dropped", description="Slices that plans left out."
        )
        self._fallbacks = meter.create_counter(
            "pruner.fallbacks", description="Reasons why something could not be used to prune."
        )
        self._seconds = meter.create_histogram(
            "pruner.plan.seconds",
            unit="s",
            description="Seconds from request to answer.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )

    def began(self) -> None:
        """Count a request as being served."""
        self._in_flight.add(1)

    def served(self, route: str, status: int) -> None:
        """Count a request that is over; `route` is the route's pattern, never the path that a client sent."""
        self._in_flight.add(-1)
        self._requests.add(1, {"http.route": route, "http.response.status_code": status})

    @contextmanager
    def plan(self, headers: Mapping[str, str]) -> Generator[Span]:
        """A span about one plan, below that of the client where its headers name one (`traceparent`)."""
        with self._tracer.start_as_current_span(
            PLAN_SPAN,
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            record_exception=False,  # what went wrong can quote a part of the predicate
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def planned(self, span: Span, entry: Entry) -> None:
        """Say what came of a plan."""
        found = entry.outcome
        span.set_attributes(
            {
                "pruner.plan_id": found.plan_id,
                "pruner.table": found.table,
                "pruner.engine": found.engine,
                "pruner.predicate.shape": found.shape,
                "pruner.slices.total": found.total,
                "pruner.slices.kept": found.kept,
                "pruner.indexes": [index for index, _ in found.indexes],
                "pruner.fallbacks": len(found.fallbacks),
                "pruner.remembered": entry.again,
            }
        )
        about = {"pruner.table": found.table}
        self._considered.add(found.total, about)
        self._dropped.add(found.total - found.kept, about)
        self._fallbacks.add(len(found.fallbacks), about)
        self._seconds.record(entry.seconds)

    def end(self) -> None:
        """Send what was not sent yet, and stop."""
        self._traces.shutdown()
        self._figures.shutdown()


def telemetry_over_http() -> Telemetry:
    """Send to the endpoint that the standard variables name (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like)."""
    return Telemetry(
        BatchSpanProcessor(OTLPSpanExporter()), PeriodicExportingMetricReader(OTLPMetricExporter())
    )
