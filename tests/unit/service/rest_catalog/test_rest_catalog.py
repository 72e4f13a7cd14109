"""The catalog for stock clients of Iceberg, queried by PyIceberg and by hand."""

from __future__ import annotations

import datetime
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind, expression_evaluator
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

import pruner
from pruner.errors import PredicateError
from pruner.planning.pinned import PinnedSnapshot
from pruner.schema import Field, TableSchema
from pruner.service import Settings
from pruner.service.rest_catalog import filters, tasks
from pruner.service.rest_catalog.filters import DEEPEST, Filter, plain_value
from pruner.service.rest_catalog.metadata import ServedTable
from pruner.service.rest_catalog.schema import client_schema
from pruner.tables.snapshot import Partitions
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.running.profiles import examples
from tests.support.service.planner import running_service

ice: Any = expressions
"""Its stubs know no arguments."""

TOKEN = "a token that is long enough"
CITIES = ("a b", "Zürich", "10%:x", None)


def _rows(at: int) -> pa.Table:
    values = [None, math.nan, -0.0, 0.0, *(at * 1.5 for _ in range(6))]
    return pa.table(
        {
            "id": pa.array(range(at * 100, at * 100 + 10), pa.int64()),
            "x": pa.array(values, pa.float64()),
            "s": [None if row % 4 == 0 else f"s{at}_{row}" for row in range(10)],
            "price": pa.array([Decimal(at * 10 + row) / 4 for row in range(10)], pa.decimal128(9, 2)),
            "ts": pa.array([at * 86_400_000_000 + row for row in range(10)], pa.timestamp("us", "UTC")),
            "n": [{"a": at * 10 + row, "b": str(row)} for row in range(10)],
            "l": [[row] for row in range(10)],
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    for at in range(4):
        for city in CITIES:
            written = {None: "__HIVE_DEFAULT_PARTITION__", "10%:x": "10%25%3Ax"}.get(city, city)
            folder = root / "trips" / f"day=2024-01-0{at + 1}" / f"city={written}"
            folder.mkdir(parents=True)
            pq.write_table(_rows(at), folder / "f.parquet")
    table = pruner.open_table(root / "trips")
    for column in ("id", "x", "s", "price", "ts"):
        table.create_index(f"stats_{column}", column)
    (root / "odd").mkdir()
    pq.write_table(
        pa.table(
            {
                "id": pa.array([1, 2], pa.int32()),
                "ms": pa.array([1, 2], pa.timestamp("ms")),
                "u": pa.array([1, 2], pa.uint32()),
                "t": pa.array([1, 2], pa.time64("us")),
                "inner": pa.array(
                    [{"a": 1, "ms": 5}, None], pa.struct([("a", pa.int8()), ("ms", pa.timestamp("ms"))])
                ),
            }
        ),
        root / "odd" / "f.parquet",
    )
    (root / "pruner.toml").write_text(
        f'[tables."web.trips"]\nuri = "{root}/trips"\n\n[tables.odd]\nuri = "{root}/odd"\n', encoding="utf-8"
    )
    return root


@pytest.fixture(scope="module")
def url(lake: Path) -> Iterator[str]:
    with running_service(lake / "pruner.toml") as served:
        yield f"{served}/iceberg"


@pytest.fixture
def catalog(url: str) -> Any:
    return load_catalog("lake", type="rest", uri=url)


FILTERS: list[tuple[str, int]] = [
    ("id = 203", 4),
    ("day = '2024-01-02'", 4),
    ("day = '2024-01-02' and id = 203", 0),
    ("city = 'Zürich' and id < 100", 1),
    ("city = '10%:x'", 4),
    ("city is null", 4),
    ("city is not null and not (city = 'a b')", 8),
    ("not (id < 305)", 4),
    ("s like 's1%'", 4),
    ("s like 's1%' or city is null", 7),
    ("id in (1, 101)", 8),
    ("price >= 9.75", 4),
    ("ts < '1970-01-02T00:00:00+00:00'", 4),
    ("x is nan", 16),
]


def _shown(rows: pa.Table) -> list[str]:
    """Rows in a canonical order; NaN is equal to itself there."""
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("text", "kept"), FILTERS)
def test_pyiceberg_reads_the_files_that_indexes_leave(catalog: Any, lake: Path, text: str, kept: int) -> None:
    """Its rows are those that it finds in all files."""
    table = catalog.load_table("web.trips")
    scan = table.scan(row_filter=text)
    assert len(list(scan.plan_files())) == kept
    everything = table.scan().to_arrow()
    bound = bind(table.schema(), scan.row_filter, case_sensitive=True)
    expected = everything.filter(expression_to_pyarrow(bound))
    assert _shown(scan.to_arrow()) == _shown(expected)


def test_all_rows_with_the_values_of_folders(catalog: Any) -> None:
    """Dates, text that is escaped in paths, and NULL are returned as column values."""
    table = catalog.load_table("web.trips")
    assert [(each.name, str(each.field_type)) for each in table.schema().fields][-2:] == [
        ("day", "date"),
        ("city", "string"),
    ]
    found = table.scan(selected_fields=("id", "day", "city")).to_arrow()
    assert found.num_rows == table.scan().count() == 160
    assert set(map(tuple, (each.values() for each in found.to_pylist()))) == {
        (at * 100 + row, datetime.date(2024, 1, at + 1), city)
        for at in range(4)
        for row in range(10)
        for city in CITIES
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("condition", "selected", "lacking"),
    [
        ("day = '2024-01-02'", ("id",), "day"),
        ("day = '2024-01-02' and id < 103", ("id", "city"), "day"),
        ("city = 'a b' or day = '2024-01-02'", ("id",), "city and day"),
        ("id = 203", ("x",), None),
        ("city = 'a b' and day = '2024-01-02'", ("day", "city"), None),
        ("day = '2024-01-02'", ("*",), None),
    ],
)
def test_a_filter_by_folders_wants_their_columns_selected(
    catalog: Any, condition: str, selected: tuple[str, ...], lacking: str | None
) -> None:
    """Otherwise PyIceberg takes them for NULL, and finds wrong rows."""
    table = catalog.load_table("web.trips")
    scan = table.scan(row_filter=condition, selected_fields=selected)
    if lacking is None:
        expected = table.scan(row_filter=condition).to_arrow()
        found = scan.to_arrow()
        assert found.num_rows == expected.num_rows == scan.count() > 0
        assert _shown(found) == _shown(expected.select(found.column_names))
        return
    for read in (scan.to_arrow, scan.count):
        with pytest.raises(BadRequestError, match=f"select {lacking} as well: PyIceberg"):
            read()


def test_names_of_selected_columns_in_other_cases(url: str) -> None:
    request = {"filter": {"type": "eq", "term": "Day", "value": "2024-01-02"}, "case-sensitive": False}
    place = f"{url}/v1/namespaces/web/tables/trips/plan"
    for agent, select, status in (
        ("PyIceberg/0.12.0", ["ID", "DAY"], 200),
        ("PyIceberg/0.12.0", ["ID"], 400),
        ("Java", ["ID"], 200),
    ):
        answer = requests.post(
            place, json={**request, "select": select}, headers={"User-Agent": agent}, timeout=PATIENCE
        )
        assert answer.status_code == status, answer.text


def test_a_field_of_a_struct(catalog: Any) -> None:
    """No index is over it, so all files stay, and its rows are found."""
    scan = catalog.load_table("web.trips").scan(row_filter="n.a = 3")
    assert len(list(scan.plan_files())) == 16
    assert {each["id"] for each in scan.to_arrow().to_pylist()} == {3}


def test_names(catalog: Any) -> None:
    """A namespace is the part before the last dot."""
    assert sorted(catalog.list_namespaces()) == [("default",), ("web",)]
    assert catalog.list_tables("web") == [("web", "trips")]
    assert catalog.table_exists("default.odd")
    assert not catalog.table_exists("web.other")
    assert not catalog.namespace_exists("other")


def test_columns_that_clients_misread_are_left_out(catalog: Any) -> None:
    """Each with the reason among the table's properties, and no other."""
    table = catalog.load_table("default.odd")
    assert [each.name for each in table.schema().fields] == ["id"]
    assert table.scan().to_arrow().to_pydict() == {"id": [1, 2]}
    left_out = {name.removeprefix("pruner.left-out."): why for name, why in table.properties.items()}
    assert table.properties["gc.enabled"] == "false"
    assert set(left_out) - {"schema.name-mapping.default", "gc.enabled"} == {"ms", "u", "t", "inner"}


def _described(schema: pa.Schema, tmp_path: Path) -> ServedTable:
    (tmp_path / "t").mkdir(exist_ok=True)
    pq.write_table(schema.empty_table(), tmp_path / "t" / "f.parquet")
    return ServedTable("t", pruner.open_table(tmp_path / "t").snapshot(), 0)


def test_field_ids_of_files_are_those_of_the_schema(tmp_path: Path) -> None:
    """A client uses them if a file has them, whatever the name mapping says."""
    fields = [
        pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"}),
        pa.field("b", pa.string(), metadata={"PARQUET:field_id": "3"}),
        pa.field("plain", pa.string()),
        pa.field("l", pa.list_(pa.int64()), metadata={"PARQUET:field_id": "4"}),
    ]
    found = _described(pa.schema(fields), tmp_path).schema
    assert [(each["name"], each["id"]) for each in found.fields] == [("a", 7), ("b", 3)]
    assert set(found.left_out) == {"plain", "l"}


def test_a_column_with_a_default_for_older_files_is_left_out() -> None:
    """A client would show NULL for it."""
    fields = Field(("a",), pa.int64(), absent_is_null=False), Field(("b",), pa.int64())
    found = client_schema(TableSchema(fields), Partitions(pa.array([""])))
    assert [each["name"] for each in found.fields] == ["b"]
    assert set(found.left_out) == {"a"}


def test_a_wider_type_does_not_hide_that_a_file_is_misread(tmp_path: Path) -> None:
    """The table has microseconds, one of its files milliseconds, which Spark's reader would take for microseconds."""
    (tmp_path / "t").mkdir()
    for unit in ("ms", "us"):
        pq.write_table(
            pa.table({"ts": pa.array([1], pa.timestamp(unit)), "id": [1]}), tmp_path / "t" / f"{unit}.parquet"
        )
    found = ServedTable("t", pruner.open_table(tmp_path / "t").snapshot(), 0).schema
    assert set(found.left_out) == {"ts"}


def test_pages_name_each_file_once(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client follows the plan's tasks to the last page."""
    monkeypatch.setattr(tasks, "PAGE", 3)
    table = catalog.load_table("web.trips")
    found = [each.file.file_path for each in table.scan(row_filter="id < 300").plan_files()]
    assert len(found) == len(set(found)) == 12


@pytest.mark.slow
def test_pages_stay_whole_where_an_index_is_dropped_in_between(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is a range of files, not the rest of a list that might differ now."""
    monkeypatch.setattr(tasks, "PAGE", 2)
    shutil.copytree(lake / "trips", tmp_path / "trips")
    table = pruner.open_table(tmp_path / "trips")
    table.create_index("ids", "id")
    (tmp_path / "pruner.toml").write_text(f'[tables.trips]\nuri = "{tmp_path}/trips"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as served:
        place = f"{served}/iceberg/v1/namespaces/default/tables/trips"
        first = requests.post(
            f"{place}/plan", json={"filter": _json(ice.LessThan("id", 100))}, timeout=PATIENCE
        ).json()
        table.drop_index("ids")
        found = [each["data-file"]["file-path"] for each in first["file-scan-tasks"]]
        pending = first["plan-tasks"]
        while pending:
            page = requests.post(f"{place}/tasks", json={"plan-task": pending[0]}, timeout=PATIENCE).json()
            found += [each["data-file"]["file-path"] for each in page["file-scan-tasks"]]
            pending = page.get("plan-tasks", [])
    assert len(found) == len(set(found))
    assert {path for path in found if "day=2024-01-01" in path} >= set(found[:2])
    assert len([path for path in found if "day=2024-01-01" in path]) == len(CITIES)


def test_a_snapshot_that_a_client_knows_stays(lake: Path, tmp_path: Path) -> None:
    """A plan for it has its files; a plan without a snapshot has the current ones."""
    shutil.copytree(lake / "odd", tmp_path / "odd")
    (tmp_path / "pruner.toml").write_text(f'[tables.odd]\nuri = "{tmp_path}/odd"\n', encoding="utf-8")
    with running_service(tmp_path / "pruner.toml") as served:
        catalog = load_catalog("lake", type="rest", uri=f"{served}/iceberg")
        table = catalog.load_table("default.odd")
        before = table.current_snapshot()
        assert before is not None
        shutil.copy(tmp_path / "odd" / "f.parquet", tmp_path / "odd" / "g.parquet")
        assert len(list(table.scan(snapshot_id=before.snapshot_id).plan_files())) == 1
        assert len(list(table.scan().plan_files())) == 2
        after = catalog.load_table("default.odd").current_snapshot()
        assert after is not None
        assert after.snapshot_id != before.snapshot_id
        answer = requests.post(
            f"{served}/iceberg/v1/namespaces/default/tables/odd/plan",
            json={"snapshot-id": 5},
            timeout=PATIENCE,
        )
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "NoSuchSnapshotException"


def _refused(answer: requests.Response) -> tuple[int, str]:
    content = answer.json()["error"]
    assert content["code"] == answer.status_code
    return answer.status_code, content["message"]


def test_refusals(url: str) -> None:
    """Each in the form that Iceberg clients read, with one sentence."""
    place = f"{url}/v1/namespaces/web/tables/trips"
    post: Callable[..., requests.Response] = lambda path, **content: requests.post(  # noqa: E731
        f"{place}{path}", json=content, timeout=PATIENCE
    )
    deep: Any = {"type": "is-null", "term": "id"}
    for _ in range(DEEPEST + 2):
        deep = {"type": "not", "child": deep}
    assert _refused(post("/plan", filter=deep))[0] == 400
    assert _refused(post("/plan", filter={"type": "eq", "term": "no", "value": 1})) == (
        400,
        "the filter names 'no': the table has no such column",
    )
    assert _refused(post("/plan", filter={"type": "between", "term": "id"}))[0] == 400
    assert _refused(post("/plan", **{"start-snapshot-id": 1, "end-snapshot-id": 2}))[0] == 406
    assert _refused(post("/tasks", **{"plan-task": "x" * 50}))[0] == 404
    assert _refused(requests.post(f"{place}/plan", data=b"[" * 100_000, timeout=PATIENCE))[0] == 400
    for method, path in (
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/web/tables/trips"),
        ("GET", "/v2"),
    ):
        status, sentence = _refused(requests.request(method, f"{url}{path}", timeout=PATIENCE))
        assert status == 406
        assert "read-only" in sentence
    assert _refused(requests.get(f"{url}/v1/namespaces/web/tables/other", timeout=PATIENCE))[0] == 404


def test_the_token_is_asked_for(lake: Path) -> None:
    """A client sends it as Iceberg's clients do, and without it reads the refusal."""
    with running_service(lake / "pruner.toml", Settings(token=TOKEN, limits=PATIENT)) as served:
        answer = requests.get(f"{served}/iceberg/v1/config", timeout=PATIENCE)
        assert _refused(answer)[0] == 401
        catalog = load_catalog("lake", type="rest", uri=f"{served}/iceberg", token=TOKEN)
        assert catalog.list_tables("web") == [("web", "trips")]


def test_metadata_is_asked_for_again_by_its_tag(url: str) -> None:
    """An unchanged table is not sent twice."""
    place = f"{url}/v1/namespaces/web/tables/trips"
    first = requests.get(place, timeout=PATIENCE)
    again = requests.get(place, headers={"If-None-Match": first.headers["ETag"]}, timeout=PATIENCE)
    assert (again.status_code, again.content) == (304, b"")


COLUMNS = Schema.model_validate(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": at + 1, "name": name, "required": False, "type": type_}
            for at, (name, type_) in enumerate(
                {"i": "long", "x": "double", "s": "string", "d": "date", "b": "boolean"}.items()
            )
        ],
    }
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-5, 5),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 2.0]),
    "s": st.sampled_from(["", "a", "a%", "ab", "_", "\\", "ü", "z"]),
    "d": st.dates(datetime.date(1969, 12, 28), datetime.date(1970, 1, 4)),
    "b": st.booleans(),
}


