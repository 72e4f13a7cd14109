"""What an index was defined as, and which slices of a snapshot its batches of records are of.

Joins slice batches to a snapshot by slice key: slice by slice, or whole runs of slices by one digest.
"""

from __future__ import annotations

import re
import uuid as uuids
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, compute, filled, index_of_few, positions
from pruner.errors import IndexDefinitionError
from pruner.metadata.aligning import aligned
from pruner.tables.snapshot import SLICE_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

NAME_CHARACTERS = 128
"""Longest name of an index."""

Uuid = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""32 lower-case hexadecimal digits."""


def now() -> str:
    """The time as records state it: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class FieldBinding(msgspec.Struct, frozen=True):
    """A field as it was when the index was defined; `type` is its Arrow type as text, `stored` is `Field.stored`."""

    path: tuple[str, ...]
    type: str
    field_id: int | None = None
    stored: tuple[str, ...] | None = None

    @property
    def recorded(self) -> tuple[str, ...]:
        """The path under which its records are kept: see `pruner.schema.Field.recorded`."""
        return self.stored or self.path


class Over(NamedTuple):
    """What a definition says of its expression: the text and its dialect, what it came to, and who made sense of it."""

    text: str
    dialect: str
    form: str
    registry: int
    evaluator: str


class IndexDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One index.

    Records belong to a definition by `uuid` and never by name, so an index that is dropped and made anew
    starts empty. `using` names the index type and `record_version` is the version of the records that it
    makes. `all_columns` stands for `on="*"`: fields that the table gains are indexed as well. `where` and
    `expression` are SQL text, or None. An expression is in the `dialect` of an engine; `form` is what it came to by the
    `registry` of functions of that version (`pruner.expr.derived.canonical`), evaluated by the `evaluator`.
    """

    uuid: Uuid
    name: str
    using: str
    fields: tuple[FieldBinding, ...]
    all_columns: bool = False
    options: dict[str, str] = {}
    where: str | None = None
    expression: str | None = None
    dialect: str | None = None
    form: str | None = None
    registry: int | None = None
    evaluator: str | None = None
    record_version: Annotated[int, msgspec.Meta(ge=1)] = 1
    created_at: str = ""

    def folder(self, partition: str) -> str:
        """The partition of the metadata table for its records; that of its type unless it is over an expression."""
        if self.form is None:
            return partition
        # Records belong to a definition by its UUID: that two names come to one folder does no harm.
        return "func_index_" + re.sub("[^a-z0-9_]", "_", self.name.lower())

    def why_unusable(self, versions: Mapping[str, int]) -> str | None:
        """Say why this version of pruner cannot use the index, or None when it can.

        Such a definition stays in the metadata table as it is and plans do without it.

        Args:
            versions: name and record version of every index type that is known here.
        """
        known = versions.get(self.using)
        if known is None:
            return f"index {self.name!r} has the type {self.using!r}, which is not installed"
        if self.record_version > known:
            return (
                f"index {self.name!r} has {self.using} records of version {self.record_version}; "
                f"this pruner reads up to {known}"
            )
        return None


def define(
    name: str,
    using: str,
    fields: tuple[FieldBinding, ...],
    *,
    all_columns: bool = False,
    options: Mapping[str, str] | None = None,
    where: str | None = None,
    over: Over | None = None,
    record_version: int = 1,
) -> IndexDefinition:
    """Make a new definition, with a UUID and the time.

    Raises:
        IndexDefinitionError: the name is empty, too long or holds control characters, or there is nothing to
        index.
    """
    check_name(name)
    if not fields and not all_columns:
        raise IndexDefinitionError(f"index {name!r} names no column: give a column or an expression")
    return IndexDefinition(
        uuid=uuids.uuid4().hex,
        name=name,
        using=using,
        fields=fields,
        all_columns=all_columns,
        options=dict(options or {}),
        where=where,
        expression=None if over is None else over.text,
        dialect=None if over is None else over.dialect,
        form=None if over is None else over.form,
        registry=None if over is None else over.registry,
        evaluator=None if over is None else over.evaluator,
        record_version=record_version,
        created_at=now(),
    )


def check_name(name: str) -> None:
    """Refuse what cannot be the name of an index.

    Raises:
        IndexDefinitionError: the name is empty, longer than `NAME_CHARACTERS`, or holds characters that do
        not print.
    """
    if not name.strip():
        raise IndexDefinitionError("an index needs a name that is not empty")
    if len(name) > NAME_CHARACTERS:
        raise IndexDefinitionError(
            f"the index name {name[:20]!r}… has {len(name)} characters: at most {NAME_CHARACTERS} are allowed"
        )
    if not name.isprintable():
        raise IndexDefinitionError(f"the index name {name!r} holds unprintable characters: remove them")


def locate(snapshot_keys: pa.Array[Any], batch_keys: pa.Array[Any]) -> NDArray[np.int64]:
    """Tell for each row of a slice batch which slice of the snapshot it is.

    Args:
        snapshot_keys: the slice keys of the snapshot, 16 bytes each.
        batch_keys: the slice keys of the batch, likewise.

    Returns:
        For each batch row the snapshot ordinal, or -1 when the snapshot does not have that slice. No ordinal comes
        twice, so values may be scattered by the result in any order. Of equal keys in the batch the first counts.
        Of equal keys in the snapshot at least one slice is found. A null is not a key.
    """
    return locate_all(snapshot_keys, [batch_keys])[0]


def locate_all(snapshot_keys: pa.Array[Any], batches: Sequence[pa.Array[Any]]) -> list[NDArray[np.int64]]:
    """Join several slice batches at once, each as `locate` does: the table of the snapshot's keys is made once, or not
    at all for a few slices.
    """
    if len(batches) == 1 and _same(snapshot_keys, batches[0]):
        return [np.arange(len(batches[0]), dtype=np.int64)]
    together = arrow.chunked_array(batches, pa.binary(SLICE_KEY_BYTES)).combine_chunks()
    ordinals = _in_order(snapshot_keys, together)
    if ordinals is None:
        ordinals = _joined(snapshot_keys, together)
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    return [_first_only(run, len(snapshot_keys)) for run in np.split(ordinals, ends)]


_FEW: Final = 16
"""So many times more slices has a snapshot, at least, of which few are looked for."""


_ALIGNED_FROM: Final = 4096
"""Slices of a batch from which on it pays to look whether they are still in their order."""


def _joined(snapshot_keys: pa.Array[Any], keys: Any) -> NDArray[np.int64]:
    """The ordinal in the snapshot of each key, -1 where it has none. It may come twice."""
    if len(keys) * _FEW < len(snapshot_keys):
        found = index_of_few(keys, snapshot_keys, skip_nulls=True)
    else:
        found = compute.index_in(keys, value_set=snapshot_keys, skip_nulls=True)
    return as_numpy(filled(found, -1)).astype(np.int64)


def _in_order(snapshot_keys: pa.Array[Any], keys: Any) -> NDArray[np.int64] | None:
    """What `_joined` returns, of keys that stand in the order of the snapshot but for few; None of others."""
    if len(keys) < _ALIGNED_FROM or keys.null_count or snapshot_keys.null_count:
        return None
    ordinals = aligned(_words(snapshot_keys), _words(keys))
    if ordinals is None:
        return None
    left = np.flatnonzero(ordinals < 0)
    if not len(left) or len(left) * _FEW > len(keys):
        return None if len(left) else ordinals
    others = keys.take(positions(left))
    if int(compute.sum(compute.is_in(keys, value_set=others)).as_py() or 0) > len(left):
        return None  # a key comes twice, of which the first counts
    free = np.ones(len(snapshot_keys), np.bool_)
    free[ordinals[ordinals >= 0]] = False
    rest = np.flatnonzero(free)
    found = _joined(snapshot_keys.take(positions(rest)), others)
    ordinals[left[found >= 0]] = rest[found[found >= 0]]
    return ordinals


def digest_runs(keys: pa.Array[Any], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> list[bytes]:
    """XXH3-128 of the slice keys of each run, written one behind the other: it names exactly these slices."""
    words: Any = _words(keys)  # a buffer, which NumPy's stubs leave out
    return [
        xxhash.xxh3_128_digest(words[2 * start : 2 * (start + count)])
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]


def locate_runs(
    snapshot_keys: pa.Array[Any],
    first_keys: pa.Array[Any],
    counts: NDArray[np.int64],
    digests: Sequence[bytes],
) -> NDArray[np.int64]:
    """Tell for each run of slices where in the snapshot exactly these slices stand in this order.

    Args:
        snapshot_keys: the slice keys of the snapshot, none of them null.
        first_keys: the key of the first slice of each run.
        counts: number of slices of each run, at least 1.
        digests: what `digest_runs` gave of each run.

    Returns:
        The ordinal of the first slice of each run; -1 where a slice of it is gone or another stands between.
    """
    words: Any = _words(snapshot_keys)  # a buffer, which NumPy's stubs leave out
    total = len(snapshot_keys)
    starts = np.full(len(counts), -1, np.int64)

    def place(run: int, start: int) -> bool:
        end = start + int(counts[run])
        if end > total or xxhash.xxh3_128_digest(words[2 * start : 2 * end]) != digests[run]:
            return False
        starts[run] = start
        return True

    # Mostly runs stand where they stood when they were recorded, one behind the other.
    expected = np.cumsum(counts) - counts
    elsewhere = [run for run in range(len(counts)) if not place(run, int(expected[run]))]
    if elsewhere:
        wanted = first_keys.take(positions(elsewhere))
        rows = np.flatnonzero(as_numpy(compute.is_in(snapshot_keys, value_set=wanted)))
        begins = dict(zip(snapshot_keys.take(positions(rows)).to_pylist(), rows.tolist(), strict=True))
        for run, first_key in zip(elsewhere, wanted.to_pylist(), strict=True):
            place(run, begins.get(first_key, total))
    return starts


def _same(left: pa.Array[Any], right: pa.Array[Any]) -> bool:
    """The usual case, far cheaper than a join: one batch covers a table that has not changed since."""
    if len(left) != len(right) or left.null_count or right.null_count:
        return False
    return np.array_equal(_words(left), _words(right))


def _words(keys: pa.Array[Any]) -> NDArray[np.uint64]:
    data: Any = keys.buffers()[1]
    if data is None:
        return np.empty(0, dtype=np.uint64)
    start = keys.offset * SLICE_KEY_BYTES
    return np.frombuffer(data, dtype=np.uint64, count=len(keys) * 2, offset=start)


def _first_only(ordinals: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Keep the first of equal ordinals, put -1 for the others."""
    rows = np.arange(len(ordinals), dtype=np.int64)
    first = np.empty(count + 1, dtype=np.int64)  # the last entry takes what -1 points to
    first[ordinals[::-1]] = rows[::-1]  # of repeated indices the last write stays
    return np.where(first[ordinals] == rows, ordinals, -1)
