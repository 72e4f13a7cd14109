"""A Hudi table listed in full: by pruner's own listing, and by hudi-rs where the files leave something open. Several
machines can share the first listing of a large one.

hudi-rs takes 9.5 kB for each file group, and sorts log files of archived writes after those that were written later.
Where pruner's listing cannot tell which files count, hudi-rs decides, or says what must be repaired
(docs/adr/0035-hudi-tables-listed-here.md).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from pruner.errors import FormatError, TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi import saved
from pruner.tables.hudi.archived import CleanedError
from pruner.tables.hudi.listing import HudiSlice, attach_logs, folders_of, marked, misread_by_hudi_rs
from pruner.tables.hudi.merging.hudi_rs import hudi_rs
from pruner.tables.hudi.metadata.indexes import partitions_of
from pruner.tables.hudi.metadata.listing import FILES, METADATA_PATH
from pruner.tables.hudi.metadata.whole import list_bytes, list_of_files, listed_files, partition_bytes
from pruner.tables.hudi.slice_columns import HudiColumns
from pruner.tables.hudi.slices import any_named_by_write, listing_of, slices_among
from pruner.tables.hudi.timeline import COMPLETION_TIMES, read_timeline, refusing
from pruner.tables.source import ListingParts, SavedLook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import hudi

    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import Folders, Listing
    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.timeline import Timeline
    from pruner.tables.source import SavedBlocks

_log = logging.getLogger("pruner")

_TWO_BASE_FILES = "is already present in File Group"
"""How hudi-rs reports two base files of one file group and instant."""


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
        options: those with which the store was opened.
        timeline: which instants have completed.
        as_of: an instant, None for the newest slices.
        table: what hudi-rs opened; None where it cannot list the table.

    Raises:
        TableError: the slices cannot be determined reliably.
        StorageError: the store refuses.
    """
    has_list = _has_list(timeline)
    whole = _list_of_files(store, options, timeline) if has_list else None
    # hudi-rs lists by the metadata table without checking that its list of files is complete (trap T18).
    decides = table if whole is not None or not has_list else None
    try:
        certain = decides is not None
        # Nothing else references the files, so they are freed before the columns are joined.
        slices = slices_among(
            store,
            timeline,
            as_of,
            _listing(store, whole, refuse_strange=certain),
            shared=True,
            certain=certain,
        )
        return _joined(store.uri, slices, timeline)
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
        return _joined(store.uri, listed, timeline)


def _has_list(timeline: Timeline) -> bool:
    """Tell whether the table has a list of its files whose completeness can be checked."""
    return timeline.properties.version >= COMPLETION_TIMES and FILES in partitions_of(timeline)


def _list_of_files(store: Store, options: Mapping[str, str], timeline: Timeline) -> list[FileGroup] | None:
    """The metadata table's list of files, if it is complete."""
    return list_of_files(open_store(f"{store.uri}/{METADATA_PATH}", options), timeline)


def _downgraded(store: Store, timeline: Timeline) -> bool:
    """Tell whether log files are from before a downgrade, which hudi-rs takes for slices without a base file."""
    if timeline.properties.version >= COMPLETION_TIMES or not timeline.properties.merge_on_read:
        return False
    files = listing_of(store, folders_of(store), marked=False)
    return any(any_named_by_write(group, timeline) for _, group in files.groups())


def _listing(store: Store, whole: list[FileGroup] | None, *, refuse_strange: bool) -> Listing:
    """The files by the metadata table's list, if it is complete, so that an object store need not list them all."""
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


def _joined(root: str, slices: Iterable[HudiSlice], timeline: Timeline) -> HudiColumns:
    """The columns of slices, which are checked and marked on the way."""
    return HudiColumns.joined(root, _checked(root, slices, timeline))


