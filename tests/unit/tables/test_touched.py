"""Files whose change time alone moved are recognized; files with other content never are."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.arrow import rows_in_runs
from pruner.tables.listing import touched
from pruner.tables.listing.files import CLOCK_TICK_NS, LocalLister
from pruner.tables.listing.touched import ListedFile, TouchedFiles
from pruner.tables.parquet import building
from pruner.tables.parquet import source as parquet
from pruner.tables.parquet.source import ParquetSource
from pruner.tables.snapshot import Snapshot
from tests.support.parquet.tables import names, slice_keys, write_file, write_tree
from tests.support.snapshots import assert_same

TICK = 1.5 * CLOCK_TICK_NS / 1e9


def keys_by_name(snapshot: Snapshot) -> dict[str, bytes]:
    return dict(zip(names(snapshot), slice_keys(snapshot), strict=True))


def known_again(root: Path, touch: Callable[[], object]) -> set[str]:
    """Names of the files that have the same key before and after a change, for a new process."""
    first = ParquetSource([str(root)])
    before = keys_by_name(first.snapshot())
    saved = first.saved()
    assert saved is not None
    touch()
    later = ParquetSource([str(root)])
    later.resume(saved)
    after = keys_by_name(later.snapshot())
    assert keys_by_name(later.snapshot()) == after, "the next look sees the same"
    return {name for name in after if after[name] == before.get(name)}


def plain_file(path: Path, values: np.ndarray) -> None:
    """A file whose footer says nothing about its values: no statistics, no dictionary, no compression."""
    table = pa.table({"x": pa.array(values)})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)


def restore_time(path: Path, old: os.stat_result) -> None:
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


@pytest.mark.parametrize("how", ["chmod", "link", "utime", "rename and back"])
def test_touched_files_are_known_again(tmp_path: Path, how: str) -> None:
    root = write_tree(tmp_path / "t", "k=1/a.parquet", "k=2/b.parquet")
    file = root / "k=1" / "a.parquet"
    old = file.stat()
    touches: dict[str, Callable[[], object]] = {
        "chmod": lambda: file.chmod(0o600),
        "link": lambda: os.link(file, tmp_path / "backup"),
        "utime": lambda: restore_time(file, old),
        "rename and back": lambda: file.rename(tmp_path / "x").rename(file),
    }
    assert known_again(root, touches[how]) == {"k=1/a.parquet", "k=2/b.parquet"}
    assert file.stat().st_ctime_ns != old.st_ctime_ns


def test_the_snapshot_of_touched_files_is_the_one_before(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    source = ParquetSource([str(root)])
    before = source.snapshot()
    assert source.saved() is not None
    (root / "a.parquet").chmod(0o600)
    after = source.snapshot(before)
    assert after is before
    (root / "a.parquet").chmod(0o644)
    assert_same(source.snapshot(), before)


def test_files_that_nobody_remembers_are_new(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    before = keys_by_name(ParquetSource([str(root)]).snapshot())
    (root / "a.parquet").chmod(0o600)
    assert keys_by_name(ParquetSource([str(root)]).snapshot()) != before


@pytest.mark.parametrize("rows", [4, 200_000])
@pytest.mark.parametrize("how", ["in place", "by rename"])
def test_t16_a_footer_that_is_equal_is_not_enough(tmp_path: Path, how: str, rows: int) -> None:
    """T16: same size, modification time and footer, in place also the same inode, but other values."""
    root = tmp_path / "t"
    root.mkdir()
    file, new = root / "a.parquet", tmp_path / "new.parquet"
    plain_file(file, np.zeros(rows, np.int64))
    plain_file(new, np.ones(rows, np.int64))
    old, footer = file.stat(), pq.read_metadata(file)
    data = new.read_bytes()
    assert data[-footer.serialized_size :] == file.read_bytes()[-footer.serialized_size :]

    def rewrite() -> None:
        if how == "in place":
            file.write_bytes(data)
        restore_time(file if how == "in place" else new, old)
        if how == "by rename":
            new.rename(file)
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (old.st_size, old.st_mtime_ns)
        assert (file.stat().st_ino == old.st_ino) == (how == "in place")

    assert known_again(root, rewrite) == set()


def test_t16_a_file_of_another_inode_or_time_is_another_file(tmp_path: Path) -> None:
    """T16: even with the same bytes: what is trusted is that the file was not written."""
    root = write_tree(tmp_path / "t", "copied.parquet", "dated.parquet", "same.parquet")

    def change() -> None:
        file = root / "copied.parquet"
        old, data = file.stat(), file.read_bytes()
        other = tmp_path / "other"
        other.write_bytes(data)
        restore_time(other, old)
        other.rename(file)
        os.utime(root / "dated.parquet", ns=(1, 1))

    assert known_again(root, change) == {"same.parquet"}


def test_r4_what_changed_while_something_was_read_is_another_file(tmp_path: Path) -> None:
    """R4: a file with its old content, which held something else in between, may have been read in between."""
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet", "c.parquet")
    source = ParquetSource([str(root)])
    source.snapshot()
    assert source.saved() is not None
    (root / "c.parquet").chmod(0o600)
    snapshot, believed = source.snapshot(), source.believed()
    assert source.look_again(snapshot, believed) is snapshot
    file = root / "a.parquet"
    old, data = file.stat(), file.read_bytes()
    write_file(file, x=[7])
    file.write_bytes(data)
    restore_time(file, old)
    assert keys_by_name(source.snapshot()) == keys_by_name(snapshot), "plans take it for the file that it was"
    after = keys_by_name(source.look_again(snapshot, believed))
    assert {name for name in after if after[name] == keys_by_name(snapshot)[name]} == {
        "b.parquet",
        "c.parquet",
    }
    nothing = keys_by_name(source.look_again(snapshot, {}))
    assert {name for name in nothing if nothing[name] == keys_by_name(snapshot)[name]} == {"b.parquet"}


def test_r4_few_files_that_were_read_are_asked_for_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a read of one file of many, the table is listed again only if that file has changed."""
    monkeypatch.setattr(parquet, "FEW_OF", 3)
    root = write_tree(tmp_path / "t", "k=1/a.parquet", "k=1/b.parquet", "k=2/a.parquet")
    source = ParquetSource([str(root)])
    source.snapshot()
    assert source.saved() is not None
    (root / "k=1/a.parquet").chmod(0o600)
    snapshot, believed = source.snapshot(), source.believed()
    before = keys_by_name(snapshot)

    def asked(name: str, believed: Mapping[bytes, str]) -> dict[str, bool]:
        """The files that changed since one was read; none if the snapshot is current."""
        again = source.look_again(snapshot, believed, np.array([list(before).index(name)]))
        after = keys_by_name(again)
        return {} if again is snapshot else {name: after.get(name) != before[name] for name in before}

    with monkeypatch.context() as unlisted:
        unlisted.setattr(LocalLister, "facts", lambda _: pytest.fail("the table was listed"))
        assert asked("k=1/a.parquet", believed) == {}
        assert asked("k=2/a.parquet", {}) == {}
        write_file(root / "k=1/b.parquet", x=[7])
        assert asked("k=1/a.parquet", believed) == {}
    assert asked("k=1/b.parquet", believed) == {
        "k=1/a.parquet": False,
        "k=1/b.parquet": True,
        "k=2/a.parquet": False,
    }
    assert asked("k=1/a.parquet", {})["k=1/a.parquet"], "it was not believed when it was read"
    (root / "k=2/a.parquet").unlink()
    assert asked("k=2/a.parquet", believed)["k=2/a.parquet"]
    write_tree(root, "k=2/a.parquet")
    assert asked("k=2/a.parquet", believed)["k=2/a.parquet"]


