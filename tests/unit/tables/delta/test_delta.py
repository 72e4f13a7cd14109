"""Delta's log: which files belong to the table, and what is refused rather than read incompletely."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import pruner
from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.delta.actions import decoded
from pruner.tables.delta.source import DeltaSource
from pruner.tables.delta.state import place_of
from pruner.tables.delta.vectors import DeletionVectors
from tests.support.delta.logs import Column, DeltaLog, File, portable, write_checkpoint, z85

ID = (Column("id", "long"),)
VECTORS = ("deletionVectors",)
CHECKPOINTS = pytest.mark.parametrize("kind", ["classic", "parts", "v2_json", "v2_parquet"])


def ids(start: int, stop: int) -> pa.Table:
    return pa.table({"id": list(range(start, stop))})


def listed(source: DeltaSource) -> dict[str, int]:
    """The files of a table with the numbers of their deleted rows."""
    snapshot = source.snapshot()
    deletes = snapshot.deletes
    deleted = deletes.counts if isinstance(deletes, DeletionVectors) else np.zeros(len(snapshot), np.int64)
    uris: list[Any] = snapshot.columns.column("base_file").to_pylist()
    return dict(zip(uris, deleted.tolist(), strict=True))


def held(table: DeltaLog) -> dict[str, int]:
    return {str(table.root / path): len(file.deleted) for path, file in table.files.items()}


def refusal(root: Path, version: str | None = None) -> str:
    source = DeltaSource(str(root))
    look = source.snapshot if version is None else partial(source.snapshot_at, version)
    with pytest.raises(TableError) as caught:
        look()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    """Three files, one of them with deleted rows, and one that was removed."""
    made = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    paths = made.append(ids(0, 10), ids(10, 20), ids(20, 30), ids(30, 40))
    made.delete({paths[1]: [1, 2, 3]})
    made.remove(paths[3])
    return made


def test_commits(table: DeltaLog):
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.sampled(4)
@CHECKPOINTS
def test_a_checkpoint_and_what_came_behind_it(table: DeltaLog, kind: str):
    write_checkpoint(table, kind)
    source = DeltaSource(str(table.root))
    for version in range(table.version + 1):
        table.commit_file(version).unlink()
    assert listed(source) == held(table)
    (path,) = table.append(ids(40, 50))
    table.delete({path: [0], next(iter(table.files)): [5, 6]})
    assert listed(source) == listed(DeltaSource(str(table.root))) == held(table)
    # A file of the checkpoint that gets another vector, and one that is removed.
    table.delete({list(table.files)[1]: [7]})
    table.remove(list(table.files)[2])
    assert listed(source) == listed(DeltaSource(str(table.root))) == held(table)


@CHECKPOINTS
def test_a_missing_file_of_a_checkpoint_is_no_shorter_table(table: DeltaLog, kind: str):
    write_checkpoint(table, kind)
    for version in range(table.version + 1):
        table.commit_file(version).unlink()
    parts = sorted([*table.log.glob("*.checkpoint.*"), *table.log.glob("_sidecars/*")])
    parts[-1].unlink()
    told = refusal(table.root)
    assert "restore" in told or "nothing was written" in told, told


@CHECKPOINTS
def test_a_checkpoint_that_lacks_a_part_is_none_where_all_commits_are_there(table: DeltaLog, kind: str):
    write_checkpoint(table, kind)
    for part in [*table.log.glob("*.checkpoint.*")][:1]:
        part.unlink()
    assert listed(DeltaSource(str(table.root))) == held(table)


def test_a_gap_is_refused(table: DeltaLog):
    table.commit_file(1).unlink()
    assert "has no commit of version 1" in refusal(table.root)


@pytest.mark.parametrize("cut", [0, 1, 40, 200])
def test_a_torn_commit_is_refused(table: DeltaLog, cut: int):
    source = DeltaSource(str(table.root))
    before = source.snapshot()
    table.append(ids(40, 50))
    commit = table.commit_file(table.version)
    commit.write_bytes(commit.read_bytes()[:cut])
    assert commit.name in refusal(table.root)
    with pytest.raises(TableError, match=commit.name):
        source.snapshot(before)


@CHECKPOINTS
def test_a_torn_checkpoint_is_refused(table: DeltaLog, kind: str):
    write_checkpoint(table, kind)
    for part in table.log.glob("*.checkpoint.*"):
        part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    assert str(table.root) in refusal(table.root)


def test_a_look_with_no_commit_gives_the_same_snapshot(table: DeltaLog):
    source = DeltaSource(str(table.root))
    first = source.snapshot()
    assert source.snapshot(first) is first
    table.append(ids(40, 50))
    second = source.snapshot(first)
    assert (second.id != first.id, len(second)) == (True, 4)


def test_a_look_with_no_commit_reads_nothing(table: DeltaLog, monkeypatch: pytest.MonkeyPatch):
    source = DeltaSource(str(table.root))
    first = source.snapshot()
    store: Any = source._store  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(store, "get", lambda *_: pytest.fail("the log is read again"))
    assert source.snapshot(first) is first


def test_a_table_that_is_made_anew_is_another_one(table: DeltaLog, tmp_path: Path):
    source = DeltaSource(str(table.root))
    before, identity = source.snapshot(), source.identity()
    other = DeltaLog(tmp_path / "other", ID)
    while other.version < table.version:
        other.append(ids(0, 5))
    shutil.rmtree(table.root)
    other.root.rename(table.root)
    after = source.snapshot(before)
    assert after.id != before.id
    assert source.identity() != identity
    assert len(after) == len(other.files)


def test_a_snapshot_key_outlives_a_new_vector(table: DeltaLog):
    source = DeltaSource(str(table.root))
    before = source.snapshot()
    table.delete({next(iter(table.files)): [4]})
    after = source.snapshot(before)
    assert set(before.keys.to_pylist()) == set(after.keys.to_pylist())
    assert before.id != after.id
    assert int(after.stands.sum()) == 1
    assert int(before.stands.sum()) == 2


def test_compacted_commits_stand_for_those_that_are_gone(table: DeltaLog):
    actions = [json.loads(line) for at in (1, 2) for line in table.commit_file(at).read_text().splitlines()]
    last = {each["add"]["path"]: each for each in actions if "add" in each}
    removed = [each for each in actions if "remove" in each]
    lines = "".join(json.dumps(each) + "\n" for each in (*removed, *last.values()))
    (table.log / f"{1:020d}.{2:020d}.compacted.json").write_text(lines)
    assert listed(DeltaSource(str(table.root))) == held(table)
    table.commit_file(1).unlink()
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("hint", ["{}", "no JSON", '{"version": 99}', '{"version": 3, "size": 1}'])
def test_the_last_checkpoint_is_a_hint(table: DeltaLog, hint: str, tmp_path: Path):
    write_checkpoint(table)
    (table.log / "_last_checkpoint").write_text(hint)
    store = open_store(f"memory://{tmp_path.name}/t")
    for path in table.root.rglob("*"):
        if path.is_file():
            store.put_new(str(path.relative_to(table.root)), path.read_bytes())
    assert len(DeltaSource(store.uri).snapshot()) == len(table.files)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "variantType", "newThing"])
def test_r8_an_unknown_feature_is_refused_by_name(tmp_path: Path, feature: str):
    table = DeltaLog(tmp_path / "t", ID, features=("deletionVectors", feature))
    assert feature in refusal(table.root)
    with pytest.raises(TableError, match=feature):
        pruner.open_table(str(table.root))


def test_r8_a_newer_reader_version_is_refused(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    table.commit({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}})
    assert "readers of version 4" in refusal(table.root)


def test_r8_a_feature_that_comes_later_is_refused_at_the_next_look(table: DeltaLog):
    source = DeltaSource(str(table.root))
    source.snapshot()
    table.features = ("deletionVectors", "newThing")
    table.commit(table.protocol())
    with pytest.raises(TableError, match="newThing"):
        source.snapshot()


def test_features_of_writers_alone_are_no_matter(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    protocol = table.protocol()
    features = protocol["protocol"]
    features["writerFeatures"] = [*VECTORS, "rowTracking", "domainMetadata", "clustering", "newThing"]
    table.commit(protocol, {"domainMetadata": {"domain": "x", "configuration": "", "removed": False}})
    table.append(ids(0, 3))
    assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.parametrize("type_", ["variant", "geometry(OGC:CRS84)", "decimal(39,0)", {"type": "thing"}])
def test_r8_a_type_that_is_not_known_is_refused(tmp_path: Path, type_: Any):
    table = DeltaLog(tmp_path / "t", ID)
    metadata = table.metadata()
    column = {"name": "v", "type": type_, "nullable": True, "metadata": {}}
    metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [column]})
    table.commit(metadata)
    assert "column v of type" in refusal(table.root)


@pytest.mark.parametrize(
    "path",
    [
        "../other/a.parquet",
        "a/../../b.parquet",
        "./a.parquet",
        "a//b.parquet",
        "%2E%2E/a.parquet",
        "s3://b/k",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(table: DeltaLog, path: str):
    add = {**next(iter(table.files.values())).add, "path": path}
    table.commit({"add": add})
    assert "the log of" in refusal(table.root)


def test_files_of_a_clone_are_named_by_their_uris(table: DeltaLog, tmp_path: Path):
    clone = DeltaLog(tmp_path / "clone", ID, features=VECTORS)
    adds = [{**file.add, "path": (table.root / path).as_uri()} for path, file in table.files.items()]
    for add in adds:
        if "deletionVector" in add:
            vector = next(table.root.glob("*.bin"))
            add["deletionVector"] = {
                **add["deletionVector"],
                "storageType": "p",
                "pathOrInlineDv": vector.as_uri(),
            }
    clone.commit(*({"add": add} for add in adds))
    source = DeltaSource(str(clone.root))
    assert listed(source) == held(table)
    assert deleted(source) == {1, 2, 3}


@pytest.mark.parametrize("form", [lambda path: quote(str(path)), Path.as_uri], ids=["path", "uri"])
def test_absolute_paths_are_decoded_once(tmp_path: Path, form: Callable[[Any], str]):
    table = DeltaLog(tmp_path / "a b%20ü", ID, features=VECTORS)
    (path,) = table.append(ids(0, 5))
    table.delete({path: [1]})
    clone = DeltaLog(tmp_path / "clone", ID, features=VECTORS)
    add = dict(table.files[path].add)
    (vector,) = table.root.glob("*.bin")
    add["deletionVector"] = {**add["deletionVector"], "storageType": "p", "pathOrInlineDv": form(vector)}
    clone.commit({"add": {**add, "path": form(table.root / path)}})
    source = DeltaSource(str(clone.root))
    assert listed(source) == held(table)
    assert deleted(source) == {1}


def test_object_uris_of_a_clone_are_decoded_once():
    """Java's `Path.toUri` encodes them: the key of this object is `k=a%20b ü/c.parquet`."""
    assert place_of("s3://b/clone", decoded("s3a://b/t/k=a%2520b%20%C3%BC/c.parquet")) == (
        "s3://b/t/k=a%20b ü/c.parquet"
    )


