"""What an object store's failure means, and what to do about it.

Stores answer with a status, an error code in XML and sometimes nothing but a refused connection; the client adds its
own words. The sentences here are for the failures that people meet while they set a table up. The codes are those of
the S3 API (Amazon S3 API Reference, "Error responses") and of Azure Blob Storage ("Common REST API error codes").
"""

from __future__ import annotations

import re

_CODE = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")

_REFUSAL = re.compile(r"status code: 4\d\d")

_CREDENTIALS = (
    "set them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, say) or as storage options; "
    "for public data set the storage option skip_signature=true"
)
_WRONG_REGION = "the bucket is in another region: set the storage option region (AWS_REGION)"
_BUSY = "the store asks for fewer requests, and went on so for all retries: try again later"
_NO_BUCKET = "there is no such bucket or container: check its name, and the storage option endpoint"
_EXPIRED = "the credentials have expired: get new ones"

_BY_CODE = {
    "NoSuchBucket": _NO_BUCKET,
    "ContainerNotFound": _NO_BUCKET,
    "InvalidAccessKeyId": "the store does not know this access key: check aws_access_key_id and the endpoint",
    "SignatureDoesNotMatch": "the secret does not fit the access key: check aws_secret_access_key",
    "AuthenticationFailed": "the store does not accept these credentials: check them, and this machine's clock",
    "InvalidToken": "the store does not accept the session token: check aws_session_token",
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": "this machine's clock is too far from the store's: set it by NTP",
    "PermanentRedirect": _WRONG_REGION,
    "AuthorizationHeaderMalformed": _WRONG_REGION,
    "IllegalLocationConstraintException": _WRONG_REGION,
    "SlowDown": _BUSY,
    "ServerBusy": _BUSY,
    "AccessDenied": "these credentials may not do that: ask for the permission, or give others",
    "AuthorizationPermissionMismatch": "these credentials may not do that: ask for the permission, or give others",
    "NotImplemented": "this store does not support the request; atomic commits need conditional writes (If-None-Match)",
}
"""What error codes of stores mean, with the remedy."""

_BY_WORDS = (
    # Without credentials the client asks for those of the machine that it runs on, in vain anywhere else.
    (
        re.compile(r"169\.254\.169\.254|metadata\.google\.internal"),
        f"there are no credentials: {_CREDENTIALS}",
    ),
    (
        re.compile(r"Missing (AccessKeyId|SecretAccessKey|BearerToken)"),
        f"credentials are missing: {_CREDENTIALS}",
    ),
    (re.compile(r"redirect without LOCATION"), _WRONG_REGION),
    (
        re.compile(r"http://.*HTTP error: builder error"),
        "the endpoint is http://, which is not encrypted: set the storage option allow_http=true to use it",
    ),
    (
        re.compile(r"error sending request|dns error|Connection refused|connection closed", re.IGNORECASE),
        "the endpoint does not answer: check the storage option endpoint, the region, and the network",
    ),
)

_BY_STATUS = {
    "400": "the store does not understand the request: check the region and the credentials",
    "401": "the store does not accept these credentials: check them",
    "403": "check the credentials, and what they may do",
    "429": _BUSY,
    "503": _BUSY,
}
"""For answers without a body (those to HEAD), which have no code."""


def is_answer(message: str) -> bool:
    """Tell whether a client's message about a failed request holds the store's refusal, so that nothing was done.

    A store that answers with 4xx did not do it; of one that answers with 5xx or not at all that is not known.
    """
    return _REFUSAL.search(message) is not None


def meaning(message: str) -> str | None:
    """Say what a client's message about a failed request means, with the remedy.

    Args:
        message: all that the client says, with the store's answer in it.

    Returns:
        One clause without the place, or None for a failure that is not known.
    """
    code = _CODE.search(message)
    if code is not None and code.group(1) in _BY_CODE:
        return _BY_CODE[code.group(1)]
    for words, sentence in _BY_WORDS:
        if words.search(message):
            return sentence
    status = _STATUS.search(message)
    return _BY_STATUS.get(status.group(1)) if status else None
