"""`pruner.sql` on real tables, and how it finds them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.catalog.config import FILE_NAME, FILE_VARIABLE
from pruner.catalog.settings import ConfigError


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)


def write(folder: Path, first: int = 0) -> str:
    folder.mkdir(parents=True)
    for number in range(3):
        values = pa.array(range(first + number * 10, first + number * 10 + 10))
        pq.write_table(pa.table({"v": values, "Odd name": values}), folder / f"{number}.parquet")
    return str(folder)


def test_a_life_of_an_index(tmp_path: Path) -> None:
    tables = {"t": write(tmp_path / "t")}
    seen: list[tuple[int, int]] = []
    created = pruner.sql(
        'CREATE INDEX i ON t (v, "Odd name")', tables, progress=lambda done, total: seen.append((done, total))
    )
    assert (created.statement, created.table, created.index) == ("create", tables["t"], "i")
    assert created.changed
    assert created.rows == []
    assert created.refresh is not None
    assert created.refresh.indexed == 3
    assert seen[-1] == (3, 3)
    shown = pruner.sql("SHOW INDEXES ON t", tables)
    assert [(row["name"], row["columns"], row["covered"]) for row in shown.rows] == [
        ("i", ("v", '"Odd name"'), 3)
    ]
    plan = pruner.open_table(tables["t"]).plan('"Odd name" >= 20')
    assert [Path(file).name for file in plan.files] == ["2.parquet"]
    assert not pruner.sql("REFRESH INDEX i ON t", tables).changed
    assert not pruner.sql("CREATE INDEX IF NOT EXISTS i ON t (v)", tables).changed
    assert pruner.sql("DROP INDEX i ON t", tables).changed
    assert not pruner.sql("DROP INDEX IF EXISTS i ON t", tables).changed
    assert pruner.sql("SHOW INDEXES ON t", tables).rows == []


@pytest.mark.slow
def test_everything_that_names_a_table(tmp_path: Path) -> None:
    uri = write(tmp_path / "t")
    other = write(tmp_path / "u", 100)
    opened = pruner.open_table(uri)
    options = {"uri": uri, "index_uri": str(tmp_path / "idx")}
    for given in (uri, Path(uri), opened, [uri], {"uri": uri}):
        assert pruner.sql("CREATE INDEX i ON lake.t (*)", {"Lake.T": given}).changed
        assert [d.name for d in opened.indexes()] == ["i"]
        assert pruner.sql("DROP INDEX i", {"lake.t": given}).changed
    assert pruner.sql("CREATE INDEX i ON t (v)", {"t": options}).changed
    assert (tmp_path / "idx").is_dir()
    both = pruner.sql("CREATE INDEX i ON t (v)", {"t": [uri, other]})
    assert both.refresh is not None
    assert both.refresh.indexed == 6


def test_given_tables_come_before_the_configuration_and_places_need_none(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first"), write(tmp_path / "second")
    (tmp_path / FILE_NAME).write_text(f'[tables.t]\nuri = "{second}"', encoding="utf-8")
    assert pruner.sql("SHOW INDEXES ON t", {"T": first}).table == first
    assert pruner.sql("SHOW INDEXES ON t").table == second
    assert pruner.sql(f"SHOW INDEXES ON '{first}'").table == first
    assert pruner.sql("SHOW INDEXES ON ./first").table == first


def test_drop_without_a_table_looks_through_all_known_tables(tmp_path: Path) -> None:
    tables = {name: write(tmp_path / name) for name in ("a", "b")}
    pruner.sql("CREATE INDEX only_b ON b (v)", tables)
    dropped = pruner.sql("DROP INDEX ONLY_B", tables)
    assert (dropped.table, dropped.changed) == (tables["b"], True)
    with pytest.raises(pruner.IndexDefinitionError, match="none of the known tables has an index 'only_b'"):
        pruner.sql("DROP INDEX only_b", tables)
    gone = pruner.sql("DROP INDEX IF EXISTS only_b", tables)
    assert (gone.table, gone.changed) == ("", False)


def test_tables_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the table 'T' is given twice"):
        pruner.sql("SHOW INDEXES ON t", {"t": "/x", "T": "/y"})
    with pytest.raises(ConfigError, match=r"tables\['t'\]: unknown key 'url': did you mean 'uri'"):
        pruner.sql("SHOW INDEXES ON t", {"t": {"url": "/x"}})
    with pytest.raises(pruner.TableError, match="gone"):
        pruner.sql("SHOW INDEXES ON t", {"t": str(tmp_path / "gone")})
