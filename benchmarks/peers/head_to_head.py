"""`python -m benchmarks head-to-head`: one event lake, questions that people ask, and readers of five projects.

Each reader runs in a process and an environment of its own, in the version that `referee/readers.toml` pins. Readers
of one format take turns, question by question; each answer is compared with what DuckDB finds in the same rows in
memory. Which data files a reader opens is seen from outside, by inotify. BENCH_FILES=10000 measures another size.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console

import pruner
from benchmarks.lakes.events import START, WITHOUT_SPARK, ZONES, Events, FileFormat, Lake, spread
from benchmarks.peers import page
from benchmarks.peers.questions import FEW, RARE_TYPE, WORKLOADS, Rows, statement
from benchmarks.peers.results import Built, Contender, Measured, Result
from referee.run import Reader, readers
from tools.cache import cache_dir, say
from tools.spark import hudi_session

HERE: Final = Path(__file__).resolve().parent
ROWS_PER_FILE: Final = 200
LAKES: Final[dict[int, tuple[FileFormat, ...]]] = {
    10_000: WITHOUT_SPARK,
    1_000: WITHOUT_SPARK,
    200: ("hudi",),
}
"""Numbers of files, and the formats that are asked at each: Spark takes minutes to write a larger Hudi table."""

COMMITS: Final = 3
SLOW: Final = 5.0
"""Seconds after which a reader is not asked the same kind of question again."""


@dataclass(frozen=True)
class Effort:
    """How often things are asked; not `apart`, all readers are those of this environment."""

    runs: int = 3
    cold_runs: int = 1
    apart: bool = True


CONTENDERS: Final = (
    Contender("pruner in DuckDB", "parquet", "pruner"),
    Contender("pruner, native scan", "parquet", "pruner", {"native": "on"}),
    Contender("DuckDB", "parquet", "duckdb", {"kind": "parquet"}),
    Contender("Polars", "parquet", "polars", {"kind": "parquet"}),
    Contender("DataFusion", "parquet", "datafusion"),
    Contender("pruner in DuckDB", "delta", "pruner"),
    Contender("pruner, native scan", "delta", "pruner", {"native": "on"}),
    Contender("DuckDB", "delta", "duckdb", {"kind": "delta"}),
    Contender("Polars", "delta", "polars", {"kind": "delta"}),
    Contender("delta-rs", "delta", "deltalake"),
    Contender("pruner in DuckDB", "iceberg", "pruner"),
    Contender("DuckDB", "iceberg", "duckdb", {"kind": "iceberg"}),
    Contender("Polars", "iceberg", "polars", {"kind": "iceberg"}),
    Contender("PyIceberg", "iceberg", "pyiceberg"),
    Contender("pruner in DuckDB", "hudi", "pruner"),
    Contender("pruner, native scan", "hudi", "pruner", {"native": "on"}),
    Contender("hudi-rs", "hudi", "hudi"),
)

ALSO: Final = (
    Reader("hudi", "hudi==0.5.0", ("hudi",), ("pyarrow==26.0.1",)),
    Reader(
        "polars",
        "polars==2.1.0",
        ("iceberg",),
        ("polars-iceberg==0.1.0", "pyiceberg[pyarrow]==0.12.0"),
    ),
)
"""Readers that the referee does not ask, and those that plan faster with a package more."""

INDEXES: Final = {
    "statistics": ("column_stats", ["event_id", "created_at"]),
    "keys": ("record_index", "key"),
    "rare": ("bitmap", ["zone", "type"]),
}
"""What pruner builds: statistics where a format's own metadata has none."""

WITH_STATISTICS: Final = ("parquet", "hudi")


def run(console: Console) -> None:
    """Measure each lake, print the tables, and write page and plot anew; another size is printed alone."""
    given = os.environ.get("BENCH_FILES")
    lakes = {int(given): WITHOUT_SPARK} if given else LAKES
    found = [
        measure(files, contenders=[each for each in CONTENDERS if each.kind in kinds])
        for files, kinds in lakes.items()
    ]
    for each in found:
        console.print(page.tables(each))
    if not given:
        page.write(found)


