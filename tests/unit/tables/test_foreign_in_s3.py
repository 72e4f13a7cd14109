"""Tables of other formats in an S3-compatible store, where every check above a root is a request (trap D8)."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import TableError
from pruner.storage.opening import open_store
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.stores.object_store import shared_server
from tests.support.stores.proxy import Request, proxied


def content() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), sink)
    return sink.getvalue()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_d8_another_formats_table_in_s3(kind: str) -> None:
    table, options, root = FOREIGN_TABLES[kind], shared_server(), f"s3://lake/d8/{kind}"
    store = open_store(root, options)
    for path in table.data:
        store.put_new(path, content())
    for path, text in table.beside.items():
        store.put_new(path, text.encode())
    with pytest.raises(TableError, match=f"{root} is {table.what}"):
        pruner.open_table(root.replace("s3:", "s3a:") + "/", storage_options=options).plan("id = 1")
    for folder in table.folders:
        with pytest.raises(
            TableError, match=f"{root}/{folder} is a folder inside {table.name} {root}, whose"
        ):
            pruner.open_table(f"{root}/{folder}/", storage_options=options)


def test_looks_above_that_the_store_refuses_cost_a_few_requests_and_no_table() -> None:
    root = "s3://lake/d8/plain/deep/t"
    open_store(root, shared_server()).put_new("k=1/a.parquet", content())
    with proxied(shared_server()) as (options, proxy):

        def elsewhere(request: Request) -> bool:
            return not request.key.removeprefix("/lake/").startswith("d8/plain/deep/t")

        proxy.forbidden = elsewhere
        assert pruner.open_table(root, storage_options=options).plan("id = 1").total == 1
        asked = list(filter(elsewhere, proxy.requests))
    # Of each of the four folders above: `.hoodie`, `_delta_log`, `metadata`.
    assert len(asked) == 12