@st.composite
def _leaves(draw: st.DrawFn) -> BooleanExpression:
    name = draw(st.sampled_from(list(_VALUES)))
    value = draw(_VALUES[name])
    forms: list[Callable[[], BooleanExpression]] = [
        *(
            lambda kind=kind: kind(name, value)
            for kind in (
                ice.EqualTo,
                ice.NotEqualTo,
                ice.LessThan,
                ice.LessThanOrEqual,
                ice.GreaterThan,
                ice.GreaterThanOrEqual,
            )
            if name != "b" or kind in (ice.EqualTo, ice.NotEqualTo)
        ),
        lambda: ice.IsNull(name),
        lambda: ice.NotNull(name),
    ]
    if name != "b":
        several = draw(st.sets(_VALUES[name], min_size=2, max_size=4))
        forms += [lambda: ice.In(name, several), lambda: ice.NotIn(name, several)]
    if name == "x":
        forms += [lambda: ice.IsNaN(name), lambda: ice.NotNaN(name)]
    if name == "s":
        forms += [lambda: ice.StartsWith(name, value), lambda: ice.NotStartsWith(name, value)]
    return draw(st.sampled_from(forms))()


_TREES = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.builds(ice.And, inner, inner), st.builds(ice.Or, inner, inner), st.builds(ice.Not, inner)
    ),
    max_leaves=6,
)
_ARROW = pa.schema({"i": pa.int64(), "x": pa.float64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_()})


