"""Compares snapshots."""

from __future__ import annotations

import numpy as np

from pruner.tables.snapshot import Snapshot


def assert_same(followed: Snapshot, listed: Snapshot) -> None:
    """Every part of two snapshots is equal."""
    assert followed.id == listed.id
    found, expected = (each.rows(np.arange(len(each))) for each in (followed, listed))
    assert found.equals(expected), (found.to_pylist(), expected.to_pylist())
    assert followed.column("partition").num_chunks == 1
    assert followed.keys.equals(listed.keys)
    assert followed.schema == listed.schema
    assert followed.partitions.paths.equals(listed.partitions.paths)
    assert followed.partitions == listed.partitions
    assert followed.unsettled_because == listed.unsettled_because
    assert followed.log_instants == listed.log_instants
    assert (followed.root, followed.problems) == (listed.root, listed.problems)
