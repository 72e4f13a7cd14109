"""Coverage survives changes that leave the content of files as it is, and `status` says why the rest is not covered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.pipeline.batches import BuildJob
from pruner.pipeline.runners import LocalRunner
from pruner.tables.parquet import source
from tests.unit.maintenance.test_refresh import write_files

FILES = 12


@pytest.fixture(autouse=True, params=[64, 0], ids=["listed again", "asked for"])
def few_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a build all files are listed again, or those that it read are checked."""
    monkeypatch.setattr(source, "FEW_OF", request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path / "t", range(FILES))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("stats", on=["x", "s"])
    table.create_index("values", on="x", using="bitmap")
    return tmp_path / "t"


def covered(root: Path) -> list[tuple[int, dict[str, int]]]:
    """What each index covers, and why not the rest, for a process that opens the table now."""
    return [(index.covered, index.uncovered) for index in pruner.open_table(root).status().indexes]


def kept(root: Path, condition: str) -> list[str]:
    return [Path(uri).name for uri in pruner.open_table(root).plan(condition).files]


@pytest.mark.slow
def test_hard_links_and_permissions_leave_all_slices_covered(root: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    for file in root.iterdir():
        os.link(file, tmp_path / "backup" / file.name)
        file.chmod(0o600)
    assert covered(root) == [(FILES, {}), (FILES, {})]
    assert kept(root, "x = 5") == ["0002.parquet"]
    assert pruner.open_table(root).plan("x = 5").rows_exact
    assert kept(root, "x = 99") == []
    result = pruner.open_table(root).refresh()
    assert (result.indexed, result.already) == (0, FILES)
    assert pruner.open_table(root, files="immutable").verify(files=True) == []


def test_a_table_that_stays_open_keeps_its_coverage(root: Path) -> None:
    table = pruner.open_table(root)
    assert table.plan("x = 5").kept == 1
    for mode in (0o600, 0o640):
        (root / "0002.parquet").chmod(mode)
        assert table.plan("x = 99").kept == 0
    write_files(root, range(FILES, FILES + 1))
    assert table.plan("x = 99").kept == 1, "the new file"
    table.refresh()
    (root / f"{FILES:04}.parquet").chmod(0o600)
    assert table.plan("x = 99").kept == 0


@pytest.mark.slow
def test_other_values_in_the_same_place_are_never_believed(root: Path) -> None:
    """Same path, size, modification time and inode, and in this file the same statistics, too."""
    file = root / "0003.parquet"
    for values in ([100, 101], [-1, 200]):
        old = file.stat()
        pq.write_table(pa.table({"x": values, "s": ["v3", None]}), file)
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_ino) == (old.st_size, old.st_ino)
        for value in values:
            assert file.name in kept(root, f"x = {value}")
    assert covered(root)[0] == (FILES - 1, {"touched": 1})
    pruner.open_table(root).refresh()
    assert kept(root, "x = 200") == [file.name]
    assert kept(root, "x = 6") == []


def test_what_a_dead_build_read_of_a_touched_file_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: its content is the same, but was different while the build that died read it."""
    file = root / "0003.parquet"
    old, data = file.stat(), file.read_bytes()
    table = pruner.open_table(root)
    table.drop_index("values")
    table.create_index("late", on="x", build=False)
    with monkeypatch.context() as patched:
        patched.setattr("pruner.table.runner_for", lambda _: _Swaps(file))
        with pytest.raises(KeyboardInterrupt):
            table.refresh()
    file.write_bytes(data)
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert covered(root)[0] == (FILES, {}), "the old index is believed"
    pruner.open_table(root).refresh()
    pruner.open_table(root).drop_index("stats")
    assert kept(root, "x = 6") == [file.name]


@pytest.mark.slow
def test_r4_a_file_that_is_touched_while_it_is_read_is_left_out(root: Path) -> None:
    """R4: plans recognize it, but what was read of it may have been something else."""
    table = pruner.open_table(root)
    table.create_index("late", on="x", build=False)
    file = root / "0003.parquet"
    result = table.refresh(progress=lambda done, total: file.chmod(0o600))
    assert [(failure.slice, failure.index) for failure in result.failures] == [(str(file), "late")]
    assert covered(root)[0] == (FILES, {})
    assert covered(root)[2][0] == FILES - 1


class _Swaps(LocalRunner):
    """Reads other values from one file than it had when it was listed, and dies before the commit."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def run(self, job: BuildJob, progress: Any) -> Iterator[Any]:
        """Write all batches with their receipts, and die."""
        pq.write_table(pa.table({"x": [900, 901], "s": ["v3", None]}), self._file)
        assert list(super().run(job, progress))
        raise KeyboardInterrupt


def test_status_says_why_slices_are_not_covered(root: Path) -> None:
    write_files(root, range(FILES, FILES + 2))
    pq.write_table(pa.table({"x": [1, 2, 3]}), root / "0004.parquet")
    broken = root / "0005.parquet"
    footer = pq.read_metadata(broken)
    data = bytearray(broken.read_bytes())
    data[4 : len(data) - footer.serialized_size - 8] = b"\0" * (len(data) - footer.serialized_size - 12)
    broken.write_bytes(data)
    reasons = {"new": 2, "rewritten": 2}
    assert covered(root) == [(FILES - 2, reasons), (FILES - 2, reasons)]
    failed = pruner.open_table(root).refresh(index="values")
    assert [Path(failure.slice).name for failure in failed.failures] == ["0005.parquet"]
    assert covered(root)[1] == (FILES + 1, {"failed": 1})


def test_a_partial_index_misses_nothing_outside_its_where(tmp_path: Path) -> None:
    for key in "ab":
        write_files(tmp_path / "t" / f"k={key}", range(2))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("i", on="x", where="k = 'a'")
    assert covered(tmp_path / "t") == [(2, {})]
    write_files(tmp_path / "t" / "k=a", range(2, 3))
    write_files(tmp_path / "t" / "k=b", range(2, 3))
    assert covered(tmp_path / "t") == [(2, {"new": 1})]
