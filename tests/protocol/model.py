"""The commit protocol as a model: every state that a few processes can reach, searched breadth first.

Two writers each write a segment and commit it in the steps of `MetadataTable.commit`: read the newest entry, check the
segment, put the next entry if it is absent, confirm. Meanwhile others commit and drop in one step, one vacuum runs in
steps, a reader reads a state and its segment later, requests get lost, answered late or not at all, writers die, and
time passes. Time is counted in halves of the grace period of a vacuum.

`problem` defines what must hold in every state. A flaw of `FLAWS` changes one rule of the protocol; the search of
`search` must then find a state in which something is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT = 2
"""Log entries that a vacuum keeps (8 in the real code; with 2, gaps appear within a few commits)."""

GRACE = 2
"""The grace period of a vacuum, in halves."""

FLAWS = (
    "no confirmation",
    "no predecessor",
    "only the predecessor",
    "unreadable successor",
    "nothing taken back",
    "silent failure",
    "own entry is a rival's",
    "unreadable rival",
    "a vanished entry is a rival's",
    "a late request never arrives",
    "segments unchecked",
    "old segments committed",
    "change made once",
    "no grace",
    "young leftovers",
    "only the newest in use",
    "the store overwrites",
    "a torn listing is believed",
)


class Scope(NamedTuple):
    """How much a search covers: each part multiplies the number of states.

    `others` are commits of others, each in one step; `ticks` are halves of the grace period that pass; `faults` are
    requests that get lost, late or unanswered, or writers that die. With `drops`, commits of others may remove all
    segments. `plain` writers commit no segment, like those that create an index. An uninstall deletes all in one step.
    """

    writers: int = 1
    others: int = 0
    ticks: int = 0
    faults: int = 0
    vacuum: bool = False
    reader: bool = False
    drops: bool = False
    plain: bool = False
    uninstall: bool = False


SCOPES = (
    Scope(writers=2, others=1, faults=2, drops=True),
    Scope(writers=1, others=3, ticks=2, faults=1, vacuum=True),
    Scope(writers=1, others=4, ticks=2, faults=1, vacuum=True, plain=True),
    Scope(writers=1, others=1, plain=True, uninstall=True),
    Scope(writers=2, others=1, ticks=2, vacuum=True),
    Scope(writers=1, others=2, ticks=3, vacuum=True, reader=True, drops=True),
)
"""The scopes searched: together they cover every process and every fault, and pairs of them at the same time."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A log entry: its maker, its parent, and its content. Equal entries are one object."""

    version: int
    maker: str
    parent: Entry | None
    content: frozenset[str]


@cache
def _entry(maker: str, parent: Entry | None, content: frozenset[str]) -> Entry:
    return Entry(parent.version + 1 if parent else 1, maker, parent, content)


class Writer(NamedTuple):
    """A writer between two of its steps. `step` is its position; the rest is what it remembers."""

    step: str = "start"
    written_at: int = 0
    base: Entry | None = None
    made: Entry | None = None
    first: frozenset[str] | None = None
    attempts: int = 0


class Vacuum(NamedTuple):
    """A vacuum: its clock at the start, then what it will delete."""

    step: str = "start"
    now: int = 0
    entries: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()


class State(NamedTuple):
    """Everything: the store, the processes, requests in flight, reported outcomes, and what may still happen.

    `log` and `segments` hold when each entry and segment was put; `wiped` entries existed at an uninstall.
    """

    left: Scope
    writers: tuple[Writer, ...]
    log: frozenset[tuple[Entry, int]] = frozenset()
    segments: frozenset[tuple[str, int]] = frozenset()
    vacuum: Vacuum = Vacuum()
    reader: tuple[int, frozenset[str]] | None = None
    late: frozenset[Entry] = frozenset()
    now: int = 0
    done: frozenset[Entry] = frozenset()
    refused: frozenset[Entry] = frozenset()
    wiped: frozenset[Entry] = frozenset()

    def newest(self) -> Entry | None:
        """The entry that a reader reads."""
        return max((entry for entry, _ in self.log), key=lambda entry: entry.version, default=None)

    def at(self, version: int) -> Entry | None:
        """The entry of a version."""
        return next((entry for entry, _ in self.log if entry.version == version), None)

    def without(self, version: int) -> State:
        """The state once the entry of a version is deleted."""
        return self._replace(log=frozenset(each for each in self.log if each[0].version != version))


