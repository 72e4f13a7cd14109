"""The queries of the event lake, in SQL and as values, for readers without SQL.

It imports nothing but the standard library, because each reader runs in its own environment.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

TOP = 100
FEW = 10
RARE_TYPE = "ReleaseEvent"

Rows = list[list[int]]


@dataclass(frozen=True)
class Workload:
    """A kind of query: a statement with placeholders for constants, and its purpose."""

    title: str
    sql: str


_TOTALS = "SELECT count(*), sum(fare_cents) FROM {table}"

WORKLOADS = {
    "key": Workload("one key", "SELECT event_id, fare_cents FROM {table} WHERE key = {key}"),
    "keys": Workload("1,000 keys", _TOTALS + " WHERE key IN ({keys})"),
    "window": Workload("an hour", _TOTALS + " WHERE created_at >= {low} AND created_at < {high}"),
    "two": Workload(
        "a rare zone in a day",
        _TOTALS + " WHERE zone = {zone} AND created_at >= {low} AND created_at < {high}",
    ),
    "top": Workload(
        f"latest {TOP}",
        f"SELECT event_id FROM {{table}} ORDER BY created_at DESC, event_id DESC LIMIT {TOP}",
    ),
    "count": Workload("count(*)", "SELECT count(*) FROM {table}"),
    "limit": Workload(
        f"any {FEW} of a rare type",
        f"SELECT event_id FROM {{table}} WHERE type = '{RARE_TYPE}' LIMIT {FEW}",
    ),
    "join": Workload(
        "join with 20 rows",
        "SELECT count(*), sum(fare_cents) FROM {table} JOIN (VALUES {picks}) AS picks(pick) ON event_id = pick",
    ),
    "nothing": Workload("nothing prunable", _TOTALS + " WHERE fare_cents % 97 = {rest}"),
}


def statement(workload: str, values: dict[str, Any], table: str, instant: str = "TIMESTAMPTZ '{}+00'") -> str:
    """The SQL of a query; `instant` is how the engine spells a moment."""
    texts = {
        "key": str(values.get("key")),
        "keys": ", ".join(map(str, values.get("keys", []))),
        "picks": ", ".join(f"({each})" for each in values.get("picks", [])),
        "zone": str(values.get("zone")),
        "rest": str(values.get("rest")),
        "low": instant.format(shown(values.get("low", 0))),
        "high": instant.format(shown(values.get("high", 0))),
    }
    return WORKLOADS[workload].sql.format(table=table, **texts)


def shown(seconds: int) -> str:
    """A moment without its zone, which is UTC."""
    return f"{moment(seconds):%Y-%m-%d %H:%M:%S}"


def moment(seconds: int) -> datetime:
    """A moment by its seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


class Reader(Protocol):
    """A reader of one table."""

    def open(self, location: str) -> None:
        """Open the table, or reopen it after a commit."""
        ...

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        """The rows of the answer; None where this way of reading has no answer."""
        ...


def listed(rows: Any) -> Rows:
    """Rows of whole numbers; a sum of nothing is 0 here."""
    return [[int(value or 0) for value in row] for row in rows]


def serve(
    make: Callable[[str, dict[str, Any]], Reader], processor: Callable[[], float] = time.process_time
) -> None:
    """Answer line by line: `{"open": location}`, or `{"ask": workload, "values": …}`.

    An answer is what `answered` returns. `processor` returns the reader's CPU seconds so far.
    """
    reader = make(sys.argv[1], json.loads(sys.argv[2]))
    answers = sys.stdout
    sys.stdout = sys.stderr
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answered(reader, question, processor)), file=answers, flush=True)


def answered(reader: Reader, question: dict[str, Any], processor: Callable[[], float]) -> dict[str, Any]:
    """The rows of an answer or an error, and its wall time and CPU time in seconds."""
    busy, wall = processor(), time.perf_counter()
    rows = None
    try:
        if "open" in question:
            reader.open(question["open"])
        else:
            rows = reader.ask(question["ask"], question["values"])
        told: dict[str, Any] = {"rows": rows}
    except Exception as error:  # a reader may refuse a query: the page says so
        told = {"error": described(error)}
    return told | {"wall": time.perf_counter() - wall, "processor": processor() - busy}


_IN_JAVA = re.compile(r"(?:^|: )(?:[\w$]+\.)+(\w+(?:Error|Exception))\b")


def described(error: Exception) -> str:
    """An error in a line that begins with its name; for one from Java, with that of its cause."""
    text = " ".join(str(error).split())
    causes = _IN_JAVA.findall(text)
    return f"{causes[-1] if causes else type(error).__name__}: {text[:300]}"
