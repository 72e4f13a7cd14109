"""`pruner doctor`: probes a table, its store and this installation before anything relies on them.

Each probe tries the real operation: it lists, reads the end of a data file, and writes, reads and deletes an object at
the location of the metadata table. Its finding is one sentence and, if something is wrong, what to do.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata as distributions
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import PrunerError, cause
from pruner.maintenance.status import REASONS, REFUSED
from pruner.planning.pinned import DISABLED_VARIABLE
from pruner.plugins import DISTRIBUTION
from pruner.showing.words import counted, data_size, drop_command, no_more
from pruner.storage.opening import open_for_arrow
from pruner.tables.parquet.other_files import other_files
from pruner.tables.parquet.several import least_alike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.markers import Marker

    from pruner.maintenance.status import IndexStatus, TableStatus
    from pruner.metadata.table import MetadataTable
    from pruner.storage.store import Store
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

CLOCK_TOLERANCE_SECONDS = 5.0
"""Clocks that differ by more are reported: new objects are then taken for older or younger than they are."""

_PROBE_BYTES = b"written by pruner doctor; may be deleted"


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe found: a sentence, and what to do if the level is not `ok` and the sentence does not say it."""

    probe: str
    level: Severity
    found: str
    remedy: str | None = None


def examine(
    source: TableSource,
    metadata: MetadataTable,
    snapshot: Callable[[], Snapshot],
    status: Callable[[], TableStatus],
) -> Iterator[Finding]:
    """Run all probes, one after another.

    Raises:
        TableError: the table cannot be listed, so nothing else can be tried.
        StorageError: the store refuses the read.
    """
    yield from probe_installation((DISABLED_VARIABLE,))
    started = time.monotonic()
    listed = snapshot()
    yield from probe_listing(source, listed, time.monotonic() - started)
    if source.format == "parquet":
        yield from probe_files(source, listed)
        yield from probe_folders(source, listed)
    yield probe_data(source, listed)
    yield from probe_metadata_store(metadata.store, exists=metadata.exists())
    yield from probe_indexes(status())


def probe_listing(source: TableSource, snapshot: Snapshot, seconds: float) -> Iterator[Finding]:
    """Report the listing of a snapshot, and slices that no index may cover."""
    finding = (
        f"{source.format} table, {counted(len(snapshot), snapshot.noun)}, {data_size(snapshot.total_size)}, "
        f"listed in {seconds * 1e3:,.0f} ms"
    )
    if len(snapshot):
        yield Finding("list", Severity.OK, finding)
    else:
        yield Finding(
            "list", Severity.WARNING, f"{finding}: it is empty", "check that this is the table's root"
        )
    for reason, count in snapshot.uncoverable_because.items():
        finding = f"every plan keeps {counted(count, snapshot.noun)}, because of {reason}"
        yield Finding("list", Severity.WARNING, finding, "see pruner status")
    for place, sentence in islice(snapshot.problems.items(), 1):
        more = (
            f" ({len(snapshot.problems) - 1:,} more are in pruner status)"
            if len(snapshot.problems) > 1
            else ""
        )
        named = sentence if place in sentence else f"{place}: {sentence}"
        remedy = "give the right to read the file, or repair or delete it; then run pruner refresh"
        yield Finding("list", Severity.WARNING, f"{named}{more}", remedy)


def probe_files(source: TableSource, snapshot: Snapshot) -> Iterator[Finding]:
    """Report files about which an engine and pruner's rule differ: only one of them reads them as part of the table."""
    taken = set(snapshot.column("base_file").to_pylist())
    try:
        others = other_files(source.roots, source.storage_options, taken)
    except PrunerError as error:
        yield Finding(
            "files", Severity.WARNING, f"what else lies beside the table's files is not known: {error}"
        )
        return
    if others.hidden:
        told = (
            f"{_named(others.hidden)} left out, as in Spark and Trino, for a name of file or folder that begins with _ "
            "or .; DuckDB's own glob **/*.parquet reads such files"
        )
        yield Finding("files", Severity.WARNING, told, "rename data files, or move other files")
    if others.foreign:
        told = f"{_named(others.foreign)} ignored for not being Parquet inside; Spark and Trino fail on such files"
        yield Finding("files", Severity.WARNING, told, "move it away from the data")
    if others.named_otherwise:
        told = (
            f"{_named(others.named_otherwise)} part of the table, as in Spark and Trino, without a name that ends in "
            ".parquet; DuckDB's own glob **/*.parquet leaves such files out"
        )
        yield Finding("files", Severity.OK, told)


