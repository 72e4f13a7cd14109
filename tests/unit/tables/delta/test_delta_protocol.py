"""What Delta's protocol requires of readers, with the tests that hold this reader to it, and edited logs.

A log that was edited by hand is read correctly or refused, and never read incompletely.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import TableError
from pruner.tables.delta.source import DeltaSource
from tests.support.delta.logs import Column, DeltaLog, made_up, portable, write_checkpoint
from tests.unit.tables.delta.test_delta import ID, VECTORS, held, ids, listed, refusal

HERE: Final = "test_delta_protocol"
LOOKS: Final = "test_delta_looks"
ROWS: Final = "test_duckdb_delta_rows"
READERS: Final[dict[str, tuple[str, ...]]] = {
    "Commits are applied in the order of their versions": ("test_delta.test_commits",),
    "Versions are contiguous": ("test_delta.test_a_gap_is_refused", f"{HERE}.test_a_gap_behind_a_checkpoint"),
    "Other files in the folder of the log are ignored": (f"{HERE}.test_other_files_are_no_part_of_the_log",),
    "Actions and fields that are not known are ignored": (f"{HERE}.test_what_is_not_known_is_ignored",),
    "The newest metaData and protocol hold": (
        f"{HERE}.test_the_newest_metadata_holds",
        "test_delta.test_r8_a_feature_that_comes_later_is_refused_at_the_next_look",
    ),
    "A file is identified by its path and its deletion vector": (
        "test_delta.test_a_checkpoint_and_what_came_behind_it",
        f"{HERE}.test_the_same_file_added_again",
    ),
    "The newest add or remove of a file holds": (f"{HERE}.test_adds_and_removes",),
    "A file is no part of the table twice": ("test_delta.test_a_file_that_is_added_twice_is_refused",),
    "Paths are URIs, relative to the table or absolute": (
        "test_delta.test_paths_are_decoded_once",
        "test_delta.test_files_of_a_clone_are_named_by_their_uris",
        f"{HERE}.test_odd_paths",
    ),
    "A checkpoint stands for all versions up to its own": (
        "test_delta.test_a_checkpoint_and_what_came_behind_it",
    ),
    "A checkpoint of several parts counts with all parts alone": (
        "test_delta.test_a_checkpoint_that_lacks_a_part_is_none_where_all_commits_are_there",
    ),
    "All sidecars of a V2 checkpoint are read": (
        "test_delta.test_a_missing_file_of_a_checkpoint_is_no_shorter_table",
        f"{HERE}.test_a_sidecar_that_is_gone_while_the_table_is_looked_at",
    ),
    "Any of several checkpoints of one version serves": (f"{HERE}.test_several_checkpoints_of_one_version",),
    "_last_checkpoint is a hint": ("test_delta.test_the_last_checkpoint_is_a_hint",),
    "A compacted commit stands for its range": (
        "test_delta.test_compacted_commits_stand_for_those_that_are_gone",
        f"{HERE}.test_a_compacted_commit_is_not_used_beyond_the_version",
        f"{LOOKS}.test_any_mixture_of_commits_compactions_and_checkpoints",
    ),
    "Features that are not known are refused": (
        "test_delta.test_r8_an_unknown_feature_is_refused_by_name",
        "test_delta.test_r8_a_newer_reader_version_is_refused",
        "test_delta.test_features_of_writers_alone_are_no_matter",
    ),
    "Deletion vectors say which rows are no longer there": (
        "test_delta.test_where_vectors_lie",
        "test_delta.test_vectors_of_the_older_form_and_beyond_32_bits",
        "test_delta.test_a_damaged_vector_is_refused",
    ),
    "Without tight bounds, statistics bound a superset": (
        "test_delta_statistics.test_d2_a_file_with_deleted_rows_is_described_by_more_than_it_has",
    ),
    "Under column mapping, physical names are those of files, statistics and partition values": (
        "test_delta_statistics.test_d3_statistics_go_by_the_names_in_the_files",
    ),
    "Greatest moments are cut to milliseconds": (
        "test_delta_statistics.test_d1_greatest_moments_are_cut_to_milliseconds",
    ),
    "Partition values are texts in the log, whatever the folders say; an empty one is NULL": (
        "test_delta.test_partition_values_come_from_the_log",
        f"{HERE}.test_a_partition_value_that_is_not_there_is_null",
    ),
    "Widened types are read from files of the old type": (
        "test_delta_statistics.test_statistics_from_before_a_type_was_widened",
    ),
    "Changes of types that are not known are refused": (
        f"{HERE}.test_a_change_of_a_type_that_is_no_widening_is_refused",
    ),
    "Times in commits are used where the table has them, from the version on that enabled them": (
        "test_delta.test_time_travel_by_times_in_commits",
        f"{HERE}.test_moments_before_commits_had_times",
        f"{HERE}.test_a_commit_without_the_time_that_it_must_have",
    ),
    "A table keeps the names of its columns in files where its protocol has no column mapping": (
        f"{HERE}.test_column_mapping_without_its_feature_is_none",
        f"{HERE}.test_column_mapping_of_readers_of_version_2",
    ),
    "A checkpoint by the classic name may have sidecars, and one of the second kind may have none": (
        f"{HERE}.test_a_classic_name_with_sidecars",
        f"{HERE}.test_a_second_kind_without_sidecars",
    ),
    "Paths of sidecars are URIs": (f"{HERE}.test_paths_of_sidecars_are_uris",),
    "A column that a checkpoint lacks is null": (f"{HERE}.test_columns_that_a_checkpoint_lacks",),
    "A checkpoint that is newer than the version asked for is not used": (
        f"{HERE}.test_a_newer_checkpoint_is_not_used_for_the_past",
    ),
    "Checksums of versions may be missing, and other actions and fields are no matter": (
        f"{HERE}.test_what_is_for_others_is_no_matter",
    ),
    "Deletion vectors hold whatever delta.enableDeletionVectors says": (
        f"{HERE}.test_vectors_hold_without_the_setting",
    ),
    "An inline vector is Z85 of the same form": (
        f"{HERE}.test_an_inline_vector_of_another_reader",
        f"{HERE}.test_the_inline_vector_of_the_protocol_is_refused",
    ),
    "Without tight bounds, a number of NULLs says something where it is none or all alone": (
        f"{HERE}.test_numbers_of_nulls_without_tight_bounds",
    ),
    "Data files are of Parquet": (f"{HERE}.test_files_of_another_format_are_refused",),
    "Readers of version 3, and they alone, are told of features": (
        f"{HERE}.test_a_protocol_that_contradicts_itself_is_refused",
    ),
    "Commits that are staged are for the catalog to tell": (
        f"{HERE}.test_other_files_are_no_part_of_the_log",
        "test_delta.test_r8_an_unknown_feature_is_refused_by_name",
    ),
    "cdc actions add no file to the table": (f"{HERE}.test_what_is_for_others_is_no_matter",),
    "Columns of the change feed and of row tracking are hidden": (
        f"{ROWS}.test_columns_of_files_that_the_table_does_not_have_are_hidden",
    ),
    "Domains, transactions, row ids and clustering ask nothing of a reader": (
        f"{HERE}.test_what_is_for_others_is_no_matter",
        f"{HERE}.test_what_checkpoints_hold_for_others_is_no_matter",
        f"{HERE}.test_features_for_writers_are_no_matter",
    ),
    "Removes of a checkpoint are tombstones and say nothing of its files": (
        f"{HERE}.test_what_checkpoints_hold_for_others_is_no_matter",
    ),
    "Actions of a commit have no order": (f"{HERE}.test_actions_of_a_commit_in_any_order",),
    "Later metadata replaces all of the former": (f"{HERE}.test_later_metadata_replaces_all_of_the_former",),
    "Columns that a file lacks are NULL; defaults are for writers": (
        f"{ROWS}.test_a_column_that_a_file_lacks_is_null_and_not_its_default",
    ),
    "Constraints, invariants, generation and identity are for writers": (
        f"{ROWS}.test_columns_with_rules_for_writers_are_columns",
    ),
    "Partition values are those of the log where files have the columns too": (
        f"{ROWS}.test_partition_values_are_those_of_the_log_where_files_hold_others",
    ),
    "An empty partition value is NULL, whatever the type; numbers are their texts": (
        f"{ROWS}.test_an_empty_partition_value_is_null",
        f"{ROWS}.test_numbers_as_partition_values",
    ),
    "All codecs and both kinds of pages are read, whatever the settings say": (
        f"{ROWS}.test_every_codec_and_both_kinds_of_pages",
    ),
    "Decimals, moments and lists are read in each form": (
        f"{ROWS}.test_types_in_each_form_that_files_may_have_them_in",
    ),
    "Values of narrower types are converted, at any depth": (
        f"{ROWS}.test_values_of_files_from_before_a_type_was_widened",
    ),
    "Columns of type void are left out": (f"{ROWS}.test_void_columns_are_left_out",),
    "Statistics of a checkpoint are texts, columns, or both": (
        "test_delta_statistics.test_statistics_of_checkpoints",
        "test_delta_statistics.test_typed_statistics_of_a_checkpoint",
    ),
    "Bounds of a column of NULLs carry no information": ("test_delta_statistics.test_a_column_of_nulls",),
    "A log may begin with a checkpoint, whose commit may be gone": (
        f"{HERE}.test_versions_from_before_the_oldest_checkpoint_are_refused",
        f"{HERE}.test_a_newer_checkpoint_is_not_used_for_the_past",
    ),
    "Files of a vector begin at its offset, and at 0 where it has none": (
        f"{HERE}.test_a_vector_without_an_offset",
    ),
    "Vectors of other versions, magic numbers and checksums are refused": (
        "test_delta.test_a_damaged_vector_is_refused",
        f"{HERE}.test_vectors_of_unknown_forms_are_refused",
    ),
}


def test_each_sentence_has_its_tests():
    tests_ = Path(__file__).parents[3]
    paths = [*tests_.glob("unit/tables/delta/*.py"), *tests_.glob("engines/delta/*.py")]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    for sentence, tests in READERS.items():
        for test in tests:
            module, _, name = test.partition(".")
            assert re.search(rf"^def {name}\(", texts[module], re.MULTILINE), (sentence, test)


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    made = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    made.append(ids(0, 10), ids(10, 20))
    made.append(ids(20, 30))
    return made


def test_a_gap_behind_a_checkpoint(table: DeltaLog):
    source = DeltaSource(str(table.root))
    source.snapshot()
    write_checkpoint(table)
    table.append(ids(30, 40))
    gone = table.commit_file(table.version)
    table.append(ids(40, 50))
    kept = gone.read_bytes()
    gone.unlink()
    told = f"has no commit of version {table.version - 1}"
    assert told in refusal(table.root)
    with pytest.raises(TableError, match=told):
        source.snapshot()
    gone.write_bytes(kept)
    assert listed(source) == held(table)


def test_versions_from_before_the_oldest_checkpoint_are_refused(table: DeltaLog):
    write_checkpoint(table)
    for version in range(table.version):
        table.commit_file(version).unlink()
    assert listed(DeltaSource(str(table.root))) == held(table)
    assert "has no commit of version 0" in refusal(table.root, str(table.version - 1))


def test_other_files_are_no_part_of_the_log(table: DeltaLog):
    line = json.dumps({"add": {**next(iter(table.files.values())).add, "path": "other.parquet"}})
    later = f"{table.version + 1:020d}"
    for name in (
        f"{later}.json.tmp",
        f".{later}.json.crc",
        f"{later}.crc",
        f"{later[1:]}.json",
        f"{later}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        f"_staged_commits/{later}.json",
        f"_staged_commits/{later}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        f"{later}.checkpoint.parquet.tmp",
        f"{later}.checkpoint.json",
    ):
        (table.log / name).parent.mkdir(exist_ok=True)
        (table.log / name).write_text(line)
    assert listed(DeltaSource(str(table.root))) == held(table)


def test_what_is_not_known_is_ignored(table: DeltaLog):
    add = table.files[table.append(ids(30, 40))[0]].add
    commit = table.commit_file(table.version)
    actions = [
        {"newAction": {"path": "x"}},
        {"txn": {"appId": "a", "version": 1}},
        {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
        {"add": {**add, "newField": {"a": [1]}, "tags": {"k": None}, "baseRowId": 7}},
        {"commitInfo": {"engineInfo": 7, "operation": None}},
    ]
    commit.write_text("".join(json.dumps(each) + "\n" for each in actions))
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("harm", ["no path", "no size", "path is a number", "no partition values"])
def test_an_add_that_is_not_understood_is_refused(table: DeltaLog, harm: str):
    add: dict[str, Any] = dict(next(iter(table.files.values())).add)
    if harm == "path is a number":
        add["path"] = 7
    else:
        del add[{"no path": "path", "no size": "size"}.get(harm, "partitionValues")]
    commit = table.commit({"add": add})
    assert commit.name in refusal(table.root)


def test_the_newest_metadata_holds(table: DeltaLog):
    table.add_column("later", "string")
    source = DeltaSource(str(table.root))
    assert [entry.path for entry in source.snapshot().schema.columns] == [("id",), ("later",)]
    table.drop("later")
    assert [entry.path for entry in source.snapshot().schema.columns] == [("id",)]
    assert listed(source) == held(table)


def test_the_same_file_added_again(table: DeltaLog):
    """With other statistics, as a recomputation writes them; in a commit of its own, and twice in one."""
    source = DeltaSource(str(table.root))
    source.snapshot()
    for path, file in list(table.files.items())[:2]:
        stats = json.dumps(
            {"numRecords": 10, "minValues": {"id": -5}, "maxValues": {"id": 99}, "nullCount": {"id": 0}}
        )
        again = {"add": {**file.add, "stats": stats, "dataChange": False}}
        table.commit(again, again)
        assert listed(source) == listed(DeltaSource(str(table.root))) == held(table), path
    opened = pruner.open_table(str(table.root))
    assert opened.plan("id = 50").kept == 2
    write_checkpoint(table)
    assert listed(DeltaSource(str(table.root))) == held(table)


def test_adds_and_removes(table: DeltaLog):
    (first, second, third) = table.files
    adds = {path: file.add for path, file in table.files.items()}
    gone = {path: {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for path in adds}
    source = DeltaSource(str(table.root))
    table.commit(gone[first], {"remove": {"path": "never/added.parquet", "dataChange": True}})
    table.commit({"add": adds[first]}, gone[second])
    table.commit(gone[third])
    table.commit({"add": adds[third]})
    del table.files[second]
    assert listed(source) == listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kinds",
    [("v2_json", "v2_parquet"), ("classic", "v2_json"), ("parts", "v2_parquet"), ("classic", "parts")],
)
def test_several_checkpoints_of_one_version(table: DeltaLog, kinds: tuple[str, str]):
    for kind in kinds:
        write_checkpoint(table, kind)
    for version in range(table.version + 1):
        table.commit_file(version).unlink()
    assert listed(DeltaSource(str(table.root))) == held(table)
    table.append(ids(50, 60))
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("kind", ["v2_json", "v2_parquet"])
def test_a_sidecar_that_is_gone_while_the_table_is_looked_at(table: DeltaLog, kind: str):
    write_checkpoint(table, kind)
    for version in range(table.version + 1):
        table.commit_file(version).unlink()
    for sidecar in sorted(table.log.glob("_sidecars/*")):
        content = sidecar.read_bytes()
        sidecar.unlink()
        assert sidecar.name in refusal(table.root)
        sidecar.write_bytes(content[: len(content) // 2])
        assert sidecar.name in refusal(table.root)
        sidecar.write_bytes(content)
    assert listed(DeltaSource(str(table.root))) == held(table)


def test_a_checkpoint_without_the_schema_is_refused(table: DeltaLog):
    write_checkpoint(table)
    (checkpoint,) = table.log.glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint)
    for name in ("metaData", "protocol"):
        pq.write_table(rows.filter(rows.column(name).is_null()), checkpoint)
        assert name in refusal(table.root)


def test_a_compacted_commit_is_not_used_beyond_the_version(table: DeltaLog):
    before = listed(DeltaSource(str(table.root)))
    version = table.version
    table.append(ids(40, 50))
    lines = [table.commit_file(each).read_text() for each in (version, version + 1)]
    compacted = table.log / f"{version:020d}.{version + 1:020d}.compacted.json"
    compacted.write_text("".join(lines))
    past = DeltaSource(str(table.root)).snapshot_at(str(version))
    assert set(past.columns.column("base_file").to_pylist()) == set(before)
    assert listed(DeltaSource(str(table.root))) == held(table)
    compacted.write_bytes(compacted.read_bytes()[:-30])
    assert compacted.name in refusal(table.root)


ODD: Final = (
    "a b.parquet",
    "a%20b.parquet",
    "100%.parquet",
    "p=1/q=a=b.parquet",
    "ü/日本.parquet",
    "a+b&c;d,e.parquet",
    "a#b?c.parquet",
    'it\'s "x".parquet',
    "[a]{b}*.parquet",
    "back\\slash.parquet",
    "_hidden/.x.parquet",
    "a:b.parquet",
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("spelled", [quote, lambda path: quote(path, safe="/=:+,&;'[]{}*")])
@pytest.mark.parametrize("kind", ["", "classic", "v2_json"])
def test_odd_paths(tmp_path: Path, spelled: Callable[[str], str], kind: str):
    table = DeltaLog(tmp_path / "t", ID)
    for at, name in enumerate(ODD):
        (path,) = table.append(ids(at * 10, at * 10 + 10))
        file = table.files.pop(path)
        place = table.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (table.root / path).rename(place)
        file.add["path"] = spelled(name)
        table.commit_file(table.version).write_text(json.dumps({"add": file.add}) + "\n")
        table.files[file.add["path"]] = file
    if kind:
        write_checkpoint(table, kind)
    source = DeltaSource(str(table.root))
    uris = set(listed(source))
    assert uris == {str(table.root / name) for name in ODD}
    assert all(Path(uri).is_file() for uri in uris)
    opened = pruner.open_table(str(table.root))
    for at, name in enumerate(ODD):
        assert list(opened.plan(f"id = {at * 10 + 5}").files) == [str(table.root / name)]
    # However a remove spells the path, it is the same file.
    table.commit(*({"remove": {"path": quote(name, safe=""), "dataChange": True}} for name in ODD[:6]))
    left = {str(table.root / name) for name in ODD[6:]}
    assert set(listed(source)) == set(listed(DeltaSource(str(table.root)))) == left


CHANGES: Final = [
    ("byte", "short", True),
    ("short", "long", True),
    ("integer", "double", True),
    ("long", "double", False),
    ("float", "double", True),
    ("double", "float", False),
    ("long", "integer", False),
    ("date", "timestamp_ntz", True),
    ("date", "timestamp", False),
    ("integer", "string", False),
    ("decimal(4,2)", "decimal(8,4)", True),
    ("decimal(4,2)", "decimal(8,2)", True),
    ("decimal(4,2)", "decimal(5,4)", False),
    ("decimal(4,2)", "decimal(4,1)", False),
    ("short", "decimal(12,2)", True),
    ("short", "decimal(11,2)", False),
    ("long", "decimal(20,0)", True),
    ("long", "decimal(19,0)", False),
    ("long", "decimal(22,3)", False),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", ["", "struct", "array", "map"])
@pytest.mark.parametrize(("old", "new", "is_known"), CHANGES)
def test_a_change_of_a_type_that_is_no_widening_is_refused(
    tmp_path: Path, old: str, new: str, place: str, *, is_known: bool
):
    changes = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
    field: dict[str, Any] = {"name": "c", "type": new, "nullable": True, "metadata": changes}
    if place:
        struct: Any = {"type": "struct", "fields": [field]}
        holder = {
            "struct": struct,
            "array": {"type": "array", "elementType": struct, "containsNull": True},
            "map": {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True},
        }[place]
        field = {"name": "s", "type": holder, "nullable": True, "metadata": {}}
    for features in (("typeWidening",), ("typeWidening-preview",), VECTORS):
        table = DeltaLog(tmp_path / features[0], ID, features=features)
        metadata = table.metadata()
        metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [field]})
        table.commit(metadata)
        if is_known or features == VECTORS:
            assert DeltaSource(str(table.root)).snapshot().schema.columns
        else:
            assert f"whose type changed from {old} to {new}" in refusal(table.root)


def test_moments_before_commits_had_times(tmp_path: Path):
    """In a copy of a table all files are new, which does not matter for the commits that have times."""
    settings = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "5000000",
    }
    table = DeltaLog(tmp_path / "t", ID, configuration=settings)
    for at in range(4):
        table.append(ids(at * 5, at * 5 + 5))
    for version, moment in ((2, 5_000_000), (3, 6_000_000), (4, 7_000_000)):
        commit = table.commit_file(version)
        told = json.dumps({"commitInfo": {"inCommitTimestamp": moment}})
        commit.write_text("\n".join([told, *commit.read_text().splitlines()[1:]]) + "\n")
    source = DeltaSource(str(table.root))
    moments = ("01:23:20", "01:39:59", "01:40:00", "01:56:40", "23:00:00")
    assert [len(source.snapshot_at(f"1970-01-01T{each}Z")) for each in moments] == [2, 2, 3, 4, 4]
    assert "its log begins with" in refusal(table.root, "1970-01-01T01:23:19Z")
    for version, seconds in ((0, 1000), (1, 2000)):
        os.utime(table.commit_file(version), (seconds, seconds))
    found = [len(source.snapshot_at(f"1970-01-01T{each}Z")) for each in ("00:16:40", "00:33:20", "01:23:19")]
    assert found == [0, 1, 1]


def test_a_commit_without_the_time_that_it_must_have(tmp_path: Path):
    """Spark fails there; in a copied table the file's time would be that of the copy."""
    table = DeltaLog(tmp_path / "t", ID, configuration={"delta.enableInCommitTimestamps": "true"})
    table.append(ids(0, 5))
    assert "commit 0 has none: read the table by version number" in refusal(
        table.root, "2100-01-01T00:00:00Z"
    )
    assert [len(DeltaSource(str(table.root)).snapshot_at(version)) for version in "01"] == [0, 1]


