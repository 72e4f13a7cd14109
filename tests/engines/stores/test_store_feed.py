"""DuckDB over a table in MinIO with a change feed that MinIO itself fills: the next statement reads what changed.

`make check-stores` runs this; moto sends no notifications to a webhook.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.stores.notifying import CONFIRM_AFTER, FEED, STEPS, NotifyingStore, notifying_store
from tests.support.stores.object_store import FILES, ROWS, TABLE, python_of_the_store
from tools.matrix import ROOT

pytestmark = pytest.mark.processes

_SESSION = """
import json, pathlib, sys
import duckdb, pruner_duckdb

table, options = json.loads(sys.stdin.readline())
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
packages = pathlib.Path(duckdb.__file__).parent.parent
(extension,) = packages.glob("duckdb_extension_httpfs/**/httpfs.duckdb_extension*")
con.execute(f"LOAD '{extension}'")
con = pruner_duckdb.attach(con, {"flights": {"uri": table, **options}})
for line in sys.stdin:
    rows = con.sql(f"SELECT id FROM flights WHERE {json.loads(line)} ORDER BY id").fetchall()
    plan = con.last_plans[-1].plan
    print(json.dumps([[row[0] for row in rows], plan.kept, plan.to_json()]), flush=True)
"""


@pytest.fixture
def told() -> Iterator[NotifyingStore]:
    with notifying_store() as running:
        running.store.open().create_index("i", on=["id", "city"])
        yield running


@contextmanager
def session(store: NotifyingStore) -> Iterator[Any]:
    """Yield a function that asks a running DuckDB process: the ids, how many files the plan kept, the plan."""
    options = {"storage_options": store.store.options, "feed": FEED, "confirm_after": CONFIRM_AFTER}
    with subprocess.Popen(
        [python_of_the_store(), "-c", _SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout

        def ask(what: object) -> Any:
            print(json.dumps(what), file=to, flush=True)
            line = back.readline()
            assert line, "the process ended"
            return json.loads(line)

        print(json.dumps([TABLE, options]), file=to, flush=True)
        try:
            yield ask
        finally:
            to.close()


def test_what_the_server_tells_is_read_by_the_next_statement(told: NotifyingStore) -> None:
    with session(told) as ask:
        ids, kept, _ = ask("id BETWEEN 310 AND 312")
        assert (ids, kept) == ([310, 311, 312], 1)
        told.listings()
        for what, change, question, expected in STEPS:
            change(told)
            ids, kept, plan = ask(question)
            assert len(ids) == expected, what
            assert "change feed" not in plan, "nothing about the feed is doubtful"
        assert told.listings() == 0, "only the feed was listed, and what it named was asked for"
        told.open().refresh()
        told.listings()
        assert ask("id BETWEEN 9010 AND 9012")[:2] == [[9010, 9011, 9012], 1], (
            "what a refresh covered is pruned"
        )
        assert told.listings() == 0


def test_what_the_server_tells_is_what_the_feed_holds(told: NotifyingStore) -> None:
    """A table of eight files: each was reported, and another writer's plans in this process know the new file, too."""
    table = told.open()
    assert table.plan("city = 'c8'", dialect="duckdb").kept == 0
    told.put("8.parquet", range(8 * ROWS, 9 * ROWS), "c8")
    plan = table.plan("city = 'c8'", dialect="duckdb")
    assert (list(plan.files), plan.total) == ([f"{TABLE}/8.parquet"], FILES + 1)
    assert sorted(set(told.told)) == [f"{number}.parquet" for number in range(FILES + 1)]
