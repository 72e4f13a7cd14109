"""The location of a change feed: a folder of events about files, which writers add and processes read.

Readers track by themselves what they have read, so any number of them can read one feed, without acknowledgments.
Event files may be deleted once every reader has listed the table since (docs/feed.md).

Events about files, as sent by stores, queues and writer hooks: they name the paths that must be checked again.

Only paths are taken from an event. The store is asked for their current state, so the order of events, their number
and what they say happened do not matter. An event that cannot be parsed is an error, never an event about nothing.
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
"""Key of the version in `pruner notify` events."""

NOTIFY_VERSION: Final = 1

_MOST_NESTED: Final = 8
"""A queue message that wraps a topic message that wraps records is five levels deep."""


class EventError(ValueError):
    """An event that cannot be parsed; the text continues a sentence that begins with the file."""


class Named(NamedTuple):
    """A path that an event names: a key in a bucket, or without a bucket what a writer hook named."""

    bucket: str | None
    path: str


def event_of(paths: list[str]) -> bytes:
    """Return the event that reports additions or removals at these paths."""
    return msgspec.json.encode({NOTIFY_KEY: NOTIFY_VERSION, "paths": paths})


def named_in(data: bytes) -> list[Named]:
    """Return the paths that an event file names: one JSON document, or one per line.

    Raises:
        EventError: something in it cannot be parsed.
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
    """Add the paths that a document names, whatever queue or topic wrapped it."""
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
    """The content of a message: records, queue messages (SQS) or a topic message (SNS); None for an event itself."""
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
    """The paths in one event of pruner, of S3 (or a compatible store such as MinIO), or of EventBridge."""
    if event.get(NOTIFY_KEY) == NOTIFY_VERSION:
        paths = event.get("paths")
        if isinstance(paths, list) and all(isinstance(path, str) for path in cast("list[object]", paths)):
            return [Named(None, path) for path in cast("list[str]", paths)]
    elif "s3" in event:
        bucket, key = _bucket_and_key(event["s3"])
        return [Named(bucket, unquote_plus(key, errors="strict"))]
    elif event.get("source") == "aws.s3":
        return [Named(*_bucket_and_key(event.get("detail")))]  # EventBridge does not encode keys
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
"""Concurrent requests to a store for one listing."""


class DoubtError(Exception):
    """The feed cannot be relied on for this listing; the text says why."""


class FeedSettings(NamedTuple):
    """The location of a table's feed, and after how many seconds a full listing confirms it."""

    uri: str
    confirm_after: float = FEED_CONFIRM_SECONDS


class _Version(NamedTuple):
    """The version of an event file. A file that is appended to keeps its `origin`."""

    stamp: str
    size: int
    origin: object


class FeedListing(NamedTuple):
    """A listing of the feed: the version of each event file, and which of them may still change unnoticed."""

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
            # A user who misspells its location must not wait for events that never come.
            raise DoubtError(
                f"the change feed {self.uri} holds no events: let the writers call pruner notify"
            )
        young = frozenset(str(fact[0]) for fact in facts if self._lister.young(fact, now))
        return FeedListing({str(fact[0]): self._version(fact) for fact in facts}, young)

    def news(self, seen: FeedListing) -> list[Named]:
        """Read the event files that are new or were appended to; return the paths that they name.

        Raises:
            DoubtError: one of them cannot be read or parsed, or was truncated or replaced, so that events are lost.
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
        """Mark what was listed as read: its paths were checked, or the whole table was listed after it."""
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
        # A hard link to a local file, which is how new ones appear, moves only its change time.
        stamp = self._lister.still(fact) or self._lister.version(fact)
        return _Version(stamp, int(fact[1]), fact[4] if len(fact) > 4 else stamp)


def announce(
    feed: str, roots: Sequence[str], paths: Sequence[str], storage_options: Mapping[str, str] | None = None
) -> str:
    """Add an event to a feed that reports additions or removals at paths of a table; return its name.

    Args:
        feed: the location of the feed.
        roots: those of the table.
        paths: of files or folders, below a root, or relative to the first one; "." is the whole table.
        storage_options: options of the store.

    Raises:
        TableError: a path is below no root.
        StorageError: the event cannot be written.
    """
    places = [normalize_uri(root) for root in roots]
    named = [checked_path(path, places) for path in paths]
    return add_event(feed, event_of(named), storage_options)


def add_event(feed: str, event: bytes, storage_options: Mapping[str, str] | None = None) -> str:
    """Add an event file to a feed, where it appears atomically; return its name.

    Raises:
        TableError: it cannot be parsed, or is too large.
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
    """Return a path as stored in an event: a relative one unchanged, an absolute one normalized.

    Raises:
        TableError: it is below no root.
    """
    if not path or "\0" in path:
        raise TableError(f"{path!r} is not a path of the table")
    if "://" not in path and not path.startswith(("/", "file:")):
        return path
    place = normalize_uri(path)
    if not any(is_within(place, root) for root in roots):
        raise TableError(f"{path} is not below {', '.join(roots)}: name files of the table")
    return place + "/" * (path.endswith("/") and place not in roots)
