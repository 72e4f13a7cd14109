"""What networks and busy stores do to requests: every command ends with a correct result or one clear sentence."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import PrunerError
from pruner.metadata import MetadataTable, receipts
from pruner.storage import objects
from pruner.storage.opening import open_store
from tests.support.running.profiles import examples, seed
from tests.support.stores.object_store import ON_MINIO, SETTLED_SECONDS, store_server
from tests.support.stores.proxy import Fault, Request, StoreProxy, proxied
from tests.unit.metadata.s3_server import serve

pytestmark = pytest.mark.load

TABLE = "s3://bucket/lake/t"
FILES = 4

COMMANDS: Mapping[str, Callable[[pruner.Table], object]] = {
    "create": lambda table: table.create_index("new", on="x", using="bitmap", if_not_exists=True),
    "refresh": lambda table: table.refresh(),
    "plan": lambda table: table.plan("x = 1").kept,
    "status": lambda table: table.status(),
    "compact": lambda table: table.compact(),
    "drop": lambda table: table.drop_index("new", if_exists=True),
    "verify": lambda table: table.verify(),
    "vacuum": lambda table: table.vacuum(grace_seconds=0),
}


class Lake:
    """A table in a store behind a proxy."""

    def __init__(self, options: dict[str, str], proxy: StoreProxy) -> None:
        self.options = options
        self.proxy = proxy
        self.files = 0

    def add_file(self) -> None:
        """Write one more file, whose only value is its number."""
        sink = io.BytesIO()
        pq.write_table(pa.table({"x": [self.files]}), sink)
        open_store(TABLE, self.options).put_new(f"{self.files:03}.parquet", sink.getvalue())
        self.files += 1
        if ON_MINIO and self.files >= FILES:  # the other server gives every object an old date
            time.sleep(SETTLED_SECONDS)

    def open(self) -> pruner.Table:
        """The table as a new process opens it."""
        return pruner.open_table(TABLE, storage_options=self.options)


@contextmanager
def _serving() -> Iterator[dict[str, str]]:
    if ON_MINIO:
        with store_server("bucket") as options:
            yield options
    else:
        with serve(page=1000) as (options, _):
            yield options


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    quick = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2}
    monkeypatch.setitem(objects._RETRY, "max_retries", 2)
    monkeypatch.setitem(objects._RETRY, "backoff", quick)
    with _serving() as options, proxied(options) as (options, proxy):
        found = Lake(options, proxy)
        for _ in range(FILES):
            found.add_file()
        found.open().create_index("old", on="x")
        yield found


def run(command: Callable[[pruner.Table], object], lake: Lake) -> PrunerError | None:
    """Open the table and run a command on it; a reported failure is one sentence that names the location."""
    try:
        command(lake.open())
    except PrunerError as error:
        told = error
    else:
        return None
    text = str(told)
    assert "\n" not in text
    assert 20 < len(text) < 500
    assert "s3://bucket" in text, text
    assert lake.options["aws_secret_access_key"] not in text
    return told


def assert_sound(lake: Lake) -> None:
    table = lake.open()
    for number in range(lake.files):
        assert f"{TABLE}/{number:03}.parquet" in table.plan(f"x = {number}").files
    assert table.verify() == []


def assert_right_at_the_end(lake: Lake) -> None:
    table = lake.open()
    assert table.refresh().failures == ()
    assert all((index.covered, index.uncovered) == (lake.files, {}) for index in table.status().indexes)
    assert table.plan("x = -1").kept == 0
    table.vacuum(grace_seconds=0)
    store = open_store(table.index_uri, lake.options)
    assert MetadataTable(store).unreferenced() == []
    assert receipts.receipts(store) == []


@pytest.mark.parametrize("fault", [*Fault, None], ids=lambda fault: fault.name.lower() if fault else "all")
def test_requests_that_fail_now_and_then(lake: Lake, fault: Fault | None) -> None:
    """Half the requests of some commands, and one in eight of others, fail: all in one way, or each in its own."""
    chance = random.Random(seed())
    told = done = 0
    for _ in range(max(1, examples(24) // 24)):
        for name, command in COMMANDS.items():
            share = chance.choice((0.5, 0.12))
            lake.proxy.fault = lambda _, share=share: (
                (fault or chance.choice(list(Fault))) if chance.random() < share else None
            )
            ended = run(command, lake)
            lake.proxy.fault = lambda _: None
            told, done = told + (ended is not None), done + (ended is None)
            assert_sound(lake)
            if ended is None and name in ("create", "drop"):
                names = {index.name for index in lake.open().indexes()}
                assert names == ({"old", "new"} if name == "create" else {"old"})
            if name == "plan":
                lake.add_file()
    print(f"{fault.name if fault else 'all'}: {done} commands did it, {told} said why not")
    assert done
    assert_right_at_the_end(lake)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("kind", ["LIST", "GET", "PUT", "POST"])
def test_requests_of_a_kind_that_always_fail(lake: Lake, kind: str, fault: Fault) -> None:
    lake.add_file()

    def failing(request: Request) -> Fault | None:
        return fault if request.kind == kind else None

    for command in (COMMANDS["create"], COMMANDS["vacuum"], COMMANDS["plan"]):
        lake.proxy.fault = failing
        run(command, lake)
        lake.proxy.fault = lambda _: None
        assert_sound(lake)
    assert_right_at_the_end(lake)


def test_a_slow_network_changes_nothing(lake: Lake) -> None:
    lake.proxy.latency = 0.01
    lake.add_file()
    assert run(COMMANDS["refresh"], lake) is None
    assert lake.open().plan(f"x = {FILES}").kept == 1
