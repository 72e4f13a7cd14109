"""Running the kernel on this machine: the same records in process, in threads and in workers; failures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.indexes.base import Evidence, SliceReader
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.pipeline import slices, workers
from pruner.pipeline.footers import FileReader
from pruner.pipeline.kernel import kernel, read_slice
from pruner.pipeline.requests import (
    BuildRequest,
    Chunk,
    ChunkResult,
    Failure,
    SliceFiles,
    request_json,
    request_of,
)
from pruner.pipeline.slices import cut, run_chunk, run_slices
from pruner.schema import Field
from pruner.storage.opening import open_store
from pruner.tables.parquet.source import ParquetSource
from pruner.tables.snapshot import Snapshot
from tests.support.running.patience import PATIENCE

X, S = Field(("x",), pa.int64()), Field(("s",), pa.string())


def requests(*fields: Field) -> list[BuildRequest]:
    return [BuildRequest(COLUMN_STATS, field, {}, f"{field.name}_index") for field in fields]


def write_table(root: Path, count: int) -> ParquetSource:
    root.mkdir(exist_ok=True)
    for i in range(count):
        pq.write_table(pa.table({"x": [i, i + 1], "s": [f"v{i}", None]}), root / f"{i:04}.parquet")
    return ParquetSource([str(root)])


def files_of(snapshot: Snapshot, ordinals: Sequence[int]) -> pa.Table:
    return snapshot.to_read(np.array(ordinals, np.intp))


def files_at(uri: str, size: int | None = None) -> SliceFiles:
    return SliceFiles(0, uri, size)


def joined(results: Iterable[ChunkResult]) -> tuple[list[pa.Table | None], list[Failure]]:
    """All records of each request in the order of slices, and all failures."""
    ordered = sorted(results, key=lambda result: result.start)
    tables = [
        [table for table in each if table is not None]
        for each in zip(*(r.tables for r in ordered), strict=True)
    ]
    return (
        [pa.concat_tables(each).combine_chunks() if each else None for each in tables],
        [failure for result in ordered for failure in result.failures],
    )


def build(
    source: ParquetSource, snapshot: Snapshot, ordinals: Sequence[int], wanted: list[BuildRequest]
) -> tuple[list[pa.Table | None], list[Failure]]:
    return joined(run_slices(files_of(snapshot, ordinals), source.storage_options, wanted))


def test_records_carry_the_position_among_the_slices_given(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 6)
    (x, s), failures = build(source, source.snapshot(), [4, 1, 5], requests(X, S))
    assert failures == []
    assert x is not None
    assert s is not None
    assert x.column("__slice").to_pylist() == [0, 1, 2]
    assert x.column("min_integer").to_pylist() == [4, 1, 5]
    assert s.column("min_bytes").to_pylist() == [b"v4", b"v1", b"v5"]
    assert x.schema.equals(COLUMN_STATS.record_schema.append(pa.field("__slice", pa.int32(), nullable=False)))


def test_no_slices_no_results(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 1)
    assert list(run_slices(files_of(source.snapshot(), []), {}, requests(X))) == []


def test_parts_are_bounded_in_slices_and_bytes() -> None:
    sizes = np.array([1, 1, 1, 1, 9, 1, 20, 1], np.int64)
    assert list(cut(sizes, 3, 10)) == [(0, 3), (3, 5), (5, 6), (6, 7), (7, 8)]
    assert list(cut(np.array([], np.int64), 3, 10)) == []


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "CHUNK_SLICES", 7)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "place",
    [
        pytest.param("workers by number", marks=pytest.mark.processes),
        pytest.param("workers by size", marks=pytest.mark.processes),
        "threads",
    ],
)
def test_workers_and_threads_give_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    source = write_table(tmp_path / "t", 40)
    (tmp_path / "t" / "0011.parquet").unlink()
    snapshot = source.snapshot()
    (tmp_path / "t" / "0020.parquet").write_bytes(b"PAR1 nonsense PAR1")
    everything = range(len(snapshot))
    one_by_one = build(source, snapshot, everything, requests(X, S))
    setting = {
        "workers by number": "WORKER_SLICES",
        "workers by size": "WORKER_BYTES",
        "threads": "LARGE_FILE_BYTES",
    }
    monkeypatch.setattr(slices, setting[place], 1)
    otherwise = build(source, snapshot, everything, requests(X, S))
    for one, other in zip(one_by_one[0], otherwise[0], strict=True):
        assert one is not None
        assert other is not None
        assert one.equals(other)
    assert set(one_by_one[1]) == set(otherwise[1])
    assert {Path(failure.slice).name for failure in otherwise[1]} == {"0020.parquet"}


def test_a_request_arrives_in_another_process_as_it_was_sent(tmp_path: Path) -> None:
    """Fields of a Parquet table know the types of their files, for which JSON itself has no form."""
    schema = write_table(tmp_path / "t", 2).snapshot().schema
    fields = [schema.find(("x",)), schema.find(("s",))]
    assert [field.parquet is not None for field in fields] == [True, True]
    for request in requests(*fields):
        arrived = request_of(json.loads(json.dumps(request_json(request))))
        assert arrived == request
        assert arrived.field.parquet == request.field.parquet


def test_a_broken_file_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 3)
    snapshot = source.snapshot()
    broken = tmp_path / "t" / "0001.parquet"
    broken.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    records, failures = build(source, snapshot, range(3), requests(X, S))
    assert [_slices(table) for table in records] == [[0, 2], [0, 2]]
    assert {(failure.slice, failure.index) for failure in failures} == {
        (str(broken), "x_index"),
        (str(broken), "s_index"),
    }
    assert all("\n" not in failure.reason for failure in failures)


def _slices(table: pa.Table | None) -> list[Any]:
    return [] if table is None else table.column("__slice").to_pylist()


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 3)
    snapshot = source.snapshot()
    (tmp_path / "t" / "0002.parquet").unlink()
    (x,), failures = build(source, snapshot, range(3), requests(X))
    assert _slices(x) == [0, 1]
    assert {Path(failure.slice).name for failure in failures} == {"0002.parquet"}


def test_an_index_type_that_fails_does_not_fail_the_others(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 2)
    both = [BuildRequest(_Tables(), X, {}, "tables"), BuildRequest(_Fails(), X, {}, "fails"), *requests(X)]
    (tables, fails, x), failures = build(source, source.snapshot(), range(2), both)
    assert tables is not None
    assert tables.to_pylist() == [{"value": v, "__slice": i} for i in range(2) for v in (i, i + 1)]
    assert fails is None
    assert _slices(x) == [0, 1]
    assert [(failure.index, failure.reason) for failure in failures] == [
        ("fails", "x could not be read: out of patience")
    ] * 2


class _Tables:
    """An index type with several records per slice, as another package may define it."""

    name = "tables"
    partition = "tables"
    version = 1

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Accept everything."""

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Record every value."""
        leaf = reader.footer.leaf(field.path)
        assert leaf is not None
        return pa.Table.from_arrays([pa.concat_arrays(list(reader.batches(leaf)))], names=["value"])

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Not called here."""
        raise NotImplementedError


