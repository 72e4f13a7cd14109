"""Numbers of rows from Delta's log: those of a file minus those that its deletion vector removes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pruner
from tests.support.delta.logs import Column, DeltaLog, write_checkpoint

COLUMNS = (Column("c", "long"), Column("p", "string"))


def written(folder: Path, **options: Any) -> tuple[DeltaLog, list[str]]:
    """Three files of ten rows, and the first two have deleted rows; `c` is 0 to 29."""
    table = DeltaLog(folder / "t", COLUMNS, features=("deletionVectors",), **options)
    rows = (
        pa.table({"c": range(at, at + 10), "p": [None if number == 7 else "x" for number in range(10)]})
        for at in (0, 10, 20)
    )
    paths = table.append(*rows)
    table.delete({paths[0]: [0, 9, 4], paths[1]: [5]})
    return table, paths


def proved(table: pruner.Table | pruner.PinnedSnapshot, predicate: str) -> tuple[int, list[int]]:
    """The proved number, and the files that must still be read, by their position in the table."""
    answer = table.plan(predicate).count()
    assert isinstance(answer.value, int)
    return answer.value, answer.rest.tolist()


def place(table: pruner.Table, path: str) -> int:
    uris: Any = table.snapshot().data.columns.column("base_file").to_pylist()
    return next(at for at, uri in enumerate(uris) if uri.endswith(path))


@pytest.mark.slow
def test_a_file_has_what_its_vector_leaves(tmp_path: Path):
    table, paths = written(tmp_path)
    opened = pruner.open_table(str(table.root))
    first, second, third = (place(opened, path) for path in paths)
    assert proved(opened, "true") == (26, [])
    assert proved(opened, "c >= 0 AND c < 20") == (16, [])
    assert proved(opened, "c IS NOT NULL AND NOT c < 10") == (19, [])
    assert proved(opened, "c >= 5") == (19, [first]), (
        "five rows of the first file match, and some are deleted"
    )
    assert proved(opened, "c > 12 OR c = 3") == (10, sorted([first, second]))
    assert proved(opened, "p = 'x'") == (0, sorted([first, second, third])), "one row of each file is NULL"
    assert proved(opened, "c % 2 >= 1")[0] == 0, "nobody knows how many rows match"
    assert opened.count("c >= 5") == 23
    assert opened.count() == 26
    table.delete({paths[0]: range(10)})
    assert proved(opened, "true") == (19, []), "no row is left of a file"
    assert proved(opened, "c < 10") == (0, [])


@pytest.mark.slow
def test_nothing_but_rows_is_counted_of_a_file_with_a_vector(tmp_path: Path):
    """Bounds and NULLs may be those of deleted rows."""
    table, paths = written(tmp_path)
    opened = pruner.open_table(str(table.root))
    deleted = {place(opened, path) for path in paths[:2]}
    for indexed in (False, True):
        if indexed:
            opened.create_index("i", on="*")
            opened.create_index("b", on="c", using="bitmap")
        plan = opened.plan("c >= 0")
        assert (plan.count().value, plan.all_match.tolist().count(True)) == (26, 1)
        for answer in (plan.count("p"), plan.count("c"), plan.count_by("c"), plan.count_by("p")):
            assert deleted <= set(answer.rest.tolist())
        assert deleted & set(opened.plan("true").min("c").rest.tolist())
        assert opened.plan("c < 20").max("c").value is None
        second = place(opened, paths[1])
        assert proved(opened, "c = 10") == (0, [second])
        assert proved(opened, "c > 12") == (10, [second]), "the row that is deleted may be any"


def changed(table: DeltaLog, path: str, change: str, value: Any) -> None:
    """Write a file's action again, with another number in it."""
    held = table.files[path]
    add = {**held.add, "deletionVector": {**held.add["deletionVector"]}}
    if change == "cardinality":
        add["deletionVector"]["cardinality"] = value
    else:
        stats = json.loads(add["stats"])
        stats[change] = value
        add["stats"] = json.dumps({name: of for name, of in stats.items() if of is not None})
    table.commit({"remove": table._removed(held.add)}, {"add": add})