def probe_folders(source: TableSource, snapshot: Snapshot) -> Iterator[Finding]:
    """Report folders that could be separate tables."""
    unlike = least_alike(snapshot) if len(source.roots) == 1 else None
    if unlike is not None:
        one, other, common = unlike
        shared = ", ".join(sorted(common)) or "none"
        places = " and in ".join(f"{source.root.rstrip('/')}/{folder}".rstrip("/") for folder in (one, other))
        told = f"files in {places} have few columns in common ({shared}), and are read as one table"
        yield Finding("folders", Severity.WARNING, told, "open each folder by itself if they are two tables")


def _named(places: list[str]) -> str:
    """The number of files, the first of them as an example, and the verb that follows."""
    if len(places) == 1:
        return f"{places[0]} is"
    return f"{counted(len(places), 'file')} ({places[0]} and {len(places) - 1:,} more) are"


def probe_data(source: TableSource, snapshot: Snapshot) -> Finding:
    """Read the footer of the first base file, as a build does."""
    column = snapshot.column("base_file")
    ordinal = next((at for at, uri in enumerate(column) if uri.is_valid), None)
    if ordinal is None:
        return Finding("read", Severity.OK, "there is no base file to read")
    uri: str = column[ordinal].as_py()
    size = snapshot.value("base_size", ordinal)
    started = time.monotonic()
    try:
        with pq.ParquetFile(open_for_arrow(uri, size, source.storage_options)) as file:
            rows = file.metadata.num_rows
    except (PrunerError, OSError, pa.ArrowException) as error:
        remedy = "check that this user may read the table's files, and that the file is whole"
        return Finding("read", Severity.FAILURE, f"cannot read {uri}: {cause(error)}", remedy)
    milliseconds = (time.monotonic() - started) * 1e3
    return Finding("read", Severity.OK, f"footer of a file with {rows:,} rows read in {milliseconds:.0f} ms")


def probe_metadata_store(store: Store, *, exists: bool) -> Iterator[Finding]:
    """Write an object twice under one name, read it and delete it; compare the store's clock with this machine's.

    Args:
        store: where the metadata table is, or will be.
        exists: whether there is a metadata table; if not, the folders that the probe created are removed again.
    """
    path = f"staging/doctor-{uuid.uuid4().hex}"
    try:
        yield from _probe_writing(store, path)
    except PrunerError as error:
        remedy = "pruning works without it; to build indexes, set index_uri to a writable location"
        yield Finding("write", Severity.FAILURE, str(error), remedy)
        return
    finally:
        _tidy(store, path, exists=exists)


def _probe_writing(store: Store, path: str) -> Iterator[Finding]:
    before = time.time()
    first = store.put_if_absent(path, _PROBE_BYTES)
    after = time.time()
    second = store.put_if_absent(path, b"a second writer")
    if not first or second or store.get(path, len(_PROBE_BYTES) + 100) != _PROBE_BYTES:
        yield Finding(
            "write",
            Severity.FAILURE,
            f"{store.uri} lets a second writer replace an object that is to be created once",
            "use a store with conditional writes (If-None-Match), or another place as index_uri: "
            "without them two builds can undo each other",
        )
        return
    yield Finding("write", Severity.OK, f"{store.uri}: an object can be created once, read and deleted")
    info = store.info(path)
    if info is not None:
        yield _clock(info.mtime_ns / 1e9, before, after)


def _clock(written: float, before: float, after: float) -> Finding:
    """Compare an object's modification time in the store with this machine's time before and after the write."""
    # Stores may keep whole seconds, so an object may look written up to one second earlier.
    apart = max(before - written - 1.0, written - after, 0.0)
    if apart <= CLOCK_TOLERANCE_SECONDS:
        return Finding("clock", Severity.OK, "the store's clock and this machine's agree")
    return Finding(
        "clock",
        Severity.WARNING,
        f"the store's clock and this machine's are {apart:,.0f} s apart",
        "set both by NTP; until then files can stay uncovered, and vacuum may take leftovers too early or late",
    )


