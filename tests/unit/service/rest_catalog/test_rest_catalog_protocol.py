"""The catalog's requests one by one: answers by the specification, plans by id, incremental scans, attacks."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from pyiceberg import types as iceberg
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import pruner
from pruner.service import Limits, Settings
from pruner.service.rest_catalog import routes, tasks
from pruner.service.rest_catalog.metadata import ServedTable, UnservedError
from pruner.service.rest_catalog.routes import PLAN_SECONDS, Plans
from tests.support.iceberg.rest import problems
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.service.planner import running_service

NEEDLE: dict[str, Any] = {"type": "eq", "term": "id", "value": 3}
FILTERS: list[Any] = [
    None,
    NEEDLE,
    {"type": "not", "child": {"type": "or", "left": NEEDLE, "right": {"type": "is-null", "term": "id"}}},
    {"type": "in", "term": "id", "values": [1, 30, 99]},
    {"type": "lt", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 2},
]


class Lake(NamedTuple):
    """Where the catalog is, where its tables are, and the Iceberg table itself."""

    url: str
    folder: Path
    own: Any

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """A request below the catalog's prefix."""
        return requests.request(method, f"{self.url}/v1/{path}", timeout=PATIENCE, **options)

    def plan(self, table: str, **content: Any) -> requests.Response:
        """A plan of a table."""
        return self.ask("POST", f"namespaces/web/tables/{table}/plan", json=content)

    def paths(self, table: str, first: dict[str, Any]) -> list[str]:
        """The files of all pages of a plan."""
        found, pending = _paths(first), first.get("plan-tasks", [])
        while pending:
            (task,) = pending
            page = self.ask("POST", f"namespaces/web/tables/{table}/tasks", json={"plan-task": task}).json()
            assert problems("FetchScanTasksResult", page) == []
            found, pending = found + _paths(page), page.get("plan-tasks", [])
        return found

    def state(self) -> list[tuple[str, int, str]]:
        """All files below the folder, with their content."""
        return [
            (str(each), each.stat().st_mtime_ns, hashlib.sha256(each.read_bytes()).hexdigest())
            for each in sorted(self.folder.rglob("*"))
            if each.is_file()
        ]


