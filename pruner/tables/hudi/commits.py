"""What the commits of a Hudi table say they did, from the files of its timeline.

Table version 6 writes commits as JSON and cleans as Avro, versions 8 and 9 everything as Avro object files (Hudi
technical specification, "Timeline"; avro-idl of `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`,
`HoodieCleanMetadata` and `HoodieCompactionPlan`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import fastavro
import msgspec

COMMIT_BYTES = 16 * 1024 * 1024
"""Largest commit that is read: larger ones change so many slices that a listing costs no more."""

Content: TypeAlias = "bytes | Mapping[str, Any]"
"""What an instant did: a file of the active timeline, or that as a record of the archived one."""

_AVRO_MAGIC = b"Obj\x01"
_T = TypeVar("_T")


class UnreadCommitError(ValueError):
    """A commit that cannot be understood; the text is a clause."""


class WriteStat(msgspec.Struct, frozen=True, rename="camel"):
    """One file that a commit wrote. `path` is relative to the table's root, `file_size_in_bytes` is of that file."""

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    file_size_in_bytes: int | None = None
    log_files: list[str] | None = None
    cdc_stats: dict[str, Any] | None = None


class Commit(msgspec.Struct, frozen=True, rename="camel"):
    """A commit, delta commit or replace commit: what it wrote and replaced, by partition path."""

    partition_to_write_stats: dict[str, list[WriteStat]] | None = None
    partition_to_replace_file_ids: dict[str, list[str]] | None = None
    operation_type: str | None = None
    extra_metadata: dict[str, Any] | None = None

    def replaced(self) -> Iterator[tuple[str, str]]:
        """Yield partition path and file id of each file group that it replaced."""
        for partition, file_ids in (self.partition_to_replace_file_ids or {}).items():
            for file_id in file_ids:
                yield partition, file_id


class CleanedPartition(msgspec.Struct, frozen=True, rename="camel"):
    """The files that a cleaner deleted, or tried to delete, in one partition, by name."""

    delete_path_patterns: list[str] | None = None
    success_delete_files: list[str] | None = None
    failed_delete_files: list[str] | None = None


class Clean(msgspec.Struct, frozen=True, rename="camel"):
    """What a cleaner did."""

    partition_metadata: dict[str, CleanedPartition] | None = None
    bootstrap_partition_metadata: dict[str, CleanedPartition] | None = None
    earliest_commit_to_retain: str | None = None

    def deleted(self) -> Iterator[tuple[str, str]]:
        """Yield partition path and name of each file that was deleted, or that the cleaner tried to delete."""
        for partition, cleaned in (self.partition_metadata or {}).items():
            for paths in (
                cleaned.delete_path_patterns,
                cleaned.success_delete_files,
                cleaned.failed_delete_files,
            ):
                for path in paths or ():
                    yield partition, path[path.rfind("/") + 1 :]


class CompactedGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One file group of a compaction plan: the log files, by path or name, that it takes up."""

    partition_path: str | None = None
    file_id: str | None = None
    delta_file_paths: list[str] | None = None


class CompactionPlan(msgspec.Struct, frozen=True, rename="camel"):
    """What a compaction was asked to do."""

    operations: list[CompactedGroup] | None = None


def read_commit(data: Content) -> Commit:
    """Parse a completed commit, delta commit or replace commit.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, Commit)


def read_clean(data: Content) -> Clean:
    """Parse a completed clean.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, Clean)


def read_compaction_plan(data: bytes) -> CompactionPlan:
    """Parse the plan of a compaction.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, CompactionPlan)


def _read(data: Content, kind: type[_T]) -> _T:
    try:
        if not isinstance(data, bytes):
            return msgspec.convert(data, kind)
        if not data.startswith(_AVRO_MAGIC):
            return msgspec.json.decode(data, type=kind)
        return msgspec.convert(_record(data), kind)
    except msgspec.MsgspecError as error:
        raise UnreadCommitError(f"is not understood ({error})") from None


def _record(data: bytes) -> object:
    """The one record of an Avro object file."""
    avro: Any = fastavro  # whose stubs leave types open
    try:
        reader = avro.reader(io.BytesIO(data))
        # Packed files, which Hudi does not write here, could unpack to any size.
        if reader.codec != "null":
            raise UnreadCommitError(f"is packed with {reader.codec}")
        records = [record for record, _ in zip(reader, range(2), strict=False)]
    except UnreadCommitError:
        raise
    except (
        Exception
    ) as error:  # fastavro raises what its parts raise: a damaged file must only not be believed
        raise UnreadCommitError(f"is no Avro file that can be read ({type(error).__name__})") from None
    if len(records) != 1:
        raise UnreadCommitError("does not hold one record")
    return records[0]
