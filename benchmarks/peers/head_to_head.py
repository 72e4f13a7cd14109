"""`python -m benchmarks head-to-head`: one event lake, typical queries, and readers of many projects.

Each reader runs in its own process and environment, in the version that `referee/readers.toml` pins. Readers of one
format take turns, query by query; each answer is compared with DuckDB's over the same rows in memory. inotify shows
which data files a reader opens. BENCH_FILES=10000 measures another size; BENCH_READERS="Spark,Trino of hudi" queries
readers whose titles contain one of these parts, and updates their rows.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console

import pruner
from benchmarks.lakes.events import START, ZONES, Events, FileFormat, Lake, spread
from benchmarks.peers import page
from benchmarks.peers.questions import FEW, RARE_TYPE, WORKLOADS, Rows, statement
from benchmarks.peers.results import MANY, NO_WAY, PATIENCE, TOO_SLOW, Built, Contender, Measured, Result
from benchmarks.peers.running import ENGINES, OURS, Asked, opened_in, reader_of, version
from tools.cache import say
from tools.java import AS_SERVERS
from tools.spark import hudi_session

ROWS_PER_FILE: Final = 200
LAKES: Final = (100_000, 10_000, 1_000)
"""Numbers of files."""
MOST_FOR_ENGINES: Final = 1_000
"""The most files that Spark and Trino query: reading all of 10,000 takes Spark half a minute. Writing a larger Hudi
table would take it longer than querying all others.
"""

COMMITS: Final = 3
ASKED_FOR: Final = ["event_id", "key", "created_at", "type", "zone", "fare_cents"]
"""The columns that queries use."""
FILES_AT_ONCE: Final = 1_000


class Asking(Protocol):
    """Answers queries, as `Asked` does."""

    @property
    def title(self) -> str: ...

    def ask(self, workload: str, values: dict[str, Any]) -> dict[str, Any]: ...

    def start_anew(self) -> None: ...


@dataclass(frozen=True)
class Effort:
    """How often queries run: `many` times where answers are fast. Unless `apart`, all readers run in this
    environment. Before anything but `cold`, engines in Java read the whole table `warm_up` times.
    """

    runs: int = 3
    cold_runs: int = 1
    many: int = MANY
    warm_up: int = 20
    apart: bool = True
    patience: float = PATIENCE


def _engines(kind: FileFormat) -> tuple[Contender, ...]:
    """Spark and Trino, alone and with pruner; Trino publishes no connector of Delta to build a server with."""
    named = (("Spark", "spark"), ("pruner in Spark", "pruned-spark"))
    if kind != "delta":
        named += (("Trino", "trino"), ("pruner in Trino", "pruned-trino"))
    return tuple(Contender(title, kind, reader, {"kind": kind}) for title, reader in named)


CONTENDERS: Final = (
    Contender("pruner in DuckDB", "parquet", "pruner"),
    Contender("pruner, native scan", "parquet", "pruner", {"native": "on"}),
    Contender("DuckDB", "parquet", "duckdb", {"kind": "parquet"}),
    Contender("Polars", "parquet", "polars", {"kind": "parquet"}),
    Contender("DataFusion", "parquet", "datafusion"),
    *_engines("parquet"),
    Contender("pruner in DuckDB", "delta", "pruner"),
    Contender("pruner, native scan", "delta", "pruner", {"native": "on"}),
    Contender("DuckDB", "delta", "duckdb", {"kind": "delta"}),
    Contender("Polars", "delta", "polars", {"kind": "delta"}),
    Contender("delta-rs", "delta", "deltalake"),
    *_engines("delta"),
    Contender("pruner in DuckDB", "iceberg", "pruner"),
    Contender("DuckDB", "iceberg", "duckdb", {"kind": "iceberg"}),
    Contender("Polars", "iceberg", "polars", {"kind": "iceberg"}),
    Contender("PyIceberg", "iceberg", "pyiceberg"),
    *_engines("iceberg"),
    Contender("pruner in DuckDB", "hudi", "pruner"),
    Contender("pruner, native scan", "hudi", "pruner", {"native": "on"}),
    Contender("hudi-rs", "hudi", "hudi"),
    *_engines("hudi"),
)

INDEXES: Final = {
    "statistics": ("column_stats", ["event_id", "created_at"]),
    "keys": ("record_index", "key"),
    "rare": ("bitmap", ["zone", "type"]),
}
"""The indexes that pruner builds: statistics where a format's own metadata has none."""