def _paths(page: dict[str, Any]) -> list[str]:
    return [each["data-file"]["file-path"].removeprefix("file://") for each in page["file-scan-tasks"]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A Parquet tree with nested types, an Iceberg table of several appends and a rewrite, and an empty one."""
    folder = tmp_path_factory.mktemp("lake")
    for at in range(8):
        place = folder / "tree" / f"day=2024-01-0{at // 2 + 1}"
        place.mkdir(parents=True, exist_ok=True)
        content = {
            "id": [at * 10 + row for row in range(5)],
            "n": [{"a": at}] * 5,
            "l": [[1]] * 5,
            "m": [None] * 5,
        }
        schema = pa.schema(
            {
                "id": pa.int64(),
                "n": pa.struct([("a", pa.int32())]),
                "l": pa.list_(pa.int64()),
                "m": pa.map_(pa.string(), pa.decimal128(9, 2)),
            }
        )
        pq.write_table(pa.table(content, schema=schema), place / f"{at}.parquet")
    pruner.open_table(folder / "tree").create_index("ids", "id")
    made = IcebergLake(folder)
    own = made.create("grown", "months")
    for start in (0, 12, 24):
        own.append(rows(own, range(start, start + 12)))
    own.delete("id < 4")
    own.append(rows(own, range(40, 52)))
    empty = made.create("empty", "years")
    names = {"grown": own.metadata_location, "empty": empty.metadata_location, "tree": f"{folder}/tree"}
    (folder / "pruner.toml").write_text(
        "".join(f'[tables."web.{name}"]\nuri = "{uri}"\n\n' for name, uri in names.items()), encoding="utf-8"
    )
    with running_service(folder / "pruner.toml") as url:
        yield Lake(f"{url}/iceberg", folder, own)


# Answers by the specification


def _checked(answer: requests.Response, schema: str, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert problems(schema, content) == []
    return content


def test_what_the_catalog_has(lake: Lake) -> None:
    config = _checked(lake.ask("GET", "config"), "CatalogConfig")
    assert len(config["endpoints"]) == len(set(config["endpoints"])) == 12
    assert _checked(lake.ask("GET", "namespaces"), "ListNamespacesResponse") == {"namespaces": [["web"]]}
    _checked(lake.ask("GET", "namespaces/web"), "GetNamespaceResponse")
    listed = _checked(lake.ask("GET", "namespaces/web/tables"), "ListTablesResponse")
    assert [each["name"] for each in listed["identifiers"]] == ["empty", "grown", "tree"]
    for place in ("namespaces/web", "namespaces/web/tables/tree"):
        assert (lake.ask("HEAD", place).status_code, lake.ask("HEAD", place).content) == (204, b"")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("agent", ["iceberg-java", "PyIceberg/0.12.0"])
@pytest.mark.parametrize("table", ["tree", "grown", "empty"])
def test_tables_and_plans(lake: Lake, monkeypatch: pytest.MonkeyPatch, table: str, agent: str) -> None:
    monkeypatch.setattr(tasks, "PAGE", 2)
    place, headers = f"namespaces/web/tables/{table}", {"User-Agent": agent}
    _checked(lake.ask("GET", place, headers=headers), "LoadTableResult")
    for content in FILTERS:
        asked = {} if content is None else {"filter": content}
        plan = _checked(lake.ask("POST", f"{place}/plan", json=asked, headers=headers), "PlanTableScanResult")
        for each in plan["file-scan-tasks"]:
            assert each.get("residual-filter") == content
        lake.paths(table, plan)
        again = lake.ask("GET", f"{place}/plan/{plan['plan-id']}", headers=headers)
        assert _checked(again, "FetchPlanningResult")["file-scan-tasks"] == plan["file-scan-tasks"]


TREE, GROWN = "namespaces/web/tables/tree/plan", "namespaces/web/tables/grown/plan"
BAD, UNSUPPORTED = "BadRequestException", "UnsupportedOperationException"
RANGE = {"start-snapshot-id": 1, "end-snapshot-id": 2}
REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "namespaces/none", {}, 404, "NoSuchNamespaceException"),
    ("GET", "namespaces?parent=none", {}, 404, "NoSuchNamespaceException"),
    ("GET", "namespaces/web/tables/none", {}, 404, "NoSuchTableException"),
    ("HEAD", "namespaces/web/tables/none", {}, 404, ""),
    ("GET", "namespaces/web/tables/..%2F..%2Fetc%2Fpasswd", {}, 406, UNSUPPORTED),
    ("GET", "namespaces/web/tables/tree%00", {}, 404, "NoSuchTableException"),
    ("GET", "namespaces/web%1F%0Aevil/tables/tree", {}, 404, "NoSuchTableException"),
    ("GET", "namespaces/" + "a" * 5_000, {}, 404, "NoSuchNamespaceException"),
    ("POST", TREE, {"data": b"{"}, 400, BAD),
    ("POST", TREE, {"data": b"\xff\xfe"}, 400, BAD),
    ("POST", TREE, {"json": []}, 400, BAD),
    ("POST", TREE, {"json": {"snapshot-id": "1"}}, 400, BAD),
    ("POST", TREE, {"json": {"snapshot-id": 2**70}}, 400, BAD),
    ("POST", TREE, {"json": {"filter": 7}}, 400, BAD),
    ("POST", TREE, {"json": {"filter": {"type": ["eq"]}}}, 400, BAD),
    ("POST", TREE, {"json": {"filter": {"type": "eq", "term": {}}}}, 400, BAD),
    ("POST", TREE, {"data": b'{"filter":' + b'{"type":"not","child":' * 90_000}, 400, BAD),
    ("POST", TREE, {"json": {"start-snapshot-id": 1}}, 400, BAD),
    ("POST", TREE, {"json": {**RANGE, "snapshot-id": 3}}, 400, BAD),
    ("POST", TREE, {"json": {**RANGE}}, 406, UNSUPPORTED),
    ("POST", GROWN, {"json": {**RANGE}}, 400, BAD),
    ("POST", TREE, {"data": b" " * (5 * 1024 * 1024)}, 413, BAD),
    ("GET", "namespaces/web/tables/tree/plan/nothing", {}, 404, "NoSuchPlanIdException"),
    ("DELETE", "namespaces/web/tables/tree/plan/" + "0" * 32, {}, 404, "NoSuchPlanIdException"),
    ("DELETE", "namespaces/web/tables/tree/plan/" + "0" * 9_000, {}, 404, "NoSuchPlanIdException"),
    ("POST", "namespaces/web/tables/tree/tasks", {"json": {}}, 400, BAD),
    (
        "POST",
        "namespaces/web/tables/tree/tasks",
        {"json": {"plan-task": "e30="}},
        404,
        "NoSuchPlanTaskException",
    ),
    ("PATCH", "namespaces/web/tables/tree", {}, 406, UNSUPPORTED),
    ("POST", "namespaces/web/tables/tree/plan/x", {}, 406, UNSUPPORTED),
    ("GET", "oauth/tokens", {}, 406, UNSUPPORTED),
    ("GET", "namespaces/web/views", {}, 406, UNSUPPORTED),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("method", "path", "options", "status", "kind"), REFUSED, ids=[str(at) for at in range(len(REFUSED))]
)
def test_what_is_wrong_is_refused_by_its_kind(
    lake: Lake, method: str, path: str, options: dict[str, Any], status: int, kind: str
) -> None:
    answer = lake.ask(method, path, **options)
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (status, b"")
        return
    error = _checked(answer, "IcebergErrorResponse", status)["error"]
    assert (error["code"], error["type"]) == (status, kind)
    assert len(error["message"]) < 700
    assert str(lake.folder) not in error["message"]


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "namespaces", {"namespace": ["new"]}),
    ("DELETE", "namespaces/web", None),
    ("POST", "namespaces/web/properties", {"updates": {"a": "b"}}),
    ("POST", "namespaces/web/tables", {"name": "new", "schema": {"type": "struct", "fields": []}}),
    ("POST", "namespaces/web/register", {"name": "new", "metadata-location": "file:///etc/passwd"}),
    ("POST", "namespaces/web/tables/{}", {"requirements": [], "updates": [{"action": "set-location"}]}),
    ("DELETE", "namespaces/web/tables/{}?purgeRequested=true", None),
    ("POST", "tables/rename", {"source": {"namespace": ["web"], "name": "tree"}}),
    ("POST", "transactions/commit", {"table-changes": []}),
    ("PUT", "namespaces/web/tables/{}", {}),
]


def test_no_write_changes_anything(lake: Lake) -> None:
    """Each is refused with an alternative."""
    before = lake.state()
    for method, path, content in WRITES:
        for table in ("tree", "grown"):
            answer = lake.ask(method, path.format(table), json=content)
            error = _checked(answer, "IcebergErrorResponse", 406)["error"]
            assert "this catalog is read-only" in error["message"], (method, path)
    assert lake.state() == before


def test_the_judge_can_fail(lake: Lake) -> None:
    """Each kind of error in an answer is found."""
    plan = lake.plan("tree", filter=NEEDLE).json()
    assert problems("PlanTableScanResult", plan) == []
    assert problems("PlanTableScanResult", {**plan, "plan_id": 1})
    assert problems("PlanTableScanResult", {name: each for name, each in plan.items() if name != "plan-id"})
    assert problems("PlanTableScanResult", {**plan, "status": "done"})
    for name, wrong in {
        "record-count": "5",
        "file-size-in-bytes": 2**63,
        "spec-id": True,
        "content": "rows",
        "partition": [[1]],
        "file-format": "csv",
    }.items():
        task = plan["file-scan-tasks"][0]
        changed = {**plan, "file-scan-tasks": [{**task, "data-file": {**task["data-file"], name: wrong}}]}
        assert problems("PlanTableScanResult", changed), name
    assert problems("Expression", True)
    assert problems("Expression", {"type": "and", "left": NEEDLE, "right": {"type": "eq", "term": "id"}})
    assert problems(
        "CatalogConfig", {"defaults": {}, "overrides": {"a": 1}, "endpoints": ["FETCH /v1/config"]}
    )
    metadata = lake.ask("GET", "namespaces/web/tables/grown").json()
    for name, wrong in {"format-version": 4, "snapshots": [{}], "schemas": [{"type": "struct"}]}.items():
        assert problems("LoadTableResult", {"metadata": {**metadata["metadata"], name: wrong}}), name


# Plans by id


def test_a_plan_is_fetched_again_until_it_is_cancelled(lake: Lake) -> None:
    place = "namespaces/web/tables/tree/plan"
    plan, other = lake.plan("tree", filter=NEEDLE).json(), lake.plan("tree", filter=NEEDLE).json()
    assert plan["plan-id"] != other["plan-id"]
    assert lake.ask("GET", f"namespaces/web/tables/grown/plan/{plan['plan-id']}").status_code == 404
    assert lake.ask("DELETE", f"{place}/{plan['plan-id']}").status_code == 204
    for method in ("GET", "DELETE"):
        answer = lake.ask(method, f"{place}/{plan['plan-id']}")
        assert _checked(answer, "IcebergErrorResponse", 404)["error"]["type"] == "NoSuchPlanIdException"
    kept = _checked(lake.ask("GET", f"{place}/{other['plan-id']}"), "FetchPlanningResult")
    assert kept["file-scan-tasks"] == plan["file-scan-tasks"]
    assert len(_paths(kept)) == 1


def test_kept_plans_are_bounded_in_size_and_time() -> None:
    now = [0.0]
    plans = Plans(limit_bytes=100_000, clock=lambda: now[0])
    ids = [plans.keep("t", f"{at:09}" * 100) for at in range(200)]
    known = [each for each in ids if plans.token("t", each) is not None]
    assert known == ids[-len(known) :]
    assert 0 < len(known) < 100
    assert plans.token("other", known[-1]) is None
    assert not plans.forget("other", known[-1])
    now[0] = PLAN_SECONDS + 1
    assert [each for each in ids if plans.token("t", each) is not None] == []
    assert not plans.forget("t", known[-1])


def test_a_plan_by_its_id_is_one_of_the_same_snapshot(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t" / "a.parquet")
    (tmp_path / "pruner.toml").write_text(f'[tables."web.t"]\nuri = "{tmp_path}/t"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        lake = Lake(f"{url}/iceberg", tmp_path, None)
        plan = lake.plan("t").json()
        pq.write_table(pa.table({"id": [2]}), tmp_path / "t" / "b.parquet")
        again = lake.ask("GET", f"namespaces/web/tables/t/plan/{plan['plan-id']}").json()
        assert len(again["file-scan-tasks"]) == 1
        assert len(lake.plan("t").json()["file-scan-tasks"]) == 2


# Incremental scans, and names by the schema of a snapshot


def _added(own: Any, snapshot: Any) -> set[str]:
    """Files that a snapshot added, by its own manifests."""
    return {
        entry.data_file.file_path.removeprefix("file://")
        for manifest in snapshot.manifests(own.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(own.io)
        if entry.snapshot_id == snapshot.snapshot_id
    }


@pytest.mark.slow
def test_incremental_scans_name_what_appends_added(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all ranges of snapshots; the rewrite in between is skipped, as in Iceberg's own scan."""
    monkeypatch.setattr(tasks, "PAGE", 3)
    snapshots = lake.own.metadata.snapshots
    operations = [each.summary.operation.value for each in snapshots]
    assert operations[:3] + operations[-1:] == ["append"] * 4
    assert "append" not in operations[3:-1]
    assert len(operations) > 4
    for start in range(len(snapshots)):
        for end in range(start, len(snapshots)):
            within = {
                "start-snapshot-id": snapshots[start].snapshot_id,
                "end-snapshot-id": snapshots[end].snapshot_id,
            }
            plan = _checked(lake.plan("grown", **within), "PlanTableScanResult")
            appends = [
                each for each in snapshots[start + 1 : end + 1] if each.summary.operation.value == "append"
            ]
            expected = set[str]().union(*(_added(lake.own, each) for each in appends))
            found = lake.paths("grown", plan)
            assert len(found) == len(set(found))
            assert set(found) == expected, (start, end)
            again = lake.ask("GET", f"namespaces/web/tables/grown/plan/{plan['plan-id']}").json()
            assert lake.paths("grown", again) == found
    backwards = {"start-snapshot-id": snapshots[3].snapshot_id, "end-snapshot-id": snapshots[1].snapshot_id}
    assert lake.plan("grown", **backwards).status_code == 400


def test_incremental_scans_are_pruned(lake: Lake) -> None:
    snapshots = lake.own.metadata.snapshots
    within = {"start-snapshot-id": snapshots[0].snapshot_id, "end-snapshot-id": snapshots[-1].snapshot_id}
    wanted = {"type": "eq", "term": "id", "value": 45}
    plan = lake.plan("grown", filter=wanted, **within).json()
    found = lake.paths("grown", plan)
    holding = [each for each in found if 45 in pq.read_table(each, columns=["id"]).column("id").to_pylist()]
    assert len(holding) == len(found) == 1
    everything = lake.paths("grown", lake.plan("grown", **within).json())
    assert len(everything) > 5


@pytest.mark.slow
def test_names_are_those_of_the_snapshots_schema_where_a_client_says_so(tmp_path: Path) -> None:
    """A name that two columns had means one of them by the schema of a snapshot; otherwise it may be either."""
    made = IcebergLake(tmp_path)
    own = made.create("t")
    for start in (0, 12, 24):
        own.append(rows(own, range(start, start + 12)))
    old = own.metadata.current_snapshot_id
    with own.update_schema() as change:
        change.rename_column("id", "former")
    with own.update_schema() as change:
        change.add_column("id", iceberg.LongType())
    own.append(pa.table({"former": pa.array([90], pa.int64()), "id": pa.array([3], pa.int64())}))
    config = f'[tables."web.t"]\nuri = "{own.metadata_location}"\n'
    (tmp_path / "pruner.toml").write_text(config, encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        lake = Lake(f"{url}/iceberg", tmp_path, own)
        asked: dict[str, Any] = {"snapshot-id": old, "filter": NEEDLE}
        assert len(lake.plan("t", **asked).json()["file-scan-tasks"]) == 3
        exact = lake.plan("t", **asked, **{"use-snapshot-schema": True}).json()
        (path,) = _paths(exact)
        assert 3 in pq.read_table(path, columns=["id"]).column("id").to_pylist()
        latest = {path for path in _paths(lake.plan("t").json()) if "former" in pq.read_schema(path).names}
        assert len(latest) == 1
        for value, is_kept in ((3, True), (90, False)):
            newest = {"filter": {**NEEDLE, "value": value}, "use-snapshot-schema": True}
            assert (latest <= set(_paths(lake.plan("t", **newest).json()))) == is_kept


# Attacks


@pytest.mark.slow
def test_many_plans_are_planned_and_forgotten(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of plans never exceeds its bound, however large their filters are."""
    monkeypatch.setattr(routes, "_PLAN_BYTES", 50_000)
    with running_service(lake.folder / "pruner.toml", Settings(limits=PATIENT)) as url:
        few = Lake(f"{url}/iceberg", lake.folder, None)
        ids = [
            few.plan("tree", filter={"type": "in", "term": "id", "values": [at * 7919 + each for each in range(500)]})
            .json()["plan-id"]
            for at in range(60)
        ]  # fmt: skip
        answers = [few.ask("GET", f"namespaces/web/tables/tree/plan/{each}").status_code for each in ids]
        assert answers[-1] == 200
        assert answers[0] == 404
        assert set(answers) == {200, 404}


@pytest.mark.slow
def test_a_filter_too_large_to_be_sent_back_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better than a second page that cannot be requested."""
    monkeypatch.setattr(tasks, "PAGE", 2)
    noise = b"".join(hashlib.sha256(str(at).encode()).digest() for at in range(700))
    content = {"type": "eq", "term": "id", "value": base64.b64encode(noise).decode()}
    size = len(json.dumps({"filter": content}))
    for room, status in ((2_000, 200), (0, 413)):
        limits = Limits(size + room, 5.0, PATIENCE, PATIENCE, wait_seconds=PATIENCE)
        with running_service(lake.folder / "pruner.toml", Settings(limits=limits)) as url:
            few = Lake(f"{url}/iceberg", lake.folder, None)
            answer = few.plan("tree", filter=content)
            assert answer.status_code == status
            if status == 200:
                assert len(few.paths("tree", answer.json())) == 8
            else:
                assert "too large for a plan of several pages" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_a_page_token_that_unpacks_to_too_much_is_refused(lake: Lake) -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(b"[" + b" " * (64 * 1024 * 1024))).decode()
    answer = lake.ask("POST", "namespaces/web/tables/tree/tasks", json={"plan-task": bomb})
    assert _checked(answer, "IcebergErrorResponse", 404)["error"]["type"] == "NoSuchPlanTaskException"
    packed = gzip.compress(json.dumps({"filter": NEEDLE}).encode())
    answer = lake.ask(
        "POST", "namespaces/web/tables/tree/plan", data=packed, headers={"Content-Encoding": "gzip"}
    )
    assert answer.status_code == 400


@pytest.mark.slow
def test_slow_clients_do_not_keep_others_waiting(lake: Lake) -> None:
    """Endless bodies occupy no slot for longer than a body may take; meanwhile others are served."""
    limits = Limits(body_seconds=0.2, concurrent=4, wait_seconds=PATIENCE, plan_seconds=PATIENCE)
    with running_service(lake.folder / "pruner.toml", Settings(limits=limits)) as url:
        host, port = url.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port)), timeout=PATIENCE) for _ in range(12)]
        try:
            for each in slow:
                each.sendall(
                    b"POST /iceberg/v1/namespaces/web/tables/tree/plan HTTP/1.1\r\nHost: x\r\n"
                    b"Content-Length: 100\r\n\r\n{"
                )
            few = Lake(f"{url}/iceberg", lake.folder, None)
            assert len(few.ask("GET", "config").json()["endpoints"]) == 12
            for each in slow:
                assert b" 408 " in each.recv(4096)
        finally:
            for each in slow:
                each.close()


