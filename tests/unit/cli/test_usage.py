"""The output of `--help`, and short sentences that say what to do."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from pruner.cli.app import EXAMPLES, app
from pruner.plugins import BrokenPluginError
from pruner.service import served
from pruner.showing.words import data_size
from tests.unit.cli.conftest import Run

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
EVERY = [(command, example) for command, examples in EXAMPLES.items() for example in examples]


def test_every_command_has_an_example() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("command", "example"), EVERY)
def test_examples_are_understood(command: str, example: str) -> None:
    """Parsed, not run: an unknown option, or an argument too many, is refused."""
    words = shlex.split(example)
    words = words[: words.index(">")] if ">" in words else words
    assert words[:2] == ["pruner", command]
    COMMANDS[command].make_context(command, words[2:])


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_has_examples_line_by_line(run: Run, option: str) -> None:
    for command in COMMANDS:
        shown = run(command, option)
        assert shown.code == 0
        for example in EXAMPLES[command]:
            assert f"    {example}\n" in shown.out
    assert "pruner COMMAND -h" in run(option).out


def test_help_has_the_syntax_of_create_index(run: Run) -> None:
    shown = run("sql", "-h").out
    assert "CREATE [FUNCTION] INDEX [IF NOT EXISTS] name ON table [USING type]\n" in shown
    # The page about statements has the same form.
    page = (Path(__file__).parents[3] / "docs" / "statements.md").read_text(encoding="utf-8")
    for keyword in (
        "CREATE [FUNCTION] INDEX [IF NOT EXISTS] name ON table [USING type]",
        "DROP INDEX [IF EXISTS]",
    ):
        assert keyword in page


@pytest.mark.slow
def test_a_part_of_a_message_is_enough(run: Run) -> None:
    part = run("errors", "there are no Parquet files in it")
    assert part.code == 0
    assert "is not a table: there are no Parquet files in it" in part.out
    cut = run("errors", "unknown table 'flihgts': there is no such pa")
    assert "pruner tables" in cut.out
    several = run("errors", "bloom filter")
    whole = run("errors")
    assert 0 < several.out.count("remedy") < whole.out.count("remedy")
    assert run("errors", "xy").code == 2


def test_a_build_reports_the_bytes_that_it_read(run: Run, flights: Path) -> None:
    files = [pq.ParquetFile(file).metadata for file in flights.glob("*.parquet")]
    footers = sum(each.serialized_size + 8 for each in files)
    chunks = sum(each.row_group(0).column(1).total_compressed_size for each in files)
    size = sum(file.stat().st_size for file in flights.glob("*.parquet"))
    assert files[0].row_group(0).column(1).path_in_schema == "carrier"
    ranges = run("sql", f"CREATE INDEX a ON '{flights}' (delay)", "--output", "json").out
    assert re.search(r'"bytes_read":(\d+)', ranges)[1] == str(footers)  # type: ignore[index]
    values = run("sql", f"CREATE INDEX b ON '{flights}' USING bitmap (carrier)", "--output", "json").out
    assert re.search(r'"bytes_read":(\d+)', values)[1] == str(footers + chunks)  # type: ignore[index]
    text = run("sql", f"CREATE INDEX c ON '{flights}' (delay)").out
    assert f"{data_size(footers)} of {data_size(size)} read" in text


def test_the_service_does_not_log_engines_that_nobody_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(engine: str) -> None:
        if engine == "absent":
            raise BrokenPluginError(f"{engine} cannot be loaded") from ModuleNotFoundError("No module")
        raise BrokenPluginError(f"{engine} cannot be loaded") from ValueError("wrong")

    monkeypatch.setattr(served, "load_adapter", load)
    monkeypatch.setattr(served, "adapter_names", lambda: ("absent", "broken"))
    with caplog.at_level(logging.INFO, logger="pruner"):
        served._load_adapters()
    assert [record.getMessage() for record in caplog.records] == ["broken cannot be loaded"]
