"""The wheel as an installation has it: built from a copy of what it is made of, and unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "pruner", "adapters")


def checkout_without_jar(folder: Path) -> Path:
    """Copy what a wheel is made of, without the jar of the Trino plugin."""
    root = folder / "checkout"
    root.mkdir()
    leave = shutil.ignore_patterns("__pycache__", "*.jar")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=leave)
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, root)
    return root


def installed(checkout: Path, folder: Path) -> Path:
    """Build the wheel and unpack it, which is all that installing it does; returns the folder of its packages."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def ran(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with the packages of a wheel and nothing of the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
