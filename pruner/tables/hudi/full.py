"""A Hudi table listed in full: by pruner's own listing, and by hudi-rs where the files leave something open.

hudi-rs takes 9.5 kB for each file group, and puts log files of archived writes behind those that were written later.
Where our listing cannot tell which files count, hudi-rs decides, or says what is to be mended
(docs/adr/0035-hudi-tables-listed-here.md).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pruner.errors import FormatError, TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi.archived import CleanedError
from pruner.tables.hudi.listing import HudiSlice, attach_logs, folders_of, marked, misread_by_hudi_rs
from pruner.tables.hudi.merging.hudi_rs import hudi_rs
from pruner.tables.hudi.metadata.indexes import partitions_of
from pruner.tables.hudi.metadata.listing import FILES, METADATA_PATH
from pruner.tables.hudi.metadata.whole import list_of_files, listed_files
from pruner.tables.hudi.slice_columns import HudiColumns
from pruner.tables.hudi.slices import any_named_by_write, listing_of, slices_among
from pruner.tables.hudi.timeline import COMPLETION_TIMES, refusing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import hudi

    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import Listing
    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.timeline import Timeline

_log = logging.getLogger("pruner")

_TWO_BASE_FILES = "is already present in File Group"
"""What hudi-rs says of two base files of one file group and instant."""


def list_table(
    store: Store,
    options: Mapping[str, str],
    timeline: Timeline,
    as_of: str | None,
    table: hudi.HudiTable | None,
) -> HudiColumns:
    """List a table.

    Args:
        store: its root.
        options: those by which the store was opened.
        timeline: which instants have completed.
        as_of: an instant, None for the newest slices.
        table: what hudi-rs opened; None where it cannot list the table.

    Raises:
        TableError: the slices cannot be told for sure.
        StorageError: the store refuses.
    """
    has_list = timeline.properties.version >= COMPLETION_TIMES and FILES in partitions_of(timeline)
    whole = list_of_files(open_store(f"{store.uri}/{METADATA_PATH}", options), timeline) if has_list else None
    # hudi-rs lists by the metadata table without asking whether its list is whole (trap T18).
    decides = table if whole is not None or not has_list else None
    try:
        certain = decides is not None
        # Nothing else holds the files, so they are gone before the columns are joined.
        slices = slices_among(
            store,
            timeline,
            as_of,
            _listing(store, whole, refuse_strange=certain),
            shared=True,
            certain=certain,
        )
        return HudiColumns.joined(store.uri, _checked(store.uri, slices, timeline))
    except TableError as reason:
        if decides is None:
            raise
        if isinstance(reason, CleanedError) or _downgraded(store, timeline):
            raise
        _log.debug("%s is listed by hudi-rs: %s", store.uri, reason)
        try:
            listed = _by_hudi_rs(store, decides, timeline, as_of)
        except TableError as error:
            raise (reason if _TWO_BASE_FILES in str(error) else error) from None
        return HudiColumns.joined(store.uri, _checked(store.uri, listed, timeline))


def _downgraded(store: Store, timeline: Timeline) -> bool:
    """Tell whether log files are from before a downgrade, which hudi-rs takes for slices without a base file."""
    if timeline.properties.version >= COMPLETION_TIMES or not timeline.properties.merge_on_read:
        return False
    files = listing_of(store, folders_of(store), marked=False)
    return any(any_named_by_write(group, timeline) for _, group in files.groups())


def _listing(store: Store, whole: list[FileGroup] | None, *, refuse_strange: bool) -> Listing:
    """The files by the metadata table's list, where it is whole, so that an object store need not list them all."""
    if whole is not None:
        try:
            return listing_of(store, listed_files(whole), marked=False, refuse_strange=refuse_strange)
        except FormatError as reason:
            _log.debug("%s is listed by its folders: %s", store.uri, reason)
    return listing_of(store, folders_of(store), refuse_strange=refuse_strange)


def _by_hudi_rs(
    store: Store, table: hudi.HudiTable, timeline: Timeline, as_of: str | None
) -> list[HudiSlice]:
    with refusing(store, timeline):
        options = hudi_rs().HudiReadOptions()
        table_slices = table.get_file_slices(options.with_as_of_timestamp(as_of) if as_of else options)
        slices = [_slice(entry) for entry in table_slices]
    if misread_by_hudi_rs(timeline):
        partitions = sorted({entry.partition for entry in slices})
        slices = attach_logs(slices, [info for path in partitions for info in store.list(path)])
    return sorted(slices, key=lambda entry: (entry.partition, entry.file_id))


def _checked(root: str, slices: Iterable[HudiSlice], timeline: Timeline) -> Iterator[HudiSlice]:
    """The slices with what no index may cover marked."""
    for entry in slices:
        refuse_escape(root, entry)
        yield marked(entry, timeline)


def _slice(entry: hudi.HudiFileSlice) -> HudiSlice:
    return HudiSlice(
        partition=entry.partition_path,
        file_id=entry.file_id,
        instant=entry.creation_instant_time,
        base=entry.base_file_name,
        base_size=entry.base_file_size,
        logs=tuple(entry.log_file_names),
        log_sizes=tuple(entry.log_file_sizes),
    )


def refuse_escape(root: str, entry: HudiSlice | None) -> None:
    """Refuse a slice whose files lie outside of the table.

    Raises:
        TableError: they do.
    """
    if entry is None:
        return
    names = (entry.base, *entry.logs)
    if any(part in (".", "..") for part in entry.partition.split("/")) or any("/" in name for name in names):
        raise TableError(
            f"the Hudi table {root} names files outside of itself, in partition {entry.partition!r}"
        )
