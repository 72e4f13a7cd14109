"""Shared code of the tests of DuckDB's native scan."""

from __future__ import annotations

import os
import sys
from shutil import which
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.native_scan import library

COMPILER = which(os.environ.get("CXX") or "g++")
"""Without a compiler `make setup` builds no extension: there is nothing to test, and everything else works."""

NEEDS_EXTENSION = pytest.mark.skipif(
    duckdb.__version__ not in library.SERVED_VERSIONS or sys.platform != "linux" or COMPILER is None,
    reason="the extension is made for another version of DuckDB, for Linux, and with a C++ compiler",
)


def native(tables: Any, **options: Any) -> Any:
    """A connection with the native scan; asserts that it serves every table."""
    con = pruner_duckdb.connect(tables, native="on", **options)
    assert con.unserved == {}, con.unserved
    return con
