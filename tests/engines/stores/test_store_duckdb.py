"""DuckDB over a table in an S3-compatible server, in a process of its own: by httpfs, or by an own file system."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.stores.object_store import (
    FILES,
    QUESTIONS,
    ROWS,
    TABLE,
    ObjectStore,
    figure,
    object_store,
    python_of_the_store,
)
from tools.matrix import ROOT

pytestmark = pytest.mark.processes

_ASK = """
import json, os, pathlib, sys
import duckdb, pruner, pruner_duckdb

table, options, questions, way, own = json.loads(sys.stdin.read())
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
if way == "httpfs":
    packages = pathlib.Path(duckdb.__file__).parent.parent
    (extension,) = packages.glob("duckdb_extension_httpfs/**/httpfs.duckdb_extension*")
    con.execute(f"LOAD '{extension}'")
    if own is not None:
        con.execute(
            f"CREATE SECRET own (TYPE s3, KEY_ID '{own['aws_access_key_id']}', "
            f"SECRET '{own['aws_secret_access_key']}', REGION '{own['region']}', URL_STYLE 'path', USE_SSL false, "
            f"ENDPOINT '{own['endpoint'].removeprefix('http://')}')"
        )
elif way in ("file system", "store"):
    import fsspec
    from obstore.fsspec import FsspecStore, register
    config = {"aws_" + key.removeprefix("aws_"): options[key] for key in options if key != "allow_http"}
    if way == "store":
        made = FsspecStore("s3", config=config, client_options={"allow_http": True})
    else:
        register("s3")
        made = fsspec.filesystem("s3", config=config, client_options={"allow_http": True})
    con.register_filesystem(made)
con = pruner_duckdb.attach(con, {"flights": {"uri": table, "storage_options": options}})
print(json.dumps([con.sql(f"SELECT id FROM flights WHERE {each} ORDER BY id").fetchall() for each in questions]))
if way in ("file system", "store"):
    # A thread of that file system (obstore's, for asyncio) may tell a result while Python ends, which aborts it.
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.write()
        running.open().create_index("i", on=["id", "city"])
        yield running


def ask(
    options: Mapping[str, str],
    questions: list[str],
    way: str = "httpfs",
    *,
    own: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[list[int]]:
    """The ids that DuckDB finds for each question.

    Args:
        options: the table's storage options.
        questions: predicates.
        way: how DuckDB reaches the store.
        own: what a secret of the session says.
        environment: variables of the process.
    """
    run = subprocess.run(
        [python_of_the_store(), "-c", _ASK],
        input=json.dumps([TABLE, dict(options), questions, way, own and dict(own)]),
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [[row[0] for row in rows] for rows in json.loads(run.stdout)]


def test_each_question_reads_the_files_of_its_rows(
    store: ObjectStore, record_property: Callable[[str, object], None]
) -> None:
    for question, (ids, files) in QUESTIONS.items():
        store.proxy.forget()
        assert ask(store.options, [question]) == [ids]
        assert files <= (read := store.files_read())
        assert len(read) <= max(1, len(files)), "one file may be read for the schema"
    store.proxy.forget()
    ask(store.options, ["id BETWEEN 310 AND 312"])
    record_property(*figure("a process with DuckDB and a statement for one file", store.counted()))


def test_all_rows_without_a_predicate(store: ObjectStore) -> None:
    assert ask(store.options, ["true"]) == [list(range(FILES * ROWS))]


@pytest.mark.parametrize("way", ["file system", "store"])
def test_a_file_system_of_the_session_serves_where_there_is_no_httpfs(store: ObjectStore, way: str) -> None:
    store.proxy.forget()
    assert ask(store.options, ["id BETWEEN 310 AND 312"], way) == [[310, 311, 312]]
    # Whether such a store can be read is seen by the footer of the first file, for it lists nothing by pattern.
    assert store.files_read() == ({0, 3} if way == "store" else {3})
    with pytest.raises(AssertionError, match="register a file system for s3:// with this connection"):
        ask(store.options, ["true"], "nothing")


def test_relations_of_this_duckdb_stay_lazy(tmp_path: Path) -> None:
    """DuckDB 1.5 runs a relation with parameters at once: its rows are a list of VALUES from then on."""
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "0.parquet")
    code = (
        "import sys, duckdb, pruner_duckdb; con = pruner_duckdb.connect({'t': sys.argv[1]}); "
        "print(duckdb.__version__, con.sql('FROM t WHERE id > 5').limit(3).explain())"
    )
    run = subprocess.run(
        [python_of_the_store(), "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("1.5")
    assert "PARQUET" in run.stdout


def test_options_then_the_environment_count_over_secrets_of_the_session(store: ObjectStore) -> None:
    """The store accepts one key. Only a table without any options is read by what the session itself has."""
    question, ids = "id BETWEEN 310 AND 312", [310, 311, 312]
    right, names = store.options, ("aws_access_key_id", "aws_secret_access_key")
    wrong = right | dict.fromkeys(names, "another")
    without = {name: value for name, value in right.items() if name not in names}
    known = {name.upper(): right[name] for name in names}
    assert ask(right, [question], own=wrong, environment=dict.fromkeys(known, "another")) == [ids]
    assert ask(without, [question], own=wrong, environment=known) == [ids]
    place = {"AWS_ENDPOINT": right["endpoint"], "AWS_ALLOW_HTTP": "true", "AWS_REGION": right["region"]}
    assert ask({}, [question], own=right, environment=known | place) == [ids]
    with pytest.raises(AssertionError, match=r"403|InvalidAccessKeyId|Forbidden"):
        ask({}, [question], own=wrong, environment=known | place)