def test_a_fingerprint_is_of_the_version_that_was_listed(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.parquet")
    now = path.stat()
    stamp = (now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
    found = touched.fingerprint(str(path), now.st_size, stamp)
    assert found is not None
    assert touched.fingerprint(str(path), now.st_size + 1, stamp) is None
    assert touched.fingerprint(str(path), now.st_size, (stamp[0], stamp[1] - 1, stamp[2])) is None
    assert touched.fingerprint(str(tmp_path / "gone"), now.st_size, stamp) is None
    path.write_bytes(b"PAR1" + b"x" * 20)
    now = path.stat()
    stamp = (now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
    assert touched.fingerprint(str(path), now.st_size, stamp) is None


def test_a_long_footer_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    """Two files of one size whose footers differ long before their end."""
    prints: set[bytes | None] = set()
    for note in ("a" * 100_000, "b" * 100_000):
        path = tmp_path / "a.parquet"
        schema = pa.schema([pa.field("x", pa.int64(), metadata={"note": note})])
        pq.write_table(pa.table({"x": [1]}, schema=schema), path)
        now = path.stat()
        prints.add(
            touched.fingerprint(str(path), now.st_size, (now.st_mtime_ns, now.st_ctime_ns, now.st_ino))
        )
    assert len(prints) == 2
    assert None not in prints


def test_work_for_each_file_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh lists twice and saves twice: identities are computed for new files alone."""
    asked: list[str] = []
    whole = parquet.slice_key

    def counted(root: int, path: str, size: int, version: str) -> bytes:
        asked.append(path)
        return whole(root, path, size, version)

    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    source = ParquetSource([str(root)])
    first = source.snapshot()
    assert source.saved() is not None
    write_tree(root, "c.parquet")
    snapshot = source.snapshot()
    for module in (parquet, building):
        monkeypatch.setattr(module, "slice_key", counted)
    assert source.look_again(snapshot, {}) is snapshot
    assert asked == []
    saved = source.saved(first.id)
    assert saved is not None
    assert saved.table.num_rows == 3
    assert saved.table.column("fingerprint").null_count == 0
    assert set(asked) == {"c.parquet"}
    assert source.saved(snapshot.id) is None
    write_file(root / "b.parquet", x=[8])
    before, after = keys_by_name(snapshot), keys_by_name(source.look_again(snapshot, {}))
    assert {name for name in after if after[name] != before[name]} == {"b.parquet"}


def test_nothing_is_worked_out_where_nothing_is_remembered() -> None:
    def asked() -> Iterator[ListedFile]:
        raise AssertionError("a first look takes a fifth longer by this")
        yield

    TouchedFiles().recognize(asked())


def test_rows_in_runs_are_the_rows_in_their_order() -> None:
    table = pa.table({"x": list(range(8))})
    for rows in ([], [0, 1, 2], [0, 1, 5, 2, 3, 3], [7, 6, 0]):
        asked = np.array(rows, np.int64)
        assert rows_in_runs(table, asked).column("x").to_pylist() == rows


def test_looks_between_two_stores_do_not_mix_fingerprints_up(tmp_path: Path) -> None:
    """Only the stored snapshot tells where the fingerprints of its files are."""
    root = write_tree(tmp_path / "t", "k=1/b.parquet", "k=1/m.parquet", "k=1/y.parquet")
    source = ParquetSource([str(root)], immutable=True)
    source.snapshot()
    time.sleep(TICK)
    source.snapshot()
    assert source.saved() is not None
    for name in ("a", "c"):
        write_file(tmp_path / "new")
        (tmp_path / "new").replace(root / "k=1" / f"{name}.parquet")
        time.sleep(TICK)
        source.snapshot()
    found, anew = source.saved(), ParquetSource([str(root)])
    anew.snapshot()
    expected = anew.saved()
    assert found is not None
    assert expected is not None
    key = "slice_key"
    assert found.table.sort_by(key).to_pylist() == expected.table.sort_by(key).to_pylist()


def test_a_process_that_stores_again_and_again_does_not_gather_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(touched, "MOST_PIECES", 4)
    root = write_tree(tmp_path / "t", "m.parquet")
    source = ParquetSource([str(root)])
    source.snapshot()
    for number in range(10):
        assert source.saved() is not None
        write_tree(root, f"{'ax'[number % 2]}{number}.parquet")
        source.snapshot()
    found, anew = source.saved(), ParquetSource([str(root)])
    assert source._touched._prints.column("version").num_chunks <= 4
    anew.snapshot()
    expected = anew.saved()
    assert found is not None
    assert expected is not None
    assert found.table.to_pylist() == expected.table.to_pylist()
