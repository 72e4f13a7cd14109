"""The log: `log/<20 digits>.json`, each entry the whole state with its own checksum.

An entry is one JSON object, `{"checksum": …, "state": …}`. The checksum covers the bytes of `state` as they
are in the file, so there is no canonical form to agree on. The `min_reader` of a state is checked before anything
else in it is read: a newer format may have changed everything else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import xxhash

from pruner.errors import FormatError, StorageError
from pruner.limits import LOG_ENTRY_BYTES
from pruner.metadata.state import FORMAT_VERSION, NewerFormatError, State

if TYPE_CHECKING:
    from pruner.storage.store import ObjectInfo, Store

FOLDER = "log"
_NAME = re.compile(r"log/(\d{20})\.json")


class _Entry(msgspec.Struct, frozen=True):
    checksum: str
    state: msgspec.Raw


class _Header(msgspec.Struct, frozen=True):
    format_version: int
    min_reader: int


def entry_path(version: int) -> str:
    """The path of the log entry of a version."""
    return f"{FOLDER}/{version:020d}.json"


def version_of(path: str) -> int | None:
    """The version whose log entry a path is, or None if it is not a log entry."""
    match = _NAME.fullmatch(path)
    return int(match.group(1)) if match else None


def entries(store: Store, *, after: int = -1) -> list[tuple[int, ObjectInfo]]:
    """The log entries after version `after`, in order: (version, what the listing says).

    A folder that is listed while files arrive may show a later file but not an earlier one, and the log has no gaps
    except those of a vacuum. So if there is a gap, the log is listed again: what the first listing shows was there
    before the second one.
    """
    listed = _listed(store, after)
    if not listed or listed[-1][0] - listed[0][0] < len(listed):
        return listed
    again = _listed(store, after)
    return [entry for entry in again if entry[0] <= listed[-1][0]] or again


def _listed(store: Store, after: int) -> list[tuple[int, ObjectInfo]]:
    listed = store.list(FOLDER, after=entry_path(after) if after >= 0 else None)
    numbered = ((version_of(info.path), info) for info in listed)
    return sorted((version, info) for version, info in numbered if version is not None)


def encode(state: State) -> bytes:
    """The bytes of a state's log entry.

    Raises:
        StorageError: the entry would be larger than readers accept.
    """
    payload = msgspec.json.encode(state)
    data = msgspec.json.encode(_Entry(checksum_of(payload), msgspec.Raw(payload)))
    if len(data) > LOG_ENTRY_BYTES:
        raise StorageError(
            f"the metadata table has {len(state.segments)} segments, more than a log entry holds: compact it"
        )
    return data


# Created once: creating a type's decoder in two threads at once can crash the process (msgspec).
_ENTRY = msgspec.json.Decoder(_Entry)
_HEADER = msgspec.json.Decoder(_Header)
_STATE = msgspec.json.Decoder(State)


def decode(data: bytes, version: int, where: str) -> tuple[State, str]:
    """Return the verified state of a log entry, and its checksum.

    Args:
        data: the bytes of the entry.
        version: the version in its name.
        where: URI of the entry, for messages.

    Raises:
        NewerFormatError: this pruner is too old to read it.
        FormatError: the bytes are not what was written.
    """
    try:
        entry = _ENTRY.decode(data)
        payload = bytes(entry.state)
        if checksum_of(payload) != entry.checksum:
            raise FormatError(f"the log entry {where} fails its checksum: {_REPAIR}")
        header = _HEADER.decode(payload)
        if header.min_reader > FORMAT_VERSION:
            raise NewerFormatError(
                f"the metadata table has format {header.format_version}, written by a newer pruner: "
                f"this one reads up to format {FORMAT_VERSION}, so upgrade it"
            )
        state = _STATE.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FormatError(f"the log entry {where} is damaged: {_REPAIR}") from None
    if state.version != version:
        raise FormatError(f"the log entry {where} is that of version {state.version}: {_REPAIR}")
    state.check()
    return state, entry.checksum


_REPAIR = "restore it, or delete it to go back to the version before"


def read(store: Store, version: int) -> tuple[State, str]:
    """Return the verified state of a version, and its checksum.

    Raises:
        NotFoundError: there is no such log entry.
        FormatError: it is damaged (NewerFormatError: it is too new).
    """
    path = entry_path(version)
    return decode(store.get(path, LOG_ENTRY_BYTES), version, f"{store.uri}/{path}")


def checksum_of(data: bytes) -> str:
    """The XXH3-128 of some bytes, as 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)


def checksum_of_state(state: State) -> str:
    """The checksum in the log entry of a state that this version wrote."""
    return checksum_of(msgspec.json.encode(state))
