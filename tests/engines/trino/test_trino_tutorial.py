"""The Trino tutorial on a real server: its blocks run, with the names that the test server has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.trino.server import aged
from tests.support.trino.tables import SCHEMA, TrinoTables
from tests.unit.test_tutorials import BLOCK, FOLDER, run_sh
from tools.trino.plugin import plugin_jar

PAGE = (FOLDER / "trino.md").read_text(encoding="utf-8")
COLUMNS = {"booking": "bigint", "guest": "string", "state": "string"}


@pytest.mark.trino
def test_every_block_runs(trino_tables: TrinoTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    answers: list[tuple[list[Any], int]] = []
    known = None
    for language, text in BLOCK.findall(PAGE):
        match language:
            case "python":
                exec(compile(text, "trino.md", "exec"), names)
                if "write_table" in text:
                    aged(tmp_path / "lake" / "bookings")  # a reader continues later than a test does
            case "toml":
                (entry,) = tomllib.loads(text)["tables"].values()
                assert entry == {"uri": "lake/bookings", "aliases": ["pruned.web.bookings"]}
                known = trino_tables.register(tmp_path / "lake" / "bookings", COLUMNS, indexed=False)
            case "properties":
                server = trino_tables.trino.server
                written = (server.folder / "catalog" / "pruned_hive.properties").read_text()
                for key in (line.partition("=")[0] for line in text.splitlines()):
                    assert re.search(rf"^{re.escape(key)}=", written, re.MULTILINE), key
            case "sql" if text.startswith("CREATE TABLE"):
                declared = dict(re.findall(r"(\w+) (BIGINT|VARCHAR)", text))
                assert declared.keys() == COLUMNS.keys()
            case "sql" if "system.runtime" in text:
                assert known is not None
                asked = text.replace("%bookings%", f"%FROM {known.name}%")
                rows = trino_tables.trino.run(asked, catalog="pruned_hive", schema=SCHEMA).rows
                lines = (json.dumps({"query": query.replace(known.name, "bookings")}) for (query,) in rows)
                (tmp_path / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
            case "sql":
                assert known is not None
                sql = text.replace("pruned.web.bookings", known.name)
                found = trino_tables.trino.run(sql, catalog="pruned_hive", schema=SCHEMA)
                answers.append((found.rows, known.splits(found)))
            case "sh" if "trino-plugin" in text:
                monkeypatch.setattr("pruner_trino._PLUGIN_JAR", plugin_jar())
                run_sh(text)
                written = tmp_path / "plugin" / "hive" / plugin_jar().name
                assert written.read_bytes() == plugin_jar().read_bytes()
            case _:
                assert language == "sh"
                assert "uninstall" in text or "question" in run_sh(text)
    (refused, first), (between, second), (guest, third) = answers
    assert (refused, first) == ([(77_777,)], 1)
    assert (between, second) == ([(4000,)], 2)
    assert guest == [(2,)]
    assert third < 10
    run_sh("pruner uninstall lake/bookings --yes")