def _json(expression: BooleanExpression) -> Any:
    """The filter as a client sends it."""
    request = PlanTableScanRequest(filter=expression)
    return json.loads(request.model_dump_json(by_alias=True, exclude_none=True)).get("filter")


@pytest.fixture(scope="module")
def one_row_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], PinnedSnapshot]:
    """Rows with values of all kinds, each in a file of its own."""
    root = tmp_path_factory.mktemp("one_row_files")
    rng = random.Random(20261127)
    cells: dict[str, list[Any]] = {
        "i": [None, *range(-5, 6)],
        "x": [None, -1.5, -0.0, 0.0, 2.0, math.nan],
        "s": [None, "", "a", "a%", "ab", "_", "\\", "ü", "z"],
        "d": [None, *(datetime.date(1969, 12, 28) + datetime.timedelta(days=at) for at in range(8))],
        "b": [None, False, True],
    }
    rows = [{name: rng.choice(values) for name, values in cells.items()} for _ in range(80)]
    for at, row in enumerate(rows):
        pq.write_table(pa.Table.from_pylist([row], _ARROW), root / f"{at:02}.parquet")
    table = pruner.open_table(root)
    table.create_index("all", "*")
    return rows, table.snapshot()


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(expression=_TREES)
def test_no_file_is_lost_that_a_client_may_match(
    one_row_files: tuple[list[dict[str, Any]], PinnedSnapshot], expression: BooleanExpression
) -> None:
    """Neither by PyIceberg's way over Arrow, nor by its evaluator, a port of Java's."""
    rows, snapshot = one_row_files
    asked = Filter(_json(expression), snapshot.schema, case_sensitive=True)
    plan = snapshot.plan(asked.expression(), semantics=pruner.Semantics.of("spark"))
    kept = {Path(each.removeprefix("file://")).stem for each in plan.files}
    bound = bind(COLUMNS, expression, case_sensitive=True)
    by_arrow = pa.Table.from_pylist(rows, _ARROW).append_column("at", pa.array(range(len(rows))))
    matching = set(by_arrow.filter(expression_to_pyarrow(bound)).column("at").to_pylist())
    evaluates = expression_evaluator(COLUMNS, expression, case_sensitive=True)
    for at, row in enumerate(rows):
        days = None if row["d"] is None else (row["d"] - datetime.date(1970, 1, 1)).days
        try:
            if evaluates(Record(row["i"], row["x"], row["s"], days, row["b"])):
                matching.add(at)
        except TypeError:
            continue  # its evaluator compares None with a value
    assert kept >= {f"{at:02}" for at in matching}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "text", ["i = 3", "i > 1", "s = 'ab'", "d < DATE '1970-01-01'", "i IN (1, 4)", "x < -1"]
)
def test_a_filter_keeps_what_the_same_condition_keeps(tmp_path: Path, text: str) -> None:
    """No more, if all clients agree on what it means."""
    root = tmp_path / "t"
    root.mkdir()
    rng = np.random.default_rng(5)
    for at in range(12):
        row = {
            "i": at % 7,
            "x": float(rng.integers(-3, 3)),
            "s": "ab" if at % 3 else "z",
            "d": datetime.date(1969, 12, 30 + at % 2),
        }
        pq.write_table(pa.Table.from_pylist([{**row, "b": None}], _ARROW), root / f"{at:02}.parquet")
    table = pruner.open_table(root)
    table.create_index("all", "*")
    forms = {
        "i = 3": ice.EqualTo("i", 3),
        "i > 1": ice.GreaterThan("i", 1),
        "s = 'ab'": ice.EqualTo("s", "ab"),
        "d < DATE '1970-01-01'": ice.LessThan("d", datetime.date(1970, 1, 1)),
        "i IN (1, 4)": ice.In("i", {1, 4}),
        "x < -1": ice.LessThan("x", -1.0),
    }
    snapshot = table.snapshot()
    asked = Filter(_json(forms[text]), snapshot.schema, case_sensitive=True).expression()
    rules = pruner.Semantics.of("spark")
    kept = list(snapshot.plan(asked, semantics=rules).files)
    assert kept == list(snapshot.plan(text, semantics=rules).files)


