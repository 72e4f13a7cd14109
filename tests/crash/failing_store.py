"""A store that fails at one chosen call: the process is killed, interrupted, or given an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import TypeVar

from pruner.errors import StorageError
from pruner.storage.store import ObjectInfo, RefusedError, Store

_T = TypeVar("_T")


class Killed(BaseException):
    """The process is gone. Nothing that it still tries reaches the store."""


class How(Enum):
    """What happens at the chosen call."""

    KILLED = auto()
    """Before the call is done; dying after it is the same as dying before the next one."""
    INTERRUPTED = auto()
    """Ctrl-C during the call, which was done; clean-up may go on."""
    LOST = auto()
    """The call was done, but the answer says that it failed."""
    NOT_DONE = auto()
    FULL = auto()
    """From here on nothing can be written, until `make_room` is called."""


class FailingStore(Store):
    """Another store that fails at call number `at`, counted from 0."""

    def __init__(self, real: Store, at: int, how: How) -> None:
        super().__init__(real.uri)
        self._real = real
        self._at = at
        self._how = how
        self._broken = False
        self.calls = 0

    def make_room(self) -> None:
        """Let everything work again."""
        self._broken, self._at = False, -1

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object: see `Store.get`."""
        return self._call(lambda: self._real.get(path, max_bytes))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some ranges of an object: see `Store.get_ranges`."""
        return self._call(lambda: self._real.get_ranges(path, ranges))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object unless it exists: see `Store.put_if_absent`."""
        return self._call(lambda: self._real.put_if_absent(path, data), writes=True)

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a name of its own: see `Store.put_new`."""
        self._call(lambda: self._real.put_new(path, data), writes=True)

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        return self._call(lambda: self._real.info(path))

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        return self._call(lambda: self._real.list(prefix, after=after))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects one by one, like a batch that may be cut off: see `Store.delete`."""
        for path in list(paths):
            self._call(lambda path=path: self._real.delete([path]))

    def remove_empty_folders(self) -> None:
        """Remove empty folders: see `Store.remove_empty_folders`."""
        self._real.remove_empty_folders()

    def _call(self, effect: Callable[[], _T], *, writes: bool = False) -> _T:
        number, self.calls = self.calls, self.calls + 1
        if self._broken and self._how is How.KILLED:
            raise Killed
        if self._how is How.FULL:
            return self._while_full(effect, number, writes)
        if number != self._at:
            return effect()
        self._broken = True
        if self._how is How.KILLED:
            raise Killed
        if self._how is How.NOT_DONE:
            raise StorageError(f"the connection to {self.uri} broke")
        effect()
        if self._how is How.INTERRUPTED:
            raise KeyboardInterrupt
        raise StorageError(f"the connection to {self.uri} broke")

    def _while_full(self, effect: Callable[[], _T], number: int, writes: bool) -> _T:
        self._broken = self._broken or number == self._at
        if self._broken and writes:
            raise RefusedError(f"cannot write {self.uri}: No space left on device")
        return effect()