class _Fails(_Tables):
    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Fail."""
        raise RuntimeError("out of patience.\nand more")


def test_the_kernel_answers_each_request(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        x, s = kernel(reader, requests(X, S))
    assert isinstance(x, tuple)
    assert isinstance(s, tuple)
    named = dict(zip(COLUMN_STATS.record_schema.names, s, strict=True))
    assert (named["absent"], named["null_count"]) == (True, 1)


def test_remote_files_are_read_by_ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Larger than the tail that is read first, so that several ranges are requested."""
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=50_000)
    pq.write_table(pa.table({"f": pa.array(numbers), "x": pa.array(np.arange(50_000))}), path)
    store = open_store("memory://pipeline-test")
    assert store.put_if_absent("folder/a b%20c.parquet", path.read_bytes())
    (f, x) = read_slice(
        files_at("memory://pipeline-test/folder/a b%20c.parquet", path.stat().st_size),
        {},
        requests(Field(("f",), pa.float64()), X),
    )
    local_f, local_x = read_slice(files_at(str(path)), {}, requests(Field(("f",), pa.float64()), X))
    assert (f, x) == (local_f, local_x)
    assert not isinstance(f, Failure)
    (missing,) = read_slice(files_at("memory://pipeline-test/none.parquet", 10), {}, requests(X))
    assert isinstance(missing, Failure)


