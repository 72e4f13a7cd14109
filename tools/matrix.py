"""Runs the tests of the DuckDB adapter over other versions of DuckDB than the locked one (`make check-matrix`).

Each lock file `requirements-duckdb-*.lock` names one version. It is installed into a virtual environment of its
own in the cache folder, which sees everything else in the environment of the checkout behind it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint, say

ROOT = Path(__file__).resolve().parent.parent
TESTS = tuple(
    path
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if "import pruner_duckdb" in (text := path.read_text(encoding="utf-8")) or "from pruner_duckdb" in text
)
"""Every file of tests that uses the adapter."""


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
            options = ["--no-deps", "--require-hashes", "--target", str(packages), "--requirement", str(lock)]
            subprocess.run([*pip, *options], check=True, stdin=subprocess.DEVNULL)
            (packages / "checkout.pth").write_text(
                f"import site; site.addsitedir({ours!r})\n", encoding="utf-8"
            )
    return target / "bin" / "python"


def main() -> None:
    """Run the tests over every version; arguments are pytest's."""
    failed: list[str] = []
    for lock in sorted(ROOT.glob("requirements-duckdb-*.lock")):
        python = python_with(lock)
        version = "import duckdb; print('DuckDB', duckdb.__version__, flush=True)"
        subprocess.run([python, "-c", version], check=True)
        run = subprocess.run([python, "-m", "pytest", *sys.argv[1:], *TESTS], cwd=ROOT, check=False)
        if run.returncode:
            failed.append(lock.stem)
    if failed:
        raise SystemExit(f"tests failed over {', '.join(failed)}")


if __name__ == "__main__":
    main()