def _with_protocol(table: DeltaLog, **protocol: Any) -> DeltaLog:
    table.commit({"protocol": {"minWriterVersion": 7, **protocol}})
    return table


MAPPED: Final = (Column("shown", "long", "stored", 1),)


def test_column_mapping_without_its_feature_is_none(tmp_path: Path):
    for number, protocol in enumerate(
        ({"minReaderVersion": 1}, {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]})
    ):
        table = DeltaLog(tmp_path / str(number), MAPPED, configuration={"delta.columnMapping.mode": "name"})
        (field,) = DeltaSource(str(_with_protocol(table, **protocol).root)).snapshot().schema.columns
        assert field.recorded == ("shown",)


def test_column_mapping_of_readers_of_version_2(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", MAPPED, configuration={"delta.columnMapping.mode": "name"})
    (field,) = DeltaSource(str(_with_protocol(table, minReaderVersion=2).root)).snapshot().schema.columns
    assert field.recorded == ("stored",)


def test_columns_by_id_with_names_that_files_need_not_have_are_refused(tmp_path: Path):
    """A table converted from Iceberg: a file from before a rename has the id under the old name."""
    columns = (Column("id", "long", *made_up(1)), Column("shown", "long", "shown", 2))
    table = DeltaLog(tmp_path / "t", columns, mapping="id", features=("deletionVectors",))
    assert "has the physical name 'shown'" in refusal(table.root)
    assert "column shown" in refusal(table.root)
    inner = Column("s", "struct", *made_up(2), (Column("shown", "long", "shown", 3),))
    nested = DeltaLog(tmp_path / "n", (Column("id", "long", *made_up(1)), inner), mapping="id")
    assert "column s.shown has the physical name 'shown'" in refusal(nested.root)
    by_name = DeltaLog(tmp_path / "m", columns, mapping="name")
    (_, field) = DeltaSource(str(by_name.root)).snapshot().schema.columns
    assert field.recorded == ("shown",)


def test_a_classic_name_with_sidecars(table: DeltaLog):
    write_checkpoint(table, "v2_parquet")
    (checkpoint,) = table.log.glob("*.checkpoint.*")
    checkpoint.rename(table.log / f"{table.version:020d}.checkpoint.parquet")
    without_commits(table)
    assert listed(DeltaSource(str(table.root))) == held(table)


def without_commits(table: DeltaLog) -> None:
    for version in range(table.version + 1):
        table.commit_file(version).unlink()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_second_kind_without_sidecars(table: DeltaLog, form: str):
    stem = table.log / f"{table.version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
    if form == "json":
        actions = [{"checkpointMetadata": {"version": table.version}}, *table.actions()]
        Path(f"{stem}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))
    else:
        write_checkpoint(table, "classic")
        (table.log / f"{table.version:020d}.checkpoint.parquet").rename(f"{stem}.parquet")
    without_commits(table)
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("form", ["v2_json", "v2_parquet"])
def test_paths_of_sidecars_are_uris(table: DeltaLog, form: str):
    write_checkpoint(table, form)
    for number, sidecar in enumerate(sorted(table.log.glob("_sidecars/*"))):
        sidecar.rename(sidecar.with_name(f"part {number}.parquet"))
        _name_sidecar(table, sidecar.name, f"part%20{number}.parquet")
    without_commits(table)
    assert listed(DeltaSource(str(table.root))) == held(table)


def _name_sidecar(table: DeltaLog, old: str, new: str) -> None:
    """Change the name of a sidecar in a checkpoint."""
    (checkpoint,) = table.log.glob("*.checkpoint.*")
    if checkpoint.suffix == ".json":
        checkpoint.write_text(checkpoint.read_text().replace(old, new))
        return
    rows = pq.read_table(checkpoint)
    named: list[Any] = rows.column("sidecar").to_pylist()
    changed = [each and {**each, "path": each["path"].replace(old, new)} for each in named]
    at = rows.schema.get_field_index("sidecar")
    column = pa.array(changed, rows.schema.field("sidecar").type)
    pq.write_table(rows.set_column(at, "sidecar", column), checkpoint)


def test_columns_that_a_checkpoint_lacks(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    table.append(ids(0, 10), ids(10, 20))
    write_checkpoint(table)
    (checkpoint,) = table.log.glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint).drop_columns(["checkpointMetadata", "sidecar"])
    for name, lacking in (("add", {"stats", "deletionVector"}), ("protocol", {"readerFeatures"})):
        type_: Any = rows.schema.field(name).type
        left = pa.struct([each for each in type_ if each.name not in lacking])
        values = [
            each and {key: value for key, value in each.items() if key not in lacking}
            for each in rows.column(name).to_pylist()
        ]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, left))
    pq.write_table(rows, checkpoint)
    without_commits(table)
    assert listed(DeltaSource(str(table.root))) == held(table)
    assert pruner.open_table(str(table.root)).plan("id = 5").kept == 2


