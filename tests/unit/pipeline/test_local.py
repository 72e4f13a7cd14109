"""Running the kernel locally: the same records in process, in threads and in workers; failures; changed files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.indexes.base import Evidence, SliceReader
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.pipeline import local, workers
from pruner.pipeline.footers import FileReader
from pruner.pipeline.kernel import kernel, read_slice
from pruner.pipeline.local import build, run_chunk
from pruner.pipeline.requests import BuildRequest, Chunk, Failure
from pruner.schema import Field
from pruner.storage import open_store
from pruner.tables.parquet import ParquetSource

X, S = Field(("x",), pa.int64()), Field(("s",), pa.string())


def requests(*fields: Field) -> list[BuildRequest]:
    return [BuildRequest(COLUMN_STATS, field, {}, f"{field.name}_index") for field in fields]


def write_table(root: Path, count: int) -> ParquetSource:
    root.mkdir(exist_ok=True)
    for i in range(count):
        pq.write_table(pa.table({"x": [i, i + 1], "s": [f"v{i}", None]}), root / f"{i:04}.parquet")
    return ParquetSource([str(root)])


def all_of(source: ParquetSource) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.arange(len(source.snapshot()))


def test_records_carry_the_position_among_the_ordinals_given(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 6)
    result = build(source, source.snapshot(), np.array([4, 1, 5]), requests(X, S))
    assert result.failures == ()
    x, s = result.records
    assert x.column("__slice").to_pylist() == [0, 1, 2]
    assert x.column("min_integer").to_pylist() == [4, 1, 5]
    assert s.column("min_bytes").to_pylist() == [b"v4", b"v1", b"v5"]
    assert x.schema.equals(COLUMN_STATS.record_schema.append(pa.field("__slice", pa.int32(), nullable=False)))


def test_no_ordinals_no_records_of_the_same_columns(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 1)
    result = build(source, source.snapshot(), np.array([], np.intp), requests(X))
    assert result.records[0].num_rows == 0
    assert result.records[0].schema.names == [*COLUMN_STATS.record_schema.names, "__slice"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CHUNK_SLICES", 7)


@pytest.mark.usefixtures("small_chunks")
def test_workers_give_the_same_records_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_table(tmp_path / "t", 40)
    (tmp_path / "t" / "0011.parquet").unlink()
    snapshot = source.snapshot()
    (tmp_path / "t" / "0020.parquet").write_bytes(b"PAR1 nonsense PAR1")
    in_process = build(source, snapshot, np.arange(len(snapshot)), requests(X, S))
    monkeypatch.setattr(local, "WORKER_SLICES", 1)
    seen: list[tuple[int, int]] = []
    in_workers = build(
        source,
        snapshot,
        np.arange(len(snapshot)),
        requests(X, S),
        lambda done, total: seen.append((done, total)),
    )
    for one, other in zip(in_process.records, in_workers.records, strict=True):
        assert one.equals(other)
    assert set(in_process.failures) == set(in_workers.failures)
    assert {Path(failure.slice).name for failure in in_workers.failures} == {"0020.parquet"}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (39, 39)


def test_a_broken_file_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 3)
    snapshot = source.snapshot()
    broken = tmp_path / "t" / "0001.parquet"
    broken.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    result = build(source, snapshot, np.arange(3), requests(X, S))
    assert [table.column("__slice").to_pylist() for table in result.records] == [[0, 2], [0, 2]]
    assert {(failure.slice, failure.index) for failure in result.failures} == {
        (str(broken), "x_index"),
        (str(broken), "s_index"),
    }
    assert all("\n" not in failure.reason for failure in result.failures)


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 3)
    snapshot = source.snapshot()
    (tmp_path / "t" / "0002.parquet").unlink()
    result = build(source, snapshot, np.arange(3), requests(X))
    assert result.records[0].column("__slice").to_pylist() == [0, 1]
    assert {Path(failure.slice).name for failure in result.failures} == {"0002.parquet"}


def test_r4_a_file_that_changed_while_it_was_read_is_left_out(tmp_path: Path) -> None:
    """Same size, same modification time (trap T16): only the look afterwards shows it."""
    source = write_table(tmp_path / "t", 3)
    snapshot = source.snapshot()
    changed = tmp_path / "t" / "0001.parquet"
    status = changed.stat()

    def overwrite(done: int, total: int) -> None:
        changed.write_bytes(changed.read_bytes())
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))

    result = build(source, snapshot, np.arange(3), requests(X), overwrite)
    assert result.records[0].column("__slice").to_pylist() == [0, 2]
    assert [(failure.slice, failure.index) for failure in result.failures] == [(str(changed), "x_index")]
    assert "changed while it was read" in result.failures[0].reason


def test_an_index_type_that_fails_does_not_fail_the_others(tmp_path: Path) -> None:
    source = write_table(tmp_path / "t", 2)
    both = [BuildRequest(_Tables(), X, {}, "tables"), BuildRequest(_Fails(), X, {}, "fails"), *requests(X)]
    result = build(source, source.snapshot(), all_of(source), both)
    assert result.records[0].to_pylist() == [{"value": v, "__slice": i} for i in range(2) for v in (i, i + 1)]
    assert result.records[1].num_rows == 0
    assert result.records[2].num_rows == 2
    assert [(failure.index, failure.reason) for failure in result.failures] == [
        ("fails", "x could not be read: out of patience")
    ] * 2


class _Tables:
    """An index type with several records of a slice, as a package of somebody else may have it."""

    name = "tables"
    version = 1

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Accept everything."""

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Record every value."""
        leaf = reader.footer.leaf(field.path)
        assert leaf is not None
        return pa.Table.from_arrays([pa.concat_arrays(list(reader.batches(leaf)))], names=["value"])

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Nothing asks for it here."""
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
    """Larger than the tail that is read first, so that several ranges are asked for."""
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=50_000)
    pq.write_table(pa.table({"f": pa.array(numbers), "x": pa.array(np.arange(50_000))}), path)
    store = open_store("memory://pipeline-test")
    assert store.put_if_absent("folder/a b%20c.parquet", path.read_bytes())
    (f, x) = read_slice(
        "memory://pipeline-test/folder/a b%20c.parquet",
        path.stat().st_size,
        {},
        requests(Field(("f",), pa.float64()), X),
    )
    local_f, local_x = read_slice(str(path), None, {}, requests(Field(("f",), pa.float64()), X))
    assert (f, x) == (local_f, local_x)
    assert not isinstance(f, Failure)
    (missing,) = read_slice("memory://pipeline-test/none.parquet", 10, {}, requests(X))
    assert isinstance(missing, Failure)


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    write_table(tmp_path / "t", 4)
    chunk = Chunk(0, [str(tmp_path / "t" / f"{i:04}.parquet") for i in range(4)], [None] * 4)
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


