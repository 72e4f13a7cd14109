"""What `pruner doctor` finds about engines: each reads a row, versions are named, and what was not tried is listed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from pruner.cli.commands import engine_probes
from pruner.plugins import BrokenPluginError
from tests.unit.cli.conftest import Run
from tests.unit.metadata.s3_server import serve


def findings(run: Run, table: object, *options: str) -> dict[str, list[tuple[str, str]]]:
    ran = run("doctor", table, *options, "--output", "json")
    found: dict[str, list[tuple[str, str]]] = {}
    for each in json.loads(ran.out)["findings"]:
        found.setdefault(each["probe"], []).append((each["level"], each["found"]))
    return found


@pytest.mark.slow
def test_each_engine_of_this_process_reads_a_row(run: Run, flights: Path) -> None:
    found = findings(run, flights)
    for engine in ("duckdb", "pyarrow", "polars", "datafusion"):
        level, sentence = found[f"engine {engine}"][-1]
        assert (level, sentence.partition(" in ")[0]) == ("ok", "a row was read")
    assert found["engine"] == [("ok", "not tried: spark, trino (it needs a session or a server)")]
    versions = found["engine duckdb"][0]
    assert versions == (
        "ok",
        f"version {duckdb.__version__} is installed (tested versions: "
        f"{', '.join(pruner_duckdb.tested_versions)}); the self-test found no problem",
    )


@pytest.mark.slow
def test_tables_read_as_one_are_not_put_down_to_an_engine(run: Run, tmp_path: Path) -> None:
    """Only one of them has the partition key, so nothing reads all columns of both."""
    for place, columns in (("events/day=1", {"id": [1], "city": ["a"]}), ("cities", {"city": ["a"]})):
        (tmp_path / "lake" / place).mkdir(parents=True)
        pq.write_table(pa.table(columns), tmp_path / "lake" / place / "0.parquet")
    found = json.loads(run("doctor", tmp_path / "lake", "--output", "json").out)["findings"]
    [reading] = [each for each in found if each["probe"] == "engine pyarrow"]
    assert (reading["level"], "lacks the key 'day'" in reading["found"]) == ("failure", True)
    assert reading["remedy"].startswith("name the columns that are read, or open each folder by itself")


@pytest.mark.slow
def test_an_engine_that_is_not_installed_is_named(
    run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine_probes.load_adapter

    def load(name: str) -> object:
        if name == "polars":
            raise BrokenPluginError("adapter 'polars' cannot be loaded") from ModuleNotFoundError("polars")
        if name == "datafusion":
            raise BrokenPluginError("adapter 'datafusion' cannot be used: it has no `engine`")
        return real(name)

    monkeypatch.setattr(engine_probes, "load_adapter", load)
    found = findings(run, flights)
    assert found["engine"][0][1].endswith("; polars (not installed)")
    assert found["engine datafusion"] == [
        ("warning", "adapter 'datafusion' cannot be used: it has no `engine`")
    ]


@pytest.mark.slow
def test_what_the_self_test_finds_is_told(run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruner_duckdb, "self_test", lambda: "plans of DuckDB 9 are not written as expected")
    monkeypatch.setattr(pruner_duckdb, "installed_version", "9.0.0")
    level, sentence = findings(run, flights)["engine duckdb"][0]
    assert level == "warning"
    assert sentence.startswith(
        "version 9.0.0 is installed (tested versions: 1.5.6, 2.0.0, 2.0.1); the self-test failed, so that statements "
        "run unpruned: plans of"
    )


@pytest.mark.slow
def test_a_file_that_an_engine_cannot_read_fails(run: Run, flights: Path) -> None:
    """Its footer is intact, so the listing and the footer probe find nothing."""
    for file in flights.glob("*.parquet"):
        data = bytearray(file.read_bytes())
        data[4:60] = b"\xff" * 56
        file.write_bytes(bytes(data))
        os.utime(file, (1_600_000_000, 1_600_000_000))
    ran = run("doctor", flights)
    assert ran.code == 1
    assert "ok       read: footer of a file with 10 rows" in ran.out
    assert "failure  engine duckdb: cannot read the table: " in ran.out
    assert "failure  engine pyarrow: cannot read the table: " in ran.out
    assert "Traceback" not in ran.out + ran.err


@pytest.mark.slow
def test_a_missing_httpfs_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB reads S3 by an extension that this environment does not have; the planner does not need it.

    It is not fetched from the network, which may have it; without a network DuckDB would wait for it.
    """
    connect = duckdb.connect

    def offline(database: str, *, config: dict[str, str], **options: bool) -> duckdb.DuckDBPyConnection:
        return connect(database, config={**config, "autoinstall_known_extensions": "false"}, **options)

    monkeypatch.setattr(duckdb, "connect", offline)
    with serve(page=1000) as (options, server):
        for number in range(3):
            content = io.BytesIO()
            pq.write_table(pa.table({"a": [number]}), content)
            server.objects[f"t/{number}.parquet"] = content.getvalue()
        given = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        found = findings(run, "s3://bucket/t", *given)
    assert found["read"][0][0] == "ok"
    for engine in ("pyarrow", "polars"):
        assert found[f"engine {engine}"][-1][0] == "ok", found
    level, sentence = found["engine duckdb"][-1]
    assert level == "failure"
    assert sentence.startswith("cannot read the table: DuckDB cannot read s3://bucket/t")
    assert sentence.count("'") % 2 == 0
    assert "without its extension httpfs" in sentence
