"""Progress of long work, for display."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Told = Callable[[int, int], None]

_SHOWN = threading.Lock()
"""Held by the thread that shows a bar: a terminal has only one."""


@contextmanager
def progress_bar(what: str) -> Generator[Told | None]:
    """A callback that shows the progress of long work; None if standard error is not interactive or has a bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield None
        return
    if not _SHOWN.acquire(blocking=False):
        yield None  # another thread's bar has the terminal
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        _SHOWN.release()


@contextmanager
def telling(progress: Told | bool | None, what: str) -> Generator[Told | None]:
    """The callback for progress: the given one, none for False, else a bar if standard error is interactive."""
    if progress is None or progress is True:
        with progress_bar(what) as bar:
            yield bar
    else:
        yield progress or None