@pytest.mark.parametrize("kind", ["classic", "v2_json"])
def test_a_newer_checkpoint_is_not_used_for_the_past(table: DeltaLog, kind: str):
    before = listed(DeltaSource(str(table.root)))
    version = table.version
    table.append(ids(30, 40))
    write_checkpoint(table, kind)
    past = DeltaSource(str(table.root)).snapshot_at(str(version))
    assert past.columns.column("base_file").to_pylist() == list(before)


def test_what_is_for_others_is_no_matter(table: DeltaLog):
    """Domains, transactions, changes and checksums of versions, also a wrong one."""
    domain = {"domain": "delta.clustering", "configuration": "{}", "removed": True}
    table.commit(
        {"domainMetadata": domain},
        {"txn": {"appId": "a", "version": 3, "lastUpdated": None}},
        {"cdc": {"path": "_change_data/x.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
    )
    (table.log / f"{table.version:020d}.crc").write_text('{"numFiles": 4711}')
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_vectors_hold_without_the_setting(tmp_path: Path, kind: str):
    table = DeltaLog(
        tmp_path / "t", ID, features=VECTORS, configuration={"delta.enableDeletionVectors": "false"}
    )
    (path,) = table.append(ids(0, 10))
    table.delete({path: [1, 2]}, kind)
    assert listed(DeltaSource(str(table.root))) == held(table) == {str(table.root / path): 2}


def test_an_inline_vector_of_another_reader(tmp_path: Path):
    """The test vector of delta-kernel-rs's readers; the protocol's own example has no known form: see below."""
    found = _inline(tmp_path / "t", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44)
    assert found.tolist() == [3, 4, 7, 11, 18, 29]


def test_the_inline_vector_of_the_protocol_is_refused(tmp_path: Path):
    """Its bytes are in the opposite order to the one that the protocol states, and no writer produces it."""
    with pytest.raises(TableError, match="of a form that this reader does not know"):
        _inline(tmp_path / "t", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40)


def _inline(root: Path, text: str, size: int) -> Any:
    table = DeltaLog(root, ID, features=VECTORS)
    (path,) = table.append(ids(0, 40))
    add = dict(table.files[path].add)
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 6}
    table.commit({"remove": {"path": path, "dataChange": True}}, {"add": {**add, "deletionVector": vector}})
    deletes = DeltaSource(str(table.root)).snapshot().deletes
    assert deletes is not None
    (rows,) = deletes.positions(np.array([0], np.intp))
    return rows


def test_numbers_of_nulls_without_tight_bounds(tmp_path: Path):
    """Two NULLs of four are reported; one, or none, may be left."""
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("v", "long")), features=VECTORS)
    stats = {"numRecords": 4, "minValues": {"id": 0}, "maxValues": {"id": 9}, "tightBounds": False}
    for nulls in (0, 2, 4):
        values = [None] * nulls + [7] * (4 - nulls)
        rows = pa.table({"id": pa.array([1, 2, 3, 4]), "v": pa.array(values, pa.int64())})
        table.append(rows, stats={**stats, "nullCount": {"id": 0, "v": nulls}})
    opened = pruner.open_table(str(table.root))
    kept = [opened.plan(f"v IS {each}NULL").kept_mask.tolist() for each in ("", "NOT ")]
    assert kept == [[False, True, True], [True, True, False]]


