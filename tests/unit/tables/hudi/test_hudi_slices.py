"""Pruner's own listing of Hudi tables: equal to that of hudi-rs wherever both list, and loud where it cannot tell."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi.avro_schema import arrow_schema
from pruner.tables.hudi.listing import HudiSlice, base_name
from pruner.tables.hudi.slices import list_slices
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.made_up.files import SCHEMA, SyntheticTable
from tests.support.running import profiles
from tests.unit.tables.hudi.test_hudi_following import ACTIONS, PARTITIONS

WALL_CLOCK = {"type": "long", "logicalType": "local-timestamp-micros"}


def listed(root: Path, as_of: str | None = None) -> list[HudiSlice]:
    store = open_store(str(root), {})
    return by_group(list_slices(store, read_timeline(store), as_of))


def by_group(slices: list[HudiSlice]) -> list[HudiSlice]:
    return sorted(slices, key=lambda entry: (entry.partition, entry.file_id))


def listed_by_hudi_rs(root: Path, as_of: str | None = None) -> list[HudiSlice]:
    options = hudi.HudiReadOptions()
    found = hudi.HudiTable(str(root)).get_file_slices(
        options.with_as_of_timestamp(as_of) if as_of else options
    )
    return by_group(
        [
            HudiSlice(
                entry.partition_path,
                entry.file_id,
                entry.creation_instant_time,
                entry.base_file_name,
                entry.base_file_size,
                tuple(entry.log_file_names),
                tuple(entry.log_file_sizes),
            )
            for entry in found
        ]
    )


@given(
    merge_on_read=st.booleans(),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=12),
    number=st.integers(0, 10**6),
)
@settings(
    max_examples=profiles.examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_histories_are_listed_as_hudi_rs_lists_them(
    merge_on_read: bool, actions: list[str], number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(number)
    table = SyntheticTable(tmp_path_factory.mktemp("history") / "table", merge_on_read)
    table.insert(rng.choices(PARTITIONS, k=3))
    for action in actions:
        table.act(action, rng, PARTITIONS, most=3)
    assert listed(table.root) == listed_by_hudi_rs(table.root)
    for instant in read_timeline(open_store(str(table.root), {})).completed:
        assert listed(table.root, instant) == listed_by_hudi_rs(table.root, instant), instant


@pytest.fixture
def table(tmp_path: Path) -> SyntheticTable:
    made = SyntheticTable(tmp_path / "t", merge_on_read=True)
    made.insert(["city=a", "city=b"])
    return made


def leave_behind(table: SyntheticTable, token: str) -> tuple[str, Path]:
    """What a task that ran twice leaves: a second base file of one write. Returns the committed file, too."""
    group = next(iter(table.groups.values()))
    folder = table.root / group.partition
    left = folder / group.base.replace("_0-1-", f"_{token}-")
    left.write_bytes((folder / group.base).read_bytes())
    assert left.name != group.base
    return group.base, left


@pytest.mark.parametrize("token", ["0-0", "0-2", "9-1"])
def test_of_two_base_files_of_one_write_that_counts_which_the_commit_names(
    table: SyntheticTable, token: str
) -> None:
    before = listed(table.root)
    leave_behind(table, token)
    assert listed(table.root) == before
    with pytest.raises(BaseException, match="already present in File Group"):
        listed_by_hudi_rs(table.root)
    found = pruner.open_table(str(table.root)).snapshot()
    bases = {Path(entry.base_file).name for entry in found.slices if entry.base_file is not None}
    assert bases == {entry.base for entry in before}


@pytest.mark.parametrize("names", [0, 2])
def test_a_second_base_file_is_no_guess_where_the_commit_does_not_tell(
    table: SyntheticTable, names: int
) -> None:
    committed, left = leave_behind(table, "0-2")
    (commit,) = (table.root / ".hoodie").glob("*.deltacommit")
    text = json.loads(commit.read_text())
    for stats in text["partitionToWriteStats"].values():
        own = [stat for stat in stats if stat["path"].endswith(committed)]
        for stat in own:
            stats.remove(stat)
            path = stat["path"].replace(committed, left.name)
            stats.extend([stat, {**stat, "path": path}][:names])
    commit.write_text(json.dumps(text))
    for look in (listed, lambda root: pruner.open_table(str(root)).snapshot()):
        with pytest.raises(TableError, match="several base files of .* and no commit tells which counts"):
            look(table.root)


def test_data_in_a_folder_that_is_no_partition_is_not_passed_over(table: SyntheticTable) -> None:
    (table.root / "city=a" / ".hoodie_partition_metadata").unlink()
    with pytest.raises(TableError, match="'city=a' holds data files"):
        listed(table.root)


def test_a_replace_commit_that_cannot_be_read_is_an_error(table: SyntheticTable) -> None:
    table.replace(list(table.groups)[:1], ["city=b"])
    commit = next((table.root / ".hoodie").glob("*.replacecommit"))
    commit.write_text("{")
    with pytest.raises(TableError, match="is not understood"):
        listed(table.root)


def test_what_lies_beside_the_data_is_no_data(table: SyntheticTable) -> None:
    before = listed(table.root)
    group = next(iter(table.groups.values()))
    folder = table.root / group.partition
    for name in (f".{group.base}.crc", f"{group.base}.tmp", "_SUCCESS", "notes.parquet"):
        folder.joinpath(name).write_bytes(b"x")
    assert listed(table.root) == before


def test_a_clean_that_is_older_than_every_write_hides_none_of_them(table: SyntheticTable) -> None:
    """Writes are archived independently: the files of an archived one stay, whatever else the timeline begins with."""
    before = listed(table.root)
    (oldest,) = (table.root / ".hoodie").glob("*.deltacommit")
    table.update(list(table.groups)[:1], "compaction")
    for file in (table.root / ".hoodie").glob(f"{oldest.name.split('.')[0]}.*"):
        file.unlink()
    (table.root / ".hoodie" / "20200101000000000.clean").write_bytes(b"")
    assert {entry.file_id for entry in listed(table.root)} == {entry.file_id for entry in before}


@pytest.mark.parametrize(
    ("name", "is_base"),
    [
        ("a-0_0-1-2_20260101000000001.parquet", True),
        (".a-0_0-1-2_20260101000000001.parquet.crc", False),
        ("a-0_0-1-2_20260101000000001.parquet.crc", False),
        (".a-0_20260101000000001.log.1_0-1-2", False),
    ],
)
def test_names_of_base_files(name: str, is_base: bool) -> None:
    assert (base_name(name) is not None) == is_base


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": list(fields)})


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (WALL_CLOCK, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        (["null", {"type": "long", "logicalType": "timestamp-micros"}], pa.timestamp("us", "UTC")),
        (
            {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.decimal128(9, 2),
        ),
        ({"type": "array", "items": WALL_CLOCK}, pa.list_(pa.field("element", pa.timestamp("us")))),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        (
            {"type": "record", "name": "p", "fields": [{"name": "x", "type": ["null", WALL_CLOCK]}]},
            pa.struct([("x", pa.timestamp("us"))]),
        ),
        ({"type": "string", "logicalType": "unheard-of"}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 16}, pa.binary(16)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
    ],
)
def test_avro_types_as_arrow_types(type_: Any, expected: pa.DataType) -> None:
    schema = arrow_schema(record({"name": "x", "type": type_}), "t")
    assert schema.field("x").type == expected
    assert len(schema.names) == 1 + 5


def test_a_type_that_is_named_once_and_used_twice() -> None:
    point = {"type": "record", "name": "p", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    for known_as in ("p", "n.p"):
        schema = arrow_schema(record({"name": "a", "type": point}, {"name": "b", "type": known_as}), "t")
        assert schema.field("a").type == schema.field("b").type


@pytest.mark.parametrize(
    "schema",
    ["[]", "{", record({"name": "x", "type": ["int", "string"]}), record({"name": "x", "type": "nobody"})],
)
def test_schemas_that_are_not_understood_are_refused_in_one_sentence(schema: str) -> None:
    with pytest.raises(TableError, match="schema of the Hudi table t is not understood"):
        arrow_schema(schema, "t")


@pytest.fixture
def with_wall_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], SyntheticTable]:
    fields: list[Any] = [*SCHEMA["fields"], {"name": "at", "type": ["null", WALL_CLOCK], "default": None}]
    monkeypatch.setitem(SCHEMA, "fields", fields)
    return SyntheticTable


def test_a_table_with_a_wall_clock_opens_and_lists(
    with_wall_clock: Callable[[Path], SyntheticTable], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's TIMESTAMP_NTZ caused a panic of hudi-rs, with 40 lines on standard error and "not yet implemented"."""
    table = with_wall_clock(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    opened = pruner.open_table(str(table.root))
    table.insert(["city=a"])
    snapshot = opened.snapshot()
    assert {(entry.partition_path, entry.file_id) for entry in snapshot.slices} == set(table.groups)
    assert next(field.type for field in snapshot.schema.columns if field.name == "at") == pa.timestamp("us")
    assert "panicked" not in capfd.readouterr().err