WITH_STATISTICS: Final = ("parquet", "hudi")


def run(console: Console) -> None:
    """Measure each lake, and rewrite page and plot: for a lake of the page, that part; for another size, nothing. For
    some readers, only their rows are written.
    """
    given, parts = os.environ.get("BENCH_FILES"), os.environ.get("BENCH_READERS")
    for files in [int(given)] if given else LAKES:
        found = measure(files, contenders=chosen(files, parts.split(",") if parts else ()))
        console.print(page.tables(found), soft_wrap=True)
        if files in LAKES and parts and page.has_tables(files):
            page.renew(found)
        elif files in LAKES:
            page.write([found], LAKES)


def chosen(files: int, parts: Sequence[str]) -> list[Contender]:
    """The contenders for this many files: by parts of their titles, or all that are fast enough."""
    if parts:
        return with_titles(CONTENDERS, parts)
    return [
        each
        for each in CONTENDERS
        if files <= MOST_FOR_ENGINES or (each.kind != "hudi" and each.reader not in ENGINES)
    ]


def with_titles(contenders: Sequence[Contender], parts: Sequence[str]) -> list[Contender]:
    """Contenders with one of these parts in the title: `Spark of hudi` is Spark with and without pruner over Hudi."""
    return [each for each in contenders if any(part in f"{each.title} of {each.kind}" for part in parts)]


def measure(
    files: int,
    *,
    rows: int = ROWS_PER_FILE,
    effort: Effort = Effort(),
    contenders: Sequence[Contender] = CONTENDERS,
) -> Result:
    """Write a lake of some files and query all contenders."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder), Events(files, rows))
        say(f"Writing {files:,} files in each format")
        lake.write()
        kinds: list[FileFormat] = list(dict.fromkeys(each.kind for each in contenders))
        if "hudi" in kinds:
            say("hudi: Spark writes the table")
            _apart(_spark_writes, lake)
        built = [each for kind in kinds for each in build(lake, kind)]
        result = Result(files, files * rows, _sizes(lake, kinds), [], built, {}, page.machine())
        truth = Truth(lake.events)
        for kind in kinds:
            _ask_all(lake, truth, [each for each in contenders if each.kind == kind], effort, result)
        return result


def _apart(run: Callable[[Lake], None], lake: Lake) -> None:
    """Run something in its own process: the JVM of a session lives as long as its process."""
    process = get_context("spawn").Process(target=run, args=(lake,))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"Spark did not write the Hudi table: its process ended with {process.exitcode}")


def _spark_writes(lake: Lake) -> None:
    lake.write_hudi(hudi_session(lake.folder / "spark", java_options=AS_SERVERS))


def _sizes(lake: Lake, kinds: Sequence[FileFormat]) -> dict[str, int]:
    return {kind: sum(file.stat().st_size for file in lake.data(kind).rglob("*.parquet")) for kind in kinds}


def build(lake: Lake, kind: FileFormat) -> list[Built]:
    """Build pruner's indexes; return the cost of each."""
    table = pruner.open_table(lake.location(kind), index_uri=str(_index_of(lake, kind)))
    found: list[Built] = []
    for name, (using, on) in INDEXES.items():
        if name == "statistics" and kind not in WITH_STATISTICS:
            continue
        say(f"{kind}: building the index {name}")
        before, wall, processor = _bytes(_index_of(lake, kind)), time.perf_counter(), _processor()
        table.create_index(name, on=on, using=using)
        seconds = time.perf_counter() - wall
        size = _bytes(_index_of(lake, kind)) - before
        found.append(Built(kind, name, seconds, _processor() - processor, size))
    return found


