"""Indexes built by Spark's executors: the same records and plans as those built locally, and the same failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.indexes.optional import SpreadingIndexType
from pruner.indexes.registry import index_type
from pruner.metadata import MetadataTable, receipts
from pruner.pipeline import spark as spark_runner
from pruner.pipeline.spark import advice
from pruner.storage.opening import open_store
from tests.support.running.patience import PATIENCE
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write_files(root: Path, count: int) -> None:
    root.mkdir(parents=True)
    for i in range(count):
        columns = {"x": [2 * i, 2 * i + 1], "s": [f"v{i}", None], "f": [float(i), -0.5]}
        pq.write_table(pa.table(columns), root / f"{i:04}.parquet")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_runner, "CHUNK_SLICES", 4)
    monkeypatch.setattr(spark_runner, "POLL_SECONDS", 0.05)


def opened(uri: Path, place: Path) -> pruner.Table:
    return pruner.open_table(str(uri), index_uri=str(place))


def records_of(table: pruner.Table) -> dict[tuple[str, Any], dict[bytes, list[dict[str, Any]]]]:
    """All records, by index and field, then by slice, whatever segments hold them."""
    metadata = MetadataTable(open_store(table.index_uri))
    state = metadata.state()
    names = {definition.uuid: definition.name for definition in state.definitions}
    kinds = {definition.uuid: definition.using for definition in state.definitions}
    found: dict[tuple[str, Any], dict[bytes, list[dict[str, Any]]]] = {}
    keys = {
        batch.id: metadata.read_segment(batch).column("slice_key").to_pylist() for batch in state.batches()
    }
    for entry in state.segments:
        if entry.definition is None or entry.batch is None:
            continue
        by_slice = found.setdefault((names[entry.definition], entry.field), {})
        records, kind = metadata.read_segment(entry), index_type(kinds[entry.definition])
        for row in (kind.spread(records) if isinstance(kind, SpreadingIndexType) else records).to_pylist():
            key: Any = keys[entry.batch][row.pop("__slice")]
            by_slice.setdefault(key, []).append(row)
    for by_slice in found.values():
        for rows in by_slice.values():
            rows.sort(key=repr)
    return found


def files(table: pruner.Table, predicate: str) -> list[str]:
    return [str(each.base_file) for each in table.plan(predicate, dialect="spark").slices]


@pytest.mark.usefixtures("small_parts")
def test_the_same_records_and_plans_as_a_local_build(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "t", 18)
    local, distributed = (opened(tmp_path / "t", tmp_path / place) for place in ("local", "spark"))
    seen: list[tuple[int, int]] = []
    for table, run in ((local, "local"), (distributed, spark)):
        stats = table.create_index("stats", on="*", run=run, progress=lambda *step: seen.append(step))
        bitmap = table.create_index("bitmap", on=["x", "s"], using="bitmap", run=run)
        bloom = table.create_index("bloom", on=["x", "s", "f"], using="bloom_filter", run=run)
        keys = table.create_index("keys", on=["x", "s"], using="record_index", run=run)
        for built in (stats, bitmap, bloom, keys):
            assert built is not None
            assert (built.indexed, built.failures) == (18, ())
    assert seen[-1] == (18, 18)
    assert records_of(distributed) == records_of(local)
    metadata = MetadataTable(open_store(distributed.index_uri))
    state = metadata.state()
    assert state.version == 8, "four definitions, and one commit for each build"
    assert [batch.rows for batch in state.batches()] == [4, 4, 4, 4, 2] * 4
    assert metadata.unreferenced() == []
    for predicate in ("x = 7", "s = 'v11'", "f > 15", "s IS NOT NULL AND x < 4", "NOT (x < 30)", "x = 1000"):
        assert files(distributed, predicate) == files(local, predicate)
    assert len(files(distributed, "x = 7")) == 1
    assert files(distributed, "x = 1000") == []
    assert distributed.refresh(run=spark).indexed == 0


def test_executors_write_partition_stats(spark: SparkSession, tmp_path: Path) -> None:
    """A part of 1,024 slices has groups; first plans keep the right files, which are those after a local build."""
    write_files(tmp_path / "t", 1030)
    tables = [opened(tmp_path / "t", tmp_path / place) for place in ("local", "spark")]
    for table, run in zip(tables, ("local", spark), strict=True):
        table.create_index("stats", on=["x", "f"], run=run)
        entries = MetadataTable(open_store(table.index_uri)).state().segments
        groups = [entry.partition_stats.rows for entry in entries if entry.partition_stats is not None]
        assert len(groups) == 2, "one for each column"
        assert min(groups) >= 4
        assert table.verify() == []
    new = [opened(tmp_path / "t", Path(table.index_uri)) for table in tables]
    for predicate, numbers in (
        ("x = 7", [3]),
        ("x >= 2057", [1028, 1029]),
        ("x BETWEEN 511 AND 513", [255, 256]),
        ("NOT (x > 3) OR f > 1027.5", [0, 1, 1028, 1029]),
        ("x IS NULL", []),
        ("x = 5000", []),
    ):
        for table in new:
            assert [int(Path(uri).stem) for uri in files(table, predicate)] == numbers, predicate


SPARK = pruner.Semantics(engine="spark", zone="UTC")
HUDI_TABLES = [
    "cow_v6",
    "cow_v9",
    "mor_v6",
    "mor_v8",
    "mor_v9",
    "mor_pending_compaction_v8",
    "mor_log_only_v9",
    "mor_merge_into_v9",
]
"""Copy-on-write; log files with updates and deletes, a pending compaction, no base file, partial updates."""


@pytest.mark.parametrize("name", HUDI_TABLES)
def test_hudi_tables(
    spark: SparkSession, hudi_table: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """R5 on the executors: logs are read there as they are locally."""
    path = hudi_table(name)
    local, distributed = (opened(path, tmp_path / place) for place in ("local", "spark"))
    for table, run in ((local, "local"), (distributed, spark)):
        table.create_index("stats", on="*", build=False)
        table.create_index("bits", on=["id", "seats", "fare"], using="bitmap", build=False)
        built = table.refresh(run=run)
        assert (built.indexed, built.failures) == (len(table.snapshot().slices), ())
    assert records_of(distributed) == records_of(local)
    unlike = {"uuid": "", "created_at": ""}  # the rest of a definition is the same
    theirs, ours = (
        [msgspec.structs.replace(each, **unlike) for each in table.indexes()]
        for table in (distributed, local)
    )
    assert theirs == ours
    dropped = 0
    for row in spark_snapshot(spark, path).collect():
        group = row["_hoodie_file_name"].split("_", maxsplit=1)[0]
        fare = "fare IS NULL" if row["fare"] is None else f"fare = {row['fare']}D"
        for text in (f"id = {row['id']}", f"{fare} AND ts = {row['ts']}", f"seats != {row['seats'] + 1}"):
            plans = [table.plan(text, semantics=SPARK) for table in (local, distributed)]
            assert plans[0].ordinals.tolist() == plans[1].ordinals.tolist(), text
            assert group in {entry.file_id for entry in plans[1].slices}, f"LOST {group} for {text}"
            dropped += plans[1].total - plans[1].kept
    assert dropped
    assert distributed.plan("id > 1000000", semantics=SPARK).kept == 0


@pytest.mark.usefixtures("small_parts")
def test_a_broken_file_is_named_and_the_rest_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "t", 10)
    local, distributed = (opened(tmp_path / "t", tmp_path / place) for place in ("local", "spark"))
    for table in (local, distributed):
        table.create_index("i", on=["x", "s"], build=False)
    pages = tmp_path / "t" / "0006.parquet"
    data = pages.read_bytes()
    tables = [local, distributed]
    results: list[pruner.RefreshResult] = []
    for table, run in zip(tables, ("local", spark), strict=True):
        table.snapshot()
        pages.write_bytes(data[:-8] + b"\xff\xff\xff\x7fPAR1")
        results.append(table.refresh(run=run))
    assert results[0].indexed == results[1].indexed == 9
    assert results[1].problems == results[0].problems
    assert set(results[1].failures) == set(results[0].failures)
    assert len(files(distributed, "x = 2")) == 2, "the broken file stays"


DAEMON = "spark.python.daemon.module"


@contextmanager
def executors(spark: SparkSession, *, python: str | None = None, path: Path | None = None) -> Iterator[None]:
    """Give the executors another interpreter, which PySpark starts itself, or a folder before their module path."""
    context: Any = spark.sparkContext
    settings = context._jvm.org.apache.spark.SparkEnv.get().conf()
    before = context.pythonExec, dict(context.environment), settings.get(DAEMON, "pyspark.daemon")
    if python is not None:
        context.pythonExec = python
        settings.set(DAEMON, "pyspark.daemon")
    if path is not None:
        context.environment["PYTHONPATH"] = str(path)
    try:
        yield
    finally:
        context.pythonExec = before[0]
        context.environment.clear()
        context.environment.update(before[1])
        settings.set(DAEMON, before[2])


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_kills_its_reader_is_named_and_the_rest_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "t", 10)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import pruner.pipeline.kernel as kernel\n"
        "opened = kernel.FileReader\n"
        "def deadly(uri, *rest):\n"
        "    if uri.endswith('0006.parquet'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return opened(uri, *rest)\n"
        "kernel.FileReader = deadly\n"
    )
    table = opened(tmp_path / "t", tmp_path / "spark")
    with executors(spark, path=tmp_path / "site"):
        result = table.create_index("i", on="x", run=spark)
    assert result is not None
    assert result.indexed == 9
    assert [Path(failure.slice).name for failure in result.failures] == ["0006.parquet"]
    assert "the process that read it died" in result.failures[0].reason
    assert len(files(table, "x = 2")) == 2
    metadata = MetadataTable(open_store(table.index_uri))
    # A task of the first job may have gone on after the job had failed: its output adds nothing. Here, where nothing
    # kills the reader, the last file can be read.
    again = table.refresh()
    assert (again.indexed, again.resumed, again.already) == (1, 0, 9)
    assert receipts.receipts(metadata.store) == []
    assert sum(entry.rows for entry in metadata.state().segments if entry.definition) == 10


class Dies(spark_runner.SparkRunner):
    """The driver ends as if killed when executors have finished three parts."""

    def _collect(self, sent: bytes, count: int) -> list[receipts.Receipt]:
        assert count > 3
        super()._collect(sent, 3)
        raise KeyboardInterrupt


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("then", ["spark", "local"])
def test_a_build_whose_driver_died_is_taken_up_without_doing_covered_slices_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    write_files(tmp_path / "t", 18)
    table = opened(tmp_path / "t", tmp_path / "index")
    table.create_index("i", on=["x", "s"], build=False)
    with monkeypatch.context() as patched:
        patched.setattr("pruner.table.runner_for", lambda _: Dies(spark))
        with pytest.raises(KeyboardInterrupt):
            table.refresh(run=spark)
    assert len(files(table, "x = 7")) == 18, "nothing is visible before the commit"
    dry = table.refresh(dry_run=True)
    assert (dry.resumed, dry.files) == (12, 6)
    again = table.refresh(run=spark if then == "spark" else "local")
    assert (again.indexed, again.resumed, again.failures) == (6, 12, ())
    for number in (0, 11, 12, 17):
        assert [Path(name).name for name in files(table, f"x = {2 * number}")] == [f"{number:04}.parquet"]
    assert receipts.receipts(MetadataTable(open_store(table.index_uri)).store) == []


def interpreter(folder: Path, *packages: str) -> str:
    """A Python with only some of the packages that are installed here."""
    installed = Path(pa.__file__).parent.parent
    site = folder / "site"
    site.mkdir(parents=True)
    for package in packages:
        for found in installed.glob(package):
            (site / found.name).symlink_to(found)
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\ncd "{folder}"\nPYTHONPATH="{site}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


ARROW = ("pyarrow*", "numpy*", "pandas*", "dateutil", "six.py", "pytz*", "tzdata*")


def test_executors_that_lack_something_are_described_in_one_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "t", 2)
    table = opened(tmp_path / "t", tmp_path / "spark")
    table.create_index("i", on="x", build=False)
    bare = interpreter(tmp_path / "bare")
    with executors(spark, python=bare), pytest.raises(pruner.PrunerError) as no_arrow:
        table.refresh(run=spark)
    assert "cannot run Python with Arrow (ModuleNotFoundError: No module named 'pyarrow')" in str(
        no_arrow.value
    )
    arrow = interpreter(tmp_path / "arrow", *ARROW)
    with executors(spark, python=arrow), pytest.raises(pruner.PrunerError) as no_pruner:
        table.refresh(run=spark)
    sentence = str(no_pruner.value)
    assert sentence.startswith("the Spark executors lack ")
    for missing in ("fastavro 1.", "msgspec 0.", "obstore 0.", "xxhash 3.5", f"pruner {pruner.__version__}"):
        assert missing in sentence
    for present in ("numpy", "pyarrow"):
        assert present not in sentence.split(": ", maxsplit=1)[0]
    for error, python in ((no_arrow, bare), (no_pruner, arrow)):
        assert str(error.value).endswith(
            f"they run {python!r}; set the environment variable PYSPARK_PYTHON to {sys.executable!r} before the "
            "session is made"
        )
        assert "\n" not in str(error.value)
    on_a_cluster = advice("yarn", "python3")
    assert on_a_cluster.startswith(f"install 'lake-pruner[spark]=={pruner.__version__}' on every node")
    assert "spark.archives" in on_a_cluster
    assert table.refresh(run=spark).indexed == 2


def test_the_command_line_starts_a_session_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """The fixture is requested because it finds the Java runtime."""
    write_files(tmp_path / "t", 5)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("i", on="x", build=False)
    command = [
        sys.executable,
        "-m",
        "pruner",
        "refresh",
        str(tmp_path / "t"),
        "--spark",
        "local[2]",
        "--output",
        "json",
    ]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=os.environ
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["indexed"], answer["failures"]) == (5, [])
    assert table.plan("x = 4").kept == 1


def test_a_session_that_cannot_start_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "t", 1)
    command = [sys.executable, "-m", "pruner", "refresh", str(tmp_path / "t"), "--spark", "nonsense"]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=os.environ
    )
    assert ran.returncode == 1
    said = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert said[0].startswith("error: Spark cannot be started at 'nonsense': ")
    assert "Traceback" not in ran.stderr
