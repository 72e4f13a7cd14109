"""Tables are opened before any request, and `pruner.toml` is read again while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.catalog.config import load
from pruner.service import Served, Settings
from tests.support.running.patience import PATIENT, until
from tests.unit.service.conftest import Client

NUMBERS = '[tables.numbers]\nuri = "lake/numbers"\naliases = ["hive.web.numbers"]\n'
ABSENT = '[tables.absent]\nuri = "lake/absent"\n'


def _request(table: str) -> dict[str, object]:
    return {
        "table": table,
        "session": {"engine": "trino"},
        "predicate": {"form": "sql", "text": "n = 42"},
    }


@pytest.fixture
def config(lake: Path) -> Path:
    """The `pruner.toml` of the one table."""
    return lake.parents[1] / "pruner.toml"


def test_tables_are_opened_and_what_cannot_be_read_is_named(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One missing table does not prevent others from being opened; it is named once, and tried again."""
    config.write_text(ABSENT + NUMBERS, encoding="utf-8")
    served = Served(load())
    assert served.readiness() == "starting"
    with caplog.at_level(logging.INFO, logger="pruner"):
        served.open_tables()
        served.open_tables()
    assert caplog.text.count("table absent cannot be read yet") == 1
    assert caplog.text.count("table numbers is ready: 20 files") == 1
    assert served.readiness() is None
    absent = config.parent / "lake" / "absent"
    absent.mkdir()
    pq.write_table(pa.table({"n": [1]}), absent / "part.parquet")
    with caplog.at_level(logging.INFO, logger="pruner"):
        served.open_tables()
    assert "table absent is ready: 1 file" in caplog.text


def test_where_no_table_can_be_read_the_service_is_alive_but_not_ready(
    config: Path, serve: Callable[[Settings], Client]
) -> None:
    config.write_text(ABSENT, encoding="utf-8")
    client = serve(Settings(limits=PATIENT))
    until(lambda: client.get("/readyz").json == {"status": "no table can be read"})
    assert client.get("/readyz").status == 503
    assert client.get("/healthz").status == 200


def test_a_table_that_is_added_is_served_without_a_restart(client: Client, config: Path) -> None:
    """So is an alias; what was removed from the file is no longer served."""
    until(lambda: client.get("/readyz").status == 200)
    assert client.post("/v1/plan", _request("more")).status == 404
    config.write_text(NUMBERS.replace("numbers]", "more]").replace("web.numbers", "web.more"), "utf-8")
    until(lambda: client.post("/v1/plan", _request("more")).status == 200)
    assert client.post("/v1/plan", _request("hive.web.more")).json["kept"] == 1
    assert client.post("/v1/plan", _request("numbers")).status == 404
    assert client.get("/v1/tables").json == [{"name": "more", "aliases": ["hive.web.more"]}]


def test_a_table_of_which_the_file_says_the_same_stays_open(config: Path) -> None:
    """No second listing because of another table, or of another alias; other settings open the table again."""
    served = Served(load())
    served.open_tables()
    before = served.table("numbers")
    config.write_text(NUMBERS.replace("web", "lake") + ABSENT, encoding="utf-8")
    assert served.reload()
    assert served.table("numbers") is before
    assert not served.reload()
    config.write_text(NUMBERS + "max_staleness = 5\n", encoding="utf-8")
    assert served.reload()
    assert served.table("numbers") is not before


@pytest.mark.parametrize("broken", ["[tables", "", "[tables.numbers]\nurl = 'x'\n", None])
def test_a_broken_file_leaves_everything_as_it_was(
    config: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The log reports it once, not at every check."""
    served = Served(load())
    served.open_tables()
    if broken is None:
        config.unlink()
    else:
        config.write_text(broken, encoding="utf-8")
    assert not served.reload()
    assert not served.reload()
    assert served.problem is not None
    assert caplog.text.count("the tables are served as before") == 1
    assert served.planning.tables[0].name == "numbers"
    config.write_text(NUMBERS, encoding="utf-8")
    assert not served.reload()
    assert served.problem is None
