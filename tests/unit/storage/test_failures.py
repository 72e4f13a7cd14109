"""What users read when an object store refuses: the cause, and the remedy."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from pruner.errors import StorageError
from pruner.storage.objects import is_answer, meaning
from pruner.storage.opening import open_store
from tests.unit.metadata.s3_server import serve


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (
            404,
            "NoSuchBucket",
            "there is no such bucket or container: check its name, and the storage option endpoint",
        ),
        (403, "InvalidAccessKeyId", "the store does not know this access key"),
        (403, "SignatureDoesNotMatch", "the secret does not fit the access key"),
        (400, "ExpiredToken", "the credentials have expired: get new ones"),
        (403, "RequestTimeTooSkewed", "this machine's clock is too far from the store's"),
        (301, "PermanentRedirect", "set the storage option region"),
        (400, "AuthorizationHeaderMalformed", "set the storage option region"),
        (403, "AccessDenied", "these credentials may not do that"),
        (401, "Whatever", "the store does not accept these credentials"),
    ],
)
def test_refusals_of_a_server(status: int, code: str, sentence: str) -> None:
    with serve() as (options, server):
        server.failure = status, code
        with pytest.raises(StorageError) as caught:
            open_store("s3://bucket/x", options).list()
    message = str(caught.value)
    assert sentence in message
    assert "s3://bucket/x" in message
    assert "xml" not in message.lower()
    assert "127.0.0.1" not in message


def test_an_answer_without_a_body_is_described_by_its_status() -> None:
    with serve() as (options, server):
        server.failure = 403, "AccessDenied"
        with pytest.raises(
            StorageError, match="the store refuses to look up .*: check the credentials, and what they may do"
        ):
            open_store("s3://bucket/x", options).info("a")


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>", True),
        ("Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>", False),
        ("error sending request", False),
    ],
)
def test_a_refusal_differs_from_a_lost_answer(message: str, refused: bool) -> None:
    assert is_answer(message) is refused


def test_http_without_leave() -> None:
    with serve() as (options, _):
        del options["allow_http"]
        with pytest.raises(StorageError, match="set the storage option allow_http=true"):
            open_store("s3://bucket/x", options).list()


def test_a_forked_process_is_told_that_it_cannot_use_object_stores() -> None:
    """It waited forever, for threads that only the other process has."""
    with serve() as (options, _):
        store = open_store("s3://bucket/x", options)
        store.put_new("a", b"1")
        memory = open_store("memory://forked/x")
        with warnings.catch_warnings():
            # Python 3.12 and later warn of forks in processes with threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:  # pragma: no cover
            signal.alarm(20)
            memory.put_new("a", b"1")
            told = 0
            for each in (store, open_store("s3://bucket/x", options)):
                try:
                    each.list()
                except StorageError as error:
                    told += "was forked from one that had used object stores" in str(error)
            os._exit(10 * told + len(memory.list()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 21
        assert len(store.list()) == 1


def test_half_a_pair_of_credentials() -> None:
    with pytest.raises(StorageError, match=r"cannot open s3://bucket/x: credentials are missing: set them"):
        open_store("s3://bucket/x", {"aws_access_key_id": "AKIA"})


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        # The client's message on a machine without a role.
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1.5ms - Server "
            "returned non-2xx status code: 403 Forbidden: resolve_deny: denied destination",
            "there are no credentials: set them in the environment",
        ),
        (
            "Generic S3 error: Error performing HEAD http://h/t in 1.2s, after 5 retries, max_retries: 5, "
            "retry_timeout: 60s  - HTTP error: error sending request",
            "the endpoint does not answer",
        ),
        (
            "Generic S3 error: Error performing GET http://h/t in 9s, after 5 retries, max_retries: 5, "
            "retry_timeout: 60s  - Server returned non-2xx status code: 503 Service Unavailable: ",
            "the store asks for fewer requests",
        ),
    ],
)
def test_what_the_client_says(message: str, sentence: str) -> None:
    assert (meaning(message) or "").startswith(sentence)


def test_what_is_not_known_is_left_as_it_is() -> None:
    assert meaning("Generic S3 error: Error performing GET - status code: 418 I'm a teapot") is None