@pytest.mark.parametrize("provider", ["orc", "csv"])
def test_files_of_another_format_are_refused(tmp_path: Path, provider: str):
    table = DeltaLog(tmp_path / "t", ID)
    metadata = table.metadata()
    metadata["metaData"]["format"]["provider"] = provider
    table.commit(metadata)
    assert f"Delta table of '{provider}' files" in refusal(table.root)


def test_a_partition_value_that_is_not_there_is_null(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", (*ID, Column("p", "string")), partitioned=("p",))
    table.append(ids(0, 5), values={"p": "a"})
    table.append(ids(5, 9), values={})
    opened = pruner.open_table(str(table.root))
    assert (opened.plan("p IS NULL").kept, opened.plan("p = 'a'").kept) == (1, 1)


def test_statistics_of_a_past_version_are_at_hand_and_bounded(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    for at in range(30):
        table.append(pa.table({"id": [at]}))
    source = DeltaSource(str(table.root))
    past = [source.snapshot_at(str(version)) for version in range(table.version + 1)]
    current = source.snapshot()
    assert source.state_of(past[-1]) is not None
    assert source.state_of(current) is not None
    assert sum(source.state_of(each) is not None for each in past) == 16
    opened = pruner.open_table(str(table.root))
    assert opened.snapshot("10").plan("id = 3").kept == 1


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 3},
        {"minReaderVersion": 2, "readerFeatures": ["deletionVectors"]},
        {"minReaderVersion": 1, "readerFeatures": ["newThing"]},
    ],
)
@pytest.mark.parametrize("kind", ["", "classic", "v2_json"])
def test_a_protocol_that_contradicts_itself_is_refused(tmp_path: Path, protocol: dict[str, Any], kind: str):
    """As in Spark: what it requires of a reader is unknown."""
    table = DeltaLog(tmp_path / "t", ID)
    table.protocol = lambda: {"protocol": {"minWriterVersion": 7, **protocol}}
    table.commit(table.protocol())
    if kind:
        write_checkpoint(table, kind)
        without_commits(table)
    told = refusal(table.root)
    assert "readerFeatures, so that it is not known what the table asks of a reader" in told
    assert f"version {protocol['minReaderVersion']}" in told


