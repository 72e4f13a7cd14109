"""Plans as answers that stay small: one bit for each slice, and the slices' keys only where they are not known."""

from __future__ import annotations

import base64
import hashlib
import weakref
import zlib
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.service.bounded_cache import BoundedCache
from pruner.service.messages import PlanAnswer
from pruner.service.planning import KEY_BYTES, slice_keys

if TYPE_CHECKING:
    from pruner.service.messages import PlanRequest
    from pruner.service.planning import Planned
    from pruner.tables.snapshot import Snapshot

INLINE_SLICES = 4096
"""Up to so many slices an answer brings their keys along: 64 KiB, less than a second request costs."""

CACHED_KEY_BYTES = 256 * 1024 * 1024
"""Keys of snapshots that are kept; the snapshots asked for last stay."""

KEPT_SNAPSHOTS = 8
"""Snapshots of a table whose keys are kept: a client asks for keys right after the answer that names them."""


class SnapshotKeys(NamedTuple):
    """The keys of all slices of a snapshot, in the order of their ordinals, and by what id clients know them.

    The id begins with that of the snapshot and ends with a digest of the keys. Copies of a Hudi table have one
    timeline, so the same snapshot id, and other files.
    """

    id: str
    keys: bytes


class _Known(NamedTuple):
    snapshot: weakref.ref[Snapshot]
    id: str


class KeyCache:
    """The keys of the snapshots that were planned on; they are made once, at about 2 µs a slice."""

    def __init__(self, limit_bytes: int = CACHED_KEY_BYTES) -> None:
        self._keys: BoundedCache[bytes] = BoundedCache(limit_bytes)
        self._last: dict[str, _Known] = {}
        self._ids: dict[str, deque[str]] = {}
        self._lock = Lock()

    def of(self, table: str, snapshot: Snapshot) -> SnapshotKeys:
        """The keys of a table's snapshot; they are then known by their id."""
        last = self._last.get(table)
        if last is not None and last.snapshot() is snapshot:
            keys = self._keys.get(last.id)
            if keys is not None:
                return SnapshotKeys(last.id, keys)
        keys = slice_keys(snapshot)
        keys_id = f"{snapshot.id}-{hashlib.sha256(keys).hexdigest()[:32]}"
        self._keys.put(keys_id, keys, len(keys))
        self._last[table] = _Known(weakref.ref(snapshot), keys_id)
        self._forget_old(table, keys_id)
        return SnapshotKeys(keys_id, keys)

    def _forget_old(self, table: str, newest: str) -> None:
        """Forget the keys of snapshots that a table that changes all the time has long left behind."""
        with self._lock:
            ids = self._ids.setdefault(table, deque())
            if newest in ids:
                ids.remove(newest)
            ids.append(newest)
            if len(ids) > KEPT_SNAPSHOTS:
                oldest = ids.popleft()
                if not any(oldest in others for others in self._ids.values()):
                    self._keys.drop(oldest)

    def known(self, keys_id: str) -> bytes | None:
        """The keys of a snapshot that was planned on lately; None for others."""
        return self._keys.get(keys_id)


def answer_of(request: PlanRequest, planned: Planned, plan_id: str, cache: KeyCache) -> PlanAnswer:
    """Return the answer to a request; the keys are then in `cache`."""
    plan = planned.plan
    keys_id, keys = cache.of(planned.table, planned.snapshot.data)
    inline = request.known_snapshot != keys_id and len(keys) <= INLINE_SLICES * KEY_BYTES
    bits = np.packbits(~plan.kept_mask, bitorder="little").tobytes()
    return PlanAnswer(
        plan_id=plan_id,
        table=planned.table,
        snapshot_id=keys_id,
        total=plan.total,
        kept=plan.kept,
        drop=base64.b64encode(zlib.compress(bits, level=1)).decode(),
        keys=base64.b64encode(keys).decode() if inline else None,
        planning_ms=round(plan.planning_seconds * 1000, 3),
        fallbacks=list(plan.fallbacks),
        staleness_ms=planned.staleness * 1000,
    )
