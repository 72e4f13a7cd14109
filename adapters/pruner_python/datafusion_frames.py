"""A plan as a DataFusion DataFrame, which reads the files through a pyarrow Dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import datafusion
import pyarrow.dataset as ds

from pruner_python import arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner import Plan, Table

engine = "datafusion"


def scan(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: Any = None
) -> Any:
    """The files of a plan as a DataFrame of a session context: see `pruner.adapters.FileScanner`."""
    context: Any = datafusion.SessionContext() if into is None else into
    frame: Any = arrow.scan(plan, columns, storage_options)
    return context.read_table(
        _InFewParts(list(frame.get_fragments()), frame.schema, frame.format, frame.filesystem)
    )


def probe(table: Table, plan: Plan) -> None:
    """Read a row: see `pruner.adapters.ProbingAdapter`."""
    scan(plan, None, table.storage_options).limit(1).collect()


class _Files:
    """Several files in place of one fragment: pyarrow reads them in parallel."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def scanner(self, schema: object = None, **options: Any) -> Any:
        """Like a fragment's; all files have the schema of the dataset."""
        return self._dataset.scanner(**options)


class _InFewParts(ds.FileSystemDataset):
    """A dataset that DataFusion reads in as many parts as there are CPUs.

    DataFusion makes each fragment a partition, and aggregates each separately: with hundreds of small files, that took
    four times as long as reading them.
    """

    def get_fragments(self, filter: Any = None) -> Iterator[Any]:  # noqa: A002 - pyarrow's name
        """The files that may hold rows for a filter, grouped into few parts."""
        own: Any = super()
        files = list(own.get_fragments(filter=filter))
        parts = min(len(files), os.cpu_count() or 1)
        dataset: Any = ds.FileSystemDataset
        for part in range(parts):
            yield _Files(dataset(files[part::parts], self.schema, self.format, self.filesystem))