FOR_WRITERS: Final = (
    *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"),
    *("changeDataFeed", "identityColumns", "rowTracking", "domainMetadata", "icebergCompatV1"),
    *("icebergCompatV2", "clustering", "inCommitTimestamp"),
)


def test_features_for_writers_are_no_matter(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    told = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [*FOR_WRITERS]}
    tracked = {
        "baseRowId": 0,
        "defaultRowCommitVersion": 2,
        "clusteringProvider": "liquid",
        "tags": {"a": "b"},
    }
    table.commit({"protocol": told})
    for add in [table.files[path].add for path in table.append(ids(0, 5), ids(5, 9))]:
        table.commit({"add": {**add, **tracked, "dataChange": False}})
    assert listed(DeltaSource(str(table.root))) == held(table)
    assert pruner.open_table(table.root).plan("id = 7").kept == 1


def test_what_checkpoints_hold_for_others_is_no_matter(table: DeltaLog):
    """Transactions, domains, and tombstones, also of files that exist with another vector, or none."""
    (path, *_) = table.files
    table.delete({path: [3]})
    before = {key: value for key, value in table.files[path].add.items() if key == "path"}
    write_checkpoint(table)
    (checkpoint,) = table.log.glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint)
    more = {
        "remove": [{**before, "deletionTimestamp": 1, "dataChange": True}, {**before, "dataChange": False}],
        "txn": [{"appId": "a", "version": 1}],
        "domainMetadata": [{"domain": "delta.clustering", "configuration": "{}", "removed": False}],
    }
    for name, values in more.items():
        added = pa.table({name: values})
        rows = pa.concat_tables([rows, added], promote_options="default")
    pq.write_table(rows, checkpoint)
    without_commits(table)
    assert listed(DeltaSource(str(table.root))) == held(table)


