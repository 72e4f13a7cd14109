"""OpenTelemetry: a span for each plan and the figures of `/metrics`, without constants of predicates."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pruner.service.telemetry import PLAN_SPAN, Telemetry
from tests.support.running.patience import until
from tests.support.service.planner import running_service
from tests.unit.service.conftest import FILES, Client
from tests.unit.test_extras import ran_without
from tools.planner_service import planner_process

SECRET = 1234567
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def _request(text: str) -> dict[str, Any]:
    return {"table": "numbers", "session": {"engine": "trino"}, "predicate": {"form": "sql", "text": text}}


@pytest.fixture
def observed(lake: Path) -> Iterator[tuple[Client, InMemorySpanExporter, InMemoryMetricReader]]:
    """A service whose spans and figures stay in memory."""
    assert lake.is_dir()
    spans, figures = InMemorySpanExporter(), InMemoryMetricReader()
    with running_service(telemetry=Telemetry(SimpleSpanProcessor(spans), figures)) as url:
        yield Client(url), spans, figures


def _figures(reader: InMemoryMetricReader) -> dict[str, dict[tuple[Any, ...], float]]:
    """Values by name and attributes; for a histogram, the number of values."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, dict[tuple[Any, ...], float]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        values = found.setdefault(metric.name, {})
        for point in metric.data.data_points:
            at = tuple((point.attributes or {}).values())
            values[at] = point.value if isinstance(point, NumberDataPoint) else point.count
    return found


def test_a_plan_is_a_span_and_counted(
    observed: tuple[Client, InMemorySpanExporter, InMemoryMetricReader],
) -> None:
    """The same request twice: the second one is answered from memory, and the span says so."""
    client, spans, figures = observed
    for _ in range(2):
        assert client.post("/v1/plan", _request(f"n = 42 AND n < {SECRET}"), traceparent=PARENT).status == 200
    first, again = spans.get_finished_spans()
    told = dict(first.attributes or {})
    assert first.name == PLAN_SPAN
    assert told.pop("pruner.plan_id")
    assert told == {
        "pruner.table": "numbers",
        "pruner.engine": "trino",
        "pruner.predicate.shape": "n = ? AND n < ?",
        "pruner.slices.total": FILES,
        "pruner.slices.kept": 1,
        "pruner.indexes": ("stats",),
        "pruner.fallbacks": 0,
        "pruner.remembered": False,
    }
    assert (again.attributes or {})["pruner.remembered"] is True
    assert TRACE in first.to_json()
    counted = _figures(figures)
    assert counted["pruner.requests"] == {("/v1/plan", 200): 2}
    assert counted["pruner.requests.in_flight"] == {(): 0}
    assert counted["pruner.slices.considered"] == {("numbers",): 2 * FILES}
    assert counted["pruner.slices.dropped"] == {("numbers",): 2 * (FILES - 1)}
    assert counted["pruner.fallbacks"] == {("numbers",): 0}
    assert counted["pruner.plan.seconds"] == {(): 2}


def test_a_refused_plan_is_a_failed_span_without_its_text(
    observed: tuple[Client, InMemorySpanExporter, InMemoryMetricReader],
) -> None:
    client, spans, figures = observed
    assert client.post("/v1/plan", _request(f"no_such_column = {SECRET}")).status == 422
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert f"{SECRET}" not in span.to_json()
    assert "no_such_column" not in span.to_json()
    assert _figures(figures)["pruner.requests"] == {("/v1/plan", 422): 1}


@contextmanager
def _collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A receiver of spans and figures over HTTP; yields its URL and what it received."""
    came: list[tuple[str, bytes]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.processes
def test_a_service_sends_what_it_has_before_it_ends(lake: Path) -> None:
    """The endpoint is in OpenTelemetry's own variable; stopping the service loses no span."""
    with _collector() as (url, came):
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        with patch.dict(os.environ, named), planner_process(lake.parents[1]) as (service, _):
            client = Client(service)
            until(lambda: client.get("/readyz").status == 200, "readiness")
            assert client.post("/v1/plan", _request("n = 42")).status == 200
        until(lambda: {path for path, _ in came} == {"/v1/traces", "/v1/metrics"}, lambda: f"all of {came}")
    (traces,) = [body for path, body in came if path == "/v1/traces"]
    sent = ExportTraceServiceRequest.FromString(traces)
    assert [span.name for each in sent.resource_spans[0].scope_spans for span in each.spans] == [PLAN_SPAN]
    names = {each.key: each.value.string_value for each in sent.resource_spans[0].resource.attributes}
    assert names["service.name"] == "pruner"
    assert any(path == "/v1/metrics" and b"pruner.plan.seconds" in body for path, body in came)


@pytest.mark.processes
def test_without_the_extra_the_service_serves_and_says_what_to_install_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    code = """
import os
from pruner.service import workers
workers.check_telemetry()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://localhost:4318"
try:
    workers.check_telemetry()
except Exception as error:
    print(error)
"""
    ran = ran_without({"opentelemetry"}, code, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    sentence = "install the extra 'otel' of lake-pruner (in a checkout: pip install '.[otel]')"
    assert ran.stdout == f"OpenTelemetry is not installed: {sentence}\n"
