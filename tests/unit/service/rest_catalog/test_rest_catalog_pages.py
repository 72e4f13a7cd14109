"""Pages of a plan from its kept files: none is lost or named twice, whatever happens between them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

import pruner
from pruner.planning.pinned import PinnedSnapshot
from pruner.service.rest_catalog import routes, tasks
from pruner.service.rest_catalog.metadata import ServedTable
from pruner.service.rest_catalog.tasks import PagedPlans
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.running.patience import PATIENCE
from tests.support.service.planner import running_service

FILES = 12
PAGE = 2
UP_TO_80: dict[str, Any] = {"type": "lt", "term": "id", "value": 80}
FROM_40: dict[str, Any] = {"type": "gt-eq", "term": "id", "value": 40}


class Client:
    """Requests pages of one table from one service."""

    def __init__(self, url: str, table: str) -> None:
        self._place = f"{url}/iceberg/v1/namespaces/default/tables/{table}"

    def ask(self, what: str, agent: str = "Java", **content: Any) -> dict[str, Any]:
        """A plan or a page."""
        answer = requests.post(
            f"{self._place}/{what}", json=content, timeout=PATIENCE, headers={"User-Agent": agent}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    def page(self, token: str, agent: str = "Java") -> dict[str, Any]:
        """A further page."""
        return self.ask("tasks", agent, **{"plan-task": token})

    def rest(self, first: dict[str, Any], agent: str = "Java") -> list[str]:
        """The files of a page and of all that follow."""
        found = _names(first)
        while first.get("plan-tasks"):
            first = self.page(first["plan-tasks"][0], agent)
            found += _names(first)
        return found

    def all(self, **content: Any) -> list[str]:
        """The files of a new plan."""
        return self.rest(self.ask("plan", **content))


def _names(page: dict[str, Any]) -> list[str]:
    return [task["data-file"]["file-path"].rpartition("/")[2] for task in page["file-scan-tasks"]]


def _files(first: int, last: int) -> list[str]:
    return [f"{at:02}.parquet" for at in range(first, last + 1)]


def _write(folder: Path, at: int, start: int) -> None:
    pq.write_table(pa.table({"id": range(start, start + 10)}), folder / f"{at:02}.parquet")


def _table(folder: Path, name: str) -> Path:
    """File 00 has the ids 0 to 9, file 01 those from 10 to 19, and so on, with an index over them."""
    place = folder / name
    place.mkdir()
    for at in range(FILES):
        _write(place, at, at * 10)
    pruner.open_table(place).create_index("ids", "id")
    with (folder / "pruner.toml").open("a", encoding="utf-8") as config:
        config.write(f'[tables.{name}]\nuri = "{place}"\n')
    return place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, served two files a page."""
    monkeypatch.setattr(tasks, "PAGE", PAGE)
    return _table(tmp_path, "t")


