"""The jar of the Trino plugin in a wheel, and what a wheel without it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JAR = "adapters/pruner_trino/plugin/lake-pruner-trino.jar"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "pruner", "adapters")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a wheel is made of, without the jar."""
    root = tmp_path / "checkout"
    root.mkdir()
    leave = shutil.ignore_patterns("__pycache__", "*.jar")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=leave)
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, root)
    return root


def _installed(checkout: Path, folder: Path) -> Path:
    """Build the wheel and unpack it, which is all that installing it does."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def _asked(site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pruner_trino"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_a_wheel_brings_the_jar_or_says_how_to_get_it(checkout: Path, tmp_path: Path) -> None:
    """`make trino-plugin` puts it where the wheel takes it from; without, the command says that it is missing."""
    without = _asked(_installed(checkout, tmp_path / "without"))
    assert (without.returncode, without.stdout) == (1, "")
    assert "make trino-plugin" in without.stderr
    assert len(without.stderr.splitlines()) == 1
    (checkout / JAR).write_bytes(b"made by javac")
    site = _installed(checkout, tmp_path / "with")
    found = _asked(site)
    assert found.returncode == 0, found.stderr
    jar = Path(found.stdout.strip())
    assert jar.is_relative_to(site)
    assert jar.read_bytes() == b"made by javac"