@pytest.mark.processes
def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    snapshot = write_table(tmp_path / "t", 4).snapshot()
    chunk = Chunk(0, files_of(snapshot, range(4)))
    worker = workers.Worker({}, requests(X), run_chunk)
    try:
        assert [result.slices for result in worker.run(chunk)] == [4]
        assert worker.process is not None
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
        results = worker.run(chunk)
        assert sum(result.slices for result in results) == 4
        assert not any(result.failures for result in results)
        tables = [table for result in results for table in result.tables if table is not None]
        assert pa.concat_tables(tables).column("__slice").to_pylist() == [0, 1, 2, 3]
    finally:
        worker.close()


@pytest.mark.processes
def test_a_file_that_kills_its_worker_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of one file is killed, as by the kernel's out-of-memory killer, each time it is tried."""
    write_table(tmp_path / "t", 4)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import pruner.pipeline.kernel as kernel\n"
        "opened = kernel.FileReader\n"
        "def deadly(uri, *rest):\n"
        "    if uri.endswith('0002.parquet'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return opened(uri, *rest)\n"
        "kernel.FileReader = deadly\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    chunk = Chunk(0, files_of(ParquetSource([str(tmp_path / "t")]).snapshot(), range(4)))
    worker = workers.Worker({}, requests(X), run_chunk)
    try:
        results = worker.run(chunk)
    finally:
        worker.close()
    assert sum(result.slices for result in results) == 4
    assert [Path(failure.slice).name for result in results for failure in result.failures] == ["0002.parquet"]
    tables = [table for result in results for table in result.tables if table is not None]
    assert pa.concat_tables(tables).column("__slice").to_pylist() == [0, 1, 3]


def test_where_no_process_can_be_started_the_work_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_table(tmp_path / "t", 3)
    monkeypatch.setattr(slices, "WORKER_SLICES", 1)
    for executable in ("/bin/false", "/does/not/exist", ""):
        monkeypatch.setattr(sys, "executable", executable)
        (x,), failures = build(source, source.snapshot(), range(3), requests(X))
        assert failures == []
        assert _slices(x) == [0, 1, 2]


@pytest.mark.processes
@pytest.mark.usefixtures("small_chunks")
def test_workers_need_no_main_guard_and_end_with_their_caller(tmp_path: Path) -> None:
    write_table(tmp_path / "t", 30)
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, pyarrow as pa\n"
        "from pruner.pipeline import requests, slices\n"
        "from pruner.tables.parquet.source import ParquetSource\n"
        "from pruner.indexes.column_stats import COLUMN_STATS\n"
        "from pruner.schema import Field\n"
        "slices.WORKER_SLICES = 1; slices.CHUNK_SLICES = 7\n"
        f"files = ParquetSource([{str(tmp_path / 't')!r}]).snapshot().to_read(np.arange(30))\n"
        "request = requests.BuildRequest(COLUMN_STATS, Field(('x',), pa.int64()), {}, 'i')\n"
        "print(sum(result.tables[0].num_rows for result in slices.run_slices(files, {}, [request])))\n"
    )
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert (run.stdout, run.stderr) == ("30\n", "")
