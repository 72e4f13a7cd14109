"""The command line over Delta and Iceberg tables, as their own libraries write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from tests.support.iceberg.tables import IcebergLake, rows
from tests.unit.cli.conftest import Run


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """Three versions, each with ten more rows."""
    root = tmp_path / "delta"
    for number in range(3):
        deltalake.write_deltalake(
            root, pa.table({"id": list(range(number * 10, number * 10 + 10))}), mode="append"
        )
    return root


@pytest.fixture
def iceberg(tmp_path: Path) -> list[str]:
    """The metadata files of three snapshots, each with ten more rows."""
    lake = IcebergLake(tmp_path)
    table = lake.create("t")
    found: list[str] = []
    for number in range(3):
        table.append(rows(table, range(number * 10, number * 10 + 10)))
        found.append(lake.catalog.load_table("ns.t").metadata_location)
    return found


@pytest.mark.slow
def test_counts_of_the_past(run: Run, delta: Path) -> None:
    """Metadata answers for all rows; for `id % 2` the files of that version are read."""
    for version, count in enumerate((10, 20, 30)):
        past = ("--as-of", str(version))
        assert run("count", delta, *past).out.startswith(f"{count}\n")
        assert run("count", delta, "--where", "id % 2 = 1", *past).out.startswith(f"{count // 2}\n")
        assert json.loads(run("plan", delta, "--where", "id < 100", *past, "--output", "json").out)[
            "kept"
        ] == (version + 1)
    assert run("count", delta, "--as-of", "9").code == 1
    assert run("count", delta).out.startswith("30\n")


@pytest.mark.slow
def test_engines_that_read_files_alone_are_named_once(run: Run, iceberg: list[str], delta: Path) -> None:
    """They cannot read a table by field ids, or without its deleted rows; that is not their fault."""
    ran = run("doctor", iceberg[-1])
    assert "failure" not in ran.out
    assert (
        "not tried: datafusion, polars, pyarrow (read files as they are, and this table's columns" in ran.out
    )
    assert "engine duckdb: a row was read" in ran.out
    assert "engine polars: a row was read" in run("doctor", delta).out


def test_a_metadata_file_that_was_cut_off(run: Run, iceberg: list[str]) -> None:
    file = Path(iceberg[-1].removeprefix("file://"))
    file.write_bytes(file.read_bytes()[:300])
    ran = run("plan", iceberg[-1], "--where", "true")
    assert ran.code == 1
    assert f"metadata file {file.name} is damaged (Input data was truncated): restore the file" in ran.err


def test_a_file_of_a_table_is_told_whose_it_is(run: Run, iceberg: list[str], delta: Path) -> None:
    lake = Path(iceberg[-1].removeprefix("file://")).parents[1]
    for root in (lake, delta):
        file = next(root.rglob("*.parquet"))
        ran = run("plan", file, "--where", "true")
        assert ran.code == 1
        assert f"{file} is a file inside the " in ran.err
        assert f" table {root}, " in ran.err
        assert "open that table by its own root" in ran.err


@pytest.mark.slow
def test_a_query_says_what_metadata_answered(run: Run, flights: Path) -> None:
    assert run("sql", f"CREATE INDEX stats ON '{flights}' (delay)").code == 0
    ran = run("query", "SELECT count(*) FROM ev WHERE delay >= 20", "--table", f"ev={flights}")
    assert ran.err.startswith("ev: 0 of 4 files read, 0 B of ")
    assert ran.err.rstrip().endswith("; answered from metadata: 4 of 4 files")


@pytest.mark.slow
def test_counts_of_the_past_use_the_indexes_where_they_are(
    delta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pruner.open_table(delta, index_uri=str(tmp_path / "indexes"))
    table.create_index("ids", on="id", using="bitmap")
    opened: list[str] = []
    connect = pruner_duckdb.connect

    def watched(tables: dict[str, Any], **given: Any) -> Any:
        opened.append(tables["counted"]["index_uri"])
        return connect(tables, **given)

    monkeypatch.setattr(pruner_duckdb, "connect", watched)
    assert table.count("id % 2 = 1", as_of="1") == 10
    assert opened == [table.index_uri]