def test_actions_of_a_commit_in_any_order(table: DeltaLog):
    source = DeltaSource(str(table.root))
    source.snapshot()
    paths = list(table.files)
    for rows in ([1], [2, 3]):
        table.delete(dict.fromkeys(paths, rows))
        commit = table.commit_file(table.version)
        lines = commit.read_text().splitlines()
        for turn in (reversed(lines), lines[1::2] + lines[2::2] + lines[:1]):
            commit.write_text("\n".join(turn) + "\n")
            assert listed(DeltaSource(str(table.root))) == held(table)
    assert listed(source) == held(table)


def test_later_metadata_replaces_all_of_the_former(tmp_path: Path):
    """A setting or a partition column that it does not repeat is removed."""
    settings = {"delta.enableInCommitTimestamps": "true", "delta.enableDeletionVectors": "true"}
    table = DeltaLog(tmp_path / "t", (*ID, Column("p", "string")), ("p",), configuration=settings)
    source = DeltaSource(str(table.root))
    assert source.snapshot().may_leave_files
    table.configuration, table.partitioned = {}, ()
    table.commit(table.metadata())
    for each in (source.snapshot(), DeltaSource(str(table.root)).snapshot()):
        assert not each.may_leave_files
        assert not [field for field in each.schema.columns if field.partition]


