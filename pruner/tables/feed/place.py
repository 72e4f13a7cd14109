"""The place of a change feed: a folder of events about files, to which writers add and from which processes read.

Readers keep to themselves what they have read, so any number of them reads one feed, and nobody has to acknowledge.
Event files may be deleted once every reader has listed the table since (docs/feed.md).

Events about files, as stores, queues and the hooks of writers tell them: which places are to be looked at again.

Nothing but places is taken from an event. What is there now, the store is asked; so it does not matter in which order
events come, how often, or what they say happened. An event that is not understood is an error, never an event about
nothing.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote_plus

import msgspec

from pruner.errors import PrunerError, TableError
from pruner.limits import FEED_CONFIRM_SECONDS, FEED_FILE_BYTES, FEED_FILES, FEED_NEW_BYTES
from pruner.storage.local import STAGING
from pruner.storage.opening import is_within, normalize_uri, open_store
from pruner.tables.listing.files import open_lister

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.tables.listing.files import Fact

NOTIFY_KEY: Final = "pruner_notify"
"""Key of the version in events of `pruner notify`."""

NOTIFY_VERSION: Final = 1

_MOST_NESTED: Final = 8
"""A queue's message around a topic's message around records is five deep."""


class EventError(ValueError):
    """An event that is not understood; the text goes on where it is said of which file."""


class Named(NamedTuple):
    """A place that an event names: a key of a bucket, or without a bucket what a writer's hook named."""

    bucket: str | None
    path: str


def event_of(paths: list[str]) -> bytes:
    """Return the event that says of these places that something came or went there."""
    return msgspec.json.encode({NOTIFY_KEY: NOTIFY_VERSION, "paths": paths})


def named_in(data: bytes) -> list[Named]:
    """Return the places that a file of events names: one document of JSON, or one in each line.

    Raises:
        EventError: something in it is not understood.
    """
    named: list[Named] = []
    for document in _documents(data):
        _collect(document, named, 0)
    return named


def _documents(data: bytes) -> list[Any]:
    if not data.strip():
        raise EventError("is empty")
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        pass  # not one document
    try:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError):
        raise EventError("is not JSON, or not yet whole") from None


def _collect(value: object, named: list[Named], depth: int) -> None:
    """Add what a document names, whatever queue or topic wrapped it."""
    if depth > _MOST_NESTED:
        raise EventError("is nested too deeply")
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _collect(item, named, depth + 1)
        return
    if not isinstance(value, dict):
        raise EventError("holds something that is not an event")
    event = cast("dict[str, object]", value)
    inner = _wrapped(event)
    if inner is not None:
        _collect(inner, named, depth + 1)
    elif event.get("Event") != "s3:TestEvent":  # what S3 sends once, when notifications are set up
        named += _places(event)


def _wrapped(event: dict[str, object]) -> object | None:
    """What a message carries: records, a queue's messages (SQS), a topic's message (SNS); None for an event itself."""
    for key in ("Records", "Messages", "Sns"):
        if key in event:
            return event[key]
    for key in ("Body", "body", "Message"):
        text = event.get(key)
        if isinstance(text, str):
            try:
                return msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                raise EventError("carries a message that is not JSON") from None
    return None


def _places(event: dict[str, object]) -> list[Named]:
    """The places of one event of pruner, of S3 (and what speaks like it, as MinIO does), or of EventBridge."""
    if event.get(NOTIFY_KEY) == NOTIFY_VERSION:
        paths = event.get("paths")
        if isinstance(paths, list) and all(isinstance(path, str) for path in cast("list[object]", paths)):
            return [Named(None, path) for path in cast("list[str]", paths)]
    elif "s3" in event:
        bucket, key = _bucket_and_key(event["s3"])
        return [Named(bucket, unquote_plus(key, errors="strict"))]
    elif event.get("source") == "aws.s3":
        return [Named(*_bucket_and_key(event.get("detail")))]  # EventBridge gives keys as they stand
    raise EventError("holds something that is neither an S3 event nor one of pruner notify")


def _bucket_and_key(about: object) -> tuple[str, str]:
    try:
        pointed = msgspec.convert(about, _About)
    except msgspec.ValidationError:
        raise EventError("holds an event of S3 without bucket or key") from None
    return pointed.bucket.name, pointed.object.key


class _Bucket(msgspec.Struct):
    name: str


class _Object(msgspec.Struct):
    key: str


class _About(msgspec.Struct):
    bucket: _Bucket
    object: _Object


ASKED_AT_ONCE: Final = 16
"""Requests to a store that one look makes at the same time."""


class DoubtError(Exception):
    """The feed cannot be relied on for this look; the text says why."""


class FeedSettings(NamedTuple):
    """Where a table's feed is, and after how many seconds a whole listing confirms what it said."""

    uri: str
    confirm_after: float = FEED_CONFIRM_SECONDS


class _Version(NamedTuple):
    """What tells one state of an event file from another. A file that is appended to keeps its `origin`."""

    stamp: str
    size: int
    origin: object


class FeedListing(NamedTuple):
    """What a listing of the feed found: the version of each event file, and which of them may still change unseen."""

    versions: dict[str, _Version]
    young: frozenset[str]


