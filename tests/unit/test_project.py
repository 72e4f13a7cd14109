"""The project keeps what it promises of its own files: lock files name no host and pin by hash."""

from __future__ import annotations

from pathlib import Path

import pytest

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
