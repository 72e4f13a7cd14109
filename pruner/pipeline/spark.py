"""Builds on Spark: the slices are cut into parts, executors run the kernel over them and write the segments.

The session is the user's, of which only the public interface is used, or our own, for `pruner refresh --spark MASTER`:
only that one imports pyspark.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, requires
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import PrunerError, StorageError
from pruner.metadata import receipts
from pruner.metadata.receipts import Receipt
from pruner.metadata.segments import read_segment
from pruner.pipeline.batches import BATCH_SLICES
from pruner.pipeline.requests import table_bytes
from pruner.pipeline.slices import CHUNK_SLICES, cut, sizes_of
from pruner.pipeline.spark_worker import RESULT_COLUMNS, SparkJob, build_part, run_tasks
from pruner.plugins import DISTRIBUTION, SPARK_EXTRA, installing
from pruner.storage.local import STAGING
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pyspark.sql import SparkSession

    from pruner.pipeline.batches import BuildJob
    from pruner.pipeline.requests import Progress
    from pruner.pipeline.spark_worker import Task

# The probe checks with one small task whether Spark's executors have what the kernel needs, and says what is missing.
#
# It cannot be a function of this package, which may itself be missing there. So it is a nested function, which Spark
# sends by value and not by name.

MapInArrow: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"

KERNEL_NEEDS = ("fastavro", "msgspec", "numpy", "obstore", "pyarrow", "pyroaring", "xxhash")
"""Distributions that the kernel imports."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*?>=\s*([0-9.]+)[^;]*")


@lru_cache(maxsize=1)
def needed_versions() -> dict[str, str]:
    """The oldest version of each distribution that the kernel needs; empty if this package has no metadata."""
    try:
        stated = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    matches = [_REQUIREMENT.fullmatch(requirement) for requirement in stated]
    versions = {match.group(1): match.group(2) for match in matches if match is not None}
    return {name: version for name, version in versions.items() if name in KERNEL_NEEDS}


def check_executors(session: Any, sent: bytes, kinds: dict[str, int]) -> None:
    """Run the probe on an executor.

    Args:
        session: a SparkSession.
        sent: the job that will run there (`SparkJob` as JSON).
        kinds: name and version of each index type that it uses.

    Raises:
        PrunerError: something is missing there; the message says what, and how to ship it.
    """
    probe = _probe(json.dumps({"versions": needed_versions(), "pruner": __version__, "kinds": kinds}), sent)
    context = _context(session)
    remedy = _ON_A_CLUSTER if context is None else advice(context.master, context.pythonExec)
    try:
        rows = session.range(0, 1, 1, 1).mapInArrow(probe, "answer string").collect()
    # Spark may raise anything: without pyarrow, or with another Python, not even the probe runs.
    except Exception as error:
        raise PrunerError(
            f"the Spark executors cannot run Python with Arrow ({reason_of(error)}): {remedy}"
        ) from error
    answer = json.loads(rows[0]["answer"])
    if answer["missing"]:
        raise PrunerError(f"the Spark executors lack {', '.join(answer['missing'])}: {remedy}")
    if answer["unreachable"]:
        raise PrunerError(f"the Spark executors cannot {answer['unreachable']}")


def _context(session: Any) -> Any | None:
    """The context of a session; None for one of Spark Connect."""
    try:
        return session.sparkContext
    # The class of this error differs between versions.
    except Exception:
        return None


_ON_A_CLUSTER = (
    f"install '{DISTRIBUTION}[spark]=={__version__}' on every node, or pack an environment that has it with venv-pack, "
    "set the environment variable PYSPARK_PYTHON to environment/bin/python and start the session with "
    "spark.archives=environment.tar.gz#environment"
)


def advice(master: str, python: str) -> str:
    """How to provide executors with what they lack; those of a `local` master are processes on this machine.

    Args:
        master: the master of the session.
        python: the interpreter that its executors start.
    """
    if not master.startswith("local"):
        return _ON_A_CLUSTER
    return (
        f"they run {python!r}; set the environment variable PYSPARK_PYTHON to {sys.executable!r} before the session "
        "is made"
    )


