"""Questions of the head-to-head benchmark to a reader of a small lake."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.lakes.events import FileFormat, Lake
from benchmarks.peers.head_to_head import Truth
from benchmarks.peers.questions import Reader
from benchmarks.peers.running import opened_in


def opened_for(workloads: Iterable[str], reader: Reader, lake: Lake, kind: FileFormat) -> dict[str, int]:
    """The number of files that a reader opens for each question; its answers must be right."""
    truth, opened = Truth(lake.events), dict[str, int]()
    for workload in workloads:
        values = truth.values(workload, 0)
        with opened_in(lake.data(kind)) as names:
            rows = reader.ask(workload, values)
        assert rows is not None
        truth.check(workload, values, rows, f"{type(reader).__name__} of {kind}")
        opened[workload] = len(names)
    return opened
