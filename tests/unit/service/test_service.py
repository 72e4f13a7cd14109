"""The service over a real table: what it drops, what it refuses, and what strangers get."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.bounded_cache import ENTRY_BYTES
from pruner.catalog.settings import ConfigError
from pruner.service import Limits, Settings
from pruner.service.app import INLINE_SLICES
from pruner.service.journal import Reports
from pruner.service.planning import file_key, normal_path
from tests.support.running.patience import PATIENCE, PATIENT
from tests.unit.service.conftest import FILES, Client

TOKEN = "a token that nobody guesses"


def _request(predicate: dict[str, Any] | str, table: str = "numbers", **more: Any) -> dict[str, Any]:
    sent = {"form": "sql", "text": predicate} if isinstance(predicate, str) else predicate
    return {"table": table, "session": {"engine": "trino"}, "predicate": sent, **more}


def _dropped(answer: dict[str, Any], keys: bytes | None = None) -> set[bytes]:
    """The keys of the files that an answer lets the client skip, computed like a client."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(answer["drop"])), np.uint8)
    marked = np.unpackbits(bits, count=answer["total"], bitorder="little")
    known = base64.b64decode(answer["keys"]) if keys is None else keys
    return {known[16 * i : 16 * i + 16] for i in np.flatnonzero(marked)}


def _keys(*files: Path) -> set[bytes]:
    """Keys as docs/http.md defines them, computed independently."""
    return {hashlib.sha256(f"{file}\0{file.stat().st_size}".encode()).digest()[:16] for file in files}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "table", ["numbers", "NUMBERS", "hive.web.numbers", "path", "local path", "file path"]
)
def test_a_plan_drops_exactly_what_the_index_can_prove(client: Client, lake: Path, table: str) -> None:
    """By name, alias or base path: the file with the row stays, the nineteen others are dropped."""
    asked = {"path": str(lake), "local path": f"local://{lake}/", "file path": f"file:{lake}"}.get(
        table, table
    )
    answer = client.post("/v1/plan", _request("n = 42", asked))
    assert answer.status == 200
    files = sorted(lake.glob("*.parquet"))
    assert _dropped(answer.json) == _keys(*(file for file in files if file.name != "part-04.parquet"))
    assert (answer.json["total"], answer.json["kept"], answer.json["table"]) == (FILES, 1, "numbers")


def test_the_expression_form_plans_like_sql(client: Client) -> None:
    """`n >= 195`, as a tree."""
    literal = {"node": "literal", "type": "int64", "value": 195}
    tree = {"node": "compare", "operator": ">=", "left": {"node": "column", "path": ["n"]}, "right": literal}
    by_tree = client.post("/v1/plan", _request({"form": "expression", "expression": tree})).json
    by_text = client.post("/v1/plan", _request("n >= 195")).json
    assert by_tree["kept"] == by_text["kept"] == 1
    assert _dropped(by_tree) == _dropped(by_text)


def test_a_file_written_anew_under_its_name_is_not_in_the_drop_list(client: Client, lake: Path) -> None:
    """A drop is bound to path and size: a later file at the same path has another key."""
    answer = client.post("/v1/plan", _request("n = 42")).json
    replaced = lake / "part-07.parquet"
    before = _keys(replaced)
    pq.write_table(pa.table({"n": [42] * 1000}), replaced)
    dropped = _dropped(answer)
    assert before <= dropped
    assert not _keys(replaced) & dropped
    assert client.post("/v1/plan", _request("n = 42")).json["kept"] == 2


def test_keys_travel_once(client: Client) -> None:
    """A client that knows the snapshot gets only the bits, and can fetch the keys separately."""
    first = client.post("/v1/plan", _request("n = 42")).json
    again = client.post("/v1/plan", _request("n = 42", known_snapshot=first["snapshot_id"])).json
    fetched = client.get(f"/v1/snapshots/{first['snapshot_id']}/keys")
    assert again["keys"] is None
    assert fetched.body == base64.b64decode(first["keys"])
    assert _dropped(again, fetched.body) == _dropped(first)


