"""Makes small tables go the way of large ones: bitmaps in pages of a few records, each read when it is asked for."""

from __future__ import annotations

import pytest

from pruner.evidence import loading
from pruner.indexes import partition_stats
from pruner.metadata import pages
from pruner.planning import row_level


def page_everything(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    """Write and read every bitmap in pages of so many records, however much there is to save."""
    monkeypatch.setattr(pages, "PAGE_RECORDS", records)
    monkeypatch.setattr(partition_stats, "PAGED_FROM", 1)
    monkeypatch.setattr(loading, "WHOLE_RECORDS", 0)
    monkeypatch.setattr(row_level, "WORTH_READING", float("inf"))
