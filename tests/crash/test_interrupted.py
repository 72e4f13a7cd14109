"""Ctrl-C before every disk change of CREATE INDEX: the message is true, and nothing is left half done."""

from __future__ import annotations

import os
import re
import signal
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pruner
from pruner.cli import main
from pruner.metadata import MetadataTable, receipts
from pruner.storage.opening import open_store
from tests.crash.builders import small_batches
from tests.crash.commands import COUNT, Made, assert_right_after, assert_sound, make
from tests.crash.dying import Fate

pytestmark = pytest.mark.processes

_FINISHED = re.compile(r"(\d+) records are finished: the next refresh takes them up")


def _create_and_stop(made: Made, place: str, step: int, said: str) -> None:
    """Run the command line, as for a terminal user who presses Ctrl-C before change number `step`."""
    small_batches()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config = Path(place).with_suffix(".toml")
    config.write_text(f"[tables.t]\nuri = '{made.root}'\nindex_uri = '{place}'\n")
    os.environ["PRUNER_CONFIG"] = str(config)
    sys.argv = ["pruner", "sql", "CREATE INDEX new ON t USING bitmap (x, s)"]
    with Path(said).open("w") as sys.stdout, Fate(step, signal.SIGINT).meeting():
        sys.stderr = sys.stdout
        main()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("lake")
    return make(folder / "t", str(folder / "made.pruner"))


def _assert_said_what_stands(said: str, table: pruner.Table) -> str:
    """Compare each clause of the message with the metadata table; return what it says of the index."""
    store = open_store(table.index_uri)
    waiting = receipts.receipts(store)
    finished = _FINISHED.search(said)
    assert (int(finished.group(1)) if finished else 0) == sum(each.indexed for each in waiting)
    state = MetadataTable(store).state()
    definition = state.definition("new")
    if "index new was not created" in said or said == "error: stopped\n":
        assert definition is None
        return "not created"
    assert definition is not None
    if "index new is defined: refresh it to go on, or drop it" in said:
        assert waiting
        assert state.segments_of(definition) == ()
        return "defined"
    assert "index new was created" in said
    assert sum(entry.rows for entry in state.segments_of(definition)) > 0
    return "created"


def _assert_nothing_is_half(place: str) -> None:
    """An interrupted process removes what it did not finish.

    One that is stopped just as it removes a second name leaves that name, which belongs to a whole file.
    """
    for staged in Path(place).glob("staging/*"):
        assert any(staged.samefile(other) for other in Path(place).glob("*/*.json"))
    for segment in Path(place).glob("*/*.pidx"):
        pq.read_metadata(segment)


@pytest.mark.usefixtures("unsynced")
def test_stopped_before_every_change(made: Made, processes: ForkServerContext, tmp_path: Path) -> None:
    step, ends = 0, set[str]()
    while True:
        place, said = made.put(str(tmp_path / f"{step}.pruner")), tmp_path / f"{step}.txt"
        process = processes.Process(target=_create_and_stop, args=(made, place, step, str(said)))
        process.start()
        process.join()
        table = made.open(place)
        assert_sound(table)
        _assert_nothing_is_half(place)
        if process.exitcode == 0:
            assert said.read_text().startswith(f"index new created: {COUNT} files indexed")
            break
        assert process.exitcode == 130, said.read_text()
        assert said.read_text().startswith("error: stopped")
        assert said.read_text().count("\n") == 1
        ends.add(_assert_said_what_stands(said.read_text(), table))
        assert_right_after("create", table)
        step += 1
    print(f"stopped before each of {step} changes")
    assert step >= 40
    assert ends == {"not created", "defined", "created"}
