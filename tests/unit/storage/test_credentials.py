"""Which credentials apply, source by source, at a server that accepts one access key and no other.

The sources in order: options of the call, `pruner.toml`, the environment, the store's own chain.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import GCSStore

import pruner
from pruner.catalog.names import open_table
from pruner.errors import StorageError
from pruner.storage import objects
from pruner.storage.opening import open_for_arrow, open_store, read_ranges
from tests.support.stores.proxy import proxied
from tests.unit.metadata.s3_server import serve

RIGHT, WRONG = "AKIARIGHT", "AKIAWRONG"
LOGIN = {
    "type": "authorized_user",
    "client_id": "someone",
    "client_secret": "secret",
    "refresh_token": "token",
}
PLACES = ("call", "file", "environment", "chain")
TABLE = "s3://bucket/lake/t"


class _Role(BaseHTTPRequestHandler):
    """As much of a machine's metadata service as a client needs to get the credentials of its role."""

    key = RIGHT

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def _answer(self) -> None:
        about_role = self.path.endswith("/a-role")
        known = {
            "AccessKeyId": self.key,
            "SecretAccessKey": "secret",
            "Token": "token",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        body = (json.dumps(known) if about_role else "a-role").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = _answer  # noqa: N815 - names of the base class


@contextmanager
def _role_of(key: str) -> Iterator[str]:
    handler = type("Role", (_Role,), {"key": key})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A store with a table of one file, which accepts one key."""
    with serve(page=1000) as (options, server), proxied(options) as (options, proxy):
        sink = io.BytesIO()
        pq.write_table(pa.table({"x": [1]}), sink)
        server.objects["lake/t/0.parquet"] = sink.getvalue()
        proxy.accepted = RIGHT
        yield options["endpoint"]


def _keys(key: str) -> dict[str, str]:
    return {"aws_access_key_id": key, "aws_secret_access_key": "secret"}


@contextmanager
def _placed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, endpoint: str, keys: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Put keys where they will be found; yields the options of the call."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    plain = {"endpoint": endpoint, "allow_http": "true", "region": "us-east-1"}
    lines = [f'{name} = "{value}"' for name, value in plain.items()]
    if "file" in keys:
        monkeypatch.setenv("KEY_OF_THE_FILE", keys["file"])
        lines += ['aws_access_key_id = "${KEY_OF_THE_FILE}"', 'aws_secret_access_key = "${KEY_OF_THE_FILE}"']
    if "environment" in keys:
        for name, value in _keys(keys["environment"]).items():
            monkeypatch.setenv(name.upper(), value)
    sections = [f'[tables.t]\nuri = "{TABLE}"\n[tables.t.storage_options]', *lines]
    (folder / "pruner.toml").write_text("\n".join(sections))
    monkeypatch.setenv("PRUNER_CONFIG", str(folder / "pruner.toml"))
    with _role_of(keys.get("chain", WRONG)) as role:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", role)
        yield _keys(keys["call"]) if "call" in keys else {}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", PLACES)
def test_the_first_place_that_has_credentials_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, endpoint: str, place: str
) -> None:
    behind = PLACES[PLACES.index(place) + 1 :]
    with _placed(monkeypatch, tmp_path, endpoint, {place: RIGHT} | dict.fromkeys(behind, WRONG)) as options:
        table = open_table("t", storage_options=options)
        assert table.plan("x = 1").kept == 1
    with (
        _placed(monkeypatch, tmp_path, endpoint, {place: WRONG} | dict.fromkeys(behind, RIGHT)) as options,
        pytest.raises(pruner.PrunerError, match=r"credentials|access key"),
    ):
        open_table("t", storage_options=options).plan("x = 1")


@pytest.mark.slow
def test_options_of_a_call_replace_those_of_the_file_key_by_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, endpoint: str
) -> None:
    with _placed(monkeypatch, tmp_path, endpoint, {"file": WRONG, "environment": WRONG}):
        given = {"aws_access_key_id": RIGHT}
        assert open_table("t", storage_options=given).plan("x = 1").kept == 1


@pytest.mark.slow
def test_credentials_that_come_later_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, endpoint: str
) -> None:
    with _placed(monkeypatch, tmp_path, endpoint, {"environment": WRONG}):
        with pytest.raises(pruner.PrunerError, match=r"credentials|access key"):
            open_table("t").plan("x = 1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", RIGHT)
        assert open_table("t").plan("x = 1").kept == 1


def test_base_files_are_read_with_credentials_that_come_later(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """Their stores were cached without the environment, and footers were refused once a key had rotated."""
    plain = {"endpoint": endpoint, "allow_http": "true", "region": "us-east-1"}
    for name, value in _keys(WRONG).items():
        monkeypatch.setenv(name.upper(), value)
    file = f"{TABLE}/0.parquet"
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_ranges(file, [(0, 4)], plain)[0],
        lambda: pq.read_metadata(open_for_arrow(file, None, plain)).num_rows,
    )
    for read in readers:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", WRONG)
        with pytest.raises(StorageError, match=r"access key|credentials"):
            read()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", RIGHT)
        assert read() in (b"PAR1", 1)


def test_a_login_at_google_that_comes_later_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[str] = []

    def client(bucket: str, **settings: Any) -> GCSStore:
        made.append(bucket)
        return GCSStore(bucket, **settings)

    monkeypatch.setattr(objects, "GCSStore", client)
    monkeypatch.setenv("HOME", str(tmp_path))
    bucket = f"bucket-{tmp_path.name}"
    login = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    login.parent.mkdir(parents=True)
    for clients in (1, 2):
        for folder in ("a", "b"):
            open_store(f"gs://{bucket}/{folder}")
        assert made == [bucket] * clients
        login.write_text(json.dumps(LOGIN))
