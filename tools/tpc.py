"""The tables and queries of TPC-H and TPC-DS, generated once by DuckDB's extensions and kept in the cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint, say

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-tpc.lock"
SCALE = os.environ.get("PRUNER_TPC_SCALE", "0.1")
SUITES = os.environ.get("PRUNER_TPC_SUITES", "tpch,tpcds")

_GENERATE = """
import pathlib, sys
import duckdb

root, scale, suites = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
packages = pathlib.Path(duckdb.__file__).parent.parent
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for suite in suites:
    generator = {"tpch": "dbgen", "tpcds": "dsdgen"}[suite]
    (extension,) = packages.glob(f"duckdb_extension_{suite}/**/{suite}.duckdb_extension*")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CREATE SCHEMA {suite}; USE {suite}; CALL {generator}(sf = {scale})")
    for (table,) in connection.execute("SHOW TABLES").fetchall():
        folder = root / suite / table
        folder.mkdir(parents=True)
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        files = max(1, min(8, rows // 20_000))
        each = -(-rows // files)
        for number in range(files):
            part = f"SELECT * FROM {table} LIMIT {each} OFFSET {number * each}"
            connection.execute(f"COPY ({part}) TO '{folder}/part-{number}.parquet' (FORMAT parquet)")
    for number, text in connection.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall():
        (root / f"{suite}-{number:02}.sql").write_text(text, encoding="utf-8")
"""


def tpc_data() -> Path:
    """Return a folder with `tpch/TABLE/*.parquet`, `tpcds/TABLE/*.parquet` and a file of SQL for each query."""
    target = cache_dir() / f"tpc-{fingerprint(LOCK, _GENERATE, SCALE, SUITES)}"
    if not target.is_dir():
        say(f"Generating {SUITES} at scale {SCALE} in {target}")
        with appearing(target) as scratch, tempfile.TemporaryDirectory() as packages:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
            wanted = ["--no-deps", "--require-hashes", "--target", packages, "--requirement", str(LOCK)]
            subprocess.run([*pip, *wanted], check=True, stdin=subprocess.DEVNULL)
            subprocess.run(
                [sys.executable, "-c", _GENERATE, str(scratch), SCALE, SUITES],
                check=True,
                env=os.environ | {"PYTHONPATH": packages},
            )
    return target