def test_a_transform_of_a_column_keeps_everything(lake: Path) -> None:
    """It is not followed, and decides nothing here."""
    schema = pruner.open_table(lake / "trips").schema
    term = {"type": "transform", "transform": "bucket[16]", "term": "id"}
    asked = Filter({"type": "eq", "term": term, "value": 3}, schema, case_sensitive=True)
    assert pruner.open_table(lake / "trips").snapshot().plan(asked.expression()).kept == 16
    with pytest.raises(PredicateError, match="no such column"):
        Filter({"type": "eq", "term": "ID", "value": 3}, schema, case_sensitive=True).expression()
    Filter({"type": "eq", "term": "ID", "value": 3}, schema, case_sensitive=False).expression()


def test_constants_are_read_once_for_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 20,000 values was parsed again for each of 400 partitions: 19 seconds."""
    count = 0

    def counted(value: Any, type_: pa.DataType) -> Any:
        nonlocal count
        count += 1
        return plain_value(value, type_)

    monkeypatch.setattr(filters, "plain_value", counted)
    schema = TableSchema((Field(("part",), pa.int64(), partition=True),))
    partitions = [{"part": number} for number in [*range(50), None]]
    parts: list[Any] = [{"type": "gt", "term": "part", "value": value} for value in range(40, 60)]
    chain = parts[0]
    for part in parts[1:]:
        chain = {"type": "or", "left": chain, "right": part}
    listed = {"type": "not-in", "term": "part", "values": list(range(30))}
    both = {"type": "and", "left": chain, "right": listed}
    decides = Filter(both, schema, case_sensitive=True).on_partitions(frozenset({"part"}))
    assert decides is not None
    assert [at for at, is_kept in enumerate(decides(partitions)) if is_kept] == list(range(41, 50))
    assert count == len(parts) + 30


def test_rows_that_another_condition_rules_out_keep_no_file(tmp_path: Path) -> None:
    """Spark sends `n NOT IN (5)` with `n IS NOT NULL`: rows where `n` is NULL match in no client."""
    for name, values in {"fives": [5, 5, None], "sixes": [6, None], "nulls": [None, None]}.items():
        written = pa.table({"n": pa.array(values, pa.int64()), "m": [1] * len(values)})
        pq.write_table(written, tmp_path / f"{name}.parquet")
    table = pruner.open_table(tmp_path)
    table.create_index("all", "*")

    def kept(content: dict[str, Any]) -> list[str]:
        expression = Filter(content, table.schema, case_sensitive=True).expression()
        plan = table.snapshot().plan(expression, semantics=pruner.Semantics.of("spark"))
        return sorted(Path(file).stem for file in plan.files)

    def joined(kind: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {"type": kind, "left": left, "right": right}

    others = {"type": "not-in", "term": "n", "values": [5]}
    filled = {"type": "not-null", "term": "n"}
    never = {"type": "gt", "term": "m", "value": 1}
    either = joined("or", {"type": "is-null", "term": "n"}, {"type": "eq", "term": "n", "value": 5})
    assert kept(others) == ["fives", "nulls", "sixes"]
    assert kept(joined("and", filled, others)) == ["sixes"]
    assert kept(joined("or", never, joined("and", filled, others))) == ["sixes"]
    assert kept(joined("and", filled, joined("or", never, others))) == ["sixes"]
    assert kept({"type": "not", "child": either}) == ["sixes"]
    assert kept(joined("or", filled, others)) == ["fives", "nulls", "sixes"]
    assert kept(joined("or", joined("and", filled, never), others)) == ["fives", "nulls", "sixes"]