@pytest.fixture
def client(place: Path) -> Iterator[Client]:
    with running_service(place.parent / "pruner.toml") as url:
        yield Client(url, "t")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each plan made of a snapshot."""
    made: list[str] = []
    plan = PinnedSnapshot.plan

    def counted(self: PinnedSnapshot, *args: Any, **options: Any) -> Any:
        if "semantics" in options:
            made.append(self.id)
        return plan(self, *args, **options)

    monkeypatch.setattr(PinnedSnapshot, "plan", counted)
    return made


def test_a_plan_of_many_pages_is_made_once(client: Client, plans: list[str]) -> None:
    assert client.all(filter=UP_TO_80) == _files(0, 7)
    assert len(plans) == 1
    assert client.all() == _files(0, 11)
    assert len(plans) == 2


def test_a_page_can_be_fetched_again_and_in_any_order(client: Client, plans: list[str]) -> None:
    pages = [client.ask("plan", filter=UP_TO_80)]
    while pages[-1].get("plan-tasks"):
        pages.append(client.page(pages[-1]["plan-tasks"][0]))
    tokens = [page["plan-tasks"][0] for page in pages[:-1]]
    for at in (2, 0, 1, 0, 2):
        assert _names(client.page(tokens[at])) == _names(pages[at + 1]) == _files(at * 2 + 2, at * 2 + 3)
    assert len(plans) == 1


def test_filters_and_clients_do_not_share_pages(client: Client, plans: list[str]) -> None:
    """Pages of plans over one snapshot, one of each in turn."""
    asked = {"low": {"filter": UP_TO_80}, "high": {"filter": FROM_40}, "all": {}}
    first = {name: client.ask("plan", **content) for name, content in asked.items()}
    found = {name: _names(page) for name, page in first.items()}
    while any(page.get("plan-tasks") for page in first.values()):
        for name, page in first.items():
            if page.get("plan-tasks"):
                first[name] = client.page(page["plan-tasks"][0])
                found[name] += _names(first[name])
    assert found == {"low": _files(0, 7), "high": _files(4, 11), "all": _files(0, 11)}
    assert len(plans) == 3


def test_names_in_other_cases_are_another_question(client: Client) -> None:
    """The token of one page with the question of another plan: no column name is resolved by the other's rule."""
    upper = {**UP_TO_80, "term": "ID"}
    page = client.ask("plan", "Java", filter=upper, **{"case-sensitive": False})
    start = routes._page_of_token(page["plan-tasks"][0])
    answer = requests.post(
        f"{client._place}/tasks",
        json={"plan-task": routes._token(start._replace(case_sensitive=True))},
        timeout=PATIENCE,
    )
    assert answer.status_code == 400
    assert client.rest(page) == _files(0, 7)


def test_the_token_says_which_filter_not_the_plan(client: Client) -> None:
    """A page of another filter that begins where this one's does has the files of its own filter."""
    page = client.ask("plan", filter=UP_TO_80)
    start = routes._page_of_token(page["plan-tasks"][0])
    other = client.page(routes._token(start._replace(filter=FROM_40)))
    assert client.rest(other) == _files(4, 11)
    assert client.rest(page) == _files(0, 7)


@pytest.mark.slow
def test_the_table_changes_between_pages(place: Path, client: Client) -> None:
    """Pages of the first plan belong to its own snapshot; those of the next one do not."""
    first = client.ask("plan", filter=FROM_40)
    (place / "05.parquet").unlink()
    _write(place, 20, 55)
    _write(place, 0, 400)
    _write(place, 10, 0)
    pruner.open_table(place).refresh()
    second = client.ask("plan", filter=FROM_40)
    assert client.rest(second) == sorted(
        {*_files(4, 11), "00.parquet", "20.parquet"} - {"05.parquet", "10.parquet"}
    )
    assert client.rest(first) == _files(4, 11)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("planned_again", [False, True])
def test_an_index_goes_and_comes_between_pages(place: Path, client: Client, planned_again: bool) -> None:
    """Whether or not another plan saw the index go: each file that matches is named once."""
    table = pruner.open_table(place)
    first = client.ask("plan", filter=FROM_40)
    table.drop_index("ids")
    if planned_again:
        assert client.all(filter=FROM_40) == _files(0, 11)
    page = client.page(first["plan-tasks"][0])
    table.create_index("ids", "id")
    if planned_again:
        assert client.all(filter=FROM_40) == _files(4, 11)
    found = _names(first) + client.rest(page)
    assert found == _files(4, 11)


def test_an_index_that_is_refreshed_between_pages(place: Path, client: Client) -> None:
    """A file unknown to the index is kept until it is indexed; older pages end as they began."""
    _write(place, 12, 0)
    first = client.ask("plan", filter=FROM_40)
    pruner.open_table(place).refresh()
    second = client.ask("plan", filter=FROM_40)
    assert client.rest(second) == _files(4, 11)
    assert set(_files(4, 11)) <= set(client.rest(first)) <= set(_files(4, 12))


