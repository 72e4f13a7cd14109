"""A newcomer's first steps: the lines of the README as pasted, `pruner demo`, and the example table of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.wheel import ROOT, checkout_without_jar, installed, ran
from tests.unit.test_extras import ran_without

pc: Any = pyarrow.compute

SUMS = {"delay": 1_397_302, "distance": 205_709_560, "air_time": 30_293_583, "month": 1_172_452}

README = (ROOT / "README.md").read_text(encoding="utf-8")
USE = README.split("\n## Use\n")[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    return installed(checkout_without_jar(folder), folder)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "new" / "flights"
    assert pruner.example("flights", folder) == str(folder)
    return folder


def without_what_varies(printed: str, folder: Path) -> str:
    """The output, without the path and without times."""
    return re.sub(r"[\d.,]+ ms", "… ms", printed.replace(str(folder.resolve()), "…"))


@pytest.mark.processes
def test_the_lines_of_the_readme_run_as_pasted_and_print_what_it_says(site: Path, tmp_path: Path) -> None:
    [lines] = re.findall(r"```python\n(.*?)```", USE, re.DOTALL)
    [shown] = re.findall(r"```text\n(.*?)```", USE, re.DOTALL)
    (tmp_path / "empty").mkdir()
    done = ran(site, tmp_path / "empty", "-c", lines)
    assert (done.returncode, done.stderr) == (0, "")
    # Loading a column takes an amount of memory that differs between versions of Arrow.
    assert without_what_varies(done.stdout, tmp_path / "empty") == without_what_varies(
        shown, Path("/nowhere")
    )


@pytest.mark.processes
def test_the_demo_comes_with_the_wheel(site: Path, tmp_path: Path) -> None:
    done = ran(site, tmp_path, "-m", "pruner", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(re.findall(r"^(\S.*?) {2,}(\d+)  360 .* equal$", done.stdout, re.MULTILINE))
    # What the statistics and the other indexes can prove of this table.
    assert {name: int(kept) for name, kept in rows.items()} == {
        "point": 1,
        "range": 16,
        "IN": 24,
        "LIKE prefix": 21,
        "NULL": 28,
        "OR": 43,
        "join": 2,
        "one plane": 54,
        "hour of day": 29,
        "not prunable": 360,
    }
    assert "kept       1 of 360" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
def test_the_demo_without_duckdb_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.argv[1:] = ['demo']; from pruner.cli import main; main()"
    missing = ran_without({"duckdb", "_duckdb"}, code, tmp_path)
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "install the extra 'duckdb'" in missing.stderr


@pytest.mark.slow
def test_the_example_is_the_same_table_everywhere(flights: Path) -> None:
    files = sorted(flights.rglob("*.parquet"))
    assert len(files) == 360
    assert sum(file.stat().st_size for file in files) < 8_000_000
    rows = ds.dataset(flights, partitioning="hive").to_table()
    assert rows.num_rows == 180_000
    assert pc.count_distinct(rows["flight"]).as_py() == 180_000
    # Sums that any other random draw would not have.
    sums = {name: pc.sum(rows[name]).as_py() for name in ("delay", "distance", "air_time", "month")}
    assert sums == SUMS
    assert pc.min_max(rows["departure"]).as_py()["min"].isoformat() == "2024-01-01T05:00:00+00:00"


@pytest.mark.slow
def test_a_plan_over_the_example_keeps_what_ranges_cannot_rule_out(flights: Path) -> None:
    """Computed here from the rows themselves: files between whose smallest and largest carrier AA is, and so on."""
    table = pruner.open_table(str(flights))
    table.create_index("stats", on="*")
    plan = table.plan("carrier = 'AA' AND delay > 60")
    ranged: set[str] = set()
    holding: set[str] = set()
    for file in flights.rglob("*.parquet"):
        rows = pq.ParquetFile(file).read(["carrier", "delay"])
        carriers, most = pc.min_max(rows["carrier"]).as_py(), pc.max(rows["delay"]).as_py()
        if carriers["min"] <= "AA" <= carriers["max"] and most > 60:
            ranged.add(str(file))
        if pc.any(pc.and_(pc.equal(rows["carrier"], "AA"), pc.greater(rows["delay"], 60))).as_py():
            holding.add(str(file))
    kept = set(plan.files)
    assert holding <= kept
    assert kept == ranged
    table.uninstall()


@pytest.mark.slow
def test_an_example_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    for name in ("full", "file", "link"):
        with pytest.raises(pruner.TableError, match="exists already, and an example overwrites nothing"):
            pruner.example("flights", tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    pruner.example("flights", tmp_path / "empty")
    assert len(list((tmp_path / "empty").rglob("*.parquet"))) == 360
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full", "link"]


def test_an_example_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(pruner.PrunerError, match="cannot write .*: File exists"):
        pruner.example("flights", tmp_path / "file" / "flights")
    with pytest.raises(pruner.TableError, match="is a URI: give a path"):
        pruner.example("flights", "s3://lake/flights")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_another_name_lists_the_examples(tmp_path: Path) -> None:
    with pytest.raises(pruner.TableError, match=r"^there is no example 'trips': choose one of flights$"):
        pruner.example("trips", tmp_path / "trips")


def test_the_readme_says_what_it_does_not_help_with_before_how_to_install_it() -> None:
    """With the figures: the page has statements that cannot be pruned, and their cost."""
    top = README.partition("\n## Install\n")[0]
    [told] = re.findall(r"^It does not help with (.*?)\n\n", top, re.MULTILINE | re.DOTALL)
    assert "few or small files" in told
    assert len(told.splitlines()) <= 3
    [page] = re.findall(r"\]\((docs/\S+\.md)\)", told)
    assert "cannot be pruned" in (ROOT / page).read_text(encoding="utf-8")