def measure(
    files: int,
    *,
    rows: int = ROWS_PER_FILE,
    effort: Effort = Effort(),
    contenders: Sequence[Contender] = CONTENDERS,
) -> Result:
    """Write a lake of some files and ask all contenders."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder), Events(files, rows))
        say(f"Writing {files:,} files in each format")
        lake.write()
        kinds: list[FileFormat] = list(dict.fromkeys(each.kind for each in contenders))
        if "hudi" in kinds:
            _apart(_spark_writes, lake)
        built = [each for kind in kinds for each in build(lake, kind)]
        result = Result(files, files * rows, _sizes(lake, kinds), [], built, {}, page.machine())
        for kind in kinds:
            _ask_all(lake, [each for each in contenders if each.kind == kind], effort, result)
        return result


def _apart(run: Callable[[Lake], None], lake: Lake) -> None:
    """Run something in a process of its own: the Java machine of a session lives as long as its process."""
    process = get_context("spawn").Process(target=run, args=(lake,))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"Spark did not write the Hudi table: its process ended with {process.exitcode}")


def _spark_writes(lake: Lake) -> None:
    lake.write_hudi(hudi_session(lake.folder / "spark"))


def _sizes(lake: Lake, kinds: Sequence[FileFormat]) -> dict[str, int]:
    return {kind: sum(file.stat().st_size for file in lake.data(kind).rglob("*.parquet")) for kind in kinds}


def build(lake: Lake, kind: FileFormat) -> list[Built]:
    """Build pruner's indexes; what each cost."""
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


def _ask_all(lake: Lake, contenders: list[Contender], effort: Effort, result: Result) -> None:
    """Ask the readers of one format."""
    kind = contenders[0].kind
    say(f"{kind}: opening the table in {', '.join(each.title for each in contenders)}")
    truth = Truth(lake.events)
    found = {each.title: Measured(each, _version(each)) for each in contenders}
    with ExitStack() as running:
        asked: dict[str, Asked] = {}
        cold: dict[str, list[dict[str, Any]]] = {each.title: [] for each in contenders}
        for number in range(effort.cold_runs):
            for each in contenders:
                if number:
                    asked[each.title].end()
                asked[each.title] = running.enter_context(_started(each, lake, effort))
                cold[each.title].append(_first(asked[each.title], lake, kind, truth, number))
        for title, told in cold.items():
            found[title].add("cold", told)
        for workload, asks in WORKLOADS.items():
            say(f"{kind}: {asks.title}")
            _compare(workload, asked, found, truth, effort.runs)
            for title, reader in asked.items():
                if workload in found[title].wall:
                    with opened_in(lake.data(kind)) as names:
                        reader.ask(workload, truth.values(workload, 1_000))
                    found[title].opened[workload] = len(names)
        if kind != "hudi":
            say(f"{kind}: {COMMITS} commits")
            _after_commits(lake, kind, asked, found, result)
    result.measured += found.values()


def _compare(
    workload: str, asked: dict[str, Asked], found: dict[str, Measured], truth: Truth, runs: int
) -> None:
    told: dict[str, list[dict[str, Any]]] = {title: [] for title in asked}
    for number in range(runs + 1):
        values = truth.values(workload, number)
        for title, reader in asked.items():
            if workload in found[title].refused:
                continue
            if told[title] and told[title][-1]["wall"] > SLOW:
                continue
            answer = reader.ask(workload, values)
            if "error" in answer or answer["rows"] is None:
                found[title].refused[workload] = answer.get("error", "no way to ask this")
                continue
            truth.check(workload, values, answer["rows"], title)
            told[title].append(answer)
    for title, answers in told.items():
        if answers:
            # The first of each loads what the others find loaded, unless it was so slow that it is the only one.
            found[title].add(workload, answers[1:] or answers)


def _first(reader: Asked, lake: Lake, kind: FileFormat, truth: Truth, number: int) -> dict[str, Any]:
    """Open the table and answer a first question."""
    opened = reader.open(lake.location(kind))
    values = truth.values("window", 100 + number)
    answer = reader.ask("window", values)
    if "error" in opened or "error" in answer:
        raise SystemExit(f"{reader.title} does not read {kind}: {opened.get('error') or answer['error']}")
    truth.check("window", values, answer["rows"], reader.title)
    return {what: opened[what] + answer[what] for what in ("wall", "processor")}


