"""Stores of three kinds for the tests of commits, and MinIO if it is asked for."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pruner.storage.opening import open_store
from pruner.storage.store import Store
from tests.support.stores.object_store import KINDS, shared_server
from tests.unit.metadata.s3_server import serve


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "minio":
        yield open_store(f"s3://lake/{uuid.uuid4()}/t.pruner", shared_server())
    elif request.param == "s3":
        with serve() as (options, _):
            yield open_store("s3://bucket/t.pruner", options)
    else:
        yield open_store(
            str(tmp_path / "t.pruner") if request.param == "local" else f"memory://{uuid.uuid4()}"
        )
