"""Events about files, as stores, queues and the hooks of writers tell them: which places are to be looked at again.

Nothing but places is taken from an event. What is there now, the store is asked; so it does not matter in which order
events come, how often, or what they say happened. An event that is not understood is an error, never an event about
nothing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote_plus

import msgspec

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
    found: list[Named] = []
    for document in _documents(data):
        _collect(document, found, 0)
    return found


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


def _collect(value: object, found: list[Named], depth: int) -> None:
    """Add what a document names, whatever queue or topic wrapped it."""
    if depth > _MOST_NESTED:
        raise EventError("is nested too deeply")
    if isinstance(value, list):
        for each in cast("list[object]", value):
            _collect(each, found, depth + 1)
        return
    if not isinstance(value, dict):
        raise EventError("holds something that is not an event")
    event = cast("dict[str, object]", value)
    inner = _wrapped(event)
    if inner is not None:
        _collect(inner, found, depth + 1)
    elif event.get("Event") != "s3:TestEvent":  # what S3 sends once, when notifications are set up
        found += _places(event)


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
        found = msgspec.convert(about, _About)
    except msgspec.ValidationError:
        raise EventError("holds an event of S3 without bucket or key") from None
    return found.bucket.name, found.object.key


class _Bucket(msgspec.Struct):
    name: str


class _Object(msgspec.Struct):
    key: str


class _About(msgspec.Struct):
    bucket: _Bucket
    object: _Object
