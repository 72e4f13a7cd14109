"""Runs the tests of the adapters over other versions of their engines than the locked ones (`make check-matrix`).

Each lock file `requirements-<engine>-*.lock` names one version. It is installed into a virtual environment of its
own in the cache folder, which sees everything else in the environment of the checkout behind it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint, say

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its package, the lock files of its versions, and the tests that hold over each."""

    package: str
    locks: str
    tests: tuple[str, ...]


ENGINES = (
    # Every file of tests that uses the adapter.
    Engine(
        "duckdb",
        "requirements-duckdb-*.lock",
        tuple(
            str(path)
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
            if "import pruner_duckdb" in (text := path.read_text(encoding="utf-8"))
            or "from pruner_duckdb" in text
        ),
    ),
    # There is no Hudi bundle for Spark 4, so these are about Parquet; only Spark 4 brings a server of Spark Connect.
    Engine(
        "pyspark",
        "requirements-spark-*.lock",
        (
            "tests/engines/spark/scans/test_spark_scans.py",
            "tests/engines/spark/scans/test_spark_sessions.py",
            "tests/engines/spark/scans/test_spark_statements.py::"
            "test_statements_read_the_same_rows_from_the_files_that_are_kept[parquet]",
            "tests/engines/spark/scans/connect_server.py",
        ),
    ),
)


def python_with(lock: Path) -> Path:
    """Return the Python of an environment that has what a lock file names in front of what this one has."""
    ours = sysconfig.get_path("purelib")
    target = cache_dir() / f"{lock.stem}-{fingerprint(lock, sys.version, ours)}"
    if not target.is_dir():
        say(f"Installing {lock.name} into {target}")
        with appearing(target) as scratch:
            venv.create(scratch, symlinks=True)
            packages = next(scratch.glob("lib/python*/site-packages"))
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
            options = [
                "--no-deps",
                "--no-build-isolation",
                "--require-hashes",
                "--target",
                str(packages),
                "--requirement",
                str(lock),
            ]
            subprocess.run([*pip, *options], check=True, stdin=subprocess.DEVNULL)
            (packages / "checkout.pth").write_text(
                f"import site; site.addsitedir({ours!r})\n", encoding="utf-8"
            )
    return target / "bin" / "python"


def main() -> None:
    """Run the tests over every version; arguments are pytest's."""
    failed: list[str] = []
    for engine in ENGINES:
        for lock in sorted(ROOT.glob(engine.locks)):
            python = python_with(lock)
            version = f"import {engine.package} as it; print(it.__name__, it.__version__, flush=True)"
            subprocess.run([python, "-c", version], check=True)
            if engine.package == "duckdb":
                subprocess.run([python, "-m", "tools.native_scan"], cwd=ROOT, check=True)
            run = subprocess.run(
                [python, "-m", "pytest", *sys.argv[1:], *engine.tests], cwd=ROOT, check=False
            )
            if run.returncode:
                failed.append(lock.stem)
    if failed:
        raise SystemExit(f"tests failed over {', '.join(failed)}")


if __name__ == "__main__":
    main()
