"""Damaged real Hudi tables: a failed listing says which file, column or setting is at fault, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.errors import TableError
from tests.support.kept.tables import KeptTables


def commits(table: Path) -> list[Path]:
    """The completed writes, oldest first."""
    folder = table / ".hoodie" / "timeline"
    inside = folder if any(folder.glob("*commit")) else folder.parent
    return sorted(path for path in inside.iterdir() if re.search(r"\d\.(delta|replace)?commit$", path.name))


def refused(table: Path) -> str:
    """The error message of a table that cannot be listed: a sentence in one line."""
    with pytest.raises(TableError) as caught:
        pruner.open_table(table).snapshot()
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(("cannot list the Hudi table", "the schema of the Hudi table"))
    return text


def with_setting(table: Path, before: str, after: str) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    path.write_text(re.sub(before, after, path.read_text(encoding="utf-8")), encoding="utf-8")


def with_column(table: Path, type_: Any) -> None:
    """Give the schema of every commit one more column (table version 6 writes it as JSON)."""
    for path in commits(table):
        commit = json.loads(path.read_bytes())
        schema = json.loads(commit["extraMetadata"]["schema"])
        schema["fields"].append({"name": "strange", "type": type_})
        commit["extraMetadata"]["schema"] = json.dumps(schema)
        path.write_text(json.dumps(commit), encoding="utf-8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["cow_v6", "cow_v9", "mor_v8"])
@pytest.mark.parametrize("content", [b"", b"\x00{", b"Obj\x01"], ids=["empty", "garbage", "cut"])
def test_a_damaged_commit_is_named(
    name: str, content: bytes, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    table = hudi_tables.copy(name, tmp_path)
    damaged = commits(table)[-1]
    damaged.write_bytes(content)
    text = refused(table)
    assert str(damaged.relative_to(table)) in text
    assert "restore that file, or roll its commit back" in text


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda table: with_setting(table, r"hoodie\.table\.name=.*", ""),
            "'hoodie.table.name' not found; mend .hoodie/hoodie.properties",
        ),
        (
            lambda table: with_setting(table, r"hoodie\.table\.type=.*", "hoodie.table.type=BOTH"),
            "'both' is not valid; mend .hoodie/hoodie.properties",
        ),
        (lambda table: [path.unlink() for path in commits(table)], "nothing was ever written to it"),
    ],
    ids=["no name", "odd type", "no commits"],
)
def test_what_to_mend_is_said(
    damage: Callable[[Path], object], said: str, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    table = hudi_tables.copy("cow_v9", tmp_path)
    damage(table)
    assert said in refused(table)


def test_a_file_that_hudi_did_not_write_is_named(hudi_tables: KeptTables, tmp_path: Path) -> None:
    table = hudi_tables.copy("cow_v6", tmp_path)
    base = next(path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)
    (base.parent / "part-0.parquet").write_bytes(base.read_bytes())
    text = refused(table)
    assert "'part-0.parquet'" in text
    assert "move it out of the table" in text


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 2}, "a decimal(100, 2)"),
        (
            {"type": "record", "name": "loop", "fields": [{"name": "x", "type": ["null", "loop"]}]},
            "or in itself",
        ),
        ("nobody", "it has a type nobody"),
    ],
    ids=["decimal", "recursive", "unknown"],
)
def test_a_column_that_cannot_be_read_is_named_without_a_trace(
    type_: Any, said: str, hudi_tables: KeptTables, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A type given by its name alone made hudi-rs panic and print a trace."""
    table = hudi_tables.copy("cow_v6", tmp_path)
    with_column(table, type_)
    text = refused(table)
    assert "column 'strange': " in text
    assert said in text
    assert "panicked" not in capfd.readouterr().err


def test_a_type_that_is_used_twice_is_read(
    hudi_tables: KeptTables, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = hudi_tables.copy("cow_v6", tmp_path)
    before = len(pruner.open_table(table).snapshot().slices)
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    pair = [{"name": "from", "type": point}, {"name": "to", "type": "point"}]
    with_column(table, {"type": "record", "name": "pair", "fields": pair})
    opened = pruner.open_table(table)
    assert len(opened.snapshot().slices) == before
    assert str(opened.schema.find(("strange", "to", "x")).type) == "int32"
    assert "panicked" not in capfd.readouterr().err