@pytest.mark.slow
def test_tables_of_equal_snapshot_ids_do_not_share_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a snapshot does not tell which table it belongs to."""
    monkeypatch.setattr(tasks, "PAGE", PAGE)
    monkeypatch.setattr(routes, "snapshot_number", lambda _: 7)
    monkeypatch.setattr(ServedTable, "snapshot_id", 7)
    _table(tmp_path, "one")
    other = _table(tmp_path, "two")
    for at in range(FILES):
        _write(other, at, 110 - at * 10)
    pruner.open_table(other).refresh()
    with running_service(tmp_path / "pruner.toml") as url:
        one, two = Client(url, "one"), Client(url, "two")
        first, second = one.ask("plan", filter=FROM_40), two.ask("plan", filter=FROM_40)
        assert one.rest(first) == _files(4, 11)
        assert two.rest(second) == _files(0, 7)


def test_workers_that_know_nothing_of_each_other(place: Path, plans: list[str]) -> None:
    """Pages of one plan from two services in turn."""
    config = place.parent / "pruner.toml"
    with running_service(config) as left, running_service(config) as right:
        workers = [Client(left, "t"), Client(right, "t")]
        page = workers[0].ask("plan", filter=FROM_40)
        found, turn = _names(page), 0
        while page.get("plan-tasks"):
            turn += 1
            page = workers[turn % 2].page(page["plan-tasks"][0])
            found += _names(page)
    assert found == _files(4, 11)
    assert len(plans) == 2


def test_what_was_forgotten_is_planned_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, plans: list[str]
) -> None:
    monkeypatch.setattr(routes, "PagedPlans", lambda: PagedPlans(1))
    with running_service(place.parent / "pruner.toml") as url:
        assert Client(url, "t").all(filter=FROM_40) == _files(4, 11)
    assert len(plans) == 4


def test_what_is_kept_is_bounded() -> None:
    """By bytes; the least recently used goes first, and nothing is kept that takes more than the total."""
    known = PagedPlans(5_000)
    for number in range(10):
        for size in (100, 5_000):
            question = tasks._Question(number, b"%d" % size, True, False, False, False, None)
            known.put(question, tasks._Kept(np.arange(size, dtype=np.int32), {}))
            assert (known.get(question) is not None) == (size == 100)
    assert sum(size for _, size in known._kept.sizes()) <= 5_000
    assert [question.state for question, _ in known._kept.sizes()] == list(range(5, 10))


@pytest.mark.slow
def test_pages_of_an_iceberg_table_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[str]
) -> None:
    """Plans of the newest snapshot and of an older one, with a change in between, for both kinds of clients."""
    monkeypatch.setattr(tasks, "PAGE", PAGE)
    own = IcebergLake(tmp_path).create("grown")
    for start in range(0, 72, 12):
        own.append(rows(own, range(start, start + 12)))
    folder = Path(own.location().removeprefix("file://"))

    def publish() -> set[str]:
        """Publish the newest metadata to readers without the catalog; return the files that must be planned."""
        shutil.copy(own.metadata_location.removeprefix("file://"), folder / "metadata" / "v1.metadata.json")
        (folder / "metadata" / "version-hint.text").write_text("1", encoding="ascii")
        files = [task.file.file_path for task in own.scan(row_filter="id >= 24").plan_files()]
        return {path.rpartition("/")[2] for path in files}

    condition = {"type": "gt-eq", "term": "id", "value": 24}
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{folder}"\n', encoding="utf-8")
    wanted = publish()
    with running_service(tmp_path / "pruner.toml") as url:
        client = Client(url, "t")
        for agent in ("Java", "PyIceberg/0.12.0"):
            snapshot = own.current_snapshot()
            assert snapshot is not None
            plans.clear()
            first = client.ask("plan", agent, filter=condition)
            half = client.page(first["plan-tasks"][0], agent)
            assert len(plans) == 1
            own.append(rows(own, range(100, 112)))
            own.delete("id >= 36 and id < 48")
            newest = publish()
            found = _names(first) + client.rest(half, agent)
            assert len(found) == len(set(found))
            assert set(found) == wanted
            plans.clear()
            again = client.ask("plan", agent, filter=condition, **{"snapshot-id": snapshot.snapshot_id})
            assert set(client.rest(again, agent)) == wanted
            assert len(plans) == 1
            assert set(client.all(filter=condition)) == newest != wanted
            wanted = newest


@pytest.mark.slow
def test_pages_of_an_incremental_scan_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[str]
) -> None:
    """They name the files that a snapshot added, those of a scan all its files; both begin with the same filter."""
    monkeypatch.setattr(tasks, "PAGE", 1)
    own = IcebergLake(tmp_path).create("grown", "months")
    for start in (0, 12, 40):
        own.append(rows(own, range(start, start + 12)))
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{own.metadata_location}"\n', encoding="utf-8")
    oldest, _, newest = (snapshot.snapshot_id for snapshot in own.snapshots())
    files = {task.file.file_path.rpartition("/")[2] for task in own.scan().plan_files()}
    older = own.scan(snapshot_id=oldest).plan_files()
    before = {task.file.file_path.rpartition("/")[2] for task in older}
    incremental: dict[str, Any] = {"start-snapshot-id": oldest, "end-snapshot-id": newest}
    condition = {"type": "not-null", "term": "id"}
    with running_service(tmp_path / "pruner.toml") as url:
        client = Client(url, "t")
        whole = client.ask("plan", filter=condition)
        added = client.ask("plan", filter=condition, **incremental)
        named = client.rest(added)
        assert len(named) == len(set(named))
        assert set(named) == files - before
        assert set(client.rest(whole)) == files
    assert len(plans) == 3


# Row counts of many files


@pytest.fixture
def footers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose footers are read for their number of rows."""
    read: list[str] = []
    of_footer = tasks._rows

    def counted(options: Any, uri: str, size: int) -> int:
        read.append(uri.rpartition("/")[2])
        return of_footer(options, uri, size)

    monkeypatch.setattr(tasks, "_rows", counted)
    monkeypatch.setattr(tasks, "PAGE", 5)
    monkeypatch.setattr(tasks, "_FEW_FOOTERS", 2)
    return read


