"""Wakes Hudi where it waits for the properties of a table, which are not there or are of no use.

It tries five times to read them, a second apart, and then goes on without, or refuses the table.
`rollback_to_savepoint` looks for a metadata table that way where there is none. Who wakes it saves five seconds and
changes nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAITS_IN = "org.apache.hudi.common.util.ConfigUtils"
EVERY = 0.05
"""Seconds between two looks at the thread: it is found at the beginning of its second."""
AT_MOST = 0.3
"""Seconds from a look at the thread to the moment at which it is woken."""


@contextmanager
def without_waits(spark: SparkSession) -> Iterator[None]:
    """Wake the Java thread of this thread of Python, until the block ends, whenever it waits for properties."""
    jvm: Any = spark.sparkContext._jvm
    mine = jvm.java.lang.Thread.currentThread()
    done = threading.Event()
    watching = threading.Thread(target=_watch, args=(mine, done))
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _watch(thread: Any, done: threading.Event) -> None:
    while not done.wait(EVERY):
        seen = time.monotonic()
        frames = thread.getStackTrace()
        # The innermost one is that of `Thread.sleep`.
        sleeps = len(frames) > 1 and (frames[0].getMethodName(), frames[1].getClassName()) == (
            "sleep",
            WAITS_IN,
        )
        # A machine that took long to answer: it may be awake by now, and is not to be interrupted at its work.
        if sleeps and time.monotonic() - seen < AT_MOST:
            thread.interrupt()
