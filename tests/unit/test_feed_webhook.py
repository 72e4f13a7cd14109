"""`examples/feed_webhook`: a store's event is in the feed before it is acknowledged, or not at all."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pruner
from pruner.limits import FEED_FILE_BYTES
from tests.support.parquet.tables import write_tree
from tests.support.stores.notifying import webhook

Posted = Callable[..., int]


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.fixture
def post(tmp_path: Path, feed: Path) -> Iterator[Posted]:
    """Sends a text to a receiver and returns the status of its answer."""
    root = write_tree(tmp_path / "t", "a.parquet")
    receiver = webhook().Receiver(("127.0.0.1", 0), str(root), "secret", feed=str(feed))
    thread = threading.Thread(target=receiver.serve_forever, args=(0.02,))
    thread.start()

    def send(text: str | bytes, token: str = "Bearer secret", length: str | None = None) -> int:
        data = text.encode() if isinstance(text, str) else text
        place = f"http://127.0.0.1:{receiver.server_address[1]}/"
        request = urllib.request.Request(place, data, {"Authorization": token})
        if length is not None:
            request.add_header("Content-Length", length)
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    try:
        yield send
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


def event(key: str) -> str:
    """MinIO's event for an object."""
    about = {"bucket": {"name": "lake"}, "object": {"key": key}}
    return json.dumps({"EventName": "s3:ObjectCreated:Put", "Key": f"lake/{key}", "Records": [{"s3": about}]})


def files(feed: Path) -> list[bytes]:
    return [path.read_bytes() for path in feed.glob("*.json")]


@pytest.mark.parametrize("token", ["Bearer secret", "secret"])
def test_an_event_is_in_the_feed_as_it_came(post: Posted, feed: Path, token: str) -> None:
    assert post(event("flights%2Fa.parquet"), token) == 204
    assert files(feed) == [event("flights%2Fa.parquet").encode()]


@pytest.mark.parametrize(
    ("text", "token", "status"),
    [
        (event("a"), "Bearer another", 403),
        (event("a"), "", 403),
        ("no event", "Bearer secret", 400),
        (b"\xff", "Bearer secret", 400),
        ("{}", "Bearer secret", 400),
        (" " * (FEED_FILE_BYTES + 1), "Bearer secret", 413),
        (" " * (10 * FEED_FILE_BYTES), "Bearer secret", 413),
        (" " * (10 * FEED_FILE_BYTES), "Bearer another", 403),
    ],
)
def test_what_is_no_event_or_comes_from_a_stranger_is_refused(
    post: Posted, feed: Path, text: str | bytes, token: str, status: int
) -> None:
    assert post(text, token) == status
    assert files(feed) == []


@pytest.mark.parametrize(
    "length", ["-1", "1e3", "²", "", "9" * 5000], ids=["negative", "float", "power", "none", "endless"]
)
def test_a_length_that_is_none_is_refused(post: Posted, feed: Path, length: str) -> None:
    assert post(event("a"), length=length) == 400
    assert files(feed) == []


def test_what_cannot_be_written_is_to_be_sent_again(post: Posted, feed: Path) -> None:
    feed.write_text("a file where the feed should be")
    assert post(event("a")) == 503


def test_events_are_given_by_python_as_they_came(tmp_path: Path, feed: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    text = event("flights%2Fa.parquet").encode()
    name = pruner.notify(root, feed=str(feed), events=text)
    assert (feed / name).read_bytes() == text
    with pytest.raises(pruner.TableError, match="not both"):
        pruner.notify(root, ["a.parquet"], feed=str(feed), events=text)
    with pytest.raises(pruner.TableError, match="not a file of events"):
        pruner.notify(root, feed=str(feed), events=b"")