def deleted(source: DeltaSource) -> set[int]:
    snapshot = source.snapshot()
    assert isinstance(snapshot.deletes, DeletionVectors)
    found = snapshot.deletes.positions(np.arange(len(snapshot)))
    return {int(each) for rows in found for each in rows}


def test_paths_are_decoded_once(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    (path,) = table.append(ids(0, 5))
    for name in ("a b%.parquet", "a%20b.parquet", "ä=ü/ß#?.parquet", "k=a%2Fb/c.parquet"):
        file = table.root / name
        file.parent.mkdir(exist_ok=True)
        shutil.copy(table.root / path, file)
        table.commit({"add": {**table.files[path].add, "path": quote(name)}})
        assert str(file) in listed(DeltaSource(str(table.root)))
    table.commit({"remove": {"path": "a%20b%25.parquet", "dataChange": True}})
    assert str(table.root / "a b%.parquet") not in listed(DeltaSource(str(table.root)))


@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_where_vectors_lie(tmp_path: Path, kind: str):
    table = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    paths = table.append(ids(0, 10), ids(10, 20))
    table.delete({paths[0]: [0, 9], paths[1]: [4]}, kind)
    source = DeltaSource(str(table.root))
    assert listed(source) == held(table)
    assert deleted(source) == {0, 4, 9}
    snapshot = source.snapshot()
    assert isinstance(snapshot.deletes, DeletionVectors)
    assert [each.tolist() for each in snapshot.deletes.positions(np.array([1]))] in ([[4]], [[0, 9]])


def test_vectors_of_the_older_form_and_beyond_32_bits(tmp_path: Path):
    import pyroaring

    low, high = pyroaring.BitMap([3, 5]).serialize(), pyroaring.BitMap([7]).serialize()
    native = struct.pack("<ii", 1_681_511_376, 2) + b"".join(
        struct.pack("<i", len(each)) + each for each in (low, high)
    )
    table = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    paths = table.append(ids(0, 10), ids(10, 20))
    for path, content, rows in zip(
        paths, (native, portable([2**33 + 1])), ({3, 5, 2**32 + 7}, {2**33 + 1}), strict=True
    ):
        vector = {
            "storageType": "i",
            "pathOrInlineDv": z85(content + b"\0" * (-len(content) % 4)),
            "sizeInBytes": len(content),
            "cardinality": len(rows),
        }
        add = table.files[path].add
        table.commit(
            {"remove": {"path": path, "dataChange": True}}, {"add": {**add, "deletionVector": vector}}
        )
    assert deleted(DeltaSource(str(table.root))) == {3, 5, 2**32 + 7, 2**33 + 1}


@pytest.mark.parametrize("harm", ["gone", "cut", "flipped", "count"])
def test_a_damaged_vector_is_refused(tmp_path: Path, harm: str):
    table = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    (path,) = table.append(ids(0, 10))
    table.delete({path: [1, 2]})
    file = next(table.root.glob("*.bin"))
    data = bytearray(file.read_bytes())
    if harm == "gone":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(data[:-3])
    elif harm == "flipped":
        data[-6] ^= 1
        file.write_bytes(data)
    else:
        commit = table.commit_file(table.version)
        commit.write_text(commit.read_text().replace('"cardinality": 2', '"cardinality": 3'))
    with pytest.raises(TableError, match="delet"):
        deleted(DeltaSource(str(table.root)))


def test_a_file_that_is_added_twice_is_refused(table: DeltaLog):
    file = next(each for each in table.files.values() if "deletionVector" in each.add)
    plain = {key: value for key, value in file.add.items() if key != "deletionVector"}
    table.commit({"add": plain})
    assert "adds a file twice" in refusal(table.root)


SPELLINGS: tuple[Callable[[Path], str], ...] = (Path.as_uri, str, lambda path: f"file:{path}")


@pytest.mark.parametrize("other", SPELLINGS)
def test_a_file_that_is_added_under_two_names_is_refused(table: DeltaLog, other: Callable[[Path], str]):
    source = DeltaSource(str(table.root))
    source.snapshot()
    path, file = list(table.files.items())[-1]
    table.commit({"add": {**file.add, "path": other(table.root / path)}})
    assert "adds a file twice" in refusal(table.root)
    with pytest.raises(TableError, match="adds a file twice"):
        source.snapshot()
    write_checkpoint(table)
    file.add["path"] = SPELLINGS[1](table.root / path)
    table.commit({"add": file.add})
    assert "adds a file twice" in refusal(table.root)


@pytest.mark.parametrize("kind", ["", "classic"])
def test_an_absolute_path_is_one_file_however_it_is_spelled(table: DeltaLog, tmp_path: Path, kind: str):
    """As in Spark, which qualifies absolute paths before it replays the log."""
    clone = DeltaLog(tmp_path / "clone", ID)
    path = next(path for path, file in table.files.items() if "deletionVector" not in file.add)
    place, add = table.root / path, table.files[path].add
    source = DeltaSource(str(clone.root))
    for at, spelled in enumerate(SPELLINGS):
        clone.files = {path: File({**add, "path": spelled(place)}, ID)}
        clone.commit({"add": clone.files[path].add})
        if kind:
            write_checkpoint(clone, kind)
        assert len(source.snapshot()) == len(DeltaSource(str(clone.root)).snapshot()) == 1
        clone.commit({"remove": {"path": SPELLINGS[at - 1](place), "dataChange": True}})
        assert len(source.snapshot()) == len(DeltaSource(str(clone.root)).snapshot()) == 0


def test_time_travel(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID)
    table.append(ids(0, 5))
    table.append(ids(5, 9))
    source = DeltaSource(str(table.root))
    assert [len(source.snapshot_at(str(version))) for version in range(3)] == [0, 1, 2]
    assert "has no version 3: the newest is 2" in refusal(table.root, "3")
    assert "neither a version" in refusal(table.root, "yesterday")
    assert "its log begins with" in refusal(table.root, "1999-01-01")
    assert len(source.snapshot_at("2999-01-01T00:00:00Z")) == 2
    plain = pruner.open_table(str(table.root))
    assert plain.snapshot("1").plan("id = 1").total == 1


def test_time_travel_by_the_times_of_commits(tmp_path: Path):
    """The store's clock may go back; a later commit is still later."""
    import os

    table = DeltaLog(tmp_path / "t", ID)
    for at in range(3):
        table.append(ids(at * 5, at * 5 + 5))
    for version, seconds in enumerate((1_000_000_000, 1_000_000_100, 1_000_000_050, 1_000_000_200)):
        os.utime(table.commit_file(version), (seconds, seconds))
    source = DeltaSource(str(table.root))
    found = [
        len(source.snapshot_at(f"2001-09-09T01:{each}Z")) for each in ("46:40", "48:19", "48:20", "48:20.001")
    ]
    assert found == [0, 0, 1, 2]


def test_times_of_commits_that_no_version_can_be_made_of_are_no_matter(tmp_path: Path):
    """A clean-up may leave commits from before the oldest checkpoint; Spark, too, begins after them."""
    table = DeltaLog(tmp_path / "t", ID)
    for at in range(4):
        table.append(ids(at * 5, at * 5 + 5))
        if at == 1:
            write_checkpoint(table)
    table.commit_file(0).unlink()
    for version, seconds in ((1, 1_000_000_100), (2, 1_000_000_010), (3, 1_000_000_020), (4, 1_000_000_200)):
        os.utime(table.commit_file(version), (seconds, seconds))
    source = DeltaSource(str(table.root))
    moments = ("46:50", "47:00", "48:20.001", "50:00")
    assert [len(source.snapshot_at(f"2001-09-09T01:{each}Z")) for each in moments] == [2, 3, 3, 4]
    assert "its log begins with 2001-09-09T01:46:50" in refusal(table.root, "2001-09-09T01:46:49Z")


def test_time_travel_by_times_in_commits(tmp_path: Path):
    table = DeltaLog(tmp_path / "t", ID, configuration={"delta.enableInCommitTimestamps": "true"})
    table.append(ids(0, 5))
    for version, moment in enumerate((1_000, 5_000)):
        commit = table.commit_file(version)
        told = json.dumps({"commitInfo": {"inCommitTimestamp": moment}})
        commit.write_text("\n".join([told, *commit.read_text().splitlines()[1:]]) + "\n")
    source = DeltaSource(str(table.root))
    assert len(source.snapshot_at("1970-01-01T00:00:04.999Z")) == 0
    assert len(source.snapshot_at("1970-01-01T00:00:05Z")) == 1


def test_partition_values_come_from_the_log(tmp_path: Path):
    columns = (Column("id", "long"), Column("p", "string"), Column("d", "date"), Column("n", "decimal(5,2)"))
    table = DeltaLog(tmp_path / "t", columns, partitioned=("p", "d", "n"))
    values = [
        {"p": "a/b=c %", "d": "1500-01-01", "n": "1.50"},
        {"p": None, "d": None, "n": None},
        {"p": "null", "d": "2024-02-29", "n": "-0.01"},
    ]
    for at, each in enumerate(values):
        table.append(ids(at, at + 1), values=each)
    opened = pruner.open_table(str(table.root))
    assert opened.plan("p = 'a/b=c %'").kept == 1
    assert opened.plan("p IS NULL").kept == 1
    assert opened.plan("d < DATE '1582-01-01'").kept == 1
    assert opened.plan("n = 1.5").kept == 1
    assert opened.plan("n < 0").kept == 1


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("string", ""),
        ("timestamp", "2024-01-01 00:00:00"),
        ("integer", "01"),
        ("date", "2024-1-1"),
        ("double", "1.0"),
        ("decimal(5,2)", "1_0"),
        ("decimal(5,2)", "\u0661"),
    ],
)
def test_a_partition_value_that_engines_may_read_otherwise_proves_nothing(
    tmp_path: Path, type_: str, text: str
):
    table = DeltaLog(tmp_path / "t", (Column("id", "long"), Column("p", type_)), partitioned=("p",))
    table.append(ids(0, 1), values={"p": text})
    opened = pruner.open_table(str(table.root))
    assert opened.plan("p IS NULL").kept == 1
    assert opened.plan("p IS NOT NULL").kept == 1


