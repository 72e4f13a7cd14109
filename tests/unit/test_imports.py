"""`import pruner` is cheap and loads no engine, which import contracts alone cannot guarantee."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from benchmarks.planning.iceberg_tables import write_table
from tests.support.paging import page_everything

ROOT = Path(__file__).parents[2]

ENGINES = {"duckdb", "pyspark", "trino", "pandas", "polars"}

PLANNED_WITHOUT = ENGINES | {
    "email",
    "fastavro",
    "importlib.metadata",
    "obstore",
    "pruner.evidence.hudi",
    "pruner.indexes.bitmap",
    "pruner.indexes.bloom_filter",
    "pruner.indexes.record_index",
    "pruner.locating",
    "pruner.maintenance",
    "pruner.pipeline.batches",
    "pruner.pipeline.slices",
    "pruner.pipeline.spark",
    "pruner.tables.hudi",
    "rich",
    "sqlglot",
}
"""What a plan of a table of Parquet files does not need: most of it takes longer to load than the plan to make."""


def test_importing_pruner_loads_no_engine():
    code = "import sys, pruner; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not ENGINES & set(run.stdout.split())


@pytest.mark.slow
def test_what_is_public_is_listed_and_there():
    code = "import pruner; print(*dir(pruner)); [getattr(pruner, name) for name in dir(pruner)]"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"open_table", "sql", "Semantics", "PrunerError"} <= set(run.stdout.split())
    assert "import_module" not in run.stdout


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imports") / "t"
    for number in range(4):
        (folder / f"day={number}").mkdir(parents=True)
        rows = pa.table({"n": [number, number + 1], "id": [f"a{number}", "b"]})
        pq.write_table(rows, folder / f"day={number}" / "part.parquet")
    pruner.open_table(folder).create_index("n_idx", "n")
    return folder


PLAN = """
import sys, pruner
plan = pruner.open_table(sys.argv[1]).plan(sys.argv[2])
print(plan.kept, *sys.modules)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("predicate", "kept"),
    [("id = 'x'", 4), ("n = 4", 1), ("n BETWEEN 2 AND 3 AND id < 'b'", 3)],
)
def test_a_plan_loads_what_it_needs(table: Path, predicate: str, kept: int) -> None:
    """pandas is installed here, and pyarrow imports it to make an array of a list."""
    arguments = [sys.executable, "-c", PLAN, table, predicate]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    counted, *modules = run.stdout.split()
    assert int(counted) == kept
    assert not PLANNED_WITHOUT & set(modules)


@pytest.mark.slow
def test_the_parser_is_loaded_for_what_is_no_plain_comparison(table: Path) -> None:
    arguments = [sys.executable, "-c", PLAN, table, "NOT n = 4"]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert {"sqlglot"} == {"sqlglot", "pandas", "fastavro"} & set(run.stdout.split())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["bloom_filter", "record_index"])
def test_a_look_up_loads_its_index_and_no_pandas(tmp_path: Path, using: str) -> None:
    for number in range(4):
        pq.write_table(pa.table({"id": [f"a{number}", f"b{number}"]}), tmp_path / f"{number}.parquet")
    pruner.open_table(tmp_path).create_index("by_id", "id", using=using)
    code = f"{PLAN}\nprint(*plan.files)"
    arguments = [sys.executable, "-c", code, tmp_path, "id = 'b2'"]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    told, files = run.stdout.splitlines()
    counted, *modules = told.split()
    assert int(counted) == 1
    assert files.endswith("/2.parquet")
    own = {"pruner.indexes.bloom_filter", "pruner.indexes.record_index"}
    assert own & set(modules) == {f"pruner.indexes.{using}"}
    assert not (PLANNED_WITHOUT - own) & set(modules)


