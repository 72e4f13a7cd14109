"""Iceberg tables in the catalog for stock clients: their metadata, and what a client may and may not do with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from pruner.errors import PredicateError
from pruner.schema import TableSchema
from pruner.service.rest_catalog.filters import Filter
from pruner.service.rest_catalog.partition_values import BoundPartitionField, PartitionFilter
from tests.support.iceberg.tables import SPECS, IcebergLake, rows
from tests.support.service.planner import running_service


class Served(NamedTuple):
    """The tables themselves by the names of their specs, and the catalog's address."""

    own: dict[str, Table]
    url: str

    def by_catalog(self, name: str) -> Table:
        """A table as a stock client loads it."""
        return load_catalog("lake", type="rest", uri=self.url).load_table(f"web.{name}")

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """A request by hand."""
        return requests.request(method, f"{self.url}/v1/namespaces/web/tables/{path}", timeout=60, **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    lake = IcebergLake(tmp_path_factory.mktemp("lake"))
    own: dict[str, Table] = {}
    for name in SPECS:
        table = lake.create(name, name)
        table.append(rows(table, range(24)))
        table.append(rows(table, range(24, 40)))
        own[name] = table
    config = lake.folder / "pruner.toml"
    config.write_text(
        "".join(f'[tables."web.{name}"]\nuri = "{each.metadata_location}"\n\n' for name, each in own.items()),
        encoding="utf-8",
    )
    with running_service(config) as url:
        yield Served(own, f"{url}/iceberg")


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_rows_are_those_of_the_table_itself(served: Served, name: str) -> None:
    """Partitions with NULL have specs of their own, which PyIceberg needs."""
    own, seen = served.own[name], served.by_catalog(name)
    for condition in (
        "id >= 0",
        "number = 24",
        "number is null",
        "day >= '2024-01-01'",
        "id < 7 and flag = true",
    ):
        expected: Any = own.scan(row_filter=condition).to_arrow()
        found: Any = seen.scan(row_filter=condition).to_arrow()
        assert found.sort_by("id").to_pylist().__repr__() == expected.sort_by("id").to_pylist().__repr__()
    files = len(list(own.scan().plan_files()))
    assert len(list(seen.scan().plan_files())) == files
    assert len(list(seen.scan(row_filter="id = 3").plan_files())) < files


@pytest.mark.slow
def test_metadata_is_the_tables_own_without_a_place_to_write(served: Served) -> None:
    own, seen = served.own["months"], served.by_catalog("months")
    assert seen.location().startswith("file:///dev/null/")
    assert seen.schema() == own.schema()
    assert seen.spec() == own.spec()
    assert seen.metadata.snapshots == own.metadata.snapshots
    assert seen.metadata.metadata_log == []
    assert seen.properties["gc.enabled"] == "false"
    before = sorted(Path(own.location().removeprefix("file://")).rglob("*"))
    with pytest.raises(Exception, match=r"."):
        seen.append(rows(own, range(3)))
    refused = served.ask("POST", "months", json={"requirements": [], "updates": []})
    assert refused.status_code == 406
    assert "this catalog is read-only" in refused.json()["error"]["message"]
    assert sorted(Path(own.location().removeprefix("file://")).rglob("*")) == before


@pytest.mark.slow
def test_older_snapshots_are_planned_by_their_ids(served: Served) -> None:
    own, seen = served.own["identity"], served.by_catalog("identity")
    for snapshot in own.metadata.snapshots:
        expected: Any = own.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        found: Any = seen.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert sorted(found.column("id").to_pylist()) == sorted(expected.column("id").to_pylist())
    answer = served.ask("POST", "identity/plan", json={"snapshot-id": 4711})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchSnapshotException")


def test_an_answer_is_known_by_its_etag(served: Served) -> None:
    """Clients of other kinds get other specs, so they get another tag."""
    first = served.ask("GET", "months")
    again = served.ask("GET", "months", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    python = served.ask("GET", "months", headers={"User-Agent": "PyIceberg/0.12.0"})
    assert python.headers["ETag"] != first.headers["ETag"]
    extra = len(python.json()["metadata"]["partition-specs"]) - len(
        first.json()["metadata"]["partition-specs"]
    )
    assert extra == 3


def test_names_are_those_of_any_schema(served: Served) -> None:
    answer = served.ask("POST", "months/plan", json={"filter": {"type": "eq", "term": "nothing", "value": 1}})
    assert answer.status_code == 400
    assert "the table has no such column" in answer.json()["error"]["message"]
    folded = {"filter": {"type": "eq", "term": "ID", "value": 3}, "case-sensitive": False}
    assert len(served.ask("POST", "months/plan", json=folded).json()["file-scan-tasks"]) == 1


def _decided(content: Any, source: BoundPartitionField, value: Any, ids: tuple[int, ...] = (1,)) -> bool:
    return _all_decided(content, source, [value], ids)[0]


def _all_decided(
    content: Any, source: BoundPartitionField, values: Sequence[Any], ids: tuple[int, ...] = (1,)
) -> list[bool]:
    asked = Filter(content, TableSchema(()), case_sensitive=True)
    decides = PartitionFilter(asked, lambda _: frozenset(ids), {0: [source]})
    return decides.may_match([(0, (value,)) for value in values]).tolist()


def _leaf(kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "term": "c", "value": value}


DAY = BoundPartitionField(1, "day", pa.timestamp("us", "UTC"))
DECIDED: list[tuple[BoundPartitionField, Any, dict[str, Any], bool]] = [
    (DAY, 10, _leaf("lt", 10 * 86_400_000_000), False),
    (DAY, 10, _leaf("lt", 10 * 86_400_000_000 + 1), True),
    (DAY, 10, _leaf("gt-eq", 11 * 86_400_000_000), False),
    (DAY, None, _leaf("gt-eq", 0), False),
    (DAY, None, _leaf("not-eq", 0), True),
    (BoundPartitionField(1, "truncate[2]", pa.string()), "ab", _leaf("starts-with", "abc"), True),
    (BoundPartitionField(1, "truncate[2]", pa.string()), "ab", _leaf("not-starts-with", "a"), False),
    (BoundPartitionField(1, "truncate[2]", pa.string()), "a", _leaf("eq", "ab"), False),
    (BoundPartitionField(1, "truncate[10]", pa.int64()), 20, _leaf("lt", 20), False),
    (BoundPartitionField(1, "bucket[4]", pa.int64()), 2, _leaf("lt", 20), True),
    (BoundPartitionField(1, "bucket[4]", pa.int64()), None, {"type": "not-null", "term": "c"}, False),
    (BoundPartitionField(1, "void", pa.int64()), None, {"type": "not-null", "term": "c"}, True),
    (BoundPartitionField(1, "identity", pa.decimal128(9, 2)), b"\x01\x2b", _leaf("lt", "2.99"), False),
    (BoundPartitionField(1, "identity", pa.decimal128(9, 2)), b"\x01\x2b", _leaf("lt-eq", "2.99"), True),
    (BoundPartitionField(1, "identity", pa.float64()), -0.0, _leaf("lt", 0.0), True),
    (BoundPartitionField(1, "identity", pa.float64()), 0.0, _leaf("eq", -0.0), False),
    (BoundPartitionField(1, "identity", pa.binary()), b"\x00\xff", _leaf("eq", "00FF"), True),
    (BoundPartitionField(1, "identity", pa.timestamp("us")), 0, _leaf("gt", 5), False),
    (BoundPartitionField(1, "identity", pa.timestamp("us"), was_date=True), 0, _leaf("gt", 5), True),
]


@pytest.mark.parametrize(("source", "value", "content", "expected"), DECIDED)
def test_partitions_are_decided_as_spark_expects(
    source: BoundPartitionField, value: Any, content: dict[str, Any], expected: bool
) -> None:
    assert _decided(content, source, value) == expected
    assert _decided({"type": "not", "child": content}, source, value) or expected or value is None


@given(
    values=st.lists(st.none() | st.integers(-9, 9), max_size=8),
    wanted=st.lists(st.integers(-90, 90), min_size=1, max_size=6),
    transform=st.sampled_from(["identity", "truncate[10]"]),
    negated=st.booleans(),
)
def test_partitions_are_decided_together_as_one_by_one(
    values: list[int | None], wanted: list[int], transform: str, negated: bool
) -> None:
    """A list of values selects what its values select one by one, and many partitions what each selects alone."""
    field = BoundPartitionField(1, transform, pa.int64())
    cut = [value if value is None or transform == "identity" else value * 10 for value in values]
    listed = {"type": "not-in" if negated else "in", "term": "c", "values": wanted}
    parts = [_leaf("not-eq" if negated else "eq", value) for value in wanted]
    chain = parts[0]
    for part in parts[1:]:
        chain = {"type": "and" if negated else "or", "left": chain, "right": part}
    found = _all_decided(listed, field, cut)
    assert found == _all_decided(chain, field, cut)
    assert found == [_decided(listed, field, value) for value in cut]
    width = 1 if transform == "identity" else 10
    for value, may in zip(cut, found, strict=True):
        rows = [] if value is None else range(value, value + width)
        assert may == (any((row in wanted) != negated for row in rows) if rows else negated)


def test_what_cannot_be_decided_is_refused() -> None:
    with pytest.raises(PredicateError, match="which is none of its values"):
        _decided(_leaf("eq", "x"), BoundPartitionField(1, "identity", pa.int64()), 5)
    with pytest.raises(PredicateError, match="which several columns of the table were called"):
        _decided(_leaf("eq", 5), BoundPartitionField(1, "identity", pa.int64()), 5, ids=(1, 7))