def _index_of(lake: Lake, kind: FileFormat) -> Path:
    return lake.folder / f"{kind}.index"


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _processor() -> float:
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def _ask_all(lake: Lake, truth: Truth, contenders: list[Contender], effort: Effort, result: Result) -> None:
    """Query the readers of one format."""
    kind = contenders[0].kind
    say(f"{kind}: opening the table in {', '.join(each.title for each in contenders)}")
    truth.follow(lake.events)
    found = {each.title: Measured(each, version(each)) for each in contenders}
    with ExitStack() as running:
        asked: dict[str, Asked] = {}
        for number in range(effort.cold_runs):
            for each in contenders:
                if number:
                    asked[each.title].end()
                told = {"index": str(_index_of(lake, kind))} if each.reader in OURS else {}
                asked[each.title] = running.enter_context(
                    reader_of(each, told, patience=effort.patience, apart=effort.apart)
                )
                _first(asked[each.title], found[each.title], lake, truth, number)
        _warm_up([asked[each.title] for each in contenders if each.reader in ENGINES], truth, effort)
        for workload, asks in WORKLOADS.items():
            say(f"{kind}: {asks.title}")
            ask_in_turns(workload, asked, found, truth, lake.data(kind), effort)
        if kind != "hudi":
            say(f"{kind}: {COMMITS} commits")
            _after_commits(lake, kind, truth, asked, found, result)
    result.measured += found.values()


def _warm_up(readers: Sequence[Asking], truth: Truth, effort: Effort) -> None:
    """Have all readers read the whole table equally often.

    Java compiles what has run often: otherwise the reader that skips most files would be the slower one whenever all
    are read. After 20 times, Trino takes a fifth of its first time.
    """
    for number in range(effort.warm_up):
        for reader in readers:
            reader.ask("nothing", truth.values("nothing", 200 + number))


def ask_in_turns(
    workload: str,
    asked: Mapping[str, Asking],
    found: dict[str, Measured],
    truth: Truth,
    folder: Path,
    effort: Effort,
) -> None:
    """Ask the same kind of query in turns, and count the data files opened for the last one."""
    last = max(effort.runs, effort.many) + 1
    for number in range(last + 1):
        values = truth.values(workload, number)
        for title, reader in asked.items():
            measured = found[title]
            if workload in measured.refused or measured.was_slow(workload):
                continue
            if effort.runs < number < last and not measured.is_fast(workload, effort.runs):
                continue
            with opened_in(folder) if number in (0, last) else nullcontext(set[str]()) as names:
                answer = reader.ask(workload, values)
            if "error" in answer or answer["rows"] is None:
                _refused(workload, reader, measured, truth, answer.get("error", NO_WAY), effort)
                continue
            truth.check(workload, values, answer["rows"], title)
            if number < last:
                measured.add(workload, answer)
            if number in (0, last):
                measured.opened[workload] = len(names)


def _refused(
    workload: str, reader: Asking, measured: Measured, truth: Truth, why: str, effort: Effort
) -> None:
    """Record why there is no answer; restart a reader that failed, so that its next queries are unaffected."""
    measured.refused[workload] = why
    if why not in (NO_WAY, TOO_SLOW):
        say(f"{measured.contender.kind}: {reader.title} fails at {WORKLOADS[workload].title}: {why}")
        reader.start_anew()
        # As after the first start: one-time work of an engine would otherwise count for the next query.
        reader.ask("window", truth.values("window", 100))
        if measured.contender.reader in ENGINES:
            _warm_up([reader], truth, effort)


def _first(reader: Asked, found: Measured, lake: Lake, truth: Truth, number: int) -> None:
    """Open the table and answer a first query."""
    kind = found.contender.kind
    values = truth.values("window", 100 + number)
    opened = reader.open(lake.location(kind))
    answer = opened if "error" in opened else reader.ask("window", values)
    if "error" not in answer:
        truth.check("window", values, answer["rows"], reader.title)
        found.add("cold", {what: opened[what] + answer[what] for what in ("wall", "processor")})
    elif answer["error"] == TOO_SLOW:
        # Without the table open, no other query can run either.
        missing = ["cold"] if answer is not opened else ["cold", "fresh", *WORKLOADS]
        found.refused |= dict.fromkeys(missing, TOO_SLOW)
    else:
        raise SystemExit(f"{reader.title} does not read {kind}: {answer['error']}")