def problem(state: State) -> str | None:
    """Return what is wrong in a state, or None."""
    top = state.newest()
    chain = set(_chain(top))
    if not state.done - state.wiped <= chain:
        return "a commit that was told to be done is lost"
    if state.refused & chain:
        return "a commit that was told to have failed stands"
    makers = [entry.maker for entry in chain]
    if len(set(makers)) != len(makers):
        return "a commit was made twice"
    if not state.left.plain and any(entry.content != _effect(entry.maker, entry.parent) for entry in chain):
        return "a commit was made of something else than the entry before"
    present = {name for name, _ in state.segments}
    if top is not None and not top.content <= present:
        return "the newest entry names a segment that is gone"
    if state.reader is not None and state.now - state.reader[0] < GRACE and not state.reader[1] <= present:
        return "a reader lost a segment within the grace"
    return None


def _chain(entry: Entry | None) -> Iterator[Entry]:
    while entry is not None:
        yield entry
        entry = entry.parent


def _effect(maker: str, base: Entry | None) -> frozenset[str]:
    """What a commit makes of the entry before it: writers add their segment, others add nothing or drop all."""
    before = base.content if base is not None else frozenset[str]()
    if maker.startswith("w"):
        return before | {maker}
    return frozenset() if maker.startswith("drop") else before


def steps(state: State, flaw: str | None) -> Iterator[tuple[str, State]]:
    for number in range(len(state.writers)):
        yield from _writer_steps(state, number, flaw)
    yield from _vacuum_steps(state, flaw)
    yield from _surroundings(state, flaw)


def _surroundings(state: State, flaw: str | None) -> Iterator[tuple[str, State]]:
    """What happens besides writers and vacuum: time, others' commits, a reader, late requests."""
    top, left = state.newest(), state.left
    # No writer is held up that long between check and put, and no request is in flight that long.
    held_up = bool(state.late) or any(writer.step == "put" for writer in state.writers)
    if left.ticks and not held_up:
        yield "time passes", state._replace(now=state.now + 1, left=left._replace(ticks=left.ticks - 1))
    if left.others:
        for kind in ("other", "drop") if left.drops else ("other",):
            maker = f"{kind} {left.others}"
            entry = _entry(maker, top, _effect(maker, top))
            log = state.log | {(entry, state.now)}
            yield f"{maker} commits", state._replace(log=log, left=left._replace(others=left.others - 1))
    if left.reader and top is not None and top.content:
        yield (
            "a reader reads",
            state._replace(reader=(state.now, top.content), left=left._replace(reader=False)),
        )
    if left.uninstall and state.log and not left.others:  # with one writer: see ADR 3
        left, wiped = left._replace(uninstall=False), frozenset(entry for entry, _ in state.log)
        yield "somebody uninstalls", state._replace(left=left, log=frozenset(), wiped=wiped)
    for entry in state.late:
        arrived = _put(state, entry, flaw) or state
        yield f"{entry.maker}'s late request arrives", arrived._replace(late=state.late - {entry})


def _put(state: State, entry: Entry, flaw: str | None) -> State | None:
    """The state with an entry added, or None when its position is taken."""
    if state.at(entry.version) is not None and flaw != "the store overwrites":
        return None
    return state._replace(log=state.without(entry.version).log | {(entry, state.now)})


def _fault(state: State) -> State:
    """The state with one fault fewer to come."""
    return state._replace(left=state.left._replace(faults=state.left.faults - 1))


