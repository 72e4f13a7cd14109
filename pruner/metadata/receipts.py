"""Receipts of finished batches: segments that are written and wait for the commit of their build.

A build commits once. If it is killed before, the next refresh finds the receipts and commits what they name, so that
nothing is done twice. A receipt is not part of the state: whoever reads it checks again that the indexes are still
there and that the slices still lack records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pruner.errors import FormatError
from pruner.limits import LOG_ENTRY_BYTES
from pruner.metadata.grace import is_too_old
from pruner.metadata.log import checksum_of
from pruner.metadata.state import SegmentEntry
from pruner.storage.store import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.storage.store import Store

FOLDER = "finished"
"""Folder of the metadata table for receipts: `finished/<id of the batch>.json`."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One finished batch.

    `batch` is the slice batch, `records` are the segments that refer to it, `indexed` is the number of slices with a
    record in one of them. `failures` has slice, index and reason of each slice that stays uncovered. `identity` is that
    of the table when the batch was read. `part` names the part of a build that the slices are, if it was in parts.
    `declined` says for each index, by its name, how many of its records tell only why it cannot take a slice.
    `read` is how many bytes of the table's files the batch took.
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
    """Leave a receipt; it is there whole or not at all.

    Raises:
        StorageError: the store refuses.
    """
    payload = msgspec.json.encode(receipt)
    data = msgspec.json.encode(_Signed(checksum_of(payload), msgspec.Raw(payload)))
    store.put_if_absent(_path(receipt), data)


def receipts(store: Store) -> list[Receipt]:
    """The receipts that wait, in the order of their names.

    Damaged ones are left out, and those that are too old to be committed beside a vacuum.

    Raises:
        StorageError: the store refuses to be read.
    """
    found: list[Receipt] = []
    for info in store.list(FOLDER):
        if is_too_old(store, info.mtime_ns):
            continue  # its slices are read again
        try:
            found.append(_decode(store.get(info.path, LOG_ENTRY_BYTES)))
        except (FormatError, NotFoundError):
            continue  # damaged, of a newer pruner, or just committed by somebody else: its slices are read again
    return found


def discard(store: Store, done: Iterable[Receipt]) -> None:
    """Delete receipts whose segments were committed, or never will be.

    Raises:
        StorageError: the store refuses.
    """
    store.delete(_path(receipt) for receipt in done)


def _decode(data: bytes) -> Receipt:
    try:
        signed = msgspec.json.decode(data, type=_Signed)
        payload = bytes(signed.receipt)
        if checksum_of(payload) != signed.checksum:
            raise FormatError("a receipt fails its checksum")
        return msgspec.json.decode(payload, type=Receipt)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError("a receipt is damaged") from error


def _path(receipt: Receipt) -> str:
    return f"{FOLDER}/{receipt.batch.id}.json"
