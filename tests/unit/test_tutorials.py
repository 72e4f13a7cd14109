"""Every block of the tutorials runs, one after the other, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from pruner.cli.app import app
from tests.support.service.planner import running_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN = "http://127.0.0.1:8765"
"""The service's address in the pages."""
SPARK = {"spark.md"}
SERVED = {"iceberg.md", "spark-without-a-plug-in.md"}
ELSEWHERE = {"s3.md", "trino.md", *SERVED}
"""Run below, by tests/engines/stores/test_store_tutorial.py and by tests/engines/trino/test_trino_tutorial.py."""


def run_blocks(path: Path, known: dict[str, Any] | None = None) -> int:
    """Run the blocks of a page, with the names that earlier blocks defined; return their number."""
    names: dict[str, Any] = {} if known is None else known
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    printed = ""
    for language, text in blocks:
        if language == "python":
            exec(compile(text, path.name, "exec"), names)
        elif language == "text":
            assert without_what_varies(printed) == without_what_varies(text)
        else:
            assert language == "sh", language
            printed = run_sh(text)
    return len(blocks)


def without_what_varies(printed: str) -> str:
    """The output of a command, without the folder that it ran in and without times."""
    in_folder = printed.replace(str(Path.cwd()), "…")
    return re.sub(r"[\d.]+ (s of one core|ms)", r"… \1", in_folder)


def run_sh(text: str) -> str:
    """Run the commands of a block; return the output of the last one."""
    output = ""
    for line in text.splitlines():
        words = shlex.split(line)
        start = words.index("pruner")
        variables = dict(word.split("=") for word in words[:start])
        ran = CliRunner(env=variables).invoke(app, words[start + 1 :])
        assert ran.exit_code == 0, (line, ran.output)
        output = ran.output
    return output


@pytest.fixture(autouse=True)
def _in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages show the output of a machine that is never short of time."""
    monkeypatch.setattr("pruner.advice.forecast.Pace.is_over", lambda *_: False)


@pytest.mark.load
@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*.md")} - SPARK - ELSEWHERE))
def test_every_block_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(FOLDER / name) > 5


def _run_beside_the_service(name: str, folder: Path) -> tuple[int, int]:
    """Run the blocks of a page that has the service started in another terminal in between; return how many there are
    before and after that.
    """
    before, command, after = (
        (FOLDER / name).read_text(encoding="utf-8").partition("```bash\npruner serve\n```\n")
    )
    assert command
    (folder / "before.md").write_text(re.sub(r"^```toml\n.*?^```\n", "", before, flags=re.M | re.S))
    [config] = re.findall(r"^```toml\n(.*?)^```$", before, re.MULTILINE | re.DOTALL)
    (folder / "pruner.toml").write_text(config, encoding="utf-8")
    names: dict[str, Any] = {}
    begun = run_blocks(folder / "before.md", names)
    with running_service(folder / "pruner.toml") as url:
        assert WRITTEN in after
        (folder / "after.md").write_text(after.replace(WRITTEN, url), encoding="utf-8")
        return begun, run_blocks(folder / "after.md", names)


@pytest.mark.load
def test_every_block_runs_beside_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begun, ended = _run_beside_the_service("iceberg.md", tmp_path)
    assert begun > 4
    assert ended == 2


@pytest.mark.spark
def test_every_block_runs_on_spark_beside_the_service(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's session here has the runtime that the page lets Spark fetch."""
    monkeypatch.chdir(tmp_path)
    try:
        assert _run_beside_the_service("spark-without-a-plug-in.md", tmp_path) == (1, 5)
    finally:
        for name in ("", ".type", ".uri"):
            spark.conf.unset(f"spark.sql.catalog.lake{name}")


@pytest.mark.load
@pytest.mark.parametrize("name", ["operations.md", "troubleshooting.md"])
def test_every_command_for_the_tutorials_table_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tutorial = (FOLDER / "duckdb.md").read_text(encoding="utf-8").partition("## 4.")[0]
    (tmp_path / "begun.md").write_text(tutorial, encoding="utf-8")
    run_blocks(tmp_path / "begun.md")
    assert run_blocks(FOLDER.parent / name) > 1


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(SPARK))
def test_every_block_runs_on_spark(
    name: str, spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(FOLDER / name) > 4