def _writer_steps(state: State, number: int, flaw: str | None) -> Iterator[tuple[str, State]]:
    writer, name = state.writers[number], f"w{number}"
    if writer.step in ("ended", "dead"):
        return

    def after(changed: Writer, of: State = state) -> State:
        writers = tuple(changed if at == number else each for at, each in enumerate(of.writers))
        return of._replace(writers=writers)

    if writer.step == "start":
        segments = state.segments if state.left.plain else state.segments | {(name, state.now)}
        yield f"{name} writes", after(Writer("read", written_at=state.now), state._replace(segments=segments))
    elif writer.step == "read":
        yield f"{name} reads", after(writer._replace(step="check", base=state.newest()))
    elif writer.step == "check":
        yield f"{name} checks", _checked(state, writer, name, flaw, after)
    elif writer.step == "put":
        yield from _puts(state, writer, name, flaw, after)
    elif writer.step == "look":
        yield from _looks(state, writer, name, flaw, after)
    elif writer.step == "confirm":
        yield from _confirms(state, writer, name, flaw, after)
    elif writer.step == "list":
        yield (
            f"{name} goes on listing",
            after(writer._replace(step="take back" if _is_torn(state, writer) else "confirm")),
        )
    elif writer.step == "take back":
        taken = state.without(_made(writer).version)
        yield f"{name} takes back", _told(taken, writer, after, "refused")
    if state.left.faults and writer.step != "start":
        yield f"{name} dies", after(Writer("dead"), _fault(state))


def _made(writer: Writer) -> Entry:
    assert writer.made is not None
    return writer.made


def _told(state: State, writer: Writer, after: Callable[..., State], what: str) -> State:
    """The writer ends, and reports to its caller that its commit is done, has failed, or is unknown."""
    ended = after(Writer("ended"), state)
    if what == "done":
        return ended._replace(done=state.done | {_made(writer)})
    if what == "refused" and writer.made is not None:
        return ended._replace(refused=state.refused | {writer.made})
    return ended


def _checked(state: State, writer: Writer, name: str, flaw: str | None, after: Callable[..., State]) -> State:
    """The check of the segment before the commit."""
    gone = (name, writer.written_at) not in state.segments
    too_old = state.now - writer.written_at >= GRACE and flaw != "old segments committed"
    if (gone or too_old) and not state.left.plain and flaw != "segments unchecked":
        return after(Writer("ended"))
    base = writer.base
    content = _effect(name, base) - ({name} if state.left.plain else set())
    if flaw == "change made once" and writer.first is not None:
        content = writer.first
    made = _entry(name, base, content)
    return after(writer._replace(step="put", made=made, first=content))


def _puts(
    state: State, writer: Writer, name: str, flaw: str | None, after: Callable[..., State]
) -> Iterator[tuple[str, State]]:
    made = _made(writer)
    put = _put(state, made, flaw)
    if put is not None:
        yield f"{name} puts", after(writer._replace(step="confirm"), put)
    else:
        yield f"{name} finds its place taken", after(writer._replace(step="look"))
    if not state.left.faults:
        return
    faulty = _fault(put or state)
    yield f"{name} puts, unanswered", after(writer._replace(step="look", attempts=9), faulty)
    yield f"{name} puts, repeated by the client", after(writer._replace(step="look"), faulty)
    late = _fault(state)._replace(late=state.late | {made})
    yield f"{name}'s put is late", after(writer._replace(step="look", attempts=9), late)


def _looks(
    state: State, writer: Writer, name: str, flaw: str | None, after: Callable[..., State]
) -> Iterator[tuple[str, State]]:
    """Whose entry is at the position where the put met one, or had no answer (`attempts` is 9 then)?"""
    made, unanswered = _made(writer), writer.attempts == 9
    there = state.at(made.version)
    ours = there is made and flaw != "own entry is a rival's"
    again = after(writer._replace(step="read", made=None, attempts=writer.attempts + 1))
    top = state.newest()
    went_on = there is None and top is not None and top.version > made.version
    if ours:
        yield f"{name} finds its own entry", after(writer._replace(step="confirm", attempts=0))
    elif went_on and flaw != "a vanished entry is a rival's":
        yield f"{name} cannot know", _told(state, writer, after, "unknown")
    elif unanswered:
        unsure = there is None and flaw != "a late request never arrives"
        yield f"{name} gives up", _told(state, writer, after, "unknown" if unsure else "refused")
    elif writer.attempts < 2:
        yield f"{name} tries again", again
    else:
        yield f"{name} gives up", _told(state, writer, after, "refused")
    if state.left.faults:
        failed = _fault(state)
        if flaw == "unreadable rival" and not unanswered:
            yield f"{name} cannot look", again._replace(left=failed.left)
        else:
            yield f"{name} cannot look", _told(failed, writer, after, "unknown")


