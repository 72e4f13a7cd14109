"""Made-up Hudi tables of four groups, with indexes of Hudi's own, and which of their files plans keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pruner
from tests.support.hudi.made_up.files import SCHEMA, Group, SyntheticTable
from tests.support.hudi.made_up.keys import SyntheticKeys
from tests.support.hudi.made_up.metadata import Stat, SyntheticMetadata

KEY = "_hoodie_record_key"
WITH_KEY = {
    **SCHEMA,
    "fields": [{"name": KEY, "type": ["null", "string"], "default": None}, *SCHEMA["fields"]],
}
BORN_NOW = {"hoodie.table.initial.version": "9"}
EVERYTHING = [0, 1, 2, 3]


class FourGroups:
    """A table of four groups, to which the ids 0 to 9, 10 to 19 and so on are given, in two partitions."""

    def __init__(self, root: Path, *how: Any) -> None:
        self.table = SyntheticTable(root, *how)
        self.table.insert(["city=a", "city=a", "city=b", "city=b"])
        self.groups = list(self.table.groups.values())

    def open(self, **options: Any) -> pruner.Table:
        return pruner.open_table(str(self.table.root), **options)

    def kept(self, predicate: str, **options: Any) -> list[int]:
        order = {group.file_id: number for number, group in enumerate(self.groups)}
        return sorted(order[entry.file_id] for entry in self.open(**options).plan(predicate).slices)

    def notes(self, predicate: str) -> str:
        return "\n".join(json.loads(self.open().plan(predicate).to_json())["fallbacks"])


class Keyed(FourGroups):
    """Such a table with indexes over its keys."""

    def __init__(
        self,
        root: Path,
        *,
        properties: Mapping[str, str] = BORN_NOW,
        partitions: str = "record_index",
        merge_on_read: bool = False,
    ) -> None:
        super().__init__(root, merge_on_read, WITH_KEY)
        with (root / ".hoodie" / "hoodie.properties").open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in properties.items())
        self.metadata = SyntheticMetadata(root, partitions=f"column_stats,files,{partitions}")
        self.metadata.create([stat for number in range(4) for stat in self.stats(number)])
        self.keys = SyntheticKeys(self.metadata)

    def stats(self, number: int, *, values: int = 10) -> list[Stat]:
        group = self.groups[number]
        ids = Stat(group.partition, group.base, "id", 0, 99, values=values)
        return [ids, Stat(group.partition, group.base, KEY, "0", "~", values=values)]

    def places(self, but: Mapping[str, Group] | None = None) -> dict[str, Group]:
        return {str(id_): self.groups[id_ // 10] for id_ in range(40)} | dict(but or {})
