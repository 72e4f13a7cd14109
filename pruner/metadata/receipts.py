"""Receipts of finished batches: segments that are written and await the commit of their build.

A build commits once. If it is killed before that, the next refresh finds the receipts and commits what they name, so
that nothing is done twice. A receipt is not part of the state: its reader checks again that the indexes still exist
and that the slices still lack records.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from pruner.errors import FormatError, PrunerError, StorageError
from pruner.limits import LOG_ENTRY_BYTES
from pruner.metadata.log import checksum_of
from pruner.metadata.state import SegmentEntry
from pruner.storage.store import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.storage.store import Store

# How long unreferenced files stay before a vacuum deletes them, and how old they may be and still be committed.

GRACE_SECONDS = 7 * 24 * 3600.0
"""How long leftovers and old log entries stay: longer than the longest writer may run."""

COMMITTED_WITHIN_SECONDS = GRACE_SECONDS - 24 * 3600.0
"""Maximum age of a segment when it is committed.

A vacuum first reads the log and then deletes what it saw as an old leftover. A segment that is committed in between
must therefore be too young for any vacuum that did not see the commit. The day covers the time that a vacuum takes,
clock differences, and a writer that is delayed between this check and its commit.
"""


def is_too_old(store: Store, written_ns: int) -> bool:
    """Tell whether a segment was written too long ago to be committed.

    The store's clock decides; it is read only if the segment is too old by this machine's clock.
    """
    limit_ns = int(COMMITTED_WITHIN_SECONDS * 1e9)
    return time.time_ns() - written_ns > limit_ns and store_time_ns(store) - written_ns > limit_ns


def store_time_ns(store: Store) -> int:
    """Return the time of the clock that stamps the store's objects, which need not be this machine's."""
    path = f"staging/{uuid.uuid4().hex}"
    store.put_new(path, b"")
    try:
        info = store.info(path)
    finally:
        store.delete([path])
    if info is None:
        raise StorageError(f"{store.uri} does not keep what is written there")
    return info.mtime_ns


def checked_grace(grace_seconds: float) -> float:
    """Return the given grace.

    Raises:
        PrunerError: it is not a number of seconds, 0 or more.
    """
    if not grace_seconds >= 0:  # also refuses NaN
        raise PrunerError(f"grace_seconds must be a number of seconds, 0 or more, not {grace_seconds!r}")
    return grace_seconds


FOLDER = "finished"
"""Folder of the metadata table for receipts: `finished/<id of the batch>.json`."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One finished batch.

    `batch` is the slice batch, `records` are the segments that refer to it, `indexed` is the number of slices with a
    record in one of them. `failures` has slice, index and reason of each slice that stays uncovered. `identity` is that
    of the table when the batch was read. `part` names the part of the build with these slices, if it was in parts.
    `declined` has for each index, by name, the number of records that only state why it cannot take a slice.
    `read` is the number of bytes that the batch read from the table's files.
    """

    identity: str
    batch: SegmentEntry
    records: tuple[SegmentEntry, ...]
    indexed: int
    failures: tuple[tuple[str, str, str], ...] = ()
    part: str | None = None
    declined: dict[str, int] = {}
    read: int = 0


class _Signed(msgspec.Struct, frozen=True):
    checksum: str
    receipt: msgspec.Raw


def put(store: Store, receipt: Receipt) -> None:
    """Store a receipt atomically.

    Raises:
        StorageError: the store refuses.
    """
    payload = msgspec.json.encode(receipt)
    data = msgspec.json.encode(_Signed(checksum_of(payload), msgspec.Raw(payload)))
    store.put_if_absent(_path(receipt), data)


def receipts(store: Store) -> list[Receipt]:
    """The waiting receipts, in the order of their names.

    Omits damaged ones, and those that are too old to be committed safely beside a vacuum.

    Raises:
        StorageError: the store refuses the read.
    """
    waiting: list[Receipt] = []
    for info in store.list(FOLDER):
        if is_too_old(store, info.mtime_ns):
            continue  # its slices are read again
        try:
            waiting.append(_decode(store.get(info.path, LOG_ENTRY_BYTES)))
        except (FormatError, NotFoundError):
            continue  # damaged, of a newer pruner, or just committed by another process: its slices are read again
    return waiting


def discard(store: Store, done: Iterable[Receipt]) -> None:
    """Delete receipts whose segments were committed, or never will be.

    Raises:
        StorageError: the store refuses.
    """
    store.delete(_path(receipt) for receipt in done)


# Created once: creating a type's decoder in two threads at once can crash the process (msgspec).
_SIGNED = msgspec.json.Decoder(_Signed)
_RECEIPT = msgspec.json.Decoder(Receipt)


def _decode(data: bytes) -> Receipt:
    try:
        signed = _SIGNED.decode(data)
        payload = bytes(signed.receipt)
        if checksum_of(payload) != signed.checksum:
            raise FormatError("a receipt fails its checksum")
        return _RECEIPT.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError("a receipt is damaged") from error


def _path(receipt: Receipt) -> str:
    return f"{FOLDER}/{receipt.batch.id}.json"
