"""The workers of one service share what only the worker that planned knows: reports, keys, the last plans.

They talk over Unix sockets in a folder that no other user can enter. A worker that does not answer is skipped.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Subject: TypeAlias = Literal["plan", "keys", "plans", "ready", "scan", "cancel", "asked"]
"""A past request by its plan id; the keys of a snapshot by their id; the last plans; whether plans can be made; a plan
of the catalog by its id, to be made again or forgotten; the scans that clients requested from the catalog.
"""

ANSWER_SECONDS: Final = 2.0
"""A worker that does not answer within this time is skipped."""

_QUESTION_BYTES: Final = 4096


class _Question(msgspec.Struct):
    subject: Subject
    name: str


class Siblings:
    """The other workers, seen from one of them.

    Attributes:
        number: the number of this worker, from 1.
        count: the number of workers.
    """

    def __init__(self, folder: str, number: int, count: int) -> None:
        self._folder = Path(folder)
        self.number = number
        self.count = count

    def listen(self, tell: Callable[[Subject, str], bytes | None]) -> None:
        """Answer the other workers from now on, in a thread that ends with the process; `tell` gives the answers."""
        place = self._place(self.number)
        place.unlink(missing_ok=True)  # a worker that was killed leaves its socket
        listener = Listener(str(place), "AF_UNIX", backlog=self.count)
        Thread(target=_answer, args=(listener, tell), name="pruner-siblings", daemon=True).start()

    def ask(self, subject: Subject, name: str = "") -> Iterator[bytes]:
        """Yield the answer of each other worker that has one. Called from planning threads, not from the event loop."""
        question = msgspec.json.encode(_Question(subject, name))
        for number in range(1, self.count + 1):
            told = b"" if number == self.number else self._told(number, question)
            if told:
                yield told

    def _told(self, number: int, question: bytes) -> bytes:
        try:
            with Client(str(self._place(number)), "AF_UNIX") as sibling:
                sibling.send_bytes(question)
                return sibling.recv_bytes() if sibling.poll(ANSWER_SECONDS) else b""
        except (OSError, EOFError):
            return b""  # the worker is starting, or gone

    def _place(self, number: int) -> Path:
        return self._folder / f"worker-{number}"


def _answer(listener: Listener, tell: Callable[[Subject, str], bytes | None]) -> None:
    while True:
        try:
            with listener.accept() as asker:
                if asker.poll(ANSWER_SECONDS):
                    question = msgspec.json.decode(asker.recv_bytes(_QUESTION_BYTES), type=_Question)
                    asker.send_bytes(tell(question.subject, question.name) or b"")
        except (EOFError, msgspec.MsgspecError):
            continue  # the client went away, or is not a worker
        except OSError:
            time.sleep(0.1)  # out of descriptors, for example