def _after_commits(
    lake: Lake, kind: FileFormat, asked: dict[str, Asked], found: dict[str, Measured], result: Result
) -> None:
    """Commit a hundredth more files, let pruner's indexes follow, and ask for the newest rows: `fresh`."""
    told: dict[str, list[dict[str, Any]]] = {title: [] for title in asked}
    follows: list[float] = []
    for _ in range(COMMITS):
        lake = lake.append(max(1, lake.events.files // 100), kind)
        table = pruner.open_table(lake.location(kind), index_uri=str(_index_of(lake, kind)))
        started = time.perf_counter()
        table.refresh()
        follows.append(time.perf_counter() - started)
        truth = Truth(lake.events)
        values = truth.newest()
        for title, reader in asked.items():
            opened = reader.open(lake.location(kind))
            answer = reader.ask("window", values)
            truth.check("window", values, answer["rows"], title)
            told[title].append({what: opened[what] + answer[what] for what in ("wall", "processor")})
    for title, answers in told.items():
        found[title].add("fresh", answers)
    result.follows[kind] = statistics.median(follows)


class Truth:
    """The rows of a lake in memory, without files that could be left out, and questions about them."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._rows = events.files * events.rows
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        batches = pa.concat_tables(events.batches())
        self._connection.register("batches", batches)
        self._connection.execute("CREATE TABLE events AS SELECT * FROM batches")
        self._connection.unregister("batches")

    def values(self, workload: str, number: int) -> dict[str, Any]:
        """Constants of a question: others for each number, as in statements that differ."""
        rng = np.random.default_rng([list(WORKLOADS).index(workload), number])
        start = int(START.timestamp()) + int(rng.integers(self._days() - 1)) * 86_400
        match workload:
            case "key" | "keys":
                keys = spread(np.sort(rng.choice(self._rows, min(1_000, self._rows // 2), replace=False)))
                return {"key": int(keys[0]), "keys": keys.tolist()}
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
        """The hour in which the newest row is."""
        found = self._connection.execute("SELECT epoch(max(created_at))::BIGINT FROM events").fetchone()
        assert found is not None
        return {"low": found[0] - 3_599, "high": found[0] + 1}

    def check(self, workload: str, values: dict[str, Any], rows: Rows, who: str) -> None:
        """Fail where an answer is wrong."""
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


class Asked:
    """A reader that runs."""

    def __init__(self, title: str, process: subprocess.Popen[str]) -> None:
        self.title = title
        self._process = process
        self._answer()

    def open(self, location: str) -> dict[str, Any]:
        """Let it open the table; an error is told when it is asked."""
        return self._tell({"open": location})

    def ask(self, workload: str, values: dict[str, Any]) -> dict[str, Any]:
        """What it answers: rows or an error, and seconds."""
        return self._tell({"ask": workload, "values": values})

    def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.title} ended with {self._process.wait()}: its error stands above")
        return json.loads(line)


@contextmanager
def _started(contender: Contender, lake: Lake, effort: Effort) -> Iterator[Asked]:
    options = dict(contender.options)
    if contender.reader == "pruner":
        options["index"] = str(_index_of(lake, contender.kind))
    found = _environment(contender) if effort.apart else None
    python = found[0].python(found[1]) if found else sys.executable
    command = [str(python), str(HERE / "readers.py"), contender.reader, json.dumps(options)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked = Asked(contender.title, process)
        try:
            yield asked
        finally:
            asked.end()


def _environment(contender: Contender) -> tuple[Reader, Path] | None:
    """The newest environment in which a reader reads the format, and where it is; None for pruner's own."""
    for known, folder in ((ALSO, "head-to-head"), (readers(), "referee")):
        for each in reversed(known):
            if each.name == contender.reader and contender.kind in each.formats:
                return each, cache_dir() / folder
    return None


def _version(contender: Contender) -> str:
    found = _environment(contender)
    return found[0].title.rpartition(" ")[2] if found else pruner.__version__


_IN_OPEN: Final = 0x20
_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")


@contextmanager
def opened_in(folder: Path) -> Iterator[set[str]]:
    """The names of the data files in a folder that any process opens meanwhile, complete at the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    watching = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watching < 0 or libc.inotify_add_watch(watching, os.fsencode(folder), _IN_OPEN) < 0:
        raise OSError(ctypes.get_errno(), f"inotify cannot watch {folder}")
    names, ended = set[str](), Event()

    def read() -> None:
        while not ended.wait(0.001):
            _read_events(watching, names)

    thread = Thread(target=read)
    thread.start()
    try:
        yield names
    finally:
        ended.set()
        thread.join()
        _read_events(watching, names)
        os.close(watching)


def _read_events(watching: int, names: set[str]) -> None:
    """Read what the kernel has queued: 16,384 events at most, or it says that it lost some."""
    while True:
        try:
            data = os.read(watching, 1 << 20)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            assert not mask & _OVERFLOW, "more files were opened than the kernel could tell"
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0").decode()
            if name.endswith(".parquet"):
                names.add(name)
            at += _EVENT.size + length
