"""The S3 tutorial: its blocks run over a server on this machine, in a process whose DuckDB reads from it."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.stores.object_store import object_store, python_of_the_store
from tests.unit.test_tutorials import BLOCK, FOLDER
from tools.matrix import ROOT

pytestmark = pytest.mark.processes

WRITTEN = "http://127.0.0.1:5000"
"""The server's address on the page."""

_RUN = """
import json, pathlib, sys, time
import duckdb
from tests.unit.test_tutorials import run_sh

# Without a network DuckDB cannot fetch the extension: it is installed from the package that brings it.
packages = pathlib.Path(duckdb.__file__).parent.parent
(extension,) = packages.glob("duckdb_extension_httpfs/**/httpfs.duckdb_extension*")
native = duckdb.connect
def connect(*args, **named):
    named["config"] = {"allow_unsigned_extensions": "true", **named.get("config", {})}
    connection = native(*args, **named)
    connection.execute(f"LOAD '{extension}'")
    return connection
duckdb.connect = connect

names = {}
for language, text in json.loads(sys.stdin.read()):
    if language == "python":
        exec(compile(text, "s3.md", "exec"), names)
        if "write_table" in text:
            time.sleep(3)  # a reader goes on later than a test: see step 5
    elif language == "toml":
        pathlib.Path("pruner.toml").write_text(text)
    elif language == "sh":
        print(run_sh(text))
"""


def test_every_block_runs(tmp_path: Path) -> None:
    page = (FOLDER / "s3.md").read_text(encoding="utf-8")
    with object_store() as store:
        blocks = BLOCK.findall(page.replace(WRITTEN, store.options["endpoint"]))
        assert {language for language, _ in blocks} == {"bash", "toml", "python", "sh"}
        (entry,) = (
            tomllib.loads(text)["tables"]["bookings"] for language, text in blocks if language == "toml"
        )
        assert entry["uri"] == "s3://lake/bookings"
        (exported,) = (text for language, text in blocks if language == "bash" and text.startswith("export"))
        keys = dict(word.split("=") for word in exported.split()[1:])
        run = subprocess.run(
            [python_of_the_store(), "-c", _RUN],
            input=json.dumps(blocks),
            env=os.environ | keys | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    assert "2 of 50 files to read" in run.stdout
