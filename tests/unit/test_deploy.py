"""The files of `deploy/` name what exists: options of the command, extras, open routes, keys of `pruner.toml`."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
import urllib.request
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main

from pruner.catalog.config import load
from pruner.cli.app import app
from pruner.service.guard import OPEN_ROUTES
from pruner.service.settings import TOKEN_VARIABLE, Settings
from tests.support.running.patience import PATIENCE
from tools import extra_sizes

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DEPLOYMENT = (DEPLOY / "helm" / "templates" / "deployment.yaml").read_text(encoding="utf-8")
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
TOKEN = "a token that nobody guesses"
_WORKERS = "{{ .Values.workers }}"


def _settings(arguments: list[str]) -> Settings:
    """The settings that the command line makes of its arguments; unknown ones are refused."""
    command = typer.main.get_command(app)
    assert arguments[0] == "serve"
    serve = command.get_command(None, "serve")  # pyright: ignore[reportAttributeAccessIssue]
    given = serve.make_context("serve", arguments[1:]).params
    return Settings(
        token=TOKEN, **{key: given[key] for key in ("host", "port", "certificate", "private_key", "insecure")}
    )


def test_the_unit_starts_the_service() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read(DEPLOY / "pruner.service", encoding="utf-8")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "pruner"
    _settings(arguments).check()
    assert unit["Service"]["NoNewPrivileges"] == "yes"


def test_the_image_installs_extras_that_there_are_and_starts_the_service() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"/src\[([\w,]+)\]", CONTAINERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (command,) = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    settings = _settings(json.loads(command))
    settings.check()
    assert settings.host == "0.0.0.0"
    assert re.search(r"^USER \d+$", CONTAINERFILE, re.MULTILINE)


@pytest.mark.processes
def test_what_the_image_starts_serves(tmp_path: Path) -> None:
    """Its steps without a builder: a wheel of the checkout in an environment of its own, and the command of the image.

    The libraries are those of the test environment, so that nothing is fetched.
    """
    program = _installed(tmp_path / "opt")
    (entry,) = json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", CONTAINERFILE, re.MULTILINE)[0])
    assert Path(entry).name == program.name
    arguments = json.loads(re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)[0])
    etc = tmp_path / "etc"
    (etc / "lake").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2, 3]}), etc / "lake" / "part.parquet")
    (etc / "pruner.toml").write_text('[tables.t]\nuri = "lake"\n', encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    service = subprocess.Popen(
        [program, *arguments, "--port", "0"],
        cwd=etc,
        env={**environment, TOKEN_VARIABLE: TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert service.stdout is not None
        port = service.stdout.readline().rpartition(";")[0].rpartition(":")[2]
        question = (
            '{"table": "t", "session": {"engine": "trino"}, "predicate": {"form": "sql", "text": "n > 5"}}'
        )
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/plan", question.encode(), {"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            assert json.load(answer)["total"] == 1
    finally:
        service.terminate()
        service.communicate()


def _installed(folder: Path) -> Path:
    """Install a wheel of the checkout into a fresh environment; return the command line's program there."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    built = extra_sizes.wheel(folder)
    own = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", own]
    subprocess.run([*command, "install", "--no-index", "--no-deps", built], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "pruner"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("branch", ["if", "else"])
def test_the_chart_starts_the_service_with_tls_and_without(branch: str, tmp_path: Path) -> None:
    arguments = DEPLOYMENT.split("args:\n")[1].split("          env:")[0]
    with_tls, without = re.split(r"\{\{- else \}\}", arguments)
    always = re.findall(r"^ {12}- (\S+)$", with_tls.split("{{- if")[0].replace(_WORKERS, "3"), re.MULTILINE)
    assert '"--workers=3"' in always
    always = [argument.strip('"') for argument in always]
    chosen = with_tls.split("{{- if")[1] if branch == "if" else without
    settings = _settings(always + re.findall(r"^ {12}- (\S+)$", chosen, re.MULTILINE))
    assert (settings.certificate is not None) == (branch == "if")
    if settings.certificate is not None:  # the secret is mounted in the container: other files replace it
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
        key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
        subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        settings = replace(settings, certificate=certificate, private_key=key)
    settings.check()
    assert f"name: {TOKEN_VARIABLE}" in DEPLOYMENT


def test_the_chart_probes_routes_that_need_no_token() -> None:
    probes = re.findall(r"path: (\S+),", DEPLOYMENT)
    assert set(probes) == OPEN_ROUTES


def test_workers_of_the_chart_have_a_folder_to_count_in() -> None:
    """Nothing else in the container is writable, and several workers do not start without it."""
    assert "readOnlyRootFilesystem: true" in DEPLOYMENT
    (name,) = re.findall(r"\{name: (\w+), mountPath: /tmp\}", DEPLOYMENT)
    assert f"- name: {name}\n          emptyDir: " in DEPLOYMENT


def test_the_chart_uses_every_value_and_no_other() -> None:
    values = (DEPLOY / "helm" / "values.yaml").read_text(encoding="utf-8")
    templates = "".join(
        path.read_text(encoding="utf-8") for path in (DEPLOY / "helm" / "templates").iterdir()
    )
    given = set(re.findall(r"^(\w+):", values, re.MULTILINE))
    assert set(re.findall(r"\.Values\.(\w+)", templates)) == given


def test_the_tables_of_the_chart_are_a_configuration(tmp_path: Path) -> None:
    values = (DEPLOY / "helm" / "values.yaml").read_text(encoding="utf-8")
    block = re.search(r"^tables: \|\n((?:  .*\n)+)", values, re.MULTILINE)
    assert block is not None
    (tmp_path / "pruner.toml").write_text(textwrap.dedent(block[1]), encoding="utf-8")
    assert load(tmp_path / "pruner.toml").names() == ("flights",)
