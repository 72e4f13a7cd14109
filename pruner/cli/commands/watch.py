"""`pruner refresh --watch`: refreshes again and again, as RFC-63's asynchronous indexer follows a table."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pruner.cli.failures import complain
from pruner.errors import PrunerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    from pruner.maintenance.build import RefreshResult


class _Stopped(BaseException):
    """A signal asked the process to end. It is not an `Exception`, so that no handler of errors takes it for one."""


def follow(
    refresh: Callable[[], RefreshResult],
    say: Callable[[RefreshResult], None],
    complaints: Callable[[RefreshResult], list[str]],
    interval: float,
) -> None:
    """Refresh every `interval` seconds until SIGINT or SIGTERM comes; then return.

    Args:
        refresh: one round. What an interrupted one had finished is taken up by the next refresh.
        say: reports the first round, and each that indexed something.
        complaints: a sentence for everything that a round could not index.
        interval: pause between the end of a round and the start of the next.
    """
    said: list[str] = []
    first = True
    with _stoppable():
        try:
            while True:
                try:
                    result = refresh()
                except PrunerError as error:
                    found = [f"{error}; trying again in {interval:g} s"]
                else:
                    found = complaints(result)
                    if first or result.indexed or result.resumed:
                        say(result)
                    first = False
                # The same trouble in every round is said once.
                for sentence in found if found != said else ():
                    complain(sentence)
                said = found
                time.sleep(interval)
        except _Stopped:
            return


@contextmanager
def _stoppable() -> Generator[None]:
    """Turn the signals into an exception, which also ends a long build; the second one ends the process at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        raise _Stopped

    before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