def test_a_file_that_kills_its_worker_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of one file is killed as by the kernel's out-of-memory killer, each time it is tried."""
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
    chunk = Chunk(0, [str(tmp_path / "t" / f"{i:04}.parquet") for i in range(4)], [None] * 4)
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
    monkeypatch.setattr(local, "WORKER_SLICES", 1)
    for executable in ("/bin/false", "/does/not/exist", ""):
        monkeypatch.setattr(sys, "executable", executable)
        result = build(source, source.snapshot(), np.arange(3), requests(X))
        assert result.failures == ()
        assert result.records[0].column("__slice").to_pylist() == [0, 1, 2]


@pytest.mark.usefixtures("small_chunks")
def test_workers_need_no_main_guard_and_end_with_their_caller(tmp_path: Path) -> None:
    write_table(tmp_path / "t", 30)
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, pyarrow as pa\n"
        "from pruner.pipeline import local, requests\n"
        "from pruner.tables.parquet import ParquetSource\n"
        "from pruner.indexes.column_stats import COLUMN_STATS\n"
        "from pruner.schema import Field\n"
        "local.WORKER_SLICES = 1; local.CHUNK_SLICES = 7\n"
        f"source = ParquetSource([{str(tmp_path / 't')!r}])\n"
        "snapshot = source.snapshot()\n"
        "request = requests.BuildRequest(COLUMN_STATS, Field(('x',), pa.int64()), {}, 'i')\n"
        "print(local.build(source, snapshot, np.arange(30), [request]).records[0].num_rows)\n"
    )
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120
    )
    assert (run.stdout, run.stderr) == ("30\n", "")
