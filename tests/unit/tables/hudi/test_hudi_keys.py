"""Plans from made-up indexes over record keys of Hudi's: what they prove, and when they are not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.tables.hudi.metadata.listing import hashed_group
from tests.support.hudi.made_up.files import Group
from tests.support.hudi.made_up.groups import BORN_NOW, EVERYTHING, KEY, WITH_KEY, Keyed
from tests.support.hudi.made_up.keys import hadoop_filter
from tests.support.hudi.made_up.metadata import INITIAL, Stat
from tests.support.running.profiles import examples
from tests.unit.tables.hudi.test_hfile import MUTATIONS, mutated

LATER = "20260101000000002"


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    """A table with a complete record index."""
    found = Keyed(tmp_path / "table")
    found.keys.locate(found.places())
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("id = 15", [1]),
        ("id IN (3, 35)", [0, 3]),
        ("id = 3 OR id = 4 OR id = 25", [0, 2]),
        ("id = 15 AND city = 'a'", [1]),
        ("id = 77", []),
        ("id IN (15, 77)", [1]),
        ("id BETWEEN 14 AND 16", [1]),
        ("id > 8 AND id < 11", [0, 1]),
        ("NOT (id < 9 OR id > 10)", [0, 1]),
        ("(id BETWEEN 3 AND 4 OR id BETWEEN 35 AND 36) AND city != 'x'", [0, 3]),
        ("id BETWEEN 3 AND 2000", EVERYTHING),
        ("id NOT BETWEEN 14 AND 16", EVERYTHING),
        (f"{KEY} = '15'", [1]),
        (f"{KEY} IN ('15', '21')", [1, 2]),
        (f"{KEY} = 'x'", []),
        ("id != 15", EVERYTHING),
        ("NOT id = 15", EVERYTHING),
        ("id = 15 OR city = 'c'", EVERYTHING),
        ("id > 15", EVERYTHING),
        (f"{KEY} > '15'", EVERYTHING),
    ],
)
def test_keys_are_looked_up(keyed: Keyed, predicate: str, expected: list[int]) -> None:
    assert keyed.kept(predicate) == expected


def test_the_report_names_the_index(keyed: Keyed) -> None:
    assert "hudi.record_index: _hoodie_record_key IN ('15')" in keyed.open().plan("id = 15").explain()
    assert keyed.kept("id = 15", hudi_indexes=False) == EVERYTHING


@pytest.mark.sampled(2)
@pytest.mark.parametrize("named", [False, True])
def test_complex_keys_of_one_column_may_have_its_name(tmp_path: Path, named: bool) -> None:
    """Releases differ in how `ComplexKeyGenerator` writes them (hudi#12234)."""
    keyed = Keyed(tmp_path / "table", properties={**BORN_NOW, "hoodie.table.keygenerator.type": "COMPLEX"})
    keyed.keys.locate({f"id:{key}" if named else key: group for key, group in keyed.places().items()})
    assert [keyed.kept(f"id = {id_}") for id_ in (3, 15, 77)] == [[0], [1], []]


def test_file_ids_may_stand_as_text(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path / "table")
    keyed.keys.locate(keyed.places(), by_name=True)
    assert keyed.kept("id = 15") == [1]


def test_a_collation_of_its_own_asks_no_index(keyed: Keyed) -> None:
    semantics = pruner.Semantics(engine="duckdb", collation="nocase")
    assert keyed.open().plan(f"{KEY} = '15'", semantics=semantics).kept == 4


def test_a_key_that_may_stand_twice_is_not_believed(tmp_path: Path) -> None:
    """`insert` wrote the key 15 again, into another file: the index has only its newest location (hudi#17767)."""
    keyed = Keyed(tmp_path / "table")
    keyed.keys.locate(keyed.places({"15": keyed.groups[3]}))
    keyed.metadata.append(INITIAL, keyed.stats(3, values=11))
    assert keyed.kept("id = 15") == EVERYTHING
    assert "it has 40 keys and the files have 41 rows" in keyed.notes("id = 15")


def test_a_key_that_occurs_twice_in_the_index_keeps_every_file(tmp_path: Path) -> None:
    """As `hoodie.hfile.writes.allow.duplicates` builds it when key 15 is in two files: the numbers agree."""
    keyed = Keyed(tmp_path / "table")
    keyed.keys.locate(keyed.places(), twice={"15": keyed.groups[3]})
    keyed.metadata.append(INITIAL, keyed.stats(3, values=11))
    assert keyed.kept("id = 15") == EVERYTHING
    assert "a key occurs in it twice" in keyed.notes("id = 15")
    assert keyed.kept("id = 3") == [0]


def test_keys_of_merge_on_read_tables_are_not_believed(tmp_path: Path) -> None:
    """Its slices have no log files, and the numbers agree: key 15 is missing, and 88 is not the key of a row.

    Hudi 1.2 maintains the index by what log files say among themselves, so a deletion that came too late to count
    removes the key (`test_a_late_deletion_takes_a_key_out_of_hudis_index`).
    """
    keyed = Keyed(tmp_path / "table", merge_on_read=True)
    places = keyed.places({"88": keyed.groups[1]})
    del places["15"]
    keyed.keys.locate(places)
    assert keyed.kept("id = 15") == EVERYTHING
    assert "it may lack the key of a row" in keyed.notes("id = 15")


def test_files_without_statistics_are_not_counted(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path / "table")
    keyed.keys.locate(keyed.places())
    group = keyed.groups[2]
    for number in range(keyed.metadata.groups):
        gone = Stat(group.partition, group.base, KEY, "0", "~", deleted=True)
        keyed.metadata.append(INITIAL, [gone], group=number)
    assert keyed.kept("id = 15") == EVERYTHING
    assert "cannot be counted" in keyed.notes("id = 15")


@pytest.mark.slow
def test_log_files_of_the_index_are_counted(keyed: Keyed) -> None:
    """Keys that moved, new keys, keys that were deleted and came back: 40 keys as before."""
    moved = {"15": keyed.groups[2], "88": keyed.groups[0]}
    keyed.keys.log(LATER, moved, deleted=["7"])
    assert keyed.kept("id = 15") == [1], "the instant has not completed"
    keyed.metadata.complete(LATER)
    assert keyed.kept("id = 15") == [2]
    assert keyed.kept("id = 88") == [0]
    assert keyed.kept("id = 7") == []
    keyed.keys.log(LATER, {"7": keyed.groups[0]}, deleted=["88"])
    assert (keyed.kept("id = 7"), keyed.kept("id = 88")) == ([0], [])
    keyed.keys.log(LATER, {"89": keyed.groups[0]})
    assert keyed.kept("id = 7") == EVERYTHING
    assert "it has 41 keys and the files have 40 rows" in keyed.notes("id = 7")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deleted", [[], ["7"]])
def test_an_index_that_lost_a_log_file_is_not_believed(keyed: Keyed, deleted: list[str]) -> None:
    """The numbers agree without it: a key moved, or one was added and one removed."""
    came = {"15": keyed.groups[2]} if not deleted else {"88": keyed.groups[2]}
    (key,) = came
    keyed.keys.log(LATER, came, deleted)
    logs = sorted((keyed.metadata.root / "record_index").glob(".*.log.*"))
    stats = [
        {
            "fileId": f"record-index-{number:04}-0",
            "logFiles": [log.name for log in logs if f"x-{number:04}-" in log.name],
        }
        for number in range(keyed.keys.groups)
    ]
    commit = keyed.metadata.root / ".hoodie" / f"{LATER}.deltacommit"
    commit.write_text(json.dumps({"partitionToWriteStats": {"record_index": stats}}))
    assert keyed.kept(f"id = {key}") == [2]
    for log in logs:
        log.unlink()
    assert keyed.kept(f"id = {key}") == EVERYTHING
    assert "has lost the log file" in keyed.notes(f"id = {key}")


def test_a_place_outside_the_snapshot_is_not_believed(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path / "table")
    gone = Group("city=a", "00000000-0000-4000-8000-000000000000-0", "1", "")
    keyed.keys.locate(keyed.places({"15": gone}))
    assert keyed.kept("id = 15") == EVERYTHING
    assert "does not have" in keyed.notes("id = 15")
    assert keyed.kept("id = 16") == [1]


def test_time_travel_does_not_ask_it(keyed: Keyed) -> None:
    """The index tells where a key is now; the table has as many rows now as it had then."""
    then = keyed.groups[0].instant
    keyed.table.update([(keyed.groups[3].partition, keyed.groups[3].file_id)])
    pinned = keyed.open().snapshot(as_of=then)
    assert pinned.plan("id = 15").kept == 4


def test_an_index_newer_than_the_snapshot_is_not_asked(keyed: Keyed) -> None:
    """The table changed between the snapshot and the first lookup."""
    pinned = keyed.open().snapshot()
    (keyed.table.root / ".hoodie" / f"{LATER}.commit.requested").write_bytes(b"")
    assert pinned.plan("id = 15").kept == 4
    assert keyed.kept("id = 15") == [1]


def test_rows_in_log_files_are_not_counted(tmp_path: Path) -> None:
    keyed = Keyed(tmp_path / "table", merge_on_read=True)
    keyed.keys.locate(keyed.places())
    keyed.table.log([(keyed.groups[0].partition, keyed.groups[0].file_id)])
    assert keyed.kept("id = 15") == EVERYTHING
    assert "log files cannot be counted" in keyed.notes("id = 15")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"hoodie.table.initial.version": "8"},
        {**BORN_NOW, "hoodie.table.keygenerator.type": "USER_PROVIDED"},
        {**BORN_NOW, "hoodie.populate.meta.fields": "false"},
        {**BORN_NOW, "hoodie.table.recordkey.fields": "city"},
        {**BORN_NOW, "hoodie.table.recordkey.fields": "a.id"},
        {**BORN_NOW, "hoodie.table.recordkey.fields": ""},
    ],
)
def test_keys_that_may_not_be_those_of_the_columns_serve_themselves_alone(
    tmp_path: Path, properties: Mapping[str, str]
) -> None:
    """Releases before 1.0.1 let UPDATE change a key column, and bulk_insert of 0.12 wrote keys of other rows."""
    keyed = Keyed(tmp_path / "table", properties=properties)
    keyed.keys.locate(keyed.places())
    assert keyed.kept("id = 15") == EVERYTHING
    assert keyed.kept(f"{KEY} = '15'") == [1]


