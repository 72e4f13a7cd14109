"""Manifests decoded into columns: they equal what fastavro reads, or are refused with one sentence."""

from __future__ import annotations

import io
import random
import re
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

import pruner
from benchmarks.planning.iceberg_tables import append, write_table
from pruner.arrow import text_array
from pruner.errors import TableError
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from pruner.tables.avro import decoder
from pruner.tables.avro.columns import NotColumnarError
from pruner.tables.avro.container import schema_of
from pruner.tables.iceberg import manifests, places, saved_manifests, source
from pruner.tables.iceberg.manifests import Manifest, ManifestFile, read_manifest
from pruner.tables.source import SavedLook
from tests.support.iceberg.damage import outcome_of_list, outcome_of_manifest, with_changes
from tests.support.iceberg.manifests import (
    PARTITIONS,
    by_fastavro,
    of_manifest,
    random_entry,
    random_line,
    repacked,
    schema_of_version,
    unpacked,
    written,
    written_list,
)
from tests.support.iceberg.tables import ROWS, SPECS, IcebergLake, rows
from tests.support.running import profiles

ANY = ManifestFile("m.avro", 0, 0, 9)
OLD = ManifestFile("m.avro", 0, 0, 0)
"""For version 1, which has no sequence numbers."""


@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    ("codec", "block"),
    [("null", 1), ("deflate", 64_000), ("deflate", 2_000), ("bzip2", 2_000), ("xz", 64_000)],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_columns_are_what_fastavro_reads(version: int, block: int, codec: str) -> None:
    chance = random.Random(version * block)
    schema = schema_of_version(version)
    line = OLD if version == 1 else ANY
    for count in (0, 1, 90):
        entries = [random_entry(chance, number) for number in range(count)]
        data = written(entries, schema, codec, block)
        assert of_manifest(read_manifest(data, line, "m.avro")) == by_fastavro(data, line)


@pytest.mark.slow
def test_files_of_several_parts_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    data = written([random_entry(chance, number) for number in range(100)], schema_of_version(2), block=2_000)
    whole = of_manifest(read_manifest(data, ANY, "m.avro"))
    monkeypatch.setattr(decoder, "AT_ONCE", 5_000)
    assert of_manifest(read_manifest(data, ANY, "m.avro")) == whole


@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_codecs_that_fastavro_has_not(codec: str) -> None:
    chance = random.Random(3)
    data = written([random_entry(chance, number) for number in range(30)], schema_of_version(2), block=2_000)
    packed = repacked(data, unpacked(data), codec)
    whole = of_manifest(read_manifest(data, ANY, "m.avro"))
    assert of_manifest(read_manifest(packed, ANY, "m.avro")) == whole
    # The end of the last block: Avro's checksum after Snappy's data, and truncated frames of Zstandard.
    sync = 16
    damaged = packed[: -sync - 1] + bytes([packed[-sync - 1] ^ 4]) + packed[-sync:]
    if codec == "zstandard":
        (last,) = unpacked(data)[-1:]
        short = repacked(data, [last], codec)
        damaged = short.replace(short[-sync - 8 : -sync], bytes(8))
    with pytest.raises(TableError, match=r"m\.avro is damaged: a block cannot be unpacked"):
        read_manifest(damaged, ANY, "m.avro")


@pytest.mark.sampled(15)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", [1, 2])
def test_manifests_of_pyiceberg(spec: str, version: int, tmp_path: Path) -> None:
    table = IcebergLake(tmp_path).create("t", spec, version)
    table.append(rows(table, range(24)))
    table.append(rows(table, range(24, 40)))
    table.delete("id < 5")
    manifests = [path for path in tmp_path.rglob("*.avro") if not path.name.startswith("snap-")]
    assert manifests
    for path in manifests:
        data = path.read_bytes()
        assert of_manifest(read_manifest(data, OLD, path.name)) == by_fastavro(data, OLD)


