"""Where a build runs, by what the caller gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pruner.errors import PrunerError

if TYPE_CHECKING:
    from pruner.pipeline.batches import Runner

Run: TypeAlias = "str | Any"
"""`"local"`, or a SparkSession (Spark's classes are not imported for its type)."""

LOCAL = "local"


def runner_for(run: Run) -> Runner:
    """Return what runs a build.

    Raises:
        PrunerError: `run` is neither "local" nor a SparkSession.
    """
    # Imported here: a process that builds nothing must not wait for the pipeline.
    from pruner.pipeline.local import LocalRunner
    from pruner.pipeline.spark import SparkRunner

    if run == LOCAL:
        return LocalRunner()
    if isinstance(run, str) or not (hasattr(run, "range") and hasattr(run, "createDataFrame")):
        raise PrunerError(f"run is 'local' or a SparkSession, not {run!r}")
    return SparkRunner(run)