def _tidy(store: Store, path: str, *, exists: bool) -> None:
    try:
        store.delete([path])
        if not exists:
            store.remove_empty_folders()
    except PrunerError:
        pass  # vacuum removes it; that the store cannot be written is already reported


def probe_indexes(status: TableStatus) -> Iterator[Finding]:
    """Report for each index whether plans use it and how much of the table it covers."""
    for reason in status.fallbacks:
        yield Finding("index", Severity.FAILURE, reason)
    if not status.indexes and not status.fallbacks:
        remedy = f"""pruner sql "CREATE INDEX stats ON '{status.uri}' (a_column)\""""
        yield Finding("index", Severity.WARNING, "there is no index, so nothing is pruned", remedy)
    for index in status.indexes:
        yield _index(index, status)


def _index(index: IndexStatus, status: TableStatus) -> Finding:
    probe, noun = f"index {index.name}", status.noun
    if not index.usable:
        return Finding(
            probe, Severity.FAILURE, index.note or "plans cannot use it: drop it and create it anew"
        )
    if index.is_without_columns:
        finding = f"{index.using} serves no query: {no_more(index.gone)}"
        return Finding(probe, Severity.WARNING, finding, drop_command(index.name, status.uri))
    covered = f"{index.using} covers {index.covered:,} of {counted(index.coverable, noun)}"
    if index.gone:
        covered += f" for the columns that are left; {no_more(index.gone)}"
    refused = sum(index.refused.values())
    others = {why: count for why, count in index.uncovered.items() if why != REFUSED}
    if others:
        why = ", ".join(f"{count:,} {REASONS[reason]}" for reason, count in others.items())
        finding = f"{covered}; the others stay in every plan: {why}"
        return Finding(probe, Severity.WARNING, finding, "run pruner refresh")
    if index.where is not None:
        return Finding(probe, Severity.OK, f"{covered}, in partitions with {index.where} alone")
    if refused:
        why = "; ".join(index.refused)
        return Finding(
            probe, Severity.WARNING, f"{covered}; {refused:,} it cannot take: {why}", "see pruner status"
        )
    return Finding(probe, Severity.OK, covered)


def probe_installation(variables: Iterable[str] = ()) -> Iterator[Finding]:
    """Compare the installed versions with those that this pruner requires; name the `variables` that are set."""
    for name in variables:
        if os.environ.get(name):
            finding = f"the environment variable {name} is set: nothing is pruned in this environment"
            yield Finding("environment", Severity.WARNING, finding, f"unset {name}")
    try:
        wanted = distributions.requires(DISTRIBUTION) or []
    except distributions.PackageNotFoundError:
        finding = f"the distribution {DISTRIBUTION} is not installed, so that versions cannot be compared"
        yield Finding(
            "packages", Severity.WARNING, finding, f"install {DISTRIBUTION} (in a checkout: pip install .)"
        )
        return
    findings = [finding for text in wanted if (finding := _package(text)) is not None]
    fitting = ", ".join(finding.found for finding in findings if finding.level is Severity.OK)
    if fitting:
        yield Finding("packages", Severity.OK, fitting)
    yield from (finding for finding in findings if finding.level is not Severity.OK)


def _package(text: str) -> Finding | None:
    """Compare one requirement with what is installed; None if it does not apply, or is optional and not installed."""
    from packaging.requirements import Requirement  # only this probe needs it

    requirement = Requirement(text)
    if requirement.marker is not None and not _applies(requirement.marker):
        return None
    optional = requirement.marker is not None and "extra" in str(requirement.marker)
    advice = f"pip install '{requirement.name}{requirement.specifier}'"
    try:
        version = distributions.version(requirement.name)
    except distributions.PackageNotFoundError:
        problem = f"{requirement.name} is not installed"
        return None if optional else Finding("packages", Severity.FAILURE, problem, advice)
    if requirement.specifier.contains(version, prereleases=True):
        return Finding("packages", Severity.OK, f"{requirement.name} {version}")
    problem = f"{requirement.name} {version} is installed, and {requirement.specifier} was tested"
    return Finding("packages", Severity.WARNING, problem, advice)


def _applies(marker: Marker) -> bool:
    """Whether a requirement applies to this Python and system, with some extra or none."""
    extras = distributions.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    return any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
