"""What scans read, as an OpenLineage event (version 2 of its specification), for catalogs and schedulers."""

from __future__ import annotations

import datetime
import uuid
from typing import TYPE_CHECKING, Any, Final

from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.adapters import ScanRecord

PRODUCER: Final = f"urn:lake-pruner:{__version__}"
"""The producer of the events. The project has no web address yet, and OpenLineage requires a URI."""

_EVENT: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_STATISTICS: Final = (
    "https://openlineage.io/spec/facets/1-0-0/InputStatisticsInputDatasetFacet.json"
    "#/$defs/InputStatisticsInputDatasetFacet"
)
_SCAN: Final = "urn:lake-pruner:scan-facet:1"


def open_lineage(
    scans: Iterable[ScanRecord],
    *,
    job: str,
    namespace: str = "pruner",
    run_id: str | None = None,
    time: datetime.datetime | None = None,
) -> dict[str, Any]:
    """Make an OpenLineage COMPLETE event from the scans of one run: the tables that it read, and how much of each.

    Args:
        scans: such as `last_plans` of a connection; scans without a plan are left out.
        job: name of the job that read, such as a model or a task.
        namespace: OpenLineage namespace of the job.
        run_id: UUID of the run; by default a new one.
        time: when the run ended, with a time zone; by default now.

    Returns:
        Plain values for `json.dumps` and for an OpenLineage client.
    """
    ended = datetime.datetime.now(datetime.UTC) if time is None else time
    return {
        "eventType": "COMPLETE",
        "eventTime": ended.isoformat(),
        "run": {"runId": run_id or str(uuid.uuid4()), "facets": {}},
        "job": {"namespace": namespace, "name": job, "facets": {}},
        "inputs": [_input(scan) for scan in scans if scan.plan is not None],
        "outputs": [],
        "producer": PRODUCER,
        "schemaURL": _EVENT,
    }


def _input(scan: ScanRecord) -> dict[str, Any]:
    plan: Any = scan.plan
    store, name = _dataset(plan.snapshot.root)
    statistics = {
        "_producer": PRODUCER,
        "_schemaURL": _STATISTICS,
        "size": plan.bytes_kept,
        "fileCount": plan.kept,
    }
    scanned = {
        "_producer": PRODUCER,
        "_schemaURL": _SCAN,
        "table": scan.table,
        "snapshotId": plan.snapshot_id,
        "predicate": plan.predicate,
        "slices": plan.total,
        "slicesRead": plan.kept,
        "bytes": plan.bytes_total,
        "bytesRead": plan.bytes_kept,
        "fallbacks": [*([scan.reason] if scan.reason else []), *plan.fallbacks],
    }
    return {
        "namespace": store,
        "name": name,
        "facets": {},
        "inputFacets": {"inputStatistics": statistics, "pruner_scan": scanned},
    }


def _dataset(uri: str) -> tuple[str, str]:
    """OpenLineage's names for a location: the store, and the path in it."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return "file", uri
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path
