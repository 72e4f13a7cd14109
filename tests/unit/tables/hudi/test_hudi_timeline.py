"""The timeline from names alone, properties, and the meaning of file names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi.listing import (
    OWN_CODE,
    OWN_CODE_REPLAYED,
    HudiSlice,
    instant_of,
    mark_unsettled,
    misread_by_hudi_rs,
)
from pruner.tables.hudi.properties import HudiProperties, parse_properties, read_properties
from pruner.tables.hudi.timeline import Timeline, read_timeline

T1, T2, T3 = "20260101000000001", "20260101000000002", "20260101000000003"


def timeline(*names: str, version: int = 9, **properties: str) -> Timeline:
    values = {"hoodie.table.version": str(version)}
    values |= {"hoodie." + name.replace("_", "."): value for name, value in properties.items()}
    return Timeline(HudiProperties(values, repr(values).encode()), tuple(sorted(names)), (), ())


def test_states_of_instants_in_version_9():
    found = timeline(
        *(f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{T2}.commit"),
        *(f"{T2}.deltacommit.requested", f"{T2}.deltacommit.inflight"),
        f"{T3}.compaction.requested",
    )
    assert found.completed == {T1: "commit"}
    assert found.pending == {T2: "deltacommit", T3: "compaction"}
    assert found.oldest == T1


def test_states_of_instants_in_version_6():
    found = timeline(
        *(f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}.commit"),
        *(f"{T2}.compaction.requested", f"{T2}.compaction.inflight", f"{T2}.commit"),
        *(f"{T3}.commit.requested", f"{T3}.inflight"),
        version=6,
    )
    assert found.completed == {T1: "commit", T2: "commit"}
    assert found.pending == {T3: "commit"}


def test_a_completed_instant_without_its_time_is_not_known_to_be_completed():
    assert timeline(f"{T1}.commit", version=9).pending == {T1: "commit"}


def test_settled_is_what_completed_or_was_archived():
    found = timeline(f"{T2}_{T3}.commit", f"{T3}.commit.requested")
    assert found.settled(T1)
    assert found.settled(T2)
    assert not found.settled(T3)
    assert not found.settled("20270101000000000")
    assert not timeline().settled(T1)


@pytest.mark.parametrize("state", ["", ".requested"])
def test_an_indexer_that_stays_leaves_what_was_archived_behind_it_settled(state: str):
    """Hudi archives writes and keeps the instant of CREATE INDEX, which may be older than all of them."""
    indexing = f"{T1}.indexing{state}" if state else f"{T1}_{T1}.indexing"
    found = timeline(indexing, f"{T3}_{T3}.commit")
    assert found.settled(T2)
    assert found.oldest == T3
    assert not timeline(indexing).settled(T2)


@pytest.mark.parametrize(
    ("name", "instant"),
    [
        (f"f9-0_1-2-3_{T1}.parquet", T1),
        (f".f9-0_{T1}.log.1_0-299-440", T1),
        (f".f9-0_{T1}.log.12", T1),
        ("00000000-0_1-2-3_20130101000000.parquet", "20130101000000"),
        ("part-0.parquet", None),
        (".hoodie_partition_metadata", None),
    ],
)
def test_instants_in_file_names(name: str, instant: str | None):
    assert instant_of(name) == instant


def _slice(base: str = f"f_1_{T1}.parquet", *logs: str) -> HudiSlice:
    return HudiSlice("", "f", T1, base, 1, logs, tuple(1 for _ in logs))


@pytest.mark.parametrize(
    ("entry", "unsettled"),
    [
        (_slice(), False),
        (_slice(f"f_1_{T2}.parquet"), True),
        (_slice(f"f_1_{T1}.parquet", f".f_{T1}.log.1_0-1-1"), False),
        (_slice(f"f_1_{T1}.parquet", f".f_{T2}.log.1_0-1-1"), True),
        (_slice("", f".f_{T1}.log.1_0-1-1"), False),
        (_slice(f"f_1_{T1}.orc"), True),
        (_slice("strange.parquet"), True),
    ],
)
def test_slices_with_files_of_running_or_unknown_writes_are_unsettled(entry: HudiSlice, unsettled: bool):
    state = timeline(f"{T1}_{T2}.commit", f"{T2}.inflight")
    assert bool(mark_unsettled([entry], state)[0].unsettled) == unsettled


def test_logs_merged_by_own_code_in_version_6_leave_nothing_settled():
    merge_on_read = {"table_type": "MERGE_ON_READ"}
    usual = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    for payload, unsettled in ((usual, False), ("com.example.Sum", True)):
        state = timeline(f"{T1}.commit", version=6, compaction_payload_class=payload, **merge_on_read)
        assert bool(mark_unsettled([_slice()], state)[0].unsettled) == unsettled


PACKAGE = "org.apache.hudi.common.model."
BY_PAYLOAD = {
    "record_merge_mode": "CUSTOM",
    "record_merge_strategy_id": "00000000-0000-0000-0000-000000000000",
}
"""What version 8 stores for payloads that combine rows, and for unknown payloads."""


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    ("properties", "known"),
    [
        ({}, True),
        ({"record_merge_mode": "COMMIT_TIME_ORDERING"}, True),
        ({"record_merge_mode": "EVENT_TIME_ORDERING", "table_partial_update_mode": "IGNORE_DEFAULTS"}, True),
        ({"record_merge_mode": "EVENT_TIME_ORDERING", "table_partial_update_mode": "FILL_DEFAULTS"}, False),
        ({"record_merge_mode": "CUSTOM"}, False),
        (BY_PAYLOAD, False),
        ({**BY_PAYLOAD, "compaction_payload_class": f"{PACKAGE}PartialUpdateAvroPayload"}, True),
        ({**BY_PAYLOAD, "compaction_payload_class": f"{PACKAGE}PostgresDebeziumAvroPayload"}, True),
        ({**BY_PAYLOAD, "compaction_payload_class": "com.example.Sum"}, False),
        (
            {
                "record_merge_mode": "CUSTOM",
                "record_merge_strategy_id": "1897ef5f-18bc-4557-939c-9d6a8afd1519",
                "compaction_payload_class": f"{PACKAGE}PartialUpdateAvroPayload",
            },
            False,
        ),
        ({"record_merge_mode": "SOMETHING_NEW"}, False),
        ({"record_merge_strategy_id": "1897ef5f-18bc-4557-939c-9d6a8afd1519"}, False),
        ({"compaction_payload_class": f"{PACKAGE}PartialUpdateAvroPayload"}, True),
        ({"compaction_payload_class": "com.example.Sum"}, False),
        # Hudi 1.2 for Spark has no such class, so its behavior could not be tested.
        ({"compaction_payload_class": f"{PACKAGE}FirstValueAvroPayload"}, False),
        ({**BY_PAYLOAD, "compaction_payload_class": f"{PACKAGE}FirstValueAvroPayload"}, False),
    ],
)
def test_logs_count_only_where_merging_makes_no_values(version: int, properties: dict[str, str], known: bool):
    """R5: slices with logs are unsettled under unknown mergers; slices without logs never are."""
    state = timeline(f"{T1}_{T2}.deltacommit", version=version, table_type="MERGE_ON_READ", **properties)
    with_logs = _slice(f"f_1_{T1}.parquet", f".f_{T1}.log.1_0-1-1")
    plain, logged = mark_unsettled([_slice(), with_logs], state)
    assert not plain.unsettled
    assert (logged.unsettled == OWN_CODE) is not known


def test_the_rows_of_version_6_count_only_where_one_row_wins():
    """Hudi replays logs over a compacted base file there: partial updates would then undo newer ones."""
    state = timeline(
        f"{T1}.commit",
        version=6,
        table_type="MERGE_ON_READ",
        compaction_payload_class=f"{PACKAGE}PartialUpdateAvroPayload",
    )
    assert mark_unsettled([_slice()], state)[0].unsettled == OWN_CODE_REPLAYED


@pytest.mark.parametrize(
    "pending", ["deltacommit.inflight", "compaction.requested", "logcompaction.requested"]
)
def test_only_version_6_with_running_writers_of_logs_is_listed_by_hand(pending: str):
    merge_on_read = {"table_type": "MERGE_ON_READ"}
    names = (f"{T1}.deltacommit", f"{T2}.{pending}")
    assert misread_by_hudi_rs(timeline(*names, version=6, **merge_on_read))
    assert not misread_by_hudi_rs(timeline(*names, version=6))
    assert not misread_by_hudi_rs(timeline(*names, version=8, **merge_on_read))
    assert not misread_by_hudi_rs(
        timeline(f"{T1}.deltacommit", f"{T2}.clean.requested", version=6, **merge_on_read)
    )


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("a=b", ("a", "b")),
        ("a = b c ", ("a", "b c ")),
        ("a:b=c", ("a", "b=c")),
        (r"a\:b=c\=d", ("a:b", "c=d")),
        (r"a=s3\://lake", ("a", "s3://lake")),
        (r"a=\u00fc\t\\", ("a", "ü\t\\")),
        ("a", ("a", "")),
        ("a=", ("a", "")),
    ],
)
def test_lines_of_properties(line: str, pair: tuple[str, str]):
    assert parse_properties(f"#comment\n! another\n\n{line}\n") == dict([pair])


@given(st.text())
def test_no_text_makes_reading_properties_fail(text: str):
    assert all(isinstance(name, str) for name in parse_properties(text))


@pytest.mark.parametrize(
    ("properties", "generator"),
    [
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, "TIMESTAMP"),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator"}, "SIMPLE"),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, "COMPLEX"),
        (
            {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
            "TIMESTAMP",
        ),
        ({"hoodie.table.keygenerator.class": "com.example.OwnKeyGenerator"}, "Own"),
        ({}, ""),
    ],
)
def test_key_generators(properties: dict[str, str], generator: str):
    assert HudiProperties(properties, b"").key_generator == generator


def test_properties_that_are_being_rewritten_are_read_from_their_backup(tmp_path: Path):
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    (folder / "hoodie.properties.backup").write_text("hoodie.table.version=9\nhoodie.table.name=t\n")
    assert read_properties(open_store(str(tmp_path))).values["hoodie.table.name"] == "t"
    (folder / "hoodie.properties.backup").unlink()
    with pytest.raises(TableError, match="is not a Hudi table"):
        read_properties(open_store(str(tmp_path)))


def test_identity_outlives_writes_and_upgrades(tmp_path: Path):
    written = "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\n"
    upgraded = written.replace("version=6", "version=9") + "hoodie.table.metadata.partitions=files\n"
    other = written.replace("COPY_ON_WRITE", "MERGE_ON_READ")
    one, two, three = (
        HudiProperties(parse_properties(text), b"").identity() for text in (written, upgraded, other)
    )
    assert one == two
    assert one != three


def test_a_store_gives_the_same_timeline_as_the_disk(tmp_path: Path):
    files = {
        ".hoodie/hoodie.properties": "hoodie.table.version=9\nhoodie.table.name=t\n",
        f".hoodie/timeline/{T1}_{T2}.commit": "{}",
        f".hoodie/timeline/{T2}.inflight": "",
        ".hoodie/timeline/history/manifest_1": "",
        ".hoodie/.schema/0_1.schemacommit": "{}",
        ".hoodie/timeline/.tmp": "",
    }
    store = open_store(f"memory://{tmp_path.name}/table")
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        store.put_new(path, text.encode())
    found = read_timeline(open_store(str(tmp_path)))
    assert found == read_timeline(store)
    assert found.names == (f"{T1}_{T2}.commit", f"{T2}.inflight")
    assert found.history == ("manifest_1",)
