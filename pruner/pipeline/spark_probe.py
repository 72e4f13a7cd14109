"""Checks with one small task whether Spark's executors have what the kernel needs, and says what is missing.

The probe cannot be a function of this package, which may be the very thing that is missing there. So it is a
nested function, which Spark sends whole and not by its name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, requires
from typing import TYPE_CHECKING, Any, TypeAlias

from pruner.errors import PrunerError
from pruner.extras import DISTRIBUTION
from pruner.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

MapInArrow: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"

KERNEL_NEEDS = ("fastavro", "msgspec", "numpy", "obstore", "pyarrow", "pyroaring", "xxhash")
"""Distributions that the kernel imports."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*?>=\s*([0-9.]+)[^;]*")


@lru_cache(maxsize=1)
def needed_versions() -> dict[str, str]:
    """The oldest version of each distribution that the kernel needs; empty where this package has no metadata."""
    try:
        stated = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    matches = [_REQUIREMENT.fullmatch(requirement) for requirement in stated]
    found = {match.group(1): match.group(2) for match in matches if match is not None}
    return {name: version for name, version in found.items() if name in KERNEL_NEEDS}


def check_executors(session: Any, sent: bytes, kinds: dict[str, int]) -> None:
    """Run the probe on an executor.

    Args:
        session: a SparkSession.
        sent: the job that is to run there (`SparkJob` as JSON).
        kinds: name and version of each index type that it uses.

    Raises:
        PrunerError: what is missing there, and how to ship it.
    """
    probe = _probe(json.dumps({"versions": needed_versions(), "pruner": __version__, "kinds": kinds}), sent)
    context = session.sparkContext
    remedy = advice(context.master, context.pythonExec)
    try:
        rows = session.range(0, 1, 1, 1).mapInArrow(probe, "answer string").collect()
    # Whatever Spark raises: without pyarrow, or with another Python, not even the probe runs.
    except Exception as error:
        raise PrunerError(
            f"the Spark executors cannot run Python with Arrow ({reason_of(error)}): {remedy}"
        ) from error
    answer = json.loads(rows[0]["answer"])
    if answer["missing"]:
        raise PrunerError(f"the Spark executors lack {', '.join(answer['missing'])}: {remedy}")
    if answer["unreachable"]:
        raise PrunerError(f"the Spark executors cannot {answer['unreachable']}")


_ON_A_CLUSTER = (
    f"install '{DISTRIBUTION}[spark]=={__version__}' on every node, or pack an environment that has it with venv-pack, "
    "set the environment variable PYSPARK_PYTHON to environment/bin/python and start the session with "
    "spark.archives=environment.tar.gz#environment"
)


def advice(master: str, python: str) -> str:
    """How to give executors what they lack; those of a `local` master are processes of this machine.

    Args:
        master: where the session runs.
        python: the interpreter that its executors start.
    """
    if not master.startswith("local"):
        return _ON_A_CLUSTER
    return (
        f"they run {python!r}; set the environment variable PYSPARK_PYTHON to {sys.executable!r} before the session "
        "is made"
    )


def reason_of(error: BaseException) -> str:
    """The one line of a Spark error that says what happened: the last of a Python traceback in it, else the first."""
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
                found = importlib.metadata.version(name)
                if numbers(found) < numbers(oldest):
                    missing.append(f"{name} {oldest} (they have {found})")
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
