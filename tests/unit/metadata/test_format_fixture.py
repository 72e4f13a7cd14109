"""A table and its metadata table as the first version of the format wrote them: every later version opens
them unchanged.

The fixture is `cow_types_v9` of tests/support/hudi/catalog.py (without checksum files) after
`create_index("everything", on="*")` and `create_index("fares", on=["fare", "day"])`. It is never regenerated.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pruner

FIXTURE = Path(__file__).parents[2] / "fixtures" / "format1"


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    shutil.copytree(FIXTURE, tmp_path / "lake")
    return pruner.open_table(str(tmp_path / "lake" / "trips"))


def test_it_opens_with_all_its_coverage(table: pruner.Table) -> None:
    status = table.status()
    assert [(index.name, index.using, index.covered, index.usable) for index in status.indexes] == [
        ("everything", "column_stats", 4, True),
        ("fares", "column_stats", 4, True),
    ]
    assert status.fallbacks == ()
    assert table.verify() == []
    assert table.refresh(dry_run=True).files == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        ("id < 3", 1),
        ("fare > 1e6", 2),
        ("day = DATE '2024-01-02'", 0),
        ("big = -5", 2),
        ("big > 9007199254740992", 2),
        ("flag IS NULL", 2),
        ("price < 0", 2),
        ("place.zip = 1 OR id = 10", 3),
        ("city = 'oslo'", 0),
        ("true", 4),
    ],
)
def test_its_records_still_prune(table: pruner.Table, predicate: str, kept: int) -> None:
    plan = table.plan(predicate)
    assert (plan.kept, plan.total) == (kept, 4)


def test_it_is_written_on(table: pruner.Table) -> None:
    assert table.drop_index("fares")
    table.create_index("prices", on="price")
    assert [index.name for index in table.indexes()] == ["everything", "prices"]
    assert table.plan("price < 0").kept == 2
