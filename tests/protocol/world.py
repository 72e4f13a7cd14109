"""A store that many simulated processes share: its clock, its objects, and everything that may go wrong with requests.

Only one process runs at a time. Each call to the store is a point at which another one may continue, the process may
be killed, or the network may lose a request, lose an answer, repeat a request or deliver it late. A seed decides, so a
run can be repeated.
"""

from __future__ import annotations

import random
import threading
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pruner.errors import StorageError
from pruner.storage.store import NotFoundError, ObjectInfo, Store, check_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")

SECOND = 10**9
DAY = 24 * 3600 * SECOND


class Killed(BaseException):
    """The process is gone; no handler of the code under test may treat it as an error."""


@dataclass(frozen=True)
class Weather:
    """The faults of a run: their chances at each call to the store, in the order of their harm.

    `torn` listings take two calls for the two halves of a folder, as the listing of a large folder on a disk does: of
    two objects that are created meanwhile, it may show only the later one.
    """

    switch: float = 0.5
    fault: float = 0.0
    kill: float = 0.0
    sleep: float = 0.0
    torn: bool = False


class Stored(NamedTuple):
    data: bytes
    mtime_ns: int
    serial: int


@dataclass
class World:
    """The objects of the store, its clock, and whose turn it is."""

    chance: random.Random
    weather: Weather
    objects: dict[str, Stored] = field(default_factory=dict[str, Stored])
    clock_ns: int = 1_700_000_000 * SECOND
    calls: int = 0
    calm: bool = False
    late: list[Callable[[], object]] = field(default_factory=list["Callable[[], object]"])
    written: Callable[[Any, str, bytes, int], None] | None = None
    processes: list[Process] = field(default_factory=list["Process"])

    def run(self, bodies: Sequence[Callable[[Process], None]]) -> None:
        """Run the bodies, each a process, until all of them ended; then every late request arrives."""
        self.processes = [Process(self, number, body) for number, body in enumerate(bodies)]
        for process in self.processes:
            process.thread.start()
        self._next(None).turn.release()
        for process in self.processes:
            process.thread.join()
        self.calm = True
        self.deliver(1.0)
        for process in self.processes:
            if process.failure is not None:
                raise process.failure

    def yield_turn(self, process: Process) -> None:
        """Let time pass and possibly others run before a call of this process."""
        self.calls += 1
        self.clock_ns += self.chance.randrange(2 * SECOND)
        self.deliver(0.1)
        if self.chance.random() < self.weather.sleep:
            process.asleep_until = self.calls + self.chance.randrange(300)
            self.clock_ns += self.chance.choice((60 * SECOND, DAY, 3 * DAY, 8 * DAY))
        if process.asleep_until > self.calls or self.chance.random() < self.weather.switch:
            self.hand_on(process)

    def hand_on(self, process: Process) -> None:
        """Give the turn to another process, and wait to get it back unless this one has ended."""
        following = self._next(process)
        if following is process:
            return
        following.turn.release()
        if not process.ended:
            process.turn.acquire()

    def _next(self, current: Process | None) -> Process:
        alive = [process for process in self.processes if not process.ended]
        awake = [process for process in alive if process.asleep_until <= self.calls]
        # When all sleep, the one that wakes first continues.
        candidates = awake or sorted(alive, key=lambda process: process.asleep_until)[:1]
        if not candidates and current is not None:
            return current
        return self.chance.choice(candidates)

    def deliver(self, share: float) -> None:
        """Let late requests arrive, each with this chance."""
        waiting, self.late = self.late, []
        for request in waiting:
            if self.chance.random() < share:
                request()
            else:
                self.late.append(request)


class Process:
    """One process: a thread that runs while it has the turn."""

    def __init__(self, world: World, number: int, body: Callable[[Process], None]) -> None:
        self.world = world
        self.number = number
        self.asleep_until = 0
        self.ended = False
        self.dead = False
        self.failure: BaseException | None = None
        self.operation: Any = None
        self.listed_ns = 0
        self.turn = threading.Lock()
        self.turn.acquire()
        self.thread = threading.Thread(target=self._run, args=(body,), daemon=True)
        self.store = SimulatedStore(world, self)

    def _run(self, body: Callable[[Process], None]) -> None:
        self.turn.acquire()
        try:
            body(self)
        except Killed:
            pass
        except BaseException as failure:
            self.failure = failure
        self.ended = True
        self.world.hand_on(self)


