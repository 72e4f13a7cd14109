"""The leaves of a plan that scan files, as java/statements/Description.java tells of them: all in one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pruner_spark.tables import indexed_behind

if TYPE_CHECKING:
    from pruner.catalog.settings import TableSettings


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf that scans files.

    `index` is the class of what lists its files, `roots` are the places that it lists, `names` are the parts of its
    name in the catalog, the table's last. `query_type` and `hudi_indexes` (the partitions of its metadata table) are
    Hudi's. `reader` is the session by whose settings Spark
    reads the files, whichever session runs the query.
    """

    position: int
    index: str
    roots: tuple[str, ...]
    names: tuple[str, ...]
    format: str
    format_name: str
    query_type: str | None
    hudi_indexes: tuple[str, ...]
    reader: str
    options: Mapping[str, str]
    data_schema: str
    partition_schema: str


def leaves_of(relations: Any) -> list[Leaf]:
    """Return the leaves that java/statements/Relations.java has found, in their order."""
    return told_leaves(json.loads(str(relations.described())))


def told_leaves(described: Sequence[Mapping[str, Any]]) -> list[Leaf]:
    """Return the leaves that were described."""
    return [_leaf(position, each) for position, each in enumerate(described)]


def _leaf(position: int, told: Mapping[str, Any]) -> Leaf:
    return Leaf(
        position=position,
        index=str(told["index"]),
        roots=tuple(told["roots"]),
        names=tuple(told.get("names", ())),
        format=str(told.get("format", "")),
        format_name=str(told.get("format_name", "")),
        query_type=told.get("query_type"),
        hudi_indexes=tuple(sorted(told.get("hudi_indexes", ()))),
        reader=str(told.get("reader", "")),
        options=told.get("options", {}),
        data_schema=str(told.get("data_schema", "")),
        partition_schema=str(told.get("partition_schema", "")),
    )


def table_behind(leaf: Leaf) -> TableSettings | None:
    """Return the table with an index behind a leaf, by the catalog's name or by its place.

    Raises:
        ConfigError: `pruner.toml` cannot be read.
    """
    names = [".".join(leaf.names[start:]) for start in range(len(leaf.names))]
    return indexed_behind(names, leaf.roots)