def test_a_report_is_made_again(client: Client, lake: Path) -> None:
    """By plan id, as long as the table is unchanged; afterwards the answer is 410."""
    made = client.post("/v1/plan", _request("n = 42")).json
    report = client.get(f"/v1/plans/{made['plan_id']}")
    assert report.status == 200
    assert report.json["kept"] == 1
    assert report.json["funnel"][0]["clause"] == "n = 42"
    (lake / "part-00.parquet").unlink()
    assert client.get(f"/v1/plans/{made['plan_id']}").status == 410
    assert client.get("/v1/plans/ffff").status == 404


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "the request cannot be read"),
        (b"[" * 100_000, 400, "nested too deep|cannot be read"),
        (_request("n = 1", "/etc"), 404, "no table '/etc'"),
        (_request("n = 1", "nobody"), 404, "no table 'nobody'"),
        (_request("n ="), 422, "predicate"),
        (_request("m = 1"), 422, "no column 'm'"),
        ({**_request("n = 1"), "extra": 1}, 400, "extra"),
        (_request({"form": "magic"}), 400, "magic"),
        ({**_request("n = 1"), "session": {"engine": "oracle"}}, 422, "oracle"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_sentence(client: Client, body: Any, status: int, sentence: str) -> None:
    """What, where, and no traceback."""
    answer = client.post("/v1/plan", body)
    assert answer.status == status
    assert set(answer.json) == {"error"}
    assert any(part in answer.json["error"] for part in sentence.split("|"))
    assert "Traceback" not in answer.json["error"]


def test_what_has_no_route_is_refused_like_everything_else(client: Client) -> None:
    nothing = client.get("/nothing")
    assert nothing.status == 404
    assert nothing.json["error"].startswith("no route for GET /nothing: ")
    wrong = client.get("/v1/plan")
    assert wrong.status == 405
    assert wrong.json["error"] == "/v1/plan takes POST, not GET: /v1/openapi.json describes it"


def test_without_the_token_nothing_is_told(serve: Callable[[Settings], Client]) -> None:
    """Only the health check is open."""
    client = serve(Settings(token=TOKEN))
    for header in ("", TOKEN, f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer "):
        assert client.get("/v1/tables", Authorization=header).status == 401
        assert client.post("/v1/plan", _request("n = 42"), Authorization=header).status == 401
        assert client.get("/metrics", Authorization=header).status == 401
    missing, wrong = client.get("/v1/tables"), client.get("/v1/tables", Authorization=f"Bearer {TOKEN}x")
    assert "send the service's token as 'Authorization: Bearer" in missing.json["error"]
    assert wrong.json["error"].startswith("the token is not that of the service")
    assert TOKEN not in wrong.json["error"]
    assert client.get("/healthz").status == 200
    assert client.get("/v1/tables", Authorization=f"Bearer {TOKEN}").json == [
        {"name": "numbers", "aliases": ["hive.web.numbers"]}
    ]


def test_large_and_slow_bodies_are_refused(serve: Callable[[Settings], Client]) -> None:
    """413 with and without a declared length, 408 for a body that does not come."""
    client = serve(Settings(limits=replace(PATIENT, body_bytes=1000, body_seconds=0.3)))
    assert client.post("/v1/plan", b" " * 1001).status == 413
    host, port = client.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as chunked:
        chunked.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunked.sendall(b"800\r\n" + b" " * 0x800 + b"\r\n")
        assert b" 413 " in chunked.recv(100)
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as silent:
        silent.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        assert b" 408 " in silent.recv(100)


def test_too_many_at_once_are_refused(serve: Callable[[Settings], Client]) -> None:
    """While the only slot is taken, a second request waits as long as its client prefers, then gets 429."""
    client = serve(Settings(limits=replace(PATIENT, concurrent=1)))
    host, port = client.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as waiting:
        waiting.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        hasty = "respond-async, wait=0"
        while client.get("/v1/tables", Prefer=hasty).status != 429:
            pass
        assert client.get("/v1/tables", Prefer="wait=1").status == 429
    assert client.post("/v1/plan", _request("n = 42")).status == 200


@pytest.mark.slow
def test_requests_wait_for_their_turn(serve: Callable[[Settings], Client]) -> None:
    """A query of forty scans asks forty times at once: all are planned."""
    client = serve(Settings(limits=replace(PATIENT, concurrent=2)))
    with ThreadPoolExecutor(40) as threads:
        asked = [threads.submit(client.post, "/v1/plan", _request(f"n = {number}")) for number in range(40)]
        assert {each.result().status for each in asked} == {200}


def test_answers_do_not_wait_for_acknowledgements(client: Client) -> None:
    """A client acknowledges the head of an answer 40 ms late once a connection has served some requests."""
    connection = http.client.HTTPConnection(client.url.removeprefix("http://"))
    seconds: list[float] = []
    # One request that does not wait is enough; a busy machine may be slow for long. If answers wait, all of them do.
    while len(seconds) < 600 and not any(each < 0.03 for each in seconds[40:]):
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        seconds.append(time.perf_counter() - started)
    connection.close()
    assert min(seconds[40:]) < 0.03


def test_a_slow_plan_is_given_up(serve: Callable[[Settings], Client]) -> None:
    """No plan can be made in zero seconds."""
    client = serve(Settings(limits=Limits(plan_seconds=0)))
    assert client.post("/v1/plan", _request("n = 42")).status == 408


def test_metrics_count_by_configured_names(client: Client, lake: Path) -> None:
    """Input from a client never becomes a label."""
    client.post("/v1/plan", _request("n = 42", str(lake)))
    client.post("/v1/plan", _request("n = 42", "unheard of"))
    text = client.get("/metrics").body.decode()
    assert 'pruner_slices_dropped_total{table="numbers"} 19.0' in text
    assert 'pruner_requests_total{route="/v1/plan",status="404"} 1.0' in text
    assert "unheard" not in text


def test_many_clients_at_once(client: Client) -> None:
    """Plans do not mix."""
    wrong: list[int] = []

    def ask(value: int) -> None:
        answer = client.post("/v1/plan", _request(f"n >= {value}"))
        if answer.status != 200 or answer.json["kept"] != FILES - value // 10:
            wrong.append(value)

    threads = [threading.Thread(target=ask, args=(value,)) for value in range(0, 200, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_description_names_every_route(client: Client) -> None:
    """Its references resolve."""
    document = client.get("/v1/openapi.json").json
    assert set(document["paths"]) == {
        "/v1/plan", "/v1/plans", "/v1/answers", "/v1/plans/{id}", "/v1/snapshots/{id}/keys", "/v1/tables", "/v1/asked",
        "/v1/openapi.json", "/metrics", "/healthz", "/readyz", "/",
    }  # fmt: skip
    assert "401" not in document["paths"]["/healthz"]["get"]["responses"]
    for reference in json.dumps(document).split('"#/components/schemas/')[1:]:
        assert reference.split('"')[0] in document["components"]["schemas"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings(host="0.0.0.0"), "put a token"),
        (Settings(host="::"), "put a token"),
        (Settings(host="10.0.0.1", token=TOKEN), "--certificate"),
        (Settings(token="short"), "shorter than 16"),
        (Settings(certificate=Path("x.pem")), "needs both"),
        (Settings(certificate=Path("x.pem"), private_key=Path("x.pem")), "No such file.*PEM$"),
        (
            Settings(certificate=Path(__file__), private_key=Path(__file__)),
            "cannot use .*test_service.py.*PEM$",
        ),
    ],
)
def test_settings_that_let_strangers_in_are_refused(settings: Settings, sentence: str) -> None:
    """Beyond this machine only with a token, and only with TLS or an explicit --insecure."""
    with pytest.raises(ConfigError, match=sentence):
        settings.check()
    Settings(host="10.0.0.1", token=TOKEN, insecure=True).check()
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_one_file_has_one_key_however_it_is_written() -> None:
    """Trino's, Hadoop's and our spelling of a path; another file of an object store stays another."""
    local = {"/lake/a b%20/x.parquet", "file:/lake/a b%20/x.parquet", "local:///lake//a b%20/x.parquet"}
    assert {normal_path(path) for path in local} == {"/lake/a b%20/x.parquet"}
    assert normal_path("s3a://b/k//x") == normal_path("s3://b/k//x") != normal_path("s3://b/k/x")
    assert file_key("/x", 12) != file_key("/x1", 2)


def test_memory_for_past_plans_is_bounded() -> None:
    """The oldest request goes first, and a repeated request on the same snapshot is kept once."""
    reports = Reports(limit_bytes=2 * (ENTRY_BYTES + 125))
    ids = [reports.remember(b"x" * 100 + str(i).encode(), "s") for i in range(3)]
    assert [reports.asked(each) is not None for each in ids] == [False, True, True]
    assert reports.remember(b"x" * 100 + b"2", "s") == ids[2]
    assert INLINE_SLICES * 16 <= 65536


def test_a_table_whose_variable_is_not_set_does_not_stop_the_others(
    lake: Path, serve: Callable[[Settings], Client], caplog: pytest.LogCaptureFixture
) -> None:
    config = lake.parent.parent / "pruner.toml"
    config.write_text(config.read_text() + '[tables.away]\nuri = "${PRUNER_TEST_UNSET}/away"\n')
    client = serve(Settings(limits=PATIENT))
    assert client.post("/v1/plan", _request("n >= 150")).json["kept"] == 5
    refused = client.post("/v1/plan", {**_request("n >= 150"), "table": "away"})
    assert refused.status == 503
    assert b"PRUNER_TEST_UNSET" not in refused.body
    assert "no plan: table away: " in caplog.text
    assert "the environment variable PRUNER_TEST_UNSET is not set" in caplog.text