@pytest.mark.parametrize("at_once", [3_000, 1 << 25])
def test_manifests_that_are_decoded_together(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each equals what fastavro reads of it alone; a damaged one is named."""
    monkeypatch.setattr(decoder, "AT_ONCE", at_once)
    monkeypatch.setattr(manifests, "AT_ONCE", at_once)
    chance = random.Random(7)
    kinds = [(5, 2), (0, 2), (30, 2), (5, 1), (1, 2), (8, 2)]
    stored = [
        (
            written(
                [random_entry(chance, n, (0, 1, 3)) for n in range(count)],
                schema_of_version(version, PARTITIONS[:version]),
                block=700,
            ),
            OLD if version == 1 else ANY,
            f"m{number}.avro",
        )
        for number, (count, version) in enumerate(kinds)
    ]
    expected = [by_fastavro(data, line) for data, line, _ in stored]
    assert [of_manifest(each) for each in manifests.read_manifests(stored)] == expected
    for bad, (data, line, place) in enumerate(stored):
        blocks = unpacked(data)
        if not blocks:
            continue
        cut = blocks[-1]._replace(data=blocks[-1].data[:-1])
        damaged = [*stored[:bad], (repacked(data, [*blocks[:-1], cut]), line, place), *stored[bad + 1 :]]
        with pytest.raises(TableError, match=f"^{place} is damaged"):
            list(manifests.read_manifests(damaged))


@pytest.mark.parametrize("least_lanes", [1, 8, 10**9])
def test_mutated_manifests_are_right_or_refused(least_lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=300000` tries this many in each of the three."""
    monkeypatch.setattr(decoder, "_FEW", least_lanes)
    assert _outcomes(run_mutation) == {"right", "refused"}


def test_mutated_manifest_lists_are_right_or_refused() -> None:
    assert _outcomes(run_mutation_of_a_list) == {"right", "refused"}


_LONGEST = 20
"""Seconds of CPU time for one small input, on the slowest machine."""

_MOST_MEMORY = 1 << 31
"""Bytes by which the process may grow, whatever lengths the inputs claim."""


def _outcomes(attempt: Callable[[int], str]) -> set[str]:
    """The outcomes of some inputs, each made from its own seed, which a failure names."""
    first = profiles.seed() << 24
    outcomes: set[str] = set()
    before = _peak()
    for seed in range(first, first + profiles.examples(200)):
        began = time.process_time()
        try:
            outcomes.add(attempt(seed))
            assert time.process_time() - began < _LONGEST, "it took too long"
        except Exception as error:
            error.add_note(f"input {seed}")
            raise
    assert _peak() - before < _MOST_MEMORY
    return outcomes


def _peak() -> int:
    """The peak memory of the process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_KNOWN: dict[int, tuple[bytes, list[Any]]] = {}


def run_mutation(seed: int) -> str:
    """Read a manifest with changed bytes: the result must equal what fastavro reads."""
    chance = random.Random(seed)
    kind = seed % 12
    if kind not in _KNOWN:
        made = random.Random(kind)
        # Maps of 90 columns take most of the time, and their counts alone are two bytes longer.
        widths = (0, 1, 3, 5, 90) if kind == 0 else (0, 1, 3)
        entries = [random_entry(made, number, widths) for number in range((2, 40, 12)[kind % 3])]
        some = PARTITIONS[: kind % 4]
        data = written(entries, schema_of_version(1 + kind % 3, some), block=(64_000, 700)[kind % 2])
        _KNOWN[kind] = data, unpacked(data)
    return outcome_of_manifest(with_changes(chance, *_KNOWN[kind]), ANY if kind % 3 else OLD)


_LISTS: dict[int, tuple[bytes, list[Any]]] = {}


def run_mutation_of_a_list(seed: int) -> str:
    """Read a manifest list with changed bytes: the result must equal what fastavro reads."""
    version = 1 + seed % 3
    if version not in _LISTS:
        made = random.Random(version)
        data = written_list([random_line(made, number) for number in range(30)], version)
        _LISTS[version] = data, unpacked(data)
    return outcome_of_list(with_changes(random.Random(seed), *_LISTS[version]))


def _refused(entries: list[Any], schema: Any) -> str:
    with pytest.raises(TableError) as caught:
        read_manifest(written(entries, schema), ANY, "m.avro")
    return str(caught.value)


def test_schemas_that_are_no_manifests() -> None:
    plain = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    assert _refused([{"a": 1}], plain) == (
        "m.avro is damaged: its fields have no ids, so that it is no manifest of an Iceberg table"
    )
    data = written([{"a": 1}], plain).replace(b'"name": "a"', b'"namm": "a"')
    with pytest.raises(TableError, match="a field without a name"):
        read_manifest(data, ANY, "m.avro")
    nothing = {"type": "record", "name": "r", "fields": [{"name": "status", "type": "null", "field-id": 0}]}
    with pytest.raises(NotColumnarError, match="more records than bytes"):
        list(
            decoder.decode(
                written([{"status": None}], nothing),
                lambda text: decoder.Records(schema_of(text), {0: None}),
            )
        )
    itself = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "next", "type": ["null", "r"]},
        ],
    }
    assert "which is not known" in _refused([{"status": 1, "next": None}], itself)


def test_a_block_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pruner.tables.avro.container.MOST_BLOCK", 10_000)
    entry = random_entry(random.Random(1), 1)
    entry["data_file"]["file_path"] = "x" * 1_000_000
    schema = schema_of_version(2)
    for codec in ("null", "deflate", "bzip2", "xz"):
        with pytest.raises(TableError, match="too large"):
            read_manifest(written([entry], schema, codec), ANY, "m.avro")


def test_metrics_of_a_field() -> None:
    entry = random_entry(random.Random(1), 1)
    entry["status"] = 1
    entry["data_file"]["null_value_counts"] = [{"key": 3, "value": 5}, {"key": 4, "value": 6}]
    found = read_manifest(written([entry], schema_of_version(2)), ANY, "m.avro")
    at, values = found.metrics["null_counts"].of_field(4)
    assert np.array_equal(at, [0])
    assert values.to_pylist() == [6]


@pytest.mark.parametrize("root", ["/lake/t", "s3://bucket/t"])
def test_a_place_does_not_depend_on_what_is_known_of_its_folder(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a b%20.parquet", "~", "..", ".", "", "x?y", "Ä:é", "file:")
    folders = (
        "",
        "/",
        "/lake/t",
        "/lake/./t/../u/",
        "file:/lake",
        "file:///lake/a=b%2F",
        "file://",
        "lake",
        "~",
    )
    remote = (
        "s3:/",
        "s3://bucket",
        "s3a://bucket/t/",
        "s3://bucket/a/../b",
        "s3://key:x@bucket/t",
        "gs://b/t",
    )
    locations = [f"{folder}/{name}" for folder in (*folders, *remote) for name in names]
    by_folder = [_place_or_error(each, root) for each in (*locations, *locations)]
    monkeypatch.setattr(places, "_folder_of", lambda *_: None)
    assert by_folder == [_place_or_error(each, root) for each in (*locations, *locations)]


@pytest.mark.parametrize(
    "odd", ["", "t/no_folder.parquet/..", "/t/what?.parquet", "relative", "/t/", "/t//a.parquet"]
)
def test_places_of_many_files_are_those_of_each(odd: str) -> None:
    locations = [f"file:/t/p={number % 3}/{number}%20Ä.parquet" for number in range(20)] + [odd] * bool(odd)
    expected = [_place_or_error(each, "/t") for each in locations]
    errors = [each for each in expected if each.startswith("error: ")]
    if errors:
        with pytest.raises(TableError, match=f"^{re.escape(errors[0].removeprefix('error: '))}$"):
            places.places_of(text_array(locations), "/t")
    else:
        found, names = places.places_of(text_array(locations), "/t")
        assert found.to_pylist() == expected
        assert names.to_pylist() == [each.rpartition("/")[2] for each in locations]


def test_places_of_no_files() -> None:
    assert [len(column) for column in places.places_of(text_array([]), "/t")] == [0, 0]


def _place_or_error(location: str, root: str) -> str:
    try:
        return places.place_of(location, root)
    except TableError as error:
        return f"error: {error}"


def test_a_look_reads_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "t"
    write_table(root, 50)
    read: list[str] = []

    def counted(place: str, options: Mapping[str, str], most: int) -> bytes:
        read.append(place.rpartition("/")[2])
        return places.read_file(place, options, most)

    monkeypatch.setattr(source, "read_file", counted)
    table = source.IcebergSource(str(root))
    first = table.snapshot()
    assert (len(first), read) == (50, ["snap-1.avro", "m0.avro"])
    read.clear()
    assert table.snapshot(first) is first
    assert read == []
    append(root, 2, 3)
    second = table.snapshot(first)
    assert (len(second), read) == (53, ["snap-2.avro", "a2.avro"])


def _read_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the manifests and lists that are read from now on."""
    read: list[str] = []

    def counted(place: str, options: Mapping[str, str], most: int) -> bytes:
        read.append(place.rpartition("/")[2])
        return places.read_file(place, options, most)

    monkeypatch.setattr(source, "read_file", counted)
    return read


def _said(table: source.IcebergSource) -> list[Any]:
    """The full content of the manifests of a table's snapshot."""
    state = table.state_of(table.snapshot())
    assert state is not None
    return [of_manifest(each) for each in (*(part.manifest for part in state.parts), *state.deletes)]


def test_another_process_decodes_new_manifests_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_manifests, "LEAST_FILES", 50)
    root = tmp_path / "t"
    write_table(root, 50)
    first = source.IcebergSource(str(root))
    assert first.saved() is None, "there was no look"
    said = _said(first)
    look = first.saved()
    assert look is not None
    assert first.saved(look.id) is None
    read = _read_of(monkeypatch)
    second = source.IcebergSource(str(root))
    second.resume(look)
    assert _said(second) == said
    assert read == ["snap-1.avro"]
    read.clear()
    append(root, 2, 3)
    third = source.IcebergSource(str(root))
    third.resume(look)
    assert sorted(_said(third), key=repr) == sorted(_said(source.IcebergSource(str(root))), key=repr)
    assert read == ["snap-2.avro", "a2.avro", "snap-2.avro", "a2.avro", "m0.avro"]
    newer = third.saved(look.id)
    assert newer is not None
    assert newer.table.num_rows == 2
    # A saved state of another layout, or of another kind of table, is ignored.
    for strange in (
        SavedLook("iceberg manifests 0 x", look.table),
        SavedLook(look.id, look.table.drop(["files"])),
    ):
        read.clear()
        other = source.IcebergSource(str(root))
        other.resume(strange)
        assert len(other.snapshot()) == 53
        assert read == ["snap-2.avro", "a2.avro", "m0.avro"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_saved_manifests_say_what_was_decoded(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_manifests, "LEAST_FILES", 0)
    chance = random.Random(version)
    made: dict[ManifestFile, Manifest] = {}
    for number, count in enumerate((0, 1, 90)):
        entries = [random_entry(chance, each) for each in range(count)]
        data = written(entries, schema_of_version(version, PARTITIONS[: 3 * number]), block=2_000)
        line = replace(OLD if version == 1 else ANY, path=f"{number}.avro", length=len(data), snapshot_id=7)
        made[line] = read_manifest(data, line, line.path)
    look = saved_manifests.saved_manifests(made, None)
    assert look is not None
    found = saved_manifests.SavedManifests(look)
    for line, manifest in made.items():
        again = found.manifest(line)
        assert again is not None
        assert of_manifest(again) == of_manifest(manifest)
        # If the list says anything else about a path, another file may be there.
        for name in ("spec_id", "content", "sequence_number", "length", "snapshot_id"):
            assert found.manifest(replace(line, **{name: 77})) is None
    for name in ("files", "partitions", "lower_bounds"):
        place = look.table.column_names.index(name)
        broken = look.table.set_column(place, look.table.schema.field(name), [[b"no stream"] * 3])
        damaged = saved_manifests.SavedManifests(SavedLook(look.id, broken))
        assert all(damaged.manifest(line) is None for line in made)


@pytest.mark.slow
def test_what_is_saved_beside_indexes_is_used_unless_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_manifests, "LEAST_FILES", 2)
    made = IcebergLake(tmp_path).create("t", "months")
    for start in range(0, 3 * ROWS, ROWS):
        made.append(rows(made, range(start, start + ROWS)))
    root, index = made.metadata_location, tmp_path / "index"
    pruner.open_table(root, index_uri=str(index)).create_index("ids", "id", "bloom_filter")
    read = _read_of(monkeypatch)
    plan = pruner.open_table(root, index_uri=str(index)).plan("id = 30 AND number > 0")
    assert [name for name in read if name.endswith(".avro")] == read[1:] == [read[1]], "the list alone"
    saved = MetadataTable(open_store(str(index))).state().last_snapshot
    assert saved is not None
    assert saved.id.startswith("iceberg manifests ")
    path = index / saved.segment.path
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])
    read.clear()
    again = pruner.open_table(root, index_uri=str(index)).plan("id = 30 AND number > 0")
    assert (again.kept, again.files) == (plan.kept, plan.files)
    assert len(read) > 2, "the manifests are decoded"


def test_a_short_name_is_one_of_the_enclosing_namespace() -> None:
    number, text = ([{"name": "x", "type": kind}] for kind in ("long", "string"))
    holder = {"type": "record", "name": "a.Holder", "fields": [{"name": "r", "type": "R"}]}
    kinds = [
        {"type": "record", "name": "a.R", "fields": number},
        {"type": "record", "name": "b.R", "fields": text},
        holder,
    ]
    schema: Any = {
        "type": "record",
        "name": "All",
        "fields": [{"name": name, "type": kind} for name, kind in zip("abc", kinds, strict=True)],
    }
    content = io.BytesIO()
    rows = [{"a": {"x": n}, "b": {"x": "text" * n}, "c": {"r": {"x": -n}}} for n in range(50)]
    fastavro.writer(content, schema, rows, sync_interval=100)
    wanted: Mapping[int | str, Any] = {"c": {"r": {"x": None}}}
    found = list(decoder.decode(content.getvalue(), lambda text: decoder.Records(schema_of(text), wanted)))
    assert found, "each record ends where the next begins"
