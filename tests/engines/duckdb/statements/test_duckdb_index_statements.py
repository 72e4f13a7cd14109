"""Statements about pruner's indexes through a DuckDB connection, beside DuckDB's own with the same names."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pruner_duckdb
from pruner.errors import IndexDefinitionError, TableError
from tests.support.parquet.tables import write_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for hour in range(24):
        moments = [datetime.datetime(2024, 1, 1, hour, minute) for minute in (0, 59)]
        write_file(tmp_path / "t" / f"{hour}.parquet", ts=pa.array(moments, pa.timestamp("us")))
    return tmp_path / "t"


@pytest.mark.slow
@pytest.mark.rewriting
def test_an_index_is_made_shown_used_and_dropped(root: Path) -> None:
    con = pruner_duckdb.connect({"lake.events": str(root)})
    made = con.sql("CREATE INDEX hours ON lake.events USING bitmap (strftime(ts, '%H'));").fetchall()
    assert made == [("create", f"{root}", "hours", True, 24, 0)]
    assert con.execute("SELECT count(*) FROM lake.events WHERE strftime(ts, '%H') = '09'").fetchall() == [
        (2,)
    ]
    assert con.last_plans[-1].kept == 1
    [shown] = con.execute("SHOW INDEXES ON lake.events").fetchall()
    assert shown[:3] == ("hours", "bitmap", ["strftime(ts, '%H')"])
    assert con.sql("CREATE INDEX IF NOT EXISTS hours ON lake.events (ts)").fetchall()[0][3] is False
    assert con.sql("REFRESH INDEX hours ON lake.events").fetchall()[0][4] == 0
    assert con.sql("DROP INDEX IF EXISTS hours ON lake.events").fetchall()[0][3] is True
    assert con.sql("SHOW INDEXES ON lake.events").fetchall() == []
    assert con.execute("SELECT count(*) FROM lake.events WHERE strftime(ts, '%H') = '09'").fetchall() == [
        (2,)
    ]
    assert con.last_plans[-1].kept == 24


@pytest.mark.rewriting
def test_errors_point_at_the_token(root: Path) -> None:
    con = pruner_duckdb.connect({"events": str(root)})
    with pytest.raises(IndexDefinitionError, match=r"'foo\(ts\)'.*foo.*line 1, column 28"):
        con.execute("CREATE INDEX i ON events ( foo(ts))")
    with pytest.raises(IndexDefinitionError, match="line 1, column 31"):
        con.execute("CREATE INDEX i ON events (ts) OPTION (a = 1)")


def test_tables_of_duckdb_keep_their_own_indexes(root: Path) -> None:
    con = pruner_duckdb.connect({"events": str(root)})
    con.execute("CREATE TABLE mine (events INTEGER)")
    con.execute("CREATE INDEX own ON mine (events)")
    con.execute("DROP INDEX own")
    con.execute("CREATE TEMP TABLE events (ts INTEGER)")
    con.execute("CREATE INDEX hiding ON events (ts)")
    assert con.execute("SELECT index_name FROM duckdb_indexes()").fetchall() == [("hiding",)]
    with pytest.raises(duckdb.Error):
        con.execute("SHOW INDEXES ON events")


def test_a_table_as_of_an_instant_has_no_index_statements(root: Path) -> None:
    con = pruner_duckdb.connect({"events": {"uri": str(root), "as_of": "20240101000000000"}})
    with pytest.raises(TableError, match="as of"):
        con.execute("CREATE INDEX i ON events (ts)")
