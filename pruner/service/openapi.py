"""The OpenAPI 3.1 description of the service; its schemas are generated from the very types that are decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from pruner.service.messages import (
    AnswersAnswer,
    AnswersRequest,
    FailureAnswer,
    PlanAnswer,
    PlanRequest,
    PlansRequest,
    ScanAnswer,
    TableAnswer,
)
from pruner.service.rest_catalog.asked import AskedScan
from pruner.service.together import CONTENT_TYPE as LINES
from pruner.version import __version__

_REFUSALS = {
    "400": "The request cannot be read.",
    "401": "The token is missing or wrong.",
    "404": "There is no such table, plan or snapshot here.",
    "408": "The body or the plan took too long.",
    "410": "The table has changed since the plan.",
    "413": "The body is too large.",
    "422": "The predicate cannot be understood.",
    "429": "Too many requests at once, and its turn did not come in time.",
    "503": "The table cannot be planned on now.",
}


def description() -> dict[str, Any]:
    """Return the OpenAPI document as plain values."""
    asked = (PlanRequest, PlansRequest, AnswersRequest)
    types = (*asked, PlanAnswer, ScanAnswer, AnswersAnswer, TableAnswer, AskedScan, FailureAnswer)
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "pruner", "version": __version__},
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
        "paths": {
            "/v1/plan": {"post": _plan()},
            "/v1/plans": {"post": _plans()},
            "/v1/answers": {"post": _answers()},
            "/v1/plans/{id}": {
                "get": _get(
                    "The report of a plan.", {"type": "object"}, ("404", "408", "410", "503"), _id("plan id")
                )
            },
            "/v1/snapshots/{id}/keys": {"get": _keys()},
            "/v1/tables": {
                "get": _get("The tables.", {"type": "array", "items": _reference("TableAnswer")}, ())
            },
            "/v1/asked": {"get": _asked()},
            "/v1/openapi.json": {"get": _get("This description.", {"type": "object"}, ())},
            "/metrics": {"get": _metrics()},
            "/healthz": {"get": _open_to_all("Whether the service runs; needs no token.")},
            "/readyz": {"get": _ready()},
            "/": {"get": _page()},
        },
    }


def _plan() -> dict[str, Any]:
    wrong = ("400", "404", "408", "413", "422", "503")
    operation = _get("Plan one scan: which files can be left out.", _reference("PlanAnswer"), wrong)
    content = {"application/json": {"schema": _reference("PlanRequest")}}
    return {**operation, "requestBody": {"required": True, "content": content}}


def _plans() -> dict[str, Any]:
    summary = "Plan the scans of one query: a line of JSON for each, in the order in which they are known."
    operation = _get(summary, {}, ("400", "408", "413"))
    operation["responses"]["200"]["content"] = {LINES: {"schema": _reference("ScanAnswer")}}
    content = {"application/json": {"schema": _reference("PlansRequest")}}
    return {**operation, "requestBody": {"required": True, "content": content}}


def _answers() -> dict[str, Any]:
    summary = "What metadata says about the rows of a scan: aggregates, or a threshold of its first rows."
    operation = _get(summary, _reference("AnswersAnswer"), ("400", "404", "408", "413", "422", "503"))
    content = {"application/json": {"schema": _reference("AnswersRequest")}}
    return {**operation, "requestBody": {"required": True, "content": content}}


def _asked() -> dict[str, Any]:
    operation = _get("What stock clients of Iceberg asked of the catalog, for `pruner advise`.", {}, ("408",))
    operation["responses"]["200"]["content"] = {LINES: {"schema": _reference("AskedScan")}}
    return operation


def _metrics() -> dict[str, Any]:
    operation = _get("Counters and times for Prometheus.", {}, ())
    operation["responses"]["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return operation


def _open_to_all(summary: str) -> dict[str, Any]:
    operation = _get(summary, {"type": "object"}, ())
    for status in ("401", "429"):
        del operation["responses"][status]
    return {**operation, "security": []}


def _ready() -> dict[str, Any]:
    operation = _open_to_all("Whether plans can be requested; needs no token.")
    operation["responses"]["503"] = {
        "description": "It is starting, or no table can be read.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
    return operation


def _page() -> dict[str, Any]:
    operation = _get("Tables, indexes, coverage, the last plans and what to do, for people.", {}, ("408",))
    operation["responses"]["200"]["content"] = {"text/html": {"schema": {"type": "string"}}}
    return operation


def _keys() -> dict[str, Any]:
    operation = _get("16 bytes for each file of a snapshot.", {}, ("404",), _id("snapshot id"))
    operation["responses"]["200"]["content"] = {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
    }
    return operation


def _get(
    summary: str, schema: dict[str, Any], wrong: tuple[str, ...], *parameters: dict[str, Any]
) -> dict[str, Any]:
    failure = {"application/json": {"schema": _reference("FailureAnswer")}}
    refusals = {
        status: {"description": _REFUSALS[status], "content": failure} for status in ("401", "429", *wrong)
    }
    answer = {"description": summary, "content": {"application/json": {"schema": schema}}}
    return {"summary": summary, "parameters": list(parameters), "responses": {"200": answer, **refusals}}


def _id(what: str) -> dict[str, Any]:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "description": what,
        "schema": {"type": "string"},
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
