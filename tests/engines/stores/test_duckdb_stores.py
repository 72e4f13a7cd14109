"""How the options of a table's store become DuckDB secrets; httpfs itself need not be installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import StorageError
from pruner.storage.opening import open_store
from pruner_duckdb.catalog.stores import Grants, grant, scopes_of, secret_sql
from pruner_duckdb.read.folders import _folders_alike, folder_types


def test_options_become_a_secret_for_the_root_alone() -> None:
    options = {
        "aws_access_key_id": "me",
        "AWS_SECRET_ACCESS_KEY": "it's",
        "region": "eu-1",
        "endpoint": "http://store:9000",
        "allow_http": "true",
    }
    name, text = secret_sql("s3://lake/flights/", options, {})
    assert text.startswith(f"CREATE TEMPORARY SECRET IF NOT EXISTS {name} (")
    assert text.split(" (", 1)[1] == (
        "TYPE s3, SCOPE 's3://lake/flights/', USE_SSL false, URL_STYLE 'path', "
        "ENDPOINT 'store:9000', KEY_ID 'me', REGION 'eu-1', SECRET 'it''s')"
    )


def test_other_options_and_roots_are_other_secrets() -> None:
    names = {
        secret_sql(root, options, {})[0]
        for root in ("s3://a/t", "s3://b/t")
        for options in ({"region": "x"}, {"region": "y"}, {})
    }
    assert len(names) == 6


def _values(options: dict[str, str], environment: dict[str, str]) -> set[str]:
    text = secret_sql("s3://lake/t/", options, environment)[1].partition(" (")[2].removesuffix(")")
    return set(text.split(", ")) - {"TYPE s3", "SCOPE 's3://lake/t/'"}


def test_what_options_leave_open_comes_from_the_environment_as_it_is_then() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "",
        "AWS_REGION": "eu-1",
        "AWS_ENDPOINT_URL": "http://store",
        "aws_default_region": "of nobody",
    }
    place = {"ENDPOINT 'store'", "USE_SSL false", "URL_STYLE 'path'"}
    assert _values({"region": "us-1"}, environment) == place | {
        "KEY_ID 'me'",
        "SECRET 'secret'",
        "REGION 'us-1'",
    }
    assert {"KEY_ID 'you'", "SESSION_TOKEN 'x'"} <= _values(
        {"access_key_id": "you"}, environment | {"AWS_TOKEN": "x"}
    )
    # Two names for one option: the S3-specific one wins, as in pruner's own client.
    other = {"endpoint": "https://a", "endpoint_url_s3": "https://b"}
    assert _values(other, {}) == {"ENDPOINT 'b'", "USE_SSL true", "URL_STYLE 'path'"}


def test_what_is_read_without_a_signature_has_no_key_of_the_environment() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "x"}
    found = _values({"skip_signature": "true", "region": "eu-1"}, environment)
    assert found == {"KEY_ID ''", "SECRET ''", "SESSION_TOKEN ''", "REGION 'eu-1'"}


def _snapshot(root: str, *files: str | None) -> Any:
    columns = pa.table({"base_file": pa.array(files, pa.string())})
    return SimpleNamespace(root=root, columns=columns, column=columns.column)


def test_scopes_hold_the_files_of_a_table_and_no_neighbours() -> None:
    root = "s3://lake/t"
    assert scopes_of(_snapshot("/data/t", "/data/t/0.parquet")) == []
    assert scopes_of(_snapshot(root)) == [f"{root}/"]
    assert scopes_of(_snapshot(root, f"{root}/a=1/0.parquet", None)) == [f"{root}/"]
    roots = [f"{root}2/a=1/b=%20/0.parquet", f"{root}2/a=2/b=3/0.parquet", f"{root}3/x/0=1.parquet"]
    assert scopes_of(_snapshot(root, *roots)) == [f"{root}/", f"{root}2/", f"{root}3/x/"]
    assert scopes_of(_snapshot(f"{root}/0.parquet", f"{root}/0.parquet")) == [f"{root}/0.parquet"]
    many = [f"s3://{bucket}/data/{number:02}/0.parquet" for number in range(9) for bucket in ("a", "b")]
    assert scopes_of(_snapshot(root, *many)) == [f"{root}/", "s3://a/data/", "s3://b/data/"]


def test_a_secret_that_two_threads_make_at_once_is_made_again() -> None:
    """DuckDB rejects the second one while the first has not finished."""
    asked: list[str] = []

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        asked.append(str(sql))
        if len(asked) < 3:
            raise duckdb.TransactionException("Catalog write-write conflict on create")
        return (True,)

    assert grant(ask, "t", "s3://lake/made-at-once", {"region": "x"})
    assert len(asked) == 3
    assert len(set(asked)) == 1


def test_local_roots_and_the_sessions_own_secrets_need_nothing() -> None:
    asked: list[str | duckdb.Statement] = []

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        asked.append(sql)
        return (True,)

    grant(ask, "t", "/data/t", {"region": "x"})
    grant(ask, "t", "s3://lake/t", {})
    assert asked == []


def test_a_duckdb_without_httpfs_is_refused_in_one_sentence() -> None:
    # A directory without extensions, and no installation: as on a machine without a network.
    con = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        return con.execute(sql, values).fetchall()[0]

    with pytest.raises(
        StorageError, match="table t: DuckDB cannot read s3://lake/t without its extension"
    ) as told:
        grant(ask, "t", "s3://lake/t", {"region": "eu-1"})
    assert "\n" not in str(told.value)
    with pytest.raises(StorageError, match="gs://lake/t"):
        grant(ask, "t", "gs://lake/t", {"region": "x"})


def test_a_reason_of_duckdb_s_is_quoted_whole() -> None:
    """Without a network DuckDB 2.0 opens a quotation in the first line and never closes it."""

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        raise duckdb.IOException("automatically install the required extension 'httpfs:\nFailed to download")

    with pytest.raises(
        StorageError, match=r"\(automatically install the required extension 'httpfs'\): INSTALL"
    ):
        grant(ask, "t", "s3://lake/t", {"region": "eu-1"})


def test_where_another_file_system_reads_a_store_httpfs_is_looked_for_once() -> None:
    """DuckDB looks for its extension on the network whenever it is asked for a secret, which takes seconds."""
    asked: list[str] = []
    loaded = False

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        asked.append(str(sql).split(" (")[0].split(" pruner_")[0])
        if "CREATE" in str(sql) and not loaded:
            raise duckdb.IOException("automatically install the required extension 'httpfs'")
        return (loaded,) if "duckdb_extensions" in str(sql) else (True,)

    nothing = pa.table({"base_file": pa.array([], pa.string())})
    snapshot: Any = SimpleNamespace(
        root="s3://watched/t", id="1", has_base=np.zeros(0, np.bool_), columns=nothing, column=nothing.column
    )
    table: Any = SimpleNamespace(storage_options={"region": "x"})
    other: Any = SimpleNamespace(**vars(snapshot) | {"root": "s3://watched/u"})
    grants = Grants()
    for _ in range(3):
        grants.give(ask, "t", table, snapshot)
    secret = "CREATE TEMPORARY SECRET IF NOT EXISTS"
    assert asked.count(secret) == 1
    # Another root is asked for separately, and once the extension is there, its secrets are used.
    grants.give(ask, "u", table, other)
    assert asked.count(secret) == 2
    loaded = True
    grants.give(ask, "t", table, snapshot)
    grants.give(ask, "t", table, snapshot)
    assert asked.count(secret) == 4


FOLDERS: tuple[tuple[str, ...], ...] = (
    ("k=0/c=x", "k=1/c=a%20b", "k=10/c=%C3%A9"),
    ("m=01", "m=10"),
    ("m=01", "m=02"),
    ("day=2024-01-01/c=%20", "day=2024-02-30/c=x"),
    ("day=2024-01-01/c=%20", "day=2023-11-28/c=x"),
    ("ts=2024-01-01 00%3A00%3A00", "ts=2024-01-01 10%3A00%3A00.5"),
    ("k=5/c=%20", "k=__HIVE_DEFAULT_PARTITION__/c=y", "k=-7/c=z"),
    ("k=5/c=%20", "k=123456789012345678901234567890/c=y"),
    ("c=%20/part/k=1", "c=x/other/k=2"),
    ("c=%20/k=1", "c=x/k=1.5"),
)


@pytest.mark.parametrize("folders", FOLDERS, ids="; ".join)
def test_values_of_folders_have_the_type_that_they_have_on_disk(
    tmp_path: Path, folders: tuple[str, ...]
) -> None:
    """DuckDB is not asked over stores: with an escape in any folder, numbers and days were texts, and sorted so."""
    in_store, on_disk = f"memory://folders-{tmp_path.name}/t", tmp_path / "t"
    store = open_store(in_store)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "0.parquet")
    for number, folder in enumerate(folders):
        (on_disk / folder).mkdir(parents=True)
        shutil.copy(tmp_path / "0.parquet", on_disk / folder / f"{number}.parquet")
        store.put_new(f"{folder}/{number}.parquet", (tmp_path / "0.parquet").read_bytes())
    types = [
        folder_types(pruner.open_table(root).snapshot().data, duckdb.connect())
        for root in (in_store, on_disk)
    ]
    assert types[0] == types[1] != {}


def test_few_folders_tell_the_types_of_many(tmp_path: Path) -> None:
    sure = [f"s3://lake/t/k={number}/day=2024-01-{number % 28 + 1:02}/0.parquet" for number in range(5000)]
    assert len(_folders_alike(str(tmp_path), sure)) == 4
    with pytest.raises(OSError, match="too many"):
        _folders_alike(str(tmp_path), [f"s3://lake/t/k=x{number}/0.parquet" for number in range(1001)])
    with pytest.raises(OSError, match="would be another one"):
        _folders_alike(str(tmp_path / "below"), ["s3://lake/t/../../k=1/0.parquet"])
    assert not (tmp_path / "k=1").exists()
