"""Hudi's own indexes after many commits: archived timelines, and a metadata table whose old files a cleaner deleted.

`test_hudi_metadata.py` checks that random predicates lose no row, and that every record is what Hudi reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
from tests.support.hudi.archived import BUILDERS, COMMITS, tables
from tests.support.hudi.timeline import completed, table_version
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def archived(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The tables; read-only."""
    return tables(start_session)


@pytest.mark.parametrize("name", BUILDERS)
def test_they_are_what_their_names_say(name: str, archived: KeptTables) -> None:
    path = archived.path(name)
    metadata = path / ".hoodie" / "metadata"
    assert table_version(metadata) == table_version(path) == int(name[-1])
    for root, most in ((path, COMMITS), (metadata, 2 * COMMITS)):
        assert len(completed(root, "commit", "deltacommit")) < most, "the others are archived"
        old = [
            file
            for place in (root / ".hoodie", root / ".hoodie" / "timeline")
            for folder in ("history", "archived")
            for file in (place / folder).glob(".commits_.archive*" if int(name[-1]) < 8 else "*.parquet")
        ]
        assert old, "they are where Hudi archives to"
    assert completed(metadata, "clean"), "the metadata table was cleaned"
    bases = [file.name.partition("_")[0] for file in (metadata / "column_stats").glob("*.hfile")]
    assert max(map(bases.count, bases)) <= 2, "compactions made more"


@pytest.mark.parametrize("name", ["cow_archived_v6", "cow_archived_v9"])
def test_each_record_key_leads_to_its_file(name: str, archived: KeptTables, tmp_path: Path) -> None:
    """The record index is believed: counting its keys needs no archived commit."""
    path = archived.path(name)
    pinned = pruner.open_table(path, index_uri=str(tmp_path / "index")).snapshot()
    rows: Any = duckdb.sql(
        "SELECT _hoodie_record_key, split_part(_hoodie_file_name, '_', 1) "
        f"FROM '{path.with_name('rows.parquet')}/*.parquet'"
    )
    found = rows.fetchall()
    assert len(found) >= 12
    for key, group in found:
        plan = pinned.plan(f"_hoodie_record_key = '{key}'")
        assert [entry.file_id for entry in plan.slices] == [group]
    assert "hudi.record_index" in pinned.plan(f"_hoodie_record_key = '{found[0][0]}'").explain()
