"""Builds on this machine: chunks in process or in worker processes, batches written as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.pipeline.batches import write_batches
from pruner.pipeline.slices import run_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.metadata.receipts import Receipt
    from pruner.pipeline.batches import BuildJob
    from pruner.pipeline.requests import Progress


class LocalRunner:
    """Runs a build on this machine: see `pruner.pipeline.batches.Runner`."""

    def run(self, job: BuildJob, progress: Progress | None) -> Iterator[Receipt]:
        """Build and write the records of all slices of a job; a receipt for each batch.

        Raises:
            StorageError: the metadata table cannot be written.
        """
        yield from write_batches(job, run_slices(job.slices, job.storage_options, job.requests), progress)