def _with_vector(table: DeltaLog, data: bytes, **vector: Any) -> None:
    """Give the only file of a table a vector in a file of its own."""
    ((path, file),) = table.files.items()
    place = table.root / "v.bin"
    place.write_bytes(data)
    vector = {"storageType": "p", "pathOrInlineDv": place.as_uri(), **vector}
    add = {**file.add, "deletionVector": vector}
    table.commit({"remove": {"path": path, "dataChange": True}}, {"add": add})


def _deleted(table: DeltaLog) -> list[int]:
    deletes = DeltaSource(str(table.root)).snapshot().deletes
    assert deletes is not None
    (rows,) = deletes.positions(np.array([0], np.intp))
    return rows.tolist()


def _stored(content: bytes, checksum: int | None = None) -> bytes:
    check = zlib.crc32(content) if checksum is None else checksum
    return struct.pack(">I", len(content)) + content + struct.pack(">I", check)


def test_a_vector_without_an_offset(tmp_path: Path):
    """The offset is 0 then."""
    content = portable([2, 5])
    for number, (data, place) in enumerate(
        (
            (b"\x01" + _stored(content), {"offset": 1}),
            (_stored(content), {}),
            (_stored(content), {"offset": 0}),
        )
    ):
        table = DeltaLog(tmp_path / str(number), ID, features=VECTORS)
        table.append(ids(0, 9))
        _with_vector(table, data, sizeInBytes=len(content), cardinality=2, **place)
        assert _deleted(table) == [2, 5]


def test_vectors_of_unknown_forms_are_refused(tmp_path: Path):
    content = portable([2, 5])
    magic = struct.pack("<i", 1_681_511_378) + content[4:]
    for number, (data, size) in enumerate(
        (
            (b"\x01" + _stored(content, 7), len(content)),
            (b"\x01" + _stored(magic), len(magic)),
            (b"\x01" + _stored(content), len(content) - 1),
            (b"\x01" + _stored(content)[:-2], len(content)),
            (b"", len(content)),
        )
    ):
        table = DeltaLog(tmp_path / str(number), ID, features=VECTORS)
        table.append(ids(0, 9))
        _with_vector(table, data, offset=1, sizeInBytes=size, cardinality=2)
        with pytest.raises(TableError):
            _deleted(table)
