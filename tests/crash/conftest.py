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
    # What is imported when it is first used would be imported by each process: half a second of the processor.
    *(module.name for module in walk_packages(pruner.__path__, "pruner.")),
    "pandas",
    "pyarrow.pandas_compat",
    "pyroaring",
    "rich.progress",
]


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that start in milliseconds, because the server that forks them has everything imported.

    It runs no thread and has opened nothing, so that what is forked from it is as good as a new interpreter.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing waits for no disk."""
    monkeypatch.setattr(os, "fsync", without_waiting)