def _uneven(place: Path, at: int) -> None:
    """A file with a unique number of rows."""
    pq.write_table(pa.table({"id": range(at * 10, at * 10 + at + 1)}), place / f"{at:02}.parquet")


def _assert_counts(client: Client, place: Path) -> None:
    page, named = client.ask("plan"), 0
    while True:
        for task in page["file-scan-tasks"]:
            file = task["data-file"]
            name = file["file-path"].rpartition("/")[2]
            assert file["record-count"] == pq.read_metadata(place / name).num_rows, name
            named += 1
        if not page.get("plan-tasks"):
            break
        page = client.page(page["plan-tasks"][0])
    assert named == len(list(place.glob("*.parquet")))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_footers_are_read_of_files_that_no_index_knows(
    tmp_path: Path, footers: list[str], using: str
) -> None:
    place = tmp_path / "t"
    place.mkdir()
    for at in range(FILES):
        _uneven(place, at)
    table = pruner.open_table(place)
    table.create_index("ids", "id", using=using)
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        client = Client(url, "t")
        _assert_counts(client, place)
        assert footers == []
        pq.write_table(pa.table({"id": range(500, 540)}), place / "03.parquet")
        for at in range(FILES, FILES + 4):
            _uneven(place, at)
        _assert_counts(client, place)
        assert sorted(footers) == ["03.parquet", *_files(FILES, FILES + 3)]


def test_an_index_that_cannot_be_read_says_no_row_counts(tmp_path: Path, footers: list[str]) -> None:
    place = tmp_path / "t"
    place.mkdir()
    for at in range(FILES):
        _uneven(place, at)
    table = pruner.open_table(place)
    table.create_index("ids", "id")
    for file in Path(table.index_uri).rglob("*.pidx"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(data)
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        _assert_counts(Client(url, "t"), place)
    assert sorted(footers) == _files(0, FILES - 1)


def test_a_switched_off_index_says_no_row_counts(
    tmp_path: Path, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who suspects an index switches it off, and nothing is taken from it."""
    place = tmp_path / "t"
    place.mkdir()
    for at in range(FILES):
        _uneven(place, at)
    pruner.open_table(place).create_index("ids", "id")
    (tmp_path / "pruner.toml").write_text(f'[tables.t]\nuri = "{place}"\n', encoding="utf-8")
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    with running_service(tmp_path / "pruner.toml") as url:
        _assert_counts(Client(url, "t"), place)
    assert sorted(footers) == _files(0, FILES - 1)
