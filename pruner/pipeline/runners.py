"""Where a build runs, as the caller chose: on this machine or on Spark.

The rest of the pipeline is imported where it is used: a process that builds nothing must not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pruner.errors import PrunerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.metadata.receipts import Receipt
    from pruner.pipeline.batches import BuildJob, BuildRunner
    from pruner.pipeline.requests import Progress

Run: TypeAlias = "str | Any"
"""`"local"`, or a SparkSession (Spark's classes are not imported for its type)."""

LOCAL = "local"


class LocalRunner:
    """Runs a build on this machine: see `pruner.pipeline.batches.BuildRunner`."""

    def run(self, job: BuildJob, progress: Progress | None) -> Iterator[Receipt]:
        """Build and write the records of all slices of a job; yield a receipt for each batch.

        Raises:
            StorageError: the metadata table cannot be written.
        """
        from pruner.pipeline.batches import write_batches
        from pruner.pipeline.slices import run_slices

        yield from write_batches(job, run_slices(job.slices, job.storage_options, job.requests), progress)


def runner_for(run: Run) -> BuildRunner:
    """Return the runner of a build.

    Raises:
        PrunerError: `run` is neither "local" nor a SparkSession.
    """
    from pruner.pipeline.spark import SparkRunner

    if run == LOCAL:
        return LocalRunner()
    if isinstance(run, str) or not (hasattr(run, "range") and hasattr(run, "createDataFrame")):
        raise PrunerError(f"run is 'local' or a SparkSession, not {run!r}")
    return SparkRunner(run)
