"""Fields of manifest lists and manifests: their ids, their names, and the version from which on each is required.

A reader goes by ids. A field whose id is damaged would count as left out, and files would be of sequence number 0, say.
So fields that have a known name must have the id that belongs to it, and none may lack that a version requires. Other
names are accepted: old writers had some.

Source: the Iceberg table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pruner.tables.avro.columns import NotColumnarError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VERSIONS: Final = {b"1": 1, b"2": 2, b"3": 3}
_NEVER: Final = 99


class ManifestField(NamedTuple):
    """A field: `required` is the first version that requires it, `since` the first one that has it."""

    name: str
    required: int = _NEVER
    since: int = 1


LIST_FIELDS: Final = {
    500: ManifestField("manifest_path", 1),
    501: ManifestField("manifest_length", 1),
    502: ManifestField("partition_spec_id", 1),
    503: ManifestField("added_snapshot_id", 2),
    515: ManifestField("sequence_number", 2, 2),
    516: ManifestField("min_sequence_number", 2, 2),
    517: ManifestField("content", 2, 2),
    519: ManifestField("key_metadata"),
}
"""Of a line of a manifest list."""

ENTRY_FIELDS: Final = {
    0: ManifestField("status", 1),
    2: ManifestField("data_file", 1),
    3: ManifestField("sequence_number", since=2),
    4: ManifestField("file_sequence_number", since=2),
}
"""Of an entry of a manifest. Writers may leave out 3 and 4, which then are those of the manifest."""

FILE_FIELDS: Final = {
    100: ManifestField("file_path", 1),
    101: ManifestField("file_format", 1),
    102: ManifestField("partition", 1),
    103: ManifestField("record_count", 1),
    104: ManifestField("file_size_in_bytes", 1),
    110: ManifestField("null_value_counts"),
    125: ManifestField("lower_bounds"),
    128: ManifestField("upper_bounds"),
    131: ManifestField("key_metadata"),
    134: ManifestField("content", 2, 2),
    135: ManifestField("equality_ids", since=2),
    137: ManifestField("nan_value_counts"),
    143: ManifestField("referenced_data_file", since=2),
    144: ManifestField("content_offset", since=2),
    145: ManifestField("content_size_in_bytes", since=2),
}
"""Of the data or delete file of an entry."""


def version_of(metadata: Mapping[bytes, bytes]) -> int:
    """The version that the header of a list or manifest names; 1 where it names none, as old writers did.

    Raises:
        NotColumnarError: it is not known.
    """
    text = metadata.get(b"format-version", b"1")
    if text not in _VERSIONS:
        raise NotColumnarError(f"its header has format version {text[:10].decode('utf-8', 'replace')!r}")
    return _VERSIONS[text]


def required_fields(
    fields: Sequence[tuple[str, int | None]], known: Mapping[int, ManifestField], version: int
) -> list[int]:
    """Look whether a record has the fields that a version requires, by their ids, which are returned.

    Args:
        fields: names and ids of the record's fields.
        known: those of the specification.
        version: the least one that the record can be of. With a field that came later it is of that version.

    Raises:
        NotColumnarError: one is missing, or a known name has another id than belongs to it.
    """
    ids = {field.name: id_ for id_, field in known.items()}
    for name, id_ in fields:
        if name in ids and id_ != ids[name]:
            has = "without an id" if id_ is None else f"with id {id_}"
            raise NotColumnarError(f"its schema has field {name!r} {has} instead of {ids[name]}")
    held = {id_ for _, id_ in fields if id_ is not None and id_ in known}
    version = max([version, *(known[id_].since for id_ in held)])
    required = [id_ for id_, field in known.items() if field.required <= version]
    for id_ in required:
        if id_ not in held:
            raise NotColumnarError(
                f"its schema lacks field {known[id_].name!r} (id {id_}), which format version {version} requires"
            )
    return required
