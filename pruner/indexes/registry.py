"""Index types by name: the built-in ones, and those registered by other distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pruner.errors import IndexDefinitionError
from pruner.plugins import BrokenPluginError, Group, MissingPluginError, load_plugin, plugin_names

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.indexes.base import Evidence, IndexType
    from pruner.indexes.optional import ExactEvidence, RowIndexType, ValueIndexType
    from pruner.schema import Field

_BUILT_IN = ("column_stats", "bitmap", "bloom_filter", "record_index")
_ALIASES = {"col_stats": "column_stats"}


def index_type(name: str) -> IndexType:
    """Return the index type with a name, in any letter case.

    Raises:
        IndexDefinitionError: there is none, or the package that registers it cannot be loaded.
    """
    wanted = _ALIASES.get(name.lower(), name.lower())
    # Each is imported when first requested: a plan needs only those of the table's indexes.
    match wanted:
        case "column_stats":
            from pruner.indexes.column_stats import COLUMN_STATS

            return COLUMN_STATS
        case "bitmap":
            from pruner.indexes.bitmap import BITMAP

            return BITMAP
        case "bloom_filter":
            from pruner.indexes.bloom_filter import BLOOM_FILTER

            return BLOOM_FILTER
        case "record_index":
            from pruner.indexes.record_index import RECORD_INDEX

            return RECORD_INDEX
        case _:
            return _registered(wanted)


def is_built_in(kind: IndexType) -> bool:
    """Tell whether an index type is pruner's own; results of types from other distributions are checked."""
    return kind.name in _BUILT_IN


def require_expressions(kind: IndexType) -> None:
    """Reject an index type that ignores what records state about how the values of an expression were computed.

    Raises:
        IndexDefinitionError: it is such a type.
    """
    if not is_built_in(kind):
        *others, last = _BUILT_IN
        raise IndexDefinitionError(
            f"an index of type {kind.name} cannot be over an expression: {', '.join(others)} and {last} can"
        )


def evidence_of_values(values: pa.Array[Any], field: Field) -> Evidence | None:
    """Evidence about slices that each hold a single known value; None for types that no index type judges."""
    from pruner.indexes.column_stats import COLUMN_STATS

    judge: ValueIndexType = COLUMN_STATS
    return judge.load_values(values, field)


def exact_of_values(values: pa.Array[Any], field: Field) -> ExactEvidence | None:
    """Exact facts about slices of one row each, with a known value; None for types without such facts."""
    from pruner.indexes.column_stats import COLUMN_STATS

    return COLUMN_STATS.exact_of_values(values, field)


def statistics_of(field: Field) -> RowIndexType | None:
    """The index type whose records a table's own statistics become; None for a field that it cannot index."""
    from pruner.indexes.column_stats import COLUMN_STATS

    try:
        COLUMN_STATS.check(field, {})
    except IndexDefinitionError:
        return None
    return COLUMN_STATS


def exact_of_statistics(records: pa.Table, count: int, field: Field) -> ExactEvidence:
    """Exact facts about `count` slices from records of the type that `statistics_of` returns."""
    from pruner.indexes.column_stats import COLUMN_STATS

    return COLUMN_STATS.load_exact(records, count, field)


def _registered(name: str) -> IndexType:
    try:
        return cast("IndexType", load_plugin(Group.INDEX_TYPES, name))
    except MissingPluginError as error:
        known = ", ".join(sorted({*_BUILT_IN, *plugin_names(Group.INDEX_TYPES)}))
        raise IndexDefinitionError(f"no index type {name!r}: use one of {known}") from error
    except BrokenPluginError as error:
        raise IndexDefinitionError(str(error)) from error
