"""`import pruner` is cheap and brings in no engine, which import contracts alone cannot promise."""

from __future__ import annotations

import subprocess
import sys

ENGINES = {"duckdb", "pyspark", "trino", "pandas", "polars"}


def test_importing_pruner_loads_no_engine():
    code = "import sys, pruner; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not ENGINES & set(run.stdout.split())


def test_what_is_public_is_listed_and_there():
    code = "import pruner; print(*dir(pruner)); [getattr(pruner, name) for name in dir(pruner)]"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"open_table", "sql", "Semantics", "PrunerError"} <= set(run.stdout.split())
    assert "import_module" not in run.stdout