def _after_commits(
    lake: Lake,
    kind: FileFormat,
    truth: Truth,
    asked: dict[str, Asked],
    found: dict[str, Measured],
    result: Result,
) -> None:
    """Commit a hundredth more files, refresh pruner's indexes, and query the newest rows: `fresh`."""
    follows: list[float] = []
    for _ in range(COMMITS):
        lake = lake.append(max(1, lake.events.files // 100), kind)
        table = pruner.open_table(lake.location(kind), index_uri=str(_index_of(lake, kind)))
        begun = time.perf_counter()
        table.refresh()
        follows.append(time.perf_counter() - begun)
        truth.follow(lake.events)
        values = truth.newest()
        for title, reader in asked.items():
            if "fresh" in found[title].refused:
                continue
            opened = reader.open(lake.location(kind))
            answer = opened if "error" in opened else reader.ask("window", values)
            if "error" in answer:
                found[title].refused["fresh"] = answer["error"]
                continue
            truth.check("window", values, answer["rows"], title)
            found[title].add("fresh", {what: opened[what] + answer[what] for what in ("wall", "processor")})
    result.follows[kind] = statistics.median(follows)


class Truth:
    """The rows of a lake in memory, without files that could be skipped, and queries over them."""

    def __init__(self, events: Events) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        empty = events.batch(0).select(ASKED_FOR)[:0]
        self._connection.register("empty", empty)
        self._connection.execute("CREATE TABLE events AS SELECT * FROM empty")
        self._files = 0
        self.follow(events)

    def follow(self, events: Events) -> None:
        """Hold the rows of these files: those of earlier files stay, as in a lake that grows."""
        self._events = events
        self._rows = events.files * events.rows
        self._connection.execute("DELETE FROM events WHERE event_id >= ?", [self._rows])
        for start in range(self._files, events.files, FILES_AT_ONCE):
            numbers = range(start, min(start + FILES_AT_ONCE, events.files))
            more = pa.concat_tables(events.batch(number).select(ASKED_FOR) for number in numbers)
            self._connection.register("more", more)
            self._connection.execute("INSERT INTO events SELECT * FROM more")
            self._connection.unregister("more")
        self._files = events.files

    def values(self, workload: str, number: int) -> dict[str, Any]:
        """Constants of a query: others for each number, as in statements that differ."""
        rng = np.random.default_rng([list(WORKLOADS).index(workload), number])
        start = int(START.timestamp()) + int(rng.integers(self._days() - 1)) * 86_400
        match workload:
            case "key" | "keys":
                keys = spread(rng.choice(self._rows, min(1_000, self._rows // 2), replace=False))
                # One from any file: the least would always be in one of the first, which would then be cached.
                return {"key": int(keys[0]), "keys": sorted(keys.tolist())}
            case "window":
                low = start + int(rng.integers(23)) * 3_600
                return {"low": low, "high": low + 3_600}
            case "two":
                return {"zone": int(rng.integers(ZONES // 2, ZONES)), "low": start, "high": start + 86_400}
            case "join":
                first = int(rng.integers(self._rows - 20))
                return {"picks": list(range(first, first + 20))}
            case "nothing":
                return {"rest": int(rng.integers(97))}
            case _:
                return {}

    def newest(self) -> dict[str, Any]:
        """The hour of the newest row."""
        found = self._connection.execute("SELECT epoch(max(created_at))::BIGINT FROM events").fetchone()
        assert found is not None
        return {"low": found[0] - 3_599, "high": found[0] + 1}

    def check(self, workload: str, values: dict[str, Any], rows: Rows, who: str) -> None:
        """Fail if an answer is wrong."""
        if workload == "limit":
            expected = {
                row[0]
                for row in self._connection.execute(
                    f"SELECT event_id FROM events WHERE type = '{RARE_TYPE}'"
                ).fetchall()
            }
            ids = {row[0] for row in rows}
            right = ids <= expected and len(ids) == len(rows) == min(FEW, len(expected))
        else:
            found = self._connection.execute(statement(workload, values, "events")).fetchall()
            right = sorted(rows) == sorted([int(value or 0) for value in row] for row in found)
        if not right:
            raise SystemExit(f"{who} answers {workload} with {values} wrong: {rows[:5]}")

    def _days(self) -> int:
        return max(2, int(self._events.span.total_seconds() * self._events.files) // 86_400)
