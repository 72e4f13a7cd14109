"""Builds the documentation as a site: `make docs`. MkDocs stands in an environment of its own, in the cache folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.cache import say
from tools.matrix import python_with

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-docs.lock"
SITE = ROOT / "build" / "site"


def build() -> Path:
    """Build the site, warnings being failures; returns its first page."""
    # Material's notes about its makers' plans are none of a build's business.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [str(python_with(LOCK)), "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run(command, cwd=ROOT, check=True, env=environment)
    return SITE / "index.html"


if __name__ == "__main__":
    say(f"open {build()}")
