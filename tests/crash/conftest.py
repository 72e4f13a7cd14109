"""Processes for tests that kill them."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import ForkServerContext
from pkgutil import walk_packages

import pytest

import pruner
from tests.crash.dying import without_waiting

_PRELOADED = [
    "tests.crash.builders",
    "tests.crash.commands",
    "tests.crash.many_writers",
    "tests.crash.writers",
    # Otherwise each process would import what is first imported on use: half a second of CPU time.
    *(module.name for module in walk_packages(pruner.__path__, "pruner.")),
    "pandas",
    "pyarrow.pandas_compat",
    "pyroaring",
    "rich.progress",
]


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that start in milliseconds, because the fork server has everything imported.

    It runs no threads and has opened nothing, so a process forked from it is as good as a new interpreter.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", without_waiting)