def of_deltalake(root: Path, change: Callable[[DeltaTable], object] | None) -> None:
    for at in range(4):
        rows = pa.table({"id": list(range(at * 9, at * 9 + 9)), "p": ["a b", "c/d", None] * 3})
        write_deltalake(str(root), rows, mode="append", partition_by=["p"])
    if change is not None:
        change(DeltaTable(str(root)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "change",
    [
        None,
        lambda table: table.create_checkpoint(),
        lambda table: table.delete("id < 12"),
        lambda table: (
            table.create_checkpoint(),
            table.update(updates={"id": "id + 100"}, predicate="p = 'a b'"),
        ),
        lambda table: table.optimize.compact(),
        lambda table: (table.delete("id > 3"), table.restore(1), table.create_checkpoint()),
    ],
)
def test_as_deltalake_lists_it(tmp_path: Path, change: Callable[[DeltaTable], object] | None):
    of_deltalake(tmp_path / "t", change)
    theirs = DeltaTable(str(tmp_path / "t"))
    assert sorted(listed(DeltaSource(str(tmp_path / "t")))) == sorted(theirs.file_uris())
    for version in range(theirs.version() + 1):
        theirs.load_as_version(version)
        source = DeltaSource(str(tmp_path / "t"))
        at = source.snapshot_at(str(version))
        assert set(at.columns.column("base_file").to_pylist()) == set(theirs.file_uris())
