"""How many requests a store gets: the cost of a plan there is round trips."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.stores.proxy import StoreProxy, proxied
from tests.unit.metadata.s3_server import serve

FILES = 6
TABLE = "s3://bucket/lake/t"


@dataclass(frozen=True)
class Lake:
    """A table in a store, and the proxy in front of it."""

    options: dict[str, str]
    proxy: StoreProxy
    objects: dict[str, bytes]

    def requests(self) -> list[str]:
        """The requests since the last call, by kind and folder."""
        found = [f"{each.kind} {_folder(each.key)}" for each in self.proxy.requests]
        self.proxy.forget()
        return found


def _folder(key: str) -> str:
    name = key.removeprefix("/bucket/")
    return name if name.endswith("/") else name.rpartition("/")[0]


@pytest.fixture
def lake() -> Iterator[Lake]:
    with serve(page=1000) as (options, server), proxied(options) as (options, proxy):
        for number in range(FILES):
            sink = io.BytesIO()
            pq.write_table(pa.table({"x": [number], "y": [-number]}), sink)
            server.objects[f"lake/t/{number}.parquet"] = sink.getvalue()
        table = pruner.open_table(TABLE, storage_options=options)
        table.create_index("i", on=["x", "y"])
        proxy.forget()
        yield Lake(options, proxy, server.objects)


@pytest.mark.slow
def test_a_plan_of_a_new_process(lake: Lake) -> None:
    table = pruner.open_table(TABLE, storage_options=lake.options)
    assert Counter(lake.requests()) == {
        "HEAD lake/t/.hoodie": 1,
        "HEAD lake/.hoodie": 1,
        "HEAD .hoodie": 1,
        "LIST lake/t/": 1,
        **{
            f"LIST {above}{sign}/": 1
            for above in ("lake/t/", "lake/", "")
            for sign in ("_delta_log", "metadata")
        },
    }, "is it a table, and not a folder of another one?"
    assert table.plan("x = 3").kept == 1
    assert lake.requests() == [
        "LIST lake/t.pruner/log/",
        "GET lake/t.pruner/log",
        "GET lake/t.pruner/files",  # the schemas of the files, so that no footer is read
        "LIST lake/t/",
        "GET lake/t.pruner/column_stats",  # of the slices that the log names by a digest
    ]
    assert table.plan("y = -3").kept == 1
    assert lake.requests() == ["LIST lake/t/", "LIST lake/t.pruner/log/", "GET lake/t.pruner/column_stats"]
    assert table.plan("x = 4").kept == 1
    assert lake.requests() == ["LIST lake/t/", "LIST lake/t.pruner/log/"], (
        "has the table changed? Have the indexes?"
    )


@pytest.mark.slow
def test_a_file_more_costs_no_request_and_one_less_or_another_costs_one(lake: Lake) -> None:
    """Records belong to slices by the digest of a run of them; if that is not found, by the keys of each."""
    added = {f"lake/t/{FILES}.parquet": lake.objects["lake/t/5.parquet"]}
    another = {"lake/t/2.parquet": lake.objects["lake/t/5.parquet"]}
    for changed, batches_read in ((added, 0), (another, 1), ({"lake/t/2.parquet": None}, 1)):
        for key, data in changed.items():
            lake.objects.pop(key, None)
            if data is not None:
                lake.objects[key] = data
        table = pruner.open_table(TABLE, storage_options=lake.options)
        lake.requests()
        kept = [uri.rpartition("/")[2] for uri in table.plan("x = 3").files]
        unknown = [key.rpartition("/")[2] for key in changed if key in lake.objects]
        assert sorted(kept) == sorted({"3.parquet", f"{FILES}.parquet", *unknown})
        assert Counter(lake.requests())["GET lake/t.pruner/files"] == 1 + batches_read


@pytest.mark.slow
def test_a_plan_that_may_be_older_asks_nothing(lake: Lake) -> None:
    table = pruner.open_table(TABLE, storage_options=lake.options, max_staleness=60)
    assert table.plan("x = 3").kept == 1
    lake.requests()
    assert table.plan("x = 5").kept == 1
    assert lake.requests() == []


@pytest.mark.slow
def test_places_of_a_bucket_share_connections(lake: Lake) -> None:
    pruner.open_table(TABLE, storage_options=lake.options).plan("x = 1")
    # They were opened when the index was made. Once each path had its own: 11. Parallel requests may need more.
    assert lake.proxy.connections <= 3 < len(lake.proxy.requests)
