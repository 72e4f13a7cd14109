"""What simulated processes did, and whether it is equivalent to a serial order (R9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pruner.metadata import MetadataTable, log
from pruner.metadata.receipts import COMMITTED_WITHIN_SECONDS, GRACE_SECONDS
from tests.protocol.world import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pruner.metadata import State
    from tests.protocol.world import World


class Known(NamedTuple):
    """The content of a state: the UUIDs of its indexes, and the ids of its segments."""

    indexes: frozenset[str]
    segments: frozenset[str]


NOTHING = Known(frozenset(), frozenset())


@dataclass(eq=False)
class Operation:
    """One operation of one process, from one call to the store to another.

    `outcome` is "done", "refused" (it reports that it changed nothing), "unknown" (it reports that), or None when the
    process was killed. `effect` is what it makes of a state, `commit` the commit that was reported to it as done or
    that it read, `looked_ns` how long a reader took to find its state, `lost_ns` how long after it began that it
    missed a segment.
    """

    kind: str
    begun: int
    ended: int | None = None
    outcome: str | None = None
    effect: Callable[[Known], Known] | None = None
    commit: str | None = None
    says: str = ""
    looked_ns: int = 0
    lost_ns: int | None = None


class Entry(NamedTuple):
    """A log entry that was put at some time, whether it still exists or not."""

    operation: Operation
    state: State
    checksum: str
    waited_ns: int


@dataclass
class History:
    """All operations and all log entries of one run."""

    world: World
    operations: list[Operation] = field(default_factory=list[Operation])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])

    def written(self, operation: Operation, path: str, data: bytes, waited_ns: int) -> None:
        """Record a log entry that the store now has, and how long after its writer's last check."""
        version = log.version_of(path)
        if version is not None:
            state, checksum = log.decode(data, version, path)
            self.entries[checksum] = Entry(operation, state, checksum, waited_ns)

    @property
    def held_up(self) -> bool:
        """Whether a writer was held up for a day or more between checking its segments and committing.

        That is the one case in which a vacuum may remove committed data (`grace.COMMITTED_WITHIN_SECONDS`).
        """
        margin_ns = (GRACE_SECONDS - COMMITTED_WITHIN_SECONDS) * SECOND
        return any(entry.waited_ns > margin_ns for entry in self.entries.values())

    def problems(self, table: MetadataTable) -> Iterator[str]:
        """Yield one sentence for each way in which the run does not match a serial order of its operations."""
        newest = table.state()
        chain = list(self._chain(newest))
        yield from self._breaks(chain)
        yield from self._untold(chain)
        yield from self._out_of_order(chain)
        yield from self._wrong_effects(chain)
        yield from self._wrong_reads(chain)
        for entry in newest.stored():
            if entry.path not in self.world.objects and not self.held_up:
                yield f"version {newest.version} names {entry.path}, which is gone"

    def _chain(self, newest: State) -> Iterator[Entry]:
        """The entries from the newest back to the first."""
        checksum = log.checksum_of_state(newest) if newest.version else None
        while checksum is not None and checksum in self.entries:
            yield self.entries[checksum]
            checksum = self.entries[checksum].state.parent

    def _breaks(self, chain: list[Entry]) -> Iterator[str]:
        versions = [entry.state.version for entry in chain]
        if versions != list(range(len(chain), 0, -1)):
            yield f"the log is no chain down to the first entry: {versions}"

    def _untold(self, chain: list[Entry]) -> Iterator[str]:
        """Operations reported as done that are not, or the reverse, or that were done twice, or came back."""
        times = dict.fromkeys(self.operations, 0)
        for entry in chain:
            times[entry.operation] += 1
        stands = {entry.state.commit for entry in chain}
        for operation, count in times.items():
            if count > 1:
                yield f"{operation.kind} was done {count} times"
            lost = operation.outcome == "done" and operation.effect and operation.commit not in stands
            if lost and not self._uninstalled(lambda end, of=operation: end > of.begun):
                yield f"{operation.kind} was told to be done and is lost"
            if operation.outcome == "refused" and count:
                yield f"{operation.kind} was told to have failed and stands: {operation.says}"
            if count and self._came_back(operation):
                yield f"{operation.kind} came back after an uninstall"

    def _uninstalled(self, when: Callable[[float], bool]) -> bool:
        """Tell whether some uninstall, reported as done or not, ended at such a time."""
        return any(
            when(float("inf") if each.ended is None else each.ended)
            for each in self.operations
            if each.kind == "uninstall"
        )

    def _came_back(self, operation: Operation) -> bool:
        ended = operation.ended
        return ended is not None and any(
            each.begun > ended
            for each in self.operations
            if each.kind == "uninstall" and each.outcome == "done"
        )

    def _out_of_order(self, chain: list[Entry]) -> Iterator[str]:
        """An operation that ended before another began comes before it."""
        latest_end = -1.0
        for entry in chain:  # newest first: an entry from here on must not have begun after a later one ended
            if entry.operation.begun > latest_end >= 0:
                yield f"{entry.operation.kind} began after what follows it had ended"
            ended = entry.operation.ended
            if ended is not None and entry.operation.outcome == "done":
                latest_end = ended if latest_end < 0 else min(latest_end, ended)

    def _wrong_effects(self, chain: list[Entry]) -> Iterator[str]:
        before = NOTHING
        for entry in reversed(chain):
            found = known(entry.state)
            effect = entry.operation.effect
            if effect is None or effect(before) != found:
                yield f"{entry.operation.kind} made version {entry.state.version} of something else than the one before"
            before = found

    def _wrong_reads(self, chain: list[Entry]) -> Iterator[str]:
        position = {entry.state.commit: entry.state.version for entry in chain} | {"": 0}
        for reading in self.operations:
            if not self.held_up and reading.lost_ns is not None and reading.lost_ns < GRACE_SECONDS * SECOND:
                yield f"a reader lost a segment of a state that it looked for {reading.lost_ns} ns before"
            if (
                reading.kind != "read"
                or reading.outcome != "done"
                or reading.looked_ns >= GRACE_SECONDS * SECOND
            ):
                continue  # during one listing it slept until a vacuum had removed what was newest at that time
            seen = position.get(reading.commit or "")
            if self._uninstalled(lambda end, of=reading: end > of.begun):
                continue
            if seen is None:
                yield "a reader saw a state that does not stand"
                continue
            told = [
                position.get(each.commit or "", 0)
                for each in self.operations
                if each.outcome == "done"
                and each.kind != "uninstall"
                and each.ended is not None
                and each.ended < reading.begun
            ]
            if seen < max(told, default=0):
                yield f"a reader saw version {seen}, and before it began version {max(told)} was told or seen"


def known(state: State) -> Known:
    """The content of a state, for comparison."""
    return Known(
        frozenset(definition.uuid for definition in state.definitions),
        frozenset(entry.id for entry in state.segments),
    )