def _checked(root: str, slices: Iterable[HudiSlice], timeline: Timeline) -> Iterator[HudiSlice]:
    """The slices, marked where no index may cover them."""
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
    """Refuse a slice whose files are outside of the table.

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


# A listing shared among machines: each lists some partitions.
#
# The machines use the same source as a single process: the metadata table's list of files where there is one, so that
# they need not list folders, which may hold other files; otherwise folders of an object store. Local folders are
# listed by one process, because those of other machines may hold less.
#
# Every machine must see exactly the timeline that the listing is of. The listing is of one moment because the
# timeline is still the same when everything is listed. Anything in doubt is left to a listing of the whole table,
# which knows how to handle it.

LIST_BYTES: Final = 1 << 22
"""Size of the metadata table's list of files, in bytes, from which a listing is shared: some 100,000 files, which one
process lists in two seconds.
"""

FOLDERS_FROM: Final = 1_000
"""Folders from which it is shared where the table has no such list."""

_INTERNAL = METADATA_PATH.partition("/")[0]


class _Sent(msgspec.Struct, frozen=True):
    """The timeline as a stored listing has it, whether there is a list of files, and for each part its partitions or
    the folders that contain them.
    """

    look: bytes
    has_list: bool
    parts: tuple[tuple[str, ...], ...]


_SENT = msgspec.json.Decoder(_Sent)


def parts_of(store: Store, options: Mapping[str, str], most: int) -> ListingParts | None:
    """Cut a table into parts by its partitions: see `SharedSource`.

    Args:
        store: its root.
        options: those with which the store was opened.
        most: the maximum number of parts.

    Raises:
        TableError: the timeline cannot be read.
        FormatError: the list of files is damaged.
        StorageError: the store refuses.
    """
    timeline = read_timeline(store)
    has_list = _has_list(timeline)
    if has_list:
        whole = _list_of_files(store, options, timeline)
        if whole is None or list_bytes(whole) < LIST_BYTES:
            return None
        sizes = sorted(partition_bytes(whole).items())
        folders = [path for path, _ in sizes]
        cuts = _cuts_by_size([size for _, size in sizes], most)
    else:
        if not _is_seen_by_all(store):
            return None
        folders = _folders(store, len(timeline.properties.partition_fields), most)
        if len(folders) < FOLDERS_FROM:
            return None
        cuts = _cuts_of_folders(folders, most)
    if len(folders) < 2:
        return None
    parts = tuple(tuple(folders[start:stop]) for start, stop in pairwise(cuts))
    sent = _Sent(saved.described_look(timeline, {}), has_list, parts)
    return ListingParts(msgspec.json.encode(sent), len(parts))


def _is_seen_by_all(store: Store) -> bool:
    """Tell whether other machines list the same files."""
    return not store.uri.startswith("/")


def list_part(store: Store, options: Mapping[str, str], sent: bytes, number: int) -> SavedLook:
    """List the partitions of one part: see `SharedSource`."""
    timeline, shared = _received(sent)
    if read_timeline(store) != timeline:
        raise TableError(f"{store.uri} has another timeline here, or has changed")
    paths = shared.parts[number]
    if shared.has_list:
        whole = _list_of_files(store, options, timeline)
        if whole is None:
            raise TableError(f"the list of files of {store.uri} is not whole here")
        folders, marked = listed_files(whole, paths), False
    else:
        folders, marked = _below(store, paths), True
    # Nothing else references the files here, either.
    slices = slices_among(
        store,
        timeline,
        None,
        listing_of(store, folders, marked=marked, refuse_strange=True),
        shared=True,
        certain=True,
    )
    return saved.save(timeline, _joined(store.uri, slices, timeline), part=True)


def _below(store: Store, under: Iterable[str]) -> Folders:
    """The files in and below some folders, each of which must exist."""
    for path in under:
        is_there = False
        for folder, files in folders_of(store, path):
            is_there = True
            yield folder, files
        if not is_there:
            raise TableError(f"{store.uri} has no folder {path!r} any more")


def join_parts(store: Store, sent: bytes, parts: Sequence[SavedBlocks]) -> SavedLook | None:
    """The listing that all parts make: see `SharedSource`."""
    timeline, _ = _received(sent)
    return saved.joined(timeline, store.uri, parts) if read_timeline(store) == timeline else None


def _received(sent: bytes) -> tuple[Timeline, _Sent]:
    shared = _SENT.decode(sent)
    known = saved.look_described(shared.look)
    if known is None:
        raise TableError("another version of pruner shares out this listing")
    return known[0], shared


def _folders(store: Store, depth: int, wanted: int) -> list[str]:
    """Sorted folders in and below which all data is located: the partitions, or folders above them if these are enough.

    The table itself where data is beside its folders, or it has no partitions.
    """
    folders = [""]
    for _ in range(depth):
        if len(folders) >= wanted:
            break
        below: list[str] = []
        for folder in folders:
            level = store.level(folder)
            inside = [f"{folder}/{name}" if folder else name for name in level.folders]
            # One that has files is a partition, whose contents must not be split.
            below += [folder] if level.objects or not inside else inside
        folders = [folder for folder in below if folder != _INTERNAL]
    return sorted(folders)


def _cuts_by_size(sizes: Sequence[int], most: int) -> list[int]:
    """Where parts of about equal size begin and end."""
    ends = list(accumulate(sizes))
    cuts = (
        {bisect_right(ends, ends[-1] * number // most) for number in range(1, most)} if ends else set[int]()
    )
    return sorted({0, *cuts, len(sizes)})


def _cuts_of_folders(folders: Sequence[str], most: int) -> list[int]:
    """Where parts begin and end, so that all partitions of a part come before all of the next one.

    `a-b` sorts between the folder `a` and the folders in it, so these must be in one part.
    """
    known = frozenset(folders)
    cuts, count = [0], min(most, len(folders))
    for number in range(1, count):
        at = max(len(folders) * number // count, cuts[-1] + 1)
        while at < len(folders) and _is_between(folders[at], known):
            at += 1
        if at < len(folders):
            cuts.append(at)
    return [*cuts, len(folders)]


def _is_between(folder: str, known: frozenset[str]) -> bool:
    """Tell whether a folder sorts between another one and the folders in that."""
    return any(letter < "/" and folder[:at] in known for at, letter in enumerate(folder))
