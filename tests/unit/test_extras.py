"""An environment without an extra: everything else works, and one sentence names what is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import extra_sizes

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def ran_without(names: set[str], code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which some packages are not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=names) + code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


PARQUET = """
import os, pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
import pruner
Path("lake").mkdir()
for number in range(3):
    pq.write_table(pa.table({"a": [number], "b": [str(number)]}), f"lake/{number}.parquet")
    os.utime(f"lake/{number}.parquet", (1_600_000_000, 1_600_000_000))
table = pruner.open_table("lake")
table.create_index("stats", on="*")
table.create_index("bits", on="a", using="bitmap")
table.create_index("filters", on="b", using="bloom_filter")
assert table.plan("a = 1 AND b = '1'").kept == 1
"""


@pytest.mark.processes
def test_parquet_tables_need_no_extra_at_all(tmp_path: Path) -> None:
    extras = {
        "duckdb",
        "hudi",
        "pandas",
        "polars",
        "datafusion",
        "pyspark",
        "pytz",
        "starlette",
        "trino",
        "uvicorn",
    }
    ran = ran_without(extras, PARQUET + "import pruner.cli.app", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.processes
def test_duckdb_reads_parquet_tables_without_hudi(tmp_path: Path) -> None:
    code = (
        PARQUET
        + """
import pruner_duckdb
con = pruner_duckdb.connect({"lake": table})
assert con.sql("SELECT b FROM lake WHERE a = 2").fetchall() == [("2",)]
"""
    )
    ran = ran_without({"hudi"}, code, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("hudi", ["plan", "table", "--where", "a = 1"]),
        ("duckdb", ["query", "SELECT 1"]),
        ("uvicorn", ["serve"]),
        ("pyiceberg", ["plan", "iceberg://lake/ns/t", "--where", "a = 1"]),
    ],
)
def test_what_is_missing_is_one_sentence(tmp_path: Path, extra: str, arguments: list[str]) -> None:
    meta = tmp_path / "table" / ".hoodie"
    (meta / "timeline").mkdir(parents=True)
    properties = {"name": "t", "type": "COPY_ON_WRITE", "version": "8", "timeline.layout.version": "2"}
    lines = "".join(f"hoodie.table.{key}={value}\n" for key, value in properties.items())
    (meta / "hoodie.properties").write_text(lines.replace("table.timeline", "timeline"))
    (tmp_path / "pruner.toml").write_text('[tables.t]\nuri = "table"\n')
    code = f"import sys; sys.argv[1:] = {arguments!r}\nfrom pruner.cli import main; main()"
    ran = ran_without({extra}, code, tmp_path)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    named = {"uvicorn": "service", "pyiceberg": "iceberg"}.get(extra, extra)
    assert (
        f"install the extra '{named}' of lake-pruner (in a checkout: pip install '.[{named}]')" in ran.stderr
    )
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.processes
@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("duckdb", "import pruner_duckdb"),
        ("polars", "table.plan('a = 1').scan_polars()"),
        ("datafusion", "table.plan('a = 1').scan_datafusion()"),
    ],
)
def test_an_engine_that_is_missing_is_named_in_python(tmp_path: Path, extra: str, code: str) -> None:
    ran = ran_without({extra}, PARQUET + code, tmp_path)
    told = f"install the extra '{extra}' of lake-pruner (in a checkout: pip install '.[{extra}]')"
    assert ran.stderr.splitlines()[-1].endswith(told), ran.stderr


def test_the_wheel_asks_for_ranges_and_not_for_one_version() -> None:
    extras = PROJECT["optional-dependencies"].values()
    stated = [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]
    assert stated
    for text in stated:
        operators = {each.operator for each in Requirement(text).specifier}
        assert operators, text
        assert not operators & {"==", "==="}, text


def test_the_locked_versions_fit() -> None:
    """The tested versions are in the ranges, as is each duckdb and pyspark of `make check-matrix` that should be."""
    pinned: dict[str, list[str]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if "==" in line:
            found = Requirement(line.partition("\\")[0].strip())
            pinned.setdefault(found.name, []).append(next(iter(found.specifier)).version)
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]:
        wanted = Requirement(text)
        for version in pinned[wanted.name]:
            assert wanted.specifier.contains(version), text
    older = Requirement(next(each for each in PROJECT["optional-dependencies"]["duckdb"] if "duckdb" in each))
    lock = (ROOT / "requirements-duckdb-1.5.lock").read_text(encoding="utf-8")
    assert older.specifier.contains(lock.partition("duckdb==")[2].split()[0])


@pytest.mark.processes
def test_a_wheel_is_small_and_names_every_extra(tmp_path: Path) -> None:
    built = extra_sizes.wheel(tmp_path)
    assert built.stat().st_size < 3_000_000
    with zipfile.ZipFile(built) as packed:
        [metadata] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        stated = packed.read(metadata).decode()
        tops = {name.partition("/")[0] for name in packed.namelist() if ".dist-info" not in name}
    assert tops == {"pruner", "pruner_duckdb", "pruner_python", "pruner_spark", "pruner_trino"}
    assert re.findall(r"^Provides-Extra: (.+)$", stated, re.MULTILINE) == sorted(extra_sizes.extras())
