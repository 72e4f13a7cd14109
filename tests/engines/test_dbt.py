"""docs/dbt.md is run with dbt and an OpenLineage client, in their own environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
from tools.matrix import python_with

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-dbt.lock"
PAGE = (ROOT / "docs" / "dbt.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DAYS = 100

RUN_DBT = """
from dbt.cli.main import dbtRunner

ran = dbtRunner().invoke(["run", "--profiles-dir", "."])
raise SystemExit(0 if ran.success else str(ran.exception or ran.result.results))
"""

SEND = """
import json, sys
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import input_statistics_input_dataset
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport

event = json.loads(sys.argv[1])
[table] = event["inputs"]
stated = table["inputFacets"]["inputStatistics"]
facet = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
    size=stated["size"], fileCount=stated["fileCount"], producer=stated["_producer"]
)
assert Serde.to_dict(facet) == stated, (Serde.to_dict(facet), stated)
sent = RunEvent(
    eventTime=event["eventTime"],
    eventType=RunState[event["eventType"]],
    run=Run(runId=event["run"]["runId"]),
    job=Job(namespace=event["job"]["namespace"], name=event["job"]["name"]),
    inputs=[InputDataset(namespace=table["namespace"], name=table["name"], inputFacets={"inputStatistics": facet})],
    producer=event["producer"],
)
OpenLineageClient(transport=FileTransport(FileConfig(log_file_path="events", append=True))).emit(sent)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's table with its indexes, and the files of the page."""
    folder = tmp_path_factory.mktemp("shop")
    bookings = folder / "lake" / "bookings"
    bookings.mkdir(parents=True)
    for day in range(DAYS):
        duckdb.sql(
            f"COPY (SELECT DATE '2024-01-01' + {day} AS day, {day} * 1000 + i AS booking, "
            f"'guest' || (({day} * 1000 + i) * 7919 % 50_000) AS guest, "
            "['DE', 'FR', 'NL', 'IT'][1 + i % 4] AS country, "
            f"i * 37 % 500 + 0.25 AS price FROM range(1000) AS r(i)) TO '{bookings}/{day:03}.parquet'"
        )
    table = pruner.open_table(str(bookings))
    table.create_index("stats", on=["day", "booking"])
    table.create_index("guests", on="guest", using="bloom_filter")
    for _, text in BLOCK.findall(PAGE):
        name = re.match(r"(?:#|--) (\S+\.(?:yml|sql))\n", text)
        if name is not None:
            path = folder / name[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    (folder / "dbt_project.yml").write_text(
        "name: shop\nversion: '1.0'\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n"
    )
    return folder


def run_there(script: str, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(python_with(LOCK)), "-c", script, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "adapters")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.processes
def test_models_read_what_their_conditions_leave(shop: Path) -> None:
    (shop / "target").mkdir()
    run_there(RUN_DBT, shop)
    lines = (shop / "target" / "scans.jsonl").read_text(encoding="utf-8").splitlines()
    read = {("guest" in report["predicate"]): report for report in map(json.loads, lines)}
    assert (read[False]["kept"], read[False]["total"]) == (7, DAYS)
    assert 0 < read[True]["kept"] < 15
    con = duckdb.connect(str(shop / "shop.duckdb"), read_only=True)
    con.execute(f"CREATE TEMP VIEW bookings AS FROM read_parquet('{shop}/lake/bookings/*.parquet')")
    for model, question in {
        "guest": "SELECT booking, day FROM bookings WHERE guest = 'guest77'",
        "week": "SELECT country, sum(price) FROM bookings WHERE day BETWEEN '2024-02-01' AND '2024-02-07' GROUP BY ALL",
    }.items():
        found, plain = (
            con.sql(f"FROM ({text}) ORDER BY 1").fetchall() for text in (f"FROM {model}", question)
        )
        assert found
        assert [pytest.approx(row) if model == "week" else row for row in plain] == found


@pytest.mark.processes
def test_the_other_blocks_run_and_a_client_of_openlineage_takes_the_event(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    names: dict[str, Any] = {}
    for language, text in BLOCK.findall(PAGE):
        if language == "python":
            exec(compile(text, "dbt.md", "exec"), names)
    kept, event = capsys.readouterr().out.splitlines()
    assert kept == "1"
    [table] = json.loads(event)["inputs"]
    assert (table["namespace"], table["name"]) == ("file", str(shop / "lake" / "bookings"))
    assert table["inputFacets"]["pruner_scan"]["slicesRead"] == 1
    run_there(SEND, shop, event)
    sent = json.loads((shop / "events").read_text(encoding="utf-8"))
    assert sent["inputs"][0]["inputFacets"]["inputStatistics"]["fileCount"] == 1
    assert sent["schemaURL"] == json.loads(event)["schemaURL"]