@pytest.mark.sampled(36)
@pytest.mark.parametrize(
    ("change", "value"),
    [
        *(("numRecords", value) for value in (None, -1, 2, 10.0, "10", True, [10], 2**70)),
        *(("cardinality", value) for value in (-1, 11)),
    ],
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_file_is_read_where_the_numbers_are_missing_or_make_no_sense(
    tmp_path: Path, change: str, value: Any, *, checkpoint: bool
):
    table, paths = written(tmp_path)
    changed(table, paths[0], change, value)
    if checkpoint and change == "numRecords":
        table.files[paths[0]].add["stats"] = json.loads(
            table.commit_file(table.version).read_text().splitlines()[-1]
        )["add"]["stats"]
        write_checkpoint(table)
    opened = pruner.open_table(str(table.root))
    first = place(opened, paths[0])
    assert proved(opened, "true") == (19, [first])
    assert proved(opened, "c >= 0") == (19, [first])
    if change == "numRecords":
        assert opened.count() == 26
    else:
        with pytest.raises(pruner.TableError, match="the log says"):
            opened.count()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("stats", [None, "{", "null", "[]", '{"minValues": {"c": 0}, "maxValues": {"c": 1}}'])
def test_a_file_without_statistics_is_read(tmp_path: Path, stats: str | None):
    table = DeltaLog(tmp_path / "t", COLUMNS[:1], features=("deletionVectors",))
    (path,) = table.append(pa.table({"c": [0, 1]}), stats=stats)
    table.append(pa.table({"c": [2]}))
    opened = pruner.open_table(str(table.root))
    assert proved(opened, "true") == (1, [place(opened, path)])
    assert opened.count() == 3


def test_a_vector_without_a_number_in_a_checkpoint(tmp_path: Path):
    import pyarrow.parquet as pq

    from pruner.arrow import nulls

    table, paths = written(tmp_path)
    write_checkpoint(table)
    file = next(table.log.glob("*.checkpoint.parquet"))
    found: Any = pq.read_table(file)
    adds = found.column("add").combine_chunks()
    vectors = adds.field("deletionVector")
    at = vectors.type.get_field_index("cardinality")
    children = [
        nulls(len(vectors), pa.int64()) if n == at else vectors.field(n)
        for n in range(vectors.type.num_fields)
    ]
    without = pa.StructArray.from_arrays(children, fields=list(vectors.type), mask=vectors.is_null())
    names = [each.name for each in adds.type]
    parts = [without if name == "deletionVector" else adds.field(name) for name in names]
    made = pa.StructArray.from_arrays(parts, fields=list(adds.type), mask=adds.is_null())
    pq.write_table(found.set_column(found.column_names.index("add"), "add", made), file)
    opened = pruner.open_table(str(table.root))
    assert proved(opened, "true") == (10, sorted(place(opened, path) for path in paths[:2]))


def test_a_checkpoint_without_statistics(tmp_path: Path):
    """As with `delta.checkpoint.writeStatsAsJson` set to false."""
    import pyarrow.parquet as pq

    table, paths = written(tmp_path)
    write_checkpoint(table)
    file = next(table.log.glob("*.checkpoint.parquet"))
    found: Any = pq.read_table(file)
    adds = found.column("add").combine_chunks()
    fields = [each for each in adds.type if each.name != "stats"]
    made = pa.StructArray.from_arrays(
        [adds.field(each.name) for each in fields], fields=fields, mask=adds.is_null()
    )
    pq.write_table(found.set_column(found.column_names.index("add"), "add", made), file)
    table.append(pa.table({"c": [100], "p": ["x"]}))
    opened = pruner.open_table(str(table.root))
    assert proved(opened, "true") == (1, sorted(place(opened, path) for path in paths))
    assert opened.count() == 27


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["classic", "parts", "v2_json", "v2_parquet"])
def test_numbers_in_checkpoints_and_of_earlier_versions(tmp_path: Path, kind: str):
    table, paths = written(tmp_path)
    write_checkpoint(table, kind)
    table.delete({paths[2]: [1, 2]}, kind="i")
    table.append(pa.table({"c": [100, 101], "p": ["x", "y"]}))
    opened = pruner.open_table(str(table.root))
    assert proved(opened, "true") == (26, [])
    assert proved(opened, "c >= 20") == (10, [])
    at = {version: proved(opened.snapshot(str(version)), "true") for version in range(1, 5)}
    assert at == {1: (30, []), 2: (26, []), 3: (24, []), 4: (26, [])}
    assert proved(opened.snapshot("1"), "c < 10") == (10, [])


@pytest.mark.slow
def test_an_index_that_says_another_number_is_not_believed(tmp_path: Path):
    """If all files are indexed, their footers decide; if some are not, the log is used, and both must agree."""
    table = DeltaLog(tmp_path / "t", COLUMNS[:1], features=("deletionVectors",))
    (path,) = table.append(pa.table({"c": [0, 1, 2]}), stats={"numRecords": 5})
    opened = pruner.open_table(str(table.root))
    opened.create_index("i", on="c")
    assert proved(opened, "true") == (3, [])
    (other,) = table.append(pa.table({"c": [7]}))
    assert proved(opened, "true") == (1, [place(opened, path)])
    table.delete({path: [0], other: []})
    assert proved(opened, "true") == (1, [place(opened, path)])
    assert opened.count() == 3
