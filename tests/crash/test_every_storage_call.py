"""Each command fails at each of its storage calls, one after the other: no row is lost, and a retry repairs it."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

import pruner
from pruner.errors import PrunerError
from pruner.pipeline import batches, slices
from pruner.storage.opening import open_store
from tests.crash.commands import (
    COMMANDS,
    COUNT,
    Made,
    assert_not_empty,
    assert_right_after,
    assert_sound,
    make,
)
from tests.crash.failing_store import FailingStore, How, Killed
from tests.support.running.profiles import examples

pytestmark = pytest.mark.load


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("lake") / "t", f"memory://{uuid.uuid4()}/t.pruner")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of all files has two batches, so it can end between them."""
    monkeypatch.setattr(slices, "CHUNK_SLICES", COUNT // 2)
    monkeypatch.setattr(batches, "BATCH_SLICES", COUNT // 2)


@pytest.mark.parametrize("how", How, ids=lambda how: how.name.lower())
@pytest.mark.parametrize("command", COMMANDS)
def test_a_failure_at_every_storage_call(command: str, how: How, made: Made) -> None:
    # For the other failures, every call only in a soak: where they differ from the first, most calls differ alike.
    stride = 1 if how is How.KILLED else max(1, 160 // examples(40))
    at = 0
    while True:
        place = made.put(f"memory://{uuid.uuid4()}/t.pruner")
        table = made.open(place)
        store = FailingStore(open_store(place), at, how)
        table._metadata.store = store
        ended, calls = _outcome(COMMANDS[command], table), store.calls
        after = made.open(place)
        assert_sound(after)
        if how is How.INTERRUPTED and command == "create":
            assert_not_empty(after, "new")
        if how is not How.KILLED:
            # The same process continues once there is room again.
            store.make_room()
            assert_sound(table)
            after = table
        assert_right_after(command, after)
        if ended is None and calls <= at:
            break
        at += stride
    print(f"{command}: {how.name} at every {stride}. of {at} storage calls")
    assert at >= 4


def _outcome(command: Callable[[pruner.Table], object], table: pruner.Table) -> BaseException | None:
    """How a command ended; a reported failure is one sentence."""
    try:
        command(table)
    except (Killed, KeyboardInterrupt) as ended:
        return ended
    except PrunerError as error:
        told = error
    else:
        return None
    assert 20 < len(str(told)) < 400
    assert "\n" not in str(told)
    return told
