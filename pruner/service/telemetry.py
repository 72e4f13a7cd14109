"""OpenTelemetry: a span for each plan and the metrics of `/metrics`, sent to the endpoint in the environment
(docs/service.md).

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

from pruner.service.metrics import SECONDS
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pruner.service.journal import Entry

PLAN_SPAN: Final = "pruner.plan"


class Telemetry:
    """Traces and metrics of one service. Threads may share it."""

    def __init__(self, spans: SpanProcessor, figures: MetricReader) -> None:
        """Send spans and metrics through these two."""
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
        """Count a request as in flight."""
        self._in_flight.add(1)

    def served(self, route: str, status: int) -> None:
        """Count a finished request; `route` is the route's pattern, never the path that a client sent."""
        self._in_flight.add(-1)
        self._requests.add(1, {"http.route": route, "http.response.status_code": status})

    @contextmanager
    def plan(self, headers: Mapping[str, str]) -> Generator[Span]:
        """A span for one plan, a child of the client's span if its headers name one (`traceparent`)."""
        with self._tracer.start_as_current_span(
            PLAN_SPAN,
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            record_exception=False,  # an exception can quote part of the predicate
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def planned(self, span: Span, entry: Entry) -> None:
        """Record the outcome of a plan."""
        outcome = entry.outcome
        span.set_attributes(
            {
                "pruner.plan_id": outcome.plan_id,
                "pruner.table": outcome.table,
                "pruner.engine": outcome.engine,
                "pruner.predicate.shape": outcome.shape,
                "pruner.slices.total": outcome.total,
                "pruner.slices.kept": outcome.kept,
                "pruner.indexes": [index for index, _ in outcome.indexes],
                "pruner.fallbacks": len(outcome.fallbacks),
                "pruner.remembered": entry.again,
            }
        )
        about = {"pruner.table": outcome.table}
        self._considered.add(outcome.total, about)
        self._dropped.add(outcome.total - outcome.kept, about)
        self._fallbacks.add(len(outcome.fallbacks), about)
        self._seconds.record(entry.seconds)

    def end(self) -> None:
        """Send what has not been sent yet, and stop."""
        self._traces.shutdown()
        self._figures.shutdown()


def telemetry_over_http() -> Telemetry:
    """Send to the endpoint that the standard variables name (`OTEL_EXPORTER_OTLP_ENDPOINT` and the like)."""
    return Telemetry(
        BatchSpanProcessor(OTLPSpanExporter()), PeriodicExportingMetricReader(OTLPMetricExporter())
    )
