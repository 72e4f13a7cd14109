"""Clients' queries and reports to the catalog, kept for the advisor; and the credentials that clients get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from typer.testing import CliRunner

from pruner.cli.app import app
from pruner.service import Settings
from pruner.service.rest_catalog import asked
from pruner.tables.iceberg.catalogs import client_properties, store_options
from tests.support.iceberg.rest import problems
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.service.planner import running_service

TOKEN = "a token that is long enough"
FILES = 12
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SCAN: dict[str, Any] = {
    "report-type": "scan-report",
    "table-name": "lake.web.trips",
    "snapshot-id": 5,
    "filter": {"type": "eq", "term": "account", "value": "(3-digit-int)"},
    "schema-id": 0,
    "projected-field-ids": [1],
    "projected-field-names": ["day"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2644235116},
        "result-data-files": {"unit": "count", "value": 5},
        "skipped-data-files": {"unit": "count", "value": 7},
    },
}
COMMIT: dict[str, Any] = {
    "report-type": "commit-report",
    "table-name": "lake.web.trips",
    "snapshot-id": 5,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files: days in file order, accounts scattered."""
    found = tmp_path_factory.mktemp("asked")
    (found / "trips").mkdir()
    for at in range(FILES):
        columns = {
            "day": list(range(at * 50, at * 50 + 50)),
            "account": [row * 13 % 600 for row in range(50)],
        }
        pq.write_table(pa.table(columns), found / "trips" / f"{at:02}.parquet")
    (found / "pruner.toml").write_text(f'[tables."web.trips"]\nuri = "{found}/trips"\n', encoding="utf-8")
    return found


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with running_service(folder / "pruner.toml") as served:
        yield served


def _sent(url: str, what: str, content: Any) -> requests.Response:
    place = f"{url}/iceberg/v1/namespaces/web/tables/trips/{what}"
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return requests.post(place, data=data, timeout=PATIENCE)


def _lines(url: str) -> list[dict[str, Any]]:
    answer = requests.get(f"{url}/v1/asked", timeout=PATIENCE)
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def _advised(folder: Path, log: Path, *more: str) -> str:
    """The advisor's output for the log in a folder, however slow the machine is."""
    arguments = ["advise", f"{folder}/trips", "--log", f"{log}/log.jsonl", "--budget", "3600", *more]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_the_advisor_judges_what_clients_asked(url: str, folder: Path, tmp_path: Path) -> None:
    """With constants, as often as it was asked; pages and repeated answers count once."""
    needle = {"type": "and", "left": {"type": "gt-eq", "term": "day", "value": 100}}
    needle["right"] = {"type": "lt", "term": "day", "value": 150}
    for _ in range(3):
        plan = _sent(url, "plan", {"filter": needle}).json()
    place = f"{url}/iceberg/v1/namespaces/web/tables/trips/plan/{plan['plan-id']}"
    assert requests.get(place, timeout=PATIENCE).status_code == 200
    _sent(url, "plan", {"filter": {"type": "not-eq", "term": "account", "value": 7}})
    _sent(url, "plan", {})
    assert _sent(url, "metrics", SCAN).status_code == 204
    found = _lines(url)
    assert [(each["columns"], each["times"], each["files_read"], each["files"]) for each in found] == [
        (["day"], 3, 3 * FILES, 3 * FILES),
        (["account"], 1, FILES, FILES),
        (["account"], 1, 5, 12),
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in found), encoding="utf-8")
    advice = json.loads(_advised(folder, tmp_path, "--output", "json"))
    assert [(each["times"], each["files_now"]) for each in advice["questions"]] == [(3, 12), (1, 12)]
    assert [each["column"] for each in advice["proposals"]] == ["day"]
    assert advice["proposals"][0]["saved_files"] == 3 * (FILES - 1)
    assert any("with which constants: account; 5 of 12 files read" in note for note in advice["notes"])


@pytest.mark.slow
def test_a_log_of_one_line_is_no_profile(url: str, folder: Path, tmp_path: Path) -> None:
    _sent(url, "plan", {"filter": {"type": "eq", "term": "day", "value": 7}})
    (found,) = _lines(url)
    (tmp_path / "log.jsonl").write_text(json.dumps(found), encoding="utf-8")
    assert "judged by 1 question, asked 1 time" in _advised(folder, tmp_path)