def _confirms(
    state: State, writer: Writer, name: str, flaw: str | None, after: Callable[..., State]
) -> Iterator[tuple[str, State]]:
    made = _made(writer)
    if flaw == "a torn listing is believed" and state.newest() is made:
        yield f"{name} begins to list", after(writer._replace(step="list"))
    answer = _stands(state, made, flaw)
    if answer == "no":
        taken = after(writer._replace(step="take back"))
        kept = _told(state, writer, after, "refused")
        yield f"{name} must not stand", kept if flaw == "nothing taken back" else taken
    else:
        yield f"{name} confirms", _told(state, writer, after, "done" if answer == "yes" else "unknown")
    if state.left.faults:
        failed = _fault(state)
        if flaw == "unreadable successor" and any(entry.version > made.version for entry, _ in state.log):
            yield f"{name} cannot read the next", after(writer._replace(step="take back"), failed)
        told = "refused" if flaw == "silent failure" else "unknown"
        yield f"{name} cannot confirm", _told(failed, writer, after, told)


def _stands(state: State, made: Entry, flaw: str | None) -> str:
    """The result of the confirmation: yes, no, or unknown."""
    own, before = state.at(made.version), state.at(made.version - 1)
    if made.parent is None and own is not made:
        own = None  # the first entry is read again; for the others, the entry before is the witness
    follows = before is made.parent
    if flaw == "no confirmation":
        return "yes"
    if flaw == "no predecessor":
        return "yes" if own is not None else "no"
    if flaw == "only the predecessor":
        return "yes" if own is not None and follows else "no"
    top = state.newest()
    newer = top is not None and top.version > made.version
    if own is None or not newer:
        return "unknown" if newer else "yes" if own is not None and follows else "no"
    successor = state.at(made.version + 1)
    return "yes" if successor is not None and successor.parent is made else "no"


def _is_torn(state: State, writer: Writer) -> bool:
    """Tell whether entries were added since a listing began, so that it can show a later one and miss the next one."""
    top = state.newest()
    return top is not None and top.version > _made(writer).version + 1


def _vacuum_steps(state: State, flaw: str | None) -> Iterator[tuple[str, State]]:
    vacuum = state.vacuum
    if not state.left.vacuum:
        return
    if vacuum.step == "start" and state.log:
        yield "a vacuum begins", state._replace(vacuum=vacuum._replace(step="list", now=state.now))
    elif vacuum.step == "list":
        yield "the vacuum lists", state._replace(vacuum=_to_delete(state, flaw))
    elif vacuum.step == "delete" and vacuum.entries:
        rest = vacuum._replace(entries=vacuum.entries[1:])
        yield "the vacuum deletes an entry", state.without(vacuum.entries[0])._replace(vacuum=rest)
    elif vacuum.step == "delete" and vacuum.segments:
        segments = frozenset(each for each in state.segments if each[0] != vacuum.segments[0])
        rest = vacuum._replace(segments=vacuum.segments[1:])
        yield "the vacuum deletes a segment", state._replace(segments=segments, vacuum=rest)
    elif vacuum.step == "delete":
        yield "the vacuum ends", state._replace(vacuum=Vacuum())


def _to_delete(state: State, flaw: str | None) -> Vacuum:
    """What `cleanup.vacuum` decides from the log and the listing."""
    limit = state.vacuum.now - (0 if flaw == "no grace" else GRACE)
    log = sorted(state.log, key=lambda each: each[0].version)
    superseded = 0
    while superseded + 1 < len(log) and log[superseded + 1][1] <= limit:
        superseded += 1
    used = log[-1:] if flaw == "only the newest in use" else log[superseded:]
    in_use = frozenset[str]().union(*(entry.content for entry, _ in used))
    if flaw == "young leftovers":
        limit = state.now
    leftovers = tuple(sorted(name for name, at in state.segments if at <= limit and name not in in_use))
    expired = log[: max(0, min(superseded, len(log) - KEPT))]
    return Vacuum("delete", state.vacuum.now, tuple(entry.version for entry, _ in expired), leftovers)
