"""A plan as a pyarrow Dataset."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from pruner.arrow import arrow, compute
from pruner.errors import SchemaError
from pruner.storage.opening import open_for_arrow
from pruner_python.content import content_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner import Plan, Table
    from pruner_python.content import PartitionFiles

engine = "pyarrow"

_parquet: Any = pq  # its stubs leave types open


def scan(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: object = None
) -> ds.Dataset:
    """The files of a plan as a dataset: see `pruner.adapters.FileScanner`."""
    content = content_of(plan, columns, storage_options)
    for file in content.samples:
        _check_readable(file, storage_options)
    format_: Any = ds.ParquetFileFormat()
    local = LocalFileSystem()

    def fragment(uri: str, guarantee: Any) -> Any:
        place = open_for_arrow(uri, None, storage_options)
        told: dict[str, Any] = {} if guarantee is None else {"partition_expression": guarantee}
        return format_.make_fragment(place, local if isinstance(place, str) else None, **told)

    fragments = [fragment(uri, _guarantee(part)) for part in content.parts for uri in part.files]
    dataset: Any = ds.FileSystemDataset
    return dataset(fragments, content.schema, format_, local)


def probe(table: Table, plan: Plan) -> None:
    """Read a row: see `pruner.adapters.ProbingAdapter`."""
    scan(plan, None, table.storage_options).head(1)


def _check_readable(file: str, storage_options: Mapping[str, str]) -> None:
    """Refuse a file that pyarrow cannot open: Polars writes Arrow schemas with types that pyarrow lacks (Int128)."""
    try:
        _parquet.read_schema(open_for_arrow(file, None, storage_options))
    except arrow.ArrowNotImplementedError as error:
        raise SchemaError(f"pyarrow cannot read {file}: {error}") from None


def _guarantee(part: PartitionFiles) -> Any:
    """The values of a partition, as a guarantee for all of its rows, from which pyarrow takes them."""
    known = [
        compute.field(name) == value if value.is_valid else compute.field(name).is_null()
        for name, value in part.values.items()
    ]
    return reduce(lambda one, other: one & other, known) if known else None
