"""Random scripts through the native scan match plain DuckDB: names, types, rows, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.engines.duckdb.native_scan.native_pair import SCRIPTS_UNMOVED, NativePair, write_tables
from tests.engines.duckdb.random.random_scripts import script
from tests.engines.duckdb.random.tape import Tape, tapes
from tests.support.duckdb.ways import has_native_scan
from tests.support.running import profiles

pytestmark = pytest.mark.skipif(
    not has_native_scan(),
    reason="the extension is not here: it is made for one version of DuckDB, for Linux, and with a C++ compiler",
)

SCRIPTS = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[NativePair]:
    pair = NativePair(write_tables(folder))
    yield pair
    pair.close()


@pytest.mark.slow
@settings(max_examples=profiles.examples(SCRIPTS))
@given(tape=tapes())
def test_scripts_come_to_what_plain_duckdb_makes_of_them(pair: NativePair, folder: Path, tape: Tape) -> None:
    if pair.seen["scripts"] % SCRIPTS_UNMOVED == 0:
        pair.move(pair.seen["scripts"])
    told = pair.difference(script(tape, str(folder)))
    assert told is None, told


@pytest.mark.slow
def test_the_scripts_do_prune(pair: NativePair, record_property: Callable[[str, object], None]) -> None:
    """Guards the property above against passing because nothing is ever left out, or nothing ever runs."""
    seen = pair.seen
    record_property("figure", f"random scripts with the native scan: {dict(seen)}")
    assert seen["scripts"] >= 0.9 * profiles.examples(SCRIPTS), seen
    assert seen["prune"] > 0.3 * seen["scripts"], seen
    assert seen["have rows"] > 0.3 * seen["statements"], seen
    assert seen["fail alike"] < 0.15 * seen["statements"], seen
    assert seen["not planned"] < 0.05 * seen["scripts"], seen
