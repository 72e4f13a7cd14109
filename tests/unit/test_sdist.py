"""The source distribution holds the whole project, so that its tests run from it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from pruner.version import __version__

ROOT = Path(__file__).resolve().parents[2]
IGNORED = GitIgnoreSpec.from_lines([".git", *(ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()])


def project_files(folder: Path = ROOT) -> Iterator[str]:
    """Paths of all files that git would track; a link is a file."""
    for path in folder.iterdir():
        name = path.relative_to(ROOT).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        if IGNORED.match_file(f"{name}/" if is_folder else name):
            continue
        if is_folder:
            yield from project_files(path)
        else:
            yield name


@pytest.mark.processes
def test_it_holds_every_file_of_the_project(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    folder = f"lake_pruner-{__version__}"
    with tarfile.open(tmp_path / f"{folder}.tar.gz") as packed:
        members = packed.getmembers()
    assert {member.name.removeprefix(f"{folder}/") for member in members} == {*project_files(), "PKG-INFO"}
    modes = {member.name: member.mode for member in members}
    assert modes[f"{folder}/.ci/run"] & 0o111
