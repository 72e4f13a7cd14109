"""Stock PyIceberg reads a table in an S3-compatible server with the credentials that the catalog vends."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

from pruner.service import Settings
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.service.planner import running_service
from tests.support.stores.object_store import QUESTIONS, TABLE, ObjectStore, object_store

pytestmark = pytest.mark.processes

TOKEN = "a token that is long enough"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.write()
        running.open().create_index("i", on=["id", "city"])
        yield running


@pytest.fixture
def url(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    options = dict(store.options)
    monkeypatch.setenv("LAKE_KEY", options.pop("aws_access_key_id"))
    monkeypatch.setenv("LAKE_SECRET", options.pop("aws_secret_access_key"))
    told = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    keys = 'aws_access_key_id = "${LAKE_KEY}", aws_secret_access_key = "${LAKE_SECRET}"'
    config = tmp_path / "pruner.toml"
    config.write_text(
        "".join(
            f'[tables."web.{name}"]\nuri = "{TABLE}"\nstorage_options = {{ {told}, {keys} }}\n{more}\n\n'
            for name, more in {"lent": "vend_credentials = true", "kept": ""}.items()
        ),
        encoding="utf-8",
    )
    with running_service(config, Settings(token=TOKEN, limits=PATIENT)) as served:
        yield f"{served}/iceberg"


def test_a_stock_client_reads_with_vended_credentials(store: ObjectStore, url: str) -> None:
    """It has no credentials of its own, and reads exactly the files that the plan names."""
    table = load_catalog("lake", type="rest", uri=url, token=TOKEN).load_table("web.lent")
    for condition, (ids, files) in QUESTIONS.items():
        scan = table.scan(row_filter=condition.replace("BETWEEN 310 AND 312", ">= 310 AND id <= 312"))
        store.files_read()
        found: Any = scan.to_arrow().column("id")
        assert sorted(found.to_pylist()) == ids, condition
        assert store.files_read() == files, condition


def test_credentials_are_fetched_anew(store: ObjectStore, url: str) -> None:
    """Through PyIceberg's own method for them."""
    catalog = load_catalog("lake", type="rest", uri=url, token=TOKEN)
    assert isinstance(catalog, RestCatalog)
    found: Any = catalog.load_credentials("web.lent", location=f"{TABLE}/0.parquet")
    assert found["s3.secret-access-key"] == store.options["aws_secret_access_key"]
    assert found["s3.endpoint"] == store.options["endpoint"]


def test_no_secret_where_it_was_not_asked_for(
    store: ObjectStore, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither without the header, nor for a table that keeps them, nor in the log; answers with one are `no-store`."""
    caplog.set_level(logging.DEBUG)
    secret = store.options["aws_secret_access_key"]
    wanted = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    shown: dict[tuple[str, bool], bool] = {}
    for name in ("lent", "kept"):
        for more in ({}, wanted, {"X-Iceberg-Access-Delegation": "remote-signing"}):
            headers = {"Authorization": f"Bearer {TOKEN}", **more}
            answer = requests.get(f"{url}/v1/namespaces/web/tables/{name}", headers=headers, timeout=PATIENCE)
            assert answer.status_code == 200
            assert (secret in answer.text) == (answer.headers.get("Cache-Control") == "no-store")
            if secret in answer.text:
                shown[name, more == wanted] = True
    assert shown == {("lent", True): True}
    catalog = load_catalog("lake", type="rest", uri=url, token=TOKEN)
    assert secret in catalog.load_table("web.lent").io.properties.values()
    assert not any(
        name.startswith(("s3.", "client.")) for name in catalog.load_table("web.kept").io.properties
    )
    assert secret not in caplog.text