def reason_of(error: BaseException) -> str:
    """The line of a Spark error that says what happened: the last error of a Python traceback in it, else the first
    line.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit)\b", line)]
    line = raised[-1] if raised else (lines[0] if lines else type(error).__name__)
    return line[:300].rstrip(" .")


def _probe(wanted: str, sent: bytes) -> MapInArrow:
    def probe(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.metadata
        import json

        import pyarrow

        def numbers(version: str) -> list[int]:
            return [int(part) for part in version.split(".") if part.isdigit()]

        needs = json.loads(wanted)
        missing: list[str] = []
        unreachable = None
        for name, oldest in needs["versions"].items():
            try:
                newest = importlib.metadata.version(name)
                if numbers(newest) < numbers(oldest):
                    missing.append(f"{name} {oldest} (they have {newest})")
            except importlib.metadata.PackageNotFoundError:
                missing.append(f"{name} {oldest}")
        try:
            from pruner.version import __version__ as theirs

            if theirs != needs["pruner"]:
                missing.append(f"pruner {needs['pruner']} (they have {theirs})")
        except ImportError:
            missing.append(f"pruner {needs['pruner']}")
        if not missing:
            from pruner.pipeline import spark_worker

            missing += spark_worker.missing_types(needs["kinds"])
            unreachable = None if missing else spark_worker.unreachable(sent)
        answer = json.dumps({"missing": missing, "unreachable": unreachable})
        for _ in rows:
            yield pyarrow.RecordBatch.from_pydict({"answer": [answer]})

    return probe


@contextmanager
def spark_session(master: str) -> Generator[SparkSession]:
    """Start a session at a master, otherwise configured by `spark-defaults.conf`, and stop it at the end.

    Raises:
        PrunerError: pyspark is not installed, or the session cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PrunerError(f"pyspark is not installed: {installing(SPARK_EXTRA)}") from None
    # Executors on this machine must not use the system's Python, which lacks this package.
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().master(master).appName("pruner refresh")
    try:
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    # The gateway may raise anything: no JVM, no such master, no memory.
    except Exception as error:
        raise PrunerError(f"Spark cannot be started at {master!r}: {reason_of(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


PARTS_PER_CORE = 3
"""Parts per core of the cluster, so that a slow one does not hold up the others."""

LEAST_PART_BYTES = 64 * 1024**2
"""Fewest bytes of files that are worth a separate task."""

PART_BYTES = 8 * 1024**3
"""Most bytes of files in a part (except a single file)."""

POLL_SECONDS = 1.0
"""Time between two polls of what the executors have finished."""

UNKNOWN_CORES = 16
"""Cores that are assumed if the session does not report them (Spark Connect)."""


class SparkRunner:
    """Runs a build on the executors of a Spark session: see `pruner.pipeline.batches.BuildRunner`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, job: BuildJob, progress: Progress | None) -> Iterator[Receipt]:
        """Build and write the records of all slices of a job on the executors; yield a receipt for each batch.

        If a task fails, the remaining slices are tried once more with the kernel in separate processes: a file that
        kills its reader is then reported like one that cannot be read. `progress` is called from another thread.

        Raises:
            PrunerError: the executors lack a requirement, or the job failed twice.
            StorageError: the metadata table cannot be written.
        """
        total, before = job.work.num_rows, 0
        for isolated in (False, True):
            with self._staged(job) as parts:
                sent = msgspec.json.encode(SparkJob.of(job, parts, isolated=isolated))
                check_executors(
                    self._session, sent, {t.request.kind.name: t.request.kind.version for t in job.targets}
                )
                try:
                    with _watching(job, parts, progress, before, total):
                        receipts = self._collect(sent, len(parts))
                except Exception as error:
                    if isolated:
                        raise PrunerError(
                            f"the Spark job failed: {reason_of(error)}; finished work is kept, and the next refresh "
                            "continues it"
                        ) from error
                    receipts = _left_by(job, parts)
                    remaining = _without(job, receipts)
                else:
                    remaining = job.work.slice(0, 0)
            yield from receipts
            if not remaining.num_rows:
                return
            before = total - remaining.num_rows
            job = job.of_slices(remaining)

    def parts(self) -> int:
        """The best number of parts into which to cut work."""
        return self._cores() * PARTS_PER_CORE

    def share(self, task: Task, count: int) -> list[tuple[int, bytes]]:
        """Run a task for each number below `count` on the executors: see `pruner.pipeline.batches.SharingRunner`."""
        numbers = self._session.range(0, count, 1, count)
        rows = numbers.mapInArrow(partial(run_tasks, task), RESULT_COLUMNS).collect()
        return [(row["part"], bytes(row["answer"])) for row in rows]

    def _collect(self, sent: bytes, count: int) -> list[Receipt]:
        answers = self.share(partial(build_part, sent), count)
        return [msgspec.json.decode(answer, type=Receipt) for _, answer in answers]

    @contextmanager
    def _staged(self, job: BuildJob) -> Generator[tuple[str, ...]]:
        """Write the slices of each part to where executors find them."""
        store = job.metadata.store
        parts: list[str] = []
        try:
            for start, stop in _parts(job.slices, self.parts()):
                parts.append(f"{STAGING}/{uuid.uuid4().hex}")
                store.put_new(parts[-1], table_bytes(job.work.slice(start, stop - start)))
            yield tuple(parts)
        finally:
            store.delete(parts)

    def _cores(self) -> int:
        context = _context(self._session)
        return UNKNOWN_CORES if context is None else int(context.defaultParallelism)


def _parts(slices: pa.Table, share: int) -> Iterator[tuple[int, int]]:
    sizes = sizes_of(slices)
    most = min(max(len(sizes) // share, CHUNK_SLICES), BATCH_SLICES)
    most_bytes = min(max(int(sizes.sum()) // share, LEAST_PART_BYTES), PART_BYTES)
    return cut(sizes, most, most_bytes)


def _left_by(job: BuildJob, parts: Sequence[str]) -> list[Receipt]:
    return [receipt for receipt in receipts.receipts(job.metadata.store) if receipt.part in parts]


def _without(job: BuildJob, receipts: Sequence[Receipt]) -> pa.Table:
    """The slices of a job that are in no batch of these receipts."""
    if not receipts:
        return job.work
    batches = [read_segment(job.metadata.store, receipt.batch) for receipt in receipts]
    done = pa.concat_tables(batches).column("slice_key").combine_chunks()
    return job.work.filter(compute.invert(compute.is_in(job.work.column("slice_key"), value_set=done)))


@contextmanager
def _watching(
    job: BuildJob, parts: Sequence[str], progress: Progress | None, before: int, total: int
) -> Generator[None]:
    """Report the progress of the executors, by the receipts that they store."""
    if progress is None:
        yield
        return
    ended = Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            try:
                progress(before + sum(receipt.batch.rows for receipt in _left_by(job, parts)), total)
            except StorageError:
                continue  # the next poll may succeed, and the build itself reports what is wrong

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    progress(total, total)
