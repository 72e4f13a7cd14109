"""The state of an Iceberg table that an engine scans: a snapshot with a schema, from metadata that may be newer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.catalog.config import load
from pruner.catalog.names import Catalog
from pruner.errors import TableError
from pruner.service.messages import PlanRequest, Session, SqlPredicate
from pruner.service.planning import Planning, UnreadableError
from tests.support.iceberg.tables import IcebergLake, rows


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    (tmp_path / "lake").mkdir()
    return IcebergLake(tmp_path / "lake")


@pytest.fixture
def table(lake: IcebergLake) -> Any:
    """A table of one file."""
    made = lake.create("t")
    made.append(rows(made, range(8)))
    return made


def _scanned(table: Any, *, told: bool = False) -> str:
    """What a scan of the newest state reports about it."""
    found = f"{table.metadata.current_snapshot_id}@{table.metadata.current_schema_id}"
    return f"{found}@{table.metadata_location.rpartition('/')[2]}" if told else found


def _kept(opened: pruner.Table, as_of: str, predicate: str) -> tuple[int, int]:
    plan = opened.snapshot(as_of=as_of).plan(predicate)
    return plan.kept, plan.total


def test_the_current_state_is_the_snapshot_that_is_at_hand(table: Any) -> None:
    opened = pruner.open_table(table.metadata_location)
    assert opened.snapshot(as_of=_scanned(table)).data is opened.snapshot().data


def test_a_snapshot_is_read_by_the_schema_that_is_asked_for(table: Any) -> None:
    """The names of two columns are swapped: each schema finds the other column by them."""
    before = _scanned(table)
    with table.update_schema() as schema:
        schema.rename_column("id", "number_")
        schema.rename_column("number", "id")
    opened = pruner.open_table(table.metadata_location)
    assert _kept(opened, before, "id = -53") == (0, 1)
    assert _kept(opened, _scanned(table), "id = -53") == (1, 1)
    again = opened.snapshot(as_of=before).data
    assert again is opened.snapshot(as_of=before).data
    assert again.id != opened.snapshot().data.id


def test_newer_metadata_is_read_where_it_is_named(table: Any) -> None:
    opened = pruner.open_table(table.metadata_location)
    table.append(rows(table, range(100, 108)))
    with pytest.raises(TableError, match="has no snapshot"):
        opened.snapshot(as_of=_scanned(table))
    assert _kept(opened, _scanned(table, told=True), "id = 104") == (1, 2)
    assert opened.plan("id = 104").total == 1


@pytest.mark.parametrize("file", ["..", "version-hint.text", ".metadata.json", "a.metadata.json"])
def test_no_other_file_is_read(table: Any, file: str) -> None:
    opened = pruner.open_table(table.metadata_location)
    with pytest.raises(TableError, match="metadata"):
        opened.snapshot(as_of=f"17@0@{file}")


def test_a_file_of_another_folder_is_no_state(table: Any) -> None:
    opened = pruner.open_table(table.metadata_location)
    with pytest.raises(TableError, match="no snapshot id, branch or tag"):
        opened.snapshot(as_of="17@0@../metadata/a.metadata.json")


def test_metadata_of_another_table_is_refused(lake: IcebergLake, table: Any) -> None:
    """A table that was created at the location of a dropped one."""
    opened = pruner.open_table(table.metadata_location)
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    other = lake.create("other")
    other.append(rows(other, range(8)))
    text = Path(other.metadata_location.removeprefix("file://")).read_text(encoding="utf-8")
    (folder / "00009-x.metadata.json").write_text(text.replace("/other", "/t"), encoding="utf-8")
    with pytest.raises(TableError, match="is of another table"):
        opened.snapshot(as_of=f"{other.metadata.current_snapshot_id}@0@00009-x.metadata.json")


@pytest.mark.slow
def test_past_states_are_let_go(table: Any) -> None:
    """A service plans forever over a table that keeps changing."""
    opened = pruner.open_table(table.metadata_location)
    for number in range(12):
        table.append(rows(table, range(number, number + 1)))
        assert _kept(opened, _scanned(table, told=True), "id = -1") == (0, number + 2)
    whole: Any = opened
    source = whole._source
    assert len(source._states) <= 9
    assert source._manifests.keys() == {path for state in source._states.values() for path in state.manifests}


def test_a_look_at_the_past_does_not_hide_what_is_new(table: Any, tmp_path: Path) -> None:
    """A table that keeps its own versions: the past is read between a commit and the next snapshot read."""
    place = Path(table.location().removeprefix("file://"))
    first = table.metadata.current_snapshot_id
    _keep_version(table, place, 1)
    opened = pruner.open_table(str(place))
    assert opened.snapshot().data.id.split()[2] == str(first)
    table.append(rows(table, range(100, 108)))
    _keep_version(table, place, 2)
    assert len(opened.snapshot(as_of=str(first)).slices) == 1
    assert len(opened.snapshot().slices) == 2
    assert _kept(opened, _scanned(table), "id = 104") == (1, 2)


def _keep_version(table: Any, place: Path, version: int) -> None:
    """Publish the newest metadata like a writer that needs no catalog."""
    shutil.copy(table.metadata_location.removeprefix("file://"), place / f"metadata/v{version}.metadata.json")
    (place / "metadata/version-hint.text").write_text(str(version), encoding="ascii")


def _asked(table: str, as_of: str | None) -> PlanRequest:
    return PlanRequest(table, Session("duckdb"), SqlPredicate("id = 104"), as_of=as_of)


def test_the_service_plans_on_the_state_that_is_asked_for(table: Any, tmp_path: Path) -> None:
    """Also by the table's location, although the configuration names a metadata file."""
    config = tmp_path / "pruner.toml"
    config.write_text(
        f'[tables.t]\nuri = "{table.metadata_location.removeprefix("file://")}"\n', encoding="utf-8"
    )
    loaded = load(config)
    planning = Planning(loaded, Catalog(config=loaded))
    first = _scanned(table)
    table.append(rows(table, range(100, 108)))
    for name in ("t", table.location(), table.location().replace("file://", "local://")):
        totals = [
            planning.look(_asked(name, as_of)).snapshot.plan("id = 104").total
            for as_of in (None, first, _scanned(table, told=True))
        ]
        assert totals == [1, 1, 2]
    with pytest.raises(UnreadableError, match="table t: .* has no snapshot 17"):
        planning.look(_asked("t", "17@0"))
