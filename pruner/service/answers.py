"""Plans as answers that stay small: one bit for each slice, and the slices' keys only where they are not known."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import numpy as np

from pruner.service.bounded_cache import BoundedCache
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
        self._keys: BoundedCache[bytes] = BoundedCache(limit_bytes)

    def of(self, snapshot: Snapshot) -> bytes:
        """Keys of all slices, in the order of their ordinals."""
        keys = self.known(snapshot.id)
        if keys is None:
            keys = slice_keys(snapshot)
            self._keys.put(snapshot.id, keys, len(keys))
        return keys

    def known(self, snapshot_id: str) -> bytes | None:
        """The keys of a snapshot that was planned on lately; None for others."""
        return self._keys.get(snapshot_id)


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