class Feed:
    """Reads one feed; what was `accept`ed is not read again."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = normalize_uri(uri)
        self._lister = open_lister(self.uri, storage_options)
        self._read: dict[str, _Version] = {}

    def look(self) -> FeedListing:
        """List the event files.

        Raises:
            DoubtError: they cannot be listed, there are none, or too many.
        """
        try:
            listed = list(islice(self._lister.some_facts(), FEED_FILES + 1))
        except PrunerError as error:
            raise DoubtError(f"the change feed cannot be listed: {error}") from None
        if len(listed) > FEED_FILES:
            raise DoubtError(
                f"the change feed {self.uri} holds more than {FEED_FILES:,} event files: delete those of yesterday"
            )
        now = time.time_ns()
        facts = [fact for fact in listed if not str(fact[0]).startswith(f"{STAGING}/")]
        if not facts:
            # Whoever misspells its place must not wait for events that never come.
            raise DoubtError(
                f"the change feed {self.uri} holds no events: let the writers call pruner notify"
            )
        young = frozenset(str(fact[0]) for fact in facts if self._lister.young(fact, now))
        return FeedListing({str(fact[0]): self._version(fact) for fact in facts}, young)

    def news(self, seen: FeedListing) -> list[Named]:
        """Read the event files that are new, or were appended to; return the places that they name.

        Raises:
            DoubtError: one of them cannot be read or understood, or was cut or replaced, so that events are lost.
        """
        new: list[tuple[str, int]] = []
        for path, version in seen.versions.items():
            before = self._read.get(path)
            if before == version:
                continue
            if before is not None and (version.origin != before.origin or version.size <= before.size):
                raise DoubtError(f"{self._lister.uri(path)} was cut or replaced since it was read")
            new.append((path, version.size))
        if sum(size for _, size in new) > FEED_NEW_BYTES or any(size > FEED_FILE_BYTES for _, size in new):
            raise DoubtError(
                f"new events in {self.uri} are larger than {FEED_FILE_BYTES:,} bytes each or {FEED_NEW_BYTES:,} in all"
            )
        if len(new) < 2:
            return [place for folder in new for place in self._names(folder)]
        with ThreadPoolExecutor(min(ASKED_AT_ONCE, len(new))) as threads:
            return [place for names in threads.map(self._names, new) for place in names]

    def accept(self, seen: FeedListing) -> None:
        """Take what was listed for read: its places were looked at, or the whole table was listed after it."""
        self._read = {path: version for path, version in seen.versions.items() if path not in seen.young}

    def _names(self, file: tuple[str, int]) -> list[Named]:
        path, size = file
        try:
            return named_in(self._lister.read(path, 0, size))
        except (EventError, UnicodeDecodeError) as error:
            why = error if isinstance(error, EventError) else "names a key that is not UTF-8"
            raise DoubtError(f"{self._lister.uri(path)} {why}") from None
        except (PrunerError, OSError) as error:
            raise DoubtError(f"{self._lister.uri(path)} cannot be read: {error}") from None

    def _version(self, fact: Fact) -> _Version:
        # A link to a local file, which is how new ones appear, moves its change time alone.
        stamp = self._lister.still(fact) or self._lister.version(fact)
        return _Version(stamp, int(fact[1]), fact[4] if len(fact) > 4 else stamp)


def announce(
    feed: str, roots: Sequence[str], paths: Sequence[str], storage_options: Mapping[str, str] | None = None
) -> str:
    """Add an event to a feed that says of places of a table that something came or went there; return its name.

    Args:
        feed: the place of the feed.
        roots: those of the table.
        paths: of files or folders, below a root, or relative to the first one; "." is the whole table.
        storage_options: options of the store.

    Raises:
        TableError: a path lies in no root.
        StorageError: the event cannot be written.
    """
    places = [normalize_uri(root) for root in roots]
    named = [checked_path(path, places) for path in paths]
    return add_event(feed, event_of(named), storage_options)


def add_event(feed: str, event: bytes, storage_options: Mapping[str, str] | None = None) -> str:
    """Add a file of events to a feed, which appears at once and whole; return its name.

    Raises:
        TableError: it is not understood, or too large.
        StorageError: it cannot be written.
    """
    try:
        named_in(event)
    except (EventError, UnicodeDecodeError) as error:
        raise TableError(f"the text is not a file of events: it {error}") from None
    if len(event) > FEED_FILE_BYTES:
        raise TableError(f"the events are larger than {FEED_FILE_BYTES:,} bytes: give them in parts")
    name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex}.json"
    open_store(feed, storage_options).put_if_absent(name, event)
    return name


def checked_path(path: str, roots: Sequence[str]) -> str:
    """Return a path as an event holds it: relative to the first root, or in full where it lies in another one.

    Raises:
        TableError: it lies in none of them.
    """
    if not path or "\0" in path:
        raise TableError(f"{path!r} is not a path of the table")
    if "://" not in path and not path.startswith(("/", "file:")):
        return path
    place = normalize_uri(path)
    if not any(is_within(place, root) for root in roots):
        raise TableError(f"{path} is not below {', '.join(roots)}: name files of the table")
    return place + "/" * (path.endswith("/") and place not in roots)
