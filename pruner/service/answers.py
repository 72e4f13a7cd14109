"""Plans as answers that stay small: one bit for each slice, and the slices' keys only where they are not known."""

from __future__ import annotations

import base64
import zlib
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pruner.service.keys import KEY_BYTES, slice_keys
from pruner.service.messages import PlanAnswer

if TYPE_CHECKING:
    from pruner.service.messages import PlanRequest
    from pruner.service.planning import Planned
    from pruner.tables.snapshot import Snapshot

INLINE_SLICES = 4096
"""Up to so many slices an answer brings their keys along: 64 KiB, less than a second request costs."""

CACHED_KEY_BYTES = 256 * 1024 * 1024
"""Keys of snapshots that are kept; the snapshots asked for last stay."""


class KeyCache:
    """The keys of snapshots by snapshot id; they are made once, at about 2 µs a slice."""

    def __init__(self, limit_bytes: int = CACHED_KEY_BYTES) -> None:
        self._limit = limit_bytes
        self._keys: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def of(self, snapshot: Snapshot) -> bytes:
        """Keys of all slices, in the order of their ordinals."""
        found = self.known(snapshot.id)
        return self._remember(snapshot.id, slice_keys(snapshot)) if found is None else found

    def known(self, snapshot_id: str) -> bytes | None:
        """The keys of a snapshot that was planned on lately; None for others."""
        with self._lock:
            found = self._keys.get(snapshot_id)
            if found is not None:
                self._keys.move_to_end(snapshot_id)
            return found

    def _remember(self, snapshot_id: str, keys: bytes) -> bytes:
        with self._lock:
            self._keys[snapshot_id] = keys
            while len(self._keys) > 1 and sum(map(len, self._keys.values())) > self._limit:
                self._keys.popitem(last=False)
        return keys


def answer_of(request: PlanRequest, planned: Planned, plan_id: str, cache: KeyCache) -> PlanAnswer:
    """Return the answer to a request; the keys are then in `cache`."""
    plan = planned.plan
    keys = cache.of(planned.snapshot.data)
    inline = request.known_snapshot != plan.snapshot_id and len(keys) <= INLINE_SLICES * KEY_BYTES
    bits = np.packbits(~plan.kept_mask, bitorder="little").tobytes()
    return PlanAnswer(
        plan_id=plan_id,
        table=planned.table,
        snapshot_id=plan.snapshot_id,
        total=plan.total,
        kept=plan.kept,
        drop=base64.b64encode(zlib.compress(bits, level=1)).decode(),
        keys=base64.b64encode(keys).decode() if inline else None,
        planning_ms=round(plan.planning_seconds * 1000, 3),
        fallbacks=list(plan.fallbacks),
        staleness_ms=planned.staleness * 1000,
    )
