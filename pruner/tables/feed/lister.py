"""Lists a table by its change feed: a listing checks what events name, and now and then everything.

An event is not trusted beyond the fact that something was added or removed at the path that it names: the store is
asked for the current state. The user who declares the feed promises that it names every change (docs/guarantee.md).
Any doubt about the feed causes a full listing, with the reason.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from pruner.errors import StorageError, TableError
from pruner.limits import FEED_NAMES
from pruner.storage.opening import normalize_uri
from pruner.storage.store import check_path
from pruner.tables.feed.place import ASKED_AT_ONCE, DoubtError
from pruner.tables.listing.files import LocalLister, StoreLister, is_hidden, is_metadata
from pruner.tables.listing.folders import ListingChanges
from pruner.tables.listing.foreign import may_show_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pruner.tables.feed.place import Feed, Named
    from pruner.tables.listing.files import Fact

LISTED_AT_ONCE: Final = 1000
"""Objects that a store returns per listing request."""

_log = logging.getLogger("pruner")


class _Confirmed(NamedTuple):
    """When the last full listing began, by the clock that stops during sleep and by the one that can be set."""

    steady: float
    wall: float


class FeedLister:
    """Lists one root like another lister, using a feed where that can be relied on: see `Lister`."""

    def __init__(self, inner: LocalLister | StoreLister, feed: Feed, confirm_after: float) -> None:
        self._inner = inner
        self._feed = feed
        self._confirm_after = confirm_after
        self._facts: list[Fact] = []
        self._confirmed: _Confirmed | None = None
        self._again: frozenset[str] = frozenset()
        self._unfinished: frozenset[str] = frozenset()
        self.changes: ListingChanges | None = None
        """The changes in the last listing that found any, the first compared with no files; None before it."""
        self.doubt: str | None = None
        """Why a listing was a full one, where something is wrong with the feed; None at the start of a listing."""

    @property
    def root(self) -> str:
        """The root: see `Lister.root`."""
        return self._inner.root

    def facts(self) -> list[Fact]:
        """List by the feed, or in full: see `Lister.facts`. The list is the same object while nothing changes."""
        seen = None
        try:
            seen = self._feed.look()
            if self._is_due() or not self._follow(self._feed.news(seen)):
                self._list_whole()
        except DoubtError as doubt:
            _log.info("%s is listed whole: %s", self.root, doubt)
            self._list_whole()
            self.doubt = str(doubt)
        if seen is not None:
            self._feed.accept(seen)
        return self._facts

    def confirm(self) -> None:
        """Let the next listing be a full one."""
        self._confirmed = None

    def _is_due(self) -> bool:
        """Whether the last full listing is too old, or its age cannot be determined."""
        if self._confirmed is None:
            return True
        wall = time.time() - self._confirmed.wall
        if wall < 0:
            raise DoubtError("the clock was set back since the last whole listing")
        return max(wall, time.monotonic() - self._confirmed.steady) >= self._confirm_after

    def _list_whole(self) -> None:
        # Nothing is confirmed until the listing is done: one that fails is repeated.
        self._confirmed = None
        began = _Confirmed(time.monotonic(), time.time())
        facts = sorted(self._inner.facts())
        if facts != self._facts:
            earlier, later = set(self._facts), set(facts)
            self.changes = ListingChanges(self._facts, list(earlier - later), list(later - earlier))
            self._facts = facts
        self._again = self._unsettled(facts)
        self._confirmed = began

    def _follow(self, named: Sequence[Named]) -> bool:
        """Check the named paths and update their facts; False where a full listing is faster."""
        places = {path for each in named if (path := self._below(each)) is not None}
        places |= self._again | self._unfinished
        if self._is_dear(len(places)):
            return False
        try:
            if len(places) > 1 and isinstance(self._inner, StoreLister):
                with ThreadPoolExecutor(min(ASKED_AT_ONCE, len(places))) as threads:
                    changes = list(threads.map(self._at, places))
            else:
                changes = [self._at(place) for place in places]
        except (TableError, StorageError) as error:
            raise DoubtError(f"what the change feed names cannot be checked: {error}") from None
        gone = set(chain.from_iterable(before for before, _ in changes))
        come = set(chain.from_iterable(now for _, now in changes))
        # A file and a folder that holds it may both be named, and are then checked at two points in time.
        if len({fact[0] for fact in come}) < len(come):
            raise DoubtError("files changed while they were checked")
        self._again = self._unsettled(come)
        if gone != come:
            self._patch(gone - come, come - gone)
        return True

    def _is_dear(self, count: int) -> bool:
        """Whether a full listing takes fewer rounds than individual checks."""
        rounds = -(-count // ASKED_AT_ONCE)
        pages = -(-len(self._facts) // LISTED_AT_ONCE)
        return count > FEED_NAMES or (isinstance(self._inner, StoreLister) and rounds > max(1, pages))

    def _patch(self, gone: set[Fact], come: set[Fact]) -> None:
        # Whole runs are copied: there can be millions of facts, and few of them change. A removal comes before its
        # replacement.
        since = self._facts
        facts: list[Fact] = []
        at = 0
        steps = [(str(fact[0]), False, fact) for fact in gone] + [(str(fact[0]), True, fact) for fact in come]
        for path, comes, fact in sorted(steps, key=lambda step: step[:2]):
            place = bisect_left(since, path, at, key=_path)
            facts += since[at:place]
            at = place if comes else place + 1
            if comes:
                facts.append(fact)
        self._facts = facts + since[at:]
        self.changes = ListingChanges(since, list(gone), list(come))

    def _below(self, named: Named) -> str | None:
        """Return the path of a named file or folder below the root; None where it is not part of the table's data."""
        path = self._relative(named)
        if path is None:
            return None
        bare = path.rstrip("/")
        if bare in ("", "."):
            raise DoubtError("an event names the whole table")
        try:
            parts = check_path(bare).split("/")
        except StorageError:
            raise DoubtError(f"an event names {path!r}, which cannot be checked by itself") from None
        if any(map(may_show_format, parts)):
            raise DoubtError(f"an event names {path!r}, by which the kind of the table could be another one")
        if any(is_hidden(part) or is_metadata(part) for part in parts):
            return None
        return f"{bare}/" if named.path.endswith("/") else bare

    def _relative(self, named: Named) -> str | None:
        root = self.root
        if named.bucket is None:
            if "://" not in named.path and not named.path.startswith(("/", "file:")):
                return named.path
            try:
                place = normalize_uri(named.path)
            except StorageError:
                raise DoubtError(f"an event names {named.path!r}, which is not a location") from None
        elif root.startswith("/"):
            raise DoubtError(f"an event names an object of the bucket {named.bucket}, and {root} is a folder")
        else:
            place = f"{root.partition('://')[0]}://{named.bucket}/{named.path}"
        place = place.rstrip("/") or "/"
        if place == root:
            return "."
        if named.bucket is None and root.startswith(place.rstrip("/") + "/"):
            raise DoubtError(f"an event names {place}, in which the table lies")
        prefix = root.rstrip("/") + "/"
        return place.removeprefix(prefix) if place.startswith(prefix) else None

    def _at(self, place: str) -> tuple[list[Fact], list[Fact]]:
        """The facts of a file and of all below a folder of that name: those of the last listing, and the current ones.

        In a store there can be both. Some stores and writers mark a folder with an empty object.
        """
        path = place.rstrip("/")
        before = self._known(path)
        file = self._inner.fact_at(path)
        now = [] if file is None else [file]
        may_be_folder = file is None or file[1] == 0 or place.endswith("/")
        if may_be_folder or any(fact[0] != path for fact in before):
            now += self._inner.facts_below(f"{path}/")
        return before, now

    def _known(self, place: str) -> list[Fact]:
        facts = self._facts
        at = bisect_left(facts, (place,))
        file = facts[at : at + 1] if at < len(facts) and facts[at][0] == place else []
        # "0" sorts right after "/".
        return file + facts[bisect_left(facts, (f"{place}/",)) : bisect_left(facts, (f"{place}0",))]

    def _unsettled(self, facts: Iterable[Fact]) -> frozenset[str]:
        """Files of which another write may not show yet (R4), or that a writer has only begun: checked again."""
        now = time.time_ns()
        local = isinstance(self._inner, LocalLister)
        young = self._inner.young
        return frozenset(str(fact[0]) for fact in facts if young(fact, now) or (local and fact[1] == 0))

    def some_facts(self) -> Iterator[Fact]:
        """Yield facts as they are found: see `Lister.some_facts`."""
        return self._inner.some_facts()

    def version(self, fact: Fact) -> str:
        """Return the version: see `Lister.version`."""
        return self._inner.version(fact)

    def young(self, fact: Fact, now_ns: int) -> int:
        """Return the time to wait: see `Lister.young`."""
        return self._inner.young(fact, now_ns)

    def still(self, fact: Fact) -> str | None:
        """Return what harmless changes leave unchanged: see `Lister.still`."""
        return self._inner.still(fact)

    def fingerprint(self, fact: Fact) -> bytes | None:
        """Return the fingerprint: see `Lister.fingerprint`."""
        return self._inner.fingerprint(fact)

    def unfinished(self, paths: Iterable[str]) -> None:
        """Check these local files in every listing: see `Lister.unfinished`. Objects appear whole."""
        listed = frozenset(paths)
        self._inner.unfinished(listed)
        self._unfinished = listed if isinstance(self._inner, LocalLister) else frozenset()

    def read(self, path: str, start: int, length: int) -> bytes:
        """Read from a file: see `Lister.read`."""
        return self._inner.read(path, start, length)

    def uri(self, path: str) -> str:
        """Return the file's URI: see `Lister.uri`."""
        return self._inner.uri(path)


def _path(fact: Fact) -> str:
    return str(fact[0])