ASKED = {
    "stats": ("s > 'v3'", "d = 5", "w IN (5, 6)", "u = 5", "f < 2.5", "day = 1 AND n > 3"),
    "maps": ("s = 'v3'", "s IS NULL", "d IN (1, 2, 30)", "n BETWEEN 3 AND 5 AND s != 'v4'"),
    "pages": ("s = 'v3' AND n = 3", "n IN (1, 2, 300)"),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of one content: with statistics of every type, with bitmaps, and with bitmaps that are read by pages."""
    folder = tmp_path_factory.mktemp("typed")
    for name in ASKED:
        for number in range(4):
            below = folder / name / f"day={number % 2}"
            below.mkdir(parents=True, exist_ok=True)
            values = range(number * 3, number * 3 + 3)
            rows = {
                "n": pa.array(values),
                "s": pa.array([f"v{value}" for value in values]),
                "d": pa.array([Decimal(value) for value in values], pa.decimal128(12, 2)),
                "w": pa.array([Decimal(value) for value in values], pa.decimal128(30, 2)),
                "u": pa.array(values, pa.uint64()),
                "f": pa.array([value / 2 for value in values]),
            }
            pq.write_table(pa.table(rows), below / f"{number}.parquet")
    pruner.open_table(folder / "stats").create_index("all", "*")
    with pytest.MonkeyPatch.context() as patched:
        page_everything(patched, 4)
        pruner.open_table(folder / "pages").create_index("some", ["s", "n"], using="bitmap")
    pruner.open_table(folder / "maps").create_index("some", ["s", "d", "n"], using="bitmap")
    return folder


ASK = """
import sys, pruner
from pruner.evidence import loading
loading.WHOLE_RECORDS = 0
for predicate in sys.argv[2:]:
    plan = pruner.open_table(sys.argv[1]).plan(predicate)
    assert plan.kept < plan.total, predicate
    plan.explain(), list(plan.files)
    assert "pandas" not in sys.modules, predicate
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("table", ASKED)
def test_no_type_and_no_index_needs_pandas(typed: Path, table: str) -> None:
    """pandas takes a quarter of a second and 35 MB to load."""
    arguments = [sys.executable, "-c", ASK, typed / table, *ASKED[table]]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr


STATEMENTS = """
import sys, pruner_duckdb
con = pruner_duckdb.connect({"t": sys.argv[1]})
for condition in sys.argv[2:]:
    con.execute(f"SELECT * FROM t WHERE {condition}").fetchall()
    plan = con.last_plans[-1]
    assert 0 < plan.kept < plan.total, condition
    assert not {"pandas", "pyarrow.dataset"} & set(sys.modules), condition
"""


@pytest.mark.slow
def test_statements_in_duckdb_need_no_pandas(typed: Path) -> None:
    """pandas is a quarter of what the adapter would load, and plain DuckDB does without it."""
    arguments = [sys.executable, "-c", STATEMENTS, typed / "stats", *ASKED["stats"]]
    run = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


MANIFESTS = (
    "id = 55",
    "\"at\" < TIMESTAMPTZ '2024-01-01 00:00:20+00:00'",
    "day = DATE '2024-01-05'",
    "price > 180",
    "amount = 5.05",
    "name < 'customer-0000100'",
    "city = 'city-003'",
    "flag = 7 AND id < 50",
)


@pytest.mark.slow
def test_a_plan_on_manifests_loads_neither_pandas_nor_fastavro(tmp_path: Path) -> None:
    write_table(tmp_path / "t", 50)
    code = f"{ASK}\nassert 'fastavro' not in sys.modules"
    arguments = [sys.executable, "-c", code, tmp_path / "t", *MANIFESTS]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr


PACKAGES = ("pruner", "pruner_duckdb", "pruner_python", "pruner_spark", "pruner_trino")
_IMPORT = re.compile(
    rf"^\s*(?:from ((?:{'|'.join(PACKAGES)})(?:\.\w+)*) import ([\w, ]+)|import ((?:{'|'.join(PACKAGES)})(?:\.\w+)+))",
    re.MULTILINE,
)


def test_programs_in_texts_import_what_is_there() -> None:
    """Code for another process is in a string, where no linter notices that a module has moved."""
    found: set[tuple[str, str]] = set()
    for text in _texts_where_processes_start():
        for module, names, alone in _IMPORT.findall(text):
            members = [name.split()[0] for name in names.split(",") if name.strip()]
            found |= {(module, name) for name in members} if module else {(alone, "")}
    assert len(found) > 10
    assert [each for each in sorted(found) if not _is_there(*each)] == []


def _texts_where_processes_start() -> Iterator[str]:
    for folder in ("benchmarks", "demo", "tests", "tools"):
        for file in (ROOT / folder).rglob("*.py"):
            source = file.read_text("utf-8")
            if "subprocess" in source:
                constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
                yield from (node.value for node in constants if isinstance(node.value, str))


def _is_there(module: str, name: str) -> bool:
    if importlib.util.find_spec(module) is None:
        return False
    if not name or hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None