def test_after_schema_on_read_keys_serve_themselves_alone(keyed: Keyed) -> None:
    schemas = keyed.table.root / ".hoodie" / ".schema"
    schemas.mkdir()
    (schemas / f"{LATER}.schemacommit").write_text('{"schemas": []}')
    assert keyed.kept("id = 15") == EVERYTHING


@pytest.mark.slow
def test_composite_keys_need_all_their_columns(tmp_path: Path) -> None:
    fields = [*WITH_KEY["fields"], {"name": "part", "type": ["null", "string"], "default": None}]
    properties = {
        **BORN_NOW,
        "hoodie.table.recordkey.fields": "id,part",
        "hoodie.table.keygenerator.type": "COMPLEX",
    }
    keyed = Keyed(tmp_path / "table", properties=properties)
    keyed.table.schema = {**WITH_KEY, "fields": fields}
    keyed.table.update([(group.partition, group.file_id) for group in keyed.groups])
    keyed.groups = list(keyed.table.groups.values())
    keyed.metadata.append(INITIAL, [stat for number in range(4) for stat in keyed.stats(number)])
    named = {
        f"id:{id_},part:{'__empty__' if id_ == 15 else 'p'}": group
        for id_, group in ((int(key), group) for key, group in keyed.places().items())
    }
    keyed.keys.locate(named)
    assert keyed.kept("id = 3 AND part = 'p'") == [0]
    assert keyed.kept("id IN (3, 25) AND part IN ('p', 'q')") == [0, 2]
    assert keyed.kept("id = 15 AND part = ''") == [1]
    assert keyed.kept("id = 3 AND part = 'q'") == []
    assert keyed.kept("id = 3") == EVERYTHING
    assert keyed.kept("id = 3 OR part = 'p'") == EVERYTHING


