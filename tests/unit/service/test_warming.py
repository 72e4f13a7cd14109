"""The tables of the configuration are opened before anybody asks."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pruner.catalog.config import load
from pruner.catalog.names import Catalog
from pruner.service.warming import warm_up


def test_tables_are_opened_and_what_cannot_be_read_is_named(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One table that is not there keeps no other from being opened."""
    config_file = lake.parents[1] / "pruner.toml"
    before = config_file.read_text(encoding="utf-8")
    config_file.write_text('[tables.absent]\nuri = "lake/absent"\n' + before, encoding="utf-8")
    config = load()
    catalog = Catalog(config=config)
    with caplog.at_level(logging.INFO, logger="pruner"):
        warm_up(config, catalog).join(timeout=30)
    assert "table absent cannot be read yet" in caplog.text
    assert "table numbers is ready: 20 slices" in caplog.text
