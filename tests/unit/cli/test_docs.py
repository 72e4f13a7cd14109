"""Every command, option, JSON field and configuration key is in the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from pruner.catalog.config import FILE_VARIABLE
from pruner.catalog.settings import TABLE_KEYS, TableSettings
from pruner.cli.app import app
from pruner.cli.failures import TRACEBACK_VARIABLE
from tests.unit.cli.conftest import Run

DOCS = Path(__file__).parents[3] / "docs"
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL))
SHARED = SECTIONS["What all commands share"]
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def options_of(command: str) -> list[str]:
    return [
        option
        for parameter in COMMANDS[command].params
        for option in parameter.opts
        if option.startswith("--")
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_and_a_line(command: str) -> None:
    assert command in SECTIONS
    assert f"| [`{command}`](#{command}) |" in CLI
    assert re.search(rf"`pruner {command}[ `]", SECTIONS[command])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command in COMMANDS for option in options_of(command)]
)
def test_every_option_is_documented(command: str, option: str) -> None:
    section = SECTIONS[command] + (SECTIONS["plan"] if command == "explain" else "")
    assert f"{option}`" in section + SHARED or f"{option} " in section + SHARED


def test_the_documentation_names_no_option_that_is_not_there() -> None:
    known = {option for command in COMMANDS for option in options_of(command)}
    known |= {option for parameter in get_command(app).params for option in parameter.opts}
    known |= {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]*", CLI)) <= known


@pytest.mark.parametrize("option", [o for p in get_command(app).params for o in p.opts])
def test_every_global_option_is_documented(option: str) -> None:
    assert option in CLI


@pytest.mark.parametrize("key", TABLE_KEYS)
def test_every_configuration_key_is_documented(key: str) -> None:
    assert f"| `{key}` |" in CONFIGURATION


def test_the_keys_are_those_of_the_settings() -> None:
    fields = {"uri" if name == "uris" else name for name in TableSettings.__dataclass_fields__} - {"name"}
    assert fields == set(TABLE_KEYS)


@pytest.mark.parametrize("variable", [FILE_VARIABLE, TRACEBACK_VARIABLE])
def test_every_environment_variable_is_documented(variable: str) -> None:
    assert f"| `{variable}` |" in CONFIGURATION


@pytest.mark.slow
def test_every_json_field_is_documented(run: Run, flights: Path) -> None:
    run("sql", f"CREATE INDEX bits ON '{flights}' USING bitmap (delay)")
    outputs = {
        "sql": run("sql", f"CREATE INDEX stats ON '{flights}' (delay)", "--output", "json"),
        "refresh": run("refresh", flights, "--output", "json"),
        "count": run("count", flights, "--output", "json"),
        "query": run("query", "SELECT 1 AS one", "--output", "json"),
        "status": run("status", flights, "--output", "json"),
        "show-indexes": run("show-indexes", flights, "--output", "json"),
        "inspect": run("inspect", flights, "bits", "--output", "json"),
        "verify": run("verify", flights, "--output", "json"),
        "vacuum": run("vacuum", flights, "--output", "json"),
        "uninstall": run("uninstall", flights, "--yes", "--output", "json"),
    }
    for command, ran in outputs.items():
        assert ran.code == 0, ran.err
        fields = json.loads(ran.out)
        text = SECTIONS[command] + (SECTIONS["show-indexes"] if command == "status" else "")
        for field in (*fields, *(key for index in fields.get("indexes", ()) for key in index)):
            assert f"`{field}`" in text, (command, field)
