"""What each peer's script runs: it prepares a table from statistics, then plans on request, and reports the CPU time.

It imports nothing but the standard library, because each peer runs in its own environment.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CARRIER = "AA"
"""The value of the column `carrier` in the conjunction."""

Plans = Callable[[str, list[int]], int]
"""Plans a `conjunction` ([least]: carrier = 'AA' AND event > least) or a `range` ([low, high]: event BETWEEN low AND
high), and returns the number of files to read.
"""


def answer_questions(prepare: Callable[[Path, Path], Plans]) -> None:
    """Serve one process: its arguments are the Parquet file of statistics and a folder; questions come line by line."""
    plan = prepare(Path(sys.argv[1]), Path(sys.argv[2]))
    _say({"ready": True})
    for line in sys.stdin:
        kind, values = json.loads(line)
        started = time.process_time()
        kept = plan(kind, values)
        _say({"seconds": time.process_time() - started, "kept": kept})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
