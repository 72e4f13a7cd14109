"""Events of stores in a change feed, as queues and topics wrap them."""

from __future__ import annotations

import json

import pytest

from pruner.tables.feed.place import FeedSettings, add_event, announce
from pruner.tables.listing.files import StoreLister
from pruner.tables.parquet.source import ParquetSource
from tests.support.parquet.tables import names
from tests.support.stores.feeds import in_memory, listings, put, s3_event

WRAPPINGS = {
    "S3, MinIO": lambda event: {"Records": [event]},
    "S3 by SQS, as its command line gives it": lambda event: {
        "Messages": [{"MessageId": "1", "Body": json.dumps({"Records": [event]})}]
    },
    "S3 by SNS by SQS": lambda event: {
        "Body": json.dumps({"Type": "Notification", "Message": json.dumps({"Records": [event]})})
    },
    "S3 by SQS to Lambda": lambda event: {
        "Records": [{"eventSource": "aws:sqs", "body": json.dumps({"Records": [event]})}]
    },
    "S3 by SNS to Lambda": lambda event: {
        "Records": [{"Sns": {"Message": json.dumps({"Records": [event]})}}]
    },
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_events_of_stores_are_understood_however_they_are_wrapped(wrapping: str) -> None:
    root, store = in_memory()
    bucket = root.split("/")[2]
    put(store, "a.parquet", 0)
    feed = f"memory://{bucket}/feed"
    add_event(feed, b'{"Service": "Amazon S3", "Event": "s3:TestEvent"}')
    source = ParquetSource([root], feed=FeedSettings(feed))
    source.snapshot()
    put(store, "day=1 2/ü+%.parquet", 1)
    event = WRAPPINGS[wrapping](s3_event(bucket, "lake/t/day%3D1+2/%C3%BC%2B%25.parquet"))
    add_event(feed, json.dumps(event).encode())
    with listings(StoreLister) as whole:
        assert names(source.snapshot()) == ["a.parquet", "day=1 2/ü+%.parquet"]
    assert whole == []


def test_event_bridge_gives_keys_as_they_stand() -> None:
    root, store = in_memory()
    bucket = root.split("/")[2]
    put(store, "a.parquet", 0)
    feed = f"memory://{bucket}/feed"
    announce(feed, [root], [])
    source = ParquetSource([root], feed=FeedSettings(feed))
    source.snapshot()
    put(store, "a+b.parquet", 1)
    event = {
        "source": "aws.s3",
        "detail": {"bucket": {"name": bucket}, "object": {"key": "lake/t/a+b.parquet"}},
    }
    add_event(feed, json.dumps(event).encode())
    with listings(StoreLister) as whole:
        assert names(source.snapshot()) == ["a+b.parquet", "a.parquet"]
    assert whole == []
