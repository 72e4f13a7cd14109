"""`pruner doctor`: what each probe finds on a healthy table, and on others."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import StorageError
from pruner.maintenance.doctor import Finding, Severity, probe_installation, probe_metadata_store
from pruner.storage.local import LocalStore
from pruner.storage.opening import open_store
from pruner.storage.store import ObjectInfo
from pruner.table import Table
from tests.support.parquet.tables import write_file


@pytest.fixture
def table(tmp_path: Path) -> Table:
    for number in range(3):
        file = tmp_path / "t" / f"{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": [number]}), file)
        os.utime(file, (1_600_000_000, 1_600_000_000))
    return pruner.open_table(tmp_path / "t")


def found(findings: Iterator[Finding], probe: str) -> list[Finding]:
    return [each for each in findings if each.probe == probe]


def test_a_table_in_order(table: Table, tmp_path: Path) -> None:
    table.create_index("stats", on="a")
    before = sorted(tmp_path.rglob("*"))
    findings = list(table.diagnose())
    assert {each.level for each in findings} == {Severity.OK}
    assert [each.probe for each in findings] == ["packages", "list", "read", "write", "clock", "index stats"]
    assert findings[-1].found == "column_stats covers 3 of 3 files"
    assert sorted(tmp_path.rglob("*")) == before


def test_it_leaves_nothing_beside_a_table_without_indexes(table: Table, tmp_path: Path) -> None:
    (finding,) = found(table.diagnose(), "index")
    assert finding.level is Severity.WARNING
    assert "CREATE INDEX" in (finding.remedy or "")
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_slices_that_came_since_the_build(table: Table, tmp_path: Path) -> None:
    table.create_index("stats", on="a")
    pq.write_table(pa.table({"a": [9]}), tmp_path / "t" / "new.parquet")
    os.utime(tmp_path / "t" / "new.parquet", (1_600_000_000, 1_600_000_000))
    (finding,) = found(table.diagnose(), "index stats")
    assert (finding.level, finding.remedy) == (Severity.WARNING, "run pruner refresh")
    assert (
        finding.found == "column_stats covers 3 of 4 files; the others stay in every plan: 1 not indexed yet"
    )


@pytest.fixture
def narrowed(tmp_path: Path) -> Table:
    """A table that had columns a, b and c when it was indexed, and now has a."""
    root = tmp_path / "narrow's"
    root.mkdir()

    def write(*names: str) -> None:
        for number in range(3):
            file = root / f"{number}.parquet"
            pq.write_table(pa.table({name: [number] for name in names}), file)
            os.utime(file, (1_600_000_000, 1_600_000_000))

    write("a", "b", "c")
    table = pruner.open_table(root)
    table.create_index("both", on=["a", "b"])
    table.create_index("all", on="*")
    table.create_index("lost", on="b", using="bloom_filter")
    table.create_index("sums", on="b + 1")
    write("a")
    return pruner.open_table(root)


@pytest.mark.slow
def test_columns_that_the_table_has_no_more(narrowed: Table) -> None:
    """A refresh covers the remaining columns, which ends the warning; an index without a column should be dropped."""
    before = {each.probe: each for each in narrowed.diagnose()}
    assert before["index both"].remedy == "run pruner refresh"
    assert "3 rewritten since" in before["index both"].found
    refreshed = narrowed.refresh()
    assert dict(refreshed.gone) == {"lost": ("b",), "sums": ("b + 1",)}
    after = {each.probe: each for each in narrowed.diagnose()}
    for name in ("both", "all"):
        assert after[f"index {name}"].level is Severity.OK
        assert "covers 3 of 3 files for the columns that are left" in after[f"index {name}"].found
    assert "the table no longer has b, c" in after["index all"].found
    assert narrowed.plan("a = 1").kept == 1
    for name, column in {"lost": "b", "sums": "b + 1"}.items():
        finding = after[f"index {name}"]
        assert finding.level is Severity.WARNING
        assert finding.found.endswith(f"serves no query: the table no longer has {column}")
        command, action, statement = shlex.split(finding.remedy or "")
        assert (command, action) == ("pruner", "sql")
        pruner.sql(statement)
    assert Severity.WARNING not in {each.level for each in pruner.open_table(narrowed.uri).diagnose()}


@pytest.mark.slow
def test_a_column_that_comes_back_is_indexed_again(narrowed: Table) -> None:
    narrowed.refresh()
    for number in range(3):
        file = Path(narrowed.uri) / f"{number}.parquet"
        pq.write_table(pa.table({"a": [number], "b": [number]}), file)
        os.utime(file, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(narrowed.uri)
    assert {each.name: each.covered for each in table.status().indexes} == {
        "both": 0,
        "all": 0,
        "lost": 0,
        "sums": 0,
    }
    assert not table.refresh().gone
    found = {each.name: (each.covered, each.gone) for each in table.status().indexes}
    assert found == {"both": (3, ()), "all": (3, ("c",)), "lost": (3, ()), "sums": (3, ())}
    assert table.plan("b = 1").kept == 1


def test_a_file_that_is_not_parquet(table: Table, tmp_path: Path) -> None:
    for file in (tmp_path / "t").iterdir():
        file.write_bytes(b"not Parquet at all, whatever the name says")
    levels = {each.probe: each.level for each in pruner.open_table(tmp_path / "t").diagnose()}
    assert Severity.OK not in {levels["list"], levels["read"]}


def test_a_file_that_cannot_be_read_is_named_with_its_cause(table: Table, tmp_path: Path) -> None:
    broken = tmp_path / "t" / "broken.parquet"
    broken.write_bytes(b"not Parquet at all, whatever the name says")
    os.utime(broken, (1_600_000_000, 1_600_000_000))
    _, kept, named = found(pruner.open_table(tmp_path / "t").diagnose(), "list")
    assert kept.found == "every plan keeps 1 file, because of files that are unsettled or unreadable"
    assert "broken.parquet" in named.found
    assert "does not end like a Parquet file" in named.found
    remedy = "give the right to read the file, or repair or delete it; then run pruner refresh"
    assert (named.level, named.remedy) == (Severity.WARNING, remedy)


def test_a_file_without_permission_is_named_once(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's error, as a user other than root gets it; root may read everything."""
    closed = tmp_path / "t" / "closed.parquet"
    closed.write_bytes(b"anything" * 100)
    os.utime(closed, (1_600_000_000, 1_600_000_000))
    opened = os.open

    def refusing(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    _, kept, named = found(pruner.open_table(tmp_path / "t").diagnose(), "list")
    assert kept.found == "every plan keeps 1 file, because of files that are unsettled or unreadable"
    assert named.found == f"{closed} cannot be read: Permission denied"


def test_a_damaged_metadata_table(table: Table, tmp_path: Path) -> None:
    table.create_index("stats", on="a")
    newest = max((tmp_path / "t.pruner" / "log").iterdir())
    newest.write_bytes(newest.read_bytes()[:-5])
    (finding,) = found(pruner.open_table(tmp_path / "t").diagnose(), "index")
    assert finding.level is Severity.FAILURE
    assert "indexes are not used" in finding.found


class LastWriterWins(LocalStore):
    """A store that ignores the condition of a conditional write, like some S3-compatible ones."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.delete([path])
        return super().put_if_absent(path, data)


class ReadOnly(LocalStore):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        raise StorageError(f"the store refuses to write {self.uri}/{path}: check the credentials")


class ClockAhead(LocalStore):
    def info(self, path: str) -> ObjectInfo | None:
        info = super().info(path)
        return info and info._replace(mtime_ns=info.mtime_ns + 3_600_000_000_000)


@pytest.mark.parametrize(
    ("store", "probe", "level", "sentence"),
    [
        (LastWriterWins, "write", Severity.FAILURE, "lets a second writer replace an object"),
        (ReadOnly, "write", Severity.FAILURE, "the store refuses to write"),
        (ClockAhead, "clock", Severity.WARNING, "are 3,600 s apart"),
    ],
)
def test_stores_that_are_not_as_they_should_be(
    tmp_path: Path, store: type[LocalStore], probe: str, level: Severity, sentence: str
) -> None:
    (finding,) = found(probe_metadata_store(store(str(tmp_path / "t.pruner")), exists=False), probe)
    assert finding.level is level
    assert sentence in finding.found
    assert finding.remedy
    assert not (tmp_path / "t.pruner").exists()


def test_versions_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["pyarrow>=1000", "no-such-thing>=1", "not-there>=1; extra == 'spark'", "numpy>=1"]
    # A requirement for another Python is no finding, whatever its version.
    wanted += ["pytest>=1000; python_version < '3' and extra == 'spark'"]
    monkeypatch.setattr(distributions, "requires", lambda _: wanted)
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    environment, fitting, pyarrow, missing = probe_installation(("PRUNER_DISABLED",))
    assert (environment.level, environment.remedy) == (Severity.WARNING, "unset PRUNER_DISABLED")
    assert fitting.level is Severity.OK
    assert fitting.found.startswith("numpy ")
    assert (pyarrow.level, pyarrow.remedy) == (Severity.WARNING, "pip install 'pyarrow>=1000'")
    assert (missing.level, missing.found) == (Severity.FAILURE, "no-such-thing is not installed")


def test_files_about_which_engines_differ(table: Table, tmp_path: Path) -> None:
    root = tmp_path / "t"
    file = (root / "0.parquet").read_bytes()
    assert found(table.diagnose(), "files") == []
    for name in (
        "_old.parquet",
        "_tmp/.x.parquet",
        "x.PARQUET",
        "notes.txt",
        "_SUCCESS",
        "t.pruner/y.parquet",
        "z.pq",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"how this came about" if name in {"notes.txt", "_SUCCESS"} else file)
    (root / "empty.parquet").touch()
    hidden, foreign, otherwise = found(pruner.open_table(root).diagnose(), "files")
    assert hidden.found.startswith(
        f"2 files ({root}/_old.parquet and 1 more) are left out, as in Spark and Trino"
    )
    assert foreign.found.startswith(f"{root}/notes.txt is ignored for not being Parquet inside")
    assert otherwise.found.startswith(f"2 files ({root}/x.PARQUET and 1 more) are part of the table")
    assert [each.level for each in (hidden, foreign, otherwise)] == [
        Severity.WARNING,
        Severity.WARNING,
        Severity.OK,
    ]


def test_files_about_which_engines_differ_in_a_store(table: Table, tmp_path: Path) -> None:
    place = f"memory://{tmp_path.name}/t"
    for name in ("0.parquet", "k=1/_old.parquet", "x"):
        open_store(place).put_new(name, (tmp_path / "t" / "0.parquet").read_bytes())
    hidden, otherwise = found(pruner.open_table(place).diagnose(), "files")
    assert hidden.found.startswith(f"{place}/k=1/_old.parquet is left out, ")
    assert otherwise.found.startswith(f"{place}/x is part of the table, ")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"id": [1], "city": ["x"], "age": [1]}, {"id": [1], "amount": [1], "day": [1]}, "(id)"),
        ({"id": [1], "city": ["x"]}, {"id": [1], "amount": [1]}, None),
        ({"city": ["x"]} | {f"c{at}": [1] for at in range(9)}, {"city": ["x"], "population": [1]}, "(city)"),
        ({"city": ["x"]} | {f"c{at}": [1] for at in range(8)}, {"city": ["x"], "population": [1]}, "(city)"),
        ({"city": ["x"], "age": [1], "day": [1]}, {"city": ["x"], "population": [1]}, None),
        ({"city": ["x"]} | {f"c{at}": [1] for at in range(9)}, {"city": ["x"], "c3": [1]}, None),
        ({"id": [1]}, {"id": [1], "amount": [1], "day": [1]}, None),
    ],
)
def test_folders_that_could_be_two_tables(tmp_path: Path, one: Any, other: Any, told: str | None) -> None:
    """Tables of one lake often share a column, and so do the years of one table."""
    for folder, columns in (("a/k=1", one), ("a/k=2", one), ("b", other), ("c", one)):
        write_file(tmp_path / folder / "x.parquet", **columns)
    findings = found(pruner.open_table(tmp_path).diagnose(), "folders")
    if told is None:
        assert findings == []
    else:
        assert [each.level for each in findings] == [Severity.WARNING]
        said = f"files in {tmp_path}/a and in {tmp_path}/b have few columns in common {told}"
        assert findings[0].found.startswith(said)
