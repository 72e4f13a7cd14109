"""Archives of tables in the repository: unpacking restores what was packed, and current builders produce the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.delta.tables import delta_states, tables
from tests.support.delta.writer import FILE
from tests.support.hudi.tables import hudi_tables
from tests.support.kept import __main__ as making
from tests.support.kept import archives
from tests.support.kept.__main__ import all_kept
from tests.support.kept.archives import archive_of, archived, pack, unpack
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_snapshot
from tools.cache import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

NO_SPARK: Any = None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for archives."""
    monkeypatch.setattr(archives, "ARCHIVES", tmp_path / "archives")
    return tmp_path


def _table(folder: Path) -> Path:
    root = folder / "here" / "some-tables-0123456789abcdef"
    log = root / "t" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / "0.json").write_text(f'{{"path": "file:{folder}/here/{root.name}/t/other/1.parquet"}}')
    (log.parent / ".hidden").write_bytes(b"\0\1")
    (root / "t" / "spark-reads").mkdir()
    (root / "t" / "spark-reads" / "1").write_text("asked on this machine")
    os.utime(log / "0.json", ns=(10**18, 10**18 + 5_000_000))
    return root


def test_what_is_unpacked_is_what_was_packed(folder: Path) -> None:
    root = _table(folder)
    pack([root], archive_of(root))
    there = folder / "there" / root.name
    there.parent.mkdir()
    unpack(there)
    unpacked = {str(each.relative_to(there)) for each in there.rglob("*") if each.is_file()}
    assert unpacked == {"t/t/_delta_log/0.json", "t/t/.hidden"}
    commit = there / "t" / "t" / "_delta_log" / "0.json"
    assert commit.read_text() == f'{{"path": "file:{folder}/there/{root.name}/t/other/1.parquet"}}'
    assert commit.stat().st_mtime_ns // 1_000_000 == 10**12 + 5
    assert archived(archive_of(root)) == {(root.name, "t")}


def test_a_table_that_names_its_place_elsewhere_is_not_packed(folder: Path) -> None:
    root = _table(folder)
    (root / "t" / "t" / "x.parquet").write_bytes(f"{root}/t/t/y.parquet".encode())
    with pytest.raises(ValueError, match="names the folder that it is kept in"):
        pack([root], archive_of(root))
    assert not archive_of(root).exists()


def test_a_table_with_another_key_is_built(folder: Path) -> None:
    root = _table(folder)
    pack([root], archive_of(root))
    changed = folder / "there" / "some-tables-fedcba9876543210"
    built: list[Path] = []

    def build(_: Any, path: Path) -> None:
        built.append(path)
        path.mkdir()

    table = KeptTables(lambda: NO_SPARK, changed, {"t": build}).path("t")
    assert (table, len(built)) == (changed / "t" / "t", 1)


def test_the_archives_hold_the_tables_of_today_s_builders() -> None:
    """If this fails, a builder has changed since: `make archives` builds its tables and packs them."""
    wanted: dict[Path, set[tuple[str, str]]] = {}
    for kept in all_kept(lambda: NO_SPARK):
        wanted.setdefault(archive_of(kept.root), set()).update((kept.root.name, name) for name in kept.known)
    assert {archive.name: archived(archive) for archive in archives.ARCHIVES.iterdir()} == {
        archive.name: names for archive, names in wanted.items()
    }


def test_tables_that_are_archived_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(making, "small_session")
    monkeypatch.setattr("sys.argv", ["kept"])
    making.main()


@pytest.mark.spark
def test_a_delta_table_that_is_built_anew_has_the_same_rows(
    start_session: Callable[[], SparkSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = delta_states(tables(start_session), "inline_vectors")
    monkeypatch.setenv("PRUNER_CACHE", str(tmp_path))
    monkeypatch.setattr(archives, "ARCHIVES", tmp_path / "none")
    assert cache_dir() == tmp_path
    anew = delta_states(tables(start_session), "inline_vectors")
    assert [_sorted(each.rows()) for each in anew] == [_sorted(each.rows()) for each in kept]


@pytest.mark.spark
def test_a_hudi_table_that_is_built_anew_has_the_same_rows(
    start_session: Callable[[], SparkSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = spark_snapshot(start_session(), hudi_tables(start_session).path("cow_v6"))
    monkeypatch.setenv("PRUNER_CACHE", str(tmp_path))
    monkeypatch.setattr(archives, "ARCHIVES", tmp_path / "none")
    anew = spark_snapshot(start_session(), hudi_tables(start_session).path("cow_v6"))
    columns = [each for each in kept.columns if not each.startswith("_hoodie")]
    expected = sorted(map(str, kept.select(*columns).collect()))
    assert expected
    assert sorted(map(str, anew.select(*columns).collect())) == expected


def _sorted(rows: pa.Table) -> list[str]:
    """The rows of a state as text, without the names of files, which differ."""
    return sorted(map(str, rows.drop_columns([FILE]).to_pylist()))
