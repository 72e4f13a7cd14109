"""Table formats of other distributions whose code fails: one sentence, or plans without the part that failed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import pruner
from pruner.errors import TableError
from pruner.plugins import BrokenPluginError, load_plugin, may_be_registered
from tests.support.parquet.tables import write_file

FORMAT = """
import json
from pathlib import Path
from pruner.tables.listing.files import LocalLister
from pruner.tables.parquet.source import ParquetSource

class Files(LocalLister):
    def facts(self):
        return [self.fact_at(path) for path in json.loads(Path(self.root, "_odd.json").read_text())]
    def some_facts(self):
        return iter(self.facts())

class Source(ParquetSource):
    format = "odd"
    def open_lister(self, root, *, immutable):
        return Files(root)

class Indexes:
    names = ("odd_index",)
    expressions = []
    def add(self, about, found):
        pass
    def implied(self, predicate, semantics):
        return iter(())
    def described(self):
        return {"odd_index": "used"}

class Format:
    name, title, several_roots = "odd", "an odd table", False
    def is_root(self, root, storage_options):
        return Path(root, "_odd.json").exists()
    def open(self, roots, storage_options, *, immutable, feed):
        return Source(roots, storage_options, immutable=immutable)
    def own_indexes(self, source, snapshot):
        return Indexes()
"""
Opened = Callable[..., pruner.Table]
_numbers = count()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    write_file(root / "a.parquet", x=[1, 2])
    write_file(root / "b.parquet", x=[3, 4])
    _name(root, "a.parquet", "b.parquet")
    return root


def _name(root: Path, *files: str) -> None:
    (root / "_odd.json").write_text(json.dumps(files))


@pytest.fixture
def opened(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens the table after code was added to its format."""
    load_plugin.cache_clear()
    may_be_registered.cache_clear()

    def put(code: str = "") -> pruner.Table:
        module = f"odd_format_{next(_numbers)}"
        info = tmp_path / module / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pruner.formats]\nodd = {module}:ODD\n")
        (tmp_path / module / f"{module}.py").write_text(f"{FORMAT}\n{code}\nODD = Format()\n")
        monkeypatch.syspath_prepend(info.parent)
        return pruner.open_table(root)

    yield put
    load_plugin.cache_clear()
    may_be_registered.cache_clear()
    for module in [each for each in sys.modules if each.startswith("odd_format_")]:
        del sys.modules[module]


def _kept(table: pruner.Table, predicate: str) -> list[str]:
    return sorted(Path(each).name for each in table.plan(predicate, dialect="duckdb").files)


def test_a_format_that_is_right_prunes(opened: Opened) -> None:
    table = opened()
    table.create_index("x", on="x")
    assert _kept(table, "x = 3") == ["b.parquet"]
    assert table.status().hudi_indexes == {"odd_index": "used"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "code",
    [
        "Format.own_indexes = lambda self, source, snapshot: 1 / 0",
        "Format.own_indexes = lambda self, source, snapshot: 'nonsense'",
        "del Indexes.names",
        "Indexes.expressions = [1]",
        "del Indexes.implied",
    ],
)
def test_own_indexes_that_fail_are_not_used_and_plans_say_so(opened: Opened, root: Path, code: str) -> None:
    table = opened(code)
    assert _kept(table, "x = 3") == ["a.parquet", "b.parquet"]
    table.create_index("x", on="x")
    assert _kept(table, "x = 3") == ["b.parquet"]  # pruner's own indexes prune all the same
    reasons = [each for each in table.plan("x = 3", dialect="duckdb").fallbacks if "table itself" in each]
    assert len(reasons) == 1
    assert reasons[0].startswith(
        f"indexes of the table itself are not used: table format 'odd' failed over {root}: "
    )
    assert table.status().hudi_indexes == {}


@pytest.mark.parametrize(
    "code",
    [
        "def add(self, about, found):\n    found.usable.append(None)\n    raise KeyError('lost')\nIndexes.add = add",
        "def add(self, about, found):\n    raise KeyError('lost')\nIndexes.add = add",
    ],
)
def test_an_own_index_that_fails_for_a_column_is_left_out(opened: Opened, root: Path, code: str) -> None:
    table = opened(code)
    plan = table.plan("x = 3", dialect="duckdb")
    assert plan.kept == 2
    assert f"table format 'odd' failed over {root}: 'lost'" in plan.fallbacks


def test_what_follows_by_an_own_index_that_fails_drops_nothing(opened: Opened, root: Path) -> None:
    table = opened("Indexes.implied = lambda self, predicate, semantics: 1 / 0")
    plan = table.plan("x = 3", dialect="duckdb")
    assert plan.kept == 2
    assert f"table format 'odd' failed over {root}: division by zero" in plan.fallbacks


def test_an_own_index_that_cannot_be_described_says_why(opened: Opened, root: Path) -> None:
    table = opened("Indexes.described = lambda self: 1 / 0")
    assert table.status().hudi_indexes == {
        "odd_index": f"table format 'odd' failed over {root}: division by zero"
    }


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Files.facts = lambda self: {}['files']", "'files'"),
        ("Files.facts = lambda self: None", ""),
        ("Files.facts = lambda self: [(1,)]", ""),
    ],
)
def test_a_listing_that_fails_is_one_sentence(opened: Opened, root: Path, code: str, reason: str) -> None:
    with pytest.raises(BrokenPluginError, match=f"^table format 'odd' failed over {root}: .*{reason}") as met:
        opened(code).plan("x = 3", dialect="duckdb")
    assert "\n" not in str(met.value)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("member", ["identity", "doubts", "confirm", "believed", "look_again", "saved"])
def test_whatever_else_fails_is_one_sentence(opened: Opened, root: Path, member: str) -> None:
    table = opened(f"def fails(self, *_):\n    raise KeyError('lost')\nSource.{member} = fails")

    def work() -> None:
        table.create_index("x", on="x")
        table.plan("x = 3", dialect="duckdb")
        table.refresh()

    with pytest.raises(BrokenPluginError) as met:
        work()
    assert str(met.value) == f"table format 'odd' failed over {root}: 'lost'"


def test_a_property_that_fails_is_one_sentence(opened: Opened, root: Path) -> None:
    source = opened("Source.write_once = property(lambda self: 1 / 0)")._source
    with pytest.raises(BrokenPluginError, match=f"^table format 'odd' failed over {root}: division by zero$"):
        _ = source.write_once


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "again", ["b.parquet", "./b.parquet", "sub/../b.parquet", ".//b.parquet", "sub//../b.parquet"]
)
def test_a_file_that_is_listed_twice_is_refused(opened: Opened, root: Path, again: str) -> None:
    (root / "sub").mkdir()
    table = opened()
    assert table.plan("x > 0", dialect="duckdb").total == 2
    _name(root, "a.parquet", "b.parquet", again)
    with pytest.raises(
        TableError,
        match=f"^table format 'odd' lists {root}/b.parquet twice, so that its rows would count twice: name each",
    ):
        table.plan("x > 0", dialect="duckdb")
    _name(root, "b.parquet")
    assert _kept(table, "x > 0") == ["b.parquet"]