def test_neither_token_nor_secret_is_told(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong token is refused for each route; no answer contains what a store's options hold."""
    secret, token = "s3cr3t-of-the-store", "a token that is long enough"
    config = lake.folder.parent / f"{lake.folder.name}-secret.toml"
    config.write_text(
        f'[tables."web.tree"]\nuri = "{lake.folder}/tree"\n\n'
        f'[tables."web.away"]\nuri = "s3://bucket/away"\n'
        '[tables."web.away".storage_options]\nendpoint = "http://127.0.0.1:9"\nallow_http = "true"\n'
        'access_key_id = "${REST_TEST_SECRET}"\nsecret_access_key = "${REST_TEST_SECRET}"\n',
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REST_TEST_SECRET", secret)
        with running_service(config, Settings(token=token, limits=PATIENT)) as url:
            served = Lake(f"{url}/iceberg", lake.folder, None)
            answers: list[requests.Response] = []
            for sent in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
                for method, path in (
                    ("GET", "config"),
                    ("GET", "namespaces/web/tables/tree"),
                    ("DELETE", "x"),
                ):
                    answer = served.ask(method, path, headers=sent)
                    assert answer.json()["error"]["type"] == "NotAuthorizedException"
                    answers.append(answer)
            right = {"Authorization": f"Bearer {token}"}
            for path in (
                "config",
                "namespaces/web/tables/tree",
                "namespaces/web/tables/away",
                "namespaces/web/tables",
            ):
                answers.append(served.ask("GET", path, headers=right))
            for each in answers:
                assert secret not in each.text
                assert token not in each.text
    assert secret not in caplog.text
    assert token not in caplog.text


@pytest.mark.slow
def test_a_client_that_plans_by_itself_finds_the_manifests(lake: Lake) -> None:
    """Like DuckDB, which makes no other requests than these; it reads the same rows."""
    assert lake.ask("GET", "config?warehouse=lake").status_code == 200
    assert lake.ask("GET", "namespaces/web/tables").status_code == 200
    served = lake.ask("GET", "namespaces/web/tables/grown").json()["metadata"]
    stored = lake.folder / "served.metadata.json"
    stored.write_text(json.dumps(served), encoding="utf-8")
    try:
        table = StaticTable.from_metadata(f"{stored}")
        expected: Any = lake.own.scan().to_arrow().sort_by("id")
        assert repr(table.scan().to_arrow().sort_by("id").to_pylist()) == repr(expected.to_pylist())
    finally:
        stored.unlink()


@pytest.mark.slow
def test_stock_clients_still_read_every_row(lake: Lake) -> None:
    catalog = load_catalog("lake", type="rest", uri=lake.url)
    assert catalog.load_table("web.tree").scan().count() == 40
    assert catalog.load_table("web.grown").scan().to_arrow().num_rows == 44
    assert catalog.load_table("web.empty").scan().to_arrow().num_rows == 0


# What clients rely on


@pytest.mark.parametrize("table", ["tree", "grown"])
def test_sizes_and_row_counts_are_those_of_the_files(lake: Lake, table: str) -> None:
    """Clients use them for counts and to read footers; bounds, which could drop a file, are never sent."""
    tasks_ = lake.plan(table).json()["file-scan-tasks"]
    assert len(tasks_) >= 4
    for each in tasks_:
        file = each["data-file"]
        path = Path(file["file-path"].removeprefix("file://").removeprefix("file:"))
        assert file["file-size-in-bytes"] == path.stat().st_size
        assert file["record-count"] == pq.read_metadata(path).num_rows
        assert not {"lower-bounds", "upper-bounds", "null-value-counts", "value-counts"} & set(file)


MISREAD: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "milliseconds": (pa.timestamp("ms"), {}),
    "nanoseconds": (pa.timestamp("ns"), {}),
    "int96": (pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
    "unsigned": (pa.uint32(), {}),
    "unsigned_long": (pa.uint64(), {}),
    "time_of_day": (pa.time64("us"), {}),
    "in_a_list": (pa.list_(pa.timestamp("ms")), {}),
    "in_a_struct": (pa.struct([("a", pa.uint32())]), {}),
}


@pytest.mark.parametrize("name", MISREAD)
def test_a_column_that_a_client_misreads_is_left_out_with_the_reason(tmp_path: Path, name: str) -> None:
    type_, options = MISREAD[name]
    (tmp_path / "t").mkdir()
    content = pa.table({"id": [1, 2], name: pa.array([None, None], type_)})
    pq.write_table(content, tmp_path / "t" / "a.parquet", **options)
    found = ServedTable("t", pruner.open_table(tmp_path / "t").snapshot(), 0)
    assert [each["name"] for each in found.schema.fields] == ["id"]
    told: dict[str, str] = found.metadata(python=False)["properties"]
    assert told[f"pruner.left-out.{name}"]


def test_a_table_of_such_columns_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"u": pa.array([1], pa.uint32())}), tmp_path / "t" / "a.parquet")
    with pytest.raises(UnservedError, match="has no column that clients read rightly"):
        ServedTable("t", pruner.open_table(tmp_path / "t").snapshot(), 0).check()


def test_an_etag_is_another_one_as_soon_as_the_answer_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the table's state and of the configuration that is part of the answer."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t" / "a.parquet")
    (tmp_path / "pruner.toml").write_text(f'[tables."web.t"]\nuri = "{tmp_path}/t"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as url:
        lake = Lake(f"{url}/iceberg", tmp_path, None)
        place = "namespaces/web/tables/t"
        tags = [lake.ask("GET", place).headers["ETag"]]
        assert lake.ask("GET", place, headers={"If-None-Match": tags[0]}).status_code == 304
        pq.write_table(pa.table({"id": [2]}), tmp_path / "t" / "b.parquet")
        changed = lake.ask("GET", place, headers={"If-None-Match": tags[0]})
        assert changed.status_code == 200
        tags.append(changed.headers["ETag"])
        monkeypatch.setattr(routes, "_SERVER_PLANS", {"scan-planning-mode": "client"})
        configured = lake.ask("GET", place, headers={"If-None-Match": tags[1]})
        assert configured.status_code == 200
        tags.append(configured.headers["ETag"])
        assert len(set(tags)) == 3
