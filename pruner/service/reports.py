"""Reports of past plans: requests are remembered, and planned again when somebody asks for the report."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from pruner.service.bounded_cache import BoundedCache

REMEMBERED_BYTES = 8 * 1024 * 1024
"""Memory for past requests; those looked at last stay."""


class Asked(NamedTuple):
    """A request as it came, and the snapshot that was planned on."""

    body: bytes
    snapshot_id: str


class Reports:
    """Past requests by plan id. Threads may share it."""

    def __init__(self, limit_bytes: int = REMEMBERED_BYTES) -> None:
        self._asked: BoundedCache[Asked] = BoundedCache(limit_bytes)

    def remember(self, body: bytes, snapshot_id: str) -> str:
        """Remember a request; returns its plan id, the same for the same request on the same snapshot."""
        plan_id = hashlib.sha256(snapshot_id.encode() + b"\0" + body).hexdigest()[:32]
        self._asked.put(plan_id, Asked(body, snapshot_id), len(body) + len(snapshot_id))
        return plan_id

    def asked(self, plan_id: str) -> Asked | None:
        """What was asked under a plan id; None where it is not known or was forgotten."""
        return self._asked.get(plan_id)
