"""Requests with a predicate in Trino's own form, decoded by the adapter that the entry point names."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from tests.support.trino.predicates import content
from tests.unit.service.conftest import FILES, Client

COLUMNS = {"n": "bigint", "$path": "varchar"}


def _asked(predicate: str | dict[str, Any]) -> dict[str, Any]:
    sent = json.loads(content(predicate, COLUMNS)) if isinstance(predicate, str) else predicate
    session = {"engine": "trino", "version": "483", "zone": "Asia/Tokyo", "timestamp_unit": "ms"}
    session["scan_mode"] = "read_optimized"
    return {"table": "hive.web.numbers", "session": session, "predicate": {"form": "engine", "content": sent}}


def _dropped(answer: dict[str, Any]) -> list[int]:
    bits = np.frombuffer(zlib.decompress(base64.b64decode(answer["drop"])), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, count=answer["total"], bitorder="little")).tolist()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        ("n in [42, 42]", 1),
        ("n in [42, 42] [57, 58] (190, *)", 3),
        ("n in (*, 10) (20, *)", FILES - 1),
        ("n none or null", 0),
        ("no row", 0),
        ("n in [10, 29] && $less_than(n, bigint:20)", 1),
        ("$or($equal(n, bigint:5), $is_null(n))", 1),
        ('$path in ["x", "x"]', FILES),
        ("n in [42, 42] && my_function(n)", 1),
        ("boolean:true", FILES),
    ],
)
def test_what_a_predicate_of_trino_keeps(client: Client, predicate: str, kept: int) -> None:
    """Files of ten numbers each: what bounds prove is dropped, and the rest stays."""
    answer = client.post("/v1/plan", _asked(predicate))
    assert answer.status == 200, answer.json
    assert (answer.json["kept"], answer.json["total"]) == (kept, FILES)
    assert len(_dropped(answer.json)) == FILES - kept


def test_the_report_says_why_a_part_was_not_understood(client: Client) -> None:
    """Made again from predicate and snapshot."""
    plan = client.post("/v1/plan", _asked("n in [42, 42] && my_function(n)")).json
    report = client.get(f"/v1/plans/{plan['plan_id']}")
    assert report.status == 200
    assert "my_function of 1 arguments is not understood" in report.body.decode()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "hostile",
    [
        {},
        {"version": 2},
        {**json.loads(content("n all", COLUMNS)), "hint": 1},
        {**json.loads(content("n all", COLUMNS)), "columns": {}},
    ],
)
def test_content_of_another_shape_is_refused(client: Client, hostile: dict[str, Any]) -> None:
    """With the faulty position, and nothing is planned: the plugin then reads everything."""
    answer = client.post("/v1/plan", _asked(hostile))
    assert answer.status == 422
    assert set(answer.json) == {"error"}


def test_deep_content_is_refused_or_opaque(client: Client) -> None:
    """Ten thousand levels get an answer, not a broken connection."""
    node = '{"node":"call","function":"$not","type":"boolean","arguments":['
    deep = node * 10_000 + "]}" * 10_000
    body = json.dumps(_asked("n all")).replace('"domains"', f'"expression": {deep}, "domains"', 1).encode()
    assert client.post("/v1/plan", body).status == 400
    assert client.get("/healthz").status == 200


def test_an_adapter_without_a_decoder_is_one_sentence(client: Client) -> None:
    request = _asked("n all")
    request["session"] = {"engine": "duckdb"}
    answer = client.post("/v1/plan", request)
    assert answer.status == 422
    assert answer.json == {
        "error": "predicates of duckdb in its own form are not understood here: send SQL or the expression form"
    }
