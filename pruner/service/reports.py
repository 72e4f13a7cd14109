"""Reports of past plans: what was asked is remembered, what came of it is made again when somebody looks."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

REMEMBERED_BYTES = 16 * 1024 * 1024
"""Memory for past requests; the oldest are forgotten first."""


class Asked(NamedTuple):
    """A request as it came, and the snapshot that was planned on."""

    body: bytes
    snapshot_id: str


class Reports:
    """Past requests by plan id. Threads may share it."""

    def __init__(self, limit_bytes: int = REMEMBERED_BYTES) -> None:
        self._limit = limit_bytes
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def remember(self, body: bytes, snapshot_id: str) -> str:
        """Remember a request; returns its plan id, the same for the same request on the same snapshot."""
        plan_id = hashlib.sha256(snapshot_id.encode() + b"\0" + body).hexdigest()[:32]
        with self._lock:
            if plan_id not in self._asked:
                self._asked[plan_id] = Asked(body, snapshot_id)
                self._held += len(body)
            self._asked.move_to_end(plan_id)
            while self._held > self._limit and len(self._asked) > 1:
                self._held -= len(self._asked.popitem(last=False)[1].body)
        return plan_id

    def asked(self, plan_id: str) -> Asked | None:
        """What was asked under a plan id; None where it is not known or was forgotten."""
        with self._lock:
            return self._asked.get(plan_id)
