"""Files are written durably here: writes wait for the disk, as they do nowhere else in `make test`."""

from __future__ import annotations

import os

import pytest

from tests.support.running import profiles


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call the real `os.fsync`, except in `make quick`."""
    if profiles.NAME != "quick":
        monkeypatch.setattr(os, "fsync", profiles.SYNC)
