"""Object stores through `obstore`: S3, GCS, Azure, and memory for tests."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from pruner.errors import StorageError
from pruner.storage.store import (
    LargerError,
    Level,
    NotFoundError,
    ObjectInfo,
    RefusedError,
    Store,
    check_path,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from obstore import ObjectMeta

# What an object store's failure means, and what to do about it.
#
# Stores answer with a status, with an error code in XML, and sometimes only with a refused connection; the client adds
# its own text. The sentences here are for failures that users meet while they set up a table. The codes are those of
# the S3 API (Amazon S3 API Reference, "Error responses") and of Azure Blob Storage ("Common REST API error codes").

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
"""Meanings of the stores' error codes, with the remedy."""

_BY_WORDS = (
    # Without credentials the client requests those of the cloud machine that it runs on, in vain anywhere else.
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
"""For responses without a body (those to HEAD), which have no code."""


def is_answer(message: str) -> bool:
    """Tell whether a client's message about a failed request holds the store's refusal, so that nothing was done.

    A store that answers with 4xx did nothing; if it answers with 5xx or not at all, the outcome is unknown.
    """
    return _REFUSAL.search(message) is not None


def meaning(message: str) -> str | None:
    """Explain a client's message about a failed request, with the remedy.

    Args:
        message: the client's full message, including the store's response.

    Returns:
        One clause without the location, or None for an unknown failure.
    """
    code = _CODE.search(message)
    if code is not None and code.group(1) in _BY_CODE:
        return _BY_CODE[code.group(1)]
    for words, sentence in _BY_WORDS:
        if words.search(message):
            return sentence
    status = _STATUS.search(message)
    return _BY_STATUS.get(status.group(1)) if status else None


_MEMORY: dict[str, MemoryStore] = {}
"""The memory stores of this process by name."""

_RETRY: dict[str, Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_PUBLIC_OPTIONS = re.compile(
    r"region|endpoint|bucket|container|account_name|allow_http|virtual_hosted", re.IGNORECASE
)
_READ_BY_CLIENTS = re.compile(r"(AWS|GOOGLE|AZURE|MSI|IDENTITY|HTTPS?|ALL|NO|SSL)_", re.IGNORECASE)
"""Environment variables that a client reads when it is created: credentials, endpoints, proxies, certificates."""

_GOOGLE_LOGIN = "~/.config/gcloud/application_default_credentials.json"
"""Where `gcloud auth application-default login` stores credentials."""

_MOST_CLIENTS = 64
"""Most clients that are cached, each with its connections; those that a table uses live as long as the table."""

_asking: dict[str, int] = {}
"""The process in which the threads of `obstore` run, set at the first request; a forked process has a copy of this."""

_SECOND_NS = 10**9
_MESSAGE_CHARACTERS = 300
_SECRET_CHARACTERS = 4
"""Shortest text that is masked: no secret is shorter, and masking every `a` of a message would make it unreadable."""


class ObjectStore(Store):
    """The objects below a prefix of a bucket or container."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        super().__init__(uri)
        scheme, _, rest = uri.partition("://")
        authority, _, self._prefix = rest.partition("/")
        self._secrets = [value for key, value in options.items() if not _PUBLIC_OPTIONS.search(key)]
        try:
            self._store = _client(scheme, authority, options)
        except UnknownConfigurationKeyError as error:
            key = re.search(r"'([^']*)'", str(error))
            named = f" {key.group(1)!r}" if key else ""
            raise StorageError(f"the storage option{named} does not exist for {scheme}:// stores") from None
        except (BaseError, ValueError) as error:
            raise StorageError(f"cannot open {uri}: {self._detail(error)}") from None

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object: see `Store.get`."""
        with self._doing("read", path):
            answer = obstore.get(self._store, self._key(path))
            size = answer.meta["size"]
            data = bytes(answer.bytes()) if size <= max_bytes else b""
        if size > max_bytes or len(data) > max_bytes:
            raise LargerError(f"{self.uri}/{path} is larger than the {max_bytes} bytes that are allowed")
        return data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some ranges of an object: see `Store.get_ranges`."""
        key = self._key(path)
        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        with self._doing("read", path):
            # The memory store panics on a range beyond the end; the others answer with an error.
            inside = not isinstance(self._store, MemoryStore) or self._reaches(key, ranges)
            content = obstore.get_ranges(self._store, key, starts=starts, lengths=lengths) if inside else []
            data = [bytes(piece) for piece in content]
        if [len(piece) for piece in data] != lengths:
            raise StorageError(f"{self.uri}/{path} is shorter than requested")
        return data

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object unless it exists: see `Store.put_if_absent`."""
        with self._doing("write", path):
            try:
                obstore.put(self._store, self._key(path), data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a unique name: see `Store.put_new`."""
        with self._doing("write", path):
            obstore.put(self._store, self._key(path), data)

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        try:
            with self._doing("look up", path):
                return self._info(obstore.head(self._store, self._key(path)))
        except NotFoundError:
            return None

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        folder = self._key(prefix) if prefix else self._prefix
        offset = self._key(after) if after else None
        return sorted(self._listed(folder, offset))

    def some(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects page by page: see `Store.some`."""
        yield from self._listed(self._key(prefix) if prefix else self._prefix, None)

    def level(self, prefix: str = "") -> Level:
        """Return the names directly in a folder: see `Store.level`."""
        folder = self._key(prefix) if prefix else self._prefix
        with self._doing("list", prefix):
            found: Any = obstore.list_with_delimiter(self._store, folder or None)
        start = len(folder) + 1 if folder else 0
        folders = [path[start:].rstrip("/") for path in found["common_prefixes"]]
        return Level(folders, [meta["path"][start:] for meta in found["objects"]])

    def _listed(self, folder: str, offset: str | None) -> Iterator[ObjectInfo]:
        with self._doing("list", folder.removeprefix(self._prefix).strip("/")):
            stores: Any = obstore  # its stubs leave the pages' type open
            for page in stores.list(self._store, folder or None, offset=offset):
                for meta in page:
                    yield self._info(meta)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects: see `Store.delete`."""
        keys = [self._key(path) for path in paths]
        try:
            with self._doing("delete from", ""):
                if keys:
                    obstore.delete(self._store, keys)
        except NotFoundError:
            return  # another process deleted it

    def remove_empty_folders(self) -> None:
        """Nothing to do: object stores have no folders."""

    def _key(self, path: str) -> str:
        check_path(path)
        return f"{self._prefix}/{path}" if self._prefix else path

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        path = meta["path"].removeprefix(f"{self._prefix}/") if self._prefix else meta["path"]
        mtime_ns = int(meta["last_modified"].timestamp() * 1_000_000) * 1000
        if meta["e_tag"] is not None:
            # MinIO lists milliseconds, but reports whole seconds for a single object. The ETag distinguishes versions.
            mtime_ns -= mtime_ns % _SECOND_NS
        return ObjectInfo(path, meta["size"], mtime_ns, meta["e_tag"])

    def _reaches(self, key: str, ranges: Sequence[tuple[int, int]]) -> bool:
        size = obstore.head(self._store, key)["size"]
        return all(start + length <= size for start, length in ranges)

    @contextmanager
    def _doing(self, action: str, path: str) -> Generator[None]:
        where = f"{self.uri}/{path}" if path else self.uri
        # A forked process does not have the threads, and would wait for them forever.
        process = os.getpid()
        if _asking.setdefault("process", process) != process and not isinstance(self._store, MemoryStore):
            raise StorageError(
                f"cannot {action} {where}: this process was forked from one that had used object stores: let "
                "multiprocessing start processes by 'spawn' or 'forkserver', or fork before tables are opened"
            )
        try:
            yield
        except FileNotFoundError:
            raise NotFoundError(f"{where} does not exist") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            advice = "; a read-only lake can keep its metadata table elsewhere with index_uri (--index-uri)"
            advice = advice if action == "write" else ""
            raise RefusedError(
                f"the store refuses to {action} {where}: {self._detail(error)}{advice}"
            ) from None
        except (BaseError, ValueError, OSError) as error:
            kind = RefusedError if is_answer(str(error)) else StorageError
            raise kind(f"cannot {action} {where}: {self._detail(error)}") from None

    def _detail(self, error: BaseException) -> str:
        """The meaning of `error`, else its text: one line without secrets, as stores echo settings and signed URLs."""
        known = meaning(str(error))
        if known is not None:
            return known
        text = str(error).split("\n", 1)[0]
        text = re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", text)
        for secret in self._secrets:
            if len(secret) >= _SECRET_CHARACTERS:
                text = text.replace(secret, "***")
        return text[:_MESSAGE_CHARACTERS].rstrip(" .")


def _client(
    scheme: str, authority: str, options: dict[str, str]
) -> S3Store | GCSStore | AzureStore | MemoryStore:
    """The client of a bucket, one for all locations in it.

    Opening a table takes several stores, and each manifest of an Iceberg table is read through one. A separate client
    for each would read the machine's certificates (10 ms of CPU time) and open its own connections.
    """
    if scheme == "memory":
        return _MEMORY.setdefault(authority, MemoryStore())
    environment = {name: value for name, value in os.environ.items() if _READ_BY_CLIENTS.match(name)}
    read = (*_pairs(environment), *(_credential_files({**options, **environment}) if scheme == "gs" else ()))
    return _connected(scheme, authority, _pairs(options), read, os.getpid())


def _pairs(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))


def _credential_files(settings: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    """The files with Google credentials, with modification time and size: a client reads them only once."""
    for place in (*settings.values(), _GOOGLE_LOGIN):
        with suppress(OSError, ValueError, RuntimeError):  # not a file, not a path, or no home directory
            found = Path(place).expanduser().stat()
            yield place, found.st_mtime_ns, found.st_size


@lru_cache(_MOST_CLIENTS)
def _connected(
    scheme: str,
    authority: str,
    options: tuple[tuple[str, str], ...],
    _read: tuple[tuple[Any, ...], ...],
    _process: int,
) -> S3Store | GCSStore | AzureStore:
    """Create a client, which is reused while the settings that it would read are unchanged.

    Its connections are unusable in a forked process.
    """
    settings = cast("Any", dict(options))
    retry = cast("Any", _RETRY)
    match scheme:
        case "s3":
            return S3Store(authority, config=settings, retry_config=retry)
        case "gs":
            return GCSStore(authority, config=settings, retry_config=retry)
        case _:
            container, _, host = authority.partition("@")
            account = {"account_name": host.partition(".")[0]} if host else {}
            return AzureStore(container, config=account | settings, retry_config=retry)