class SimulatedStore(Store):
    """The shared objects as one process accesses them."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__("simulated://table.pruner")
        self._world = world
        self._process = process

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object: see `Store.get`."""
        data = self._call(lambda: self._found(path), reads=True).data
        if len(data) > max_bytes:
            raise StorageError(f"{path} is larger than the {max_bytes} bytes that are allowed")
        return data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some ranges of an object: see `Store.get_ranges`."""
        data = self._call(lambda: self._found(path), reads=True).data
        found = [data[start : start + length] for start, length in ranges]
        if [len(piece) for piece in found] != [length for _, length in ranges]:
            raise StorageError(f"{path} is shorter than requested")
        return found

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object unless it exists: see `Store.put_if_absent`."""
        return self._call(self._put(check_path(path), data, absent=True))

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a name of its own: see `Store.put_new`."""
        self._call(self._put(check_path(path), data, absent=False))

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        found = self._call(lambda: self._info(path) if path in self._world.objects else None, reads=True)
        self._process.listed_ns = self._world.clock_ns
        return found

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        start = f"{prefix}/" if prefix else ""

        def listed(halves: tuple[int, ...]) -> list[ObjectInfo]:
            return [
                self._info(path)
                for path in sorted(self._world.objects)
                if path.startswith(start)
                and (after is None or path > after)
                and zlib.crc32(path.encode()) % 2 in halves
            ]

        found = self._call(partial(listed, (0,) if self._world.weather.torn else (0, 1)), reads=True)
        self._process.listed_ns = self._world.clock_ns
        if self._world.weather.torn:
            found += self._call(partial(listed, (1,)), reads=True)
        return sorted(found)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects one by one, like a batch that may be cut off: see `Store.delete`."""
        for path in [check_path(path) for path in paths]:
            self._call(lambda path=path: self._remove(path))

    def remove_empty_folders(self) -> None:
        """No-op: there are no folders."""

    def _call(self, effect: Callable[[], _T], *, reads: bool = False) -> _T:
        world, process = self._world, self._process
        if process.dead:
            raise Killed
        if world.calm:
            return effect()
        world.yield_turn(process)
        self._killed()
        if world.chance.random() < world.weather.fault:
            return self._fault(effect, reads)
        answer = effect()
        self._killed()
        return answer

    def _killed(self) -> None:
        if self._world.chance.random() < self._world.weather.kill:
            self._process.dead = True
            raise Killed

    def _fault(self, effect: Callable[[], _T], reads: bool) -> _T:
        kinds = ("refused",) if reads else ("refused", "answer lost", "repeated", "late")
        kind = self._world.chance.choice(kinds)
        if kind == "late":
            self._world.late.append(effect)
        elif kind == "answer lost":
            effect()
        elif kind == "repeated":
            effect()
            return effect()
        raise StorageError(f"the connection broke ({kind})")

    def _found(self, path: str) -> Stored:
        stored = self._world.objects.get(path)
        if stored is None:
            raise NotFoundError(f"{path} does not exist")
        return stored

    def _put(self, path: str, data: bytes, *, absent: bool) -> Callable[[], bool]:
        """The effect of a request to put an object when it arrives, which may be long after the process sent it."""
        world, operation, listed_ns = self._world, self._process.operation, self._process.listed_ns

        def arrive() -> bool:
            if absent and path in world.objects:
                return False
            world.objects[path] = Stored(data, world.clock_ns, world.calls)
            if world.written is not None:
                world.written(operation, path, data, world.clock_ns - listed_ns)
            return True

        return arrive

    def _remove(self, path: str) -> None:
        self._world.objects.pop(path, None)

    def _info(self, path: str) -> ObjectInfo:
        stored = self._world.objects[path]
        return ObjectInfo(path, len(stored.data), stored.mtime_ns, f"{stored.serial}-{len(stored.data)}")
