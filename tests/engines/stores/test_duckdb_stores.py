"""Options of a table's store on their way to DuckDB's secrets; httpfs itself need not be there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest

from pruner.errors import StorageError
from pruner_duckdb.catalog.stores import Grants, grant, secret_sql


def test_options_become_a_secret_for_the_root_alone() -> None:
    options = {
        "aws_access_key_id": "me",
        "AWS_SECRET_ACCESS_KEY": "it's",
        "region": "eu-1",
        "endpoint": "http://store:9000",
        "allow_http": "true",
    }
    text = secret_sql("s3://lake/flights", options)
    assert text.startswith("CREATE TEMPORARY SECRET IF NOT EXISTS pruner_")
    assert text.split(" (", 1)[1] == (
        "TYPE s3, SCOPE 's3://lake/flights', USE_SSL false, URL_STYLE 'path', "
        "ENDPOINT 'store:9000', KEY_ID 'me', REGION 'eu-1', SECRET 'it''s')"
    )


def test_other_options_and_roots_are_other_secrets() -> None:
    names = {
        secret_sql(root, options).split()[6]
        for root in ("s3://a/t", "s3://b/t")
        for options in ({"region": "x"}, {"region": "y"}, {})
    }
    assert len(names) == 6


def test_local_roots_and_the_sessions_own_secrets_need_nothing() -> None:
    asked: list[str | duckdb.Statement] = []

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        asked.append(sql)
        return (True,)

    grant(ask, "t", "/data/t", {"region": "x"})
    grant(ask, "t", "s3://lake/t", {})
    assert asked == []


def test_a_duckdb_without_httpfs_is_refused_in_one_sentence() -> None:
    # A place without extensions and no installing: as on a machine without a network.
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
    """Without a network DuckDB 2.0 opens a quotation in the first line and closes it nowhere."""

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        raise duckdb.IOException("automatically install the required extension 'httpfs:\nFailed to download")

    with pytest.raises(
        StorageError, match=r"\(automatically install the required extension 'httpfs'\): INSTALL"
    ):
        grant(ask, "t", "s3://lake/t", {"region": "eu-1"})


def test_where_another_file_system_reads_a_store_httpfs_is_looked_for_once() -> None:
    """DuckDB looks for its extension in the network each time that it is asked for a secret, which takes seconds."""
    asked: list[str] = []
    loaded = False

    def ask(sql: str | duckdb.Statement, values: list[object]) -> tuple[object, ...]:
        asked.append(str(sql).split(" (")[0].split(" pruner_")[0])
        if "CREATE" in str(sql) and not loaded:
            raise duckdb.IOException("automatically install the required extension 'httpfs'")
        return (loaded,) if "duckdb_extensions" in str(sql) else (True,)

    snapshot: Any = SimpleNamespace(root="s3://lake/t", has_base=np.zeros(0, np.bool_))
    table: Any = SimpleNamespace(storage_options={"region": "x"})
    other: Any = SimpleNamespace(root="s3://other/t", has_base=snapshot.has_base)
    grants = Grants()
    for _ in range(3):
        grants.give(ask, "t", table, snapshot)
    secret = "CREATE TEMPORARY SECRET IF NOT EXISTS"
    assert asked.count(secret) == 1
    # Another root is another question, and with the extension its secrets serve.
    grants.give(ask, "u", table, other)
    assert asked.count(secret) == 2
    loaded = True
    grants.give(ask, "t", table, snapshot)
    grants.give(ask, "t", table, snapshot)
    assert asked.count(secret) == 4
