"""A real server over real tables, in a thread of this process."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.service import Settings
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.service.planner import running_service

FILES = 20
ROWS = 10


@dataclass(frozen=True)
class Answer:
    """Status and content of an answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """The content, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Sends requests to a running service."""

    url: str

    def get(self, path: str, **headers: str) -> Answer:
        """GET a path."""
        return self._ask(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, content: Any, **headers: str) -> Answer:
        """POST a value as JSON, or bytes as they are."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self._ask(urllib.request.Request(self.url + path, body, headers, method="POST"))

    def _ask(self, request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return Answer(response.status, response.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.read())


@pytest.fixture(scope="module")
def number_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 files, `n` from 10 i to 10 i + 9 in file i."""
    root = tmp_path_factory.mktemp("numbers")
    for position in range(FILES):
        rows = range(position * ROWS, (position + 1) * ROWS)
        pq.write_table(pa.table({"n": list(rows)}), root / f"part-{position:02}.parquet")
    return root


@pytest.fixture
def lake(number_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of copies of these files, indexed, and a `pruner.toml` that names it."""
    root = shutil.copytree(number_files, tmp_path / "lake" / "numbers")
    pruner.open_table(root).create_index("stats", on="*")
    (tmp_path / "pruner.toml").write_text(
        '[tables.numbers]\nuri = "lake/numbers"\naliases = ["hive.web.numbers"]\n'
    )
    monkeypatch.chdir(tmp_path)
    return root


@contextmanager
def running(settings: Settings) -> Iterator[Client]:
    """Run the service of the current `pruner.toml` on a free port."""
    with running_service(settings=settings) as url:
        yield Client(url)


@pytest.fixture
def serve(lake: Path) -> Iterator[Callable[[Settings], Client]]:
    """Starts services that end with the test."""
    assert lake.is_dir()
    started: list[Any] = []

    def start(settings: Settings) -> Client:
        started.append(running(settings))
        client: Client = started[-1].__enter__()
        return client

    yield start
    for each in started:
        each.__exit__(None, None, None)


@pytest.fixture
def client(serve: Callable[[Settings], Client]) -> Client:
    """A service with default settings and long timeouts."""
    return serve(Settings(limits=PATIENT))
