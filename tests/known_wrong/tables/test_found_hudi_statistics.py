"""Rows that Hudi's own statistics have hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pruner
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.hudi.made_up.metadata import Stat, SyntheticMetadata

NAMES: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("low", "high", "kept", "dropped"),
    [
        ("caf\ufffd", "dog", "name < 'caf\uac00'", "name < 'caf'"),
        ("é", "ê", "name < 'é'", "name > 'ë'"),
        ("caf", "dog", "name = 'caf'", "name < 'caf'"),
        ("\U0001f600", "\U0001f601", "name < 'é'", "name > '\U0001f602'"),
    ],
)
def test_found_bytes_that_are_no_utf_8_before_the_least_text(
    low: str, high: str, kept: str, dropped: str, tmp_path: Path
) -> None:
    """Hudi turns the byte E9 into U+FFFD before it compares: Spark's row 'caf' and E9 lay below the recorded bound.

    Values of another row group can hide the replacement. The least text is then another one beyond ASCII.
    """
    table = SyntheticTable(tmp_path / "table", schema=NAMES)
    table.insert(["city=a"])
    (group,) = table.groups.values()
    SyntheticMetadata(table.root, groups=1).create(
        [Stat(group.partition, group.base, "name", low, high, values=10)]
    )
    found = pruner.open_table(str(table.root))
    semantics = pruner.Semantics(engine="spark")
    assert found.plan(kept, semantics=semantics).kept == 1
    assert found.plan(dropped, semantics=semantics).kept == 0


@pytest.mark.parametrize(("ordinal", "kept"), [(15, 0), (16, 1)])
def test_found_milliseconds_that_files_call_microseconds(ordinal: int, kept: int, tmp_path: Path) -> None:
    """Old Hudi releases labeled milliseconds as microseconds. Current ones follow the table, statistics the file.

    The rows are from 2023. Taken for microseconds they were from January 1970.
    """
    seen: Any = {
        "name": "seen",
        "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "default": None,
    }
    table = SyntheticTable(tmp_path / "table", schema={**NAMES, "fields": [seen, *NAMES["fields"]]})
    table.insert(["city=a"])
    (group,) = table.groups.values()
    low, high = 1_672_531_200_000, 1_704_067_199_000
    stat = Stat(group.partition, group.base, "seen", low, high, values=10, ordinal=ordinal)
    SyntheticMetadata(table.root, groups=1).create([stat])
    found, semantics = pruner.open_table(str(table.root)), pruner.Semantics(engine="spark", zone="UTC")
    assert found.plan("seen > TIMESTAMP '2023-06-01 00:00:00'", semantics=semantics).kept == 1
    assert found.plan("seen > TIMESTAMP '2025-01-01 00:00:00'", semantics=semantics).kept == kept