def test_an_index_of_single_partitions_is_not_read(keyed: Keyed) -> None:
    (first,) = keyed.metadata.root.glob("record_index/record-index-0000*.hfile")
    first.rename(first.with_name(first.name.replace("record-index-0000-0", "record-index-city=a-0000-0")))
    assert keyed.kept("id = 15") == EVERYTHING
    assert "names of an unknown form" in keyed.notes("id = 15")


@pytest.mark.parametrize(
    ("key", "groups", "expected"),
    [("2", 10, 0), ("40", 10, 0), ("id:61,city:paris", 10, 0), ("", 10, 0), ("polygenelubricants", 10, 8)],
)
def test_the_hash_is_javas(key: str, groups: int, expected: int) -> None:
    """The last one hashes to the smallest integer, whose absolute value Java cannot represent."""
    assert hashed_group(key, groups) == expected


def test_a_key_in_another_group_than_its_hash_says_is_found(keyed: Keyed) -> None:
    files = sorted(keyed.metadata.root.glob("record_index/*.hfile"))
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    assert [keyed.kept(f"id = {id_}") for id_ in (0, 15, 39)] == [[0], [1], [3]]


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 5), mutations=MUTATIONS)
def test_no_damage_loses_a_key(
    place: int, mutations: Sequence[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    keyed = Keyed(tmp_path_factory.mktemp("damaged") / "table", partitions="record_index,bloom_filters")
    keyed.keys.locate(keyed.places())
    everything = {
        group: ("SIMPLE", hadoop_filter(map(str, range(n * 10, n * 10 + 10))))
        for n, group in enumerate(keyed.groups)
    }
    keyed.keys.filter(everything)
    targets = sorted(keyed.metadata.root.glob("[rb]*/*.hfile"))
    targets[place].write_bytes(mutated(targets[place].read_bytes(), mutations))
    assert 1 in keyed.kept("id = 15")


def test_status_says_what_is_made_of_the_indexes(keyed: Keyed) -> None:
    def uses() -> dict[str, str]:
        return keyed.open().status().hudi_indexes

    assert uses()["record_index"] == "used for record keys: 40 keys, as many as rows"
    assert uses()["column_stats"] == "used: 4 of 4 file groups"
    keyed.table.insert(["city=a"])
    assert uses()["column_stats"] == "used: 4 of 5 file groups"
    assert uses()["record_index"].startswith("not used: rows of files without statistics")
    properties = keyed.table.root / ".hoodie" / "hoodie.properties"
    with properties.open("a") as file:
        file.write("hoodie.table.metadata.partitions.inflight=secondary_index_city,record_index\n")
    assert uses()["record_index"] == uses()["secondary_index_city"] == "not used: Hudi is building it"
    assert keyed.open().plan("id = 15").kept == 5