REFUSED: list[Any] = [
    b"",
    b"{",
    [],
    {},
    {**SCAN, "report-type": "other"},
    {**SCAN, "snapshot-id": "5"},
    {**SCAN, "filter": {"type": "between"}},
    {**SCAN, "filter": {"type": "eq", "term": "nothing", "value": 1}},
    {**SCAN, "metrics": {"result-data-files": {"unit": "count", "value": -1}}},
    {**SCAN, "metrics": {"result-data-files": {"unit": "count", "value": 2**70}}},
    {**SCAN, "metrics": {"result-data-files": {}}},
    {**SCAN, "metrics": {"total-planning-duration": {"time-unit": "s", "count": 1, "total-duration": -1}}},
    b'{"report-type":"scan-report","filter":' + b'{"type":"not","child":' * 90_000,
    {name: value for name, value in SCAN.items() if name != "schema-id"},
    {**COMMIT, "operation": 3},
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("content", REFUSED)
def test_reports_that_are_none_are_refused(url: str, content: Any) -> None:
    answer = _sent(url, "metrics", content)
    assert answer.status_code == 400, answer.text
    assert problems("IcebergErrorResponse", answer.json()) == []
    assert _lines(url) == []


def test_reports_of_commits_are_taken_and_tell_nothing(url: str) -> None:
    assert _sent(url, "metrics", COMMIT).status_code == 204
    assert _lines(url) == []


@pytest.mark.slow
def test_what_is_kept_is_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of one filter, and of all."""
    many = {"type": "in", "term": "day", "values": list(range(20_000))}
    assert _sent(url, "plan", {"filter": many}).status_code == 200
    assert _lines(url) == []
    monkeypatch.setattr(asked, "KEPT_BYTES", 0)
    kept = asked.RecordedFilters(20_000)

    class Asks:
        """A filter with a number."""

        def __init__(self, number: int) -> None:
            self.encoded = b'{"type":"eq","term":"day","value":%d}' % number

        def expression(self) -> Any:
            raise AssertionError

        def names(self) -> frozenset[str]:
            return frozenset({"day"})

        def constants(self) -> list[str]:
            return ["(1-digit-int)"]

    report: Any = asked.ScanReport("t", 1, None, 0, [], [], {})
    for number in range(2_000):
        made: Any = Asks(number)
        kept.reported("t", "/t", made, report)
    assert 5 < len(list(kept.scans())) < 40


SECRET = "a-very-secret-key"
OPTIONS = (
    'storage_options = { aws_access_key_id = "${VENDED_KEY}", AWS_SECRET_ACCESS_KEY = "${VENDED_SECRET}", '
    'region = "eu-central-1", endpoint = "http://127.0.0.1:1", allow_http = true }'
)


def _config(folder: Path, more: str = "") -> Path:
    config = folder / "vending.toml"
    config.write_text(
        f'[tables."web.trips"]\nuri = "{folder}/trips"\n{OPTIONS}\n{more}\n\n'
        f'[tables."web.other"]\nuri = "s3://lake/other"\n{OPTIONS}\n',
        encoding="utf-8",
    )
    return config


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("more", "token", "why"),
    [
        ("", TOKEN, "pruner.toml does not set vend_credentials for it"),
        ("vend_credentials = false", TOKEN, "pruner.toml does not set vend_credentials for it"),
        ("vend_credentials = true", None, "the service requires no token"),
        ("vend_credentials = true", TOKEN, "its storage_options have none"),
    ],
)
def test_no_credentials_where_they_are_not_to_be_had(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    more: str,
    token: str | None,
    why: str,
) -> None:
    """The answer says why, and neither it nor the log contains the secret; a table on a disk has no credentials."""
    monkeypatch.setenv("VENDED_KEY", "AKIATEST")
    monkeypatch.setenv("VENDED_SECRET", SECRET)
    with running_service(_config(folder, more), Settings(token=token, limits=PATIENT)) as url:
        place = f"{url}/iceberg/v1/namespaces/web/tables/trips"
        refused = requests.get(f"{place}/credentials", headers=AUTHORIZED, timeout=PATIENCE)
        assert refused.status_code == 403
        assert problems("IcebergErrorResponse", refused.json()) == []
        assert refused.json()["error"]["type"] == "ForbiddenException"
        assert why in refused.json()["error"]["message"]
        wanted = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
        loaded = requests.get(place, headers=AUTHORIZED | wanted, timeout=PATIENCE)
        assert loaded.json()["config"] == {"scan-planning-mode": "server"}
        assert "storage-credentials" not in loaded.json()
        for answer in (refused, loaded):
            assert SECRET not in answer.text
    assert SECRET not in caplog.text


def test_options_are_told_by_the_names_that_clients_know() -> None:
    """They are read back as the same options."""
    options = {
        "AWS_ACCESS_KEY_ID": "a",
        "secret_access_key": "b",
        "token": "c",
        "default_region": "d",
        "endpoint_url": "http://e",
        "allow_http": "true",
        "conditional_put": "etag",
    }
    told = client_properties("s3://lake/t", options)
    assert told == {
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.session-token": "c",
        "s3.region": "d",
        "client.region": "d",
        "s3.endpoint": "http://e",
        "s3.path-style-access": "true",
    }
    assert store_options("s3://lake/t", told) == {
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_session_token": "c",
        "aws_region": "d",
        "aws_endpoint": "http://e",
        "allow_http": "true",
    }
    assert client_properties("gs://lake/t", {"bearer_token": "a"}) == {"gcs.oauth2.token": "a"}
    assert client_properties(
        "abfss://c@a.dfs.core.windows.net/t", {"account_name": "a", "sas_token": "b"}
    ) == {
        "adls.account-name": "a",
        "adls.sas-token": "b",
    }
    assert client_properties("/lake/t", options) == {}
