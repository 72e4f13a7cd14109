"""The project's own files are consistent: locks without hosts, one version, checks that can be run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pruner.version import __version__

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_files_name_no_host_and_pin_every_package_by_hash(lock: Path):
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    requirements = text.replace("\\\n", " ").strip().splitlines()
    assert requirements
    assert all("==" in line and "--hash=sha256:" in line for line in requirements)


def test_ci_script_is_executable():
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "pruner/version.py"
    assert f'__version__ = "{__version__}"' in (ROOT / "pruner" / "version.py").read_text(encoding="utf-8")


def test_the_changelog_has_a_section_for_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[?([^\]\n]+?)\]?(?: - .*)?$", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert __version__ in versions


def test_the_license_is_the_one_that_the_metadata_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    text = (ROOT / project["license-files"][0]).read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


HOOKS = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")


def test_hooks_before_a_commit_fetch_nothing_and_run_the_locked_tools():
    entries = re.findall(r"entry: (\S+)", HOOKS)
    assert entries
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    assert re.findall(r"repo: (\S+)", HOOKS) == ["local"]
    assert "://" not in HOOKS


@pytest.mark.parametrize("path", re.findall(r"tests/\S+\.py", HOOKS))
def test_tests_that_hooks_run_exist(path: str):
    assert (ROOT / path).is_file()


def test_the_workflow_runs_what_a_developer_runs():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.search(r"^ +- run: \.ci/run$", workflow, re.MULTILINE)
