"""What clients requested from the catalog, for `pruner advise`: filters of plans, and scans that clients report.

Plans have the constants of their filters. Reports of Iceberg's Java library do not: it replaces each constant by the
kind of value. They cover scans that were planned elsewhere: which columns they filtered by, and how many files they
read.

Source: schemas `ReportMetricsRequest`, `ScanReport` and `CommitReport` of the REST catalog's OpenAPI description.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from pruner.bounded_cache import BoundedCache
from pruner.expr.wire.nodes import Node, node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pruner.expr.nodes import Expr
    from pruner.service.rest_catalog.filters import Filter

KEPT_BYTES: Final = 8 * 1024 * 1024
"""Memory for recorded filters; the most recent ones stay."""

LONGEST_FILTER: Final = 64 * 1024
"""Bytes of a filter as JSON; longer ones are not kept."""

_PER_BYTE: Final = 8
"""Memory of an expression, in bytes per byte of the JSON that it was made from."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Counter(msgspec.Struct, rename="kebab"):
    unit: str
    value: _Count


class _Timer(msgspec.Struct, rename="kebab"):
    time_unit: str
    count: _Count
    total_duration: _Count


_Metrics = dict[str, dict[str, Any] | None]

_SANITIZED: Final = re.compile(r"\(.+\)", re.DOTALL)
"""What Iceberg's Java library writes instead of a constant: `(2-digit-int)`, `(hash-1f2e3d4c)`, `(date)`."""


def _check(metrics: _Metrics) -> None:
    for name, found in metrics.items():
        if found is not None:
            try:
                msgspec.convert(found, _Counter if "value" in found else _Timer)
            except msgspec.ValidationError as error:
                raise ValueError(f"metric {name[:100]!r}: {error}") from None


class ScanReport(msgspec.Struct, rename="kebab", tag_field="report-type", tag="scan-report"):
    """A scan that a client planned: schema `ScanReport`."""

    table_name: str
    snapshot_id: int
    filter: Any
    schema_id: int
    projected_field_ids: list[int]
    projected_field_names: list[str]
    metrics: _Metrics
    metadata: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _check(self.metrics)

    def count(self, name: str) -> int:
        """The value of a counter among the metrics; 0 if it is missing."""
        return int((self.metrics.get(name) or {}).get("value", 0))


class CommitReport(msgspec.Struct, rename="kebab", tag_field="report-type", tag="commit-report"):
    """A commit, which this catalog does not support: schema `CommitReport`."""

    table_name: str
    snapshot_id: int
    sequence_number: int
    operation: str
    metrics: _Metrics
    metadata: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _check(self.metrics)


Report = ScanReport | CommitReport


class AskedScan(msgspec.Struct, omit_defaults=True):
    """Scans of a table with one filter: a line of `GET /v1/asked`.

    `times` is the number of scans, `files_read` the number of files that they read in total, and `files` the number of
    files in the table at each scan, in total. `expression` is the filter in the expression form; it is missing if the
    client left out the constants.
    """

    table: str
    place: str
    columns: list[str]
    times: int
    files_read: int
    files: int
    expression: Node | None = None


@dataclass
class _Kept:
    table: str
    place: str
    columns: frozenset[str]
    expression: Expr | None
    times: int = 0
    files_read: int = 0
    files: int = 0
    lock: Lock = field(default_factory=Lock)


def _is_sanitized(asked: Filter) -> bool:
    """Whether a filter has kinds of values instead of its constants."""
    return any(isinstance(constant, str) and _SANITIZED.fullmatch(constant) for constant in asked.constants())


class RecordedFilters:
    """The filters of scans, and how often each was used. Threads may share it."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._kept: BoundedCache[tuple[str, bytes], _Kept] = BoundedCache(limit_bytes)

    def planned(self, table: str, place: str, asked: Filter | None, kept: int, total: int) -> None:
        """Record a plan for a table at a location that keeps `kept` of its `total` files."""
        if asked is not None:
            self._count(table, place, asked, kept, total, asked.expression)

    def reported(self, table: str, place: str, asked: Filter, report: ScanReport) -> None:
        """Record a scan that a client planned by itself, or for which it read the files of a plan."""
        read = report.count("result-data-files")
        expression = None if _is_sanitized(asked) else asked.expression
        self._count(table, place, asked, read, read + report.count("skipped-data-files"), expression)

    def _count(
        self,
        table: str,
        place: str,
        asked: Filter,
        read: int,
        total: int,
        expression: Callable[[], Expr] | None,
    ) -> None:
        content = asked.encoded
        if len(content) > LONGEST_FILTER:
            return
        known = self._kept.get((table, content))
        if known is None:
            made = _Kept(table, place, asked.names(), None if expression is None else expression())
            known = self._kept.put((table, content), made, len(content) * _PER_BYTE + len(place))
        with known.lock:
            known.times += 1
            known.files_read += read
            known.files += total

    def scans(self) -> Iterator[AskedScan]:
        """All recorded filters, the least recently used first."""
        for key, _ in self._kept.sizes():
            known = self._kept.get(key)
            if known is not None:
                made = None if known.expression is None else node_of(known.expression)
                with known.lock:
                    yield AskedScan(
                        known.table,
                        known.place,
                        sorted(known.columns),
                        known.times,
                        known.files_read,
                        known.files,
                        made,
                    )

    def lines(self) -> bytes:
        """All recorded filters as lines of JSON."""
        return b"".join(msgspec.json.encode(scan) + b"\n" for scan in self.scans())
