"""The first listing of a large table, shared by the machines that build its indexes: each of them lists a part.

It never costs an answer: if a part fails, or the parts do not fit together, the table is listed in this process.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from pruner.errors import PrunerError, first_line
from pruner.formats.detect import open_table_source
from pruner.metadata.ranged import Blocks
from pruner.metadata.state import FILES, SegmentEntry
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from pruner.tables.source import SharedSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.metadata.last_snapshot import LastSnapshot
    from pruner.pipeline.batches import SharingRunner
    from pruner.tables.source import TableSource

_log = logging.getLogger("pruner")


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A listing as it is sent: the table, the location of the metadata table, and what the format sends."""

    root: str
    format: str
    store: str
    options: dict[str, str]
    sent: bytes


class _Listed(msgspec.Struct, frozen=True):
    """The result of a part: the segment that holds it, or why there is none."""

    segment: SegmentEntry | None
    why: str = ""


def list_part(listing: bytes, number: int) -> Iterator[bytes]:
    """List one part and write it as a segment, on a machine of a `SharingRunner`.

    Args:
        listing: a `_Listing` as JSON.
        number: number of the part.
    """
    job = msgspec.json.decode(listing, type=_Listing)
    try:
        source = cast("SharedSource", open_table_source((job.root,), job.options, job.format))
        look = source.list_part(job.sent, number)
        metadata = MetadataTable(open_store(job.store, job.options))
        listed = _Listed(metadata.write_segment(FILES, look.table, layout=Blocks(look.blocks)))
    except PrunerError as error:
        # Returned as an answer: after an exception the machines would only retry.
        listed = _Listed(None, str(error))
    yield msgspec.json.encode(listed)


def share_listing(
    source: TableSource, metadata: MetadataTable, last_snapshot: LastSnapshot, runner: SharingRunner
) -> None:
    """Let the runner's machines list a table that was not listed before, if they can and the listing takes long.

    Args:
        source: the table; afterwards it starts from that listing.
        metadata: its metadata table, to which the parts are written.
        last_snapshot: the snapshot that is saved there.
        runner: the runner that builds indexes.
    """
    if not isinstance(source, SharedSource):
        return
    try:
        parts = source.parts(runner.parts())
        if parts is None:
            return
        job = _Listing(
            root=source.root,
            format=source.format,
            store=metadata.store.uri,
            options=dict(source.storage_options),
            sent=parts.sent,
        )
        listed = _listed(metadata, runner, job, parts.number)
        if listed is not None:
            last_snapshot.put_together(parts.sent, listed)
    except PrunerError as error:
        _log.debug("%s is listed in one process: %s", source.root, error)


def _listed(
    metadata: MetadataTable, runner: SharingRunner, job: _Listing, count: int
) -> list[SegmentEntry] | None:
    """The segments of all parts, in their order; None if some part could not be listed."""
    segments: dict[int, SegmentEntry] = {}
    why = "a part is missing"
    try:
        for number, answer in runner.share(partial(list_part, msgspec.json.encode(job)), count):
            listed = msgspec.json.decode(answer, type=_Listed)
            if listed.segment is not None:
                segments[number] = listed.segment
            why = listed.why or why
    except Exception as error:  # whatever the machines raise: what they lack is reported before the build
        why = first_line(error)
    if len(segments) == count:
        return [segments[number] for number in range(count)]
    _log.debug("%s is listed in one process: %s", job.root, why)
    metadata.store.delete(segment.path for segment in segments.values())
    return None
