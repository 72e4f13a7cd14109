"""Snapshot reads that follow a log's commits: each equals a read from the beginning, and what the writer says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.evidence.delta import DeltaStatistics
from pruner.tables.delta import state
from pruner.tables.delta.source import DeltaSource
from pruner.tables.delta.vectors import DeletionVectors
from tests.support.delta.logs import Column, DeltaLog, File, write_checkpoint
from tests.support.running import profiles
from tests.unit.tables.delta.test_delta import ID, VECTORS, held, ids, listed


def compacted(table: DeltaLog, first: int, last: int) -> None:
    """Write the compacted commits of a range: the newest action of each file, and the metadata."""
    files: dict[str, dict[str, Any]] = {}
    others: list[dict[str, Any]] = []
    for version in range(first, last + 1):
        for line in table.commit_file(version).read_text().splitlines():
            action: dict[str, Any] = json.loads(line)
            file = action.get("add") or action.get("remove")
            if file is None:
                others += [action] if "commitInfo" not in action else []
            else:
                key = file["path"] + json.dumps(file.get("deletionVector"))
                files.pop(key, None)
                files[key] = action
    lines = "".join(json.dumps(each) + "\n" for each in [*others, *files.values()])
    (table.log / f"{first:020d}.{last:020d}.compacted.json").write_text(lines)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_commits_compactions_and_checkpoints(tmp_path: Path, seed: int):
    """Compactions that overlap checkpoints and each other, and logs that were cleaned up before a checkpoint.

    A read that follows the log and one from the beginning match the writer's own record.
    """
    of = random.Random(f"{profiles.seed()} {seed}")
    table = DeltaLog(tmp_path / "t", ID, features=VECTORS)
    source = DeltaSource(str(table.root))
    oldest = 0
    for number in range(16):
        kind = of.choice(("append", "delete", "remove", "checkpoint", "compact", "compact"))
        some = of.choice([*table.files, ""])
        if kind == "append" or not some:
            table.append(ids(number * 10, number * 10 + 5))
        elif kind == "delete":
            table.delete({some: [of.randrange(5)]}, of.choice("upi"))
        elif kind == "remove":
            table.remove(some)
        elif kind == "checkpoint":
            write_checkpoint(table, of.choice(("classic", "parts", "v2_json", "v2_parquet")))
            if of.random() < 0.5:
                newest = of.randint(oldest, table.version)
                for version in range(oldest, newest):
                    table.commit_file(version).unlink()
                oldest = newest
        elif table.version > oldest:
            first = of.randrange(oldest, table.version)
            compacted(table, first, of.randint(first + 1, table.version))
        if of.random() < 0.7:
            assert listed(source) == held(table)
        assert listed(DeltaSource(str(table.root))) == held(table)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(8))
def test_a_look_that_follows_is_one_that_begins_anew(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Files, keys, partitions, vectors, numbers of rows and plans, after random commits of one and of many files.

    Half of the tables are clones, whose paths lead out of the root and are spelled in several ways.
    """
    few, chunks = ((16, 256), (2, 6))[seed % 2]
    monkeypatch.setattr(state, "_FEW", few)
    monkeypatch.setattr(state, "_MOST_CHUNKS", chunks)
    of = random.Random(f"{profiles.seed()} {seed}")
    table = DeltaLog(tmp_path / "t", (*ID, Column("p", "string")), ("p",), features=VECTORS)
    other = tmp_path / "other"
    followed = DeltaSource(str(table.root)), pruner.open_table(str(table.root))
    held: dict[tuple[str, str], dict[str, Any]] = {}

    def spelled(name: str) -> str:
        is_of_clone = seed % 4 > 1 and name.endswith(("1", "2", "3"))
        return of.choice((str(other / name), (other / name).as_uri())) if is_of_clone else name

    def added(number: int) -> dict[str, Any]:
        name, low = f"{of.choice(('', 'p=1/'))}file-{number}", of.randrange(100)
        told = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + of.randrange(20)}}
        stats = {} if of.random() < 0.1 else {"stats": json.dumps(told | {"nullCount": {"id": 0}})}
        values = {"p": of.choice(("a", "b", None))}
        return {"name": name, "partitionValues": values, "size": number + 1, **stats}

    def removal(key: tuple[str, str]) -> dict[str, Any]:
        vector = held.pop(key).get("deletionVector")
        return {"remove": {"path": spelled(key[0])} | ({"deletionVector": vector} if vector else {})}

    def addition(add: dict[str, Any]) -> dict[str, Any]:
        vector = add.get("deletionVector", {"pathOrInlineDv": ""})
        held[add["name"], vector["pathOrInlineDv"]] = add = add | {"path": spelled(add["name"])}
        return {"add": add}

    gone: list[dict[str, Any]] = []
    for step in range(20):
        count = of.choice((1, 1, 3, 40))
        kind = of.choice(("append", "append", "remove", "delete", "return", "again", "checkpoint"))
        some = of.sample(sorted(held), min(count, len(held)))
        if kind == "append" or not some:
            table.commit(*(addition(added(100 * step + at)) for at in range(count)))
        elif kind == "remove":
            gone = [held[key] for key in some]
            table.commit(*map(removal, some))
        elif kind == "delete":
            adds = [held[key] for key in some]
            vectors = [
                {
                    "storageType": "u",
                    "pathOrInlineDv": f"{step}-{at}",
                    "offset": None,
                    "sizeInBytes": 1,
                    "cardinality": at,
                }
                for at in range(len(adds))
            ]
            removals = [removal(key) for key in some]
            changed = [add | {"deletionVector": each} for add, each in zip(adds, vectors, strict=True)]
            table.commit(*removals, *map(addition, changed))
        elif kind == "return":
            there = {name for name, _ in held}
            table.commit(*(addition(add) for add in gone if add["name"] not in there), {"txn": {}})
        elif kind == "again":
            table.commit(*(addition(held[key] | {"size": 1}) for key in some))
        else:
            table.files = {
                name: File({key: each for key, each in add.items() if key != "name"}, ())
                for (name, _), add in held.items()
            }
            write_checkpoint(table, of.choice(("classic", "parts", "v2_json")))
        if of.random() < 0.7:
            mine = _known_of(*followed)
            assert mine == _known_of(DeltaSource(str(table.root)), pruner.open_table(str(table.root))), (
                step,
                kind,
            )
            places = {str((other if spelled(name) != name else table.root) / name) for name, _ in held}
            assert set(mine) == places, (step, kind)


def _known_of(source: DeltaSource, table: pruner.Table) -> dict[str, Any]:
    """What a table reports about each file, by its location."""
    snapshot = source.snapshot()
    plans = [
        table.plan(predicate)
        for predicate in ("id = 7", "id BETWEEN 30 AND 45", "p = 'a'", "p IS NULL AND id > 50")
    ]
    version = source.state_of(snapshot)
    assert version is not None
    texts: Any = snapshot.partitions.texts  # a table without files has none
    codes: list[Any] = snapshot.columns.column("partition").to_pylist()
    deletes = snapshot.deletes
    assert deletes is None or isinstance(deletes, DeletionVectors)
    columns: list[list[Any]] = [
        snapshot.columns.column("base_size").to_pylist(),
        snapshot.columns.column("file_id").to_pylist(),
        snapshot.keys.to_pylist(),
        [texts["p",][code].as_py() for code in codes],
        [0] * len(snapshot) if deletes is None else deletes.counts.tolist(),
        DeltaStatistics(version, snapshot).row_counts().tolist(),
        *(plan.kept_mask.tolist() for plan in plans),
    ]
    uris: list[Any] = snapshot.columns.column("base_file").to_pylist()
    return dict(zip(uris, zip(*columns, strict=True), strict=True))
